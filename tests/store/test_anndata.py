"""Matrices of AnnData files, by rows and by columns, open as stores."""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr
from scipy import sparse

from dspectral import TruncatedSVD, pp
from dspectral.engine import summarize
from dspectral.store.anndata import open_anndata
from dspectral.store.counts import open_store
from dspectral.store.location import Location, StoreError
from tests.strategies import n_tasks, zipf_counts

anndata = pytest.importorskip("anndata")
h5py = pytest.importorskip("h5py")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # AnnData announces its next defaults
ROWS = zipf_counts(90, 40, 9).astype(np.float32)
DENSE, CSR, CSC = ROWS.toarray(), sparse.csr_matrix(ROWS), sparse.csc_matrix(ROWS)


def write(path, X, zarr_format=3):
    with anndata.settings.override(zarr_write_format=zarr_format):
        anndata.AnnData(X=X).write_zarr(path)
    return str(path)


@pytest.fixture
def url(tmp_path):
    return write(tmp_path / "cells.zarr", CSR)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_counts_and_their_sums_are_those_of_x(tmp_path, zarr_format):
    opened = open_store(write(tmp_path / "cells.zarr", CSR, zarr_format))
    back = opened.counts.compute()
    assert isinstance(back, sparse.csr_array)
    assert (back.dtype, opened.dtype) == (np.float32, np.float32)
    assert np.array_equal(back.toarray(), DENSE)
    assert (opened.shape, opened.n_rows, opened.n_columns, opened.nnz) == ((90, 40), 90, 40, ROWS.nnz)
    assert np.array_equal(opened.column_sums, DENSE.sum(axis=0))
    assert np.array_equal(opened.document_frequency, (DENSE != 0).sum(axis=0))
    assert opened.energy == (DENSE.astype(float) ** 2).sum()
    assert "90 x 40" in repr(opened)


@pytest.mark.parametrize("block_bytes", [1, 800, 5000, 1 << 30])
def test_blocks_have_a_maximum_size_and_one_task_each(url, block_bytes):
    opened = open_anndata(Location(url), block_bytes)
    counts = opened.counts
    assert np.array_equal(counts.compute().toarray(), DENSE)
    assert sum(opened.block_rows) == 90
    for piece in opened.slices:
        assert 8 * (piece.last - piece.first) <= block_bytes or piece.stop - piece.start == 1
    assert opened.n_blocks == {1: 90, 1 << 30: 1}.get(block_bytes, opened.n_blocks)
    assert n_tasks(opened.tfidf()) == opened.n_blocks


def test_sums_take_one_pass(url, monkeypatch):
    passes = []
    original = summarize
    monkeypatch.setattr("dspectral.store.rows.summarize", lambda *args, **kw: passes.append(1) or original(*args, **kw))
    opened = open_anndata(Location.from_url(url), block_bytes=800)
    assert opened.n_blocks > 2
    assert passes == []
    assert (opened.energy, opened.column_sums.sum()) == ((ROWS.data.astype(float) ** 2).sum(), ROWS.sum())
    assert opened.document_frequency.sum() == ROWS.nnz
    assert passes == [1]


def test_block_reads_its_own_chunks_only(tmp_path):
    url = write(tmp_path / "cells.zarr", CSR)
    for part in ("data", "indices"):
        values = zarr.open_array(f"{url}/X/{part}", mode="r")[:]
        zarr.create_array(f"{url}/X/{part}", data=values, chunks=(100,), overwrite=True)
        (Path(url) / "X" / part / "c" / "0").write_bytes(b"damaged")
    opened = open_anndata(Location(url), 800)
    first = next(i for i, piece in enumerate(opened.slices) if piece.first >= 100)
    start = opened.slices[first].start
    assert np.array_equal(opened.counts[start:].compute().toarray(), ROWS[start:].toarray())
    with pytest.raises(StoreError, match=rf"X of .*cells\.zarr, rows 0 to {opened.slices[0].stop}"):
        opened.counts[:1].compute()


def test_duplicates_and_zeros_are_removed(tmp_path):
    X = sparse.csr_matrix((np.array([1, 2, 0, 4.0]), np.array([3, 1, 0, 1]), np.array([0, 0, 3, 4, 4])), shape=(4, 5))
    opened = open_store(write(tmp_path / "cells.zarr", X))
    block = opened.counts.compute()
    assert np.array_equal(block.toarray(), X.toarray())
    assert (block.nnz, block.has_sorted_indices) == (3, True)
    assert opened.document_frequency.tolist() == [0, 2, 0, 1, 0]


def test_columns_out_of_range_and_broken_pointers_are_refused(url):
    indices = zarr.open_array(f"{url}/X/indices", mode="r+")
    indices[5] = 40
    with pytest.raises(StoreError, match=r"rows 0 to 90.*indices.* 40"):
        open_store(url).counts.compute()
    indptr = zarr.open_array(f"{url}/X/indptr", mode="r+")
    indptr[5] = 10**6
    with pytest.raises(StoreError, match=r"indptr.*91 entries"):
        open_store(url)


