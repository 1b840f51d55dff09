"""Encode fitted estimators as JSON and arrays, and decode them; files can only name registered classes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import sparse

from dspectral.registry import CLASSES, check_shapes
from dspectral.store.arrays import StoredGroup
from dspectral.text.tokenizers import RULE_NAMES, Tokenizer, as_tokenizer
from dspectral.types import JSON, is_sparse


def get_class_name(kind: type) -> str | None:
    """Return the name of a class in files; None if it cannot be saved.

    >>> from dspectral import TruncatedSVD
    >>> get_class_name(TruncatedSVD), get_class_name(dict)
    ('TruncatedSVD', None)
    """
    for name, registered in CLASSES.items():
        if registered is kind:
            return name
    return _get_qualified_name(kind) if issubclass(kind, tuple(_get_own_classes())) else None


def find_class(name: str, extra_classes: Sequence[type]) -> Any:
    """Return the class with a name from a file; raise ValueError if it is not registered or imported."""
    if name in CLASSES:
        return CLASSES[name]
    # The last one is used, because a notebook cell may have defined the class again.
    imported = [kind for kind in _iter_subclasses(_get_own_classes()) if _get_qualified_name(kind) == name]
    candidates = imported + [kind for kind in extra_classes if kind.__name__ == name.rpartition(".")[2]]
    if not candidates:
        raise ValueError(
            f"the class {name!r}, which is neither registered nor imported: import its module, or pass the class in "
            "load(..., classes=[...])"
        )
    return candidates[-1]


def _get_qualified_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _get_own_classes() -> list[type]:
    """Return the registered classes of dspectral, without those of scikit-learn."""
    return [kind for kind in CLASSES.values() if not kind.__module__.startswith("sklearn.")]


def _iter_subclasses(classes: Iterable[type]) -> Iterator[type]:
    for kind in classes:
        subclasses: list[type] = type.__subclasses__(kind)
        yield from subclasses
        yield from _iter_subclasses(subclasses)


def _check_names(kind: type, attributes: Iterable[str], parameters: Mapping[str, Any]) -> None:
    """Raise ValueError for an attribute that hides a parameter, method or property."""
    for name in attributes:
        if name in parameters or name.startswith("__") or hasattr(getattr(kind, name, None), "__get__"):
            raise ValueError(f"the attribute {name!r} hides a member of {kind.__name__}: rename it")


def encode(value: Any, name: str, arrays: list[Any]) -> JSON:
    """Encode a value as JSON; numeric arrays are appended to ``arrays``."""
    # Exact types, because an object of a subclass of int or str would be loaded as a plain one.
    kind, dtype_kind = type(value), getattr(getattr(value, "dtype", None), "kind", "-")
    if value is None or kind in (bool, int, str):
        return cast("JSON", value)
    if kind is np.ndarray and value.ndim and dtype_kind in "biuf":
        arrays.append(value)
        # The memory order is saved, because it changes the order of sums in BLAS.
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        return {"kind": "array", "number": len(arrays) - 1, "order": order}
    if isinstance(value, Tokenizer) or (name.endswith(".tokenizer") and callable(value)):
        return cast("Tokenizer", as_tokenizer(value, name)).name
    if isinstance(value, np.ndarray | np.generic) and dtype_kind in "biufUO":
        # Strings, objects and scalars are small and are encoded as JSON.
        return {
            "kind": "small array",
            "dtype": value.dtype.str,
            "shape": list(value.shape),
            "is_scalar": isinstance(value, np.generic),
            "items": encode(value.ravel().tolist(), name, arrays),
        }
    if kind in _PARTS:
        parts = _PARTS[kind](value)
        items = parts if type(parts) is str else [encode(part, f"{name}[{i}]", arrays) for i, part in enumerate(parts)]
        return items if kind is list else {"kind": kind.__name__, "items": items}
    return _encode_object(value, name, arrays)


_PARTS: dict[type, Callable[[Any], Any]] = {
    list: list,
    tuple: tuple,
    float: repr,
    dict: lambda mapping: mapping.items(),
    set: partial(sorted, key=repr),
    frozenset: partial(sorted, key=repr),
    slice: lambda value: (value.start, value.stop, value.step),
    sparse.csr_array: lambda rows: (rows.data, rows.indices, rows.indptr, rows.shape),
    np.random.Generator: lambda generator: (generator.bit_generator.state,),
    np.random.RandomState: lambda generator: (generator.get_state(legacy=False),),
}
"""Functions that return the items of a value, by its type."""


def _encode_object(value: Any, name: str, arrays: list[Any]) -> JSON:
    """Encode an estimator or a named tuple."""
    if is_sparse(value):
        return encode(sparse.csr_array(value), name, arrays)
    class_name = get_class_name(type(value))
    if class_name is None:
        dtype = f" of dtype {value.dtype}" if hasattr(value, "dtype") else ""
        raise TypeError(f"{name} is a {type(value).__qualname__}{dtype}, which cannot be saved: replace or remove it")
    check_shapes(value)  # the same check as in `load`
    # `load` passes parameters to the constructor and sets the other attributes afterwards.
    is_tuple = isinstance(value, tuple)
    parameters = value._asdict() if is_tuple else value.get_params(deep=False)
    attributes = {} if is_tuple else {key: item for key, item in value.__getstate__().items() if key not in parameters}
    _check_names(type(value), attributes, parameters)
    fields = {"parameters": parameters, "attributes": attributes}
    encoded = {
        field: {key: encode(item, f"{name}.{key}", arrays) for key, item in values.items()}
        for field, values in fields.items()
    }
    return {"kind": "object", "class": class_name, **encoded}


class Decoder(NamedTuple):
    """Decoder of the output of :func:`encode`, for a stored group and the caller's own classes."""

    group: StoredGroup
    extra_classes: Sequence[type]

    def decode(self, node: JSON) -> Any:
        """Return the value of a node."""
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        if not isinstance(node, dict):
            return node
        content: dict[str, Any] = node
        if content["kind"] == "array":
            return np.asarray(self.group.array(content["number"]), order=content["order"])
        if content["kind"] == "object":
            return self._decode_object(content)
        items = self.decode(content["items"])
        if content["kind"] == "small array":
            # Filled, because np.array would make more dimensions from a list of tuples or lists.
            values = np.empty(len(items), dtype=content["dtype"])
            values[:] = items
            return values[0] if content["is_scalar"] else values.reshape(content["shape"])
        return _BUILDERS[content["kind"]](items)

    def _decode_object(self, node: dict[str, Any]) -> Any:
        kind = find_class(node["class"], self.extra_classes)
        parameters, attributes = (
            {key: self.decode(item) for key, item in node[fields].items()} for fields in ("parameters", "attributes")
        )
        for values in (parameters, attributes):
            if isinstance(name := values.get("tokenizer"), str) and name not in RULE_NAMES:
                values["tokenizer"] = Tokenizer(name)
        if isinstance(parameters.get("memory"), str):
            parameters["memory"] = None  # the cache folder of a Pipeline, whose pickles the next fit would load
        instance = kind(**parameters)
        if attributes:
            _check_names(kind, attributes, instance.get_params(deep=False))
            instance.__setstate__(attributes)  # warns about other versions of scikit-learn
        check_shapes(instance)
        return instance


def _build_bits(state: dict[str, Any]) -> Any:
    bits: Any = {kind.__name__: kind for kind in _BIT_GENERATORS}[state["bit_generator"]]()
    bits.state = state
    return bits


def _build_random_state(items: list[Any]) -> np.random.RandomState:
    generator = np.random.RandomState(_build_bits(items[0]))
    generator.set_state(items[0])
    return generator


_BIT_GENERATORS = np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64
_BUILDERS: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "float": float,
    "dict": dict,
    "set": set,
    "frozenset": frozenset,
    "slice": lambda parts: slice(*parts),
    "csr_array": lambda parts: sparse.csr_array(tuple(parts[:3]), shape=parts[3]),
    "Generator": lambda items: np.random.Generator(_build_bits(items[0])),
    "RandomState": _build_random_state,
}
"""Functions that build a value from its items, by the name of its type in files."""
