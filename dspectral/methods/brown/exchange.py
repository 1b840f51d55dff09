"""Exchange algorithm: move words between clusters, one at a time, to increase the mutual information."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dspectral._compiled import compiled, read_only
from dspectral.methods.brown.pair_counts import AdjacentCounts, PairBlock
from dspectral.types import Bools, CSRRows, Doubles, Int32s, Int64s

TABLE = 1 << 16
"""Number of counts with a tabulated ``n log n``; larger ones are computed."""


class ClusterBigrams(NamedTuple):
    """Bigram counts between m clusters and their transpose, with their ``n log n``, row and column sums."""

    counts: Int64s
    transposed_counts: Int64s
    nlogn: Doubles
    transposed_nlogn: Doubles
    first: Int64s
    second: Int64s


def nlogn_table() -> Doubles:
    """Return ``n log n`` of the counts below :data:`TABLE`."""
    table = np.zeros(TABLE)
    table[1:] = np.arange(1, TABLE) * np.log(np.arange(1, TABLE))
    return table


@compiled
def _nlogn(n: int, table: Doubles) -> float:
    return table[n] if n < TABLE else n * np.log(n)


@compiled
def add_bigrams(
    first: int, starts: Int64s, others: Int32s, counts: Int64s, labels: Int32s, cluster_counts: Int64s
) -> None:
    """Add the bigrams of consecutive types, given as CSR rows of following types, to the counts between clusters."""
    for row in range(len(starts) - 1):
        label = labels[first + row]
        for entry in range(starts[row], starts[row + 1]):
            cluster_counts[label, labels[others[entry]]] += counts[entry]


@compiled
def cluster_bigrams(cluster_counts: Int64s, table: Doubles) -> ClusterBigrams:
    """Return the counts between m clusters with their transpose, logarithms and sums."""
    # Counts are integers, so updates are exact and only logarithms round.
    m = len(cluster_counts)
    count_nlogn, first, second = np.zeros((m, m)), np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
    for a in range(m):
        for b in range(m):
            count_nlogn[a, b] = _nlogn(cluster_counts[a, b], table)
            first[a] += cluster_counts[a, b]
            second[b] += cluster_counts[a, b]
    return ClusterBigrams(cluster_counts, cluster_counts.T.copy(), count_nlogn, count_nlogn.T.copy(), first, second)


@compiled
def _add_to_cell(cells: ClusterBigrams, a: int, b: int, amount: int, table: Doubles) -> None:
    """Add to one count, and update all four matrices."""
    cells.counts[a, b] += amount
    cells.transposed_counts[b, a] = cells.counts[a, b]
    cells.nlogn[a, b] = _nlogn(cells.counts[a, b], table)
    cells.transposed_nlogn[b, a] = cells.nlogn[a, b]


# Cost: O(k) for k neighboring clusters. `after[c]` and `before[c]` count the bigrams of the type with cluster c on
# each side; bigrams of the type with itself are counted in `self_count` only.
@compiled
def add_type(
    cells: ClusterBigrams,
    cluster: int,
    sign: int,
    after: Int64s,
    seen_after: Int32s,
    before: Int64s,
    seen_before: Int32s,
    self_count: int,
    table: Doubles,
) -> None:
    """Add the bigrams of a type to a cluster (sign 1), or subtract them (-1)."""
    # A bigram changes the row sum of the cluster of its first word and the column sum of that of its second. The
    # other sums of neighboring clusters do not change, because they already count bigrams with types that have no
    # cluster. If a neighbor is in the same cluster, both loops change the same cell, for the bigrams "type, neighbor"
    # and "neighbor, type".
    for c in seen_after:
        _add_to_cell(cells, cluster, c, sign * after[c], table)
        cells.first[cluster] += sign * after[c]
    for c in seen_before:
        _add_to_cell(cells, c, cluster, sign * before[c], table)
        cells.second[cluster] += sign * before[c]
    _add_to_cell(cells, cluster, cluster, sign * self_count, table)
    cells.first[cluster] += sign * self_count
    cells.second[cluster] += sign * self_count


@compiled
def _add_gains(
    sums: Int64s, seen: Int32s, matrix: Int64s, matrix_nlogn: Doubles, gains: Doubles, table: Doubles
) -> None:
    """Add the gain of each cluster from the neighbors on one side."""
    # The inner loop reads contiguous rows, for which the transposes are stored.
    for c in seen:
        count, row, old = sums[c], matrix[c], matrix_nlogn[c]
        for b in range(len(gains)):
            gains[b] += _nlogn(row[b] + count, table) - old[b]


# The objective is  sum_ab n(a, b) log n(a, b) - sum_a n(a, .) log n(a, .) - sum_b n(., b) log n(., b):  mutual
# information times the number of bigrams, up to a constant. Adding a type to cluster b only changes the cells of its k
# neighboring clusters in row and column b, so all m gains cost O(k m) table look-ups.
@compiled
def write_gains(
    cells: ClusterBigrams,
    after: Int64s,
    seen_after: Int32s,
    before: Int64s,
    seen_before: Int32s,
    self_count: int,
    gains: Doubles,
    table: Doubles,
) -> None:
    """Write the gain of adding a type to each cluster."""
    gains[:] = 0.0
    _add_gains(after, seen_after, cells.transposed_counts, cells.transposed_nlogn, gains, table)
    _add_gains(before, seen_before, cells.counts, cells.nlogn, gains, table)
    total_after, total_before = self_count, self_count
    for b in seen_after:
        total_after += after[b]
    for b in seen_before:
        total_before += before[b]
    for b in range(len(gains)):
        # The diagonal cell changes by both sides and by the type itself: replace the separate gains of the two sides.
        # Row and column sums have the opposite sign.
        cell, first, second = cells.counts[b, b], cells.first[b], cells.second[b]
        gains[b] += _nlogn(cell + after[b] + before[b] + self_count, table) + _nlogn(cell, table)
        gains[b] -= _nlogn(cell + after[b], table) + _nlogn(cell + before[b], table)
        gains[b] -= _nlogn(first + total_after, table) - _nlogn(first, table)
        gains[b] -= _nlogn(second + total_before, table) - _nlogn(second, table)


class BigramCounts(NamedTuple):
    """Bigram counts of types from ``first`` on, in CSR layout by the first word, and by the second (``_back``)."""

    first: int
    starts: Int64s
    others: Int32s
    counts: Int64s
    preceding_starts: Int64s
    preceding_types: Int32s
    preceding_counts: Int64s

    @classmethod
    def from_block(cls, block: PairBlock) -> "BigramCounts":
        """Return the bigram counts of a block."""
        return cls(block.first, *_get_csr_arrays(block.after), *_get_csr_arrays(block.before))


@dataclass(frozen=True)
class StoredBigrams:
    """Bigram counts read from the store at each iteration."""

    pairs: AdjacentCounts

    def __iter__(self) -> Iterator[BigramCounts]:
        return map(BigramCounts.from_block, self.pairs)


class TypeFeatures(NamedTuple):
    """Weighted binary features of types, such as spelling: type i has ``features[starts[i]:starts[i + 1]]``."""

    starts: Int64s
    features: Int32s
    weights: Doubles
    n_features: int

    @classmethod
    def empty(cls, n_types: int) -> "TypeFeatures":
        """Return empty features."""
        return cls(np.zeros(n_types + 1, dtype=np.int64), np.empty(0, dtype=np.int32), np.zeros(n_types), 0)


def to_bigram_counts(pairs: AdjacentCounts) -> Iterable[BigramCounts]:
    """Return bigram counts that can be iterated repeatedly."""
    return list(map(BigramCounts.from_block, pairs)) if pairs.in_memory else StoredBigrams(pairs)


def cluster_table(bigrams: Iterable[BigramCounts], labels: Int32s, n_clusters: int) -> Int64s:
    """Return the bigram counts between clusters, shape (n_clusters, n_clusters)."""
    cluster_counts = np.zeros((n_clusters, n_clusters), dtype=np.int64)
    for block in bigrams:
        add_bigrams(block.first, block.starts, block.others, block.counts, read_only(labels), cluster_counts)
    return cluster_counts


def average_mutual_information(table: Int64s) -> float:
    """Return the mutual information of adjacent clusters in bits; `table` (m, m) has the counts of their pairs."""
    total, first, second = float(table.sum()), table.sum(axis=1), table.sum(axis=0)
    a, b = table.nonzero()
    cells = table[a, b].astype(np.float64)
    return float(np.sum(cells / total * np.log2(cells * total / (first[a].astype(np.float64) * second[b]))))


def exchange_sweep(
    bigrams: Iterable[BigramCounts],
    labels: Int32s,
    n_clusters: int,
    features: TypeFeatures | None = None,
    *,
    fixed: Int64s | None = None,
) -> int:
    """Move each type in turn to the cluster that maximizes mutual information; return the number of moved types.

    `labels` is updated in place; `fixed` types stay. A type with k neighboring clusters costs ``O(k * n_clusters)``.
    Martin, Liermann and Ney 1998, "Algorithms for bigram and trigram word clustering"; with features, Clark 2003.

    >>> from scipy import sparse
    >>> counts = sparse.csr_array(np.array([[0, 0, 5, 5], [0, 0, 5, 5], [5, 5, 0, 0], [5, 5, 0, 0]]))
    >>> labels = np.array([0, 1, 1, 1], dtype=np.int32)
    >>> exchange_sweep(to_bigram_counts(AdjacentCounts.from_matrix(counts)), labels, 2), labels
    (1, array([0, 0, 1, 1], dtype=int32))
    """
    type_features = TypeFeatures.empty(len(labels)) if features is None else features
    starts = read_only(type_features.starts)
    rows = read_only(type_features.features)
    weights = read_only(type_features.weights)
    read_only_features = TypeFeatures(starts, rows, weights, type_features.n_features)
    is_movable = np.ones(len(labels), dtype=np.bool_)
    is_movable[np.empty(0, dtype=np.int64) if fixed is None else fixed] = False
    nlogn = read_only(nlogn_table())
    cells = cluster_bigrams(cluster_table(bigrams, labels, n_clusters), nlogn)
    sizes = np.bincount(labels, minlength=n_clusters)
    state = SweepState(cells, *_sum_features(read_only_features, labels, n_clusters), sizes)
    return sum(int(_sweep(block, read_only_features, read_only(is_movable), labels, state, nlogn)) for block in bigrams)


class SweepState(NamedTuple):
    """State of a sweep, updated in place: bigrams, feature weights (n_clusters, n_features) and sums, cluster sizes."""

    cells: ClusterBigrams
    table: Doubles
    sums: Doubles
    sizes: Int64s


def _get_csr_arrays(counts: CSRRows) -> tuple[Int64s, Int32s, Int64s]:
    # Convert counts to integers, so that updates are exact. Read-only arrays, so that the loops are compiled once.
    return (
        read_only(counts.indptr.astype(np.int64)),
        read_only(counts.indices.astype(np.int32)),
        read_only(np.rint(counts.data).astype(np.int64)),
    )


@compiled
def _gather(
    start: int,
    stop: int,
    others: Int32s,
    counts: Int64s,
    word: int,
    labels: Int32s,
    sums: Int64s,
    seen: Int32s,
) -> tuple[int, int]:
    """Sum the neighbor counts of a type by cluster; return the number of clusters and the count with itself."""
    # A cluster is new if its sum is 0. The count of a word with itself moves with the word, so it is separate.
    n_seen, self_count = 0, 0
    for entry in range(start, stop):
        if others[entry] == word:
            self_count = counts[entry]
            continue
        cluster = labels[others[entry]]
        if sums[cluster] == 0:
            seen[n_seen] = cluster
            n_seen += 1
        sums[cluster] += counts[entry]
    return n_seen, self_count


@compiled
def _select_cluster(gains: Doubles, current: int) -> int:
    """Return the cluster with the largest gain; `current` unless another one gains more."""
    best = current
    for b in range(len(gains)):
        # Require a gain above rounding: otherwise tied words could move forever.
        if gains[b] > gains[best] + 1e-9 * (1.0 + abs(gains[best])):
            best = b
    return best


@compiled
def xlogx(x: float) -> float:
    """Return ``x log x``, 0 for 0."""
    return x * np.log(x) if x > 0.0 else 0.0


# With F[b, f] the weight of feature f in cluster b and F[b] its sum over f, features add
# sum_bf F log F - sum_b F[b] log F[b] to the objective: the part of their mutual information that depends on clusters.
# Cost: O(n_clusters) logarithms for each feature of the type.
@compiled
def add_feature_gains(row: Int32s, weight: float, table: Doubles, sums: Doubles, gains: Doubles) -> None:
    """Add the gain from the features of a type for each cluster."""
    for b in range(len(gains)):
        gain = xlogx(sums[b]) - xlogx(sums[b] + weight * len(row))
        for f in row:
            gain += xlogx(table[b, f] + weight) - xlogx(table[b, f])
        gains[b] += gain


@compiled
def add_features(row: Int32s, weight: float, table: Doubles, sums: Doubles, cluster: int) -> None:
    """Add the features of a type to a cluster; a negative weight subtracts them."""
    # Clip negative sums due to rounding.
    for f in row:
        table[cluster, f] = max(0.0, table[cluster, f] + weight)
    sums[cluster] = max(0.0, sums[cluster] + weight * len(row))


@compiled
def _sum_features(features: TypeFeatures, labels: Int32s, n_clusters: int) -> tuple[Doubles, Doubles]:
    """Return the weight of each feature in each cluster, and the sum over features."""
    table, sums = np.zeros((n_clusters, features.n_features)), np.zeros(n_clusters)
    for word in range(len(labels)):
        row = features.features[features.starts[word] : features.starts[word + 1]]
        add_features(row, features.weights[word], table, sums, labels[word])
    return table, sums


# Invariants at the start of each step: `cells`, `table` and `sums` hold the counts of all types under `labels`, and
# `after` and `before` are zero. A step removes one type from its cluster, computes the gain of every cluster, and adds
# it to the best one, so no step decreases the objective. Cost of a sweep: O(n_bigrams + m * (neighboring clusters of
# all types)).
@compiled
def _sweep(
    bigrams: BigramCounts,
    features: TypeFeatures,
    is_movable: Bools,
    labels: Int32s,
    state: SweepState,
    nlogn: Doubles,
) -> int:
    first, starts, others, counts, preceding_starts, preceding_types, preceding_counts = bigrams
    cells, table, sums, sizes = state
    m = len(sizes)
    after, before = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
    seen_after, seen_before = np.empty(m, dtype=np.int32), np.empty(m, dtype=np.int32)
    gains = np.empty(m)
    n_moved = 0
    for i in range(len(starts) - 1):
        word, start, stop = first + i, starts[i], starts[i + 1]
        first_before, end = preceding_starts[i], preceding_starts[i + 1]
        current = labels[word]
        row = features.features[features.starts[word] : features.starts[word + 1]]
        weight = features.weights[word]
        # Skip types that are alone in their cluster, and types with neither neighbors nor features.
        if not is_movable[word] or sizes[current] == 1 or stop - start + end - first_before + len(row) == 0:
            continue
        n, self_count = _gather(start, stop, others, counts, word, labels, after, seen_after)
        n_back, _ = _gather(first_before, end, preceding_types, preceding_counts, word, labels, before, seen_before)
        clusters_after, clusters_before = seen_after[:n], seen_before[:n_back]
        add_type(cells, current, -1, after, clusters_after, before, clusters_before, self_count, nlogn)
        add_features(row, -weight, table, sums, current)
        write_gains(cells, after, clusters_after, before, clusters_before, self_count, gains, nlogn)
        add_feature_gains(row, weight, table, sums, gains)
        best = _select_cluster(gains, current)
        add_type(cells, best, 1, after, clusters_after, before, clusters_before, self_count, nlogn)
        add_features(row, weight, table, sums, best)
        after[clusters_after], before[clusters_before] = 0, 0  # clear only the entries of this step
        sizes[current] -= 1
        sizes[best] += 1
        labels[word] = best
        n_moved += best != current
    return n_moved
