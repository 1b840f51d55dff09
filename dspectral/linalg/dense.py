"""Small dense linear algebra on tall or wide arrays, in panels, with a fixed sign convention.

Every function works through a Gram matrix in double precision: it costs a fraction of a QR or SVD of the long
side and no copy of it. The price is half the digits: directions whose singular value is below
``sqrt(eps)`` of the largest are not told apart from rounding, and are dropped.
"""

from collections.abc import Iterator

import numpy as np
import scipy.linalg
from numpy.typing import DTypeLike, NDArray

from dspectral.types import FloatArray

MARGIN = 16.0
"""Rank is counted above this multiple of the rounding."""
PANEL = 8192
"""Columns of the long side taken at a time: a panel of 500 rows in single precision fits a core's cache."""


def row_gram(*parts: FloatArray) -> NDArray[np.float64]:
    """Return ``S S'`` for ``S`` the rows of all parts one under the other, in double precision.

    Parameters
    ----------
    *parts : ndarray, shape (r_i, d)

    Returns
    -------
    ndarray of float64, shape (sum r_i, sum r_i)

    Notes
    -----
    Products are taken in the parts' precision, panel by panel, and summed in double.

    Examples
    --------
    >>> row_gram(np.eye(2), np.ones((1, 2)))
    array([[1., 0., 1.],
           [0., 1., 1.],
           [1., 1., 2.]])
    """
    size = sum(len(part) for part in parts)
    total = np.zeros((size, size))
    for panel in panels(parts[0].shape[1]):
        stacked = np.concatenate([part[:, panel] for part in parts])
        total += stacked @ stacked.T
    return total


def column_gram(Z: FloatArray) -> NDArray[np.float64]:
    """Return ``Z' Z`` of a tall matrix in double precision.

    Parameters
    ----------
    Z : ndarray, shape (d, r)
        Tall matrix.

    Returns
    -------
    ndarray of float64, shape (r, r)
    """
    total = np.zeros((Z.shape[1], Z.shape[1]))
    for panel in panels(len(Z)):
        total += Z[panel].T @ Z[panel]
    return total


def combine_rows(coefficients: FloatArray, *parts: FloatArray) -> FloatArray:
    """Return ``coefficients @ S`` for ``S`` the rows of all parts one under the other, without stacking them.

    Parameters
    ----------
    coefficients : ndarray, shape (m, sum r_i)
    *parts : ndarray, shape (r_i, d)

    Returns
    -------
    ndarray, shape (m, d), of the parts' dtype
    """
    n_columns = parts[0].shape[1]
    out = np.empty((len(coefficients), n_columns), dtype=parts[0].dtype)
    coefficients = coefficients.astype(out.dtype)
    for panel in panels(n_columns):
        out[:, panel] = coefficients @ np.concatenate([part[:, panel] for part in parts])
    return out


