"""Summaries in files: plain numbers behind a line of JSON, with a digest of all of it, and nothing that runs.

A file holds ``MAGIC``, the length of the head, the head (JSON: the structure of the summary, and type, shape and order
of each array), the bytes of the arrays, and a CRC-32C of all that stands before it. Named tuples are made again by
their names, of dspectral alone.
"""

import json
import math
import re
import uuid
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import google_crc32c
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.types import is_sparse

MAGIC = b"dspectral partial 1\n"
SUFFIX = ".partial"
NAME = re.compile(r"[0-9a-f]{32}/[0-9a-f]{32}\.partial(\.[0-9a-f]{32}\.tmp)?$")
"""End of the path of a partial, or of one whose writing was cut short."""


class Part(NamedTuple):
    """A summary on its way up the tree.

    Attributes
    ----------
    summary : Summary
        The summary itself.
    seconds : float
        Time that making it again would take: what is in files does not count.
    faults : tuple of str, default=()
        Errors of summaries that could not be written.
    """

    summary: Any
    seconds: float
    faults: tuple[str, ...] = ()


class Kept(NamedTuple):
    """What lies in a folder of partials.

    Attributes
    ----------
    n_parts : int
        Number of partials.
    n_bytes : int
        Bytes of all of them.
    """

    n_parts: int
    n_bytes: int


