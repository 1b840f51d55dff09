"""Products ``A'(A Z)`` of a CSR block with eight columns, again and again, summed over its rows in double precision.

Few columns make a product a question of memory alone: each entry of A reads a row of Z, and adds to a row of the
result. Rows are therefore only gathered, from A by rows and from A by columns, and the eight sums stay in registers:
nothing is added to at random places, which takes more than twice as long.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled_with_contraction
from dspectral.linalg.transposition import ByColumns, Room
from dspectral.types import CSRRows, FloatArray, IntArray

EIGHT = 8


class GramOfEight:
    """Operator ``A'A`` on eight columns.

    Shapes: `A` (n, d).

    A copy of the block by columns, and eight numbers a row. ``32 nnz`` flops a product.

    >>> from scipy import sparse
    >>> ones = sparse.csr_array(np.ones((1000, 1), dtype=np.float32))
    >>> GramOfEight(ones) @ np.full((1, 8), 0.5, dtype=np.float32)
    array([[500., 500., 500., 500., 500., 500., 500., 500.]])
    """

    def __init__(self, A: CSRRows, by_columns: ByColumns | None = None) -> None:
        self._rows = A
        self._columns = Room.of(A, A.nnz).transposed(A) if by_columns is None else by_columns

    def __matmul__(self, Z: FloatArray) -> NDArray[np.float64]:
        """Return the product with ``Z`` of shape (d, 8); ``A Z`` is rounded to Z's precision, sums of it are not."""
        if Z.shape[1] != EIGHT:
            raise ValueError(f"the factor has {Z.shape[1]} columns, but must have {EIGHT}")
        A = self._rows
        Y, out = np.empty((A.shape[0], EIGHT), dtype=Z.dtype), np.empty((A.shape[1], EIGHT))
        _gather_eight(A.data, A.indices, A.indptr, np.ascontiguousarray(Z), Y)
        _gather_eight(*self._columns, Y, out)
        return out


@compiled_with_contraction
def _gather_eight(
    data: NDArray[Any], indices: IntArray, indptr: IntArray, Z: FloatArray, out: FloatArray
) -> None:
    """Write ``A Z`` for Z of eight columns: each product in Z's type, each sum in that of ``out``, entry by entry."""
    # Eight names in place of an array: the compiler keeps them in one register, and an array in memory.
    # Row i is written once, when its sums are whole. `16 nnz` flops; each entry reads a row of Z, which is one cache
    # line in double precision and half of one in single.
    number, total = Z.dtype.type, out.dtype.type
    for i in range(indptr.size - 1):
        a = b = c = d = e = f = g = h = total(0)
        for entry in range(indptr[i], indptr[i + 1]):
            value, z = number(data[entry]), Z[indices[entry]]
            a, b, c, d = (
                a + total(value * z[0]),
                b + total(value * z[1]),
                c + total(value * z[2]),
                d + total(value * z[3]),
            )
            e, f, g, h = (
                e + total(value * z[4]),
                f + total(value * z[5]),
                g + total(value * z[6]),
                h + total(value * z[7]),
            )
        row = out[i]
        row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7] = a, b, c, d, e, f, g, h


@compiled_with_contraction
def add_row_gram_of_eight(
    data: NDArray[Any],
    indices: IntArray,
    indptr: IntArray,
    Q: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Add ``A (A' Q)`` to ``out`` for Q of eight columns; A is given by columns.

    Shapes: `Q` (n, 8), `out` (n, 8).
    """
    # Column by column of A: eight inner products with Q, then each entry adds its multiple of them to its row. `32 nnz`
    # flops; Q and the result are all that is read and written at random, 128 bytes a row of A.
    for j in range(indptr.size - 1):
        a = b = c = d = e = f = g = h = 0.0
        for entry in range(indptr[j], indptr[j + 1]):
            value, z = np.float64(data[entry]), Q[indices[entry]]
            a, b, c, d = a + value * z[0], b + value * z[1], c + value * z[2], d + value * z[3]
            e, f, g, h = e + value * z[4], f + value * z[5], g + value * z[6], h + value * z[7]
        for entry in range(indptr[j], indptr[j + 1]):
            value, row = np.float64(data[entry]), out[indices[entry]]
            row[0], row[1], row[2] = row[0] + value * a, row[1] + value * b, row[2] + value * c
            row[3], row[4], row[5] = row[3] + value * d, row[4] + value * e, row[5] + value * f
            row[6], row[7] = row[6] + value * g, row[7] + value * h
