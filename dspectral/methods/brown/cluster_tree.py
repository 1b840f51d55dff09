"""A tree of merges: its clusters at any number of them, and the bit string of each."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.registry import saved


@saved
class ClusterTree(NamedTuple):
    """A binary tree of merges over n leaves.

    Attributes
    ----------
    merges : ndarray of int32, shape (n - 1, 2)
        Nodes that merge into node ``n + i``; nodes below n are leaves.
    costs : ndarray of float64, shape (n - 1,)
        Cost of each merge.

    Examples
    --------
    >>> tree = ClusterTree(np.array([[0, 2], [1, 3], [4, 5]]), np.arange(3.0))
    >>> tree.n_leaves, tree.codes()
    (4, ['00', '10', '01', '11'])
    """

    merges: NDArray[np.int32]
    costs: NDArray[np.float64]

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.merges) + 1

    def cut(self, n_clusters: int) -> NDArray[np.int32]:
        """Return the cluster of each leaf when the last ``n_clusters - 1`` merges are undone.

        Parameters
        ----------
        n_clusters : int
            Number of clusters, from 1 to the number of leaves.

        Returns
        -------
        ndarray of int32, shape (n,)
            Clusters, numbered in the order of their first leaf.

        Raises
        ------
        ValueError
            If there are not so many leaves.

        Examples
        --------
        >>> ClusterTree(np.array([[0, 2], [1, 3], [4, 5]]), np.arange(3.0)).cut(2)
        array([0, 1, 0, 1], dtype=int32)
        """
        n = self._check_cut(n_clusters)
        # From the last merge that is kept down: a node belongs to the root of the node that it was merged into.
        roots = np.arange(2 * n - 1)
        for i in range(n - n_clusters - 1, -1, -1):
            roots[self.merges[i]] = roots[n + i]
        # Roots are numbered by merges; clusters by their first leaf, so that the numbers do not depend on n_clusters.
        _, first, inverse = np.unique(roots[:n], return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int32)
        rank[np.argsort(first)] = np.arange(len(first))
        return np.asarray(rank[inverse], dtype=np.int32)

    def codes(self, n_clusters: int | None = None) -> list[str]:
        """Return the bit string of each leaf: the way to it from the root.

        Parameters
        ----------
        n_clusters : int, optional
            Number of subtrees, from 1 to the number of leaves, whose leaves share a bit string; by default each
            leaf has its own.

        Returns
        -------
        list of str
            Bit strings in the order of the leaves.

        Raises
        ------
        ValueError
            If there are not so many leaves.

        Examples
        --------
        >>> tree = ClusterTree(np.array([[0, 2], [1, 3], [4, 5]]), np.arange(3.0))
        >>> tree.codes(), tree.codes(2)
        (['00', '10', '01', '11'], ['0', '1', '0', '1'])
        """
        n_clusters = self.n_leaves if n_clusters is None else n_clusters
        n = self._check_cut(n_clusters)
        # From the root down: a merge adds a bit while it is among the last n_clusters - 1, which a cut undoes.
        codes = [""] * (2 * n - 1)
        for i in range(n - 2, -1, -1):
            split = i >= n - n_clusters
            # A node has the code of its parent already, because parents have higher numbers and are visited first.
            for bit, child in zip("01", self.merges[i], strict=True):
                codes[child] = codes[n + i] + (bit if split else "")
        return codes[:n]

    def _check_cut(self, n_clusters: int) -> int:
        n = self.n_leaves
        if not 1 <= n_clusters <= n:
            raise ValueError(f"n_clusters is {n_clusters}, but the tree can be cut into 1 to {n} clusters")
        return n
