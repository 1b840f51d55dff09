"""Words exchanged between clusters, one at a time, to raise the mutual information of adjacent clusters."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.methods.brown.type_features import Marks, mark_gains, put_marks

TABLE = 1 << 16
"""Counts below it have their ``n log n`` looked up."""


class Cells(NamedTuple):
    """How often clusters follow each other, both ways round, with ``n log n`` of each, and their sums."""

    forth: NDArray[np.int64]
    back: NDArray[np.int64]
    worth: NDArray[np.float64]
    worth_back: NDArray[np.float64]
    first: NDArray[np.int64]
    second: NDArray[np.int64]


class Adjacent(NamedTuple):
    """How often one type directly follows another, by the first and by the second of the two.

    Attributes
    ----------
    starts, others, counts : ndarray of int64, int32 and int64
        CSR by the first type.
    starts_back, others_back, counts_back : ndarray
        CSR by the second type.
    """

    starts: NDArray[np.int64]
    others: NDArray[np.int32]
    counts: NDArray[np.int64]
    starts_back: NDArray[np.int64]
    others_back: NDArray[np.int32]
    counts_back: NDArray[np.int64]

    @classmethod
    def of(cls, counts: Any) -> "Adjacent":
        """Return it for a square CSR array of whole counts, shape (n_types, n_types)."""
        return cls(*_parts(counts), *_parts(counts.T.tocsr()))


def exchange_sweep(
    adjacent: Adjacent,
    labels: NDArray[np.int32],
    n_clusters: int,
    marks: Marks | None = None,
    *,
    fixed: NDArray[np.int64] | None = None,
) -> int:
    """Move each type, in the order of their numbers, to the cluster where mutual information is highest.

    Parameters
    ----------
    adjacent : Adjacent
    labels : ndarray of int32, shape (n_types,)
        Cluster of each type; changed in place.
    n_clusters : int
        The last type of a cluster never leaves it.
    marks : Marks, optional
        Then the sum of the clusters' mutual information with the adjacent cluster (times the number of pairs) and
        with the marks (times their weights) is raised (Clark 2003, with spelling in the place of his letters).
    fixed : ndarray of int64, optional
        Types that stay where they are.

    Returns
    -------
    int
        Types moved. The mutual information is never lower than before.

    Notes
    -----
    A type with k distinct neighbouring clusters costs ``O(k * n_clusters)``. Memory: four square matrices over the
    clusters.

    References
    ----------
    Martin, Liermann and Ney 1998, "Algorithms for bigram and trigram word clustering".

    Examples
    --------
    >>> from scipy import sparse
    >>> counts = sparse.csr_array(np.array([[0, 0, 5, 5], [0, 0, 5, 5], [5, 5, 0, 0], [5, 5, 0, 0]]))
    >>> labels = np.array([0, 1, 1, 1], dtype=np.int32)
    >>> exchange_sweep(Adjacent.of(counts), labels, 2), labels
    (1, array([0, 0, 1, 1], dtype=int32))
    """
    table = np.zeros(TABLE)
    table[1:] = np.arange(1, TABLE) * np.log(np.arange(1, TABLE))
    parts = Adjacent._make(read_only(np.asarray(part)) for part in adjacent)
    given = Marks.none(len(labels)) if marks is None else marks
    seen = Marks(read_only(given.starts), read_only(given.marks), read_only(given.weights), given.n_marks)
    moves = np.ones(len(labels), dtype=np.bool_)
    moves[np.empty(0, dtype=np.int64) if fixed is None else fixed] = False
    return int(_sweep(parts, seen, read_only(moves), labels, n_clusters, read_only(table)))


def _parts(counts: Any) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    return (
        counts.indptr.astype(np.int64),
        counts.indices.astype(np.int32),
        np.rint(counts.data).astype(np.int64),
    )


@compiled
def _nlogn(n: int, table: NDArray[np.float64]) -> float:
    return table[n] if n < TABLE else n * np.log(n)  # type: ignore[no-any-return]


@compiled
def _gather(
    start: int,
    stop: int,
    others: NDArray[np.int32],
    counts: NDArray[np.int64],
    word: int,
    labels: NDArray[np.int32],
    sums: NDArray[np.int64],
    seen: NDArray[np.int32],
) -> tuple[int, int]:
    """Add up the neighbours of a type by cluster; itself as a neighbour is returned apart."""
    n_seen, alone = 0, 0
    for at in range(start, stop):
        if others[at] == word:
            alone = counts[at]
            continue
        cluster = labels[others[at]]
        if sums[cluster] == 0:
            seen[n_seen] = cluster
            n_seen += 1
        sums[cluster] += counts[at]
    return n_seen, alone


@compiled
def _cells(
    starts: NDArray[np.int64],
    others: NDArray[np.int32],
    counts: NDArray[np.int64],
    labels: NDArray[np.int32],
    m: int,
    table: NDArray[np.float64],
) -> Cells:
    forth = np.zeros((m, m), dtype=np.int64)
    for word in range(len(labels)):
        for at in range(starts[word], starts[word + 1]):
            forth[labels[word], labels[others[at]]] += counts[at]
    worth = np.zeros((m, m))
    for a in range(m):
        for b in range(m):
            worth[a, b] = _nlogn(forth[a, b], table)
    return Cells(forth, forth.T.copy(), worth, worth.T.copy(), forth.sum(axis=1), forth.sum(axis=0))


@compiled
def _shift(cells: Cells, a: int, b: int, by: int, table: NDArray[np.float64]) -> None:
    cells.forth[a, b] += by
    cells.back[b, a] = cells.forth[a, b]
    cells.worth[a, b] = _nlogn(cells.forth[a, b], table)
    cells.worth_back[b, a] = cells.worth[a, b]


@compiled
def _put(
    cells: Cells,
    cluster: int,
    sign: int,
    after: NDArray[np.int64],
    seen_after: NDArray[np.int32],
    before: NDArray[np.int64],
    seen_before: NDArray[np.int32],
    alone: int,
    table: NDArray[np.float64],
) -> None:
    """Add a type to a cluster (sign 1) or take it out (-1); what its neighbours sum to stays theirs."""
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
    """Add to each cluster's gain what the cells with the neighbours on one side gain."""
    for c in seen:
        more, row, old = sums[c], matrix[c], worth[c]
        for b in range(len(gains)):
            gains[b] += _nlogn(row[b] + more, table) - old[b]


