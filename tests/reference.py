"""Slow, dense, textbook."""

import numpy as np


def theory_bound(X, capacity):
    """``min_j ||X - X_j||_F^2 / (capacity - j)``."""
    tail = np.append(np.cumsum((np.linalg.svd(X, compute_uv=False) ** 2)[::-1])[::-1], 0.0)
    return min(tail[min(j, len(tail) - 1)] / (capacity - j) for j in range(capacity))


def residual(X, axes):
    """Squared Frobenius norm of ``X - X V'V``."""
    return float(np.sum((X - X @ axes.T @ axes) ** 2))


def optimal_residual(X, k):
    """The least that k directions can leave."""
    return float(np.sum(np.linalg.svd(X, compute_uv=False)[k:] ** 2))


def tree_pca(sentences, k, arity, *, center=True, whiten=False):
    """TMPCA of an array of shape (n, N, D), as the paper says it: (axes of each level, the vectors at the end)."""
    axes, now = [], np.asarray(sentences, dtype=float)
    while now.shape[1] > 1:
        n, length = now.shape[:2]
        starts = range(0, length, arity)
        joined = np.array([np.concatenate(one[i : i + arity]) for one in now for i in starts])
        shifted = joined - joined.mean(axis=0) if center else joined
        _, s, V = np.linalg.svd(shifted, full_matrices=False)
        U = V[:k]
        U = U * np.sign(U[np.arange(k), np.argmax(np.abs(U), axis=1)])[:, None]
        axes.append(U)
        projected = joined @ U.T
        if whiten:
            projected /= s[:k] / np.sqrt(len(joined) - center)
        now = projected.reshape(n, length // arity, k)
    return axes, now[:, 0]
