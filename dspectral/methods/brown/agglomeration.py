"""Agglomerative clustering in compiled loops: of points in a window, and of clusters by mutual information."""

from typing import NamedTuple

import numpy as np

from dspectral._compiled import compiled, read_only
from dspectral.methods.brown.exchange import xlogx
from dspectral.registry import register_class
from dspectral.types import Bools, Doubles, Int32s


@register_class({"merges": "n 2", "costs": "n"})
class ClusterTree(NamedTuple):
    """Binary tree over n leaves, in the format of SciPy's linkage: nodes below n are leaves.

    `merges` (n - 1, 2): the nodes that merge into node ``n + i``; `costs` (n - 1,): their costs.

    >>> tree = ClusterTree(np.array([[0, 2], [1, 3], [4, 5]]), np.arange(3.0))
    >>> tree.codes(), tree.codes(2), tree.cut(2)
    (['00', '10', '01', '11'], ['0', '1', '0', '1'], array([0, 1, 0, 1], dtype=int32))
    """

    merges: Int32s
    costs: Doubles

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.merges) + 1

    def cut(self, n_clusters: int) -> Int32s:
        """Return the cluster of each leaf, shape (n,), without the last ``n_clusters - 1`` merges."""
        n = self._check_cut(n_clusters)
        # From the last remaining merge down, a node inherits the root of its parent.
        roots = np.arange(2 * n - 1)
        for i in range(n - n_clusters - 1, -1, -1):
            roots[self.merges[i]] = roots[n + i]
        # Number clusters by their first leaf.
        _, first, inverse = np.unique(roots[:n], return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int32)
        rank[np.argsort(first)] = np.arange(len(first))
        return np.asarray(rank[inverse], dtype=np.int32)

    def codes(self, n_clusters: int | None = None) -> list[str]:
        """Return the path from the root to each leaf, or to its cluster of `n_clusters`, as a bit string."""
        n_clusters = self.n_leaves if n_clusters is None else n_clusters
        n = self._check_cut(n_clusters)
        # From the root down: the last n_clusters - 1 merges add a bit.
        codes = [""] * (2 * n - 1)
        for i in range(n - 2, -1, -1):
            split = i >= n - n_clusters
            # Parents have higher numbers, so their codes are complete.
            for bit, child in zip("01", self.merges[i], strict=True):
                codes[child] = codes[n + i] + (bit if split else "")
        return codes[:n]

    def _check_cut(self, n_clusters: int) -> int:
        n = self.n_leaves
        if not 1 <= n_clusters <= n:
            raise ValueError(f"n_clusters={n_clusters} must be from 1 to {n}, the number of leaves of the tree")
        return n


def merge_window(points: Doubles, weights: Doubles, n_active: int) -> tuple[Int32s, Doubles]:
    """Merge points by Ward's cost, adding them in order to a window of at most `n_active` clusters.

    Each active cluster has a lower bound of its cheapest merge, which is tightened when it is the lowest of all. Cost:
    ``O(n_active * k)`` per point and per tightening. Stratos, Kim, Collins and Hsu 2014; Franti et al. 2000. Shapes:
    `points` (n, k), `weights` (n,); returns `merges` (n - 1, 2), `costs` (n - 1,).
    """
    return _merge_window(read_only(points), read_only(weights), n_active)


@compiled
def _ward_cost(x: Doubles, y: Doubles, w: float, v: float) -> float:
    """Return Ward's cost of a merge: the increase of the weighted sum of squared distances to the means."""
    total = 0.0
    for j in range(len(x)):
        total += (x[j] - y[j]) ** 2
    return w * v / (w + v) * total


@compiled
def _update_bound(i: int, n: int, means: Doubles, mass: Doubles, bounds: Doubles, partners: Int32s) -> None:
    """Find the cheapest merge of an active cluster; set its bound to the cost and its partner to the other cluster."""
    # O(n k). Lower bounds avoid this cost for clusters whose bound is never the lowest.
    bounds[i], partners[i] = np.inf, -1
    for j in range(n):
        if j != i:
            cost = _ward_cost(means[i], means[j], mass[i], mass[j])
            if cost < bounds[i]:
                bounds[i], partners[i] = cost, j


@compiled
def _find_cheapest(n: int, means: Doubles, mass: Doubles, bounds: Doubles, partners: Int32s) -> int:
    """Return the cluster with the cheapest merge: tighten the lowest bound until the lowest bound is tight."""
    # Each iteration tightens one more bound in O(n k), so the loop ends. If the lowest lower bound is tight, no pair is
    # cheaper.
    while True:
        lowest = 0
        for i in range(1, n):
            if bounds[i] < bounds[lowest]:
                lowest = i
        if partners[lowest] >= 0:
            return lowest
        _update_bound(lowest, n, means, mass, bounds, partners)


