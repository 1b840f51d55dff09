"""Checkpoints: a content-addressed cache of block summaries and merged summaries.

The name of a block summary is a hash of the content of the block. The name of a merged summary is a hash of the names
of its inputs. The folder name is a hash of the function with its arguments, the machine and the package versions, so a
file is either correct or not found. Merge trees grow from the left: appended rows do not change finished subtrees.
"""

import inspect
import re
import time
import uuid
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from dask.base import tokenize
from numpy.typing import NDArray

from dspectral.engine.around.file_systems import open_file_system
from dspectral.engine.graph import Graph, GraphTokenizer, Key, Tree, cull_graph, make_task, wrap_task
from dspectral.engine.summary import get_nbytes
from dspectral.paths import check_regular_file, is_outside, join_inside, resolve_url
from dspectral.summary_files import DAMAGE_ERRORS, decode_summary, encode_summary, read_head
from dspectral.types import is_sparse

MIN_COST_RATIO = 20.0
"""A summary is written if computing it took this many times as long as writing: writing takes 5 % of the time."""
DEFAULT_BYTE_SECONDS = 1e-8
"""Seconds to write a byte until the first measurement: 100 MB/s."""
FILE_OVERHEAD_BYTES = 1 << 20
"""Overhead of creating a file, as a number of bytes that could be written in that time."""
PURE_FUNCTION = re.compile(r"(dspectral|dask|_?operator|builtins|functools|numpy\.(u?int|float)\d+)(\.|$)")
"""Modules whose functions are pure."""
TOKENIZED_MODULES = ("builtins", "numpy", "numpy.random.bit_generator", "numpy.dtypes", "dask.utils")
"""Modules of values that Dask tokenizes by content."""
TOKEN, ARRAYS = "token", ("array", "objects")
"""First entry of the content of an object with a content token, and of an array."""
CHECKPOINT_SUFFIX = ".npz"
CHECKPOINT_PATH = re.compile(r"[0-9a-f]{32}/[0-9a-f]{32}\.npz(\.[0-9a-f]{32}\.tmp)?$")
"""End of the path of a checkpoint, or of an incomplete temporary file."""
_BYTE_SECONDS: dict[str, float] = {}


class UnknownContentError(ValueError):
    """The content of an object is unknown or may change, so it has no content hash."""


def digest(value: object) -> str:
    """Return a hash of the content of a value: tasks with equal hashes return the same bits in every process."""
    return str(tokenize(_get_content(value), ensure_deterministic=True))


def _get_content(value: Any) -> object:
    """Return a value for Dask to tokenize. Arrays are hashed here: Dask gives X and its transpose the same token."""
    kind, content = type(value), value
    if hasattr(value, "content_token") and not isinstance(value, type):
        return TOKEN, kind.__qualname__, _get_content(value.content_token())
    if isinstance(value, np.ndarray):
        return _get_array_content(value)
    if is_sparse(value):
        names = ("data", "indices", "indptr", "row", "col", "offsets")
        content = (value.shape, *(getattr(value, name) for name in names if hasattr(value, name)))
    elif isinstance(value, dict):
        content = value.items()
    elif isinstance(value, partial):
        content = (value.func, value.args, sorted(value.keywords.items()))
    elif callable(value) and hasattr(value, "__qualname__"):
        return _get_function_content(value)
    elif kind.__module__.startswith("dspectral.") and hasattr(value, "__dict__"):
        content = (vars(value),)
    elif not isinstance(value, tuple | list):
        if kind.__module__ not in TOKENIZED_MODULES:
            raise UnknownContentError(f"they depend on a {kind.__module__}.{kind.__qualname__}")
        return kind.__qualname__, value  # the type name distinguishes 1 from True
    return kind.__qualname__, *map(_get_content, content)


def _get_array_content(array: NDArray[Any]) -> object:
    if array.dtype.hasobject:
        return "objects", array.shape, _get_content(array.tolist())
    # BLAS may add in another order for an array in column-major order.
    by_columns = array.flags.f_contiguous and not array.flags.c_contiguous
    flat = np.ascontiguousarray(array.T if by_columns else array).reshape(-1).view(np.uint8)
    return "array", array.dtype.str, array.shape, by_columns, blake2b(flat.data).hexdigest()


def _get_function_content(function: Any) -> object:
    owner = getattr(function, "__self__", None)
    if owner is not None and not inspect.ismodule(owner):
        return "method", _get_content(owner), function.__name__
    name = f"{function.__module__}.{function.__qualname__}"
    if not PURE_FUNCTION.match(name) or "<locals>" in name or "<lambda>" in name:
        raise UnknownContentError(f"they are computed by {name}, whose code is not hashed")
    return "function", name


def _find_sources(content: object) -> Iterator[str | None]:
    """Yield the hash of each object with a content token in the content of a value, and None for each array."""
    if isinstance(content, tuple) and content:
        if content[0] == TOKEN:
            yield tokenize(content, ensure_deterministic=True)
        elif isinstance(content[0], str) and content[0] in ARRAYS:
            yield None
        else:
            for part in content:
                yield from _find_sources(part)


