"""Exchange of words between clusters, one at a time, to raise the mutual information of adjacent clusters."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.methods.brown.cluster_bigrams import count_clusters, nlogn_table, put_type, write_gains
from dspectral.methods.brown.type_features import TypeFeatures, add_feature_gains, put_features
from dspectral.types import CSRRows


class BigramCounts(NamedTuple):
    """Bigram counts between word types, in CSR layout by the first and by the second word.

    Attributes
    ----------
    starts : ndarray of int64, shape (n_types + 1,)
        Words after type i are ``others[starts[i]:starts[i + 1]]``, with the same slice of ``counts``.
    others : ndarray of int32, shape (n_bigrams,)
        Second word of each bigram.
    counts : ndarray of int64, shape (n_bigrams,)
        How often each bigram occurs.
    starts_back, others_back, counts_back : ndarray
        The same by the second word: words before type i.
    """

    starts: NDArray[np.int64]
    others: NDArray[np.int32]
    counts: NDArray[np.int64]
    starts_back: NDArray[np.int64]
    others_back: NDArray[np.int32]
    counts_back: NDArray[np.int64]

    @classmethod
    def of(cls, counts: CSRRows) -> "BigramCounts":
        """Return the bigram counts of a square matrix.

        Parameters
        ----------
        counts : csr_array of whole numbers, shape (n_types, n_types)
            How often the column's type directly follows the row's.

        Returns
        -------
        BigramCounts
            The counts by row and by column.
        """
        return cls(*_csr_parts(counts), *_csr_parts(counts.T.tocsr()))


def exchange_sweep(
    bigrams: BigramCounts,
    labels: NDArray[np.int32],
    n_clusters: int,
    features: TypeFeatures | None = None,
    *,
    fixed: NDArray[np.int64] | None = None,
) -> int:
    """Move each type, in the order of their numbers, to the cluster where mutual information is highest.

    Parameters
    ----------
    bigrams : BigramCounts
        How often one type directly follows another.
    labels : ndarray of int32, shape (n_types,)
        Cluster of each type; changed in place.
    n_clusters : int
        Number of clusters, at most 2**31 - 1. The last type of a cluster never leaves it.
    features : TypeFeatures, optional
        Features of types. If given, the sweep raises the sum of two terms: the mutual information of adjacent
        clusters, times the number of bigrams, and that of clusters and features, times the features' weights
        (Clark 2003, with any features in place of his letters).
    fixed : ndarray of int64, optional
        Types that stay where they are.

    Returns
    -------
    int
        Number of types that moved. The mutual information is never lower than before.

    Notes
    -----
    A type with k distinct neighboring clusters costs ``O(k * n_clusters)``. Memory: four square matrices over the
    clusters, and one of clusters by features.

    References
    ----------
    Martin, Liermann and Ney 1998, "Algorithms for bigram and trigram word clustering"; Clark 2003, "Combining
    distributional and morphological information for part of speech induction".

    Examples
    --------
    >>> from scipy import sparse
    >>> counts = sparse.csr_array(np.array([[0, 0, 5, 5], [0, 0, 5, 5], [5, 5, 0, 0], [5, 5, 0, 0]]))
    >>> labels = np.array([0, 1, 1, 1], dtype=np.int32)
    >>> exchange_sweep(BigramCounts.of(counts), labels, 2), labels
    (1, array([0, 0, 1, 1], dtype=int32))
    """
    # Read-only views, so that the loop is compiled once, whether an array of the caller can be written to or not.
    parts = BigramCounts._make(read_only(np.asarray(part)) for part in bigrams)
    given = TypeFeatures.none(len(labels)) if features is None else features
    seen = given._replace(
        starts=read_only(given.starts),
        features=read_only(given.features),
        weights=read_only(given.weights),
    )
    moves = np.ones(len(labels), dtype=np.bool_)
    moves[np.empty(0, dtype=np.int64) if fixed is None else fixed] = False
    return int(_sweep(parts, seen, read_only(moves), labels, n_clusters, read_only(nlogn_table())))


def _csr_parts(counts: CSRRows) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    # Counts arrive as floating-point numbers. As integers they are added and taken away without rounding, so a million
    # moves leave the cells exact.
    return (
        counts.indptr.astype(np.int64),
        counts.indices.astype(np.int32),
        np.rint(counts.data).astype(np.int64),
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


# Invariants at the start of each step: `cells`, `table` and `sums` hold the counts of all types under `labels`, and
# `after` and `before` are zero. A step takes one type out of its cluster, writes the gain of every cluster, and puts it
# into the best: the objective of cluster_bigrams (plus that of type_features) is then the highest that this type
# alone can reach, so no step lowers it. Cost of a sweep: O(n_bigrams + m * (neighboring clusters of all types)).
@compiled
def _sweep(
    bigrams: BigramCounts,
    features: TypeFeatures,
    moves: NDArray[np.bool_],
    labels: NDArray[np.int32],
    m: int,
    nlogn: NDArray[np.float64],
) -> int:
    starts, others, counts, starts_back, others_back, counts_back = bigrams
    cells = count_clusters(starts, others, counts, labels, m, nlogn)
    table, sums = np.zeros((m, features.n_features)), np.zeros(m)
    for word in range(len(labels)):
        row = features.features[features.starts[word] : features.starts[word + 1]]
        put_features(row, features.weights[word], table, sums, labels[word])
    sizes = np.zeros(m, dtype=np.int64)
    for label in labels:
        sizes[label] += 1
    after, before = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
    seen_after, seen_before = np.empty(m, dtype=np.int32), np.empty(m, dtype=np.int32)
    gains = np.empty(m)
    moved = 0
    for word in range(len(labels)):
        home, back = labels[word], starts_back[word]
        row = features.features[features.starts[word] : features.starts[word + 1]]
        weight = features.weights[word]
        n_near = starts[word + 1] - starts[word] + starts_back[word + 1] - back
        # A cluster must not become empty, or there would be fewer than m. A type with neither neighbors nor features is
        # worth the same in every cluster.
        if not moves[word] or sizes[home] == 1 or n_near + len(row) == 0:
            continue
        n, alone = _gather(starts[word], starts[word + 1], others, counts, word, labels, after, seen_after)
        n_back, _ = _gather(
            back, starts_back[word + 1], others_back, counts_back, word, labels, before, seen_before
        )
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
