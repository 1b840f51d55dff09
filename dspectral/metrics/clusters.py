"""Mutual information of word clusters."""

from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from dspectral.types import CSRRows

Counts: TypeAlias = "ArrayLike | CSRRows"
"""Counts of pairs: an array, lists of lists or a SciPy sparse matrix."""


def average_mutual_information(counts: Counts, labels: ArrayLike | None = None) -> float:
    """Return the mutual information, in bits, between the clusters of adjacent words.

    Parameters
    ----------
    counts : ndarray or SciPy sparse, shape (n_types, n_types)
        Number of times that the column's type directly follows the row's type.
    labels : array of int, shape (n_types,), optional
        Cluster of each type. By default each type is a cluster, which gives the maximum.

    Returns
    -------
    float
        Bits, at least 0 up to rounding.

    Raises
    ------
    ValueError
        If the counts are not square or all zero, or there is not one label per type.

    References
    ----------
    Brown, Della Pietra, deSouza, Lai and Mercer 1992, "Class-based n-gram models of natural language", section 3.

    Examples
    --------
    >>> average_mutual_information([[0, 4], [4, 0]])
    1.0
    """
    matrix = _as_csr(counts).astype(np.float64)
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"counts.shape={matrix.shape} must be square")
    if labels is not None:
        matrix = cluster_counts(matrix, labels)
    total = matrix.sum()
    if not total > 0:
        raise ValueError("counts are all 0, but must have at least one adjacent pair")
    # I = sum p(a, b) log2(p(a, b) / (p(a) p(b))) over the cells that are not zero, with p = counts / total.
    cells = matrix.tocoo()
    # Remove stored zeros, which have no logarithm.
    cells.eliminate_zeros()
    first, second = matrix.sum(axis=1), matrix.sum(axis=0)
    row, column = cells.coords
    ratios = cells.data * total / (first[row] * second[column])
    return float(np.sum(cells.data / total * np.log2(ratios)))


def cluster_counts(counts: Counts, labels: ArrayLike) -> CSRRows:
    """Return the counts of adjacent words between clusters.

    Parameters
    ----------
    counts : ndarray or SciPy sparse, shape (n_types, n_types)
        Number of times that the column's type directly follows the row's type.
    labels : array of int, shape (n_types,)
        Cluster of each type, 0 or more.

    Returns
    -------
    csr_array, shape (n_clusters, n_clusters)
        Sums of the counts over the types of each pair of clusters.

    Raises
    ------
    ValueError
        If labels does not have one entry of at least 0 for each type.
    """
    matrix = _as_csr(counts)
    numbers = np.asarray(labels)
    n_types = matrix.shape[0]
    if matrix.shape[1] != n_types:
        raise ValueError(f"counts.shape={matrix.shape} must be square")
    if numbers.shape != (n_types,) or (n_types and numbers.min() < 0):
        raise ValueError(
            f"labels has shape {numbers.shape}, but must have one number of at least 0 for each of {n_types} types"
        )
    # With the indicator matrix M of clusters, M' C M sums the counts over the types of two clusters.
    members = sparse.csr_array((np.ones(n_types), (np.arange(n_types), numbers)))
    return sparse.csr_array(members.T @ matrix @ members)


def _as_csr(counts: Counts) -> CSRRows:
    matrix: CSRRows = sparse.csr_array(cast("Any", counts))
    if not np.all(np.isfinite(matrix.data)) or matrix.data.min(initial=0) < 0:
        raise ValueError("counts contains a negative, NaN or infinite number, but must be finite and at least 0")
    return matrix
