"""Scores check their arguments here: lists of values, and matrices of numbers."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspectral.types import Doubles, is_sparse, trim_csr


def check_list(name: str, values: object, what: str = "values, one for each token") -> list[Any]:
    """Return an argument as a list."""
    # Python's own numbers hash faster than NumPy's scalars.
    if isinstance(values, np.ndarray) and values.ndim:
        return list(values.tolist())
    unordered = isinstance(values, Mapping | AbstractSet) or is_sparse(values)
    if unordered or isinstance(values, np.ndarray) or not isinstance(values, Iterable):
        raise TypeError(f"{name} is of type {type(values).__name__}, but it must be a list of {what}")
    return list(values)


def check_hashable(name: str, values: list[Any]) -> list[Hashable]:
    """Return a list if its values can be compared by their hash."""
    for value in values:
        try:
            hash(value)
        except TypeError as error:
            raise TypeError(f"{name} holds {value!r:.60}, but it must hold strings or numbers") from error
    return values


def check_matrix(name: str, values: object, n_dimensions: int = 2) -> Any:
    """Return an argument as an array of real numbers, CSR if it is sparse."""
    try:
        found: Any = trim_csr(values.tocsr()) if is_sparse(values) else np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} must be an array of numbers: {error}") from error
    if found.ndim != n_dimensions or found.dtype.kind not in "biuf" or np.ma.isMaskedArray(values):
        kind = f"of type {type(values).__name__}, {found.dtype} in {found.ndim} dimension(s)"
        raise ValueError(
            f"{name} is {kind}, but it must be real numbers in {n_dimensions}, none of them masked"
        )
    return found


def check_finite(name: str, values: NDArray[Any]) -> Doubles:
    """Return numbers as float64."""
    numbers = np.asarray(values, dtype=np.float64)
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"{name} holds NaN or infinity, but its entries must be finite")
    return numbers


def check_same_lengths(
    true: Sequence[Sequence[Hashable]], found: Sequence[Sequence[Hashable]]
) -> tuple[list[list[Hashable]], list[list[Hashable]]]:
    """Return sequences as lists, once they are known to correspond."""
    true, found = (
        [
            check_hashable(name, check_list(f"{name}[{i}]", one, "labels"))
            for i, one in enumerate(check_list(name, every, "sequences"))
        ]
        for name, every in (("true", true), ("found", found))
    )
    if len(true) != len(found):
        raise ValueError(f"there are {len(true)} true sequences, but {len(found)} found ones")
    for i, (one, other) in enumerate(zip(true, found, strict=True)):
        if len(one) != len(other):
            raise ValueError(f"sequence {i} has {len(one)} true labels, but {len(other)} found ones")
    if not any(len(sequence) for sequence in true):
        raise ValueError("there is nothing to compare: all sequences are empty")
    return true, found