@compiled
def _copy_point(point: Doubles, out: Doubles) -> None:
    """Copy a point by a loop: an array assignment takes Numba seconds to compile."""
    for c in range(len(point)):
        out[c] = point[c]


@compiled
def _merge_means(mean: Doubles, other: Doubles, mass: float, other_mass: float) -> None:
    """Replace a mean in place by the weighted mean of two clusters."""
    for c in range(len(mean)):
        mean[c] = (mass * mean[c] + other_mass * other[c]) / (mass + other_mass)


@compiled
def _remove_cluster(
    removed: int, n: int, means: Doubles, mass: Doubles, bounds: Doubles, partners: Int32s, names: Int32s
) -> None:
    """Remove a cluster by moving the last active one to its index."""
    # Active clusters stay contiguous, so scans visit only them. Partners are indices, so those of the moved cluster
    # change with it. The caller has reset partners that point to the removed cluster.
    last = n - 1
    _copy_point(means[last], means[removed])
    mass[removed] = mass[last]
    bounds[removed] = bounds[last]
    partners[removed] = partners[last]
    names[removed] = names[last]
    for i in range(last):
        if partners[i] == last:
            partners[i] = removed


# Invariants: means[:n], mass[:n] and names[:n] are the active clusters; bounds[i] is at most the cost of the cheapest
# merge of i, and equal to it if partners[i], the other cluster of that merge, is not -1. A new point updates bounds
# exactly. A merge of the cheapest pair (a, b) invalidates only bounds whose partner was a or b. These stay lower bounds
# because Ward's cost is reducible: the cost of a third cluster with a + b is at least the lower of its costs with a and
# with b. So the lowest bound, once tight, is the cheapest merge.
@compiled
def _merge_window(points: Doubles, weights: Doubles, n_active: int) -> tuple[Int32s, Doubles]:
    n_points, k = points.shape
    merges, costs = np.empty((n_points - 1, 2), dtype=np.int32), np.empty(n_points - 1)
    # One more than the window: a point is added before a merge.
    means, mass = np.empty((n_active + 1, k)), np.empty(n_active + 1)
    bounds, partners = np.empty(n_active + 1), np.empty(n_active + 1, dtype=np.int32)
    names = np.empty(n_active + 1, dtype=np.int32)
    n, n_merged, point = 0, 0, 0
    while n_merged < n_points - 1:
        if point < n_points and n <= n_active:
            # Compare the new point with all active clusters in O(n k), and lower bounds above its costs.
            _copy_point(points[point], means[n])
            mass[n], names[n] = weights[point], point
            bounds[n], partners[n] = np.inf, -1
            for j in range(n):
                cost = _ward_cost(means[n], means[j], mass[n], mass[j])
                if cost < bounds[j]:
                    bounds[j], partners[j] = cost, n
                if cost < bounds[n]:
                    bounds[n], partners[n] = cost, j
            n, point = n + 1, point + 1
            continue
        i = _find_cheapest(n, means, mass, bounds, partners)
        costs[n_merged] = bounds[i]
        a, b = min(i, partners[i]), max(i, partners[i])
        merges[n_merged, 0], merges[n_merged, 1] = min(names[a], names[b]), max(names[a], names[b])
        # The merged cluster replaces a. Its weighted mean suffices, so points are not read again.
        _merge_means(means[a], means[b], mass[a], mass[b])
        mass[a] += mass[b]
        names[a] = n_points + n_merged
        bounds[a], partners[a] = min(bounds[a], bounds[b]), -1  # a lower bound
        for j in range(n):
            if partners[j] == a or partners[j] == b:
                partners[j] = -1
        _remove_cluster(b, n, means, mass, bounds, partners, names)
        n, n_merged = n - 1, n_merged + 1
    return merges, costs


def merge_by_information(counts: Doubles) -> tuple[Int32s, Doubles]:
    """Merge clusters, at each step the pair with the smallest loss of mutual information, in ``O(m^3)``."""
    return _merge_by_information(np.array(counts, dtype=np.float64))  # the loop overwrites the copy


@compiled
def _third_cluster_loss(C: Doubles, i: int, j: int, e: int) -> float:
    """Return the loss of merging i and j in the four cells with a third cluster e."""
    # With f(x) = x log x: f(C[i, e]) + f(C[j, e]) - f(C[i, e] + C[j, e]), and the same for the cells C[e, .].
    return (
        xlogx(C[i, e])
        + xlogx(C[j, e])
        - xlogx(C[i, e] + C[j, e])
        + xlogx(C[e, i])
        + xlogx(C[e, j])
        - xlogx(C[e, i] + C[e, j])
    )


