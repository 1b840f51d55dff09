"""Right singular vectors of the few rows of one class."""

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import svds

from dspectral.kernels.linalg import fixed_signs, rounding_floor

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
    rows = rows.astype(np.float64) if sparse.issparse(rows) else np.asarray(rows, dtype=np.float64)
    shorter = min(rows.shape)
    k = min(k, shorter)
    if shorter <= max(SMALL, 4 * k):
        return np.asarray(fixed_signs(_by_gram(rows, k)), dtype=np.float64)
    start = np.random.default_rng(seed).standard_normal(shorter)
    _, sizes, axes = svds(rows, k=k, v0=start, solver="arpack")
    order = np.argsort(-sizes, kind="stable")
    kept = order[sizes[order] ** 2 > rounding_floor(sizes[order] ** 2, np.float64)]
    return np.asarray(fixed_signs(np.ascontiguousarray(axes[kept])), dtype=np.float64)


def _by_gram(rows: Any, k: int) -> NDArray[np.float64]:
    """Decompose the Gram matrix of the shorter side."""
    m, d = rows.shape
    product = rows @ rows.T if m < d else rows.T @ rows
    gram = product.toarray() if sparse.issparse(product) else product
    values, vectors = scipy.linalg.eigh(gram, subset_by_index=(len(gram) - k, len(gram) - 1))
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = values > rounding_floor(values, np.float64)
    values, vectors = values[kept], vectors[:, kept]
    axes = np.asarray(rows.T @ vectors) / np.sqrt(values) if m < d else vectors
    return np.ascontiguousarray(axes.T)
