"""Bottom-up merging, in compiled loops: of points in a window of active clusters, of clusters by mutual information."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.registry import Array, register_arrays, register_class
from dspectral.types import Doubles, Int32s


@register_arrays(
    {
        "merges": Array("n 2", "i", at_least=0, below="2*n"),
        "costs": Array("n"),
    }
)
@register_class
class ClusterTree(NamedTuple):
    """A binary tree over n leaves: the nodes that merge into node ``n + i``, nodes below n being leaves, and the costs.

    Shapes: `merges` (n - 1, 2), `costs` (n - 1,).

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
        """Return the cluster of each leaf, shape (n,), when the last ``n_clusters - 1`` merges are undone."""
        n = self._check_cut(n_clusters)
        # From the last merge that is kept down: a node belongs to the root of the node that it was merged into.
        roots = np.arange(2 * n - 1)
        for i in range(n - n_clusters - 1, -1, -1):
            roots[self.merges[i]] = roots[n + i]
        # Roots are numbered by merges; clusters by their first leaf, so that the numbers do not depend on n_clusters.
        _, first, inverse = np.unique(roots[:n], return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int32)
        rank[np.argsort(first)] = np.arange(len(first))
        return np.asarray(rank[inverse], dtype=np.int32)

    def codes(self, n_clusters: int | None = None) -> list[str]:
        """Return the way to each leaf from the root, or to its subtree of ``n_clusters``, as a bit string."""
        n_clusters = self.n_leaves if n_clusters is None else n_clusters
        n = self._check_cut(n_clusters)
        # From the root down: a merge adds a bit while it is among the last n_clusters - 1, which a cut undoes.
        codes = [""] * (2 * n - 1)
        for i in range(n - 2, -1, -1):
            split = i >= n - n_clusters
            # A node has the code of its parent already, because parents have higher numbers and are visited first.
            for bit, child in zip("01", self.merges[i], strict=True):
                codes[child] = codes[n + i] + (bit if split else "")
        return codes[:n]

    def _check_cut(self, n_clusters: int) -> int:
        n = self.n_leaves
        if not 1 <= n_clusters <= n:
            raise ValueError(f"n_clusters is {n_clusters}, but the tree can be cut into 1 to {n} clusters")
        return n


def merge_window(points: Doubles, weights: Doubles, n_active: int) -> tuple[Int32s, Doubles]:
    """Merge points in their order whenever more than ``n_active`` clusters are active, then merge what is left.

    Each active cluster keeps a lower bound of its cheapest merge, tightened when it is the lowest of all: a merge of
    the cheapest pair never makes a cluster cheaper for the others. ``O(n_active * k)`` for each point and each
    tightening. Stratos, Kim, Collins and Hsu 2014; Franti et al. 2000. Shapes: `points` (n, k), `weights` (n,);
    returns `merges` (n - 1, 2), `costs` (n - 1,).
    """
    points, weights = points.astype(np.float64), weights.astype(np.float64)
    if not np.isfinite(points).all():  # the loops would look for the cheapest merge for ever
        raise ValueError("points to be merged hold NaN or infinity")
    return _merge_window(read_only(points), read_only(weights), n_active)


@compiled
def _cost(x: Doubles, y: Doubles, w: float, v: float) -> float:
    """Return Ward's cost of merging two clusters: the rise of the weighted sum of squared distances to the mean."""
    total = 0.0
    for j in range(len(x)):
        total += (x[j] - y[j]) ** 2
    return w * v / (w + v) * total


@compiled
def _tighten(i: int, n: int, means: Doubles, mass: Doubles, bounds: Doubles, partners: Int32s) -> None:
    """Find the cheapest merge of an active cluster: its bound becomes tight, and the other cluster its twin."""
    # O(n k), the cost that the lower bounds save for clusters that never become the lowest.
    bounds[i], partners[i] = np.inf, -1
    for j in range(n):
        if j != i:
            cost = _cost(means[i], means[j], mass[i], mass[j])
            if cost < bounds[i]:
                bounds[i], partners[i] = cost, j


@compiled
def _find_cheapest(n: int, means: Doubles, mass: Doubles, bounds: Doubles, partners: Int32s) -> int:
    """Return the cluster with the cheapest merge; bounds are tightened, the lowest first, until the lowest is tight."""
    # Each turn makes one more bound tight, at O(n k), so the loop ends. The others are bounds from below: once the
    # lowest is tight, no pair is cheaper.
    while True:
        lowest = 0
        for i in range(1, n):
            if bounds[i] < bounds[lowest]:
                lowest = i
        if partners[lowest] >= 0:
            return lowest
        _tighten(lowest, n, means, mass, bounds, partners)


@compiled
def _copy_point(point: Doubles, out: Doubles) -> None:
    """Write a point, number by number: Numba takes seconds to compile what would say that shapes differ."""
    for c in range(len(point)):
        out[c] = point[c]


