"""Tasks: nodes of Dask's graphs, each tried again after an error that may pass, its BLAS in one thread.

The only file that imports the private module ``dask._task_spec``. Dask has no public call for two things:

- a node of plain data (``DataNode``), so that arrays bound to a function are stored in the graph once and are not
  searched for keys of other tasks, as tuples of the public graph format are;
- the fusion of a task with the tasks that it alone needs (``GraphNode.fuse``). Dask's own optimization fuses chains
  and blockwise layers, but stops where two arrays meet, or a block of the array is no blockwise layer: a block would
  then be read by one task and summarized by another, perhaps on another worker.

``tests/engine`` counts the tasks of each pass, and so fails if a version of Dask behaves differently.
"""

import errno
import gzip
import os
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias, TypeVar
from uuid import uuid4

import dask.array as da
import numpy as np
from dask._task_spec import (
    Alias,
    DataNode,
    GraphNode,
    NestedContainer,
    Task,
    TaskRef,
    _execute_subgraph,
    convert_legacy_graph,
)

from dspectral.engine.blas import aligned, blas_in_one_thread
from dspectral.engine.cluster import computed_alike, facts
from dspectral.engine.configuration import configured_retries, wants_same_bits
from dspectral.engine.events import Retried, emit_to_all, task_label, worker_of_task

Key: TypeAlias = Hashable
Node: TypeAlias = GraphNode
Graph: TypeAlias = dict[Key, GraphNode]
Tree: TypeAlias = dict[Key, list[Key]]
"""Keys of the blocks that each block summary is made from, then keys of the summaries that each merge takes."""
R = TypeVar("R")

FIRST_PAUSE = 0.25
"""Seconds before the second attempt."""
GROWTH = 4.0
"""Each pause is so many times the one before it: 0.25, 1, 4, 16 seconds."""
PERMANENT = (
    FileNotFoundError,
    FileExistsError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
    gzip.BadGzipFile,
)
"""Errors of the system that another attempt would meet again."""
PASSING = (
    "EAGAIN EBUSY ECONNABORTED ECONNREFUSED ECONNRESET EHOSTDOWN EHOSTUNREACH EINTR EIO ENETDOWN ENETRESET ENETUNREACH "
    "ENOBUFS EPIPE EREMOTEIO ESHUTDOWN ESTALE ETIME ETIMEDOUT"
)
NUMBERS = frozenset(getattr(errno, name, None) for name in PASSING.split())
"""Numbers of errors that may pass; a full disk (ENOSPC), for instance, is none of them."""
STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of HTTP that say: not now."""
CLASSES = frozenset(
    {
        "aiohttp.client_exceptions.ClientConnectionError",
        "aiohttp.client_exceptions.ClientPayloadError",
        "botocore.exceptions.ConnectionError",
        "botocore.exceptions.HTTPClientError",
        "urllib3.exceptions.HTTPError",
        "http.client.IncompleteRead",
        "http.client.RemoteDisconnected",
    }
)
"""Errors of libraries that read over a network and need not be installed, by module and name."""
LAYER = re.compile(r"(.+)-block-[0-9a-f]{32}")
"""Name of the layer of the blocks of a pass."""
N_ATTEMPTS = "dspectral_n_attempts"
"""Attribute of an error that was retried to the limit: no caller retries it again."""


def layer_of_blocks(name: str) -> str:
    """Return a new name for the layer of the blocks of a pass."""
    return f"{name}-block-{uuid4().hex}"


def pass_of_layer(layer: str) -> str:
    """Return the name of the pass that made a layer, empty for a layer of anything else.

    It is read from the layer's name because ``persist`` and ``dask.optimize`` keep names and drop annotations.

    >>> pass_of_layer(layer_of_blocks("weigh")), pass_of_layer("getitem-0123")
    ('weigh', '')
    """
    found = LAYER.fullmatch(layer)
    return found[1] if found else ""


def call(key: Key, function: Callable[..., object], *arguments: object) -> Node:
    """Return a task: a call of a function."""
    if wants_same_bits():  # workers may join after those that were there have been compared
        function = partial(computed_alike, facts(), function)
    return Task(key, function, *arguments)


def result_of(key: Key) -> TaskRef:
    """Return an argument that stands for the result of another task."""
    return TaskRef(key)


def for_all(key: Key, function: Callable[..., object]) -> Node:
    """Return a node that holds a function for all tasks: it is in the graph once."""
    # The first array of a message lies behind its head, at an odd byte: each task would copy it. So it is a small one.
    return DataNode(key, partial(_behind, np.zeros(1, dtype=np.uint8), function))


def _behind(_first: object, function: Callable[..., R], *arguments: object) -> R:
    return function(*arguments)


def nodes_of(array: da.Array) -> Graph:
    """Return the nodes behind a Dask array."""
    nodes: Mapping[Key, Node] = convert_legacy_graph(dict(array.__dask_graph__()))
    return dict(nodes)


def fuse_into(leaves: Iterable[Key], graph: Graph) -> Graph:
    """Fuse each leaf with the tasks that it alone needs."""
    # Invariant: `members` is a tree of tasks that nobody outside it needs, but for its root, the leaf.
    n_dependents = Counter(key for node in graph.values() for key in node.dependencies)
    fused: Graph = {}
    for leaf in leaves:
        if leaf not in graph:  # its summary is read from a checkpoint
            continue
        members, left = [], [leaf]
        while left:
            members.append(graph.pop(left.pop()))
            # A task that several others need is left alone: fused into each of them it would run several times.
            left += [key for key in members[-1].dependencies if n_dependents[key] == 1 and key in graph]
        fused[leaf] = GraphNode.fuse(*members, key=leaf)
    return {**graph, **fused}


def reachable(graph: Graph, key: Key) -> Graph:
    """Return the tasks that one task needs, itself among them."""
    found: Graph = {}
    left = [key]
    while left:
        at = left.pop()
        if at not in found:
            found[at] = graph[at]
            left += graph[at].dependencies
    return found


class Recipes:
    """Digests of what tasks compute, whatever they are called: keys are left out, as most are new in each process."""

    def __init__(self, graph: Mapping[Key, Node], digest_of: Callable[[object], str]) -> None:
        self._graph, self._digest_of = graph, digest_of
        self._known: dict[Key, str] = {}

    def of(self, key: Key) -> str:
        """Return the digest of a task and of all that it needs."""
        if key not in self._known:
            self._known[key] = self._of_node(self._graph[key])
        return self._known[key]

    def _of_node(self, node: Any) -> str:
        """Return the digest of a task, a reference to one, or a value."""
        if isinstance(node, TaskRef | Alias):
            return self.of(node.key if isinstance(node, TaskRef) else node.target)
        if isinstance(node, DataNode) or not isinstance(node, Task):
            return self._digest_of(node.value if isinstance(node, DataNode) else node)
        func: Any = node.func
        if isinstance(func, partial) and func.func is _retried_task:
            func = func.args[0]
        if func is _execute_subgraph:
            inner, result, names, *needed = node.args
            within = Recipes(inner, self._digest_of)
            within._known |= {name: self._of_node(need) for name, need in zip(names, needed, strict=True)}
            return within.of(result)
        # The tuples, lists and dicts of a graph are tasks too, which gather their parts.
        function = type(node).__name__ if isinstance(node, NestedContainer) else func
        named = () if isinstance(node, NestedContainer) else sorted(node.kwargs.items())
        parts = [self._of_node(one) for one in (*node.args, *(value for _, value in named))]
        return self._digest_of((function, *parts, *(name for name, _ in named)))


def wrap_task(task: Node, function: Callable[..., object], *arguments: object) -> Node:
    """Return a task that calls ``function(inner, *arguments, ...)``, where ``inner`` is the function of the task."""
    assert isinstance(task, Task)  # noqa: S101  nothing else has a function
    # Newer versions of Dask mark the tasks that read.
    marks = {"_data_producer": True} if getattr(task, "data_producer", False) else {}
    return Task(task.key, partial(function, task.func, *arguments), *task.args, **marks, **task.kwargs)


def with_retries(graph: Graph) -> Graph:
    """Return the same tasks, each of which is tried again after an error that may pass."""
    # Read here: the configuration of workers is another one.
    n_retries = configured_retries()
    return {
        key: wrap_task(node, _retried_task, task_label(str(key)), n_retries)
        if n_retries and type(node) is Task
        else node
        for key, node in graph.items()
    }


def _retried_task(
    function: Callable[..., R], what: str, n_retries: int, /, *arguments: Any, **options: Any
) -> R:
    return retried(partial(function, *arguments, **options), what=what, n_retries=n_retries)


def is_transient(error: BaseException) -> bool:
    """Report whether the same call may succeed a moment later.

    >>> is_transient(TimeoutError()), is_transient(OSError(5, "Input/output error"))
    (True, True)
    >>> is_transient(FileNotFoundError()), is_transient(ValueError("damaged"))
    (False, False)
    """
    if isinstance(error, PERMANENT):
        return False
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    status = _status_of(error)
    if status is not None:
        return status in STATUSES
    if any(f"{kind.__module__}.{kind.__qualname__}" in CLASSES for kind in type(error).__mro__):
        return True
    return isinstance(error, OSError) and (error.errno is None or error.errno in NUMBERS)


def _status_of(error: BaseException) -> int | None:
    """Return the status of HTTP that an error of aiohttp, gcsfs, requests or botocore holds."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        found = [(response.get("ResponseMetadata") or {}).get("HTTPStatusCode")]
    else:
        found = [getattr(error, name, None) for name in ("status", "code")]
        found.append(getattr(response, "status_code", None))
    return next((one for one in found if isinstance(one, int)), None)


