"""Passes that are kept: finished summaries in a folder, under names made of content, so that nothing is made twice.

The name of a block's summary is a digest of the block's content, the name of a merged one a digest of the names that
it was merged from, in a folder for each function with its settings, the machine and the versions: a file is either the
right one or not found. Trees grow from the left, so that rows which come later leave finished subtrees as they are.
"""

import inspect
import re
import time
import uuid
import warnings
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from dask.base import tokenize
from numpy.typing import NDArray

from dspectral.engine.graph import Graph, Key, Recipes, Tree, call, needed_for, wrap_task
from dspectral.engine.summary import bytes_of
from dspectral.paths import inner_path, leaves_folder, place_of, refuse_endless
from dspectral.summary_files import DAMAGED, decoded, encoded
from dspectral.types import is_sparse

WORTH = 20.0
"""A summary is written if making it took so many times as long as writing it will: a twentieth of the time is spent."""
FIRST_COST = 1e-8
"""Seconds that writing a byte takes until it was measured: 100 MB a second."""
LEAST_BYTES = 1 << 20
"""A file takes as long to begin as so many bytes take."""
PURE = re.compile(r"(dspectral|dask|_?operator|builtins|functools|numpy\.(u?int|float)\d+)(\.|$)")
"""Modules whose functions depend on their arguments alone."""
KNOWN = ("builtins", "numpy", "numpy.random.bit_generator", "numpy.dtypes", "dask.utils")
"""Modules of values of which Dask makes tokens by their content."""
SUFFIX = ".npz"
NAME = re.compile(r"[0-9a-f]{32}/[0-9a-f]{32}\.npz(\.[0-9a-f]{32}\.tmp)?$")
"""End of the path of a part, or of one whose writing was cut short."""
_COSTS: dict[str, float] = {}


class UnknownContentError(ValueError):
    """The content of something is not known, or may change."""


def digest(thing: object) -> str:
    """Return a token of a value whose content is known: two tasks of one token make the same bits, on whatever day."""
    return str(tokenize(_content(thing), ensure_deterministic=True))


def _content(thing: Any) -> object:
    """Return what Dask makes a token of; for arrays their bytes, as its own tokens do not tell X from its transpose."""
    kind, parts = type(thing), thing
    if hasattr(thing, "known_content") and not isinstance(thing, type):
        parts = (thing.known_content(),)
    elif isinstance(thing, np.ndarray):
        return _content_of_array(thing)
    elif is_sparse(thing):
        names = ("data", "indices", "indptr", "row", "col", "offsets")
        parts = (thing.shape, *(getattr(thing, name) for name in names if hasattr(thing, name)))
    elif isinstance(thing, dict):
        parts = thing.items()
    elif isinstance(thing, partial):
        parts = (thing.func, thing.args, sorted(thing.keywords.items()))
    elif callable(thing) and hasattr(thing, "__qualname__"):
        return _content_of_function(thing)
    elif kind.__module__.startswith("dspectral.") and hasattr(thing, "__dict__"):
        parts = (vars(thing),)
    elif not isinstance(thing, tuple | list):
        if kind.__module__ not in KNOWN:
            raise UnknownContentError(f"they hold or are read from a {kind.__module__}.{kind.__qualname__}")
        return kind.__qualname__, thing  # 1 and True are other content
    return kind.__qualname__, *map(_content, parts)


def _content_of_array(array: NDArray[Any]) -> object:
    if array.dtype.hasobject:
        return "objects", array.shape, _content(array.tolist())
    # BLAS may sum in another order where an array lies in memory by columns.
    by_columns = array.flags.f_contiguous and not array.flags.c_contiguous
    flat = np.ascontiguousarray(array.T if by_columns else array).reshape(-1).view(np.uint8)
    return "array", array.dtype.str, array.shape, by_columns, blake2b(flat.data).hexdigest()


def _content_of_function(function: Any) -> object:
    owner = getattr(function, "__self__", None)
    if owner is not None and not inspect.ismodule(owner):
        return "method", _content(owner), function.__name__
    name = f"{function.__module__}.{function.__qualname__}"
    if not PURE.match(name) or "<locals>" in name or "<lambda>" in name:
        raise UnknownContentError(f"they come through {name}, of which nothing is known but its name")
    return "function", name


class Part(NamedTuple):
    """A summary on its way up the tree, and the seconds that making it again takes."""

    summary: Any
    seconds: float


class Kept(NamedTuple):
    """The number of parts in a folder, and their bytes."""

    n_parts: int
    n_bytes: int


class PartError(Exception):
    """A part is missing, damaged, or another one: a sentence, and its path."""


