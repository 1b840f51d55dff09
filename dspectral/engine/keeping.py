"""Passes that are kept: finished summaries in a folder, under names made of content, so that nothing is made twice.

The name of a block's summary is a digest of the block's content, the name of a merged one a digest of the names that
it was merged from, in a folder for each function with its settings, the machine and the versions: a file is either the
right one or not found. Trees grow from the left, so that rows which come later leave finished subtrees as they are.
"""

import inspect
import re
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from dask.base import tokenize
from numpy.typing import NDArray

from dspectral.engine.blas import blas_kinds
from dspectral.engine.cluster import addresses_of, code_digest, query_or_none
from dspectral.engine.events import Client, PassBegan, client_in_force
from dspectral.engine.fits import fit_in_force
from dspectral.engine.kept_parts import Folder, Part, PartError, encoded, folder_in_force
from dspectral.engine.summary import bytes_of
from dspectral.engine.task_graph import Graph, Key, Node, Recipes, call, reachable
from dspectral.types import is_sparse

WORTH = 20.0
"""A summary is written if making it took so many times as long as writing it will: a twentieth of the time is spent."""
FIRST_COST = 1e-8
"""Seconds that writing a byte takes until it was measured: 100 MB a second."""
LEAST_BYTES = 1 << 20
"""A file takes as long to begin as so many bytes take."""
LIBRARIES = ("numpy", "scipy", "numba")
PATIENCE = 5.0
"""Seconds that workers have for an answer; those that were silent for so long are not asked."""
PURE = re.compile(r"(dspectral|dask|_?operator|builtins|functools|numpy\.(u?int|float)\d+)(\.|$)")
"""Modules whose functions depend on their arguments alone."""
KNOWN = ("builtins", "numpy", "numpy.random.bit_generator", "numpy.dtypes", "dask.utils")
"""Modules of values of which Dask makes tokens by their content."""
_COSTS: dict[str, float] = {}


class UnknownContentError(ValueError):
    """The content of something is not known, or may change."""


class Sealed:
    """A function that reads what a digest in its argument names: where that lies is no part of the content."""

    def __init__(self, read: Callable[[Any, Any], Any], where: object) -> None:
        self.read, self.where = read, where

    def __call__(self, item: Any) -> Any:
        """Read the item."""
        return self.read(self.where, item)

    def known_content(self) -> object:
        """Return the function, without the place."""
        return self.read


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


@cache
def kind_of_machine() -> str:
    """Return what else than the data may change bits: BLAS, the processor that loops are compiled for, versions."""
    from dspectral._machine_code import cpu_of_loops  # noqa: PLC0415  Numba is imported with it

    return "; ".join([cpu_of_loops(), blas_kinds(), *(f"{name} {version(name)}" for name in LIBRARIES)])


def kinds_on(client: Client | None) -> list[str]:
    """Return the kinds of the machines that compute."""
    addresses = client and query_or_none(client, client.run_on_scheduler, addresses_of, seconds=PATIENCE)
    if client is None or not addresses:
        return [kind_of_machine()]
    question: dict[str, Any] = {"workers": addresses, "on_error": "return", "seconds": PATIENCE}
    answers = query_or_none(client, client.run, kind_of_machine, **question) or {}
    return sorted({one for one in answers.values() if isinstance(one, str)}) or [kind_of_machine()]


class Keeper:
    """Names the summaries of one pass, finds those that are kept, and lets tasks write the others."""

    def __init__(self, folder: Folder, function: Callable[..., Any], kinds: Sequence[str]) -> None:
        self._folder = folder
        self._pass = digest((code_digest(), *kinds, _known(function)))
        self._found = folder.names(self._pass)
        fit = fit_in_force()
        self._n_begun = fit.n_begun if fit else 0
        self._begin()

    def _begin(self) -> None:
        """Forget the tasks of an earlier attempt; what was found stays."""
        self._run = uuid4().hex
        self._names: dict[Key, str] = {}
        self._recipes: Recipes | None = None
        self._left: Graph = {}

    def leaf(
        self, key: Key, graph: Graph, blocks: Sequence[Key], task: tuple[Any, ...], n_blocks: int
    ) -> Node:
        """Return the task of a block, or one of another key that reads its summary."""
        if self._recipes is None:
            self._recipes = Recipes(graph, _known)
        return self._node(key, digest(("block", *map(self._recipes.of, blocks))), task, n_blocks == 1)

    def merge(self, key: Key, group: Sequence[Key], task: tuple[Any, ...], final: bool) -> Node:
        """Return the task of a merge, or one of another key that reads its summary."""
        return self._node(key, digest(("merge", *(self._names[one] for one in group))), task, final)

    def _node(self, key: Key, name: str, task: tuple[Any, ...], final: bool) -> Node:
        self._names[key] = name
        path = f"{self._pass}/{name}"
        if name not in self._found:
            return call(key, _made, self._folder, path, final, *task)
        # A group of its own: who counts blocks and merges counts those that are made.
        key = (f"read-kept-{self._run}", len(self._names))
        self._names[key] = name
        return call(key, _read, self._folder, path)

    def needed(self, layer: Graph, root: Key) -> Graph:
        """Leave out the tasks below summaries that are kept."""
        self._left = reachable(layer, root)
        return self._left

    def with_kept(self, begun: PassBegan) -> PassBegan:
        """Return what a pass will do, with the number of blocks and merges that need not run."""
        made = [key[0] for key in self._left if isinstance(key, tuple)]
        n_blocks, n_merges = made.count(begun.block_group), sum(map(made.count, begun.merge_groups))
        return begun._replace(n_kept=begun.n_blocks - n_blocks, n_kept_merges=begun.n_merges - n_merges)

    def discard(self, error: PartError) -> None:
        """Take a damaged part out, and say so."""
        warnings.warn(
            f"partial {error.path} in {self._folder.shown} is made again: {error.why}", stacklevel=3
        )
        self._found.discard(error.path.rpartition("/")[2])
        fit = fit_in_force()
        if fit is not None:  # the attempt that it ended was no pass
            fit.n_begun = self._n_begun
        self._begin()


def keeper_of(keep: str | Path | None, function: Callable[..., Any], *, in_memory: bool) -> Keeper | None:
    """Return who keeps the summaries of a pass."""
    folder = folder_in_force() if keep is None else Folder.of(keep)
    if folder is None:
        return None
    return Keeper(folder, function, kinds_on(None if in_memory else client_in_force()))


def _known(thing: object) -> str:
    """Return the digest of what a task is made of, or say what helps."""
    try:
        return digest(thing)
    except UnknownContentError as error:
        raise UnknownContentError(
            f"keep needs rows whose content is known, but {error}: write them to a store (dspectral.write_counts), "
            "whose blocks say what they hold, or fit without keep"
        ) from None


def _read(folder: Folder, path: str) -> Part:
    return Part(folder.read(path), 0.0)


def _made(folder: Folder, path: str, final: bool, function: Callable[..., Any], *arguments: Any) -> Part:
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
