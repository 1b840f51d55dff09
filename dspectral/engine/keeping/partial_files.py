"""Summaries as bytes: plain numbers behind a line of JSON, with a checksum of all of it, and nothing that runs.

A file holds ``MAGIC``, the length of the head, the head (JSON: the structure of the summary, and type, shape and order
of each array), the bytes of the arrays, and a CRC-32C of all that stands before it. Named tuples are made again by
their names, of dspectral alone.
"""

import json
import math
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.types import is_sparse

MAGIC = b"dspectral partial 1\n"


def encoded(path: str, summary: object) -> bytes:
    """Return the file of a summary.

    >>> decoded("a/b", encoded("a/b", (1, 0.5, None, np.arange(2))))
    (1, 0.5, None, array([0, 1]))
    """
    arrays: list[NDArray[Any]] = []
    structure = _plain(summary, arrays)
    kinds = [[one.dtype.str, one.shape, _by_columns(one)] for one in arrays]
    head = json.dumps({"path": path, "arrays": kinds, "summary": structure}).encode()
    parts: list[bytes | memoryview] = [MAGIC, len(head).to_bytes(8, "little"), head]
    parts += [_flat(one).data for one in arrays]
    crc = 0
    for part in parts:
        crc = google_crc32c.extend(crc, np.frombuffer(part, np.uint8)) if len(part) else crc
    return b"".join([*parts, int(crc).to_bytes(4, "little")])


def decoded(path: str, content: bytes) -> Any:
    """Return the summary in a file."""
    at = len(MAGIC) + 8
    body = np.frombuffer(content, np.uint8)
    if len(content) < at + 4 or not content.startswith(MAGIC):
        raise ValueError("it is no partial, or cut short")
    if int(google_crc32c.extend(0, body[:-4])) != int.from_bytes(content[-4:], "little"):
        raise ValueError("its bytes are not those that were written")
    stop = at + int.from_bytes(content[len(MAGIC) : at], "little")
    head = json.loads(content[at:stop])
    if head["path"] != path:
        raise ValueError(f"it is {head['path']}, under another name")
    arrays = []
    for descr, shape, by_columns in head["arrays"]:
        dtype = np.dtype(descr)
        start, stop = stop, stop + dtype.itemsize * math.prod(shape)
        # A copy: the file may begin anywhere in memory, arrays of NumPy begin where its loops expect them.
        flat = np.empty(math.prod(shape), dtype)
        flat.view(np.uint8)[:] = body[start:stop]
        arrays.append(flat.reshape(shape, order="F" if by_columns else "C"))
    return _made(head["summary"], arrays)


def _plain(thing: Any, arrays: list[NDArray[Any]]) -> Any:
    """Return a structure that JSON knows, and put the arrays in it into a list."""
    if thing is None or type(thing) in (bool, int, str):
        return thing
    return [*_kind_of(thing), *(_plain(one, arrays) for one in _parts_of(thing, arrays))]


def _kind_of(thing: Any) -> list[Any]:
    """Return the kind of a value, and what else than its parts makes it."""
    kind = type(thing)
    if kind is float:
        return ["float", thing.hex()]
    if isinstance(thing, np.ndarray | np.generic):
        return ["array" if isinstance(thing, np.ndarray) else "scalar"]
    if is_sparse(thing) and thing.format in ("csr", "csc"):
        return ["sparse", kind.__name__, list(thing.shape)]
    if isinstance(thing, tuple) and kind is not tuple:
        name = f"{kind.__module__}:{kind.__qualname__}"
        return ["record", _record(name) and name]
    return [kind.__name__]


def _parts_of(thing: Any, arrays: list[NDArray[Any]]) -> Iterable[Any]:
    """Return the parts of a value; an array goes into the list, and its place in there is the part."""
    if type(thing) is float:
        return ()
    if isinstance(thing, np.ndarray | np.generic) and thing.dtype.kind not in "OV":
        arrays.append(np.asarray(thing))
        return (len(arrays) - 1,)
    if is_sparse(thing) and thing.format in ("csr", "csc"):
        return thing.data, thing.indices, thing.indptr
    if isinstance(thing, tuple) or type(thing) is list:
        return thing
    if type(thing) is dict:
        return thing.items()
    raise TypeError(f"a summary holds a {type(thing).__name__}, which has no place in a file of partials")


def _made(plain: Any, arrays: list[NDArray[Any]]) -> Any:
    """Return what :func:`_plain` was given."""
    if not isinstance(plain, list):
        return plain
    kind, *rest = plain
    if kind in ("sparse", "record"):
        name, *rest = rest
    parts = (
        [_made(one, arrays) for one in rest] if kind != "sparse" else [_made(one, arrays) for one in rest[1:]]
    )
    match kind:
        case "float":
            made: Any = float.fromhex(parts[0])
        case "array":
            made = arrays[parts[0]]
        case "scalar":
            made = arrays[parts[0]][()]
        case "sparse":
            made = getattr(sparse, name)(tuple(rest[0]))
            made.data, made.indices, made.indptr = parts
        case "record":
            made = _record(name)(*parts)
        case _:
            made = {"tuple": tuple, "list": list, "dict": dict}[kind](parts)
    return made


def _record(name: str) -> Any:
    """Return a named tuple of dspectral by its name; nothing else is ever made from a file."""
    module, _, qualname = name.partition(":")
    kind = getattr(import_module(module), qualname, None) if module.startswith("dspectral.") else None
    if not (isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")):
        raise TypeError(f"{name} is no named tuple of dspectral, and only such are kept in files of partials")
    return kind


def _by_columns(array: NDArray[Any]) -> bool:
    # The bits of a product may depend on how a matrix lies in memory.
    return bool(array.flags.f_contiguous and not array.flags.c_contiguous)


def _flat(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array.T if _by_columns(array) else array).reshape(-1).view(np.uint8)
