"""Singular vectors of matrices in memory: wide sketches, sparse matrices, and the few rows of one class."""

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from dspectral.linalg.dense import (
    combine_rows,
    eigh_descending,
    fixed_signs,
    leading_eigenpairs,
    rounding_floor,
    row_gram,
)
from dspectral.types import FloatArray, is_sparse


def principal_axes(sketch: FloatArray, k: int) -> tuple[FloatArray, NDArray[np.float64]]:
    """Return the first right singular vectors of a wide matrix, and its singular values.

    Parameters
    ----------
    sketch : ndarray, shape (r, d)
    k : int
        At most the numerical rank is returned.

    Returns
    -------
    axes : ndarray, shape (k', d)
        Orthonormal rows; in each the entry largest in magnitude is positive.
    singular_values : ndarray of float64, shape (k',)

    Examples
    --------
    >>> axes, singular_values = principal_axes(np.array([[0.0, 3.0], [-2.0, 0.0]]), 2)
    >>> np.abs(axes), singular_values
    (array([[0., 1.],
           [1., 0.]]), array([3., 2.]))
    """
    values, vectors = leading_eigenpairs(row_gram(sketch), sketch.dtype, k=k)
    axes = combine_rows((vectors / np.sqrt(values)).T, sketch)
    # A second, small round: the first leaves them orthogonal only to eps times the condition.
    again, rotation = scipy.linalg.eigh(row_gram(axes))
    axes = combine_rows(((rotation / np.sqrt(again)) @ rotation.T), axes)
    return fixed_signs(axes), np.sqrt(values)


EXTRA = 16
"""Vectors iterated beyond those wanted."""


def leading_left(
    A: Any, k: int, *, n_iterations: int = 3, random_state: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the first left singular vectors and singular values, approximately.

    Parameters
    ----------
    A : csr_array, shape (n, d)
    k : int
        From 1 to min(n, d).
    n_iterations : int
        Products with ``A A'``, each of which brings the answer nearer.
    random_state : int

    Returns
    -------
    vectors : ndarray, shape (n, k)
        Orthonormal columns.
    values : ndarray, shape (k,)
        Falling; zeros beyond the rank of A.

    Notes
    -----
    Halko, Martinsson and Tropp 2011, algorithm 4.4. Memory: ``(n + d) * (k + 16)`` numbers.

    Examples
    --------
    >>> from scipy import sparse
    >>> leading_left(sparse.csr_array(np.diag([1.0, 3.0, 2.0])), 2)[1].round(6)
    array([3., 2.])
    """
    n, d = A.shape
    width = min(k + EXTRA, n, d)
    back = A.T.tocsr()
    basis = A @ np.random.default_rng(random_state).standard_normal((d, width)).astype(A.dtype)
    for _ in range(n_iterations):
        basis = A @ (back @ _orthonormal(basis))
    basis = _orthonormal(basis)
    inner = np.asarray(back @ basis, dtype=np.float64)
    values, rotation = eigh_descending(inner.T @ inner)
    return np.asarray(basis @ rotation[:, :k], dtype=np.float64), np.sqrt(values[:k])


def _orthonormal(Y: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.linalg.qr(Y)[0])


SMALL = 800
"""Rows or columns up to which the Gram matrix is decomposed."""


def right_axes(rows: Any, k: int, *, seed: int = 0) -> NDArray[np.float64]:
    """Return the leading right singular vectors, as many as there are up to k.

    Parameters
    ----------
    rows : csr_array or ndarray, shape (m, d)
    k : int
    seed : int
        Of ARPACK's first vector.

    Returns
    -------
    ndarray of float64, shape (at most k, d)
        Orthonormal rows, the largest singular value first; the entry largest in magnitude of each is positive.

    Notes
    -----
    Where m, d or ``4 k`` is small, the Gram matrix of the shorter side is decomposed, ``8 min(m, d)^2`` bytes;
    else ARPACK multiplies by the rows.

    Examples
    --------
    >>> right_axes(np.array([[0.0, 3.0, 0.0], [1.0, 0.0, 0.0]]), 3) + 0.0
    array([[0., 1., 0.],
           [1., 0., 0.]])
    """
    rows = rows.astype(np.float64) if is_sparse(rows) else np.asarray(rows, dtype=np.float64)
    shorter = min(rows.shape)
    k = min(k, shorter)
    if shorter <= max(SMALL, 4 * k):
        return np.asarray(fixed_signs(_by_gram(rows, k)), dtype=np.float64)
    start = np.random.default_rng(seed).standard_normal(shorter)
    _, sizes, axes = svds(rows, k=k, v0=start, solver="arpack")
    order = np.argsort(-sizes, kind="stable")
    squares: NDArray[np.float64] = sizes[order].astype(np.float64) ** 2
    kept = order[squares > rounding_floor(squares, np.float64)]
    return np.asarray(fixed_signs(np.ascontiguousarray(axes[kept])), dtype=np.float64)


def _by_gram(rows: Any, k: int) -> NDArray[np.float64]:
    """Decompose the Gram matrix of the shorter side."""
    m, d = rows.shape
    product = rows @ rows.T if m < d else rows.T @ rows
    gram = product.toarray() if is_sparse(product) else product
    values, vectors = leading_eigenpairs(gram, np.float64, k=k, only_k=True)
    axes = np.asarray(rows.T @ vectors) / np.sqrt(values) if m < d else vectors
    return np.ascontiguousarray(axes.T)
