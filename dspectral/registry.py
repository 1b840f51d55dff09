"""Registry of the classes that saved models may name, and of the shapes of their arrays, which ``load`` checks."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

C = TypeVar("C", bound=type)

CLASSES: dict[str, Any] = {}
"""Estimators and named tuples by the name in files."""
SHAPES: dict[type, Mapping[str, str]] = {}
"""Shapes of the arrays of each class, by attribute; subclasses inherit them."""


def register_class(shapes: Mapping[str, str] | None = None, *, name: str = "") -> Callable[[C], C]:
    """Return a decorator that registers a class for :func:`dspectral.save` and :func:`dspectral.load`.

    ``shapes`` holds the shape of each array attribute, such as ``{"components_": "k n_features_in_"}``. A size is an
    integer, ``*`` for any, an integer attribute of the model, or a name: all sizes with one name must be equal.
    ``a.b`` is the attribute b of the attribute a. Attributes that are absent or None are skipped.
    """

    def register(kind: C) -> C:
        CLASSES[name or kind.__name__], SHAPES[kind] = kind, shapes or {}
        return kind

    return register


def check_shapes(model: object) -> None:
    """Raise ValueError for an array of an estimator or named tuple whose shape differs from its declaration."""
    sizes: dict[str, int] = {}
    for path, shape in (item for kind in type(model).__mro__ for item in SHAPES.get(kind, {}).items()):
        value: Any = model
        for name in path.split("."):
            value = getattr(value, name, None)
        if value is None:
            continue
        terms, actual = shape.split(), getattr(value, "shape", None) or (len(value),)
        for term, size in zip(terms, actual, strict=False):
            known = int(term) if term.isdigit() else getattr(model, term, size)
            sizes.setdefault(term, known if isinstance(known, int) else size)
        expected = tuple(size if term == "*" else sizes[term] for term, size in zip(terms, actual, strict=False))
        if len(terms) != len(actual) or expected != actual:
            raise ValueError(
                f"{type(model).__name__}.{path} has shape {actual}, but must have ({shape}), where {sizes}"
            )
