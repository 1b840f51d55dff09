"""Bottom-up merging of points in a window of active clusters, in compiled loops."""

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only


def merge_window(
    points: NDArray[np.float64], weights: NDArray[np.float64], n_active: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Merge points in their order whenever more than ``n_active`` clusters are active, then merge what is left.

    Shapes: `points` (n, k), `weights` (n,); returns `merges` (n - 1, 2), `costs` (n - 1,).

    Each active cluster keeps a lower bound of its cheapest merge, tightened when it is the lowest of all: a merge
    of the cheapest pair never makes a cluster cheaper for the others, so bounds stay bounds. Time is
    ``O(n_active * k)`` for each point and each tightening, memory ``n_active`` means.

    Stratos, Kim, Collins and Hsu 2014, "A spectral algorithm for learning class-based n-gram models of natural
    language"; Franti, Kaukoranta, Shen and Chang 2000, "Fast and memory efficient implementation of the exact PNN",
    for the lazily tightened bounds.

    >>> merge_window(np.array([[0.0], [5.0], [0.1], [5.2]]), np.ones(4), 2)[0]
    array([[0, 2],
           [1, 3],
           [4, 5]], dtype=int32)
    """
    points, weights = points.astype(np.float64), weights.astype(np.float64)
    return _merge_window(read_only(points), read_only(weights), n_active)


@compiled
def _cost(x: NDArray[np.float64], y: NDArray[np.float64], w: float, v: float) -> float:
    """Return Ward's cost of merging two clusters: the rise of the weighted sum of squared distances to the mean."""
    total = 0.0
    for j in range(len(x)):
        total += (x[j] - y[j]) ** 2
    return w * v / (w + v) * total


@compiled
def _tighten(
    i: int,
    n: int,
    means: NDArray[np.float64],
    mass: NDArray[np.float64],
    bounds: NDArray[np.float64],
    twins: NDArray[np.int32],
) -> None:
    """Find the cheapest merge of an active cluster: its bound becomes tight, and the other cluster its twin."""
    # O(n k), the cost that the lower bounds save for clusters that never become the lowest.
    bounds[i], twins[i] = np.inf, -1
    for j in range(n):
        if j != i:
            cost = _cost(means[i], means[j], mass[i], mass[j])
            if cost < bounds[i]:
                bounds[i], twins[i] = cost, j


@compiled
def _cheapest(
    n: int,
    means: NDArray[np.float64],
    mass: NDArray[np.float64],
    bounds: NDArray[np.float64],
    twins: NDArray[np.int32],
) -> int:
    """Return the cluster with the cheapest merge; bounds are tightened, the lowest first, until the lowest is tight."""
    # Each turn makes one more bound tight, at O(n k), so the loop ends. The others are bounds from below: once the
    # lowest is tight, no pair is cheaper.
    while True:
        lowest = 0
        for i in range(1, n):
            if bounds[i] < bounds[lowest]:
                lowest = i
        if twins[lowest] >= 0:
            return lowest
        _tighten(lowest, n, means, mass, bounds, twins)


@compiled
def _write(point: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Write a point, number by number: Numba takes seconds to compile what would say that shapes differ."""
    for c in range(len(point)):
        out[c] = point[c]


@compiled
def _join(mean: NDArray[np.float64], other: NDArray[np.float64], mass: float, others: float) -> None:
    """Replace a mean by that of two clusters by mass."""
    for c in range(len(mean)):
        mean[c] = (mass * mean[c] + others * other[c]) / (mass + others)


@compiled
def _drop(
    gone: int,
    n: int,
    means: NDArray[np.float64],
    mass: NDArray[np.float64],
    bounds: NDArray[np.float64],
    twins: NDArray[np.int32],
    names: NDArray[np.int32],
) -> None:
    """Move the last active cluster to the place of one that is gone."""
    # Active clusters stay packed in the first places, so every scan runs over active clusters alone. Twins are places,
    # not names: those that point to the moved cluster follow it. None points to the cluster that is gone, because the
    # caller has reset these.
    last = n - 1
    _write(means[last], means[gone])
    mass[gone], bounds[gone], twins[gone], names[gone] = mass[last], bounds[last], twins[last], names[last]
    for i in range(last):
        if twins[i] == last:
            twins[i] = gone


# Invariants: means[:n], mass[:n] and names[:n] are the active clusters; bounds[i] is at most the cost of the cheapest
# merge of i, and equal to it where twins[i], the other cluster of that merge, is not -1. A new point lowers bounds
# exactly. A merge of the cheapest pair (a, b) invalidates only bounds whose twin was a or b; these stay lower bounds,
# because the cost of a third cluster with a + b is at least the lower of its costs with a and with b (reducibility
# of Ward's cost, given that a and b are the cheapest pair). So the lowest bound, once tight, is the cheapest merge.
# Few bounds are ever tightened, as most never are the lowest.
@compiled
def _merge_window(
    points: NDArray[np.float64], weights: NDArray[np.float64], n_active: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    n_points, k = points.shape
    merges, costs = np.empty((n_points - 1, 2), dtype=np.int32), np.empty(n_points - 1)
    # There is one place more than the window holds: a point enters first, and a merge then makes room.
    means, mass = np.empty((n_active + 1, k)), np.empty(n_active + 1)
    bounds, twins = np.empty(n_active + 1), np.empty(n_active + 1, dtype=np.int32)
    names = np.empty(n_active + 1, dtype=np.int32)
    n, done, point = 0, 0, 0
    while done < n_points - 1:
        if point < n_points and n <= n_active:
            # A new point is compared with all active clusters, in O(n k), and lowers the bounds above its costs.
            _write(points[point], means[n])
            mass[n], names[n] = weights[point], point
            bounds[n], twins[n] = np.inf, -1
            for j in range(n):
                cost = _cost(means[n], means[j], mass[n], mass[j])
                if cost < bounds[j]:
                    bounds[j], twins[j] = cost, n
                if cost < bounds[n]:
                    bounds[n], twins[n] = cost, j
            n, point = n + 1, point + 1
            continue
        i = _cheapest(n, means, mass, bounds, twins)
        costs[done] = bounds[i]
        a, b = min(i, twins[i]), max(i, twins[i])
        merges[done, 0], merges[done, 1] = min(names[a], names[b]), max(names[a], names[b])
        # The merged cluster takes the place of a: its mean is that of both by mass, so that no point is needed again.
        _join(means[a], means[b], mass[a], mass[b])
        mass[a] += mass[b]
        names[a] = n_points + done
        bounds[a], twins[a] = min(bounds[a], bounds[b]), -1  # a bound, no longer tight
        for j in range(n):
            if twins[j] == a or twins[j] == b:
                twins[j] = -1
        _drop(b, n, means, mass, bounds, twins, names)
        n, done = n - 1, done + 1
    return merges, costs
