"""Agreement of states with tags and of frame labels with true labels, and mutual information of word clusters."""

from collections.abc import Hashable, Iterable, Sequence
from itertools import chain, groupby
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from dspectral.metrics.arguments import check_hashable, check_list, check_matrix, check_same_lengths
from dspectral.types import CSRRows, Int64s

Counts: TypeAlias = "ArrayLike | CSRRows"
"""Counts of pairs: an array, lists of lists or a SciPy sparse matrix."""


def contingency_table(y_true: Iterable[Hashable], y_pred: Iterable[Hashable]) -> Int64s:
    """Return the contingency table of two lists, values in order of first appearance.

    Shape (n_true_values, n_found_values).

    >>> contingency_table("NNV", [2, 2, 5])
    array([[2, 0],
           [0, 1]])
    """
    rows, columns = (
        _encode_values(check_hashable(name, check_list(name, values)))
        for name, values in (("y_true", y_true), ("y_pred", y_pred))
    )
    if len(rows) != len(columns):
        raise ValueError(
            f"y_true has {len(rows)} values, but y_pred has {len(columns)}: both must have the same number"
        )
    if not len(rows):
        raise ValueError("y_true and y_pred are empty, but must have at least one value")
    table = np.zeros((rows.max() + 1, columns.max() + 1), dtype=np.int64)
    # `table[rows, columns] += 1` would count repeated pairs once.
    np.add.at(table, (rows, columns), 1)
    return table


