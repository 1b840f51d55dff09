"""Brown clustering: a spectral start, exchange sweeps, and a tree that assigns a bit string to each cluster."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dspectral.cooccurrence.scaling import ContextScaling, CountTransform
from dspectral.engine import expect_passes, tracked_fit
from dspectral.inputs.rows import RunPlanMixin
from dspectral.inputs.sequences import HoldsSentences, TokenLists, as_corpus, get_word_ids
from dspectral.linalg.blas import blas_in_one_thread
from dspectral.linalg.dense import normalize_rows
from dspectral.linalg.leading import leading_left_vectors
from dspectral.methods.brown.adjacent_pairs import count_adjacent_pairs
from dspectral.methods.brown.agglomeration import ClusterTree, merge_by_information, merge_window
from dspectral.methods.brown.exchange import average_mutual_information, cluster_table, exchange_sweep, to_bigram_counts
from dspectral.methods.brown.pair_counts import AdjacentCounts
from dspectral.parameters import RandomState, check_integer, check_option, resolve_seed
from dspectral.registry import register_class
from dspectral.types import CheckpointPath, CSRRows, Doubles, Int32s, Int64s


@register_class({"words_": "n_types", "word_counts_": "n_types", "tree_.merges": "n 2", "labels_": "n_types"})
class SpectralBrownClustering(RunPlanMixin, BaseEstimator):
    """Cluster words by their adjacent words, with a bit string for each cluster.

    Words are represented by singular vectors of their scaled neighbor counts. A windowed agglomeration merges them into
    ``n_clusters`` clusters. Exchange sweeps then move single words to the cluster that maximizes the mutual information
    of adjacent clusters. A tree of the merges that lose the least information defines the bit strings.

    Parameters
    ----------
    n_clusters : int, default=100
        Number of clusters, at most the number of word types that have a neighbor.
    n_dimensions : int, default=64
        Dimensions of the points, independent of ``n_clusters``; at most the number of words.
    count_transform : {"sqrt", "log", "none"} or float, default="sqrt"
        Transform of neighbor counts before scaling; a float is a positive power.
    n_sweeps : int, default=5
        Maximum number of exchange sweeps; they stop when no word moves.
    min_count : int, default=2
        Rarer words are replaced by the type ``"<?>"``, which also stands for unknown words. With 1, unknown words
        belong to the largest cluster.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the singular vectors' random start. The same seed and text give the same bits under every scheduler.
    start : {"weighted", "published"}, default="weighted"
        How points are computed. ``"weighted"``: from both neighbors of a word, singular vectors times singular values,
        words weighted by count. ``"published"`` (see :meth:`as_published`): from the next word only, singular vectors
        without values, words with weight 1.

    Attributes
    ----------
    words_ : list of str
        Word types by decreasing count; the first is ``"<?>"``, for rare and unknown words.
    word_counts_ : ndarray of int64, shape (n_types,)
        Number of tokens of each word type.
    labels_ : ndarray of int32, shape (n_types,)
        Cluster of each word type. Types without neighbors are in the cluster with the most tokens.
    tree_ : ClusterTree
        Merges of the clusters, which define the bit strings.
    history_ : list of float
        Average mutual information in bits before the first sweep and after each sweep.
    random_state_ : int
        Seed that was used.
    n_passes_ : int
        Number of passes over the sentences: 1.

    Notes
    -----
    Memory: 260 bytes for each distinct pair of adjacent words, ``(2 * n_types) * (n_dimensions + 16)`` numbers, and
    four matrices of ``n_clusters`` by ``n_clusters``. Pairs that exceed ``dspectral.memory-limit`` (1 GiB) are counted
    in the store of the corpus, with the same clusters. Without a store, fit raises an error if the limit was set.

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
        """Return an estimator with the settings of Stratos et al. 2014, for which their recovery theorem holds.

        Untransformed counts of the next word, singular vectors without values, words with weight 1, no sweeps.

        Parameters
        ----------
        n_clusters : int, default=100
            Number of clusters, and of dimensions.
        **parameters
            Other parameters of the constructor, which override these settings.

        Returns
        -------
        SpectralBrownClustering
            Unfitted estimator.
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
    def fit(self, X: HoldsSentences | TokenLists, y: object = None, *, checkpoints: CheckpointPath = None) -> Self:
        """Count adjacent words, cluster the words, and build the tree.

        Parameters
        ----------
        X : Corpus, or iterable of token lists
            Sentences. Token lists may be a list, a tuple, a generator or a column of a data frame.
        y : object, optional
            Not used, present for API consistency.
        checkpoints : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.checkpoints` takes it.

        Returns
        -------
        SpectralBrownClustering
            The estimator itself.

        Raises
        ------
        ValueError
            If fewer than ``n_clusters`` words have a neighbor, or a parameter is out of range.
        MemoryError
            If the pairs exceed ``dspectral.memory-limit``, which was set, and X is not a corpus in a store.
        """
        check_integer("n_clusters", self.n_clusters)  # its range is checked below
        check_integer("n_dimensions", self.n_dimensions, at_least=1)
        check_integer("n_sweeps", self.n_sweeps, at_least=0)
        check_integer("min_count", self.min_count, at_least=1)
        check_option("start", self.start, ("weighted", "published"))
        corpus = as_corpus(X, min_count=self.min_count)
        expect_passes(1)
        word_counts = np.asarray(corpus.counts)
        counts = count_adjacent_pairs(corpus.sentences, word_counts, location=getattr(corpus, "location", None))
        self.labels_ = self.clusters(counts, word_counts)
        table = cluster_table(to_bigram_counts(counts), self.labels_, int(self.n_clusters))
        self.tree_ = ClusterTree(*merge_by_information(table.astype(np.float64)))
        self.words_, self.word_counts_ = list(corpus.words), word_counts
        self.n_passes_ = 1
        return self

    def clusters(self, pairs: AdjacentCounts, word_counts: Int64s) -> Int32s:
        """Cluster types by their adjacency counts, without building a tree.

        Parameters
        ----------
        pairs : AdjacentCounts
            Number of times that the column's type directly follows the row's type.
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
        types = np.flatnonzero(pairs.n_following + pairs.n_preceding)
        if not len(types):
            raise ValueError("no word has a neighbor, but some sentence must have at least two words")
        if not 1 <= self.n_clusters <= len(types):
            raise ValueError(
                f"n_clusters={self.n_clusters} must be from 1 to {len(types)}, the number of word types with a "
                f"neighbor (min_count = {self.min_count})"
            )
        # Types without neighbors are assigned at the end. The window adds types by decreasing count.
        weights = word_counts[types].astype(np.float64)
        order = np.argsort(-weights, kind="stable")
        types, weights = types[order], weights[order]
        # The sweeps change the labels in place and find a local optimum near the spectral start.
        with pairs.reorder(types) as reordered:
            labels = self._exchange(reordered, self._compute_initial_clusters(reordered, weights))
        largest = int(np.argmax(np.bincount(labels, weights=weights)))
        all_labels = np.full(len(word_counts), largest, dtype=np.int32)
        all_labels[types] = labels
        return all_labels

    def __contains__(self, word: object) -> bool:
        check_is_fitted(self)
        return word in get_word_ids(self)

    def predict(self, X: Iterable[str]) -> Int32s:
        """Return the cluster of each word.

        Parameters
        ----------
        X : iterable of str
            Words; unknown ones belong to the cluster of ``"<?>"``.

        Returns
        -------
        ndarray of int32, shape (n_words,)
            Clusters in the order of X.
        """
        check_is_fitted(self)
        words = None if isinstance(X, str | bytes) else list(X)
        if words is None or not all(isinstance(word, str) for word in words):
            raise TypeError(f"X={X!r:.60} must be a list of strings, one for each word")
        # Unknown words are type 0, "<?>".
        numbers = get_word_ids(self)
        return np.asarray(self.labels_[[numbers.get(word, 0) for word in words]], dtype=np.int32)

    def cut(self, n_clusters: int) -> Int32s:
        """Cut the tree to fewer clusters, and return the cluster of each word type.

        Parameters
        ----------
        n_clusters : int
            Number of clusters, from 1 to that of the fit.

        Returns
        -------
        ndarray of int32, shape (n_types,)
            Clusters, in the order of ``words_``.
        """
        check_is_fitted(self)
        return self.tree_.cut(n_clusters)[self.labels_]

    def codes(self, n_clusters: int | None = None) -> list[str]:
        """Return the bit string of each word type.

        Parameters
        ----------
        n_clusters : int, optional
            Number of clusters of the cut; by default each fitted cluster has its own bit string.

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
            Sentences; unknown words belong to the cluster of ``"<?>"``.
        y : object, optional
            Not used, present for API consistency.

        Returns
        -------
        float
            Average mutual information; higher is better.

        Raises
        ------
        ValueError
            If X has no adjacent words.
        """
        check_is_fitted(self)
        corpus = as_corpus(X)
        counts = count_adjacent_pairs(
            corpus.sentences, np.asarray(corpus.counts), location=getattr(corpus, "location", None)
        )
        table = cluster_table(to_bigram_counts(counts), self.predict(corpus.words), self.tree_.n_leaves)
        return average_mutual_information(table)

    def _compute_initial_clusters(self, pairs: AdjacentCounts, weights: Doubles) -> Int32s:
        """Return the spectral clusters of the types."""
        is_weighted = self.start == "weighted"
        # Preceding and following words are separate contexts.
        columns = np.concatenate([pairs.n_preceding, pairs.n_following]) if is_weighted else pairs.n_preceding
        scaling = ContextScaling.from_column_sums(columns, transform=self.count_transform)

        def scale_blocks() -> Iterator[CSRRows]:
            return (scaling.apply(block.concatenate_sides() if is_weighted else block.after) for block in pairs)

        n_types = len(weights)
        k = min(self.n_dimensions, n_types)
        with blas_in_one_thread():
            vectors, values = leading_left_vectors(
                scale_blocks, (n_types, len(columns)), scaling.dtype, k, random_state=self.random_state_
            )
            points = np.asarray(normalize_rows(vectors * values if is_weighted else vectors), dtype=np.float64)
        n_clusters, weights = int(self.n_clusters), weights if is_weighted else np.ones(len(weights))
        return ClusterTree(*merge_window(points, weights, n_clusters)).cut(n_clusters)

    def _exchange(self, pairs: AdjacentCounts, labels: Int32s) -> Int32s:
        """Run exchange sweeps until no word moves, at most ``n_sweeps``; return the labels."""
        bigrams, m = to_bigram_counts(pairs), int(self.n_clusters)
        self.history_ = [average_mutual_information(cluster_table(bigrams, labels, m))]
        for _ in range(self.n_sweeps):
            n_moved = exchange_sweep(bigrams, labels, m)
            self.history_.append(average_mutual_information(cluster_table(bigrams, labels, m)))
            if not n_moved:  # a local optimum
                break
        return labels
