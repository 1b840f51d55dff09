"""Which classes a saved model may name, and which arrays they have: loading makes nothing else."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

C = TypeVar("C", bound=type)


class Array(NamedTuple):
    """What an array of a fitted estimator or a record must be.

    `shape`: sizes, each an integer, ``*`` for any, or a sum such as ``2*n+k+1`` of names: an attribute that is an
    integer, or whose length counts, else the first array with that name alone sets its size. Alternatives are
    separated by ``;``. `kind`: kinds of NumPy's types, none for any. `at_least`: smallest entry. `below`: size that
    entries are below, as indices. `order`: ``"rising"``, or ``"offsets"`` from 0 to `below`. `sums`: axis along which
    entries sum up to 1. `finite`: whether minus infinity is refused, too. `each`: the attribute is a list of such
    arrays. `optional`: the attribute may be absent, None, or something else that is no array.
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
"""Estimators by name, made from their parameters and then given their fitted attributes."""
RECORDS: dict[str, Any] = {}
"""Named tuples by name, made from their fields."""
ARRAYS: dict[type, Mapping[str, Array]] = {}
"""Arrays of these classes, and of their bases, by attribute; ``a.b`` is the attribute b of the attribute a."""


def register_class(kind: C, name: str = "") -> C:
    """Let :func:`dspectral.save` and :func:`dspectral.load` know a class; used as a decorator."""
    known = RECORDS if issubclass(kind, tuple) else ESTIMATORS
    name = name or kind.__name__
    other = known.get(name)
    if other is not None and (other.__module__, other.__qualname__) != (kind.__module__, kind.__qualname__):
        raise ValueError(f"{name} is the name of another class that is saved with models: {other!r}")
    known[name] = kind
    return kind


def register_arrays(arrays: Mapping[str, Array]) -> Callable[[C], C]:
    """Declare the arrays of a class, which ``load`` checks against each other; used as a decorator."""

    def declare(kind: C) -> C:
        ARRAYS[kind] = arrays
        return kind

    return declare
