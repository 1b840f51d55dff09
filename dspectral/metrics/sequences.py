"""How well states agree with tags, labels of frames with the true labels, and clusters of words with each other."""

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


def contingency_table(true: Iterable[Hashable], found: Iterable[Hashable]) -> Int64s:
    """Count pairs of values, in the order of first appearance, shape (n_true_values, n_found_values).

    >>> contingency("NNV", [2, 2, 5])
    array([[2, 0],
           [0, 1]])
    """
    rows, columns = (
        _numbers(check_hashable(name, check_list(name, values)))
        for name, values in (("true", true), ("found", found))
    )
    if len(rows) != len(columns):
        raise ValueError(f"there are {len(rows)} true values, but {len(columns)} found ones")
    if not len(rows):
        raise ValueError("there is nothing to compare: both are empty")
    table = np.zeros((rows.max() + 1, columns.max() + 1), dtype=np.int64)
    # A pair may occur many times, and fancy indexing would count it once.
    np.add.at(table, (rows, columns), 1)
    return table


def _numbers(values: list[Hashable]) -> Int64s:
    """Return the number of each value, in the order of first appearance."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64)


def many_to_one(true: Iterable[Hashable], found: Iterable[Hashable]) -> float:
    """Return the share of tokens that are right when each state stands for its most frequent tag.

    Parameters
    ----------
    true : iterable of hashable
        True tag of each token.
    found : iterable of hashable
        State found for each token.

    Returns
    -------
    float
        Accuracy from 0 to 1 of the best mapping, in which several states may stand for one tag.

    Raises
    ------
    ValueError, TypeError
        If there is nothing to compare, the lengths differ, or one is no list of values.

    Examples
    --------
    >>> many_to_one("NNVV", [0, 1, 2, 1])
    0.75
    """
    table = contingency_table(true, found)
    return float(table.max(axis=0).sum() / table.sum())


def one_to_one(true: Iterable[Hashable], found: Iterable[Hashable]) -> float:
    """Return the share of tokens that are right under the best mapping of states to different tags.

    Parameters
    ----------
    true : iterable of hashable
        True tag of each token.
    found : iterable of hashable
        State found for each token.

    Returns
    -------
    float
        Accuracy from 0 to 1; where there are more states than tags, tokens of the states left over count as wrong.

    Raises
    ------
    ValueError, TypeError
        If there is nothing to compare, the lengths differ, or one is no list of values.

    Examples
    --------
    >>> one_to_one("NNVV", [0, 1, 2, 2])
    0.75
    """
    table = contingency_table(true, found)
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / table.sum())


def v_measure(true: Iterable[Hashable], found: Iterable[Hashable]) -> float:
    """Return the harmonic mean of homogeneity and completeness.

    Parameters
    ----------
    true : iterable of hashable
        True tag of each token.
    found : iterable of hashable
        State found for each token.

    Returns
    -------
    float
        Value from 0 to 1, as of scikit-learn's ``v_measure_score``; 1 where both sides have one value only.

    Raises
    ------
    ValueError, TypeError
        If there is nothing to compare, the lengths differ, or one is no list of values.

    References
    ----------
    Rosenberg and Hirschberg 2007, "V-measure".

    Examples
    --------
    >>> v_measure("NNVV", [1, 1, 0, 0]), v_measure("NVNV", [1, 1, 0, 0])
    (1.0, 0.0)
    """
    table = contingency_table(true, found) / 1.0
    joint = table / table.sum()
    parts = [part[part > 0] for part in (joint.sum(axis=1), joint.sum(axis=0), joint.ravel())]
    of_true, of_found, of_both = (float(-np.sum(part * np.log(part))) for part in parts)  # entropies in nats
    # V = 2 I / (H(true) + H(found)), with the mutual information from entropies; rounding may leave it below 0.
    shared = max(0.0, of_true + of_found - of_both)
    return 1.0 if of_true + of_found == 0 else 2.0 * shared / (of_true + of_found)


def frame_accuracy(true: Sequence[Sequence[Hashable]], found: Sequence[Sequence[Hashable]]) -> float:
    """Return the share of the frames of all sequences whose label is right.

    Parameters
    ----------
    true : sequence of sequences
        True labels of the frames of each sequence.
    found : sequence of sequences
        Labels found, as many for each sequence.

    Returns
    -------
    float
        Accuracy from 0 to 1.

    Raises
    ------
    ValueError, TypeError
        If the sequences do not correspond, there is no frame, or one is no list of lists.

    Examples
    --------
    >>> frame_accuracy([["a", "a"], ["b", "b"]], [["a", "b"], ["b", "b"]])
    0.75
    """
    true, found = check_same_lengths(true, found)
    pairs = zip(chain.from_iterable(true), chain.from_iterable(found), strict=True)
    return float(np.mean([one == other for one, other in pairs]))


def label_error_rate(true: Sequence[Sequence[Hashable]], found: Sequence[Sequence[Hashable]]) -> float:
    """Return the number of edits that turn the found runs into the true runs, divided by the number of true runs.

    A run is a stretch of equal labels.

    Parameters
    ----------
    true : sequence of sequences
        True labels of the frames of each sequence.
    found : sequence of sequences
        Labels found, as many for each sequence.

    Returns
    -------
    float
        Rate of at least 0, which may be above 1.

    Raises
    ------
    ValueError, TypeError
        If the sequences do not correspond, there is no frame, or one is no list of lists.

    Examples
    --------
    >>> label_error_rate(["aaabbb", "cc"], ["aabcbb", "cc"])
    0.6666666666666666
    """
    true, found = check_same_lengths(true, found)
    # Edits are summed before they are divided: the rate is of all sequences together, not a mean of rates.
    edits = n_runs = 0
    for one, other in zip(true, found, strict=True):
        truth = run_labels(one)
        edits += edit_distance(truth, run_labels(other))
        n_runs += len(truth)
    return edits / n_runs


def run_labels(labels: Iterable[Hashable]) -> list[Hashable]:
    """Return the label of each run."""
    return [label for label, _ in groupby(labels)]


def edit_distance(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Return the smallest number of insertions, deletions and substitutions that turn one sequence into the other.

    >>> edit_distance("kitten", "sitting")
    3
    """
    one, other = check_list("one", one), check_list("other", other)
    # row[j] is the distance of the first i values of one from the first j values of other.
    row = list(range(len(other) + 1))
    for i, value in enumerate(one, start=1):
        before, row = row, [i]
        for j, candidate in enumerate(other, start=1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (value != candidate)))
    return row[-1]


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
    """
    matrix = _as_csr(counts)
    numbers = check_matrix("labels", labels, 1)
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
    matrix: CSRRows = sparse.csr_array(check_matrix("counts", counts))
    if not np.all(np.isfinite(matrix.data)) or matrix.data.min(initial=0) < 0:
        raise ValueError("counts hold a number that is negative, NaN or infinite, but each must be 0 or more")
    return matrix