def retried(function: Callable[..., R], *arguments: object, what: str, n_retries: int | None = None) -> R:
    """Call a function; after a transient error pause and call it again, each pause longer than the last."""
    n_attempts = 1 + (configured_retries() if n_retries is None else n_retries)
    attempt, pause = 1, FIRST_PAUSE
    while True:
        try:
            return function(*arguments)
        except Exception as error:
            if hasattr(error, N_ATTEMPTS) or not is_transient(error):
                raise
            if attempt >= n_attempts:
                if attempt > 1:
                    setattr(error, N_ATTEMPTS, attempt)
                    error.add_note(f"the same on each of {attempt} attempts")
                raise
            said = " ".join(str(error).split()) or type(error).__name__
        emit_to_all(Retried(what, attempt, pause, said))
        time.sleep(pause)
        attempt, pause = attempt + 1, pause * GROWTH


def not_seen(path: str) -> FileNotFoundError:
    """Return the error for a path that does not exist for the process of this task."""
    worker = worker_of_task()
    who = f"process {os.getpid()}" if worker is None else f"worker {worker.address}"
    return FileNotFoundError(
        f"{path} is not there for {who} on {socket.gethostname()}: put it in a folder that every worker sees under "
        "the same path, or name it by a URL such as s3://bucket/name"
    )


def pinned_and_named(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a task while BLAS has one thread, and name the worker that does not see a file."""
    try:
        with blas_in_one_thread():
            return aligned(function)(*arguments)
    except FileNotFoundError as error:
        if error.filename is None or worker_of_task() is None:
            raise
        raise not_seen(os.fsdecode(error.filename)) from error
