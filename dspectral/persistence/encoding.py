"""Encode fitted estimators as JSON and arrays, and decode them; files can only name registered classes."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dis import get_instructions, opmap
from functools import cache
from itertools import pairwise
from operator import index
from types import CodeType
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.linalg.sparse_products import find_csr_error
from dspectral.persistence.checks import check_arrays
from dspectral.registry import ESTIMATORS, RECORDS
from dspectral.store.arrays import StoredGroup
from dspectral.store.columns import get_fitted_columns
from dspectral.text.tokenizers import Tokenizer, as_tokenizer
from dspectral.types import JSON, CSRRows, is_sparse


def get_class_name(kind: type) -> str | None:
    """Return the name of an estimator class in files; None if it cannot be saved.

    >>> from dspectral import TruncatedSVD
    >>> get_class_name(TruncatedSVD), get_class_name(dict)
    ('TruncatedSVD', None)
    """
    for name, estimator_class in ESTIMATORS.items():
        if estimator_class is kind:
            return name
    if any(issubclass(kind, estimator_class) for estimator_class in _get_own_estimators()):
        return _get_qualified_name(kind)
    return None


def find_class(name: str, extra_classes: Sequence[type], url: str) -> Any:
    """Return the class with a name from a file; raise ValueError if it is not registered or imported."""
    if name in ESTIMATORS:
        return ESTIMATORS[name]
    short = name.rsplit(".", 1)[-1]
    if short == name:
        class_names = ", ".join(ESTIMATORS)
        raise ValueError(f"the model at {url} names the class {name!r}, but only these are loaded: {class_names}")
    # The last one is used, because a notebook cell may have defined the class again.
    candidates = [kind for kind in _iter_subclasses() if _get_qualified_name(kind) == name]
    candidates += [kind for kind in extra_classes if kind.__name__ == short]
    if not candidates:
        raise ValueError(
            f"the model at {url} names the class {name!r}, which is not imported: import its module, or give "
            f"load(..., classes=[{short}])"
        )
    return candidates[-1]


def _get_qualified_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _get_own_estimators() -> list[type]:
    """Return the registered estimators of dspectral, without those of scikit-learn."""
    return [kind for kind in ESTIMATORS.values() if kind.__module__.startswith("dspectral.")]


def _iter_subclasses() -> Iterator[type]:
    """Yield the imported subclasses of dspectral's estimators, each after its bases."""
    pending = _get_own_estimators()
    while pending:
        subclasses: list[type] = type.__subclasses__(pending.pop())
        yield from subclasses
        pending += subclasses


def encode(value: Any, name: str, arrays: list[Any]) -> JSON:
    """Encode a value as JSON; numeric arrays are appended to ``arrays``."""
    # Exact types, because an object of a subclass of int or str would be loaded as a plain one.
    if value is None or type(value) in (bool, int, str):
        return cast("JSON", value)
    if type(value) is float:
        return value if math.isfinite(value) else {"kind": "float", "value": repr(value)}
    if isinstance(value, np.ndarray | np.generic) or is_sparse(value):
        return _encode_array(value, name, arrays)
    if type(value) in (list, tuple, dict, slice, set, frozenset):
        return _encode_container(value, name, arrays)
    if type(value) in (np.random.RandomState, np.random.Generator):
        return _encode_random_state(value, name, arrays)
    return _encode_object(value, name, arrays)


def _encode_container(
    value: list[Any] | tuple[Any, ...] | dict[Any, Any] | slice | set[Any] | frozenset[Any],
    name: str,
    arrays: list[Any],
) -> JSON:
    # Pairs, because the keys of JSON objects must be strings.
    if isinstance(value, dict):
        pairs = [_encode_container(list(pair), name, arrays) for pair in value.items()]
        return {"kind": "dict", "items": pairs}
    if isinstance(value, slice):
        parts = [value.start, value.stop, value.step]
        return {"kind": "slice", "items": _encode_container(parts, name, arrays)}
    sorted_values = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
    items = [encode(item, f"{name}[{i}]", arrays) for i, item in enumerate(sorted_values)]
    return items if isinstance(value, list) else {"kind": type(value).__name__, "items": items}


def _encode_array(value: "NDArray[Any] | np.generic | CSRRows", name: str, arrays: list[Any]) -> JSON:
    if is_sparse(value):
        rows = sparse.csr_array(value)
        parts = [encode(part, name, arrays) for part in (rows.data, rows.indices, rows.indptr)]
        return {"kind": "sparse", "shape": list(rows.shape), "items": parts}
    if value.dtype.kind in "biuf" and value.ndim:
        arrays.append(value)
        # The memory order is saved, because it changes the order of sums in BLAS.
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        return {"kind": "array", "number": len(arrays) - 1, "order": order}
    # Strings, objects and scalars are small and are encoded as JSON.
    if value.dtype.kind in "biufUO":
        items = [encode(item, name, arrays) for item in value.ravel().tolist()]
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        return {"kind": f"small {kind}", "dtype": value.dtype.str, "shape": list(value.shape), "items": items}
    raise TypeError(f"{name} has dtype {value.dtype}, but only numbers and strings can be saved")


