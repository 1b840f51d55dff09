"""Brown clusters: a spectral start, exchange sweeps, and a tree that gives each cluster its bit string."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dspectral.cooccurrence.contexts import ContextCounts
from dspectral.cooccurrence.scaling import ContextScaling
from dspectral.engine import Blocks, blas_in_one_thread, summarize
from dspectral.inputs.sequences import as_corpus, encode
from dspectral.linalg.dense import unit_rows
from dspectral.linalg.svd import leading_left
from dspectral.methods.brown.cluster_tree import Tree, information_tree, window_tree
from dspectral.methods.brown.exchange import Adjacent, exchange_sweep
from dspectral.metrics.mutual_information import average_mutual_information, cluster_counts
from dspectral.registry import saved


@saved
class SpectralBrownClustering(BaseEstimator):
    """Cluster words by what stands directly beside them, and give each cluster a bit string.

    Words are points, from the singular vectors of their scaled neighbour counts; a windowed agglomeration makes
    ``n_clusters`` of them; sweeps then move single words to where the mutual information of adjacent clusters is
    highest; a tree over the clusters, merged at the least loss of it, gives the bit strings.

    Parameters
    ----------
    n_clusters : int
    n_dimensions : int
        Of the points: independent of ``n_clusters``; fewer where there are fewer words.
    transform : {"sqrt", "log", "none"} or float
        Of the counts before they are scaled (a float is a power).
    sides : {"both", "right"}
        Whether the word before counts as a context, or the word after alone.
    power : float
        Singular vectors times this power of the singular values, before rows are scaled to unit length.
    weighting : {"tokens", "types"}
        Whether a word weighs as much as its count in the agglomeration, or 1.
    refine : int
        Most exchange sweeps; they end when no word moves.
    min_count : int
        Words that occur less often are one type, ``"<?>"``.
    random_state : int

    Attributes
    ----------
    words_ : list of str
        In order of falling count; the first is ``"<?>"``, for rare and unseen words.
    word_counts_ : ndarray of int64, shape (n_types,)
    labels_ : ndarray of int32, shape (n_types,)
        Cluster of each type. One that never has a neighbour is in the cluster with the most tokens.
    tree_ : Tree
        Over the clusters.
    history_ : list of float
        Average mutual information in bits before the first sweep and after each.
    n_passes_ : int
        Over the sentences: one.

    Notes
    -----
    ``transform="none", sides="right", power=0, weighting="types", refine=0, n_dimensions=n_clusters`` is the plain
    setting of the paper, which its recovery theorem is about. Memory: the counts of adjacent words, a few times
    over, and ``(2 * n_types) * (n_dimensions + 16)`` numbers; it does not grow with the sentences otherwise.

    References
    ----------
    Stratos, Kim, Collins and Hsu 2014, "A spectral algorithm for learning class-based n-gram models of natural
    language"; Brown et al. 1992; Martin, Liermann and Ney 1998.

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
        transform: Literal["sqrt", "log", "none"] | float = "sqrt",
        sides: Literal["both", "right"] = "both",
        power: float = 1.0,
        weighting: Literal["tokens", "types"] = "tokens",
        refine: int = 5,
        min_count: int = 1,
        random_state: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_dimensions = n_dimensions
        self.transform = transform
        self.sides = sides
        self.power = power
        self.weighting = weighting
        self.refine = refine
        self.min_count = min_count
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Count adjacent words, cluster them, build the tree.

        Parameters
        ----------
        X : Corpus, or list of token lists
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there is no word, none with a neighbour, or fewer of these than ``n_clusters``; or a parameter is
            out of its range.
        """
        self._check()
        corpus = as_corpus(X, min_count=self.min_count)
        counts = adjacent_counts(corpus.sentences, len(corpus.words))
        self.labels_ = self.clusters(counts, np.asarray(corpus.counts))
        self.tree_: Tree = information_tree(cluster_counts(counts, self.labels_).toarray())
        self.words_, self.word_counts_ = list(corpus.words), np.asarray(corpus.counts)
        self.n_passes_ = 1
        return self

    def clusters(self, counts: Any, word_counts: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the cluster of each type, given how often types are adjacent, without fitting a tree.

        Parameters
        ----------
        counts : csr_array, shape (n_types, n_types)
            How often the second follows the first.
        word_counts : ndarray of int64, shape (n_types,)

        Raises
        ------
        ValueError
            As :meth:`fit` does.
        """
        beside = np.flatnonzero(np.asarray(counts.sum(axis=0) + counts.sum(axis=1)))
        if not len(beside):
            raise ValueError("no word has a neighbour: every sentence is one word, or none")
        if not 1 <= self.n_clusters <= len(beside):
            raise ValueError(
                f"n_clusters is {self.n_clusters}, but it must be from 1 to {len(beside)}: so many word types have "
                f"a neighbour (min_count = {self.min_count})"
            )
        weights = word_counts[beside].astype(np.float64)
        order = np.argsort(-weights, kind="stable")
        beside, weights = beside[order], weights[order]
        among = counts[beside][:, beside]
        labels = self._refine(among, self._start(among, weights))
        largest = int(np.argmax(np.bincount(labels, weights=weights)))
        found = np.full(len(word_counts), largest, dtype=np.int32)
        found[beside] = labels
        return found

    def predict(self, X: Sequence[str]) -> NDArray[np.int32]:
        """Return the cluster of each word; unseen ones are in that of ``"<?>"``."""
        check_is_fitted(self)
        return np.asarray(self.labels_[encode([X], self.words_).ids])

    def cut(self, n_clusters: int) -> NDArray[np.int32]:
        """Return the cluster of each type of ``words_`` when the tree is cut to so many.

        Raises
        ------
        ValueError
            If there are fewer clusters.
        """
        check_is_fitted(self)
        return np.asarray(self.tree_.cut(n_clusters)[self.labels_])

    def codes(self, n_clusters: int | None = None) -> list[str]:
        """Return the bit string of each type of ``words_``, with the tree cut to ``n_clusters`` if given.

        Raises
        ------
        ValueError
            If there are fewer clusters.
        """
        check_is_fitted(self)
        codes = self.tree_.codes(n_clusters)
        return [codes[label] for label in self.labels_]

    def score(self, X: Any, y: Any = None) -> float:
        """Return the average mutual information, in bits, of adjacent clusters within the sentences of X.

        Parameters
        ----------
        X : Corpus (also one with other words), or list of token lists
        y : ignored

        Raises
        ------
        ValueError
            If X has no adjacent words.
        """
        check_is_fitted(self)
        corpus = as_corpus(X)
        counts = adjacent_counts(corpus.sentences, len(corpus.words))
        return average_mutual_information(counts, self.predict(corpus.words))

    def _check(self) -> None:
        if self.n_dimensions < 1:
            raise ValueError(f"n_dimensions is {self.n_dimensions}, but it must be 1 or more")
        if self.sides not in ("both", "right"):
            raise ValueError(f"sides is {self.sides!r}, but it must be 'both' or 'right'")
        if self.weighting not in ("tokens", "types"):
            raise ValueError(f"weighting is {self.weighting!r}, but it must be 'tokens' or 'types'")
        if self.refine < 0:
            raise ValueError(f"refine is {self.refine}, but it must be 0 sweeps or more")

    def _start(self, counts: Any, weights: NDArray[np.float64]) -> NDArray[np.int32]:
        """Cluster the points, the most frequent first."""
        rows = counts if self.sides == "right" else sparse.hstack([counts, counts.T], format="csr")
        columns = np.asarray(rows.sum(axis=0), dtype=np.float64)
        scaled = ContextScaling.of(columns, transform=self.transform).apply(sparse.csr_array(rows))
        with blas_in_one_thread():
            k = min(self.n_dimensions, *scaled.shape)
            vectors, values = leading_left(scaled, k, random_state=self.random_state)
            points = np.asarray(unit_rows(vectors * values**self.power), dtype=np.float64)
        if self.weighting == "types":
            weights = np.ones(len(weights))
        n_active = min(self.n_clusters, len(weights))
        return window_tree(points, weights, n_active).cut(self.n_clusters)

    def _refine(self, counts: Any, labels: NDArray[np.int32]) -> NDArray[np.int32]:
        self.history_ = [average_mutual_information(counts, labels)]
        adjacent = Adjacent.of(sparse.csr_array(counts))
        for _ in range(self.refine):
            moved = exchange_sweep(adjacent, labels, self.n_clusters)
            self.history_.append(average_mutual_information(counts, labels))
            if not moved:
                break
        return labels


def adjacent_counts(sentences: Blocks, n_types: int) -> Any:
    """Count in one pass how often each type directly follows each."""
    of = partial(ContextCounts.of, n_types=n_types, window=1, sides="right")
    return summarize(sentences, of=of, name="adjacent").counts
