"""From points to a hidden Markov chain: anchors of the states, sweeps of the other word types, and the moments."""

from collections.abc import Sequence

import numpy as np

from dspectral._compiled import compiled, read_only
from dspectral.methods.brown.exchange import TypeFeatures, exchange_sweep, to_bigram_counts
from dspectral.methods.brown.pair_counts import AdjacentCounts
from dspectral.methods.hmm.chain import HiddenMarkov, normalize
from dspectral.types import CSRRows, Doubles, FloatArray, Int32s, Int64s

ROUNDING_SHARE = 1e-10
"""A squared distance from a span below this fraction of the largest one from the mean counts as rounding."""
MARGINAL_WEIGHT = 0.05
"""Weight of ``p(h)`` mixed into ``p(h | x)`` before the first EM pass for all parameters."""
TOLERANCE = 1e-12
"""A vertex enters if that lowers the loss faster than this share of the scale of the problem."""


def find_anchors(
    points: Doubles, candidates: Int64s, n_anchors: int, *, given: Sequence[int] = (), reselect: int = 5
) -> Int64s:
    """Pick the candidates that come nearest to being the corners of a simplex around all points.

    Each is the one furthest from the affine span of those picked before it, and then, in turn, of all others (Arora
    et al. 2012, algorithm 4). Shapes: `points` (n, d), `candidates` (n_candidates,); returns (n_anchors,).

    >>> points = np.array([[0.0, 0.0], [0.1, 0.1], [1.0, 0.0], [0.2, 0.2], [0.0, 1.0]])
    >>> sorted(find_anchors(points, np.arange(5), 3).tolist())
    [0, 2, 4]
    """
    if len(set(given)) < len(given):
        raise ValueError(f"given anchors are {list(given)}, but each must be another row")
    if len(given) > n_anchors:
        raise ValueError(f"{len(given)} anchors are given, but there are {n_anchors} states")
    # Given anchors are rows 0, 1, ... of the pool, so that choices are indices into it throughout.
    pool = np.concatenate(
        [np.array(list(given), dtype=np.int64), candidates[~np.isin(candidates, list(given))]]
    )
    if len(pool) < n_anchors:
        raise ValueError(f"there are {len(pool)} candidates for {n_anchors} anchors")
    rows = np.asarray(points[pool], dtype=np.float64)
    min_distance = ROUNDING_SHARE * float(np.max(_squared_distances_from_span(rows, [])))
    # Each pick is a farthest point: O(n_candidates d n_anchors) for the first ones, and as much again for each anchor
    # of a round, since the span of all others changes with it. A round that changes nothing is a fixed point.
    picked = list(range(len(given)))
    while len(picked) < n_anchors:
        picked.append(_farthest_row(rows, picked, min_distance))
    for _ in range(reselect):
        before = list(picked)
        for i in range(len(given), n_anchors):
            others = picked[:i] + picked[i + 1 :]
            picked[i] = _farthest_row(rows, others, min_distance, current=picked[i])
        if picked == before:
            break
    return np.asarray(pool[picked])


def _farthest_row(rows: Doubles, picked: list[int], min_distance: float, current: int | None = None) -> int:
    distances = _squared_distances_from_span(rows, picked)
    # A chosen row must not be chosen again, even where all others lie in the span.
    distances[picked] = -1.0
    best = int(np.argmax(distances))
    if distances[best] > min_distance:
        return best
    # The candidates span too little: keep what is there, or fill up with the first one that is left.
    return current if current is not None else int(np.flatnonzero(distances >= 0)[0])


def _squared_distances_from_span(rows: Doubles, picked: list[int]) -> Doubles:
    """Return the squared distance of each row from the affine span of the chosen ones; with none, from the mean."""
    offset = rows - (rows[picked[0]] if picked else rows.mean(axis=0))
    # Singular vectors rather than QR: directions that are rounding can be told by their singular value.
    if len(picked) > 1:
        basis, sizes, _ = np.linalg.svd(offset[picked[1:]].T, full_matrices=False)
        basis = basis[:, sizes > ROUNDING_SHARE * sizes[0]] if sizes[0] > 0 else basis[:, :0]
        offset = offset - (offset @ basis) @ basis.T
    return np.asarray(np.einsum("ij,ij->i", offset, offset))


