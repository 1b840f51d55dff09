"""A damaged block is named, and left out on request."""

import json

import numpy as np
import pytest
from scipy import sparse

from dspectral import open_store, write_counts
from workflows import sketch_scaling


@pytest.fixture
def damaged(tmp_path):
    """A store of four blocks, the third of which has a byte that is not as it was written."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.poisson(0.6, (40, 12)).astype(np.float32))
    url = str(tmp_path / "counts")
    store = write_counts(X, url, labels=sparse.csr_array(np.eye(4)[np.arange(40) % 4]), block_rows=10)
    chunk = max(
        (tmp_path / "counts" / store.blocks[2].name / "data").rglob("c*/0"), key=lambda p: p.stat().st_size
    )
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
    assert name in store._repr_html_()
    assert np.array_equal(store.counts.compute().toarray(), rows.toarray())
    assert np.array_equal(store.labels.compute().toarray(), np.eye(4)[kept % 4])
    assert np.array_equal(store.column_sums, rows.sum(axis=0))
    assert np.array_equal(store.document_frequency, (rows != 0).sum(axis=0))
    assert store.energy == rows.multiply(rows).sum()


def test_wrong_names_and_all_names_are_refused(damaged):
    every = [block.name for block in open_store(damaged[0]).blocks]
    for wrong in ("blocks/nothing", ["blocks/nothing"], every):
        with pytest.raises(ValueError, match="without"):
            open_store(damaged[0], without=wrong)


def test_the_report_says_what_was_left_out(damaged, tmp_path):
    url, name, *_ = damaged
    out = ["--out", str(tmp_path / "out")]
    sketch_scaling.main(["--store", url, "--without", name, "--sketch-size=8", "--repeats=1", *out])
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert any(name in note for note in report["notes"])


def test_a_file_of_anndata_has_no_names_of_blocks(tmp_path):
    anndata = pytest.importorskip("anndata")
    anndata.AnnData(sparse.csr_matrix(np.eye(3))).write_h5ad(tmp_path / "a.h5ad")
    with pytest.raises(ValueError, match="have no names"):
        open_store(str(tmp_path / "a.h5ad"), without=["blocks/0"])
