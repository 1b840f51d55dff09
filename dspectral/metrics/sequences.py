"""How well states agree with tags, and labels of frames with the true ones."""

from collections.abc import Hashable, Iterable, Sequence
from itertools import chain, groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment


def contingency(true: Iterable[Hashable], found: Iterable[Hashable]) -> NDArray[np.int64]:
    """Count pairs, shape (true values, found values), in the order of first appearance.

    Raises
    ------
    ValueError
        If there is nothing to compare, or the lengths differ.

    Examples
    --------
    >>> contingency("NNV", [2, 2, 5])
    array([[2, 0],
           [0, 1]])
    """
    rows, columns = numbered(true), numbered(found)
    if len(rows) != len(columns):
        raise ValueError(f"there are {len(rows)} true values, but {len(columns)} found ones")
    if not len(rows):
        raise ValueError("there is nothing to compare: both are empty")
    table = np.zeros((rows.max() + 1, columns.max() + 1), dtype=np.int64)
    np.add.at(table, (rows, columns), 1)
    return table


def numbered(values: Iterable[Hashable]) -> NDArray[np.int64]:
    """Return the number of each value, in the order of first appearance."""
    plain: Any = values.tolist() if isinstance(values, np.ndarray) else values
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in plain], dtype=np.int64)


def many_to_one(true: Iterable[Hashable], found: Iterable[Hashable]) -> float:
    """Share of tokens that are right when each state stands for its most frequent tag.

    Examples
    --------
    >>> many_to_one("NNVV", [0, 1, 2, 1])
    0.75
    """
    table = contingency(true, found)
    return float(table.max(axis=0).sum() / table.sum())


def one_to_one(true: Iterable[Hashable], found: Iterable[Hashable]) -> float:
    """Share of tokens that are right when states stand for different tags, as well as can be.

    Examples
    --------
    >>> one_to_one("NNVV", [0, 1, 2, 2])
    0.75
    """
    table = contingency(true, found)
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / table.sum())


def v_measure(true: Iterable[Hashable], found: Iterable[Hashable]) -> float:
    """Harmonic mean of homogeneity and completeness.

    References
    ----------
    Rosenberg and Hirschberg 2007, "V-measure".

    Examples
    --------
    >>> v_measure("NNVV", [1, 1, 0, 0]), v_measure("NVNV", [1, 1, 0, 0])
    (1.0, 0.0)
    """
    table = contingency(true, found) / 1.0
    joint = table / table.sum()
    of_true, of_found = entropy(joint.sum(axis=1)), entropy(joint.sum(axis=0))
    shared = max(0.0, of_true + of_found - entropy(joint.ravel()))
    return 1.0 if of_true + of_found == 0 else 2.0 * shared / (of_true + of_found)


def entropy(shares: NDArray[np.float64]) -> float:
    """Entropy in nats."""
    some = shares[shares > 0]
    return float(-np.sum(some * np.log(some)))


def frame_accuracy(true: Sequence[Sequence[Any]], found: Sequence[Sequence[Any]]) -> float:
    """Share of the frames of all sequences whose label is right.

    Examples
    --------
    >>> frame_accuracy([["a", "a"], ["b", "b"]], [["a", "b"], ["b", "b"]])
    0.75
    """
    checked_lengths(true, found)
    pairs = zip(chain.from_iterable(true), chain.from_iterable(found), strict=True)
    return float(np.mean([one == other for one, other in pairs]))


def label_error_rate(true: Sequence[Sequence[Any]], found: Sequence[Sequence[Any]]) -> float:
    """Edits that turn the found runs of labels into the true ones, as a share of the true runs.

    Equal labels one after the other are one run. The rate may be above 1.

    Examples
    --------
    >>> label_error_rate(["aaabbb", "cc"], ["aabcbb", "cc"])
    0.6666666666666666
    """
    checked_lengths(true, found)
    edits = n_runs = 0
    for one, other in zip(true, found, strict=True):
        truth = runs(one)
        edits += edit_distance(truth, runs(other))
        n_runs += len(truth)
    return edits / n_runs


def runs(labels: Iterable[Any]) -> list[Any]:
    """Return the label of each run.

    Examples
    --------
    >>> runs("aabba")
    ['a', 'b', 'a']
    """
    return [label for label, _ in groupby(labels)]


def edit_distance(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Fewest insertions, deletions and substitutions that turn one into the other (Levenshtein 1966).

    Examples
    --------
    >>> edit_distance("kitten", "sitting")
    3
    """
    row = list(range(len(other) + 1))
    for i, value in enumerate(one, start=1):
        before, row = row, [i]
        for j, candidate in enumerate(other, start=1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (value != candidate)))
    return row[-1]


def checked_lengths(true: Sequence[Sequence[Any]], found: Sequence[Sequence[Any]]) -> None:
    """Raise a ValueError if sequences do not correspond, or there is no frame."""
    if len(true) != len(found):
        raise ValueError(f"there are {len(true)} true sequences, but {len(found)} found ones")
    for i, (one, other) in enumerate(zip(true, found, strict=True)):
        if len(one) != len(other):
            raise ValueError(f"sequence {i} has {len(one)} true labels, but {len(other)} found ones")
    if not any(len(sequence) for sequence in true):
        raise ValueError("there is nothing to compare: all sequences are empty")
