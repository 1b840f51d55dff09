"""Which classes a saved model may name, and under which names."""

from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from dspectral import decomposition, methods, preprocessing
from dspectral.registry import ESTIMATORS


@cache
def import_all() -> None:
    """Import every module that may define a class that is saved: each registers its own."""
    for package in (decomposition, preprocessing, methods):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)


def name_of(kind: type) -> str | None:
    """Return the name that an estimator's class has in files, or None if it is not saved.

    >>> import_all()
    >>> name_of(ESTIMATORS["TruncatedSVD"]), name_of(dict)
    ('TruncatedSVD', None)
    """
    for name, known in ESTIMATORS.items():
        if known is kind:
            return name
    return _qualified(kind) if any(issubclass(kind, known) for known in _ours()) else None


def named(name: str, given: Sequence[type], url: str) -> Any:
    """Return the class behind a name in a file."""
    if name in ESTIMATORS:
        return ESTIMATORS[name]
    short = name.rsplit(".", 1)[-1]
    if short == name:
        known = ", ".join(ESTIMATORS)
        raise ValueError(f"the model at {url} names the class {name!r}, but only these are loaded: {known}")
    # The last one wins: a notebook's cell that was run again has defined the class again.
    found = [kind for kind in _subclasses() if _qualified(kind) == name]
    found += [kind for kind in given if kind.__name__ == short]
    if not found:
        raise ValueError(
            f"the model at {url} names the class {name!r}, which is not imported: import its module, or give "
            f"load(..., classes=[{short}])"
        )
    return found[-1]


def _qualified(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _ours() -> list[type]:
    """Return the estimators of dspectral: the register holds a few of scikit-learn too."""
    return [kind for kind in ESTIMATORS.values() if kind.__module__.startswith("dspectral.")]


def _subclasses() -> Iterator[type]:
    """Yield the subclasses of dspectral's estimators that are imported, each after its bases."""
    waiting = _ours()
    while waiting:
        kind = waiting.pop()
        below: list[type] = type.__subclasses__(kind)
        yield from below
        waiting += below
