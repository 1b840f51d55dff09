"""Least squares over the simplex, row by row, by active sets: exact but for rounding."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only

Doubles: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
TOLERANCE = 1e-12
"""A vertex enters if that lowers the loss faster than this share of the scale of the problem."""


def nearest_in_simplex(points: Doubles, vertices: Doubles) -> Doubles:
    """Return the convex coefficients of the point of the vertices' hull that is nearest to each row.

    Shapes: `points` (n, d), `vertices` (k, d); returns (n, k).

    Lawson and Hanson's active sets (1974) with the sum of the coefficients bound to 1. Adding a constant to all
    inner products changes nothing on the simplex, and makes the systems positive definite where vertices are
    affinely independent. Vertices that depend on those met before them stay out. A row costs
    ``O(k**3)`` for each vertex that enters.

    >>> nearest_in_simplex(np.array([[0.25, 0.0], [3.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    array([[0.75, 0.25, 0.  ],
           [0.  , 1.  , 0.  ]])
    """
    center = vertices.mean(axis=0)
    corners = np.asarray(vertices - center, dtype=np.float64)
    gram = corners @ corners.T
    # A constant added to all inner products changes nothing where coefficients sum to 1, and lifts the null vector of
    # the centered Gram matrix.
    lift = float(np.trace(gram)) / max(len(gram), 1) or 1.0
    products = np.asarray(points - center, dtype=np.float64) @ corners.T
    out = np.zeros(products.shape)
    _fit(read_only(products + lift), read_only(gram + lift), out)
    return out


@compiled
def _fit(products: Doubles, gram: Doubles, out: Doubles) -> None:
    k = len(gram)
    order, factor, work = np.empty(k, dtype=np.int64), np.empty((k, k)), np.empty((3, k))
    for i in range(len(products)):
        _fit_row(products[i], gram, out[i], order, factor, work)


@compiled
def _fit_row(
    products: Doubles,
    gram: Doubles,
    p: Doubles,
    order: Integers,
    factor: Doubles,
    work: Doubles,
) -> None:
    """Fit one row: ``order[:n_in]`` holds the vertices that are in, ``work`` the solutions of the systems.

    Invariant: p is on the simplex, zero outside the vertices that are in, and minimizes ``p'Gp / 2 - c'p`` over their
    affine hull (G the inner products of the vertices, c those with the point). Each round lets one vertex in and
    lowers that loss, so that no set of vertices is met twice.
    """
    k, n_in = len(gram), 1
    # Start at the single vertex of least loss `G_jj / 2 - c_j`: the affine hull of one point is that point, so that
    # the invariant holds from the beginning.
    order[0], scale = 0, 0.0
    for j in range(k):
        scale = max(scale, abs(products[j]), gram[j, j])
        if 0.5 * gram[j, j] - products[j] < 0.5 * gram[order[0], order[0]] - products[order[0]]:
            order[0] = j
    p[order[0]] = 1.0
    # The loss falls with each vertex, so it ends by itself; the bound is for rounding.
    for _ in range(10 * k):
        chosen = _steepest(products, gram, p, order, n_in, TOLERANCE * scale)
        if chosen < 0:
            break
        order[n_in] = chosen
        # A vertex that depends on those that are in stays out, and one whose best coefficient is not positive was
        # chosen by rounding: either ends the search.
        if not _solve(products, gram, order, n_in + 1, factor, work) or work[0, n_in] <= 0.0:
            break
        n_in = _move(products, gram, p, order, n_in + 1, factor, work)


@compiled
def _steepest(
    products: Doubles,
    gram: Doubles,
    p: Doubles,
    order: Integers,
    n_in: int,
    least: float,
) -> int:
    """Return the vertex outside toward which the loss falls fastest, or -1."""
    # At the best point over the vertices that are in, their slopes are equal: the multiplier of the sum of
    # coefficients. The weighted mean evens out its rounding. The cost is `k n_in` products.
    level, best, chosen = 0.0, -least, -1
    for a in range(n_in):
        level += p[order[a]] * _slope(products, gram, p, order, n_in, order[a])
    for j in range(len(gram)):
        fall = _slope(products, gram, p, order, n_in, j) - level
        if p[j] == 0.0 and fall < best:
            best, chosen = fall, j
    return chosen


@compiled
def _slope(
    products: Doubles,
    gram: Doubles,
    p: Doubles,
    order: Integers,
    n_in: int,
    j: int,
) -> float:
    """Return the derivative ``(Gp - c)_j`` of the loss."""
    total = -products[j]
    for a in range(n_in):
        total += gram[j, order[a]] * p[order[a]]
    return total  # type: ignore[no-any-return]


@compiled
def _move(
    products: Doubles,
    gram: Doubles,
    p: Doubles,
    order: Integers,
    n_in: int,
    factor: Doubles,
    work: Doubles,
) -> int:
    """Go to the best point over the vertices that are in, as far as signs allow; return how many are left in.

    Where the best point has a coefficient that is not positive, the step ends where the first coefficient reaches
    zero; its vertex leaves and the next best point is solved for. At most as many rounds as vertices.
    """
    while True:
        share, leaves = 1.0, -1
        for a in range(n_in):
            if work[0, a] <= 0.0:
                step = p[order[a]] / (p[order[a]] - work[0, a])
                # One vertex leaves even where its step rounds to 1: its coefficient is not positive.
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
        if not _solve(products, gram, order, n_in, factor, work):
            return n_in


@compiled
def _solve(
    products: Doubles,
    gram: Doubles,
    order: Integers,
    n: int,
    factor: Doubles,
    work: Doubles,
) -> bool:
    """Minimize over the affine hull of some vertices into ``work[0]``; False if they are dependent.

    With ``G x = c`` and ``G u = 1`` the minimum with coefficients of sum 1 is ``x - (sum(x) - 1) / sum(u) u``.
    """
    if not _factorize(gram, order, n, factor):
        return False
    # The condition of the minimum, G p = c + m 1 with a multiplier m of the sum, has the solution p = x + m u, and m
    # follows from the sum of 1. Both systems share one factor: `n^3 / 6` products for it, `2 n^2` for the two.
    for a in range(n):
        work[1, a], work[2, a] = products[order[a]], 1.0
    free, unit = _substitute(factor, work[1], n), _substitute(factor, work[2], n)
    for a in range(n):
        work[0, a] = work[1, a] - (free - 1.0) / unit * work[2, a]
    return True


@compiled
def _factorize(gram: Doubles, order: Integers, n: int, factor: Doubles) -> bool:
    """Compute the Cholesky factor of the chosen rows and columns; False if a pivot is lost to rounding."""
    # Row by row: `L_ab = (G_ab - sum_(c < b) L_ac L_bc) / L_bb`, and `L_aa` is the root of what is left of `G_aa`.
    # Rows before a are final; the cost is `n^3 / 6` products. What is left of `G_aa` is the squared distance of vertex
    # a from the span of those before, hence the floor relative to its squared length.
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
def _substitute(factor: Doubles, x: Doubles, n: int) -> float:
    """Solve with the factor and its transpose, in place, and return the sum of the solution."""
    # First L y = x from above, then L' z = y from below; x[a] is read only after it is final. `n^2` products.
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
