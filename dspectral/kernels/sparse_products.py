"""Products of a CSR block with dense matrices.

SciPy's products hold the interpreter lock, so threads would wait for each other; these release it, and read
the block once where ``A' (A Z)`` by two products reads it twice and keeps ``A Z`` in between.
"""

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.types import FloatArray

# A product may become one multiply-add; the order of the sums stays as written.
_compiled = numba.njit(nogil=True, cache=True, fastmath={"contract"}, boundscheck=False)


def times(A: sparse.csr_array, Z: FloatArray) -> FloatArray:
    """Return ``A Z``.

    Parameters
    ----------
    A : csr_array, shape (n, d)
    Z : ndarray, shape (d, r), C-contiguous

    Returns
    -------
    ndarray, shape (n, r), of Z's dtype

    Examples
    --------
    >>> A = sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])
    >>> times(A, np.eye(2))
    array([[0., 2.],
           [1., 0.]])
    """
    out = np.zeros((A.shape[0], Z.shape[1]), dtype=Z.dtype)
    _times(A.data, A.indices, A.indptr, np.ascontiguousarray(Z), out)
    return out


def transpose_times(A: sparse.csr_array, Y: FloatArray) -> FloatArray:
    """Return ``A' Y``.

    Parameters
    ----------
    A : csr_array, shape (n, d)
    Y : ndarray, shape (n, r), C-contiguous

    Returns
    -------
    ndarray, shape (d, r), of Y's dtype

    Examples
    --------
    >>> A = sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])
    >>> transpose_times(A, np.eye(2))
    array([[0., 1.],
           [2., 0.]])
    """
    out = np.zeros((A.shape[1], Y.shape[1]), dtype=Y.dtype)
    _transpose_times(A.data, A.indices, A.indptr, np.ascontiguousarray(Y), out)
    return out


def gram_times(A: sparse.csr_array, Z: FloatArray) -> FloatArray:
    """Return ``A' (A Z)``, reading A once and never holding ``A Z``.

    Parameters
    ----------
    A : csr_array, shape (n, d)
    Z : ndarray, shape (d, r), C-contiguous

    Returns
    -------
    ndarray, shape (d, r), of Z's dtype

    Notes
    -----
    ``4 nnz r`` flops; beside the result it holds ``r`` numbers.

    Examples
    --------
    >>> A = sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])
    >>> gram_times(A, np.eye(2))
    array([[1., 0.],
           [0., 4.]])
    """
    out = np.zeros((A.shape[1], Z.shape[1]), dtype=Z.dtype)
    _gram_times(A.data, A.indices, A.indptr, np.ascontiguousarray(Z), out)
    return out


def gram(A: sparse.csr_array) -> NDArray[np.float64]:
    """Return ``A' A`` as a dense matrix, in double precision.

    Parameters
    ----------
    A : csr_array, shape (n, d)
        With d small: the result has ``8 d^2`` bytes.

    Returns
    -------
    ndarray of float64, shape (d, d)

    Examples
    --------
    >>> gram(sparse.csr_array([[0.0, 2.0], [1.0, 1.0]]))
    array([[1., 1.],
           [1., 5.]])
    """
    out = np.zeros((A.shape[1], A.shape[1]))
    _gram(A.data, A.indices, A.indptr, out)
    return out


@_compiled
def _times(data: Any, indices: Any, indptr: Any, Z: Any, out: Any) -> None:
    for i in range(indptr.size - 1):
        row = out[i]
        for entry in range(indptr[i], indptr[i + 1]):
            value = Z.dtype.type(data[entry])
            source = Z[indices[entry]]
            for c in range(row.size):
                row[c] += value * source[c]


@_compiled
def _transpose_times(data: Any, indices: Any, indptr: Any, Y: Any, out: Any) -> None:
    for i in range(indptr.size - 1):
        source = Y[i]
        for entry in range(indptr[i], indptr[i + 1]):
            value = Y.dtype.type(data[entry])
            row = out[indices[entry]]
            for c in range(row.size):
                row[c] += value * source[c]


@_compiled
def _gram_times(data: Any, indices: Any, indptr: Any, Z: Any, out: Any) -> None:
    product = np.zeros(Z.shape[1], dtype=Z.dtype)
    for i in range(indptr.size - 1):
        product[:] = 0
        for entry in range(indptr[i], indptr[i + 1]):
            value = Z.dtype.type(data[entry])
            source = Z[indices[entry]]
            for c in range(product.size):
                product[c] += value * source[c]
        for entry in range(indptr[i], indptr[i + 1]):
            value = Z.dtype.type(data[entry])
            row = out[indices[entry]]
            for c in range(product.size):
                row[c] += value * product[c]


@_compiled
def _gram(data: Any, indices: Any, indptr: Any, out: Any) -> None:
    for i in range(indptr.size - 1):
        for entry in range(indptr[i], indptr[i + 1]):
            value = np.float64(data[entry])
            row = out[indices[entry]]
            for other in range(indptr[i], indptr[i + 1]):
                row[indices[other]] += value * np.float64(data[other])
