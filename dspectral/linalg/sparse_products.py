"""Products of a CSR block with dense matrices.

SciPy's products hold the interpreter lock, so threads would wait for each other; these release it. Where the dense side
is wide, ``A' Y`` goes through the transposed block: rows of Y are gathered and each row of the result is written once,
which is nearly twice as fast as scattering into it.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral._compiled import compiled_with_contraction
from dspectral.linalg.csr_structure import csr_fault
from dspectral.linalg.transposition import Room
from dspectral.types import CSRRows, FloatArray, IntArray

WIDE = 32
"""Columns from which transposing a block pays."""
CACHED_BYTES = 4 << 20
"""Bytes of ``A Z`` held at a time by :func:`gram_times`."""
FEW_ENTRIES = 1 << 14
"""Entries up to which a function of NumPy is as fast as a loop."""

__all__ = [
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

    Parameters
    ----------
    A : csr_array, shape (n, d)
        Sparse block.
    Z : ndarray, shape (d, r), C-contiguous
        Dense factor.

    Returns
    -------
    ndarray, shape (n, r)
        Product, of Z's dtype.

    Examples
    --------
    >>> A = sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])
    >>> times(A, np.eye(2))
    array([[0., 2.],
           [1., 0.]])
    """
    out = np.zeros((A.shape[0], Z.shape[1]), dtype=Z.dtype)
    _add_times(A, np.ascontiguousarray(Z), out)
    return out


def transpose_times(A: CSRRows, Y: FloatArray) -> FloatArray:
    """Return ``A' Y``.

    Parameters
    ----------
    A : csr_array, shape (n, d)
        Sparse block.
    Y : ndarray, shape (n, r), C-contiguous
        Dense factor.

    Returns
    -------
    ndarray, shape (d, r)
        Product, of Y's dtype.

    Examples
    --------
    >>> A = sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])
    >>> transpose_times(A, np.eye(2))
    array([[0., 1.],
           [2., 0.]])
    """
    out = np.zeros((A.shape[1], Y.shape[1]), dtype=Y.dtype)
    _add_transpose_times(A, np.ascontiguousarray(Y), out)
    return out