class Folder(NamedTuple):
    """The URL of a folder (a local path is absolute), and storage options as pairs: all that a task needs."""

    url: str
    options: tuple[tuple[str, Any], ...] = ()

    def system(self) -> tuple[Any, str]:
        """Return the file system, and the path of the folder in it."""
        import fsspec  # noqa: PLC0415  only what is kept needs it

        system, root = fsspec.url_to_fs(self.url, **dict(self.options))
        system.invalidate_cache()  # workers write through other instances
        return system, root.rstrip("/")

    def place(self, path: str) -> tuple[Any, str]:
        """Return the file system, and the path of a part in it; refuse one outside of the folder."""
        system, root = self.system()
        return system, inner_path(system, root, f"{path}{SUFFIX}")

    def paths(self, path: str) -> set[str]:
        """Return the paths of the parts directly under a path."""
        system, root = self.system()
        try:
            found = system.ls(f"{root}/{path}", detail=False)
        except FileNotFoundError:
            return set()
        return {f"{path}/{Path(one).stem}" for one in found if one.endswith(SUFFIX)}

    def write(self, path: str, content: bytes) -> None:
        """Write a file, at once or not at all."""
        system, place = self.place(path)
        system.makedirs(place.rpartition("/")[0], exist_ok=True)
        if "file" not in system.protocol:
            # One put is whole or nothing in a store of objects; elsewhere the checksums tell a half.
            system.pipe_file(place, content)
            return
        aside = Path(f"{place}.{uuid.uuid4().hex}.tmp")
        try:
            aside.write_bytes(content)
            aside.replace(place)
        finally:
            aside.unlink(missing_ok=True)

    def read(self, path: str) -> Any:
        """Read a summary; raise :class:`PartError` if it is missing or damaged."""
        try:
            system, place = self.place(path)
            if "file" in system.protocol:
                refuse_endless(place)
            return decoded(path, system.cat_file(place))
        except (OSError, *DAMAGED) as error:
            why = f"it cannot be read, or is not as it was written ({type(error).__name__}: {error})"
            raise PartError(f"partial {path} in {self.shown} is made again: {why}", path) from error

    def clear(self) -> Kept:
        """Remove all parts, also those that were written half, and folders that are empty then."""
        system, root = self.system()
        found = {
            path: int(one["size"] or 0)
            for path, one in system.find(root, detail=True).items()
            if NAME.search(path)
            and path.removeprefix("/").startswith(root.removeprefix("/"))
            and not leaves_folder(
                system, root, path.removeprefix("/").removeprefix(root.removeprefix("/")).lstrip("/")
            )
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


class Checkpoints:
    """Summaries of one pass in a folder, under names made of their content, without the ``damaged`` ones."""

    def __init__(
        self, folder: Folder, function: Callable[..., Any], kinds: Sequence[str], damaged: Collection[str]
    ) -> None:
        self._folder = folder
        self._pass = digest((*kinds, _known(function)))
        self._found = {path for path in folder.paths(self._pass) if path not in damaged}

    def rewrite(self, graph: Graph, tree: Tree, root: Key) -> tuple[Graph, Key]:
        """Return the graph and its root, where summaries that exist are read, and others may be written.

        Each summary is a :class:`Part`. Tasks that read have keys of their own, so that tasks counted by the name
        of a block or merge are those that compute. Tasks below a summary that is read are left out.
        """
        contents, names, moved = Recipes(dict(graph), _known), dict[Key, str](), dict[Key, Any]()
        group = f"read-kept-{uuid.uuid4().hex}"
        # Invariant: the tree is in order, so the inputs of a merge have names, and have been moved if they are read.
        for key, inputs in tree.items():
            is_merge = inputs[0] in names
            parts = [names[one] if is_merge else contents.of(one) for one in inputs]
            names[key] = digest(("merge" if is_merge else "block", *parts))
            path, task = f"{self._pass}/{names[key]}", graph.pop(key).substitute(moved)
            if path in self._found:
                moved[key] = (group, len(moved))
                graph[moved[key]] = call(moved[key], _read_part, self._folder, path)
            else:
                graph[key] = wrap_task(task, _make_part, self._folder, path, key == root)
        root = moved.get(root, root)
        return needed_for(graph, [root]), root


def _known(thing: object) -> str:
    """Return the digest of what a task is made of, or say what helps."""
    try:
        return digest(thing)
    except UnknownContentError as error:
        raise UnknownContentError(
            f"keep needs rows whose content is known, but {error}: write them to a store (dspectral.write_counts), "
            "whose blocks say what they hold, or fit without keep"
        ) from None


def _read_part(folder: Folder, path: str) -> Part:
    return Part(folder.read(path), 0.0)


def _make_part(function: Callable[..., Any], folder: Folder, path: str, final: bool, *arguments: Any) -> Part:
    """Make a summary, and write it where that is worth the time."""
    start = time.perf_counter()
    below = [one for one in arguments if isinstance(one, Part)]
    summary = function(*(one.summary if isinstance(one, Part) else one for one in arguments))
    seconds = time.perf_counter() - start + sum(part.seconds for part in below)
    n_bytes = bytes_of(summary) + LEAST_BYTES
    if not final and seconds < WORTH * n_bytes * _COSTS.get(folder.url, FIRST_COST):
        return Part(summary, seconds)
    start = time.perf_counter()
    try:
        folder.write(path, encoded(path, summary))
    except OSError as error:  # the fit itself lacks nothing
        said = f"{type(error).__name__}: {error}"
        warnings.warn(
            f"a finished part of the pass could not be kept in {folder.shown}: {said}", stacklevel=2
        )
        return Part(summary, seconds)
    _COSTS[folder.url] = (time.perf_counter() - start) / n_bytes
    return Part(summary, 0.0)


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
    return Folder(*place_of(url, storage_options)).clear()
