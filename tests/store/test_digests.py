"""Damage under valid checksums, and blocks left out: what was exchanged, edited or forged is never read as data."""

import json
import re
import shutil

import numpy as np
import pytest
import zarr
from scipy import sparse

from dspectral import build_corpus, open_corpus, open_store, write_counts
from dspectral.decomposition.estimators import TruncatedSVD
from dspectral.store import CountStore, StoreError
from dspectral.store.arrays import CONTENT_HASH, compute_digest
from workflows import sketch_scaling

CHECK = CountStore.check


@pytest.fixture
def store(tmp_path):
    """Three blocks of equal sizes and numbers of entries."""
    rng = np.random.default_rng(0)
    columns = np.sort([rng.permutation(20)[:4] for _ in range(30)], axis=1)
    rows = sparse.csr_array((rng.integers(1, 9, 120).astype(float), columns.ravel(), np.arange(0, 121, 4)))
    labels = sparse.csr_array(np.eye(3)[rng.integers(3, size=30)])
    return write_counts(rows, str(tmp_path / "counts.zarr"), labels=labels, block_rows=10)


def edit(store, path, change):
    """Write an array of a store anew, with right checksums."""
    array = zarr.open_array(store.location.url, path=path, mode="a")
    values = array[...]
    array[...] = change(values)


def name(store, i, part):
    return f"{store.location.url}/{store.blocks[i].name}/{part}"


def test_blocks_that_changed_places_are_refused(store, tmp_path):
    for part in ("data", "indices", "indptr"):
        shutil.move(name(store, 0, part), tmp_path / "aside")
        shutil.move(name(store, 1, part), name(store, 0, part))
        shutil.move(tmp_path / "aside", name(store, 1, part))
    with pytest.raises(StoreError, match=r"block blocks/0000-00000[01]: its content"):
        store.counts.compute()


@pytest.mark.parametrize(
    "change",
    [
        {"n_columns": 7},
        {"blocks": lambda blocks: [blocks[0], blocks[1], blocks[1]]},
        {"format": 1},
        {"format": 3},
        {CONTENT_HASH: None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_root_that_was_edited_or_is_of_another_format_does_not_open(store, change):
    ((key, value),) = change.items()
    if callable(value):
        value = value(zarr.open_group(store.location.url).attrs["dspectral"][key])
    root = zarr.open_group(store.location.url, mode="a")
    root.attrs["dspectral"] = {**root.attrs["dspectral"], key: value}
    with pytest.raises(StoreError, match=re.escape(store.location.url)):
        open_store(store.location.url)


@pytest.mark.parametrize(
    ("path", "read", "said"),
    [
        ("totals/0000/column_sums", lambda store: store.column_sums, "column_sums"),
        ("totals/0000/document_frequency", CHECK, "document_frequency"),
        ("blocks/0000-000001/column_sums", CHECK, "sums"),
        ("blocks/0000-000000/labels/indices", lambda store: store.labels.compute(), "content"),
    ],
)
def test_sums_and_labels_that_were_edited_are_refused(store, path, read, said):
    edit(store, path, lambda values: values[::-1] + 1)
    with pytest.raises(StoreError, match=said):
        read(store)


def test_a_mark_that_was_edited_is_held_against_the_root(store):
    group = zarr.open_group(store.location.url, path=store.blocks[2].name, mode="a")
    group.attrs["block"] = [0, *group.attrs["block"][1:]]
    with pytest.raises(StoreError, match=r"mark.*root"):
        store.check()


def test_the_same_bytes_of_another_type_or_cut_otherwise_have_another_digest():
    ones = np.ones(4, dtype=np.int64)
    others = [(ones.view(np.uint64),), (ones.view(np.int32),), (ones.reshape(2, 2),), (ones[:1], ones[1:])]
    assert len({compute_digest(ones), *(compute_digest(*arrays) for arrays in others)}) == 1 + len(others)


def test_a_matrix_in_memory_with_a_bad_index_is_refused():
    rows = sparse.csr_array(np.eye(5))
    rows.indices[2] = 99
    with pytest.raises(ValueError, match=r"column 99.*5 columns"):
        TruncatedSVD(2).fit(rows)


def test_a_corpus_is_checked_as_a_store_is(tmp_path):
    (tmp_path / "text.txt").write_text("a b c\na b\n", encoding="utf-8")
    corpus = build_corpus(str(tmp_path / "text.txt"), str(tmp_path / "corpus.zarr"))
    corpus.check()
    edit(corpus, f"{corpus.blocks[0].name}/ids", lambda ids: ids[::-1])
    with pytest.raises(StoreError, match=f"{corpus.blocks[0].name}: .*content"):
        open_corpus(corpus.location.url).check()
    edit(corpus, "vocabulary/counts", lambda counts: counts[::-1])
    with pytest.raises(StoreError, match=rf"{re.escape(corpus.location.url)}.*vocabulary"):
        _ = open_corpus(corpus.location.url).words


@pytest.fixture
def damaged(tmp_path):
    """A store of four blocks, the third of which has a byte that is not as it was written."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.poisson(0.6, (40, 12)).astype(np.float32))
    url = str(tmp_path / "counts")
    store = write_counts(X, url, labels=sparse.csr_array(np.eye(4)[np.arange(40) % 4]), block_rows=10)
    chunk = max((tmp_path / "counts" / store.blocks[2].name / "data").rglob("c*/0"), key=lambda p: p.stat().st_size)
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    kept = np.r_[0:20, 30:40]
    return url, store.blocks[2].name, X[kept], kept


def test_a_damaged_block_is_named_and_the_others_are_read_without_it(damaged):
    url, name, rows, kept = damaged
    with pytest.raises(ValueError, match=f"block {name}"):
        open_store(url).counts.compute()
    store = open_store(url, without=[name])
    assert store.left_out == (name,)
    assert np.array_equal(store.counts.compute().toarray(), rows.toarray())
    assert np.array_equal(store.labels.compute().toarray(), np.eye(4)[kept % 4])
    assert np.array_equal(store.column_sums, rows.sum(axis=0))
    assert np.array_equal(store.document_frequency, (rows != 0).sum(axis=0))
    assert store.energy == rows.multiply(rows).sum()


def test_the_report_says_what_was_left_out(damaged, tmp_path):
    url, name, *_ = damaged
    out = ["--out", str(tmp_path / "out")]
    sketch_scaling.main(["--store", url, "--without", name, "--sketch-size=8", "--repeats=1", *out])
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert any(name in note for note in report["notes"])
