"""Selection of anchors, assignment of the other word types, and the hidden Markov model from moments."""

from collections.abc import Sequence

import numpy as np

from dspectral._compiled import compiled, read_only
from dspectral.methods.brown.exchange import TypeFeatures, exchange_sweep, to_bigram_counts
from dspectral.methods.brown.pair_counts import AdjacentCounts
from dspectral.methods.hmm.chain import HiddenMarkov, normalize
from dspectral.types import CSRRows, Doubles, FloatArray, Int32s, Int64s

ROUNDING_SHARE = 1e-10
"""Fraction of the largest squared distance from the mean below which a distance counts as zero."""
MARGINAL_WEIGHT = 0.05
"""Weight of ``p(h)`` mixed into ``p(h | x)`` before the first EM pass for all parameters."""
TOLERANCE = 1e-12
"""Tolerance of the optimality conditions, relative to the scale of the problem."""


def find_anchors(
    points: Doubles,
    candidates: Int64s,
    n_anchors: int,
    *,
    fixed_anchors: Sequence[int] = (),
    reselect: int = 5,
) -> Int64s:
    """Return the candidates that are approximate corners of the convex hull of all points.

    Each anchor is the farthest candidate from the affine span of the previous ones, then in turn of all others (Arora
    et al. 2012, algorithm 4). Shapes: `points` (n, d), `candidates` (n_candidates,); returns (n_anchors,).

    >>> points = np.array([[0.0, 0.0], [0.1, 0.1], [1.0, 0.0], [0.2, 0.2], [0.0, 1.0]])
    >>> sorted(find_anchors(points, np.arange(5), 3).tolist())
    [0, 2, 4]
    """
    if len(set(fixed_anchors)) < len(fixed_anchors):
        raise ValueError(f"the given anchors {list(fixed_anchors)} must be distinct: remove repeated words")
    if len(fixed_anchors) > n_anchors:
        raise ValueError(
            f"{len(fixed_anchors)} anchors are given, but must be at most {n_anchors}, the number of states"
        )
    # Given anchors are rows 0, 1, ... of the pool.
    pool = np.concatenate(
        [np.array(list(fixed_anchors), dtype=np.int64), candidates[~np.isin(candidates, list(fixed_anchors))]]
    )
    rows = np.asarray(points[pool], dtype=np.float64)
    min_distance = ROUNDING_SHARE * float(np.max(_squared_distances_from_span(rows, [])))
    # Cost: O(n_candidates d n_anchors) for each selection. A round without a change is a fixed point.
    selected = list(range(len(fixed_anchors)))
    while len(selected) < n_anchors:
        selected.append(_find_farthest_row(rows, selected, min_distance))
    for _ in range(reselect):
        before = list(selected)
        for i in range(len(fixed_anchors), n_anchors):
            others = selected[:i] + selected[i + 1 :]
            selected[i] = _find_farthest_row(rows, others, min_distance, current=selected[i])
        if selected == before:
            break
    return pool[selected]


def _find_farthest_row(rows: Doubles, selected: list[int], min_distance: float, current: int | None = None) -> int:
    distances = _squared_distances_from_span(rows, selected)
    # Exclude selected rows, even if all others lie in the span.
    distances[selected] = -1.0
    best = int(np.argmax(distances))
    if distances[best] > min_distance:
        return best
    # All candidates lie in the span: keep the current one, or take the first unused one.
    return current if current is not None else int(np.flatnonzero(distances >= 0)[0])


def _squared_distances_from_span(rows: Doubles, selected: list[int]) -> Doubles:
    """Return the squared distance of each row from the affine span of the picked rows; with none, from the mean."""
    offset = rows - (rows[selected[0]] if selected else rows.mean(axis=0))
    # SVD rather than QR: singular values identify directions that are rounding.
    if len(selected) > 1:
        basis, sizes, _ = np.linalg.svd(offset[selected[1:]].T, full_matrices=False)
        basis = basis[:, sizes > ROUNDING_SHARE * sizes[0]] if sizes[0] > 0 else basis[:, :0]
        offset = offset - (offset @ basis) @ basis.T
    return np.einsum("ij,ij->i", offset, offset)


def project_to_simplex(points: Doubles, vertices: Doubles) -> Doubles:
    """Return the convex coefficients of the projection of each row on the convex hull of the vertices.

    Active-set method of Lawson and Hanson (1974) with coefficients that sum to 1; ``O(k**3)`` for each vertex that
    enters. Shapes: `points` (n, d), `vertices` (k, d); returns (n, k).

    >>> project_to_simplex(np.array([[0.25, 0.0], [3.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    array([[0.75, 0.25, 0.  ],
           [0.  , 1.  , 0.  ]])
    """
    center = vertices.mean(axis=0)
    corners = np.asarray(vertices - center, dtype=np.float64)
    gram = corners @ corners.T
    # As coefficients sum to 1, a constant added to all inner products has no effect on the solution; it makes the
    # systems positive definite for affinely independent vertices.
    lift = float(np.trace(gram)) / max(len(gram), 1) or 1.0
    products = np.asarray(points - center, dtype=np.float64) @ corners.T
    out = np.zeros(products.shape)
    _fit_rows(read_only(products + lift), read_only(gram + lift), out)
    return out


