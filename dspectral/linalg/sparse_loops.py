"""Compiled loops behind :mod:`dspectral.linalg.sparse_products`, which add a product to an array that is given.

Each is in the order of the rows, so that its sums have the same bits at each call; indices are not checked. ``gather``
of a matrix and ``scatter`` of its transpose add the same terms in the same order: they have the same bits too.
"""

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, compiled_with_contraction
from dspectral.types import FloatArray, IntArray


@compiled_with_contraction
def gather(
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
            for k in range(row.size):  # one after the other, as `scatter` adds them
                row[k] = (((row[k] + a * za[k]) + b * zb[k]) + c * zc[k]) + d * zd[k]
            entry += 4
        while entry < end:
            a, za = number(data[entry]), Z[indices[entry]]
            for k in range(row.size):
                row[k] += a * za[k]
            entry += 1


@compiled_with_contraction
def scatter(
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


@compiled
def scatter_rounded(
    data: NDArray[np.generic], indices: IntArray, indptr: IntArray, Y: FloatArray, out: FloatArray
) -> None:
    """Add ``A' Y`` to ``out`` as :func:`scatter` does, each product rounded before it is added, as SciPy's are."""
    for i in range(indptr.size - 1):
        source = Y[i]
        for entry in range(indptr[i], indptr[i + 1]):
            value = Y.dtype.type(data[entry])
            row = out[indices[entry]]
            for k in range(row.size):
                row[k] += value * source[k]


@compiled_with_contraction
def gram_gather_scatter(
    data: NDArray[np.generic], indices: IntArray, indptr: IntArray, Z: FloatArray, out: FloatArray
) -> None:
    """Add ``A' (A Z)`` to ``out`` row by row: gather ``y = A_i Z``, then scatter ``a_ij y`` while A_i is in cache."""
    number, product = Z.dtype.type, np.zeros(Z.shape[1], dtype=Z.dtype)
    # Each row of A is read twice in a row, from the cache the second time: A itself is read from memory once. Four
    # entries are gathered at a time, one after the other, as in `gather`.
    for i in range(indptr.size - 1):
        product[:] = 0
        entry, end = indptr[i], indptr[i + 1]
        while entry + 4 <= end:
            a, b = number(data[entry]), number(data[entry + 1])
            c, d = number(data[entry + 2]), number(data[entry + 3])
            za, zb = Z[indices[entry]], Z[indices[entry + 1]]
            zc, zd = Z[indices[entry + 2]], Z[indices[entry + 3]]
            for k in range(product.size):
                product[k] = (((product[k] + a * za[k]) + b * zb[k]) + c * zc[k]) + d * zd[k]
            entry += 4
        while entry < end:
            a, za = number(data[entry]), Z[indices[entry]]
            for k in range(product.size):
                product[k] += a * za[k]
            entry += 1
        for entry in range(indptr[i], end):
            value = number(data[entry])
            row = out[indices[entry]]
            for k in range(product.size):
                row[k] += value * product[k]


@compiled_with_contraction
def add_columns(data: NDArray[np.generic], indices: IntArray, out: NDArray[np.float64]) -> None:
    """Add the entries of each column to ``out``."""
    # In the order of the entries, as np.bincount sums them: both give the same bits.
    for entry in range(data.size):
        out[indices[entry]] += np.float64(data[entry])


@compiled_with_contraction
def gram(data: NDArray[np.generic], indices: IntArray, indptr: IntArray, out: NDArray[np.float64]) -> None:
    """Add the products of all pairs of entries of each row to ``out``; the cost is the sum of the squared row sizes."""
    for i in range(indptr.size - 1):
        for entry in range(indptr[i], indptr[i + 1]):
            # Widened before multiplying: a product of two float32 numbers is exact in float64, and only sums round.
            value = np.float64(data[entry])
            row = out[indices[entry]]
            for other in range(indptr[i], indptr[i + 1]):
                row[indices[other]] += value * np.float64(data[other])
