"""Least squares over the simplex, row by row, by active sets: exact but for rounding."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only

TOLERANCE = 1e-12
"""A vertex is let in if that lowers the loss faster than this share of the scale of the problem."""


def nearest_in_simplex(points: NDArray[np.float64], vertices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the convex coefficients of the point of the vertices' hull that is nearest to each row.

    Parameters
    ----------
    points : ndarray of float64, shape (n, d)
    vertices : ndarray of float64, shape (k, d)

    Returns
    -------
    ndarray of float64, shape (n, k)
        Rows are not negative and sum to 1.

    Notes
    -----
    Lawson and Hanson's active sets (1974) with the sum of the coefficients bound to 1. Adding a constant to all
    inner products changes nothing on the simplex, and makes the systems positive definite where vertices are
    affinely independent. Of vertices that are not, those met later stay out. A row costs ``O(k**3)`` for each
    vertex that it is let in.

    Examples
    --------
    >>> nearest_in_simplex(np.array([[0.25, 0.0], [3.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    array([[0.75, 0.25, 0.  ],
           [0.  , 1.  , 0.  ]])
    """
    centre = vertices.mean(axis=0)
    corners = np.asarray(vertices - centre, dtype=np.float64)
    gram = corners @ corners.T
    lift = float(np.trace(gram)) / max(len(gram), 1) or 1.0
    products = np.asarray(points - centre, dtype=np.float64) @ corners.T
    out = np.zeros(products.shape)
    _fit(read_only(products + lift), read_only(gram + lift), out)
    return out


@compiled
def _fit(products: Any, gram: Any, out: Any) -> None:
    k = len(gram)
    order, factor, work = np.empty(k, dtype=np.int64), np.empty((k, k)), np.empty((3, k))
    for i in range(len(products)):
        _fit_row(products[i], gram, out[i], order, factor, work)


@compiled
def _fit_row(products: Any, gram: Any, p: Any, order: Any, factor: Any, work: Any) -> None:
    """Fit one row: ``order`` holds the vertices let in, ``work`` the systems' solutions."""
    k, n_in = len(gram), 1
    order[0], scale = 0, 0.0
    for j in range(k):
        scale = max(scale, abs(products[j]), gram[j, j])
        if 0.5 * gram[j, j] - products[j] < 0.5 * gram[order[0], order[0]] - products[order[0]]:
            order[0] = j
    p[order[0]] = 1.0
    for _ in range(10 * k):
        chosen = _steepest(products, gram, p, order, n_in, TOLERANCE * scale)
        if chosen < 0:
            break
        order[n_in] = chosen
        if not _solved(products, gram, order, n_in + 1, factor, work) or work[0, n_in] <= 0.0:
            break
        n_in = _moved(products, gram, p, order, n_in + 1, factor, work)


@compiled
def _steepest(products: Any, gram: Any, p: Any, order: Any, n_in: int, least: float) -> int:
    """Return the vertex outside towards which the loss falls fastest, or -1."""
    level, best, chosen = 0.0, -least, -1
    for a in range(n_in):
        level += p[order[a]] * _slope(products, gram, p, order, n_in, order[a])
    for j in range(len(gram)):
        fall = _slope(products, gram, p, order, n_in, j) - level
        if p[j] == 0.0 and fall < best:
            best, chosen = fall, j
    return chosen


@compiled
def _slope(products: Any, gram: Any, p: Any, order: Any, n_in: int, j: int) -> float:
    total = -products[j]
    for a in range(n_in):
        total += gram[j, order[a]] * p[order[a]]
    return total  # type: ignore[no-any-return]


@compiled
def _moved(products: Any, gram: Any, p: Any, order: Any, n_in: int, factor: Any, work: Any) -> int:
    """Go to the best point over the vertices in, as far as signs allow; return how many are left in."""
    while True:
        share, leaves = 1.0, -1
        for a in range(n_in):
            if work[0, a] <= 0.0:
                step = p[order[a]] / (p[order[a]] - work[0, a])
                if step < share or leaves < 0:
                    share, leaves = min(step, share), a
        for a in range(n_in):
            p[order[a]] += share * (work[0, a] - p[order[a]])
        if leaves < 0:
            return n_in
        p[order[leaves]] = 0.0
        kept = 0
        for a in range(n_in):
            if a != leaves:
                order[kept] = order[a]
                kept += 1
        n_in = kept
        if not _solved(products, gram, order, n_in, factor, work):
            return n_in


@compiled
def _solved(products: Any, gram: Any, order: Any, n: int, factor: Any, work: Any) -> bool:
    """Minimise over the affine hull of some vertices into ``work[0]``; False if they are dependent."""
    if not _factored(gram, order, n, factor):
        return False
    for a in range(n):
        work[1, a], work[2, a] = products[order[a]], 1.0
    free, unit = _substituted(factor, work[1], n), _substituted(factor, work[2], n)
    for a in range(n):
        work[0, a] = work[1, a] - (free - 1.0) / unit * work[2, a]
    return True


@compiled
def _factored(gram: Any, order: Any, n: int, factor: Any) -> bool:
    """Cholesky's factor of the chosen rows and columns; False if a pivot is lost to rounding."""
    for a in range(n):
        for b in range(a + 1):
            total = gram[order[a], order[b]]
            for c in range(b):
                total -= factor[a, c] * factor[b, c]
            if a > b:
                factor[a, b] = total / factor[b, b]
            elif total <= 1e-13 * gram[order[a], order[a]]:
                return False
            else:
                factor[a, a] = np.sqrt(total)
    return True


@compiled
def _substituted(factor: Any, x: Any, n: int) -> float:
    """Solve with the factor and its transpose, in place, and return the sum of the solution."""
    total = 0.0
    for a in range(n):
        for c in range(a):
            x[a] -= factor[a, c] * x[c]
        x[a] /= factor[a, a]
    for a in range(n - 1, -1, -1):
        for c in range(a + 1, n):
            x[a] -= factor[c, a] * x[c]
        x[a] /= factor[a, a]
        total += x[a]
    return total
