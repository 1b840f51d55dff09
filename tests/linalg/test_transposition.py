"""Blocks by columns, products that need them, and entries weighed by column and divided by row."""

import numpy as np
import pytest
from scipy import sparse

from dspectral.linalg import sparse_products
from dspectral.linalg.sparse_products import (
    TransposeBuffer,
    divide_entries,
    gram_times,
    gram_times_eight,
    iter_transposed_panels,
    slice_rows,
    times,
    transpose_times,
    weight_and_normalize,
)


def rows_of(shape, *, density=0.2, dtype=np.float32, seed=0):
    return sparse.csr_array(sparse.random_array(shape, density=density, rng=seed, dtype=dtype))


@pytest.mark.parametrize("shape", [(30, 7), (7, 30), (1, 1), (5, 0), (0, 5)])
def test_a_transpose_is_scipys_also_where_a_larger_one_was(shape):
    A = rows_of(shape, density=0.5)
    room = TransposeBuffer.allocate(A, A.nnz)
    for block in (A, slice_rows(A, 0, shape[0] // 2)):
        expected = block.T.tocsr()
        for part, reference in zip(
            room.transpose(block), (expected.data, expected.indices, expected.indptr), strict=True
        ):
            np.testing.assert_array_equal(part, reference)
            assert part.dtype == reference.dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [3, 32, 47])
def test_products_have_the_same_bits_for_any_size_of_the_cache(dtype, width, monkeypatch):
    # Rows of 0 to 25 entries: those at the end of a row are added one by one, the others four by four.
    A = sparse.csr_array(sparse.tril(rows_of((60, 25), density=0.9, dtype=dtype), k=-3))
    monkeypatch.setattr(sparse_products, "DENSE_SHARE", 2.0)
    rng = np.random.default_rng(1)
    Z, Y = rng.standard_normal((25, width)).astype(dtype), rng.standard_normal((60, width)).astype(dtype)
    whole = times(A, Z), transpose_times(A, Y), gram_times(A, Z)
    np.testing.assert_allclose(whole[0], A @ Z, rtol=1e-4, atol=1e-5)
    for n_rows in (1, 7, 24):
        monkeypatch.setattr("dspectral.linalg.sparse_products.CACHE_BYTES", n_rows * Z[0].nbytes)
        for actual, expected in zip((times(A, Z), transpose_times(A, Y), gram_times(A, Z)), whole, strict=True):
            assert actual.tobytes() == expected.tobytes()
        monkeypatch.setattr(sparse_products, "RANDOM_ACCESS_BYTES", 0)  # by transposed rows
        assert gram_times(A, Z).tobytes() == whole[2].tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "tile"), [(60, 1 << 20), (16, 16 * 8 * 8), (1, 1)])
def test_a_block_of_few_zeros_is_multiplied_in_dense_tiles(dtype, rows, tile, monkeypatch):
    monkeypatch.setattr(sparse_products, "TILE_ROWS", rows)
    monkeypatch.setattr(sparse_products, "TILE_BYTES", tile)
    A = sparse.csr_array(sparse.tril(rows_of((60, 25), density=0.9, dtype=dtype), k=3))
    Z = np.random.default_rng(1).standard_normal((25, 33)).astype(dtype)
    assert sparse_products.is_nearly_dense(A)
    assert not sparse_products.is_nearly_dense(rows_of((60, 25)))
    assert not sparse_products.is_nearly_dense(rows_of((0, 25)))
    actual = gram_times(A, Z)
    assert actual.dtype == dtype
    gram = sparse_products.gram(A)
    monkeypatch.setattr(sparse_products, "DENSE_SHARE", 2.0)
    for n_entries in (1, 100, 1 << 18):
        monkeypatch.setattr(sparse_products, "GRAM_PANEL_ENTRIES", n_entries)
        np.testing.assert_allclose(sparse_products.gram(A), gram, rtol=1e-12)
    np.testing.assert_allclose(actual, A.T @ (A @ Z), rtol=1e-4 if dtype == np.float32 else 1e-12, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_gram_matrix_times_eight_columns_adds_entry_by_entry_in_double(dtype):
    A = rows_of((60, 25), dtype=dtype)
    Z = np.random.default_rng(1).standard_normal((25, 8)).astype(dtype)
    actual = gram_times_eight(A, list(iter_transposed_panels(A, 1_000_000, keep_transposes=True)), Z)
    assert actual.dtype == np.float64
    np.testing.assert_allclose(actual, A.T @ (A @ Z), rtol=1e-5 if dtype == np.float32 else 1e-12, atol=1e-5)


def test_many_equal_rows_lose_nothing_in_their_sum():
    # In single precision the sum stops to grow at 2^24 times a term.
    A = sparse.csr_array(np.full((1 << 12, 1), 4097.0, dtype=np.float32))
    Z = np.ones((1, 8), dtype=np.float32)
    actual = gram_times_eight(A, list(iter_transposed_panels(A, 8, keep_transposes=True)), Z)
    assert (actual == (1 << 12) * np.float64(np.float32(4097.0) * np.float32(4097.0))).all()


def signed_rows(dtype):
    rows = sparse.csr_array(sparse.random_array((40, 30), density=0.3, rng=3, dtype=dtype))
    rows.data -= dtype(0.4)
    # A row of explicit zeros, and one without entries.
    rows.data[rows.indptr[7] : rows.indptr[8]] = 0
    return sparse.csr_array(sparse.vstack([rows, sparse.csr_array((1, 30), dtype=dtype)]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("norm", [None, "l1", "l2"])
@pytest.mark.parametrize("weighed", [False, True])
def test_scaled_entries_have_the_bits_of_whole_arrays(dtype, norm, weighed):
    rows = signed_rows(dtype)
    weights = np.random.default_rng(0).random(30) if weighed else None
    expected = rows.data * weights.astype(dtype)[rows.indices] if weighed else rows.data.copy()
    if norm is not None:
        row = np.repeat(np.arange(41), np.diff(rows.indptr))
        exact = expected.astype(np.float64)
        sums = np.bincount(row, np.abs(exact) if norm == "l1" else exact * exact, minlength=41)
        sizes = sums if norm == "l1" else np.sqrt(sums)
        expected = (expected / np.where(sizes > 0, sizes, 1.0)[row]).astype(dtype)
    before = rows.data.copy()
    actual = weight_and_normalize(rows.data, rows, weights, norm)
    assert actual.dtype == dtype
    assert actual.tobytes() == expected.tobytes()
    np.testing.assert_array_equal(rows.data, before)


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize(("start", "stop"), [(0, 41), (0, 0), (5, 9), (40, 41)])
def test_divided_entries_have_the_bits_of_whole_arrays(by_column, start, stop):
    rows, rng = signed_rows(np.float64), np.random.default_rng(1)
    divisors, columns = rng.random(41) + 0.1, rng.random(30) + 0.1 if by_column else np.empty(0)
    chosen = slice(rows.indptr[start], rows.indptr[stop])
    expected = rows.data / np.repeat(divisors, np.diff(rows.indptr))
    expected = expected / columns[rows.indices] if by_column else expected
    values = rows.data[chosen].copy()
    divide_entries(values, rows, start, divisors, columns)
    assert values.tobytes() == expected[chosen].tobytes()