def eigh_descending(
    K: NDArray[np.float64], k: int | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the eigenvalues of a positive semidefinite matrix, largest first, and its eigenvectors.

    Parameters
    ----------
    K : ndarray of float64, shape (n, n)
        Symmetric matrix.
    k : int, optional
        Number of eigenpairs to compute, the largest; all by default.

    Returns
    -------
    values : ndarray of float64, shape (n,) or (k,)
        Negative values, which are rounding, are returned as 0.
    vectors : ndarray of float64, shape (n, n) or (n, k)
        Orthonormal columns.
    """
    chosen = None if k is None else (len(K) - k, len(K) - 1)
    values, vectors = scipy.linalg.eigh(K, subset_by_index=chosen, check_finite=False)
    return np.maximum(values[::-1], 0.0), vectors[:, ::-1]


def leading_eigenpairs(
    K: NDArray[np.float64],
    dtype: DTypeLike,
    *,
    k: int | None = None,
    only_k: bool = False,
    margin: float = MARGIN,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the eigenpairs of a Gram matrix that stand out from rounding.

    Every singular value decomposition through a Gram matrix takes its rank from this function. If
    ``K = A A'`` then ``vectors / sqrt(values)`` turns A into orthonormal rows.

    Parameters
    ----------
    K : ndarray of float64, shape (n, n)
        Gram matrix.
    dtype : dtype
        Precision of the rows or columns whose products K holds.
    k : int, optional
        Largest number of pairs to return; all by default.
    only_k : bool, default=False
        Whether to compute no other pairs than these: faster for few of many, with other last bits.
    margin : float, default=16.0
        Multiple of the rounding of ``dtype``, relative to the largest eigenvalue, below which a pair is dropped.

    Returns
    -------
    values : ndarray of float64, shape (r,)
        Positive eigenvalues, largest first.
    vectors : ndarray of float64, shape (n, r)
        Orthonormal columns.

    Examples
    --------
    >>> leading_eigenpairs(np.diag([1.0, 4.0, 1e-20]), np.float64)[0]
    array([4., 1.])
    """
    values, vectors = eigh_descending(K, k if only_k else None)
    rank = int(np.sum(values > rounding_floor(values, dtype, margin)))
    rank = rank if k is None else min(k, rank)
    return values[:rank], vectors[:, :rank]


def rounding_floor(values: NDArray[np.float64], dtype: DTypeLike, margin: float = MARGIN) -> float:
    """Return the size below which an eigenvalue of a Gram matrix is rounding, not data.

    Parameters
    ----------
    values : ndarray of float64
        Eigenvalues, largest first.
    dtype : dtype
        Precision of the rows or columns whose products the matrix holds.
    margin : float, default=16.0
        Multiple of the rounding of ``dtype``.

    Returns
    -------
    float
    """
    return float(margin * np.finfo(np.dtype(dtype)).eps * values[0]) if len(values) else 0.0


def orthonormal_columns(Z: FloatArray, *, overwrite: bool = False) -> FloatArray:
    """Return an orthonormal basis of the columns of a tall matrix.

    Parameters
    ----------
    Z : ndarray, shape (d, r)
    overwrite : bool
        Whether Z's memory may be used for the result.

    Returns
    -------
    ndarray, shape (d, rank), of Z's dtype
        Columns beyond the numerical rank are left out.

    Examples
    --------
    >>> orthonormal_columns(np.array([[3.0], [4.0]])).round(3)
    array([[0.6],
           [0.8]])
    """
    norms = column_norms(Z)
    if not norms.all():
        Z = Z[:, norms > 0]
    elif not overwrite:
        Z = Z.copy()
    Z /= norms[norms > 0].astype(Z.dtype)
    for _ in range(2):  # once leaves an error of eps times the condition squared, the second time of eps
        values, vectors = leading_eigenpairs(column_gram(Z), Z.dtype)
        Z = _times_in_place(Z, vectors / np.sqrt(values))
    return Z


def column_norms(Z: FloatArray) -> NDArray[np.float64]:
    """Euclidean norm of each column, in double precision."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->j", Z, Z, dtype=np.float64)))


def subtract_product(target: FloatArray, Z: FloatArray, C: FloatArray) -> None:
    """Subtract ``Z C`` from ``target``, in place, for tall ``Z`` of shape (d, r) and ``C`` of shape (r, m)."""
    C = C.astype(Z.dtype)
    for panel in panels(len(Z)):
        target[panel] -= Z[panel] @ C


def _times_in_place(Z: FloatArray, C: FloatArray) -> FloatArray:
    """Return ``Z C`` in the memory of Z, for C with no more columns than Z."""
    C, rank = C.astype(Z.dtype), C.shape[1]
    for panel in panels(len(Z)):
        Z[panel, :rank] = Z[panel] @ C
    return Z if rank == Z.shape[1] else np.ascontiguousarray(Z[:, :rank])


def unit_rows(rows: FloatArray) -> FloatArray:
    """Scale each row to length 1; rows of zeros stay zero."""
    sizes = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    return np.asarray(rows / np.where(sizes > 0, sizes, 1.0)[:, None], dtype=rows.dtype)


def fixed_signs(rows: FloatArray) -> FloatArray:
    """Flip rows so that the entry largest in magnitude of each is positive (the first of equals decides)."""
    if not rows.size:
        return rows
    peaks = np.argmax(np.abs(rows), axis=1)
    signs = np.sign(rows[np.arange(len(rows)), peaks])
    return rows * np.where(signs == 0, 1, signs)[:, None].astype(rows.dtype)


def panels(length: int) -> Iterator[slice]:
    """Cut ``range(length)`` into slices of :data:`PANEL`."""
    for start in range(0, length, PANEL):
        yield slice(start, min(start + PANEL, length))
