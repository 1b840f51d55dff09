"""Entries weighed by column and divided by row, beside NumPy's functions of whole arrays."""

import numpy as np
import pytest
from scipy import sparse

from dspectral.linalg.sparse_products import divide_entries, scaled_to_length


def rows_of(dtype):
    rows = sparse.csr_array(sparse.random_array((40, 30), density=0.3, rng=3, dtype=dtype))
    rows.data -= dtype(0.4)
    # A row of explicit zeros, and one without entries.
    rows.data[rows.indptr[7] : rows.indptr[8]] = 0
    return sparse.csr_array(sparse.vstack([rows, sparse.csr_array((1, 30), dtype=dtype)]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("norm", [None, "l1", "l2"])
@pytest.mark.parametrize("weighed", [False, True])
def test_scaled_entries_have_the_bits_of_whole_arrays(dtype, norm, weighed):
    rows = rows_of(dtype)
    weights = np.random.default_rng(0).random(30) if weighed else None
    expected = rows.data * weights.astype(dtype)[rows.indices] if weighed else rows.data.copy()
    if norm is not None:
        row = np.repeat(np.arange(41), np.diff(rows.indptr))
        exact = expected.astype(np.float64)
        sums = np.bincount(row, np.abs(exact) if norm == "l1" else exact * exact, minlength=41)
        sizes = sums if norm == "l1" else np.sqrt(sums)
        expected = (expected / np.where(sizes > 0, sizes, 1.0)[row]).astype(dtype)
    before = rows.data.copy()
    found = scaled_to_length(rows.data, rows, weights, norm)
    assert found.dtype == dtype
    assert found.tobytes() == expected.tobytes()
    np.testing.assert_array_equal(rows.data, before)


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize(("start", "stop"), [(0, 41), (0, 0), (5, 9), (40, 41)])
def test_divided_entries_have_the_bits_of_whole_arrays(by_column, start, stop):
    rows, rng = rows_of(np.float64), np.random.default_rng(1)
    divisors, columns = rng.random(41) + 0.1, rng.random(30) + 0.1 if by_column else np.empty(0)
    chosen = slice(rows.indptr[start], rows.indptr[stop])
    expected = rows.data / np.repeat(divisors, np.diff(rows.indptr))
    expected = expected / columns[rows.indices] if by_column else expected
    values = rows.data[chosen].copy()
    divide_entries(values, rows, start, divisors, columns)
    assert values.tobytes() == expected[chosen].tobytes()
