"""Average mutual information of what stands side by side: the objective of Brown clustering."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse


def average_mutual_information(counts: Any, labels: ArrayLike | None = None) -> float:
    """Return the mutual information, in bits, of the clusters of two adjacent words.

    Parameters
    ----------
    counts : ndarray or SciPy sparse, shape (n_types, n_types)
        How often the second type directly follows the first.
    labels : array of int, shape (n_types,), optional
        Cluster of each type; by default each type is one, which bounds the value from above.

    Returns
    -------
    float

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
    matrix = sparse.csr_array(counts, dtype=np.float64)
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"the counts have shape {matrix.shape}, but they must be square")
    if labels is not None:
        matrix = cluster_counts(matrix, labels)
    total = matrix.sum()
    if not total > 0:
        raise ValueError("the counts hold no adjacent pair")
    cells = matrix.tocoo()
    cells.eliminate_zeros()
    first, second = matrix.sum(axis=1), matrix.sum(axis=0)
    row, column = cells.coords
    ratios = cells.data * total / (first[row] * second[column])
    return float(np.sum(cells.data / total * np.log2(ratios)))


def cluster_counts(counts: Any, labels: ArrayLike) -> Any:
    """Return how often one cluster directly follows another, a csr_array of shape (n_clusters, n_clusters).

    Raises
    ------
    ValueError
        If there is not one label, 0 or more, for each type.
    """
    labels = np.asarray(labels)
    n_types = counts.shape[0]
    if labels.shape != (n_types,) or (n_types and labels.min() < 0):
        raise ValueError(
            f"there are labels of shape {labels.shape}, but each of {n_types} types needs one from 0"
        )
    members = sparse.csr_array((np.ones(n_types), (np.arange(n_types), labels)))
    return sparse.csr_array(members.T @ sparse.csr_array(counts) @ members)
