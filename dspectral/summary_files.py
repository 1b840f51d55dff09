"""Encode values as JSON and arrays, and decode them without running code from a file; files of summaries."""

import io
import json
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.types import JSON

EncodeObject: TypeAlias = Callable[[Any, str, list[Any]], JSON]
"""Function that encodes an object of another type, given its name and the list of arrays; raises TypeError."""


def encode(value: Any, name: str, arrays: list[Any], encode_object: EncodeObject) -> JSON:
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
    if isinstance(value, np.ndarray | np.generic) and dtype_kind in "biufUO":
        # Strings, objects and scalars are small and are encoded as JSON.
        return {
            "kind": "small array",
            "dtype": value.dtype.str,
            "shape": list(value.shape),
            "is_scalar": isinstance(value, np.generic),
            "items": encode(value.ravel().tolist(), name, arrays, encode_object),
        }
    if kind in _PARTS:
        parts = _PARTS[kind](value)
        if kind is float:
            return {"kind": "float", "items": parts}
        items = [encode(part, f"{name}[{i}]", arrays, encode_object) for i, part in enumerate(parts)]
        return items if kind is list else {"kind": kind.__name__, "items": items}
    return encode_object(value, name, arrays)


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


class Decoder(NamedTuple):
    """Decoder of the output of :func:`encode`: functions that read an array by its number, and decode an object."""

    get_array: Callable[[int], NDArray[Any]]
    decode_object: Callable[["Decoder", dict[str, Any]], Any]

    def decode(self, node: JSON) -> Any:
        """Return the value of a node."""
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        if not isinstance(node, dict):
            return node
        content: dict[str, Any] = node
        if content["kind"] == "array":
            return np.asarray(self.get_array(content["number"]), order=content["order"])
        if content["kind"] == "object":
            return self.decode_object(self, content)
        items = self.decode(content["items"])
        if content["kind"] == "small array":
            # Filled, because np.array would make more dimensions from a list of tuples or lists.
            values = np.empty(len(items), dtype=content["dtype"])
            values[:] = items
            return values[0] if content["is_scalar"] else values.reshape(content["shape"])
        return _BUILDERS[content["kind"]](items)


def _build_bits(state: dict[str, Any]) -> Any:
    bits: Any = {kind.__name__: kind for kind in _BIT_GENERATORS}[state["bit_generator"]]()
    bits.state = state
    return bits


def _build_random_state(items: list[Any]) -> np.random.RandomState:
    generator = np.random.RandomState(_build_bits(items[0]))
    generator.set_state(items[0])
    return generator


def _build_csr(parts: list[Any]) -> sparse.csr_array:
    rows = sparse.csr_array(tuple(parts[:3]), shape=parts[3])
    rows.check_format()  # compiled loops do not check indices
    return rows


_BIT_GENERATORS = np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64
_BUILDERS: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "float": float,
    "dict": dict,
    "set": set,
    "frozenset": frozenset,
    "slice": lambda parts: slice(*parts),
    "csr_array": _build_csr,
    "Generator": lambda items: np.random.Generator(_build_bits(items[0])),
    "RandomState": _build_random_state,
}
"""Functions that build a value from its items, by the name of its type in files."""


DAMAGE_ERRORS = (
    ValueError, TypeError, LookupError, AttributeError, ImportError, EOFError, RuntimeError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""Errors of NumPy and JSON for a damaged file."""


def encode_summary(path: str, summary: object, facts: JSON = None) -> bytes:
    """Return the bytes of a file: arrays of a summary as ``.npz`` with checksums, structure and facts as JSON."""
    arrays: list[NDArray[Any]] = []
    head = json.dumps({"path": path, "facts": facts, "summary": encode(summary, "the summary", arrays, _encode_object)})
    file = io.BytesIO()
    np.savez(file, np.frombuffer(head.encode(), np.uint8), *arrays)
    return file.getvalue()


def decode_summary(path: str, content: bytes) -> tuple[Any, Any]:
    """Return the summary and the facts in a file; it can contain only numbers, containers and named tuples."""
    structure = read_head(path, content)
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = [file[f"arr_{number}"] for number in range(1, len(file.files))]
    return Decoder(arrays.__getitem__, _decode_object).decode(structure["summary"]), structure["facts"]


def read_head(path: str, content: bytes) -> dict[str, Any]:
    """Return the structure and the facts in a file, without its arrays."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        head: dict[str, Any] = json.loads(file["arr_0"].tobytes())
    if head["path"] != path:
        raise ValueError(f"it holds the summary of {head['path']}")
    return head


def _encode_object(value: Any, name: str, arrays: list[Any]) -> JSON:
    """Encode a named tuple of dspectral."""
    class_name = f"{type(value).__module__}:{type(value).__qualname__}"
    _resolve_class(class_name)
    return {"kind": "object", "class": class_name, "fields": encode(list(value), name, arrays, _encode_object)}


def _decode_object(decoder: Decoder, node: dict[str, Any]) -> Any:
    return _resolve_class(node["class"])(*decoder.decode(node["fields"]))


def _resolve_class(name: str) -> Any:
    """Return a named tuple of dspectral by its name."""
    module, _, qualname = name.partition(":")
    kind: Any = import_module(module) if module.startswith("dspectral.") else None
    for part in qualname.split("."):  # vars, because attributes of a module may be imported lazily
        kind = vars(kind).get(part) if kind is not None else None
    has_name = isinstance(kind, type) and f"{kind.__module__}:{kind.__qualname__}" == name
    if not (has_name and issubclass(kind, tuple) and hasattr(kind, "_fields")):
        raise TypeError(
            f"a summary holds a {name.replace(':', '.')}, but checkpoints support only named tuples of dspectral"
        )
    return kind