def _encode_values(values: list[Hashable]) -> Int64s:
    """Encode values as integers in order of first appearance."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64)


def many_to_one(y_true: Iterable[Hashable], y_pred: Iterable[Hashable]) -> float:
    """Return the accuracy when each state is mapped to its most frequent tag.

    Parameters
    ----------
    y_true : iterable of hashable
        True tag of each token.
    y_pred : iterable of hashable
        Predicted state of each token.

    Returns
    -------
    float
        Accuracy from 0 to 1. Several states may be mapped to one tag.

    Raises
    ------
    ValueError, TypeError
        If both lists are empty, the lengths differ, or an argument is not a list of values.

    Examples
    --------
    >>> many_to_one("NNVV", [0, 1, 2, 1])
    0.75
    """
    table = contingency_table(y_true, y_pred)
    return float(table.max(axis=0).sum() / table.sum())


def one_to_one(y_true: Iterable[Hashable], y_pred: Iterable[Hashable]) -> float:
    """Return the accuracy under the best one-to-one mapping of states to tags.

    Parameters
    ----------
    y_true : iterable of hashable
        True tag of each token.
    y_pred : iterable of hashable
        Predicted state of each token.

    Returns
    -------
    float
        Accuracy from 0 to 1. With more states than tags, tokens of unmapped states count as errors.

    Raises
    ------
    ValueError, TypeError
        If both lists are empty, the lengths differ, or an argument is not a list of values.

    Examples
    --------
    >>> one_to_one("NNVV", [0, 1, 2, 2])
    0.75
    """
    table = contingency_table(y_true, y_pred)
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / table.sum())


def v_measure(y_true: Iterable[Hashable], y_pred: Iterable[Hashable]) -> float:
    """Return the harmonic mean of homogeneity and completeness.

    Parameters
    ----------
    y_true : iterable of hashable
        True tag of each token.
    y_pred : iterable of hashable
        Predicted state of each token.

    Returns
    -------
    float
        Value from 0 to 1, equal to scikit-learn's ``v_measure_score``; 1 if both lists have a single value.

    Raises
    ------
    ValueError, TypeError
        If both lists are empty, the lengths differ, or an argument is not a list of values.

    References
    ----------
    Rosenberg and Hirschberg 2007, "V-measure".

    Examples
    --------
    >>> v_measure("NNVV", [1, 1, 0, 0]), v_measure("NVNV", [1, 1, 0, 0])
    (1.0, 0.0)
    """
    table = contingency_table(y_true, y_pred) / 1.0
    joint = table / table.sum()
    parts = [part[part > 0] for part in (joint.sum(axis=1), joint.sum(axis=0), joint.ravel())]
    # In nats.
    true_entropy, found_entropy, joint_entropy = (float(-np.sum(part * np.log(part))) for part in parts)
    # V = 2 I / (H(y_true) + H(y_pred)); rounding may make the mutual information negative.
    information = max(0.0, true_entropy + found_entropy - joint_entropy)
    total = true_entropy + found_entropy
    return 1.0 if total == 0 else 2.0 * information / total


def frame_accuracy(y_true: Sequence[Sequence[Hashable]], y_pred: Sequence[Sequence[Hashable]]) -> float:
    """Return the share of frames, over all sequences, whose label is correct.

    Parameters
    ----------
    y_true : sequence of sequences
        True labels of the frames of each sequence.
    y_pred : sequence of sequences
        Predicted labels, as many for each sequence.

    Returns
    -------
    float
        Accuracy from 0 to 1.

    Raises
    ------
    ValueError, TypeError
        If the lengths differ, there is no frame, or an argument is not a list of lists.

    Examples
    --------
    >>> frame_accuracy([["a", "a"], ["b", "b"]], [["a", "b"], ["b", "b"]])
    0.75
    """
    y_true, y_pred = check_same_lengths(y_true, y_pred)
    pairs = zip(chain.from_iterable(y_true), chain.from_iterable(y_pred), strict=True)
    return float(np.mean([true_label == found_label for true_label, found_label in pairs]))


def label_error_rate(y_true: Sequence[Sequence[Hashable]], y_pred: Sequence[Sequence[Hashable]]) -> float:
    """Return the edit distance between predicted and true runs of labels, divided by the number of true runs.

    A run is a maximal sequence of equal labels.

    Parameters
    ----------
    y_true : sequence of sequences
        True labels of the frames of each sequence.
    y_pred : sequence of sequences
        Predicted labels, as many for each sequence.

    Returns
    -------
    float
        Rate, at least 0; it can exceed 1.

    Raises
    ------
    ValueError, TypeError
        If the lengths differ, there is no frame, or an argument is not a list of lists.

    Examples
    --------
    >>> label_error_rate(["aaabbb", "cc"], ["aabcbb", "cc"])
    0.6666666666666666
    """
    y_true, y_pred = check_same_lengths(y_true, y_pred)
    # The rate of all sequences together, not a mean of rates.
    edits = n_runs = 0
    for true_labels, found_labels in zip(y_true, y_pred, strict=True):
        true_runs = run_labels(true_labels)
        edits += edit_distance(true_runs, run_labels(found_labels))
        n_runs += len(true_runs)
    return edits / n_runs


def run_labels(labels: Iterable[Hashable]) -> list[Hashable]:
    """Return the label of each run of equal labels."""
    return [label for label, _ in groupby(labels)]


def edit_distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Return the smallest number of insertions, deletions and substitutions that turn one sequence into the other."""
    first, second = check_list("first", first), check_list("second", second)
    # Invariant: row[j] is the distance between the first i values of `first` and the first j values of `second`.
    row = list(range(len(second) + 1))
    for i, value in enumerate(first, start=1):
        before, row = row, [i]
        for j, candidate in enumerate(second, start=1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (value != candidate)))
    return row[-1]


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
    numbers = check_matrix("labels", labels, 1)
    if numbers.dtype.kind not in "iu":
        raise ValueError(f"labels.dtype={numbers.dtype} must be an integer type: pass cluster numbers")
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
    matrix: CSRRows = sparse.csr_array(check_matrix("counts", counts))
    if not np.all(np.isfinite(matrix.data)) or matrix.data.min(initial=0) < 0:
        raise ValueError("counts contains a negative, NaN or infinite number, but must be finite and at least 0")
    return matrix
