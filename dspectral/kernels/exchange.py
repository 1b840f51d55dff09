"""Words exchanged between clusters, one at a time, to raise the mutual information of adjacent clusters."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.kernels.compiled import compiled, read_only

TABLE = 1 << 16
"""Counts below it have their ``n log n`` looked up."""


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


def exchange_sweep(adjacent: Adjacent, labels: NDArray[np.int32], n_clusters: int) -> int:
    """Move each type, in the order of their numbers, to the cluster where mutual information is highest.

    Parameters
    ----------
    adjacent : Adjacent
    labels : ndarray of int32, shape (n_types,)
        Cluster of each type; changed in place.
    n_clusters : int
        The last type of a cluster never leaves it.

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
    return int(_sweep(*(read_only(part) for part in adjacent), labels, n_clusters, read_only(table)))


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
def _shift(
    forth: NDArray[np.int64],
    back: NDArray[np.int64],
    worth: NDArray[np.float64],
    worth_back: NDArray[np.float64],
    a: int,
    b: int,
    by: int,
    table: NDArray[np.float64],
) -> None:
    forth[a, b] += by
    back[b, a] = forth[a, b]
    worth[a, b] = _nlogn(forth[a, b], table)
    worth_back[b, a] = worth[a, b]


@compiled
def _gains(
    sums: NDArray[np.int64],
    seen: NDArray[np.int32],
    n_seen: int,
    matrix: NDArray[np.int64],
    worth: NDArray[np.float64],
    gains: NDArray[np.float64],
    table: NDArray[np.float64],
) -> None:
    """Add to each cluster's gain what the cells with the neighbours in one direction gain."""
    for at in range(n_seen):
        c = seen[at]
        more, row, old = sums[c], matrix[c], worth[c]
        for b in range(len(gains)):
            gains[b] += _nlogn(row[b] + more, table) - old[b]


@compiled
def _sweep(  # noqa: PLR0915  one loop over words whose state is too wide to hand around
    starts: NDArray[np.int64],
    others: NDArray[np.int32],
    counts: NDArray[np.int64],
    starts_back: NDArray[np.int64],
    others_back: NDArray[np.int32],
    counts_back: NDArray[np.int64],
    labels: NDArray[np.int32],
    m: int,
    table: NDArray[np.float64],
) -> int:
    forth = np.zeros((m, m), dtype=np.int64)
    sizes = np.zeros(m, dtype=np.int64)
    for word in range(len(labels)):
        sizes[labels[word]] += 1
        for at in range(starts[word], starts[word + 1]):
            forth[labels[word], labels[others[at]]] += counts[at]
    back = forth.T.copy()
    worth = np.zeros((m, m))
    for a in range(m):
        for b in range(m):
            worth[a, b] = _nlogn(forth[a, b], table)
    worth_back = worth.T.copy()
    first, second = forth.sum(axis=1), forth.sum(axis=0)
    after, before = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
    seen_after, seen_before = np.empty(m, dtype=np.int32), np.empty(m, dtype=np.int32)
    gains = np.empty(m)
    moved = 0
    for word in range(len(labels)):
        home = labels[word]
        if sizes[home] == 1:
            continue
        n_after, alone = _gather(
            starts[word], starts[word + 1], others, counts, word, labels, after, seen_after
        )
        n_before, _ = _gather(
            starts_back[word],
            starts_back[word + 1],
            others_back,
            counts_back,
            word,
            labels,
            before,
            seen_before,
        )
        total_after, total_before = alone + after[seen_after[:n_after]].sum(), alone
        total_before += before[seen_before[:n_before]].sum()
        if total_after + total_before > 0:
            for at in range(n_after):
                c = seen_after[at]
                _shift(forth, back, worth, worth_back, home, c, -after[c], table)
            for at in range(n_before):
                c = seen_before[at]
                _shift(forth, back, worth, worth_back, c, home, -before[c], table)
            _shift(forth, back, worth, worth_back, home, home, -alone, table)
            first[home] -= total_after
            second[home] -= total_before
            gains[:] = 0.0
            _gains(after, seen_after, n_after, back, worth_back, gains, table)
            _gains(before, seen_before, n_before, forth, worth, gains, table)
            best = home
            for b in range(m):
                # The cell of a cluster with itself gains from both directions and from the word beside itself.
                cell = forth[b, b]
                gains[b] += (
                    _nlogn(cell + after[b] + before[b] + alone, table)
                    - _nlogn(cell + after[b], table)
                    - _nlogn(cell + before[b], table)
                    + worth[b, b]
                    - _nlogn(first[b] + total_after, table)
                    + _nlogn(first[b], table)
                    - _nlogn(second[b] + total_before, table)
                    + _nlogn(second[b], table)
                )
            for b in range(m):
                # Less than rounding is no gain: without a margin, ties would wander for ever.
                if gains[b] > gains[best] + 1e-9 * (1.0 + abs(gains[best])):
                    best = b
            for at in range(n_after):
                c = seen_after[at]
                _shift(forth, back, worth, worth_back, best, c, after[c], table)
            for at in range(n_before):
                c = seen_before[at]
                _shift(forth, back, worth, worth_back, c, best, before[c], table)
            _shift(forth, back, worth, worth_back, best, best, alone, table)
            first[best] += total_after
            second[best] += total_before
            if best != home:
                labels[word] = best
                sizes[home] -= 1
                sizes[best] += 1
                moved += 1
        for at in range(n_after):
            after[seen_after[at]] = 0
        for at in range(n_before):
            before[seen_before[at]] = 0
    return moved