def gram_times(A: CSRRows, Z: FloatArray) -> FloatArray:
    """Return ``A' (A Z)``.

    Parameters
    ----------
    A : csr_array, shape (n, d)
        Sparse block.
    Z : ndarray, shape (d, r), C-contiguous
        Dense factor.

    Returns
    -------
    ndarray, shape (d, r)
        Product, of Z's dtype.

    Notes
    -----
    ``4 nnz r`` flops. Beside the result it holds 4 MiB of ``A Z`` and a transposed copy of as many rows; for
    narrow Z one row of ``A Z``, and A is read once.

    Examples
    --------
    >>> A = sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])
    >>> gram_times(A, np.eye(2))
    array([[1., 0.],
           [0., 4.]])
    """
    Z = np.ascontiguousarray(Z)
    out = np.zeros((A.shape[1], Z.shape[1]), dtype=Z.dtype)
    if Z.shape[1] < WIDE:
        _gram_gather_scatter(A.data, A.indices, A.indptr, Z, out)
        return out
    # Piece by piece: A Z is then still in the cache when it is scattered into the result.
    step = max(1, CACHED_BYTES // (Z.shape[1] * Z.itemsize))
    cuts = [*range(0, A.shape[0], step), A.shape[0]]
    # One piece of memory for all: what is asked for anew is mapped and cleared by the system page by page, each time.
    product = np.empty((min(step, A.shape[0]), Z.shape[1]), dtype=Z.dtype)
    room = Room.of(A, int(np.diff(A.indptr[cuts]).max(initial=0)))
    for start, stop in pairwise(cuts):
        piece, of_piece = row_slice(A, start, stop), product[: stop - start]
        of_piece[:] = 0
        _add_times(piece, Z, of_piece)
        _add_transpose_times(piece, of_piece, out, room)
    return out


def gram(A: CSRRows) -> NDArray[np.float64]:
    """Return ``A' A`` as a dense matrix, in double precision.

    Parameters
    ----------
    A : csr_array, shape (n, d)
        Sparse block with d small: the result has ``8 d^2`` bytes.

    Returns
    -------
    ndarray of float64, shape (d, d)
        Gram matrix.

    Examples
    --------
    >>> gram(sparse.csr_array([[0.0, 2.0], [1.0, 1.0]]))
    array([[1., 1.],
           [1., 5.]])
    """
    out = np.zeros((A.shape[1], A.shape[1]))
    _gram(A.data, A.indices, A.indptr, out)
    return out


def column_sums(A: CSRRows) -> NDArray[np.float64]:
    """Return the sum of each column in double precision.

    Parameters
    ----------
    A : csr_array, shape (n, d)
        Sparse block.

    Returns
    -------
    ndarray of float64, shape (d,)
        Sums.

    Examples
    --------
    >>> column_sums(sparse.csr_array([[0.0, 2.0], [1.0, 1.0]]))
    array([1., 3.])
    """
    if A.nnz <= FEW_ENTRIES:
        # The same sums in the same order: a small block waits for no loop to be compiled.
        return np.bincount(A.indices, weights=A.data, minlength=A.shape[1]).astype(np.float64, copy=False)
    out = np.zeros(A.shape[1])
    _add_columns(A.data, A.indices, out)
    return out


def canonical_rows(A: "CSRRows | sparse.csr_matrix") -> CSRRows:
    """Return a sparse matrix as a ``csr_array`` whose rows are sorted and hold each entry once.

    Parameters
    ----------
    A : csr_array or csr_matrix, shape (n, d)
        Several values for one place add up. It is not changed.

    Returns
    -------
    csr_array, shape (n, d)
        ``A`` itself, or a view of its arrays, where they are canonical already.

    Raises
    ------
    ValueError
        If a row pointer or a column index points outside the matrix.

    Notes
    -----
    Kernels here take each stored value for an entry of its own, and look at no index twice: one that points outside
    would make them read or write memory that is not the matrix's.

    Examples
    --------
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

    Parameters
    ----------
    A : csr_array, shape (n, d)
        Sparse matrix.
    start, stop : int
        First row, and the row after the last.

    Returns
    -------
    csr_array, shape (stop - start, d)
        Rows that share the memory of A's entries.
    """
    first, last = A.indptr[start], A.indptr[stop]
    rows = sparse.csr_array((stop - start, A.shape[1]), dtype=A.dtype)
    # Set afterwards: the constructor copies views of less than a half.
    rows.data, rows.indices = A.data[first:last], A.indices[first:last]
    rows.indptr = A.indptr[start : stop + 1] - first
    return rows


def _add_times(A: CSRRows, Z: FloatArray, out: FloatArray) -> None:
    _gather(A.data, A.indices, A.indptr, Z, out)


def _add_transpose_times(A: CSRRows, Y: FloatArray, out: FloatArray, room: Room | None = None) -> None:
    if Y.shape[1] < WIDE:
        _scatter(A.data, A.indices, A.indptr, Y, out)
    else:
        _gather(*(room or Room.of(A, A.nnz)).transposed(A), Y, out)


@compiled_with_contraction
def _gather(
    data: NDArray[np.generic], indices: IntArray, indptr: IntArray, Z: FloatArray, out: FloatArray
) -> None:
    """Add ``A Z`` to ``out``: row i becomes the sum of ``a_ij Z_j``. The cost is ``2 nnz r`` flops."""
    # Entries of A take the type of Z: double entries would otherwise widen each product with a row of floats.
    number = Z.dtype.type
    # Invariant: row i of `out` holds the sum over the entries before `entry`; rows are written by one iteration each.
    for i in range(indptr.size - 1):
        row = out[i]
        entry, end = indptr[i], indptr[i + 1]
        while entry + 4 <= end:  # four at a time: the row is loaded and stored a fourth as often
            a, b = number(data[entry]), number(data[entry + 1])
            c, d = number(data[entry + 2]), number(data[entry + 3])
            za, zb = Z[indices[entry]], Z[indices[entry + 1]]
            zc, zd = Z[indices[entry + 2]], Z[indices[entry + 3]]
            for k in range(row.size):
                row[k] += (a * za[k] + b * zb[k]) + (c * zc[k] + d * zd[k])
            entry += 4
        while entry < end:
            a, za = number(data[entry]), Z[indices[entry]]
            for k in range(row.size):
                row[k] += a * za[k]
            entry += 1


@compiled_with_contraction
def _scatter(
    data: NDArray[np.generic], indices: IntArray, indptr: IntArray, Y: FloatArray, out: FloatArray
) -> None:
    """Add ``A' Y`` to ``out``: each entry ``a_ij`` adds ``a_ij Y_i`` to row j."""
    # Entries of several rows of A meet in one row of `out`: rows are taken in their order, so that the sums have the
    # same bits at each call. Rows of `out` are reached at random, which is why wide Y goes through the transpose. The
    # cost is `2 nnz r` flops.
    for i in range(indptr.size - 1):
        source = Y[i]
        for entry in range(indptr[i], indptr[i + 1]):
            value = Y.dtype.type(data[entry])
            row = out[indices[entry]]
            for k in range(row.size):
                row[k] += value * source[k]


@compiled_with_contraction
def _gram_gather_scatter(
    data: NDArray[np.generic], indices: IntArray, indptr: IntArray, Z: FloatArray, out: FloatArray
) -> None:
    """Add ``A' (A Z)`` to ``out`` row by row: gather ``y = A_i Z``, then scatter ``a_ij y`` while A_i is in cache."""
    product = np.zeros(Z.shape[1], dtype=Z.dtype)
    # Each row of A is read twice in a row, from the cache the second time: A itself is read from memory once.
    for i in range(indptr.size - 1):
        product[:] = 0
        for entry in range(indptr[i], indptr[i + 1]):
            value = Z.dtype.type(data[entry])
            source = Z[indices[entry]]
            for k in range(product.size):
                product[k] += value * source[k]
        for entry in range(indptr[i], indptr[i + 1]):
            value = Z.dtype.type(data[entry])
            row = out[indices[entry]]
            for k in range(product.size):
                row[k] += value * product[k]


@compiled_with_contraction
def _add_columns(data: NDArray[np.generic], indices: IntArray, out: NDArray[np.float64]) -> None:
    """Add the entries of each column to ``out``."""
    for entry in range(data.size):
        out[indices[entry]] += np.float64(data[entry])


@compiled_with_contraction
def _gram(data: NDArray[np.generic], indices: IntArray, indptr: IntArray, out: NDArray[np.float64]) -> None:
    """Add the products of all pairs of entries of each row to ``out``; the cost is the sum of the squared row sizes."""
    for i in range(indptr.size - 1):
        for entry in range(indptr[i], indptr[i + 1]):
            # Widened before multiplying: a product of two float32 numbers is exact in float64, and only sums round.
            value = np.float64(data[entry])
            row = out[indices[entry]]
            for other in range(indptr[i], indptr[i + 1]):
                row[indices[other]] += value * np.float64(data[other])
