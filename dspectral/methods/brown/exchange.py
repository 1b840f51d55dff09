"""Exchange of words between clusters, one at a time, to raise the mutual information of adjacent clusters."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.methods.brown.cluster_bigrams import (
    ClusterBigrams,
    add_bigrams,
    cells_of,
    nlogn_table,
    put_type,
    write_gains,
)
from dspectral.methods.brown.pair_counts import PairBlock, PairCounts
from dspectral.types import CSRRows


class BigramCounts(NamedTuple):
    """Bigram counts of some neighboring types, in CSR layout by the first and by the second word.

    `first`: number of the first of these types; `starts` (n + 1,): words after type ``first + i`` are
    ``others[starts[i]:starts[i + 1]]``, with the same slice of ``counts``; `others` (n_bigrams,): second word
    of each bigram; `counts` (n_bigrams,): how often each bigram occurs; `starts_back, others_back,
    counts_back`: the same by the second word.
    """

    first: int
    starts: NDArray[np.int64]
    others: NDArray[np.int32]
    counts: NDArray[np.int64]
    starts_back: NDArray[np.int64]
    others_back: NDArray[np.int32]
    counts_back: NDArray[np.int64]

    @classmethod
    def of(cls, block: PairBlock) -> "BigramCounts":
        """Return the bigram counts of a block."""
        return cls(block.first, *_csr_parts(block.after), *_csr_parts(block.before))


@dataclass(frozen=True)
class StoredBigrams:
    """Bigram counts that are read again at each iteration.

    `pairs`: counts of adjacent types.
    """

    pairs: PairCounts

    def __iter__(self) -> Iterator[BigramCounts]:
        """Read one block after the other."""
        return map(BigramCounts.of, self.pairs)


class TypeFeatures(NamedTuple):
    """Binary features of word types in CSR layout, for example spelling features.

    `starts` (n_types + 1,): type i has the features ``features[starts[i]:starts[i + 1]]``, without
    repetition; `features` (n_entries,): feature numbers below ``n_features``; `weights` (n_types,): weight of
    each feature of a type; `n_features`: number of different features.
    """

    starts: NDArray[np.int64]
    features: NDArray[np.int32]
    weights: NDArray[np.float64]
    n_features: int

    @classmethod
    def none(cls, n_types: int) -> "TypeFeatures":
        """Return the features of types that have none."""
        return cls(np.zeros(n_types + 1, dtype=np.int64), np.empty(0, dtype=np.int32), np.zeros(n_types), 0)


def bigrams_of(pairs: PairCounts) -> Iterable[BigramCounts]:
    """Return bigram counts that can be gone through again and again."""
    return list(map(BigramCounts.of, pairs)) if pairs.in_memory else StoredBigrams(pairs)


def cluster_table(
    bigrams: Iterable[BigramCounts], labels: NDArray[np.int32], n_clusters: int
) -> NDArray[np.int64]:
    """Return how often one cluster directly follows another.

    Shapes: `labels` (n_types,); returns (n_clusters, n_clusters).

    >>> from scipy import sparse
    >>> pairs = PairCounts.of(sparse.csr_array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0], [0.0, 4.0, 0.0]]))
    >>> cluster_table(bigrams_of(pairs), np.array([0, 1, 1], dtype=np.int32), 2)
    array([[0, 3],
           [3, 4]])
    """
    forth = np.zeros((n_clusters, n_clusters), dtype=np.int64)
    for block in bigrams:
        add_bigrams(block.first, block.starts, block.others, block.counts, read_only(labels), forth)
    return forth


def exchange_sweep(
    bigrams: Iterable[BigramCounts],
    labels: NDArray[np.int32],
    n_clusters: int,
    features: TypeFeatures | None = None,
    *,
    fixed: NDArray[np.int64] | None = None,
) -> int:
    """Move each type, in the order of their numbers, to the cluster where mutual information is highest.

    Shapes: `labels` (n_types,).

    A type with k distinct neighboring clusters costs ``O(k * n_clusters)``. Memory: four square matrices over the
    clusters, one of clusters by features, and a block.

    Martin, Liermann and Ney 1998, "Algorithms for bigram and trigram word clustering"; Clark 2003, "Combining
    distributional and morphological information for part of speech induction".

    >>> from scipy import sparse
    >>> counts = sparse.csr_array(np.array([[0, 0, 5, 5], [0, 0, 5, 5], [5, 5, 0, 0], [5, 5, 0, 0]]))
    >>> labels = np.array([0, 1, 1, 1], dtype=np.int32)
    >>> exchange_sweep(bigrams_of(PairCounts.of(counts)), labels, 2), labels
    (1, array([0, 0, 1, 1], dtype=int32))
    """
    given = TypeFeatures.none(len(labels)) if features is None else features
    seen = given._replace(
        starts=read_only(given.starts),
        features=read_only(given.features),
        weights=read_only(given.weights),
    )
    moves = np.ones(len(labels), dtype=np.bool_)
    moves[np.empty(0, dtype=np.int64) if fixed is None else fixed] = False
    nlogn = read_only(nlogn_table())
    cells = cells_of(cluster_table(bigrams, labels, n_clusters), nlogn)
    state = SweepState(
        cells, *_feature_sums(seen, labels, n_clusters), np.bincount(labels, minlength=n_clusters)
    )
    return sum(int(_sweep(block, seen, read_only(moves), labels, state, nlogn)) for block in bigrams)


class SweepState(NamedTuple):
    """Clusters in the middle of a sweep, changed in place.

    `cells`: bigrams of the clusters; `table` (n_clusters, n_features): weight of each feature in each
    cluster; `sums` (n_clusters,): row sums of ``table``; `sizes` (n_clusters,): number of types of each
    cluster.
    """

    cells: ClusterBigrams
    table: NDArray[np.float64]
    sums: NDArray[np.float64]
    sizes: NDArray[np.int64]


def _csr_parts(counts: CSRRows) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    # Counts arrive as floating-point numbers. As integers they are added and taken away without rounding, so a million
    # moves leave the cells exact. Read-only, so that the loops are compiled once, whether an array of the caller can be
    # written to or not.
    return (
        read_only(counts.indptr.astype(np.int64)),
        read_only(counts.indices.astype(np.int32)),
        read_only(np.rint(counts.data).astype(np.int64)),
    )


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
    """Add up the neighbors of a type by cluster; return how many clusters there are, and the count with itself."""
    # A cluster is new where its sum is still 0, as counts are above 0. The pair of a word with itself moves along with
    # the word, so it belongs to no cluster while the word is in none.
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
def _best(gains: NDArray[np.float64], home: int) -> int:
    """Return the cluster that gains most; home, if others gain no more."""
    best = home
    for b in range(len(gains)):
        # Less than rounding is no gain: without a margin, ties would wander for ever.
        if gains[b] > gains[best] + 1e-9 * (1.0 + abs(gains[best])):
            best = b
    return best


@compiled
def _xlogx(x: float) -> float:
    return x * np.log(x) if x > 0.0 else 0.0


# With F[b, f] the weight of feature f in cluster b and F[b] its sum over f, features are worth
# sum_bf F log F - sum_b F[b] log F[b]: the part of their mutual information with the clusters that a move changes.
# Cost: O(n_clusters) logarithms for each feature of the type.
@compiled
def add_feature_gains(
    row: NDArray[np.int32],
    weight: float,
    table: NDArray[np.float64],
    sums: NDArray[np.float64],
    gains: NDArray[np.float64],
) -> None:
    """Add to the gain of each cluster what the features of a type are worth there.

    Shapes: `table` (n_clusters, n_features), `sums` (n_clusters,), `gains` (n_clusters,).
    """
    # What the objective gains if the type goes to cluster b: its features add to F[b, f], and all of them to F[b].
    for b in range(len(gains)):
        gain = _xlogx(sums[b]) - _xlogx(sums[b] + weight * len(row))
        for f in row:
            gain += _xlogx(table[b, f] + weight) - _xlogx(table[b, f])
        gains[b] += gain


@compiled
def put_features(
    row: NDArray[np.int32], weight: float, table: NDArray[np.float64], sums: NDArray[np.float64], b: int
) -> None:
    """Add the features of a type to a cluster, or take them out if the weight is negative.

    Shapes: `table` (n_clusters, n_features), `sums` (n_clusters,).
    """
    # Rounding may leave less than nothing of what was put in and taken out.
    for f in row:
        table[b, f] = max(0.0, table[b, f] + weight)
    sums[b] = max(0.0, sums[b] + weight * len(row))


@compiled
def _feature_sums(
    features: TypeFeatures, labels: NDArray[np.int32], m: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the weight of each feature in each cluster, and the sum over the features."""
    table, sums = np.zeros((m, features.n_features)), np.zeros(m)
    for word in range(len(labels)):
        row = features.features[features.starts[word] : features.starts[word + 1]]
        put_features(row, features.weights[word], table, sums, labels[word])
    return table, sums