@compiled
def _merge_means(mean: Doubles, other: Doubles, mass: float, others: float) -> None:
    """Replace a mean by that of two clusters by mass."""
    for c in range(len(mean)):
        mean[c] = (mass * mean[c] + others * other[c]) / (mass + others)


@compiled
def _remove_cluster(
    gone: int, n: int, means: Doubles, mass: Doubles, bounds: Doubles, partners: Int32s, names: Int32s
) -> None:
    """Move the last active cluster to the place of one that is gone."""
    # Active clusters stay packed in the first places, so every scan runs over active clusters alone. Twins are places,
    # not names: those that point to the moved cluster follow it. None points to the cluster that is gone, because the
    # caller has reset these.
    last = n - 1
    _copy_point(means[last], means[gone])
    mass[gone], bounds[gone], partners[gone], names[gone] = (
        mass[last],
        bounds[last],
        partners[last],
        names[last],
    )
    for i in range(last):
        if partners[i] == last:
            partners[i] = gone


# Invariants: means[:n], mass[:n] and names[:n] are the active clusters; bounds[i] is at most the cost of the cheapest
# merge of i, and equal to it where twins[i], the other cluster of that merge, is not -1. A new point lowers bounds
# exactly. A merge of the cheapest pair (a, b) invalidates only bounds whose twin was a or b; these stay lower bounds,
# because the cost of a third cluster with a + b is at least the lower of its costs with a and with b (reducibility
# of Ward's cost, given that a and b are the cheapest pair). So the lowest bound, once tight, is the cheapest merge.
# Few bounds are ever tightened, as most never are the lowest.
@compiled
def _merge_window(points: Doubles, weights: Doubles, n_active: int) -> tuple[Int32s, Doubles]:
    n_points, k = points.shape
    merges, costs = np.empty((n_points - 1, 2), dtype=np.int32), np.empty(n_points - 1)
    # There is one place more than the window holds: a point enters first, and a merge then makes room.
    means, mass = np.empty((n_active + 1, k)), np.empty(n_active + 1)
    bounds, partners = np.empty(n_active + 1), np.empty(n_active + 1, dtype=np.int32)
    names = np.empty(n_active + 1, dtype=np.int32)
    n, done, point = 0, 0, 0
    while done < n_points - 1:
        if point < n_points and n <= n_active:
            # A new point is compared with all active clusters, in O(n k), and lowers the bounds above its costs.
            _copy_point(points[point], means[n])
            mass[n], names[n] = weights[point], point
            bounds[n], partners[n] = np.inf, -1
            for j in range(n):
                cost = _cost(means[n], means[j], mass[n], mass[j])
                if cost < bounds[j]:
                    bounds[j], partners[j] = cost, n
                if cost < bounds[n]:
                    bounds[n], partners[n] = cost, j
            n, point = n + 1, point + 1
            continue
        i = _find_cheapest(n, means, mass, bounds, partners)
        costs[done] = bounds[i]
        a, b = min(i, partners[i]), max(i, partners[i])
        merges[done, 0], merges[done, 1] = min(names[a], names[b]), max(names[a], names[b])
        # The merged cluster takes the place of a: its mean is that of both by mass, so that no point is needed again.
        _merge_means(means[a], means[b], mass[a], mass[b])
        mass[a] += mass[b]
        names[a] = n_points + done
        bounds[a], partners[a] = min(bounds[a], bounds[b]), -1  # a bound, no longer tight
        for j in range(n):
            if partners[j] == a or partners[j] == b:
                partners[j] = -1
        _remove_cluster(b, n, means, mass, bounds, partners, names)
        n, done = n - 1, done + 1
    return merges, costs


def merge_by_information(counts: Doubles) -> tuple[Int32s, Doubles]:
    """Merge all clusters, at each step the pair whose merge loses the least mutual information.

    The merge loop of Brown et al. 1992, section 3: ``O(m^3)`` in all, since the loss of a pair changes only by its
    cells with the merged clusters. Shapes: `counts` (m, m); returns `merges` (m - 1, 2), `losses` (m - 1,).

    >>> merge_by_information(np.array([[0.0, 5, 5], [5, 0, 0], [5, 0, 0]]))[0]
    array([[1, 2],
           [0, 3]], dtype=int32)
    """
    return _merge_by_information(np.array(counts, dtype=np.float64))  # a copy, which the loop overwrites


@compiled
def _nlogn(x: float) -> float:
    return x * np.log(x) if x > 0 else 0.0


@compiled
def _third_cluster_loss(C: Doubles, i: int, j: int, e: int) -> float:
    """Return what merging i and j loses in the four cells with a third cluster e."""
    # With f(x) = x log x: f(C[i, e]) + f(C[j, e]) - f(C[i, e] + C[j, e]), and the same for the cells C[e, .].
    return (
        _nlogn(C[i, e])
        + _nlogn(C[j, e])
        - _nlogn(C[i, e] + C[j, e])
        + _nlogn(C[e, i])
        + _nlogn(C[e, j])
        - _nlogn(C[e, i] + C[e, j])
    )