def test_group_of_one_matrix_opens_by_its_path(url):
    opened = open_store(f"{url}/X")
    assert opened.column_identity is None
    assert np.array_equal(opened.counts.compute().toarray(), DENSE)
    actual, expected = (TruncatedSVD(3).fit(rows).singular_values_ for rows in (opened, open_store(url)))
    assert np.array_equal(actual, expected)
    with pytest.raises(StoreError, match=r"no store.*obs"):
        open_store(f"{url}/obs")
    zarr.open_array(f"{url}/X/indptr", mode="r+")[-1] = 10**6  # more entries than there are
    with pytest.raises(StoreError, match=r"X, rows 0 to 90.*ind"):
        open_store(f"{url}/X").counts.compute()


@pytest.fixture(params=["h5ad", "zarr"])
def by_column(request, tmp_path):
    path, adata = str(tmp_path / f"cells.{request.param}"), anndata.AnnData(CSC, layers={"twice": 2 * CSC})
    adata.write_h5ad(path) if request.param == "h5ad" else adata.write_zarr(path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("run", [1, 7, 1 << 20])
def test_csc_matrix_is_read_in_blocks(by_column, run, monkeypatch):
    monkeypatch.setattr("dspectral.store.anndata.CSC_READ_ENTRIES", run)
    store = open_store(by_column, layer="twice")
    assert (store.shape, store.nnz, store.n_blocks) == ((90, 40), CSC.nnz, 1)
    block = store.counts.compute()
    np.testing.assert_array_equal(block.toarray(), 2 * DENSE)
    assert (block.has_sorted_indices, block.dtype) == (True, np.float32)
    assert store.energy == 4 * (DENSE**2).sum()
    with pytest.warns(UserWarning, match=r"X of .*cells.*\d+ blocks"):
        cut = open_anndata(Location(by_column), 500)
    assert max(piece.last - piece.first for piece in cut.slices) <= max(500 // 8, np.diff(CSR.indptr).max())
    np.testing.assert_array_equal(cut.counts.compute().toarray(), DENSE)
    np.testing.assert_array_equal(cut[[3, 80]].counts.compute().toarray(), DENSE[[3, 80]])


def test_csc_matrix_has_the_components_of_csr(by_column):
    pp.pca(by_column, 4)
    adata = anndata.read_h5ad(by_column) if by_column.endswith("h5ad") else anndata.read_zarr(by_column)
    np.testing.assert_array_equal(adata.obsm["X_pca"], pp.pca(CSR, 4))


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_csc_matrix_is_read_if_backed(mode, tmp_path):
    anndata.AnnData(CSC).write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed=mode)
    pp.pca(backed, 4)
    np.testing.assert_array_equal(backed.obsm["X_pca"], pp.pca(CSR, 4))
    backed.file.close()
    assert ("X_pca" in anndata.read_h5ad(tmp_path / "cells.h5ad").obsm) == (mode == "r+")


def test_csc_matrix_with_damage_is_refused(tmp_path):
    path = tmp_path / "cells.h5ad"
    anndata.AnnData(CSC).write_h5ad(path)
    store = open_store(str(path))
    with h5py.File(path, "r+") as file:
        file["X/indices"][5] = (file["X/indices"][5] + 1) % 90
        file["X/indices"][6] = 91
    with pytest.raises(StoreError, match=r"X of .*indices.*90"):
        open_store(str(path))
    with pytest.raises(StoreError, match="rows 0 to 90"):
        store.counts.compute()
    with h5py.File(path, "r+") as file:
        file["X/indptr"][3] = 10**6
    with pytest.raises(StoreError, match=r"indptr.*41 entries"):
        open_store(str(path))


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_matrix])
def test_integers_that_float32_rounds_are_refused(kind, tmp_path):
    path = tmp_path / "cells.h5ad"
    for largest, fits in ((2**24, True), (2**24 + 2, True), (2**24 + 1, False), (2**53 + 1, False)):
        X = np.array([[largest, 0], [3, 1]], dtype=np.int64)
        anndata.AnnData(kind(X)).write_h5ad(path)
        if fits:
            np.testing.assert_array_equal(open_store(str(path)).counts.compute().toarray(), X)
        else:
            with pytest.raises(StoreError, match=f"rows 0 to 2: {largest} .*exact"):
                open_store(str(path)).counts.compute()
        anndata.AnnData(X).write_h5ad(path)  # dense matrices keep their type
        pp.pca(path, 1)


CAPPED = """
import resource, sys
import dspectral.pp
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
dspectral.store.anndata.COLUMN_BLOCK_BYTES = 2 << 20
dspectral.pp.pca(sys.argv[1], 4)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_csc_matrix_is_never_whole_in_memory(tmp_path):
    rng = np.random.default_rng(3)
    X = sparse.random_array((60_000, 400), density=0.4, format="csc", rng=rng, dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        anndata.AnnData(sparse.csc_matrix(X)).write_h5ad(tmp_path / "cells.h5ad")
    call = [sys.executable, "-W", "ignore", "-c", CAPPED, str(tmp_path / "cells.h5ad")]
    grown = int(subprocess.run(call, check=True, capture_output=True, text=True).stdout) * 1024
    assert X.nnz * 8 > 70e6
    assert grown < X.nnz * 8
