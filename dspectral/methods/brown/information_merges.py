"""Bottom-up merging of clusters by mutual information, in compiled loops."""

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled


def merge_by_information(
    counts: NDArray[np.float64],
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Merge all clusters, at each step the pair whose merge loses the least mutual information.

    Shapes: `counts` (m, m); returns `merges` (m - 1, 2), `losses` (m - 1,).

    The merge loop of Brown et al. 1992: ``O(m^3)`` in all, since the loss of a pair changes only by its cells with
    the merged clusters. Memory: two square matrices.

    Brown, Della Pietra, deSouza, Lai and Mercer 1992, "Class-based n-gram models of natural language", section 3.

    >>> merge_by_information(np.array([[0.0, 5, 5], [5, 0, 0], [5, 0, 0]]))[0]
    array([[1, 2],
           [0, 3]], dtype=int32)
    """
    return _merge_by_information(np.array(counts, dtype=np.float64))  # a copy, which the loop overwrites


@compiled
def _nlogn(x: float) -> float:
    return x * np.log(x) if x > 0 else 0.0


@compiled
def _third(C: NDArray[np.float64], i: int, j: int, e: int) -> float:
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
def _own(
    C: NDArray[np.float64], first: NDArray[np.float64], second: NDArray[np.float64], i: int, j: int
) -> float:
    """Return what merging i and j loses in the cells among themselves and in their row and column sums."""
    # The loss is the objective before the merge less that after it. The margins have the other sign, as they do in the
    # objective: sum of f over cells, less f of the row sums, less f of the column sums.
    loss = _nlogn(C[i, i]) + _nlogn(C[i, j]) + _nlogn(C[j, i]) + _nlogn(C[j, j])
    loss -= _nlogn(C[i, i] + C[i, j] + C[j, i] + C[j, j])
    loss -= _nlogn(first[i]) + _nlogn(first[j]) - _nlogn(first[i] + first[j])
    return loss - _nlogn(second[i]) - _nlogn(second[j]) + _nlogn(second[i] + second[j])


@compiled
def _pair_loss(
    C: NDArray[np.float64],
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    alive: NDArray[np.bool_],
    i: int,
    j: int,
) -> float:
    """Return what merging i and j loses in all, in O(m)."""
    # L(i, j) = own(i, j) + sum_e third(i, j, e), which `_add_third` keeps up to date for all pairs but those of the
    # cluster that was merged last.
    loss = _own(C, first, second, i, j)
    for e in range(len(C)):
        if alive[e] and e not in (i, j):
            loss += _third(C, i, j, e)
    return loss


@compiled
def _add_third(
    losses: NDArray[np.float64], C: NDArray[np.float64], alive: NDArray[np.bool_], e: int, sign: float
) -> None:
    """Add the part of a third cluster e to the losses of all pairs, or subtract it (sign -1)."""
    # Six logarithms for each of m^2 / 2 pairs: the cost of a step, which calls this three times.
    for i in range(len(C)):
        if alive[i]:
            for j in range(i + 1, len(C)):
                if alive[j]:
                    losses[i, j] += sign * _third(C, i, j, e)


@compiled
def _join(C: NDArray[np.float64], a: int, b: int) -> None:
    """Add row and column b to row and column a, and leave zeros."""
    # Cell by cell: Numba takes seconds to compile what would say that the shapes of slices differ.
    for j in range(len(C)):
        C[a, j] += C[b, j]
    for j in range(len(C)):
        C[j, a] += C[j, b]
    for j in range(len(C)):
        C[b, j] = C[j, b] = 0.0


@compiled
def _lowest_pair(losses: NDArray[np.float64], alive: NDArray[np.bool_]) -> tuple[int, int]:
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
def _merge_by_information(C: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
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
        _add_third(losses, C, alive, a, -1.0)
        _add_third(losses, C, alive, b, -1.0)
        # The new cluster takes the place of a.
        _join(C, a, b)
        first[a], second[a] = first[a] + first[b], second[a] + second[b]
        _add_third(losses, C, alive, a, 1.0)
        alive[a], names[a] = True, m + done
        for j in range(m):
            if alive[j] and j != a:
                losses[min(a, j), max(a, j)] = _pair_loss(C, first, second, alive, a, j)
    return merges, costs
