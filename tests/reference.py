"""Slow, dense, textbook."""

import numpy as np


def frequent_directions(X, l, shrink):
    """Figure 1 of the paper, row by row (``"median"``), or the (l+1)-th value (``"full"``)."""
    d = X.shape[1]
    sketch = np.zeros((0, d))
    keep = l if shrink == "full" else l // 2 - 1
    error = 0.0
    for row in X:
        sketch = np.vstack([sketch, row])
        if len(sketch) == l + 1:
            _, s, V = np.linalg.svd(sketch, full_matrices=False)
            cut = s[keep] ** 2 if len(s) > keep else 0.0
            s = np.sqrt(np.maximum(s**2 - cut, 0))
            sketch = (s[:, None] * V)[:keep]
            error += cut
    return sketch, error


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
