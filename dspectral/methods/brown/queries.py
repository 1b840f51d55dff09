"""Questions to a fitted clustering of words: the cluster and the bit string of each."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dspectral.inputs.sequences import word_numbers
from dspectral.methods.brown.cluster_tree import ClusterTree


class ClusterQueries:
    """Questions that need only the words, their clusters and the tree."""

    words_: list[str]
    labels_: NDArray[np.int32]
    tree_: ClusterTree

    def __contains__(self, word: object) -> bool:
        check_is_fitted(self)
        return word in word_numbers(self)

    def predict(self, X: Iterable[str]) -> NDArray[np.int32]:
        """Return the cluster of each word.

        Parameters
        ----------
        X : iterable of str
            Words. Those that are not in ``words_`` are in the cluster of ``"<?>"``, as rare words are; ``word in
            model.words_`` tells them apart.

        Returns
        -------
        ndarray of int32, shape (n_words,)
            Clusters in the order of X.

        Raises
        ------
        TypeError
            If X is one string, or holds something that is no string.
        """
        check_is_fitted(self)
        words = None if isinstance(X, str | bytes) else list(X)
        if words is None or not all(isinstance(word, str) for word in words):
            raise TypeError(f"X is {X!r:.60}, but it must be a list of words, each a string")
        # Type 0 stands for all rare words, and so for those that were never seen.
        numbers = word_numbers(self)
        return np.asarray(self.labels_[[numbers.get(word, 0) for word in words]], dtype=np.int32)

    def cut(self, n_clusters: int) -> NDArray[np.int32]:
        """Return the cluster of each word type when the tree is cut to fewer clusters.

        Parameters
        ----------
        n_clusters : int
            Number of clusters, from 1 to the number that was fitted.

        Returns
        -------
        ndarray of int32, shape (n_types,)
            Clusters, in the order of ``words_``.

        Raises
        ------
        ValueError
            If there are fewer clusters.
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

        Raises
        ------
        ValueError
            If there are fewer clusters.
        """
        check_is_fitted(self)
        codes = self.tree_.codes(n_clusters)
        return [codes[label] for label in self.labels_]