@compiled
def _word_gains(
    cells: Cells,
    after: NDArray[np.int64],
    seen_after: NDArray[np.int32],
    before: NDArray[np.int64],
    seen_before: NDArray[np.int32],
    alone: int,
    gains: NDArray[np.float64],
    table: NDArray[np.float64],
) -> None:
    """Write what each cluster gains by a type that is in none."""
    gains[:] = 0.0
    _add_gains(after, seen_after, cells.back, cells.worth_back, gains, table)
    _add_gains(before, seen_before, cells.forth, cells.worth, gains, table)
    total_after, total_before = alone + after[seen_after].sum(), alone + before[seen_before].sum()
    for b in range(len(gains)):
        # A cluster's cell with itself was counted once for each side; and the sums take their part.
        cell, first, second = cells.forth[b, b], cells.first[b], cells.second[b]
        gains[b] += _nlogn(cell + after[b] + before[b] + alone, table) + _nlogn(cell, table)
        gains[b] -= _nlogn(cell + after[b], table) + _nlogn(cell + before[b], table)
        gains[b] -= _nlogn(first + total_after, table) - _nlogn(first, table)
        gains[b] -= _nlogn(second + total_before, table) - _nlogn(second, table)


@compiled
def _best(gains: NDArray[np.float64], home: int) -> int:
    """Return the cluster that gains most; home, if others gain no more."""
    best = home
    for b in range(len(gains)):
        # Less than rounding is no gain: without a margin, ties would wander for ever.
        if gains[b] > gains[best] + 1e-9 * (1.0 + abs(gains[best])):
            best = b
    return best


@compiled
def _sweep(
    adjacent: Adjacent,
    marks: Marks,
    moves: NDArray[np.bool_],
    labels: NDArray[np.int32],
    m: int,
    table: NDArray[np.float64],
) -> int:
    starts, others, counts, starts_back, others_back, counts_back = adjacent
    cells = _cells(starts, others, counts, labels, m, table)
    marked, sums = np.zeros((m, marks.n_marks)), np.zeros(m)
    for word in range(len(labels)):
        row = marks.marks[marks.starts[word] : marks.starts[word + 1]]
        put_marks(row, marks.weights[word], marked, sums, labels[word])
    sizes = np.bincount(labels, minlength=m)
    after, before = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
    seen_after, seen_before = np.empty(m, dtype=np.int32), np.empty(m, dtype=np.int32)
    gains = np.empty(m)
    moved = 0
    for word in range(len(labels)):
        home, back = labels[word], starts_back[word]
        row, weight = marks.marks[marks.starts[word] : marks.starts[word + 1]], marks.weights[word]
        n_near = starts[word + 1] - starts[word] + starts_back[word + 1] - back
        if not moves[word] or sizes[home] == 1 or n_near + len(row) == 0:
            continue
        n, alone = _gather(starts[word], starts[word + 1], others, counts, word, labels, after, seen_after)
        n_back, _ = _gather(
            back, starts_back[word + 1], others_back, counts_back, word, labels, before, seen_before
        )
        here, there = seen_after[:n], seen_before[:n_back]
        _put(cells, home, -1, after, here, before, there, alone, table)
        put_marks(row, -weight, marked, sums, home)
        _word_gains(cells, after, here, before, there, alone, gains, table)
        mark_gains(row, weight, marked, sums, gains)
        best = _best(gains, home)
        _put(cells, best, 1, after, here, before, there, alone, table)
        put_marks(row, weight, marked, sums, best)
        after[here], before[there] = 0, 0
        sizes[home] -= 1
        sizes[best] += 1
        labels[word] = best
        moved += best != home
    return moved