class TimedSummary(NamedTuple):
    """A summary in the merge tree, and the seconds to compute it again from the last checkpoints.

    `sources`: content hashes of its blocks; None if it may depend on others, by arrays among the arguments.
    """

    summary: Any
    seconds: float
    sources: frozenset[str] | None


class CheckpointInfo(NamedTuple):
    """Number of checkpoints in a folder, and their bytes."""

    n_files: int
    n_bytes: int


class CheckpointError(Exception):
    """A checkpoint is missing or damaged, or belongs to another summary. Arguments: a sentence and its path."""


class CheckpointFolder(NamedTuple):
    """URL (or absolute path) of the folder of checkpoints, and storage options as pairs. It can be pickled."""

    url: str
    options: tuple[tuple[str, Any], ...] = ()

    def open_file_system(self) -> tuple[Any, str]:
        """Return the fsspec file system, and the path of the folder in it."""
        file_system, root = open_file_system(self.url, dict(self.options))
        file_system.invalidate_cache()  # workers write through other instances
        return file_system, root.rstrip("/")

    def resolve(self, path: str) -> tuple[Any, str]:
        """Return the file system and the full path of a checkpoint; raise ValueError if it is outside of the folder."""
        file_system, root = self.open_file_system()
        return file_system, join_inside(file_system, root, f"{path}{CHECKPOINT_SUFFIX}")

    def paths(self, path: str) -> set[str]:
        """Return the paths of the checkpoints directly under a path."""
        file_system, root = self.open_file_system()
        try:
            files = file_system.ls(f"{root}/{path}", detail=False)
        except FileNotFoundError:
            return set()
        return {f"{path}/{Path(file).stem}" for file in files if file.endswith(CHECKPOINT_SUFFIX)}

    def write(self, path: str, content: bytes) -> None:
        """Write a file atomically."""
        file_system, target = self.resolve(path)
        file_system.makedirs(target.rpartition("/")[0], exist_ok=True)
        if "file" not in file_system.protocol:
            # Object stores write atomically; on other file systems the checksums reveal an incomplete file.
            file_system.pipe_file(target, content)
            return
        temporary = Path(f"{target}.{uuid.uuid4().hex}.tmp")
        try:
            temporary.write_bytes(content)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)

    def read(self, path: str) -> TimedSummary:
        """Read a summary; raise :class:`CheckpointError` if it is missing or damaged."""
        try:
            file_system, source = self.resolve(path)
            if "file" in file_system.protocol:
                check_regular_file(source)
            summary, sources = decode_summary(path, file_system.cat_file(source))
            return TimedSummary(summary, 0.0, None if sources is None else frozenset(sources))
        except (OSError, *DAMAGE_ERRORS) as error:
            reason = f"it cannot be read or is damaged ({type(error).__name__}: {error})"
            raise CheckpointError(
                f"the checkpoint {path} in {self.public_url} is computed again: {reason}", path
            ) from error

    def _find_sizes(self, file_system: Any, root: str) -> dict[str, int]:
        """Return the bytes of all checkpoints and incomplete files, by path."""
        return {
            path: int(info["size"] or 0)
            for path, info in file_system.find(root, detail=True).items()
            if CHECKPOINT_PATH.search(path)
            and not is_outside(
                file_system, root, path.removeprefix("/").removeprefix(root.removeprefix("/")).lstrip("/")
            )
        }

    def remove_dependent(self, hashes: Collection[str]) -> list[str]:
        """Remove the checkpoints that may depend on blocks of these content hashes; return their names."""
        file_system, root = self.open_file_system()
        removed = []
        for path in sorted(self._find_sizes(file_system, root)):
            name, sources = "/".join(path.split("/")[-2:]), None
            with suppress(*DAMAGE_ERRORS):  # damaged and incomplete files are removed
                sources = read_head(name.removesuffix(CHECKPOINT_SUFFIX), file_system.cat_file(path))["facts"]
            if sources is None or not set(hashes).isdisjoint(sources):
                file_system.rm_file(path)
                removed.append(name)
        return removed

    def clear(self) -> CheckpointInfo:
        """Remove all checkpoints, incomplete files and empty folders; return what was removed."""
        file_system, root = self.open_file_system()
        size_by_path = self._find_sizes(file_system, root)
        for path in size_by_path:
            file_system.rm_file(path)
        if "file" in file_system.protocol:
            for folder in {Path(path).parent for path in size_by_path}:
                with suppress(OSError):  # the folder holds other files
                    folder.rmdir()
        n_files = sum(path.endswith(CHECKPOINT_SUFFIX) for path in size_by_path)
        return CheckpointInfo(n_files, sum(size_by_path.values()))

    @property
    def public_url(self) -> str:
        """The URL without passwords and query, for messages."""
        return re.sub(r"//[^/@]*@", "//", self.url.partition("?")[0])


