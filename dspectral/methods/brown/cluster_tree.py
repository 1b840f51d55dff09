"""A tree of merges: its clusters at any number, and the bit string of each."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.methods.brown.agglomeration import merge_by_information, merge_window
from dspectral.registry import saved


@saved
class Tree(NamedTuple):
    """A binary tree over n leaves.

    Attributes
    ----------
    merges : ndarray of int32, shape (n - 1, 2)
        Node ``n + i`` joins these two; nodes below n are leaves.
    costs : ndarray of float64, shape (n - 1,)
        Of the merges.
    """

    merges: NDArray[np.int32]
    costs: NDArray[np.float64]

    @property
    def n_leaves(self) -> int:
        """How many leaves there are."""
        return len(self.merges) + 1

    def cut(self, n_clusters: int) -> NDArray[np.int32]:
        """Return the cluster of each leaf when the last ``n_clusters - 1`` merges are undone.

        Clusters are numbered in the order of their first leaf.

        Raises
        ------
        ValueError
            If there are not so many leaves.

        Examples
        --------
        >>> Tree(np.array([[0, 2], [1, 3], [4, 5]]), np.arange(3.0)).cut(2)
        array([0, 1, 0, 1], dtype=int32)
        """
        n = self.n_leaves
        if not 1 <= n_clusters <= n:
            raise ValueError(f"n_clusters is {n_clusters}, but the tree can be cut into 1 to {n} clusters")
        roots = np.arange(2 * n - 1)
        for i in range(n - n_clusters - 1, -1, -1):
            roots[self.merges[i]] = roots[n + i]
        _, first, inverse = np.unique(roots[:n], return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int32)
        rank[np.argsort(first)] = np.arange(len(first))
        return np.asarray(rank[inverse], dtype=np.int32)

    def codes(self, n_clusters: int | None = None) -> list[str]:
        """Return the bit string of each leaf: the way from the root, cut where ``n_clusters`` subtrees are left.

        Examples
        --------
        >>> tree = Tree(np.array([[0, 2], [1, 3], [4, 5]]), np.arange(3.0))
        >>> tree.codes(), tree.codes(2)
        (['00', '10', '01', '11'], ['0', '1', '0', '1'])
        """
        n = self.n_leaves
        n_clusters = n if n_clusters is None else n_clusters
        if not 1 <= n_clusters <= n:
            raise ValueError(f"n_clusters is {n_clusters}, but the tree can be cut into 1 to {n} clusters")
        codes = [""] * (2 * n - 1)
        for i in range(n - 2, -1, -1):
            split = i >= n - n_clusters
            for bit, child in zip("01", self.merges[i], strict=True):
                codes[child] = codes[n + i] + (bit if split else "")
        return codes[:n]


def window_tree(points: NDArray[np.float64], weights: NDArray[np.float64], n_active: int) -> Tree:
    """Return the tree of :func:`~dspectral.methods.brown.agglomeration.merge_window`.

    Parameters
    ----------
    points : ndarray, shape (n, k)
        The most frequent first.
    weights : ndarray, shape (n,)
    n_active : int
        From 1 to n.
    """
    return Tree(*merge_window(points, weights, n_active))


def information_tree(counts: NDArray[np.float64]) -> Tree:
    """Return the tree of :func:`~dspectral.methods.brown.agglomeration.merge_by_information`.

    Parameters
    ----------
    counts : ndarray, shape (m, m)
        How often one cluster directly follows another.
    """
    return Tree(*merge_by_information(counts))