@compiled
def _fit_rows(products: Doubles, gram: Doubles, out: Doubles) -> None:
    k = len(gram)
    order, factor, work = np.empty(k, dtype=np.int64), np.empty((k, k)), np.empty((3, k))
    for i in range(len(products)):
        _fit_row(products[i], gram, out[i], order, factor, work)


@compiled
def _fit_row(products: Doubles, gram: Doubles, p: Doubles, order: Int64s, factor: Doubles, work: Doubles) -> None:
    """Fit one row: ``order[:n_in]`` holds the active vertices, ``work`` the solutions of the systems.

    Invariant: p is on the simplex, zero for inactive vertices, and minimizes ``p'Gp / 2 - c'p`` over the affine hull of
    the active ones (G: inner products of the vertices, c: those with the point). Each iteration activates a vertex
    and decreases the loss, so no active set repeats.
    """
    k, n_in = len(gram), 1
    # Start at the single vertex of smallest loss `G_jj / 2 - c_j`, which satisfies the invariant.
    order[0], scale = 0, 0.0
    for j in range(k):
        scale = max(scale, abs(products[j]), gram[j, j])
        if 0.5 * gram[j, j] - products[j] < 0.5 * gram[order[0], order[0]] - products[order[0]]:
            order[0] = j
    p[order[0]] = 1.0
    # The loss decreases, so the loop terminates; the bound guards against rounding.
    for _ in range(10 * k):
        vertex = _find_steepest_vertex(products, gram, p, order, n_in, TOLERANCE * scale)
        if vertex < 0:
            break
        order[n_in] = vertex
        # Stop at a vertex that depends on the active ones, or whose coefficient is not positive, due to rounding.
        if not _solve(products, gram, order, n_in + 1, factor, work) or work[0, n_in] <= 0.0:
            break
        n_in = _move_to_minimum(products, gram, p, order, n_in + 1, factor, work)


@compiled
def _find_steepest_vertex(
    products: Doubles, gram: Doubles, p: Doubles, order: Int64s, n_in: int, min_distance: float
) -> int:
    """Return the inactive vertex of steepest descent, or -1."""
    # At the optimum over the active vertices their slopes all equal the multiplier of the sum constraint. The weighted
    # mean reduces rounding. Cost: `k n_in` products.
    level, best, vertex = 0.0, -min_distance, -1
    for a in range(n_in):
        level += p[order[a]] * _loss_slope(products, gram, p, order, n_in, order[a])
    for j in range(len(gram)):
        fall = _loss_slope(products, gram, p, order, n_in, j) - level
        if p[j] == 0.0 and fall < best:
            best, vertex = fall, j
    return vertex


@compiled
def _loss_slope(products: Doubles, gram: Doubles, p: Doubles, order: Int64s, n_in: int, j: int) -> float:
    """Return the derivative ``(Gp - c)_j`` of the loss."""
    total = -products[j]
    for a in range(n_in):
        total += gram[j, order[a]] * p[order[a]]
    return total


@compiled
def _move_to_minimum(
    products: Doubles, gram: Doubles, p: Doubles, order: Int64s, n_in: int, factor: Doubles, work: Doubles
) -> int:
    """Move to the optimum over the active vertices as far as signs permit; return the number of active vertices.

    If the optimum has a coefficient that is not positive, the step stops where the first coefficient reaches zero,
    its vertex is removed, and the optimum is computed again. At most one iteration for each vertex.
    """
    while True:
        share, leaves = 1.0, -1
        for a in range(n_in):
            if work[0, a] <= 0.0:
                step = p[order[a]] / (p[order[a]] - work[0, a])
                # A vertex is removed even if its step rounds to 1.
                if step < share or leaves < 0:
                    share, leaves = min(step, share), a
        for a in range(n_in):
            p[order[a]] += share * (work[0, a] - p[order[a]])
        if leaves < 0:
            return n_in
        p[order[leaves]] = 0.0
        n_kept = 0
        for a in range(n_in):
            if a != leaves:
                order[n_kept] = order[a]
                n_kept += 1
        n_in = n_kept
        if not _solve(products, gram, order, n_in, factor, work):
            return n_in


