"""A matrix that AnnData wrote opens as a store."""

import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr
from scipy import sparse

from dspectral import TruncatedSVD
from dspectral.engine import summarize
from dspectral.store.anndata import open_anndata
from dspectral.store.counts import open_store
from dspectral.store.location import Location, StoreError
from tests.strategies import n_tasks, zipf_counts

anndata = pytest.importorskip("anndata")
ROWS = zipf_counts(90, 40, 9).astype(np.float64)


def write(path, X, zarr_format=3):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # AnnData announces its next defaults
        with anndata.settings.override(zarr_write_format=zarr_format):
            anndata.AnnData(X=X).write_zarr(path)
    return str(path)


@pytest.fixture
def url(tmp_path):
    return write(tmp_path / "cells.zarr", sparse.csr_matrix(ROWS))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_counts_and_their_sums_are_those_of_x(tmp_path, zarr_format):
    opened = open_store(write(tmp_path / "cells.zarr", sparse.csr_matrix(ROWS), zarr_format))
    dense = ROWS.toarray()
    back = opened.counts.compute()
    assert isinstance(back, sparse.csr_array)
    assert (back.dtype, opened.dtype) == (np.float32, np.float32)
    assert np.array_equal(back.toarray(), dense)
    assert (opened.shape, opened.n_rows, opened.n_columns, opened.nnz) == ((90, 40), 90, 40, ROWS.nnz)
    assert np.array_equal(opened.column_sums, dense.sum(axis=0))
    assert np.array_equal(opened.document_frequency, (dense != 0).sum(axis=0))
    assert opened.energy == (dense**2).sum()
    assert "90 x 40" in repr(opened)


@pytest.mark.parametrize("block_bytes", [1, 800, 5000, 1 << 30])
def test_blocks_are_cut_to_size_and_each_is_one_task(url, block_bytes):
    opened = open_anndata(Location(url), block_bytes)
    counts = opened.counts
    assert np.array_equal(counts.compute().toarray(), ROWS.toarray())
    assert sum(opened.block_rows) == 90
    for piece in opened.slices:
        assert 8 * (piece.last - piece.first) <= block_bytes or piece.stop - piece.start == 1
    assert opened.n_blocks == {1: 90, 1 << 30: 1}.get(block_bytes, opened.n_blocks)
    assert n_tasks(opened.tfidf()) == opened.n_blocks


def test_one_pass_finds_all_sums(url, monkeypatch):
    passes = []
    original = summarize
    monkeypatch.setattr("dspectral.store.rows.summarize", lambda *args, **kw: passes.append(1) or original(*args, **kw))
    opened = open_anndata(Location.from_url(url), block_bytes=800)
    assert opened.n_blocks > 2
    assert passes == []
    assert (opened.energy, opened.column_sums.sum()) == ((ROWS.data**2).sum(), ROWS.sum())
    assert opened.document_frequency.sum() == ROWS.nnz
    assert passes == [1]


def test_a_block_reads_its_own_entries_alone(tmp_path):
    X = sparse.csr_matrix(ROWS)
    url = write(tmp_path / "cells.zarr", X)
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


def test_repeated_entries_zeros_and_empty_rows_are_put_in_order(tmp_path):
    X = sparse.csr_matrix((np.array([1, 2, 0, 4.0]), np.array([3, 1, 0, 1]), np.array([0, 0, 3, 4, 4])), shape=(4, 5))
    opened = open_store(write(tmp_path / "cells.zarr", X))
    block = opened.counts.compute()
    assert np.array_equal(block.toarray(), X.toarray())
    assert (block.nnz, block.has_sorted_indices) == (3, True)
    assert opened.document_frequency.tolist() == [0, 2, 0, 1, 0]


def test_columns_out_of_range_and_broken_pointers_are_found(url):
    indices = zarr.open_array(f"{url}/X/indices", mode="r+")
    indices[5] = 40
    with pytest.raises(StoreError, match=r"rows 0 to 90.*below 40"):
        open_store(url).counts.compute()
    indptr = zarr.open_array(f"{url}/X/indptr", mode="r+")
    indptr[5] = 10**6
    with pytest.raises(StoreError, match=r"indptr.*91 entries"):
        open_store(url)


def test_a_group_of_one_matrix_opens_by_its_path_and_is_decomposed(url):
    opened = open_store(f"{url}/X")
    assert opened.column_identity is None
    assert np.array_equal(opened.counts.compute().toarray(), ROWS.toarray())
    found, expected = (TruncatedSVD(3).fit(rows).singular_values_ for rows in (opened, open_store(url)))
    assert np.array_equal(found, expected)
    with pytest.raises(StoreError, match=r"no store.*obs"):
        open_store(f"{url}/obs")
    zarr.open_array(f"{url}/X/indices", mode="r+")[5] = -1
    with pytest.raises(StoreError, match=r"X, rows 0 to 90.*below 40"):
        open_store(f"{url}/X").counts.compute()
    zarr.open_array(f"{url}/X/indptr", mode="r+")[-1] = 10**6  # more entries than there are
    with pytest.raises(StoreError, match=r"X, rows 0 to 90.*below 40"):
        open_store(f"{url}/X").counts.compute()
    zarr.open_array(f"{url}/X/indptr", mode="r+")[0] = 1
    with pytest.raises(StoreError, match=r"X: indptr.*91 entries"):
        open_store(f"{url}/X")


def test_a_path_is_no_rows(url):
    for rows in (url, Path(url)):
        with pytest.raises(TypeError, match=r"X=.*cells\.zarr.*open_store"):
            TruncatedSVD(3).fit(rows)


def test_a_file_without_its_matrix_is_refused(url):
    shutil.rmtree(Path(url) / "X")
    with pytest.raises(StoreError, match=r"X.*csr_matrix"):
        open_store(url)