@compiled
def _own_loss(C: Doubles, first: Doubles, second: Doubles, i: int, j: int) -> float:
    """Return what merging i and j loses in the cells among themselves and in their row and column sums."""
    # The loss is the objective before the merge less that after it. The margins have the other sign, as they do in the
    # objective: sum of f over cells, less f of the row sums, less f of the column sums.
    loss = _nlogn(C[i, i]) + _nlogn(C[i, j]) + _nlogn(C[j, i]) + _nlogn(C[j, j])
    loss -= _nlogn(C[i, i] + C[i, j] + C[j, i] + C[j, j])
    loss -= _nlogn(first[i]) + _nlogn(first[j]) - _nlogn(first[i] + first[j])
    return loss - _nlogn(second[i]) - _nlogn(second[j]) + _nlogn(second[i] + second[j])


@compiled
def _pair_loss(
    C: Doubles, first: Doubles, second: Doubles, alive: NDArray[np.bool_], i: int, j: int
) -> float:
    """Return what merging i and j loses in all, in O(m)."""
    # L(i, j) = own(i, j) + sum_e third(i, j, e). `_add_third_cluster_losses` updates it for all pairs but those of the
    # newest cluster.
    loss = _own_loss(C, first, second, i, j)
    for e in range(len(C)):
        if alive[e] and e not in (i, j):
            loss += _third_cluster_loss(C, i, j, e)
    return loss


@compiled
def _add_third_cluster_losses(
    losses: Doubles, C: Doubles, alive: NDArray[np.bool_], e: int, sign: float
) -> None:
    """Add the part of a third cluster e to the losses of all pairs, or subtract it (sign -1)."""
    # Six logarithms for each of m^2 / 2 pairs: the cost of a step, which calls this three times.
    for i in range(len(C)):
        if alive[i]:
            for j in range(i + 1, len(C)):
                if alive[j]:
                    losses[i, j] += sign * _third_cluster_loss(C, i, j, e)


@compiled
def _join_counts(C: Doubles, a: int, b: int) -> None:
    """Add row and column b to row and column a, and leave zeros."""
    # Cell by cell: Numba takes seconds to compile what would say that the shapes of slices differ.
    for j in range(len(C)):
        C[a, j] += C[b, j]
    for j in range(len(C)):
        C[j, a] += C[j, b]
    for j in range(len(C)):
        C[b, j] = C[j, b] = 0.0


@compiled
def _lowest_pair(losses: Doubles, alive: NDArray[np.bool_]) -> tuple[int, int]:
    """Return the pair with the least loss, the first of equals."""
    # A scan of m^2 / 2 numbers. A heap would gain nothing: each step changes all of them, by logarithms.
    a, b, lowest = -1, -1, np.inf
    for i in range(len(losses)):
        if alive[i]:
            for j in range(i + 1, len(losses)):
                if alive[j] and losses[i, j] < lowest:
                    a, b, lowest = i, j, losses[i, j]
    return a, b


# Invariant at the start of each step: losses[i, j], for i < j both alive, is what merging i and j would lose,
# L(i, j) = own(i, j) + sum over third clusters e of third(i, j, e), where with f(x) = x log x the objective is
# sum_ij f(C[i, j]) - sum_i f(first[i]) - sum_j f(second[j]). A merge of a and b takes the parts of e = a and e = b out
# of all other pairs and adds that of the new cluster; pairs with the new cluster itself are computed anew.
# Cost: O(m^2) for each step, O(m^3) in all, against O(m^5) if all losses were computed anew.
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
    # This first table costs O(m^3): each of m^2 / 2 pairs sums over m third clusters.
    for i in range(m):
        for j in range(i + 1, m):
            losses[i, j] = _pair_loss(C, first, second, alive, i, j)
    for done in range(m - 1):
        a, b = _lowest_pair(losses, alive)
        costs[done] = losses[a, b]
        merges[done, 0], merges[done, 1] = min(names[a], names[b]), max(names[a], names[b])
        # Neither of the two is alive while the other pairs are corrected. Pairs with the first are computed anew below,
        # and pairs with the second are never read again.
        alive[a] = alive[b] = False
        _add_third_cluster_losses(losses, C, alive, a, -1.0)
        _add_third_cluster_losses(losses, C, alive, b, -1.0)
        # The new cluster takes the place of a.
        _join_counts(C, a, b)
        first[a], second[a] = first[a] + first[b], second[a] + second[b]
        _add_third_cluster_losses(losses, C, alive, a, 1.0)
        alive[a], names[a] = True, m + done
        for j in range(m):
            if alive[j] and j != a:
                losses[min(a, j), max(a, j)] = _pair_loss(C, first, second, alive, a, j)
    return merges, costs
