"""Which classes a saved model may name: loading makes nothing else."""

from typing import Any, TypeVar

C = TypeVar("C", bound=type)

ESTIMATORS: dict[str, Any] = {}
"""Estimators by name, made from their parameters and then given their fitted attributes."""
RECORDS: dict[str, Any] = {}
"""Named tuples by name, made from their fields."""


def saved(kind: C, name: str = "") -> C:
    """Let :func:`dspectral.save` and :func:`dspectral.load` know a class; used as a decorator."""
    known = RECORDS if issubclass(kind, tuple) else ESTIMATORS
    name = name or kind.__name__
    other = known.get(name)
    if other is not None and (other.__module__, other.__qualname__) != (kind.__module__, kind.__qualname__):
        raise ValueError(f"{name} is the name of another class that is saved with models: {other!r}")
    known[name] = kind
    return kind
