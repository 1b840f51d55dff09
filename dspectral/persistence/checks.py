"""Check the arrays of a model against their declarations, because compiled loops do not check bounds."""

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np

from dspectral.registry import ARRAYS, Array
from dspectral.types import is_sparse

TOLERANCE = 1e-3
"""Tolerance of the sum of float32 probabilities."""
MAX_ITEMSIZE = 8
"""Largest item size that compiled loops accept, in bytes."""


def check_arrays(model: object, *, fitted: bool = True) -> None:
    """Raise ValueError for an array of an estimator or record that violates its declaration."""
    declared = [ARRAYS.get(kind, {}) for kind in reversed(type(model).__mro__)]
    sizes: dict[str, int] = {}
    for path, array in (item for arrays in declared for item in arrays.items()):
        values: Any = model
        for name in path.split("."):
            values = getattr(values, name, None)
        checked_values = values if array.each and isinstance(values, list) else [values]
        for i, value in enumerate(checked_values):
            name = f"{type(model).__name__}.{path}" + (f"[{i}]" if array.each else "")
            if isinstance(value, list) and not array.kind:  # of words
                value = np.empty(len(value), dtype=bool)  # noqa: PLW2901
            if isinstance(value, np.ndarray | np.generic) or is_sparse(value):
                fault = next(_find_faults(value, array, model, sizes), "")
            else:
                fault = "" if array.optional or not fitted else f"is {value!r:.60}, but must be an array"
            if fault:
                raise ValueError(f"{name} {fault}")


def _find_faults(value: Any, array: Array, model: Any, sizes: dict[str, int]) -> Iterator[str]:
    """Yield a message for each violated property of an array, shape and type first."""
    if not _matches_shape(value, array, model, sizes):
        yield f"has shape {value.shape}, but must have ({array.shape.replace(' ', ', ')}), where {sizes}"
    entries = value.data if is_sparse(value) else value
    kind, end = entries.dtype.kind, _evaluate_size(array.below, model, sizes) if array.below else 0
    if array.kind and not (kind in array.kind and entries.dtype.itemsize <= MAX_ITEMSIZE):
        yield f"has dtype {entries.dtype}, but must have kind {array.kind!r} and at most 64 bits"
    if kind == "f" and not np.isfinite(entries if array.finite else entries[entries != -np.inf]).all():
        yield "has NaN or infinity, but all entries must be finite"
    if array.at_least is not None and entries.size and entries.min() < array.at_least:
        yield f"has the entry {entries.min()}, but all entries must be at least {array.at_least}"
    if array.order == "offsets" and not (value[:1] == 0).all() & (value[-1:] == end).all() & (len(value) > 0):
        yield f"must start with 0 and end with {end}, because its entries are offsets"
    if array.order and (np.diff(value) < (array.order == "rising")).any():
        yield "must be sorted in ascending order"
    if array.below and array.order != "offsets" and entries.size and entries.max() >= end:
        yield f"has the entry {entries.max()}, but all entries must be below {end}"
    if array.sums is not None and np.abs(value.sum(axis=array.sums) - 1.0).max(initial=0.0) > TOLERANCE:
        yield f"must have sums of 1 along axis {array.sums}, because its entries are probabilities"


def _matches_shape(value: Any, array: Array, model: Any, sizes: dict[str, int]) -> bool:
    """Report whether an array has its declared shape; add new sizes to ``sizes``."""
    for shape in array.shape.split(";"):
        terms = shape.split()
        if len(terms) == value.ndim:
            declared_sizes = {
                term: _get_length(model, term) if hasattr(model, term) else size
                for term, size in zip(terms, value.shape, strict=True)
                if term.isidentifier()
            }
            sizes_here = {**declared_sizes, **sizes}
            expected_shape = tuple(
                size if term == "*" else _evaluate_size(term, model, sizes_here)
                for term, size in zip(terms, value.shape, strict=True)
            )
            if expected_shape == value.shape:
                sizes.update(sizes_here)
                return True
    return False


def _get_length(model: object, name: str) -> int:
    """Return an integer attribute, or the length of another attribute."""
    value = getattr(model, name)
    if isinstance(value, Integral):
        return int(value)
    if name.startswith("n_"):
        raise ValueError(f"{type(model).__name__}.{name}={value!r:.60} must be an integer")
    return len(value)


def _evaluate_size(term: str, model: object, sizes: dict[str, int]) -> int:
    """Evaluate a sum such as ``2*n+k+1``."""
    total = 0
    for part in term.split("+"):
        *factor, name = part.split("*")
        size = int(name) if name.isdigit() else sizes[name] if name in sizes else _get_length(model, name)
        total += size * int(factor[0] if factor else 1)
    return total
