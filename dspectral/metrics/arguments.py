"""Validation of arguments of scores: lists of values and matrices of numbers."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspectral.types import Doubles, is_sparse, trim_csr


def check_list(name: str, values: object, expected: str = "values, one for each token") -> list[Any]:
    """Return an argument as a list, or raise TypeError."""
    # Python numbers hash faster than NumPy scalars.
    if isinstance(values, np.ndarray) and values.ndim:
        return list(values.tolist())
    unordered = isinstance(values, Mapping | AbstractSet) or is_sparse(values)
    if unordered or isinstance(values, np.ndarray) or not isinstance(values, Iterable):
        raise TypeError(f"{name} is of type {type(values).__name__}, but must be a list of {expected}")
    return list(values)


def check_hashable(name: str, values: list[Any]) -> list[Hashable]:
    """Return the list, or raise TypeError if a value is not hashable."""
    for value in values:
        try:
            hash(value)
        except TypeError as error:
            raise TypeError(f"{name} contains {value!r:.60}, but must contain strings or numbers") from error
    return values


def check_matrix(name: str, values: object, n_dimensions: int = 2) -> Any:
    """Return an argument as an array of real numbers, CSR if it is sparse."""
    try:
        matrix: Any = trim_csr(values.tocsr()) if is_sparse(values) else np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} must be an array of numbers: {error}") from error
    if matrix.ndim != n_dimensions or matrix.dtype.kind not in "biuf" or np.ma.isMaskedArray(values):
        kind = f"of type {type(values).__name__}, {matrix.dtype} with {matrix.ndim} dimension(s)"
        raise ValueError(f"{name} is {kind}, but must be real numbers in {n_dimensions} dimension(s), without a mask")
    return matrix


def check_finite(name: str, values: NDArray[Any]) -> Doubles:
    """Return numbers as float64, or raise ValueError for NaN and infinity."""
    numbers = np.asarray(values, dtype=np.float64)
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"{name} contains NaN or infinity, but must be finite: remove or replace these entries")
    return numbers


def check_same_lengths(
    y_true: Sequence[Sequence[Hashable]], y_pred: Sequence[Sequence[Hashable]]
) -> tuple[list[list[Hashable]], list[list[Hashable]]]:
    """Return sequences as lists, or raise ValueError if their lengths differ."""
    y_true, y_pred = (
        [
            check_hashable(name, check_list(f"{name}[{i}]", label_list, "labels"))
            for i, label_list in enumerate(check_list(name, sequences, "sequences"))
        ]
        for name, sequences in (("y_true", y_true), ("y_pred", y_pred))
    )
    if len(y_true) != len(y_pred):
        raise ValueError(
            f"y_true has {len(y_true)} sequences, but y_pred has {len(y_pred)}: both must have the same number"
        )
    for i, (true_labels, found_labels) in enumerate(zip(y_true, y_pred, strict=True)):
        if len(true_labels) != len(found_labels):
            raise ValueError(
                f"sequence {i} has {len(true_labels)} labels in y_true, but {len(found_labels)} in y_pred: both must "
                "have one label per frame"
            )
    if not any(len(sequence) for sequence in y_true):
        raise ValueError("all sequences are empty, but at least one must have a label")
    return y_true, y_pred
