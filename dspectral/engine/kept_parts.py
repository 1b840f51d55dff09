"""Kept parts of passes: files of summaries in a folder, and the folder in force."""

import inspect
import io
import json
import math
import re
import stat
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.types import is_sparse

F = TypeVar("F", bound=Callable[..., Any])
SUFFIX = ".npz"
NAME = re.compile(r"[0-9a-f]{32}/[0-9a-f]{32}\.npz(\.[0-9a-f]{32}\.tmp)?$")
"""End of the path of a part, or of one whose writing was cut short."""
DAMAGED = (
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
_ARGUMENT = """
keep : str or Path, optional
    Folder, or any URL that fsspec knows, for finished parts of the passes: if the fit is cut short, the same call goes
    on from there, with the same bits. By default the one in force, as :func:`dspectral.keep` says."""


class Part(NamedTuple):
    """A summary on its way up the tree, and the seconds that making it again takes."""

    summary: Any
    seconds: float


class Kept(NamedTuple):
    """The number of parts in a folder, and their bytes."""

    n_parts: int
    n_bytes: int


class PartError(Exception):
    """A part is missing, damaged, or another one."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path, self.why = path, why


class Folder(NamedTuple):
    """The URL of a folder (a local path is absolute), and storage options as pairs: all that a task needs."""

    url: str
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, url: str | Path, storage_options: dict[str, Any] | None = None) -> "Folder":
        """Return the folder that a user named; a local path is made absolute, as workers have folders of their own."""
        place = str(url)
        is_url = "://" in place or "::" in place
        options = tuple(sorted((storage_options or {}).items()))
        return cls(place if is_url else str(Path(place).absolute()), options)

    def system(self) -> tuple[Any, str]:
        """Return the file system, and the path of the folder in it."""
        import fsspec  # noqa: PLC0415  only what is kept needs it

        system, root = fsspec.url_to_fs(self.url, **dict(self.options))
        system.invalidate_cache()  # workers write through other instances
        return system, root.rstrip("/")

    def names(self, path: str) -> set[str]:
        """Return the names of the parts directly under a path."""
        system, root = self.system()
        try:
            found = system.ls(f"{root}/{path}", detail=False)
        except FileNotFoundError:
            return set()
        return {Path(one).stem for one in found if one.endswith(SUFFIX)}

    def write(self, path: str, content: bytes) -> None:
        """Write a file, at once or not at all."""
        system, root = self.system()
        place = Path(f"{root}/{path}{SUFFIX}")
        if "file" not in system.protocol:
            system.makedirs(f"{root}/{path}".rpartition("/")[0], exist_ok=True)
            # One put is whole or nothing in a store of objects; elsewhere the checksums tell a half.
            system.pipe_file(f"{root}/{path}{SUFFIX}", content)
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(f"{place}.{uuid.uuid4().hex}.tmp")
        try:
            aside.write_bytes(content)
            aside.replace(place)
        finally:
            aside.unlink(missing_ok=True)

    def read(self, path: str) -> Any:
        """Read a summary; raise :class:`PartError` if it is missing or damaged."""
        system, root = self.system()
        try:
            if "file" in system.protocol:
                refuse_endless(f"{root}/{path}{SUFFIX}")
            return decoded(path, system.cat_file(f"{root}/{path}{SUFFIX}"))
        except OSError as error:
            raise PartError(path, f"it cannot be read ({type(error).__name__}: {error})") from error
        except DAMAGED as error:
            raise PartError(path, f"it is not as it was written ({error})") from error

    def clear(self) -> Kept:
        """Remove all parts, also those that were written half, and folders that are empty then."""
        system, root = self.system()
        found = {
            path: int(one["size"] or 0)
            for path, one in system.find(root, detail=True).items()
            if NAME.search(path) and path.removeprefix("/").startswith(root.removeprefix("/"))
        }
        for path in found:
            system.rm_file(path)
        if "file" in system.protocol:
            for folder in {Path(path).parent for path in found}:
                with suppress(OSError):  # something else lies there
                    folder.rmdir()
        return Kept(sum(path.endswith(SUFFIX) for path in found), sum(found.values()))

    @property
    def shown(self) -> str:
        """The address without what may be secret in it."""
        return re.sub(r"//[^/@]*@", "//", self.url.partition("?")[0])


_NOWHERE = Folder("")
_FOLDER: ContextVar[Folder | None] = ContextVar("folder", default=None)


@contextmanager
def keep(url: str | Path | None, *, storage_options: dict[str, Any] | None = None) -> Iterator[None]:
    """Keep finished parts of every pass in the context, so that a fit which is cut short goes on where it was.

    A fit that is called again reads what is in the folder and makes only what is missing, with the same bits.

    Parameters
    ----------
    url : str, Path or None
        Folder that all workers see, or any URL that fsspec knows, for any number of fits; None keeps nothing.
    storage_options : dict, optional
        Options of the file system.

    Notes
    -----
    Parts are found by what they are made of: the content of the blocks, the function with all that is bound to it,
    the code of dspectral, the versions of NumPy, SciPy and Numba, and the kind of machine. A part that is damaged is
    made again with a warning. Content is known of stores and corpora of dspectral, and of arrays in memory; other
    lazy rows are refused. A part is written where making it again would take 20 times as long as writing it, and the
    result of each pass always.

    The entry ``dspectral.keep`` of Dask's configuration names a folder for all fits, and the argument ``keep`` of every
    ``fit`` one for this fit. What is in the folder stays until :func:`forget` removes it.

    Examples
    --------
    >>> import numpy as np
    >>> from dspectral import TruncatedSVD, forget, keep
    >>> with keep("memory://parts"):
    ...     model = TruncatedSVD(2).fit(np.eye(3))
    >>> forget("memory://parts").n_parts
    1
    """
    folder = _NOWHERE if url is None else Folder.of(url, storage_options)
    token = _FOLDER.set(folder)
    try:
        yield
    finally:
        _FOLDER.reset(token)


def folder_in_force() -> Folder | None:
    """Return the folder in which passes of this thread are kept."""
    folder = _FOLDER.get()
    if folder is not None:
        return None if folder == _NOWHERE else folder
    import dask  # noqa: PLC0415  it takes long to import, and a fit comes later than an estimator

    url = dask.config.get("dspectral.keep", None)
    if url is None:
        return None
    if not isinstance(url, str | Path) or not str(url):
        raise ValueError(f"dspectral.keep is {url!r}, but it must be a folder or the URL of one")
    return Folder.of(url)


def forget(url: str | Path, *, storage_options: dict[str, Any] | None = None) -> Kept:
    """Remove what :func:`keep` left in a folder, and nothing else that may be there.

    Parameters
    ----------
    url : str or Path
        The folder, or the URL of one.
    storage_options : dict, optional
        Options of the file system.

    Returns
    -------
    Kept
        Number of parts that were removed, and their bytes.

    Examples
    --------
    >>> forget("memory://nothing-there")
    Kept(n_parts=0, n_bytes=0)
    """
    return Folder.of(url, storage_options).clear()


def says_keep(method: F) -> F:
    """Let the signature and the docstring of a method say its argument ``keep``."""
    known = inspect.signature(method)
    kinds = inspect.Parameter
    more = kinds("keep", kinds.KEYWORD_ONLY, default=None, annotation=str | Path | None)
    method.__signature__ = known.replace(parameters=[*known.parameters.values(), more])  # type: ignore[attr-defined]
    found = re.search(r"\n\n( *)Returns\n", method.__doc__ or "")
    if found:
        lines = _ARGUMENT.replace("\n", f"\n{found[1]}")
        method.__doc__ = (
            f"{(method.__doc__ or '')[: found.start()]}{lines}{(method.__doc__ or '')[found.start() :]}"
        )
    return method


def encoded(path: str, summary: object) -> bytes:
    """Return the file of a summary: its arrays as ``.npz``, whose members have checksums, and its structure as JSON."""
    arrays: list[NDArray[Any]] = []
    head = json.dumps({"path": path, "summary": _plain(summary, arrays)})
    file = io.BytesIO()
    np.savez(file, np.frombuffer(head.encode(), np.uint8), *arrays)
    return file.getvalue()


def decoded(path: str, content: bytes) -> Any:
    """Return the summary in a file; nothing but numbers, containers and named tuples of dspectral is ever made."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        head, *arrays = (file[f"arr_{number}"] for number in range(len(file.files)))
    found = json.loads(head.tobytes())
    if found["path"] != path:
        raise ValueError(f"it is {found['path']}, under another name")
    return _made(found["summary"], arrays)


def _plain(thing: Any, arrays: list[NDArray[Any]]) -> Any:
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
        _container(name)
        parts = thing.items() if kind is dict else thing
    return [name, *(_plain(one, arrays) for one in parts)]


def _made(plain: Any, arrays: list[NDArray[Any]]) -> Any:
    """Return what :func:`_plain` was given."""
    if not isinstance(plain, list):
        return plain
    name, *rest = plain
    if name in ("array", "scalar"):
        return arrays[rest[0]] if name == "array" else arrays[rest[0]][()]
    parts = [_made(one, arrays) for one in rest]
    if name in SPARSE:
        shape, *own = parts
        made = getattr(sparse, name.removeprefix("sparse "))(shape)
        made.data, made.indices, made.indptr = own
        return made
    kind = _container(name)
    return kind(parts) if name in CONTAINERS else kind(*parts)


def _container(name: str) -> Any:
    """Return what holds the parts of a summary: a container of Python, or a named tuple of dspectral."""
    module, _, qualname = name.partition(":")
    found = CONTAINERS.get(name)
    if found is None and module.startswith("dspectral."):
        found = attrgetter(qualname)(import_module(module))
    if found not in CONTAINERS.values() and not (
        isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")
    ):
        raise TypeError(f"a summary holds a {name.replace(':', '.')}, which cannot be kept")
    return found


def refuse_endless(path: str, most: float = math.inf) -> None:
    """Refuse a pipe or a device, which would be read for ever, and a file of more bytes than it may have."""
    found = Path(path).stat()
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        raise ValueError(f"{path} is no regular file, but a pipe, a device or a link to one")
    if found.st_size > most:
        raise ValueError(f"{path} has {found.st_size} bytes, but must have at most {most:.0f}")
