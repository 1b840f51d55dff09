"""Average mutual information of adjacent words: the objective of Brown clustering."""

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from dspectral.metrics.arguments import matrix_of
from dspectral.types import CSRRows

Counts: TypeAlias = "ArrayLike | CSRRows"
"""Counts of pairs: an array, lists of lists or a SciPy sparse matrix."""


def average_mutual_information(counts: Counts, labels: ArrayLike | None = None) -> float:
    """Return the mutual information, in bits, of the clusters of two adjacent words.

    Parameters
    ----------
    counts : ndarray or SciPy sparse, shape (n_types, n_types)
        How often the second type directly follows the first.
    labels : array of int, shape (n_types,), optional
        Cluster of each type; by default each type is a cluster, which bounds the value from above.

    Returns
    -------
    float
        Bits, at least 0 up to rounding.

    Raises
    ------
    ValueError
        If the counts are not square, hold nothing, or do not have one label a type.

    References
    ----------
    Brown, Della Pietra, deSouza, Lai and Mercer 1992, "Class-based n-gram models of natural language", section 3.

    Examples
    --------
    >>> average_mutual_information([[0, 4], [4, 0]])
    1.0
    >>> average_mutual_information([[0, 4], [4, 0]], [0, 0])
    0.0
    """
    matrix = _as_csr(counts).astype(np.float64)
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"the counts have shape {matrix.shape}, but they must be square")
    if labels is not None:
        matrix = cluster_counts(matrix, labels)
    total = matrix.sum()
    if not total > 0:
        raise ValueError("the counts hold no adjacent pair")
    # I = sum p(a, b) log2(p(a, b) / (p(a) p(b))) over the cells that are not zero, with p = counts / total.
    cells = matrix.tocoo()
    # A stored zero has no logarithm, and its share of the sum is 0.
    cells.eliminate_zeros()
    first, second = matrix.sum(axis=1), matrix.sum(axis=0)
    row, column = cells.coords
    ratios = cells.data * total / (first[row] * second[column])
    return float(np.sum(cells.data / total * np.log2(ratios)))


def cluster_counts(counts: Counts, labels: ArrayLike) -> CSRRows:
    """Return how often one cluster directly follows another.

    Parameters
    ----------
    counts : ndarray or SciPy sparse, shape (n_types, n_types)
        How often the second type directly follows the first.
    labels : array of int, shape (n_types,)
        Cluster of each type, 0 or more.

    Returns
    -------
    csr_array, shape (n_clusters, n_clusters)
        Sums of the counts over the types of each pair of clusters.

    Raises
    ------
    ValueError
        If there is not one label, 0 or more, for each type.

    Examples
    --------
    >>> cluster_counts([[0, 1, 2], [3, 0, 0], [0, 4, 0]], [0, 1, 1]).toarray()
    array([[0., 3.],
           [3., 4.]])
    """
    matrix = _as_csr(counts)
    numbers = matrix_of("labels", labels, 1)
    if numbers.dtype.kind not in "iu":
        raise ValueError(f"labels are {numbers.dtype}, but each must be the number of a cluster")
    n_types = matrix.shape[0]
    if matrix.shape[1] != n_types:
        raise ValueError(f"the counts have shape {matrix.shape}, but they must be square")
    if numbers.shape != (n_types,) or (n_types and numbers.min() < 0):
        raise ValueError(
            f"there are labels of shape {numbers.shape}, but each of {n_types} types needs one from 0"
        )
    # With M the indicator of clusters, M' C M sums the counts over the types of two clusters.
    members = sparse.csr_array((np.ones(n_types), (np.arange(n_types), numbers)))
    return sparse.csr_array(members.T @ matrix @ members)


def _as_csr(counts: Counts) -> CSRRows:
    matrix: CSRRows = sparse.csr_array(matrix_of("counts", counts))
    if not np.all(np.isfinite(matrix.data)) or matrix.data.min(initial=0) < 0:
        raise ValueError("counts hold a number that is negative, NaN or infinite, but each must be 0 or more")
    return matrix
