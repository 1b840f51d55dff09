"""Files of summaries: arrays as ``.npz`` and structure as JSON. Reading them runs no code from the file."""

import io
import json
import zipfile
import zlib
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.types import JSON, is_sparse

DAMAGE_ERRORS = (
    ValueError, TypeError, LookupError, AttributeError, ImportError, EOFError, RuntimeError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""Errors of NumPy and JSON for a damaged file."""
CONTAINERS: dict[str, Any] = {"tuple": tuple, "list": list, "dict": dict}
SPARSE = tuple(f"sparse {name}" for name in ("csr_array", "csc_array", "csr_matrix", "csc_matrix"))


def encode_summary(path: str, summary: object, facts: JSON = None) -> bytes:
    """Return the bytes of a file: arrays of a summary as ``.npz`` with checksums, structure and facts as JSON."""
    arrays: list[NDArray[Any]] = []
    head = json.dumps({"path": path, "facts": facts, "summary": _to_plain(summary, arrays)})
    file = io.BytesIO()
    np.savez(file, np.frombuffer(head.encode(), np.uint8), *arrays)
    return file.getvalue()


def decode_summary(path: str, content: bytes) -> tuple[Any, Any]:
    """Return the summary and the facts in a file; it can contain only numbers, containers and named tuples."""
    structure = read_head(path, content)
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = [file[f"arr_{number}"] for number in range(1, len(file.files))]
    return _from_plain(structure["summary"], arrays), structure["facts"]


def read_head(path: str, content: bytes) -> dict[str, Any]:
    """Return the structure and the facts in a file, without its arrays."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        head: dict[str, Any] = json.loads(file["arr_0"].tobytes())
    if head["path"] != path:
        raise ValueError(f"it holds the summary of {head['path']}")
    return head


def _to_plain(value: Any, arrays: list[NDArray[Any]]) -> Any:
    """Return a JSON structure: lists of kind and elements; arrays are appended to `arrays` and become an index."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind not in "OV":
        arrays.append(np.asarray(value))
        return ["array" if isinstance(value, np.ndarray) else "scalar", len(arrays) - 1]
    if is_sparse(value) and value.format in ("csr", "csc"):
        parts: Any = (value.shape, value.data, value.indices, value.indptr)
        name = f"sparse {kind.__name__}"
    else:
        name = kind.__name__ if kind in CONTAINERS.values() else f"{kind.__module__}:{kind.__qualname__}"
        _resolve_container(name)
        parts = value.items() if kind is dict else value
    return [name, *(_to_plain(part, arrays) for part in parts)]


def _from_plain(plain: object, arrays: list[NDArray[Any]]) -> Any:
    """Return the object that :func:`_to_plain` encoded."""
    if not isinstance(plain, list):
        return plain
    name, *rest = plain
    if name in ("array", "scalar"):
        return arrays[rest[0]] if name == "array" else arrays[rest[0]][()]
    parts = [_from_plain(part, arrays) for part in rest]
    if name in SPARSE:
        shape, *arguments = parts
        matrix = getattr(sparse, name.removeprefix("sparse "))(shape)
        matrix.data, matrix.indices, matrix.indptr = arguments
        matrix.check_format()  # compiled loops do not check indices
        return matrix
    kind = _resolve_container(name)
    return kind(parts) if name in CONTAINERS else kind(*parts)


def _resolve_container(name: str) -> Any:
    """Return a container class by name: tuple, list, dict, or a named tuple of dspectral."""
    if name in CONTAINERS:
        return CONTAINERS[name]
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
