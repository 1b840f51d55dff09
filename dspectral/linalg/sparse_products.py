"""Products of a CSR block with dense matrices.

SciPy's products hold the interpreter lock, so threads would wait for each other; these release it. Where the dense side
is wide, both products go through transposed pieces of the block, whose rows of ``A Z`` fit the cache. The long side,
which does not, is then walked from its first row to its last: ``A Z`` adds each row of Z to the rows of the piece that
have the column, and ``A' Y`` gathers them and writes each row of the result once. Reading a long Z at random, row
by row of the block, takes two to four times as long.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral._compiled import read_only
from dspectral.linalg import sparse_loops
from dspectral.linalg.csr_structure import csr_fault
from dspectral.linalg.dense_tiles import add_gram_times, is_filled
from dspectral.linalg.transposition import Room
from dspectral.types import CSRRows, FloatArray, IntArray

WIDE = 32
"""Columns from which transposing a block pays."""
CACHED_BYTES = 4 << 20
"""Bytes of ``A Z`` that a transposed piece has, and of Z beyond which rows are not read from it at random."""
FEW_ENTRIES = 1 << 14
"""Entries up to which a function of NumPy is as fast as a loop."""

__all__ = [
    "add_transpose_times",
    "canonical_rows",
    "column_sums",
    "gram",
    "gram_times",
    "row_slice",
    "times",
    "transpose_times",
]


def times(A: CSRRows, Z: FloatArray) -> FloatArray:
    """Return ``A Z``.

    Shapes: `A` (n, d), `Z` (d, r); returns (n, r).

    >>> A = sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])
    >>> times(A, np.eye(2))
    array([[0., 2.],
           [1., 0.]])
    """
    out = np.zeros((A.shape[0], Z.shape[1]), dtype=Z.dtype)
    if Z.shape[1] < WIDE or Z.nbytes <= CACHED_BYTES or A.nnz < A.shape[1]:
        sparse_loops.gather(*_arrays(A), read_only(Z), out)
        return out
    # The same bits as above, whichever is chosen: each row's terms are added in the order of its columns.
    for rows, piece in _pieces(A, Z):
        sparse_loops.scatter(*piece, read_only(Z), out[rows])
    return out


def transpose_times(A: CSRRows, Y: FloatArray) -> FloatArray:
    """Return ``A' Y``.

    Shapes: `A` (n, d), `Y` (n, r); returns (d, r).

    >>> A = sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])
    >>> transpose_times(A, np.eye(2))
    array([[0., 1.],
           [2., 0.]])
    """
    out = np.zeros((A.shape[1], Y.shape[1]), dtype=Y.dtype)
    if Y.shape[1] < WIDE:
        sparse_loops.scatter(*_arrays(A), read_only(Y), out)
        return out
    for rows, piece in _pieces(A, Y):
        sparse_loops.gather(*piece, read_only(Y[rows]), out)
    return out


def add_transpose_times(A: CSRRows, Y: FloatArray, out: FloatArray) -> None:
    """Add ``A' Y`` to a matrix, so that the bits of a sum over blocks of rows are those of all rows at once in SciPy.

    Shapes: `A` (n, d), `Y` (n, r), `out` (d, r).

    >>> out = np.ones((2, 2))
    >>> add_transpose_times(sparse.csr_array([[0.0, 2.0], [1.0, 0.0]]), np.eye(2), out)
    >>> out
    array([[1., 2.],
           [3., 1.]])
    """
    sparse_loops.scatter_rounded(*_arrays(A), read_only(Y), out)


def gram_times(A: CSRRows, Z: FloatArray) -> FloatArray:
    """Return ``A' (A Z)``.

    Shapes: `A` (n, d), `Z` (d, r); returns (d, r).

    ``4 nnz r`` flops. Beside the result it holds 4 MiB of ``A Z`` and a transposed copy of as many rows; for
    narrow Z one row of ``A Z``, and A is read once. A block whose zeros are few goes through BLAS.

    >>> A = sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])
    >>> gram_times(A, np.eye(2))
    array([[1., 0.],
           [0., 4.]])
    """
    Z = np.ascontiguousarray(Z)
    out = np.zeros((A.shape[1], Z.shape[1]), dtype=Z.dtype)
    if Z.shape[1] < WIDE:
        sparse_loops.gram_gather_scatter(*_arrays(A), read_only(Z), out)
        return out
    if is_filled(A):
        add_gram_times(A, Z, out)
        return out
    # Piece by piece: A Z is then still in the cache when it is gathered from. One piece of memory for all: what is
    # asked for anew is mapped and cleared by the system page by page, each time.
    product = np.empty((min(_step(Z), A.shape[0]), Z.shape[1]), dtype=Z.dtype)
    for rows, piece in _pieces(A, Z):
        of_piece = product[: rows.stop - rows.start]
        of_piece[:] = 0
        sparse_loops.scatter(*piece, read_only(Z), of_piece)
        sparse_loops.gather(*piece, read_only(of_piece), out)
    return out


def gram(A: CSRRows) -> NDArray[np.float64]:
    """Return ``A' A`` as a dense matrix, in double precision.

    Shapes: `A` (n, d); returns (d, d).

    >>> gram(sparse.csr_array([[0.0, 2.0], [1.0, 1.0]]))
    array([[1., 1.],
           [1., 5.]])
    """
    out = np.zeros((A.shape[1], A.shape[1]))
    sparse_loops.gram(*_arrays(A), out)
    return out


def column_sums(A: CSRRows) -> NDArray[np.float64]:
    """Return the sum of each column in double precision.

    Shapes: `A` (n, d); returns (d,).

    >>> column_sums(sparse.csr_array([[0.0, 2.0], [1.0, 1.0]]))
    array([1., 3.])
    """
    if A.nnz <= FEW_ENTRIES:
        # The same sums in the same order: a small block waits for no loop to be compiled.
        return np.bincount(A.indices, weights=A.data, minlength=A.shape[1]).astype(np.float64, copy=False)
    out = np.zeros(A.shape[1])
    sparse_loops.add_columns(read_only(A.data), read_only(A.indices), out)
    return out


def canonical_rows(A: "CSRRows | sparse.csr_matrix") -> CSRRows:
    """Return a sparse matrix as a ``csr_array`` whose rows are sorted and hold each entry once.

    Shapes: `A` (n, d); returns (n, d).

    Kernels here take each stored value for an entry of its own, and look at no index twice: one that points outside
    would make them read or write memory that is not the matrix's.

    >>> canonical_rows(sparse.csr_array(([1.0, 2.0], [0, 0], [0, 2]), shape=(1, 1))).data
    array([3.])
    """
    rows = A if isinstance(A, sparse.csr_array) else sparse.csr_array(A)
    fault = csr_fault(rows.indices, rows.indptr, rows.shape[1])
    if fault:
        raise ValueError(f"the sparse matrix is damaged: {fault}")
    if not rows.has_canonical_format:
        rows = rows.copy()  # the caller's own memory stays as it is
        rows.sum_duplicates()
    return rows


def row_slice(A: CSRRows, start: int, stop: int) -> CSRRows:
    """Return consecutive rows of a CSR matrix as views of its entries; SciPy's own slicing copies them.

    Shapes: `A` (n, d); returns (stop - start, d).
    """
    first, last = A.indptr[start], A.indptr[stop]
    rows = sparse.csr_array((stop - start, A.shape[1]), dtype=A.dtype)
    # Set afterwards: the constructor copies views of less than a half.
    rows.data, rows.indices = A.data[first:last], A.indices[first:last]
    rows.indptr = A.indptr[start : stop + 1] - first
    return rows


def _step(Z: FloatArray) -> int:
    """Return the number of rows of a piece: as many as rows of Z's length fit the cache."""
    return max(1, CACHED_BYTES // int(Z.shape[1] * Z.itemsize))


def _pieces(
    A: CSRRows, Z: FloatArray
) -> Iterator[tuple[slice, tuple[NDArray[np.generic], IntArray, IntArray]]]:
    """Yield consecutive rows, and their transpose in memory that the next one overwrites."""
    cuts = [*range(0, A.shape[0], _step(Z)), A.shape[0]]
    room = Room.of(A, int(np.diff(A.indptr[cuts]).max(initial=0)))
    for start, stop in pairwise(cuts):
        data, indices, indptr = room.transposed(row_slice(A, start, stop))
        yield slice(start, stop), (read_only(data), read_only(indices), read_only(indptr))


def _arrays(A: CSRRows) -> tuple[NDArray[np.generic], IntArray, IntArray]:
    """Return the arrays of a block, read-only: loops are then compiled once for blocks in memory and in a store."""
    return read_only(A.data), read_only(A.indices), read_only(A.indptr)
