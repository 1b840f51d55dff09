"""Bigram counts between clusters, and what each cluster would gain by one more type."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled

TABLE = 1 << 16
"""Number of counts whose ``n log n`` is looked up; that of larger counts is computed."""


class ClusterBigrams(NamedTuple):
    """Bigram counts between clusters, updated in place.

    `forth` (m, m): ``forth[a, b]`` counts how often a word of cluster b stands directly after one of cluster
    a; `back` (m, m): transpose of ``forth``, so that both a row and a column lie together in memory; `worth,
    worth_back` (m, m): ``n log n`` of the counts in ``forth`` and ``back``; `first, second` (m,): row and
    column sums of ``forth``.
    """

    forth: NDArray[np.int64]
    back: NDArray[np.int64]
    worth: NDArray[np.float64]
    worth_back: NDArray[np.float64]
    first: NDArray[np.int64]
    second: NDArray[np.int64]


def nlogn_table() -> NDArray[np.float64]:
    """Return ``n log n`` of the counts below :data:`TABLE`.

    Shapes: returns (TABLE,).
    """
    table = np.zeros(TABLE)
    table[1:] = np.arange(1, TABLE) * np.log(np.arange(1, TABLE))
    return table


@compiled
def _nlogn(n: int, table: NDArray[np.float64]) -> float:
    return table[n] if n < TABLE else n * np.log(n)  # type: ignore[no-any-return]


@compiled
def add_bigrams(
    first: int,
    starts: NDArray[np.int64],
    others: NDArray[np.int32],
    counts: NDArray[np.int64],
    labels: NDArray[np.int32],
    forth: NDArray[np.int64],
) -> None:
    """Add to the bigrams of clusters those of some types, given the words that follow each of them (CSR)."""
    for row in range(len(starts) - 1):
        label = labels[first + row]
        for at in range(starts[row], starts[row + 1]):
            forth[label, labels[others[at]]] += counts[at]


@compiled
def cells_of(forth: NDArray[np.int64], table: NDArray[np.float64]) -> ClusterBigrams:
    """Return what goes with the bigrams of m clusters."""
    # Counts are whole numbers, so any order of moves leaves the same cells, and only the logarithms are rounded.
    m = len(forth)
    worth, first, second = np.zeros((m, m)), np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
    for a in range(m):
        for b in range(m):
            worth[a, b] = _nlogn(forth[a, b], table)
            first[a] += forth[a, b]
            second[b] += forth[a, b]
    return ClusterBigrams(forth, forth.T.copy(), worth, worth.T.copy(), first, second)


@compiled
def _shift(cells: ClusterBigrams, a: int, b: int, by: int, table: NDArray[np.float64]) -> None:
    """Change one count, in all four matrices."""
    cells.forth[a, b] += by
    cells.back[b, a] = cells.forth[a, b]
    cells.worth[a, b] = _nlogn(cells.forth[a, b], table)
    cells.worth_back[b, a] = cells.worth[a, b]


# Cost: O(k) for k neighboring clusters. `after[c]` and `before[c]` are the counts of the type with cluster c on either
# side, without the type itself, whose count with itself is `alone`.
@compiled
def put_type(
    cells: ClusterBigrams,
    cluster: int,
    sign: int,
    after: NDArray[np.int64],
    seen_after: NDArray[np.int32],
    before: NDArray[np.int64],
    seen_before: NDArray[np.int32],
    alone: int,
    table: NDArray[np.float64],
) -> None:
    """Add the bigrams of a type to those of a cluster (sign 1), or take them out (-1)."""
    # A bigram changes the row sum of the cluster of its first word and the column sum of that of its second. The sums
    # of the neighbors' clusters stay as they are: they count all neighbors, also a type that is in no cluster. Where a
    # neighbor is in the same cluster, both loops change the one cell, since "type, neighbor" and "neighbor, type" are
    # different bigrams.
    for c in seen_after:
        _shift(cells, cluster, c, sign * after[c], table)
        cells.first[cluster] += sign * after[c]
    for c in seen_before:
        _shift(cells, c, cluster, sign * before[c], table)
        cells.second[cluster] += sign * before[c]
    _shift(cells, cluster, cluster, sign * alone, table)
    cells.first[cluster] += sign * alone
    cells.second[cluster] += sign * alone


@compiled
def _add_gains(
    sums: NDArray[np.int64],
    seen: NDArray[np.int32],
    matrix: NDArray[np.int64],
    worth: NDArray[np.float64],
    gains: NDArray[np.float64],
    table: NDArray[np.float64],
) -> None:
    """Add to the gain of each cluster what its counts with the neighbors on one side gain."""
    # The innermost loop reads a row of each matrix from end to end, which is why the transposes are kept.
    for c in seen:
        more, row, old = sums[c], matrix[c], worth[c]
        for b in range(len(gains)):
            gains[b] += _nlogn(row[b] + more, table) - old[b]


# The objective is  sum_ab n(a, b) log n(a, b) - sum_a n(a, .) log n(a, .) - sum_b n(., b) log n(., b):  mutual
# information times the number of bigrams, up to a constant. A type that joins cluster b changes row and column b
# alone, and there only the cells of its k neighboring clusters, so all m gains cost O(k m) look-ups.
@compiled
def write_gains(
    cells: ClusterBigrams,
    after: NDArray[np.int64],
    seen_after: NDArray[np.int32],
    before: NDArray[np.int64],
    seen_before: NDArray[np.int32],
    alone: int,
    gains: NDArray[np.float64],
    table: NDArray[np.float64],
) -> None:
    """Write what each cluster would gain by a type that is in no cluster."""
    gains[:] = 0.0
    _add_gains(after, seen_after, cells.back, cells.worth_back, gains, table)
    _add_gains(before, seen_before, cells.forth, cells.worth, gains, table)
    total_after, total_before = alone, alone
    for b in seen_after:
        total_after += after[b]
    for b in seen_before:
        total_before += before[b]
    for b in range(len(gains)):
        # The count of a cluster with itself changes at once by both sides and by the type itself: replace what each
        # side added for it alone. The sums of rows and columns count with the opposite sign.
        cell, first, second = cells.forth[b, b], cells.first[b], cells.second[b]
        gains[b] += _nlogn(cell + after[b] + before[b] + alone, table) + _nlogn(cell, table)
        gains[b] -= _nlogn(cell + after[b], table) + _nlogn(cell + before[b], table)
        gains[b] -= _nlogn(first + total_after, table) - _nlogn(first, table)
        gains[b] -= _nlogn(second + total_before, table) - _nlogn(second, table)