class Checkpoints:
    """Checkpoints of one pass; `damaged`: paths of checkpoints that must be computed again."""

    def __init__(
        self,
        folder: CheckpointFolder,
        function: Callable[..., Any],
        machine_kinds: Sequence[str],
        damaged: Collection[str],
    ) -> None:
        self._folder = folder
        self._sources = dict[str, frozenset[str | None]]()
        self._has_arrays = None in self._sources[function_hash := self._hash(function)]
        self._pass = digest((*machine_kinds, function_hash))
        self._existing = {path for path in folder.paths(self._pass) if path not in damaged}

    def rewrite(self, graph: Graph, tree: Tree, root: Key) -> tuple[Graph, Key]:
        """Return a graph that reads existing checkpoints and may write the others, and the key of its root.

        Each summary becomes a :class:`TimedSummary`. Tasks that read have keys of their own, because block and merge
        tasks are counted by their keys. Tasks below a summary that is read are left out.
        """
        tokenizer = GraphTokenizer(dict(graph), self._hash)
        names = dict[Key, str]()
        moved = dict[Key, Any]()
        group = f"read-kept-{uuid.uuid4().hex}"
        # Invariant: inputs precede their merge in the tree, so they have names, and new keys if they are read.
        for key, inputs in tree.items():
            is_merge = inputs[0] in names
            hashes = [names[input_key] if is_merge else tokenizer.tokenize(input_key) for input_key in inputs]
            names[key] = digest(("merge" if is_merge else "block", *hashes))
            path, task = f"{self._pass}/{names[key]}", graph.pop(key).substitute(moved)
            if path in self._existing:
                moved[key] = (group, len(moved))
                graph[moved[key]] = make_task(moved[key], self._folder.read, path)
            else:
                sources = frozenset[str | None]().union(*(self._sources[name] for name in hashes if not is_merge))
                known = None if self._has_arrays or None in sources else sources
                graph[key] = wrap_task(task, _make_summary, self._folder, path, key == root, known)
        root = moved.get(root, root)
        return cull_graph(graph, [root]), root

    def _hash(self, value: object) -> str:
        """Return the content hash of a value, or of a task with the hashes of its inputs; record its sources."""
        try:
            content = _get_content(value)
        except UnknownContentError as error:
            raise UnknownContentError(
                f"checkpoints need rows with a content hash, but {error}: write them to a store "
                "(dspectral.write_counts), whose blocks have one, or fit without checkpoints"
            ) from None
        content_hash = str(tokenize(content, ensure_deterministic=True))
        inputs = value if isinstance(value, tuple) else ()
        known = (self._sources.get(part, frozenset()) for part in inputs if isinstance(part, str))
        self._sources[content_hash] = frozenset(_find_sources(content)).union(*known)
        return content_hash


def _make_summary(
    function: Callable[..., Any],
    folder: CheckpointFolder,
    path: str,
    is_final: bool,
    sources: frozenset[str] | None,
    *arguments: Any,
) -> TimedSummary:
    """Compute a summary, and write it if computing it took much longer than writing it will."""
    start = time.perf_counter()
    inputs = [argument for argument in arguments if isinstance(argument, TimedSummary)]
    summary = function(*(value.summary if isinstance(value, TimedSummary) else value for value in arguments))
    seconds = time.perf_counter() - start + sum(timed.seconds for timed in inputs)
    if inputs:
        unknown = any(timed.sources is None for timed in inputs)
        sources = None if unknown else frozenset().union(*(timed.sources or () for timed in inputs))
    n_bytes = get_nbytes(summary) + FILE_OVERHEAD_BYTES
    if not is_final and seconds < MIN_COST_RATIO * n_bytes * _BYTE_SECONDS.get(folder.url, DEFAULT_BYTE_SECONDS):
        return TimedSummary(summary, seconds, sources)
    start = time.perf_counter()
    try:
        folder.write(path, encode_summary(path, summary, None if sources is None else sorted(sources)))
    except OSError as error:  # the fit continues without this checkpoint
        warnings.warn(
            f"no checkpoint was written in {folder.public_url} ({type(error).__name__}: {error}): free space or check "
            "permissions there",
            stacklevel=2,
        )
        return TimedSummary(summary, seconds, sources)
    _BYTE_SECONDS[folder.url] = (time.perf_counter() - start) / n_bytes
    return TimedSummary(summary, 0.0, sources)


def clear_checkpoints(url: str | Path, *, storage_options: dict[str, Any] | None = None) -> CheckpointInfo:
    """Remove the checkpoints that :func:`checkpoints` wrote to a folder, and no other files.

    Parameters
    ----------
    url : str or Path
        Folder or URL.
    storage_options : dict, optional
        Options of the fsspec file system.

    Returns
    -------
    CheckpointInfo
        Number of removed checkpoints, and their bytes.

    Examples
    --------
    >>> clear_checkpoints("memory://nothing-there")
    CheckpointInfo(n_files=0, n_bytes=0)
    """
    return CheckpointFolder(*resolve_url(url, storage_options)).clear()
