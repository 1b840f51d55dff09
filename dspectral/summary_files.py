"""Files of summaries: arrays as ``.npz``, structure as JSON; reading one runs no code that it names."""

import io
import json
import zipfile
import zlib
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.types import is_sparse

DAMAGE_ERRORS = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ImportError,
    EOFError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Errors of NumPy and JSON at a file that is not as it was written."""
CONTAINERS: dict[str, Any] = {"tuple": tuple, "list": list, "dict": dict}
SPARSE = tuple(f"sparse {name}" for name in ("csr_array", "csc_array", "csr_matrix", "csc_matrix"))


def encode_summary(path: str, summary: object) -> bytes:
    """Return the file of a summary: its arrays as ``.npz``, whose members have checksums, and its structure as JSON."""
    arrays: list[NDArray[Any]] = []
    head = json.dumps({"path": path, "summary": _to_plain(summary, arrays)})
    file = io.BytesIO()
    np.savez(file, np.frombuffer(head.encode(), np.uint8), *arrays)
    return file.getvalue()


def decode_summary(path: str, content: bytes) -> Any:
    """Return the summary in a file; nothing but numbers, containers and named tuples of dspectral is ever made."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        head, *arrays = (file[f"arr_{number}"] for number in range(len(file.files)))
    found = json.loads(head.tobytes())
    if found["path"] != path:
        raise ValueError(f"it is {found['path']}, under another name")
    return _from_plain(found["summary"], arrays)


def _to_plain(thing: Any, arrays: list[NDArray[Any]]) -> Any:
    """Return a structure that JSON knows: a list of kind and parts; of an array, its place in a list."""
    kind = type(thing)
    if thing is None or kind in (bool, int, float, str):
        return thing
    if isinstance(thing, np.ndarray | np.generic) and thing.dtype.kind not in "OV":
        arrays.append(np.asarray(thing))
        return ["array" if isinstance(thing, np.ndarray) else "scalar", len(arrays) - 1]
    if is_sparse(thing) and thing.format in ("csr", "csc"):
        parts: Any = (thing.shape, thing.data, thing.indices, thing.indptr)
        name = f"sparse {kind.__name__}"
    else:
        name = kind.__name__ if kind in CONTAINERS.values() else f"{kind.__module__}:{kind.__qualname__}"
        _resolve_container(name)
        parts = thing.items() if kind is dict else thing
    return [name, *(_to_plain(one, arrays) for one in parts)]


def _from_plain(plain: Any, arrays: list[NDArray[Any]]) -> Any:
    """Return what :func:`_to_plain` was given."""
    if not isinstance(plain, list):
        return plain
    name, *rest = plain
    if name in ("array", "scalar"):
        return arrays[rest[0]] if name == "array" else arrays[rest[0]][()]
    parts = [_from_plain(one, arrays) for one in rest]
    if name in SPARSE:
        shape, *own = parts
        made = getattr(sparse, name.removeprefix("sparse "))(shape)
        made.data, made.indices, made.indptr = own
        made.check_format()  # compiled loops trust indices
        return made
    kind = _resolve_container(name)
    return kind(parts) if name in CONTAINERS else kind(*parts)


def _resolve_container(name: str) -> Any:
    """Return what holds the parts of a summary: a container of Python, or a named tuple of dspectral."""
    if name in CONTAINERS:
        return CONTAINERS[name]
    module, _, qualname = name.partition(":")
    found: Any = import_module(module) if module.startswith("dspectral.") else None
    for part in qualname.split("."):  # by vars: a module may import more where it is asked for an attribute
        found = vars(found).get(part) if found is not None else None
    named = isinstance(found, type) and f"{found.__module__}:{found.__qualname__}" == name
    if not (named and issubclass(found, tuple) and hasattr(found, "_fields")):
        raise TypeError(f"a summary holds a {name.replace(':', '.')}, which cannot be kept")
    return found