@compiled
def _own_loss(C: Doubles, first: Doubles, second: Doubles, i: int, j: int) -> float:
    """Return the loss of merging i and j in the cells between them and in their row and column sums."""
    # Objective before minus after the merge. Row and column sums have the opposite sign in the objective.
    loss = xlogx(C[i, i]) + xlogx(C[i, j]) + xlogx(C[j, i]) + xlogx(C[j, j])
    loss -= xlogx(C[i, i] + C[i, j] + C[j, i] + C[j, j])
    loss -= xlogx(first[i]) + xlogx(first[j]) - xlogx(first[i] + first[j])
    return loss - xlogx(second[i]) - xlogx(second[j]) + xlogx(second[i] + second[j])


@compiled
def _pair_loss(C: Doubles, first: Doubles, second: Doubles, alive: Bools, i: int, j: int) -> float:
    """Return the total loss of merging i and j, in O(m)."""
    # L(i, j) = own(i, j) + sum_e third(i, j, e). `_add_third_cluster_losses` updates it for all pairs but those of the
    # newest cluster.
    loss = _own_loss(C, first, second, i, j)
    for e in range(len(C)):
        if alive[e] and e not in (i, j):
            loss += _third_cluster_loss(C, i, j, e)
    return loss


@compiled
def _add_third_cluster_losses(losses: Doubles, C: Doubles, alive: Bools, e: int, sign: float) -> None:
    """Add the terms of a third cluster e to the losses of all pairs, or subtract them (sign -1)."""
    # Six logarithms for each of m^2 / 2 pairs; each step calls this three times.
    for i in range(len(C)):
        if alive[i]:
            for j in range(i + 1, len(C)):
                if alive[j]:
                    losses[i, j] += sign * _third_cluster_loss(C, i, j, e)


@compiled
def _merge_counts(C: Doubles, a: int, b: int) -> None:
    """Add row and column b to row and column a, and set them to zero."""
    # Loops: operations on slices take Numba seconds to compile.
    for j in range(len(C)):
        C[a, j] += C[b, j]
    for j in range(len(C)):
        C[j, a] += C[j, b]
    for j in range(len(C)):
        C[b, j] = C[j, b] = 0.0


@compiled
def _find_lowest_pair(losses: Doubles, alive: Bools) -> tuple[int, int]:
    """Return the pair with the smallest loss; ties go to the first pair."""
    # A scan of m^2 / 2 numbers: each step changes all of them, so a heap would not help.
    a, b, lowest = -1, -1, np.inf
    for i in range(len(losses)):
        if alive[i]:
            for j in range(i + 1, len(losses)):
                if alive[j] and losses[i, j] < lowest:
                    a, b, lowest = i, j, losses[i, j]
    return a, b


# Invariant at the start of each step: losses[i, j], for i < j both alive, is the loss of merging i and j,
# L(i, j) = own(i, j) + sum over third clusters e of third(i, j, e), where with f(x) = x log x the objective is
# sum_ij f(C[i, j]) - sum_i f(first[i]) - sum_j f(second[j]). A merge of a and b subtracts the terms of e = a and e = b
# from all other pairs and adds those of the new cluster; pairs with the new cluster are recomputed.
# Cost: O(m^2) per step, O(m^3) in total.
@compiled
def _merge_by_information(C: Doubles) -> tuple[Int32s, Doubles]:
    m = len(C)
    merges, costs = np.empty((m - 1, 2), dtype=np.int32), np.empty(m - 1)
    names, alive = np.arange(m).astype(np.int32), np.ones(m, dtype=np.bool_)
    first, second, losses = np.zeros(m), np.zeros(m), np.zeros((m, m))
    for i in range(m):
        for j in range(m):
            first[i] += C[i, j]
            second[j] += C[i, j]
    # The first table costs O(m^3): m^2 / 2 pairs with m third clusters each.
    for i in range(m):
        for j in range(i + 1, m):
            losses[i, j] = _pair_loss(C, first, second, alive, i, j)
    for n_merged in range(m - 1):
        a, b = _find_lowest_pair(losses, alive)
        costs[n_merged] = losses[a, b]
        merges[n_merged, 0], merges[n_merged, 1] = min(names[a], names[b]), max(names[a], names[b])
        # Exclude both while the other pairs are updated. Pairs with a are recomputed below, pairs with b never read.
        alive[a] = alive[b] = False
        _add_third_cluster_losses(losses, C, alive, a, -1.0)
        _add_third_cluster_losses(losses, C, alive, b, -1.0)
        # The new cluster replaces a.
        _merge_counts(C, a, b)
        first[a], second[a] = first[a] + first[b], second[a] + second[b]
        _add_third_cluster_losses(losses, C, alive, a, 1.0)
        alive[a], names[a] = True, m + n_merged
        for j in range(m):
            if alive[j] and j != a:
                losses[min(a, j), max(a, j)] = _pair_loss(C, first, second, alive, a, j)
    return merges, costs