def project_to_simplex(points: Doubles, vertices: Doubles) -> Doubles:
    """Return the convex coefficients of the point of the vertices' hull that is nearest to each row.

    Lawson and Hanson's active sets (1974), the sum of the coefficients bound to 1; ``O(k**3)`` for each vertex that
    enters. Shapes: `points` (n, d), `vertices` (k, d); returns (n, k).

    >>> project_to_simplex(np.array([[0.25, 0.0], [3.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    array([[0.75, 0.25, 0.  ],
           [0.  , 1.  , 0.  ]])
    """
    center = vertices.mean(axis=0)
    corners = np.asarray(vertices - center, dtype=np.float64)
    gram = corners @ corners.T
    # A constant added to all inner products changes nothing where coefficients sum to 1, and lifts the null vector of
    # the centered Gram matrix: systems are positive definite where vertices are affinely independent.
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
def _fit_row(
    products: Doubles, gram: Doubles, p: Doubles, order: Int64s, factor: Doubles, work: Doubles
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
        picked = _find_steepest_vertex(products, gram, p, order, n_in, TOLERANCE * scale)
        if picked < 0:
            break
        order[n_in] = picked
        # A vertex that depends on those that are in stays out, and one whose best coefficient is not positive was
        # chosen by rounding: either ends the search.
        if not _solve(products, gram, order, n_in + 1, factor, work) or work[0, n_in] <= 0.0:
            break
        n_in = _move_to_minimum(products, gram, p, order, n_in + 1, factor, work)


@compiled
def _find_steepest_vertex(
    products: Doubles, gram: Doubles, p: Doubles, order: Int64s, n_in: int, min_distance: float
) -> int:
    """Return the vertex outside toward which the loss falls fastest, or -1."""
    # At the best point over the vertices that are in, their slopes are equal: the multiplier of the sum of
    # coefficients. The weighted mean evens out its rounding. The cost is `k n_in` products.
    level, best, picked = 0.0, -min_distance, -1
    for a in range(n_in):
        level += p[order[a]] * _loss_slope(products, gram, p, order, n_in, order[a])
    for j in range(len(gram)):
        fall = _loss_slope(products, gram, p, order, n_in, j) - level
        if p[j] == 0.0 and fall < best:
            best, picked = fall, j
    return picked


@compiled
def _loss_slope(products: Doubles, gram: Doubles, p: Doubles, order: Int64s, n_in: int, j: int) -> float:
    """Return the derivative ``(Gp - c)_j`` of the loss."""
    total = -products[j]
    for a in range(n_in):
        total += gram[j, order[a]] * p[order[a]]
    return total  # type: ignore[no-any-return]


@compiled
def _move_to_minimum(
    products: Doubles, gram: Doubles, p: Doubles, order: Int64s, n_in: int, factor: Doubles, work: Doubles
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
def _solve(products: Doubles, gram: Doubles, order: Int64s, n: int, factor: Doubles, work: Doubles) -> bool:
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
def _factorize(gram: Doubles, order: Int64s, n: int, factor: Doubles) -> bool:
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


def sweep_types(
    pairs: AdjacentCounts,
    membership: Doubles,
    anchors: Int64s,
    features: "CSRRows | None",
    weights: FloatArray,
    *,
    n_sweeps: int,
) -> Int32s:
    """Return one state for each type (n_types,), beginning with that of its largest coefficient."""
    # Anchors stay in their own states: without them, states could change places and lose their meaning.
    n_states = membership.shape[1]
    labels: Int32s = np.argmax(membership, axis=1).astype(np.int32)
    # A state is named by its anchor, even where another coefficient of the anchor rounds higher.
    labels[anchors] = np.arange(n_states)
    adjacent = to_bigram_counts(pairs)
    marks = None if features is None else weigh_features(features, weights)
    # A sweep never lowers the mutual information of adjacent states (plus that with the spelling), so sweeps end; the
    # last ones move next to nothing, and stop where fewer than one type in a thousand moves.
    for _ in range(n_sweeps):
        moved = exchange_sweep(adjacent, labels, n_states, marks, fixed=anchors)
        if moved <= len(labels) // 1000:
            break
    return labels


def weigh_features(features: CSRRows, weights: FloatArray) -> TypeFeatures:
    """Divide the weight of each type equally among its spelling features, for exchange sweeps."""
    sizes = np.maximum(np.diff(features.indptr), 1)
    return TypeFeatures(
        features.indptr.astype(np.int64),
        features.indices.astype(np.int32),
        np.asarray(weights / sizes, dtype=np.float64),
        features.shape[1],
    )


def emission_from_membership(membership: Doubles, counts: Doubles) -> tuple[Doubles, Doubles]:
    """Turn ``p(h | x)`` into ``o(x | h)`` by Bayes' rule."""
    joint = membership * counts[:, None]
    return normalize(joint, axis=0), normalize(joint.sum(axis=0), axis=0)


def smooth_emissions(membership: Doubles, counts: Doubles) -> Doubles:
    """Return emissions to begin EM with, after the marginal of the states is mixed into what each type is."""
    marginal = emission_from_membership(membership, counts)[1]
    return emission_from_membership(
        (1.0 - MARGINAL_WEIGHT) * membership + MARGINAL_WEIGHT * marginal, counts
    )[0]


def chain_from_moments(
    membership: Doubles, emission: Doubles, pairs: AdjacentCounts, first: Doubles, *, prior: float = 0.0
) -> HiddenMarkov:
    """Return the chain whose adjacent types are expected as often as they were counted.

    With ``C`` of entries ``C[g, h] = sum over x of p(g | x) o(x | h)``, the expected pairs of states are ``C^-1 P' N
    P C^-T`` and the expected first states ``C^-1 P' n``: exact where the counts are expectations. Shapes:
    `membership` (n_types, n_states), `emission` (n_types, n_states), `pairs` (n_types, n_types), `first` (n_types,).
    """
    # Expected counts seen through p(h | x) are mixed by C on each side; its inverse on each side undoes that.
    confusion = membership.T @ emission
    back = np.linalg.pinv(confusion)
    steps = back @ (membership.T @ np.asarray(pairs.times(membership)[0])) @ back.T
    initial = back @ (membership.T @ first)
    # The inverse amplifies noise, and entries may come out negative: they are cut off, and the prior keeps every
    # step possible, which EM could not make so later. It is one amount for each row, spread evenly over the states.
    share = prior / emission.shape[1]
    return HiddenMarkov.from_arrays(
        normalize(np.maximum(initial, 0.0) + share, axis=0),
        normalize(np.maximum(steps, 0.0) + share, axis=1),
        emission,
    )