class PartialError(Exception):
    """A partial is missing, damaged, or another one.

    Parameters
    ----------
    path : str
        Its path in the folder of partials.
    why : str
        What is wrong.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path, self.why = path, why


class Folder(NamedTuple):
    """Where partials are: all that a task needs to read and write them.

    Attributes
    ----------
    url : str
        Absolute local path, or any URL that fsspec knows.
    options : tuple of (str, object), default=()
        Storage options of the file system, as pairs.
    """

    url: str
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, url: "str | Path", storage_options: dict[str, Any] | None = None) -> "Folder":
        """Return the folder that a user named; a local path is made absolute, as workers have folders of their own."""
        place = str(url)
        is_url = "://" in place or "::" in place
        return cls(place if is_url else str(Path(place).absolute()), tuple(sorted((storage_options or {}).items())))

    def system(self) -> tuple[Any, str]:
        """Return the file system, and the path of the folder in it."""
        system, root = fsspec.url_to_fs(self.url, **dict(self.options))
        return system, root.rstrip("/")

    def names(self, path: str) -> dict[str, int]:
        """Return the partials directly under a path, and the bytes of each; none where there is nothing."""
        system, root = self.system()
        system.invalidate_cache()  # workers write through other instances
        try:
            found = system.ls(f"{root}/{path}", detail=True)
        except FileNotFoundError:
            return {}
        sizes = {one["name"].rstrip("/").rpartition("/")[2]: int(one["size"] or 0) for one in found}
        return {name.removesuffix(SUFFIX): size for name, size in sizes.items() if name.endswith(SUFFIX)}

    def write(self, path: str, summary: object) -> int:
        """Write a summary, at once or not at all; return the bytes."""
        system, root = self.system()
        content = encoded(path, summary)
        place = f"{root}/{path}{SUFFIX}"
        if "file" not in _protocols(system):
            system.makedirs(place.rpartition("/")[0], exist_ok=True)
            # One put is whole or nothing in a store of objects; elsewhere the checksum tells a half.
            system.pipe_file(place, content)
            return len(content)
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        aside = Path(f"{place}.{uuid.uuid4().hex}.tmp")
        try:
            aside.write_bytes(content)
            aside.replace(place)
        finally:
            aside.unlink(missing_ok=True)
        return len(content)

    def read(self, path: str) -> Any:
        """Read a summary; raise :class:`PartialError` if it is not there, or not as it was written."""
        system, root = self.system()
        try:
            content = system.cat_file(f"{root}/{path}{SUFFIX}")
        except OSError as error:
            raise PartialError(path, f"it cannot be read ({type(error).__name__}: {error})") from error
        try:
            return decoded(path, content)
        except PartialError:
            raise
        except Exception as error:  # the checksum is right: a program of another version wrote it
            raise PartialError(path, f"it cannot be understood ({type(error).__name__}: {error})") from error

    def clear(self) -> Kept:
        """Remove all partials, also those of which a part was written, and folders that are empty then."""
        system, root = self.system()
        system.invalidate_cache()
        found = {
            path: int(one["size"] or 0)
            for path, one in system.find(root, detail=True).items()
            if NAME.search(path) and path.removeprefix("/").startswith(root.removeprefix("/"))
        }
        for path in found:
            system.rm_file(path)
        if "file" in _protocols(system):
            for folder in {Path(path).parent for path in found}:
                with suppress(OSError):  # something else lies there
                    folder.rmdir()
        n_parts = sum(path.endswith(SUFFIX) for path in found)
        return Kept(n_parts, sum(found.values()))

    @property
    def shown(self) -> str:
        """The address without what may be secret in it."""
        return re.sub(r"//[^/@]*@", "//", self.url.partition("?")[0])


def _protocols(system: Any) -> tuple[str, ...]:
    return system.protocol if isinstance(system.protocol, tuple) else (system.protocol,)


def encoded(path: str, summary: object) -> bytes:
    """Return the file of a summary.

    Parameters
    ----------
    path : str
        Path in the folder, which the file repeats: a file that was exchanged for another is found out.
    summary : object
        Named tuples of dspectral, tuples, lists, dicts, arrays, CSR matrices, numbers and texts.

    Returns
    -------
    bytes
        The file.

    Raises
    ------
    TypeError
        If the summary holds something else.

    Examples
    --------
    >>> decoded("a/b", encoded("a/b", (1, 0.5, None, np.arange(2))))
    (1, 0.5, None, array([0, 1]))
    """
    arrays: list[NDArray[Any]] = []
    structure = _plain(summary, arrays)
    kinds = [[np.lib.format.dtype_to_descr(one.dtype), one.shape, _by_columns(one)] for one in arrays]
    head = json.dumps({"path": path, "arrays": kinds, "summary": structure}).encode()
    parts = [MAGIC, len(head).to_bytes(8, "little"), head]
    parts += [_flat(one).data for one in arrays]
    crc = 0
    for part in parts:
        crc = google_crc32c.extend(crc, np.frombuffer(part, np.uint8)) if len(part) else crc
    return b"".join([*parts, int(crc).to_bytes(4, "little")])


def decoded(path: str, content: bytes) -> Any:
    """Return the summary in a file.

    Parameters
    ----------
    path : str
        Path that the file must say.
    content : bytes
        The file.

    Returns
    -------
    object
        The summary; its arrays have the order in memory that they had.

    Raises
    ------
    PartialError
        If a byte is not as it was written, or the file is another one.
    """
    at = len(MAGIC) + 8
    body = np.frombuffer(content, np.uint8)
    if len(content) < at + 4 or not content.startswith(MAGIC):
        raise PartialError(path, "it is no partial, or cut short")
    if int(google_crc32c.extend(0, body[:-4])) != int.from_bytes(content[-4:], "little"):
        raise PartialError(path, "its bytes are not those that were written")
    stop = at + int.from_bytes(content[len(MAGIC) : at], "little")
    head = json.loads(content[at:stop])
    if head["path"] != path:
        raise PartialError(path, f"it is {head['path']}, under another name")
    arrays = []
    for descr, shape, by_columns in head["arrays"]:
        dtype = np.lib.format.descr_to_dtype(_tuples(descr))
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
    if type(thing) is float:
        return ["float", thing.hex()]
    if isinstance(thing, np.ndarray) and thing.dtype.hasobject is False:
        arrays.append(thing)
        return ["array", len(arrays) - 1]
    if isinstance(thing, np.generic):
        arrays.append(np.array(thing))
        return ["scalar", len(arrays) - 1]
    if is_sparse(thing) and thing.format in ("csr", "csc"):
        parts = [_plain(getattr(thing, name), arrays) for name in ("data", "indices", "indptr")]
        return ["sparse", type(thing).__name__, list(thing.shape), *parts]
    if isinstance(thing, tuple) and type(thing) is not tuple:
        name = f"{type(thing).__module__}:{type(thing).__qualname__}"
        return ["record", _record(name) and name, *(_plain(one, arrays) for one in thing)]
    if type(thing) in (tuple, list):
        return [type(thing).__name__, *(_plain(one, arrays) for one in thing)]
    if type(thing) is dict:
        return ["dict", *([_plain(key, arrays), _plain(value, arrays)] for key, value in thing.items())]
    raise TypeError(f"a summary holds a {type(thing).__name__}, which has no place in a file of partials")


def _made(plain: Any, arrays: list[NDArray[Any]]) -> Any:
    """Return what :func:`_plain` was given."""
    if not isinstance(plain, list):
        return plain
    kind, *rest = plain
    if kind == "float":
        return float.fromhex(rest[0])
    if kind in ("array", "scalar"):
        return arrays[rest[0]] if kind == "array" else arrays[rest[0]][()]
    if kind == "dict":
        return {_made(key, arrays): _made(value, arrays) for key, value in rest}
    if kind == "sparse":
        name, shape, *parts = rest
        return getattr(sparse, name)(tuple(_made(part, arrays) for part in parts), shape=tuple(shape))
    if kind == "record":
        return _record(rest[0])(*(_made(one, arrays) for one in rest[1:]))
    return {"tuple": tuple, "list": list}[kind](_made(one, arrays) for one in rest)


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


def _tuples(descr: Any) -> Any:
    """Return the description of a type, in which JSON has made lists of tuples."""
    if isinstance(descr, str):
        return descr
    return [tuple(tuple(x) if isinstance(x, list) and i else _tuples(x) for i, x in enumerate(one)) for one in descr]
