"""Passes that are kept: finished summaries in a folder, under names made of content, so that nothing is made twice.

The name of a block's summary is a digest of the block's content, the name of a merged one a digest of the names that
it was merged from. Trees grow from the left, so that rows which come later leave the names of finished subtrees as
they are. Names lie in a folder for each function with its settings, the machine and the versions: whatever may change
a bit is in the name, and a file is either the right one or not found.

The client lists the folder of a pass once and builds the tasks for what is missing. A task writes its summary where
making it again would take at least :data:`WORTH` times as long as writing it, and the last summary of a pass always:
so little time goes into writing, and little work is lost.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from dspectral.engine.fits import fit_in_force
from dspectral.engine.keeping.bit_sources import code_digest, kinds_on
from dspectral.engine.keeping.contents import Contents, UnknownContentError, digest
from dspectral.engine.keeping.kept_folder import folder_in_force
from dspectral.engine.keeping.partials import Folder, Part, PartialError
from dspectral.engine.running import Work
from dspectral.engine.summary import bytes_of
from dspectral.engine.task_graph import Graph, Key, Node, Recipes, call, reachable
from dspectral.engine.telling import client_in_force

R = TypeVar("R")

WORTH = 20.0
"""A summary is written if making it took so many times as long as writing it will: a twentieth of the time is spent."""
FIRST_COST = 1e-8
"""Seconds that writing a byte takes until it was measured: 100 MB a second."""
LEAST_BYTES = 1 << 20
"""A file takes as long to begin as so many bytes take."""
_COSTS: dict[str, float] = {}


class Keeper:
    """Names the summaries of one pass, finds those that are kept, and lets tasks write the others."""

    def __init__(
        self, folder: Folder, function: Callable[..., Any], kinds: Sequence[str], contents: Contents
    ) -> None:
        self._folder, self._contents = folder, contents
        self._pass = digest((code_digest(), *kinds, _known(contents, function)))
        self._found = set(folder.names(self._pass))
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
            self._recipes = Recipes(graph, lambda thing: _known(self._contents, thing))
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

    def told(self, work: Work) -> Work:
        """Return what a pass will do, with the number of blocks and merges that need not run."""
        made = [key[0] for key in self._left if isinstance(key, tuple)]
        n_blocks, n_merges = (
            sum(key in groups for key in made) for groups in ((work.block_group,), work.merge_groups)
        )
        return work._replace(n_kept=work.n_blocks - n_blocks, n_kept_merges=work.n_merges - n_merges)

    def result(self, part: Part) -> Any:
        """Return the summary of the pass, and warn of what could not be written."""
        if part.faults:
            warnings.warn(
                f"{len(part.faults)} finished part(s) of the pass could not be kept in {self._folder.shown}: "
                f"{part.faults[0]}",
                stacklevel=3,
            )
        return part.summary

    def discard(self, error: PartialError) -> None:
        """Take a damaged partial out, and say so."""
        warnings.warn(
            f"partial {error.path} in {self._folder.shown} is made again: {error.why}",
            stacklevel=3,
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
    kinds = kinds_on(None if in_memory else client_in_force())
    fit = fit_in_force()
    return Keeper(folder, function, kinds, fit.contents if fit else Contents())


def _known(contents: Contents, thing: object) -> str:
    """Return the digest of what a task is made of, or say what helps."""
    try:
        return contents.of(thing)
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
    faults = tuple(fault for part in below for fault in part.faults)
    n_bytes = bytes_of(summary) + LEAST_BYTES
    if not final and seconds < WORTH * n_bytes * _COSTS.get(folder.url, FIRST_COST):
        return Part(summary, seconds, faults)
    start = time.perf_counter()
    try:
        folder.write(path, summary)
    except OSError as error:
        # The fit itself lacks nothing.
        return Part(summary, seconds, (*faults, f"{type(error).__name__}: {error}"))
    _COSTS[folder.url] = (time.perf_counter() - start) / n_bytes
    return Part(summary, 0.0, faults)
