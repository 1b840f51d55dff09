"""Encode and decode fitted estimators and named tuples; files can only name registered classes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from scipy import sparse

from dspectral.registry import CLASSES, check_shapes
from dspectral.summary_files import Decoder, encode
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


def encode_object(value: Any, name: str, arrays: list[Any]) -> JSON:
    """Encode an estimator or a named tuple."""
    if isinstance(value, Tokenizer) or (name.endswith(".tokenizer") and callable(value)):
        return cast("Tokenizer", as_tokenizer(value, name)).name
    if is_sparse(value):
        return encode(sparse.csr_array(value), name, arrays, encode_object)
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
        field: {key: encode(item, f"{name}.{key}", arrays, encode_object) for key, item in values.items()}
        for field, values in fields.items()
    }
    return {"kind": "object", "class": class_name, **encoded}


def decode_object(decoder: Decoder, node: dict[str, Any], *, extra_classes: Sequence[type] = ()) -> Any:
    """Return the estimator or named tuple of a node."""
    kind = find_class(node["class"], extra_classes)
    parameters, attributes = (
        {key: decoder.decode(item) for key, item in node[fields].items()} for fields in ("parameters", "attributes")
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
