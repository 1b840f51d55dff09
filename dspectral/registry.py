"""Registry of the classes in saved models, and of the arrays of these classes, which ``load`` checks."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

C = TypeVar("C", bound=type)


class Array(NamedTuple):
    """Constraints on an array of a fitted estimator or a named tuple.

    `shape`: sizes, each an integer, ``*`` for any, or a sum such as ``2*n+k+1`` of names. A name is an integer
    attribute, the length of an attribute, or else the size of the first array whose shape has this name alone.
    Alternatives are separated by ``;``. `kind`: dtype kinds, empty for any. `at_least`: minimum entry. `below`: size
    that indices must be less than. `order`: ``"rising"``, or ``"offsets"`` from 0 to `below`. `sums`: axis along which
    entries add up to 1. `finite`: minus infinity is not allowed. `each`: the attribute is a list of such arrays.
    `optional`: the attribute may be absent, None, or not an array.
    """

    shape: str
    kind: str = "f"
    at_least: float | None = None
    below: str = ""
    order: Literal["", "rising", "offsets"] = ""
    sums: int | None = None
    finite: bool = True
    each: bool = False
    optional: bool = False


ESTIMATORS: dict[str, Any] = {}
"""Estimators by name. ``load`` creates them from their parameters and sets their fitted attributes."""
RECORDS: dict[str, Any] = {}
"""Named tuples by name. ``load`` creates them from their fields."""
ARRAYS: dict[type, Mapping[str, Array]] = {}
"""Constraints on the arrays of each class, by attribute; ``a.b`` is the attribute b of the attribute a."""


def register_class(kind: C, name: str = "") -> C:
    """Register a class for :func:`dspectral.save` and :func:`dspectral.load`; usable as a decorator."""
    classes = RECORDS if issubclass(kind, tuple) else ESTIMATORS
    name = name or kind.__name__
    other = classes.get(name)
    if other is not None and (other.__module__, other.__qualname__) != (kind.__module__, kind.__qualname__):
        raise ValueError(f"the name {name} is registered for another class, {other!r}: pass another name")
    classes[name] = kind
    return kind


def register_arrays(arrays: Mapping[str, Array]) -> Callable[[C], C]:
    """Register constraints on the arrays of a class, which ``load`` checks; used as a decorator."""

    def declare(kind: C) -> C:
        ARRAYS[kind] = arrays
        return kind

    return declare