# Invariants at the start of each step: `cells`, `table` and `sums` hold the counts of all types under `labels`, and
# `after` and `before` are zero. A step takes one type out of its cluster, writes the gain of every cluster, and puts it
# into the best: the objective of cluster_bigrams (plus that of features) is then the highest that this type
# alone can reach, so no step lowers it. Cost of a sweep: O(n_bigrams + m * (neighboring clusters of all types)).
@compiled
def _sweep(
    bigrams: BigramCounts,
    features: TypeFeatures,
    moves: NDArray[np.bool_],
    labels: NDArray[np.int32],
    state: SweepState,
    nlogn: NDArray[np.float64],
) -> int:
    first, starts, others, counts, starts_back, others_back, counts_back = bigrams
    cells, table, sums, sizes = state
    m = len(sizes)
    after, before = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
    seen_after, seen_before = np.empty(m, dtype=np.int32), np.empty(m, dtype=np.int32)
    gains = np.empty(m)
    moved = 0
    for at in range(len(starts) - 1):
        word, start, stop, back, end = (
            first + at,
            starts[at],
            starts[at + 1],
            starts_back[at],
            starts_back[at + 1],
        )
        home = labels[word]
        row = features.features[features.starts[word] : features.starts[word + 1]]
        weight = features.weights[word]
        # A cluster must not become empty, or there would be fewer than m. A type with neither neighbors nor features is
        # worth the same in every cluster.
        if not moves[word] or sizes[home] == 1 or stop - start + end - back + len(row) == 0:
            continue
        n, alone = _gather(start, stop, others, counts, word, labels, after, seen_after)
        n_back, _ = _gather(back, end, others_back, counts_back, word, labels, before, seen_before)
        here, there = seen_after[:n], seen_before[:n_back]
        put_type(cells, home, -1, after, here, before, there, alone, nlogn)
        put_features(row, -weight, table, sums, home)
        write_gains(cells, after, here, before, there, alone, gains, nlogn)
        add_feature_gains(row, weight, table, sums, gains)
        best = _best(gains, home)
        put_type(cells, best, 1, after, here, before, there, alone, nlogn)
        put_features(row, weight, table, sums, best)
        after[here], before[there] = 0, 0  # a step clears what it wrote, not all m
        sizes[home] -= 1
        sizes[best] += 1
        labels[word] = best
        moved += best != home
    return moved
