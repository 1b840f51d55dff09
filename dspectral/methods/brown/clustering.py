"""Brown clusters: a spectral start, exchange sweeps, and a tree that gives each cluster its bit string."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dspectral.cooccurrence.scaling import ContextScaling, CountTransform
from dspectral.engine import expect_passes, tracked_fit
from dspectral.inputs.fitted_facts import FittedFactsMixin
from dspectral.inputs.parameters import RandomState, check_integer, check_option, resolve_seed
from dspectral.inputs.sequences import HoldsSentences, TokenLists, as_corpus, get_word_ids
from dspectral.linalg.blas import blas_in_one_thread
from dspectral.linalg.dense import leading_left_vectors, leading_left_vectors_by_block, normalize_rows
from dspectral.methods.brown.adjacent_pairs import count_adjacent_pairs
from dspectral.methods.brown.agglomeration import ClusterTree, merge_by_information, merge_window
from dspectral.methods.brown.exchange import cluster_table, exchange_sweep, to_bigram_counts
from dspectral.methods.brown.pair_counts import AdjacentCounts
from dspectral.metrics import average_mutual_information
from dspectral.registry import Array, register_arrays, register_class
from dspectral.types import CheckpointPath, CSRRows, Doubles, Int32s, Int64s


@register_arrays(
    {
        "words_": Array("n_types", ""),
        "word_counts_": Array("n_types", "i", at_least=0),
        "tree_.merges": Array("n 2", "i"),
        "labels_": Array("n_types", "i", at_least=0, below="n+1"),
    }
)
@register_class
class SpectralBrownClustering(FittedFactsMixin, BaseEstimator):
    """Cluster words by what stands directly beside them, and give each cluster a bit string.

    Words become points, from the singular vectors of their scaled neighbor counts. A windowed agglomeration merges
    the points into ``n_clusters`` clusters. Exchange sweeps then move single words to where the mutual information
    of adjacent clusters is highest. A tree over the clusters, merged at the least loss of it, gives the bit strings.

    Parameters
    ----------
    n_clusters : int, default=100
        Number of clusters, at most the number of word types that have a neighbor.
    n_dimensions : int, default=64
        Dimensions of the points, independent of ``n_clusters``; fewer are used where there are fewer words.
    count_transform : {"sqrt", "log", "none"} or float, default="sqrt"
        Transform of neighbor counts before they are scaled; a float is a power above 0.
    n_sweeps : int, default=5
        Largest number of exchange sweeps; they end earlier when no word moves.
    min_count : int, default=2
        Words that occur less often become one type, ``"<?>"``, as unknown ones are; with 1 those join the largest
        cluster.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the singular vectors' random start. The same seed and text give the same bits under every scheduler.
    start : {"weighted", "published"}, default="weighted"
        How the points are made and merged. ``"weighted"``: from both neighbors of a word, along singular vectors
        times singular values, each word as heavy as its count. ``"published"``, which :meth:`as_published` sets: from
        the word after it alone, along the singular vectors, each word of weight 1.

    Attributes
    ----------
    words_ : list of str
        Word types in order of falling count; the first is ``"<?>"``, for rare and unknown words.
    word_counts_ : ndarray of int64, shape (n_types,)
        Number of tokens of each word type.
    labels_ : ndarray of int32, shape (n_types,)
        Cluster of each word type. A type that never has a neighbor is in the cluster with the most tokens.
    tree_ : ClusterTree
        Merges of the clusters, from which bit strings are read.
    history_ : list of float
        Average mutual information in bits before the first sweep and after each sweep.
    random_state_ : int
        Seed that was used.
    n_passes_ : int
        Number of passes over the sentences, which is one.

    Notes
    -----
    Memory: 260 bytes for each distinct pair of adjacent words (measured: 55 MB for 250,000 pairs of 10,000 types),
    ``(2 * n_types) * (n_dimensions + 16)`` numbers, and four matrices of ``n_clusters`` by ``n_clusters``. Pairs that
    ``dspectral.memory-limit`` (1 GiB) has no room for are counted in the store of the corpus, with the same clusters;
    without a store they are refused if the limit was set.

    References
    ----------
    Stratos, Kim, Collins and Hsu 2014, "A spectral algorithm for learning class-based n-gram models of natural
    language"; Brown et al. 1992, "Class-based n-gram models of natural language"; Martin, Liermann and Ney 1998,
    "Algorithms for bigram and trigram word clustering".

    Examples
    --------
    >>> sentences = [["a", "red", "cat"], ["a", "blue", "cat"], ["one", "red", "dog"], ["one", "blue", "dog"]]
    >>> brown = SpectralBrownClustering(3).fit(sentences * 5)
    >>> brown.predict(["red"]) == brown.predict(["blue"])
    array([ True])
    """

    def __init__(
        self,
        n_clusters: int = 100,
        *,
        n_dimensions: int = 64,
        count_transform: CountTransform = "sqrt",
        n_sweeps: int = 5,
        min_count: int = 2,
        random_state: RandomState = 0,
        start: Literal["weighted", "published"] = "weighted",
    ) -> None:
        self.n_clusters = n_clusters
        self.n_dimensions = n_dimensions
        self.count_transform = count_transform
        self.n_sweeps = n_sweeps
        self.min_count = min_count
        self.random_state = random_state
        self.start = start

    @classmethod
    def as_published(cls, n_clusters: int = 100, **parameters: Any) -> Self:
        """Return the plain setting of Stratos et al. 2014, which their recovery theorem is about.

        Counts of the next word alone, not transformed; singular vectors without values; words of weight 1; no sweeps.

        Parameters
        ----------
        n_clusters : int, default=100
            Number of clusters, and of dimensions.
        **parameters
            Other parameters of the constructor, which replace those of the setting.

        Returns
        -------
        SpectralBrownClustering
            An estimator that is not fitted yet.
        """
        published = {
            "n_dimensions": n_clusters,
            "count_transform": "none",
            "n_sweeps": 0,
            "min_count": 1,
            "start": "published",
        }
        return cls(n_clusters, **{**published, **parameters})

    @tracked_fit
    def fit(self, X: HoldsSentences | TokenLists, y: object = None, *, keep: CheckpointPath = None) -> Self:
        """Count adjacent words, cluster the words, and build the tree.

        Parameters
        ----------
        X : Corpus, or iterable of token lists
            Sentences. Token lists may be a list, a tuple, a generator or a column of a data frame.
        y : object, optional
            Ignored.
        keep : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.keep` takes it.

        Returns
        -------
        SpectralBrownClustering
            The estimator itself.

        Raises
        ------
        ValueError
            If there are fewer words with a neighbor than ``n_clusters``, or a parameter is out of its range.
        MemoryError
            If the pairs take more than ``dspectral.memory-limit``, which is set, and X is no corpus in a store.
        """
        check_integer("n_clusters", self.n_clusters)  # its range depends on the words
        check_integer("n_dimensions", self.n_dimensions, at_least=1)
        check_integer("n_sweeps", self.n_sweeps, at_least=0)
        check_integer("min_count", self.min_count, at_least=1)
        check_option("start", self.start, ("weighted", "published"))
        corpus = as_corpus(X, min_count=self.min_count)
        expect_passes(1)
        word_counts = np.asarray(corpus.counts)
        counts = count_adjacent_pairs(corpus.sentences, word_counts, where=getattr(corpus, "where", None))
        self.labels_ = self.clusters(counts, word_counts)
        table = cluster_table(to_bigram_counts(counts), self.labels_, int(self.n_clusters))
        self.tree_ = ClusterTree(*merge_by_information(table.astype(np.float64)))
        self.words_, self.word_counts_ = list(corpus.words), word_counts
        self.n_passes_ = 1
        return self

    def clusters(self, pairs: AdjacentCounts, word_counts: Int64s) -> Int32s:
        """Return the cluster of each type, given how often types are adjacent, without building a tree.

        Parameters
        ----------
        pairs : AdjacentCounts
            How often the column's type directly follows the row's.
        word_counts : ndarray of int64, shape (n_types,)
            Number of tokens of each type.

        Returns
        -------
        ndarray of int32, shape (n_types,)
            Clusters; ``history_`` and ``random_state_`` are set.

        Raises
        ------
        ValueError
            If no type has a neighbor, or fewer than ``n_clusters`` have one.
        """
        self.random_state_ = resolve_seed(self.random_state)
        beside = np.flatnonzero(pairs.n_following + pairs.n_preceding)
        if not len(beside):
            raise ValueError("no word has a neighbor: every sentence is one word, or none")
        if not 1 <= self.n_clusters <= len(beside):
            raise ValueError(
                f"n_clusters is {self.n_clusters}, but it must be from 1 to {len(beside)}: so many word types have "
                f"a neighbor (min_count = {self.min_count})"
            )
        # Words without a neighbor have no direction: they join a cluster at the end. The window takes words by count.
        weights = word_counts[beside].astype(np.float64)
        order = np.argsort(-weights, kind="stable")
        beside, weights = beside[order], weights[order]
        # The sweeps start from the spectral clusters and change their labels in place: an exchange finds the nearest
        # local optimum only, so the start decides much.
        with pairs.reorder(beside) as among:
            labels = self._exchange(among, self._start(among, weights))
        largest = int(np.argmax(np.bincount(labels, weights=weights)))
        found = np.full(len(word_counts), largest, dtype=np.int32)
        found[beside] = labels
        return found

    def __contains__(self, word: object) -> bool:
        check_is_fitted(self)
        return word in get_word_ids(self)

    def predict(self, X: Iterable[str]) -> Int32s:
        """Return the cluster of each word.

        Parameters
        ----------
        X : iterable of str
            Words; those that are not in ``words_`` are in the cluster of ``"<?>"``.

        Returns
        -------
        ndarray of int32, shape (n_words,)
            Clusters in the order of X.
        """
        check_is_fitted(self)
        words = None if isinstance(X, str | bytes) else list(X)
        if words is None or not all(isinstance(word, str) for word in words):
            raise TypeError(f"X is {X!r:.60}, but it must be a list of words, each a string")
        # Type 0 stands for all rare words, and so for those that were never seen.
        numbers = get_word_ids(self)
        return np.asarray(self.labels_[[numbers.get(word, 0) for word in words]], dtype=np.int32)

    def cut(self, n_clusters: int) -> Int32s:
        """Return the cluster of each word type when the tree is cut to fewer clusters.

        Parameters
        ----------
        n_clusters : int
            Number of clusters, from 1 to the number that was fitted.

        Returns
        -------
        ndarray of int32, shape (n_types,)
            Clusters, in the order of ``words_``.
        """
        check_is_fitted(self)
        return np.asarray(self.tree_.cut(n_clusters)[self.labels_])

    def codes(self, n_clusters: int | None = None) -> list[str]:
        """Return the bit string of each word type.

        Parameters
        ----------
        n_clusters : int, optional
            Number of clusters that the tree is cut to; by default each fitted cluster has its own bit string.

        Returns
        -------
        list of str
            Bit strings, in the order of ``words_``.
        """
        check_is_fitted(self)
        codes = self.tree_.codes(n_clusters)
        return [codes[label] for label in self.labels_]

    def score(self, X: HoldsSentences | TokenLists, y: object = None) -> float:
        """Return the average mutual information of adjacent clusters within sentences, in bits.

        Parameters
        ----------
        X : Corpus, or iterable of token lists
            Sentences; words that are not in ``words_`` are in the cluster of ``"<?>"``.
        y : object, optional
            Ignored.

        Returns
        -------
        float
            Higher is better, so that searches over parameters can maximize it.

        Raises
        ------
        ValueError
            If X has no adjacent words.
        """
        check_is_fitted(self)
        corpus = as_corpus(X)
        counts = count_adjacent_pairs(
            corpus.sentences, np.asarray(corpus.counts), where=getattr(corpus, "where", None)
        )
        table = cluster_table(to_bigram_counts(counts), self.predict(corpus.words), self.tree_.n_leaves)
        return average_mutual_information(table)

    def _start(self, pairs: AdjacentCounts, weights: Doubles) -> Int32s:
        """Cluster the points, the most frequent first."""
        both = self.start == "weighted"
        # A context is a word on a side, so words after and words before have columns of their own.
        columns = np.concatenate([pairs.n_preceding, pairs.n_following]) if both else pairs.n_preceding
        scaling = ContextScaling.from_column_sums(columns, transform=self.count_transform)

        def scaled() -> Iterator[CSRRows]:
            return (scaling.apply(block.concatenate_sides() if both else block.after) for block in pairs)

        n_types = len(weights)
        k = min(self.n_dimensions, n_types)
        with blas_in_one_thread():
            if pairs.in_memory:
                vectors, values = leading_left_vectors(next(scaled()), k, random_state=self.random_state_)
            else:
                vectors, values = leading_left_vectors_by_block(
                    scaled, (n_types, len(columns)), scaling.dtype, k, random_state=self.random_state_
                )
            points = np.asarray(normalize_rows(vectors * values if both else vectors), dtype=np.float64)
        n_clusters, weights = int(self.n_clusters), weights if both else np.ones(len(weights))
        return ClusterTree(*merge_window(points, weights, n_clusters)).cut(n_clusters)

    def _exchange(self, pairs: AdjacentCounts, labels: Int32s) -> Int32s:
        """Sweep until no word moves, or ``n_sweeps`` times."""
        bigrams, m = to_bigram_counts(pairs), int(self.n_clusters)
        self.history_ = [average_mutual_information(cluster_table(bigrams, labels, m))]
        for _ in range(self.n_sweeps):
            moved = exchange_sweep(bigrams, labels, m)
            self.history_.append(average_mutual_information(cluster_table(bigrams, labels, m)))
            if not moved:  # each word is where it gains most, given all others
                break
        return labels
