"""From points to a hidden Markov chain: anchors of the states, sweeps of the other word types, and the moments."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dspectral.methods.brown.exchange import TypeFeatures, bigrams_of, exchange_sweep
from dspectral.methods.brown.pair_counts import PairCounts
from dspectral.methods.hmm.chain import HiddenMarkov, normalize
from dspectral.types import CSRRows, FloatArray

NOTHING = 1e-10
"""A squared distance from a span below this fraction of the largest one from the mean counts as rounding."""
MARGINAL_WEIGHT = 0.05
"""Weight of ``p(h)`` mixed into ``p(h | x)`` before the first EM pass for all parameters."""


def find_anchors(
    points: NDArray[np.float64],
    candidates: NDArray[np.int64],
    n_anchors: int,
    *,
    given: Sequence[int] = (),
    reselect: int = 5,
) -> NDArray[np.int64]:
    """Pick the candidates that come nearest to being the corners of a simplex around all points.

    The first is the candidate furthest from the candidates' mean, each of the others the one furthest from the affine
    span of those picked before it. Then, in turn, each is picked again as the one furthest from the span of all others.

    Shapes: `points` (n, d), `candidates` (n_candidates,); returns (n_anchors,).

    Arora et al. 2012, "A practical algorithm for topic modeling with provable guarantees", algorithm 4; its first
    anchor is never picked again.

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
    least = NOTHING * float(np.max(_from_span(rows, [])))
    # Each pick is a farthest point: O(n_candidates d n_anchors) for the first ones, and as much again for each anchor
    # of a round, since the span of all others changes with it. A round that changes nothing is a fixed point.
    chosen = list(range(len(given)))
    while len(chosen) < n_anchors:
        chosen.append(_furthest(rows, chosen, least))
    for _ in range(reselect):
        before = list(chosen)
        for i in range(len(given), n_anchors):
            others = chosen[:i] + chosen[i + 1 :]
            chosen[i] = _furthest(rows, others, least, instead_of=chosen[i])
        if chosen == before:
            break
    return np.asarray(pool[chosen])


def _furthest(
    rows: NDArray[np.float64], chosen: list[int], least: float, instead_of: int | None = None
) -> int:
    distances = _from_span(rows, chosen)
    # A chosen row must not be chosen again, even where all others lie in the span.
    distances[chosen] = -1.0
    best = int(np.argmax(distances))
    if distances[best] > least:
        return best
    # The candidates span too little: keep what is there, or fill up with the first one that is left.
    return instead_of if instead_of is not None else int(np.flatnonzero(distances >= 0)[0])


def _from_span(rows: NDArray[np.float64], chosen: list[int]) -> NDArray[np.float64]:
    """Return the squared distance of each row from the affine span of the chosen ones; with none, from the mean."""
    offset = rows - (rows[chosen[0]] if chosen else rows.mean(axis=0))
    # Singular vectors rather than QR: directions that are rounding can be told by their singular value.
    if len(chosen) > 1:
        basis, sizes, _ = np.linalg.svd(offset[chosen[1:]].T, full_matrices=False)
        basis = basis[:, sizes > NOTHING * sizes[0]] if sizes[0] > 0 else basis[:, :0]
        offset = offset - (offset @ basis) @ basis.T
    return np.asarray(np.einsum("ij,ij->i", offset, offset))


def sweep_types(
    pairs: PairCounts,
    membership: NDArray[np.float64],
    anchors: NDArray[np.int64],
    features: "CSRRows | None",
    weights: FloatArray,
    *,
    n_sweeps: int,
) -> NDArray[np.int32]:
    """Return one state for each type, beginning with that of its largest coefficient.

    Shapes: `pairs` (n_types, n_types), `membership` (n_types, n_states), `anchors` (n_states,), `features`
    (n_types, n_features), `weights` (n_types,); returns (n_types,).
    """
    # Anchors stay in their own states: without them, states could change places and lose their meaning.
    n_states = membership.shape[1]
    labels: NDArray[np.int32] = np.argmax(membership, axis=1).astype(np.int32)
    # A state is named by its anchor, even where another coefficient of the anchor rounds higher.
    labels[anchors] = np.arange(n_states)
    adjacent = bigrams_of(pairs)
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


def emissions(
    membership: NDArray[np.float64], counts: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Turn ``p(h | x)`` into ``o(x | h)`` by Bayes' rule.

    Shapes: `membership` (n_types, n_states), `counts` (n_types,); returns `emission` (n_types, n_states),
    `marginal` (n_states,).

    >>> emissions(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([1.0, 2.0]))
    (array([[0.5, 0. ],
           [0.5, 1. ]]), array([0.66666667, 0.33333333]))
    """
    joint = membership * counts[:, None]
    return normalize(joint, axis=0), normalize(joint.sum(axis=0), axis=0)


def mixed_emissions(membership: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return emissions to begin EM with, after the marginal of the states is mixed into what each type is.

    Shapes: `membership` (n_types, n_states), `counts` (n_types,); returns (n_types, n_states).
    """
    marginal = emissions(membership, counts)[1]
    return emissions((1.0 - MARGINAL_WEIGHT) * membership + MARGINAL_WEIGHT * marginal, counts)[0]


def chain_from_moments(
    membership: NDArray[np.float64],
    emission: NDArray[np.float64],
    pairs: PairCounts,
    first: NDArray[np.float64],
    *,
    prior: float = 0.0,
) -> HiddenMarkov:
    """Return the chain whose adjacent types are expected as often as they were counted.

    Shapes: `membership` (n_types, n_states), `emission` (n_types, n_states), `pairs` (n_types, n_types),
    `first` (n_types,).

    With ``C`` of entries ``C[g, h] = sum over x of p(g | x) o(x | h)``, the expected pairs of states are
    ``C^-1 P' N P C^-T`` and the expected first states ``C^-1 P' n``: exact where the counts are expectations.
    """
    # Expected counts seen through p(h | x) are mixed by C on each side; its inverse on each side undoes that.
    confusion = membership.T @ emission
    back = np.linalg.pinv(confusion)
    steps = back @ (membership.T @ np.asarray(pairs.times(membership)[0])) @ back.T
    initial = back @ (membership.T @ first)
    # The inverse amplifies noise, and entries may come out negative: they are cut off, and the prior keeps every
    # step possible, which EM could not make so later.
    # The prior is one amount for each row, spread evenly over the states, in units of counts.
    share = prior / emission.shape[1]
    return HiddenMarkov.of(
        normalize(np.maximum(initial, 0.0) + share, axis=0),
        normalize(np.maximum(steps, 0.0) + share, axis=1),
        emission,
    )