@compiled
def _solve(products: Doubles, gram: Doubles, order: Int64s, n: int, factor: Doubles, work: Doubles) -> bool:
    """Write the minimizer over the affine hull of the active vertices to ``work[0]``; return False if dependent.

    With ``G x = c`` and ``G u = 1`` the minimum with coefficients of sum 1 is ``x - (sum(x) - 1) / sum(u) u``.
    """
    if not _factorize(gram, order, n, factor):
        return False
    # The optimality condition G p = c + m 1, with the multiplier m of the sum constraint, gives p = x + m u. Cost:
    # `n^3 / 6` products for the factor, `2 n^2` for both systems.
    for a in range(n):
        work[1, a], work[2, a] = products[order[a]], 1.0
    free, unit = _substitute(factor, work[1], n), _substitute(factor, work[2], n)
    for a in range(n):
        work[0, a] = work[1, a] - (free - 1.0) / unit * work[2, a]
    return True


@compiled
def _factorize(gram: Doubles, order: Int64s, n: int, factor: Doubles) -> bool:
    """Write the Cholesky factor of the active rows and columns; return False if a pivot is lost to rounding."""
    # Row by row: `L_ab = (G_ab - sum_(c < b) L_ac L_bc) / L_bb`, and `L_aa^2` is the remainder of `G_aa`. Invariant:
    # rows before a are final. Cost: `n^3 / 6` products. The remainder is the squared distance of vertex a from the
    # span of the previous ones, hence a floor relative to its squared norm.
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
    """Solve with the factor and its transpose in place; return the sum of the solution."""
    # Forward substitution L y = x, then back substitution L' z = y: `n^2` products.
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


def sweep_types(
    pairs: AdjacentCounts,
    membership: Doubles,
    anchors: Int64s,
    features: "CSRRows | None",
    weights: FloatArray,
    *,
    n_sweeps: int,
) -> Int32s:
    """Return one state for each type (n_types,), by exchange sweeps from the state of largest membership."""
    # Anchors stay fixed, so that states do not swap.
    n_states = membership.shape[1]
    labels: Int32s = np.argmax(membership, axis=1).astype(np.int32)
    # An anchor belongs to its state, even if another coefficient rounds higher.
    labels[anchors] = np.arange(n_states)
    adjacent = to_bigram_counts(pairs)
    marks = None if features is None else weigh_features(features, weights)
    # No sweep decreases the mutual information of adjacent states (plus that with spelling). Stop when at most one
    # type in a thousand moves.
    for _ in range(n_sweeps):
        n_moved = exchange_sweep(adjacent, labels, n_states, marks, fixed=anchors)
        if n_moved <= len(labels) // 1000:
            break
    return labels


def weigh_features(features: CSRRows, weights: FloatArray) -> TypeFeatures:
    """Return the spelling features for exchange sweeps; the weight of a type is split equally among its features."""
    sizes = np.maximum(np.diff(features.indptr), 1)
    starts, columns = features.indptr.astype(np.int64), features.indices.astype(np.int32)
    return TypeFeatures(starts, columns, np.asarray(weights / sizes, dtype=np.float64), features.shape[1])


def emission_from_membership(membership: Doubles, counts: Doubles) -> tuple[Doubles, Doubles]:
    """Return ``o(x | h)`` and ``p(h)`` from ``p(h | x)`` by Bayes' rule."""
    joint = membership * counts[:, None]
    return normalize(joint, axis=0), normalize(joint.sum(axis=0), axis=0)


def smooth_emissions(membership: Doubles, counts: Doubles) -> Doubles:
    """Return initial emissions for EM, from memberships mixed with the marginal of the states."""
    marginal = emission_from_membership(membership, counts)[1]
    return emission_from_membership((1.0 - MARGINAL_WEIGHT) * membership + MARGINAL_WEIGHT * marginal, counts)[0]


def chain_from_moments(
    membership: Doubles, emission: Doubles, pairs: AdjacentCounts, first: Doubles, *, prior: float = 0.0
) -> HiddenMarkov:
    """Return the model whose expected counts of adjacent types equal the given counts.

    With ``C`` of entries ``C[g, h] = sum over x of p(g | x) o(x | h)``, the expected pairs of states are ``C^-1 P' N
    P C^-T`` and the expected first states ``C^-1 P' n``: exact where the counts are expectations. Shapes:
    `membership` (n_types, n_states), `emission` (n_types, n_states), `pairs` (n_types, n_types), `first` (n_types,).
    """
    # Counts projected by p(h | x) are multiplied by C on each side; its inverse removes that.
    confusion = membership.T @ emission
    back = np.linalg.pinv(confusion)
    steps = back @ (membership.T @ pairs.times(membership)[0]) @ back.T
    initial = back @ (membership.T @ first)
    # The inverse amplifies noise: negative entries become 0. The prior, spread evenly over each row, keeps every step
    # possible, since EM never changes a zero.
    share = prior / emission.shape[1]
    return HiddenMarkov(
        normalize(np.maximum(initial, 0.0) + share, axis=0),
        normalize(np.maximum(steps, 0.0) + share, axis=1),
        emission,
        np.ones(len(initial)),
    ).as_read_only()