def _encode_random_state(value: np.random.RandomState | np.random.Generator, name: str, arrays: list[Any]) -> JSON:
    """Encode the state of a random number generator."""
    if legacy := isinstance(value, np.random.RandomState):
        state: Any = value.get_state(legacy=False)
    else:
        state = value.bit_generator.state
    return {"kind": "random", "legacy": legacy, "items": [encode(state, name, arrays)]}


def _encode_object(value: Any, name: str, arrays: list[Any]) -> JSON:
    record = next((tokenizer for tokenizer, kind in RECORDS.items() if kind is type(value)), None)
    if isinstance(value, Tokenizer) or (name.endswith(".tokenizer") and callable(value)):
        tokenizer = as_tokenizer(value, name)
        return None if tokenizer is None else tokenizer.name
    if record is not None:
        check_arrays(value)
        fields = {
            field: encode(field_value, f"{name}.{field}", arrays) for field, field_value in value._asdict().items()
        }
        return {"kind": "record", "class": record, "fields": fields}
    class_name = get_class_name(type(value))
    if class_name is None:
        raise TypeError(f"{name} is a {type(value).__qualname__}, which cannot be saved: replace or remove it")
    parameters = value.get_params(deep=False)
    # scikit-learn adds its version to the attributes of its own estimators.
    is_own_class = not type(value).__module__.startswith("sklearn.")
    state = vars(value) if is_own_class else value.__getstate__()
    # `load` passes parameters to the constructor and sets attributes afterwards.
    fitted = {key: field_value for key, field_value in state.items() if key not in parameters}
    if wrong := find_unset_names(type(value), fitted, parameters):
        raise TypeError(
            f"{name} has {wrong[0]!r}, which no method of {class_name} sets: remove it, or keep it elsewhere"
        )
    check_arrays(value, fitted=bool(fitted))  # the same check as in `load`
    return {
        "kind": "estimator",
        "class": class_name,
        "parameters": {key: encode(field_value, f"{name}.{key}", arrays) for key, field_value in parameters.items()},
        "attributes": {key: encode(field_value, f"{name}.{key}", arrays) for key, field_value in fitted.items()},
    }


class Decoder(NamedTuple):
    """Decoder of the output of :func:`encode`; `load` adds the URL and the remedy to its errors."""

    record: StoredGroup
    class_named: Callable[[str], Any]

    def value(self, node: JSON) -> Any:
        """Return the value of a node."""
        if isinstance(node, list):
            return [self.value(item) for item in node]
        if not isinstance(node, dict):
            return node
        if node["kind"] not in _DECODERS:
            raise ValueError(f"an unknown kind of value, {node['kind']!r}")
        return _DECODERS[node["kind"]](self, node)

    def items(self, node: dict[str, Any]) -> list[Any]:
        """Return the values of the items of a node."""
        return [self.value(item) for item in node["items"]]

    def values(self, nodes: dict[str, JSON]) -> dict[str, Any]:
        """Return the values of named nodes."""
        values = {name: self.value(node) for name, node in nodes.items()}
        if isinstance(name := values.get("tokenizer"), str):
            # A name from a file must not be imported, unlike one from a user.
            values["tokenizer"] = Tokenizer(name)
        return values


def _decode_small_array(decoder: Decoder, node: dict[str, Any]) -> Any:
    # Filled, because np.array would make more dimensions from a list of tuples or lists.
    dtype = np.dtype(node["dtype"])
    if dtype.kind not in "biufUO" or any(size < 0 for size in node["shape"]):
        raise ValueError(f"an invalid array of dtype {dtype} and shape {node['shape']}")
    values = np.empty(len(node["items"]), dtype=dtype)
    values[:] = decoder.items(node)
    return values.reshape(node["shape"]) if node["kind"] == "small array" else values[0]


def _decode_sparse(decoder: Decoder, node: dict[str, Any]) -> sparse.csr_array:
    # Compiled loops do not check bounds, and a content hash does not prove that indices are valid.
    rows = sparse.csr_array(tuple(decoder.items(node)), shape=tuple(node["shape"]))
    if fault := find_csr_error(rows.indices, rows.indptr, rows.shape[1]):
        raise ValueError(f"a damaged sparse matrix, {fault}")
    return rows


