"""Leading left singular vectors of a sparse matrix in memory, by subspace iteration."""

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

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
    values, rotation = scipy.linalg.eigh(inner.T @ inner)
    values, rotation = values[::-1][:k], rotation[:, ::-1][:, :k]
    return np.asarray(basis @ rotation, dtype=np.float64), np.sqrt(np.maximum(values, 0.0))


def _orthonormal(Y: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.linalg.qr(Y)[0])
