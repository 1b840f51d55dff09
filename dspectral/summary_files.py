"""Files of summaries: arrays as ``.npz`` and structure as JSON. Reading them runs no code from the file."""

import io
import json
import zipfile
import zlib
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspectral.encoding import Decoder, encode
from dspectral.types import JSON

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