def _decode_random_state(decoder: Decoder, node: dict[str, Any]) -> np.random.RandomState | np.random.Generator:
    state = decoder.items(node)[0]
    kind = state["bit_generator"]
    if kind not in _BIT_GENERATORS:
        raise ValueError(f"a random state of unknown kind {kind!r}")
    bits = _BIT_GENERATORS[kind]()
    # NumPy does not check the bounds of the position.
    positions = index(state["state"].get("pos", 0)), index(state.get("buffer_pos", 0))
    if not (0 <= positions[0] <= len(state["state"].get("key", ())) and 0 <= positions[1] <= 4):
        raise ValueError(f"a random state at position {max(positions)}, outside of its key")
    if node["legacy"]:
        generator = np.random.RandomState(bits)
        generator.set_state(state)
        return generator
    bits.state = state
    return np.random.Generator(bits)


def _decode_record(decoder: Decoder, node: dict[str, Any]) -> Any:
    if node["class"] not in RECORDS:
        raise ValueError(f"the class {node['class']!r}, but only these are loaded: {', '.join(RECORDS)}")
    instance = RECORDS[node["class"]](**decoder.values(node["fields"]))
    check_arrays(instance)
    return instance


def _decode_estimator(decoder: Decoder, node: dict[str, Any]) -> Any:
    kind, parameters = decoder.class_named(node["class"]), decoder.values(node["parameters"])
    if isinstance(parameters.get("memory"), str):
        parameters["memory"] = None  # the cache folder of a Pipeline, whose pickles the next fit would load
    estimator, attributes = kind(**parameters), decoder.values(node["attributes"])
    if wrong := find_unset_names(kind, attributes, estimator.get_params(deep=False)):
        raise ValueError(f"the attribute {wrong[0]!r}, which no fit sets")
    if "_sklearn_version" in attributes:  # scikit-learn warns about models of another version
        estimator.__setstate__({**vars(estimator), **attributes})
    else:
        vars(estimator).update(attributes)
    columns, n_columns = get_fitted_columns(estimator), attributes.get("n_features_in_")
    if columns is not None and n_columns is not None and columns.n_columns != n_columns:
        raise ValueError(f"feature_names_in_ or column_identity_ of {columns.n_columns}, not {n_columns} columns")
    estimator.set_params(**parameters)
    if hasattr(kind, "_parameter_constraints"):
        estimator._validate_params()  # noqa: SLF001  it has no public name
    check_arrays(estimator, fitted=bool(attributes))
    return estimator


def find_unset_names(kind: type, attributes: Iterable[str], parameters: Iterable[str]) -> list[str]:
    """Return the attributes that hide a parameter, method or property, or that no method of the class sets."""
    shadowing = {name for name in attributes if hasattr(getattr(kind, name, None), "__get__")}
    return [name for name in attributes if name in {*shadowing, *parameters} or name not in _find_set_attributes(kind)]


@cache
def _find_set_attributes(kind: type) -> frozenset[str]:
    """Return the attributes of self that methods of a class and of its bases set, found in their bytecode."""
    attributes = set(_SET_BY_FUNCTIONS)
    members = [member for base in kind.__mro__ for member in vars(base).values()]
    while members:
        member = members.pop()
        if isinstance(member, CodeType):
            members += member.co_consts
            if opmap["STORE_ATTR"] in member.co_code[::2]:  # skips most code objects
                steps = [step for step in get_instructions(member) if step.opname != "EXTENDED_ARG"]
                # Newer versions of Python load two variables in one instruction; the second one is the object.
                attributes |= {
                    step.argval
                    for before, step in pairwise(steps)
                    if step.opname == "STORE_ATTR" and before.argrepr.split(", ")[-1] == "self"
                }
        else:
            names = ("__wrapped__", "__func__", "__code__", "fget", "fset", "func", "fn")
            members += [getattr(member, name) for name in names if hasattr(member, name)]
    return frozenset(attributes)


_SET_BY_FUNCTIONS = frozenset(
    {"n_features_in_", "feature_names_in_", "column_identity_", "weighting_", "_sklearn_version"}
)
"""Attributes that functions outside the classes set, in dspectral and scikit-learn."""
_BIT_GENERATORS = {
    kind.__name__: kind
    for kind in (np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64)
}
_DECODERS: dict[str, Callable[[Decoder, dict[str, Any]], Any]] = {
    "float": lambda _, node: float(node["value"]),
    "tuple": lambda decoder, node: tuple(decoder.items(node)),
    "set": lambda decoder, node: set(decoder.items(node)),
    "frozenset": lambda decoder, node: frozenset(decoder.items(node)),
    "dict": lambda decoder, node: dict(decoder.items(node)),
    "slice": lambda decoder, node: slice(*decoder.items(node)),
    "array": lambda decoder, node: np.asarray(decoder.record.array(node["number"]), order=node["order"]),
    "small array": _decode_small_array,
    "small scalar": _decode_small_array,
    "sparse": _decode_sparse,
    "random": _decode_random_state,
    "record": _decode_record,
    "estimator": _decode_estimator,
}
