"""Damage under valid checksums: what was exchanged, edited or forged is named and never read as data."""

import shutil

import numpy as np
import pytest
import zarr
from scipy import sparse

from dspectral import build_corpus, open_corpus, open_store, write_counts
from dspectral.decomposition.estimators import TruncatedSVD
from dspectral.store import StoreError
from dspectral.store.arrays import SEAL, digest_of, sealed


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
    array = zarr.open_array(store.where.url, path=path, mode="a")
    values = array[...]
    array[...] = change(values)


def edit_root(store, key="dspectral", *, reseal=True, **changes):
    """Change entries of a root, sealed anew or with the old seal."""
    root = zarr.open_group(store.where.url, mode="a")
    head = {**root.attrs[key], **changes}
    root.attrs[key] = (
        sealed({name: value for name, value in head.items() if name != SEAL}) if reseal else head
    )


def name(store, i, part):
    return f"{store.where.url}/{store.blocks[i].name}/{part}"


def test_blocks_that_changed_places_are_refused(store, tmp_path):
    for part in ("data", "indices", "indptr"):
        shutil.move(name(store, 0, part), tmp_path / "aside")
        shutil.move(name(store, 1, part), name(store, 0, part))
        shutil.move(tmp_path / "aside", name(store, 1, part))
    with pytest.raises(StoreError, match=r"block blocks/0000-00000[01]: its content is not what was written"):
        store.counts.compute()


@pytest.mark.parametrize(
    "change",
    [
        {"n_columns": 7},
        {"blocks": lambda blocks: [blocks[0], blocks[1], blocks[1]]},
        {"format": 1},
        {"format": 3},
        {SEAL: None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_root_that_was_edited_or_is_of_another_format_does_not_open(store, change):
    ((key, value),) = change.items()
    if callable(value):
        value = value(zarr.open_group(store.where.url).attrs["dspectral"][key])
    edit_root(store, reseal=False, **{key: value})
    with pytest.raises(StoreError, match=r"was changed after it was written|build the store again"):
        open_store(store.where.url)


@pytest.mark.parametrize("part", ["column_sums", "document_frequency"])
def test_sums_that_were_edited_are_refused(store, part):
    edit(store, f"totals/0000/{part}", lambda values: values + 1)
    with pytest.raises(StoreError, match=f"{part} is not what was written"):
        getattr(store, part)
    with pytest.raises(StoreError, match=f"{part} is not what was written"):
        store.check()


def test_sums_of_a_block_are_held_against_its_mark(store):
    edit(store, f"{store.blocks[1].name}/column_sums", lambda values: values + 1)
    with pytest.raises(StoreError, match="its sums are not those that were written"):
        store.check()


def test_a_mark_that_was_edited_is_held_against_the_root(store):
    group = zarr.open_group(store.where.url, path=store.blocks[2].name, mode="a")
    group.attrs["energy"] = 1.0
    with pytest.raises(StoreError, match="its mark and the store's root do not agree"):
        store.check()


def test_the_same_bytes_of_another_type_or_cut_otherwise_have_another_digest():
    ones = np.ones(4, dtype=np.int64)
    others = [(ones.view(np.uint64),), (ones.view(np.int32),), (ones.reshape(2, 2),), (ones[:1], ones[1:])]
    assert len({digest_of(ones), *(digest_of(*arrays) for arrays in others)}) == 1 + len(others)


def test_labels_have_a_digest_too(store):
    edit(store, f"{store.blocks[0].name}/labels/indices", lambda values: values[::-1])
    with pytest.raises(StoreError, match="its content is not what was written here"):
        store.labels.compute()


@pytest.mark.parametrize(
    ("part", "at", "value", "said"),
    [("indices", 5, 20, "column 20"), ("indices", 5, -1, "column -1"), ("indptr", 3, 99, "row pointers")],
)
def test_indices_that_point_outside_are_refused_where_no_digest_tells(store, part, at, value, said):
    edit(
        store,
        f"{store.blocks[0].name}/{part}",
        lambda values: np.where(np.arange(len(values)) == at, value, values),
    )
    first, *others = zarr.open_group(store.where.url).attrs["dspectral"]["blocks"]
    arrays = [
        zarr.open_array(f"{store.where.url}/{first[0]}/{name}")[...] for name in ("data", "indices", "indptr")
    ]
    edit_root(store, blocks=[[*first[:9], digest_of(*arrays), first[10]], *others])
    with pytest.raises(StoreError, match=f"block blocks/0000-000000: .*{said}"):
        TruncatedSVD(2).fit(open_store(store.where.url))


def test_a_matrix_in_memory_with_a_bad_index_is_refused():
    rows = sparse.csr_array(np.eye(5))
    rows.indices[2] = 99
    with pytest.raises(ValueError, match="column 99 is not one of its 5 columns"):
        TruncatedSVD(2).fit(rows)


def test_a_corpus_is_checked_as_a_store_is(tmp_path):
    (tmp_path / "text.txt").write_text("a b c\na b\n", encoding="utf-8")
    corpus = build_corpus(str(tmp_path / "text.txt"), str(tmp_path / "corpus.zarr"))
    corpus.check()
    edit(corpus, f"{corpus.blocks[0].name}/ids", lambda ids: ids[::-1])
    with pytest.raises(StoreError, match="its content is not what was written here"):
        open_corpus(corpus.where.url).check()
    edit(corpus, f"{corpus.blocks[0].name}/ids", lambda ids: ids + 100)
    head = zarr.open_group(corpus.where.url).attrs["dspectral-corpus"]
    ids, offsets = (
        zarr.open_array(f"{corpus.where.url}/{corpus.blocks[0].name}/{part}")[...]
        for part in ("ids", "offsets")
    )
    edit_root(corpus, "dspectral-corpus", blocks=[[*head["blocks"][0][:4], digest_of(ids, offsets)]])
    older = open_corpus(corpus.where.url)
    with pytest.raises(StoreError, match="a type that is none of the 4 of the corpus"):
        older.sentences.read(older.blocks[0])
    edit(corpus, "vocabulary/counts", lambda counts: counts[::-1])
    with pytest.raises(StoreError, match="the vocabulary is not what was written"):
        _ = open_corpus(corpus.where.url).words
