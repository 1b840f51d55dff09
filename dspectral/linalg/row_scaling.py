"""Entries of a CSR block times and over numbers of their rows and columns, in one sweep without further arrays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.types import CSRRows, FloatArray, IntArray

__all__ = ["divide_entries", "scaled_to_length"]


def scaled_to_length(
    data: NDArray[Any], rows: CSRRows, column_weights: FloatArray | None, norm: str | None
) -> FloatArray:
    """Return entries times the weights of their columns, over the lengths of their rows.

    Shapes: `data` (nnz,), `rows` (n, d), `column_weights` (d,); returns (nnz,).

    >>> from scipy import sparse
    >>> rows = sparse.csr_array([[0.0, 3.0], [4.0, 2.0]])
    >>> scaled_to_length(rows.data, rows, np.array([0.5, 1.0]), "l1")
    array([1. , 0.5, 0.5])
    """
    out = np.empty(len(data), dtype=data.dtype)
    weights = np.empty(0, data.dtype) if column_weights is None else column_weights.astype(data.dtype)
    power = {None: 0, "l1": 1, "l2": 2}[norm]
    _scale(read_only(data), read_only(rows.indices), read_only(rows.indptr), read_only(weights), power, out)
    return out


def divide_entries(
    values: NDArray[np.float64],
    rows: CSRRows,
    first: int,
    by_row: NDArray[np.float64],
    by_column: NDArray[np.float64],
) -> None:
    """Divide entries by a number of their row, and then by one of their column, in place.

    Shapes: `rows` (n, d), `by_row` (n,), `by_column` (d,).

    >>> from scipy import sparse
    >>> values = np.array([6.0, 8.0])
    >>> rows = sparse.csr_array([[1.0, 0.0], [1.0, 1.0]])
    >>> divide_entries(values, rows, 1, np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    >>> values
    array([1., 1.])
    """
    _divide(values, read_only(rows.indices), read_only(rows.indptr), first, by_row, by_column)


@compiled
def _scale(
    data: FloatArray, indices: IntArray, indptr: IntArray, weights: FloatArray, power: int, out: FloatArray
) -> None:
    """Weigh the entries of each row while they are added up, and divide them while they are in the cache."""
    number = out.dtype.type
    # Invariant: rows before i are done. Sums are in the order of the entries, one product rounded at a time, so that
    # they have the bits that NumPy's functions of whole arrays give. Two multiplications and a division an entry.
    for i in range(indptr.size - 1):
        first, last = indptr[i], indptr[i + 1]
        total = 0.0
        for entry in range(first, last):
            value = data[entry] * weights[indices[entry]] if weights.size else data[entry]
            out[entry] = value
            total += abs(np.float64(value)) if power == 1 else np.float64(value) * np.float64(value)
        if power:
            size = np.sqrt(total) if power == 2 else total
            if size > 0:
                for entry in range(first, last):
                    out[entry] = number(np.float64(out[entry]) / size)


@compiled
def _divide(
    values: NDArray[np.float64],
    indices: IntArray,
    indptr: IntArray,
    first: int,
    by_row: NDArray[np.float64],
    by_column: NDArray[np.float64],
) -> None:
    """Walk through the entries with a counter of the row: two divisions an entry."""
    start, i = indptr[first], first
    for k in range(values.size):
        while start + k >= indptr[i + 1]:
            i += 1
        value = values[k] / by_row[i]
        values[k] = value / by_column[indices[start + k]] if by_column.size else value
