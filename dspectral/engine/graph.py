"""Tasks and the merge tree: nodes of Dask graphs, and pure functions that transform graphs.

This is the only file that imports the private module ``dask._task_spec``. Dask has no public API for two operations:

- a node of plain data (``DataNode``): arrays bound to a function are stored in the graph once, and Dask does not
  search them for keys of other tasks;
- fusing a task with the tasks that only it needs (``GraphNode.fuse``). Dask's optimization fuses chains and blockwise
  layers, but stops where two arrays meet: one task would read a block, and another one, perhaps on another worker,
  would summarize it.

``tests/engine`` counts the tasks of each pass, so it fails if a version of Dask behaves differently.
"""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias
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
    cull,
)
from numpy.typing import NDArray

from dspectral.linalg.blas import blas_in_one_thread, copy_unaligned

make_task, task_ref, cull_graph = Task, TaskRef, cull
"""Dask's task, reference to the result of a task, and function that drops tasks which no given key needs."""
Key: TypeAlias = Hashable
Node: TypeAlias = GraphNode
Graph: TypeAlias = dict[Key, GraphNode]
Tree: TypeAlias = dict[Key, list[Key]]
"""Inputs of each summary, in order: block keys of the block summaries, then summary keys of the merges."""
LAYER_PATTERN = re.compile(r"(.+)-block-[0-9a-f]{32}")
"""Pattern of the name of the block layer of a pass."""
TASKS = (
    (re.compile(r"merge-level-(\d+)-[0-9a-f]{32}"), r"a merge on level \1"),
    (re.compile(r"\('(.*)-block-[0-9a-f]{32}', (\d+)"), r"block \2 of \1"),
    (re.compile(r"\('(.*)-[0-9a-f]{32}', (\d+)"), r"task \2 of \1"),
)
"""Patterns of task keys, and the labels of these tasks in messages."""


class SharedFunction(NamedTuple):
    """A function that all tasks of a pass take from one node of the graph.

    Dask may deserialize the first array of a message at an unaligned address, and each task would then copy it: `first`
    is a small array that takes this position.
    """

    first: NDArray[np.uint8]
    function: Callable[..., Any]


class GuardedFunction(partial[Any]):
    """A task's function inside a wrapper that does not change its result; content hashes ignore the wrapper."""


def make_block_layer_name(name: str) -> str:
    """Return a new name for the block layer of a pass."""
    return f"{name}-block-{uuid4().hex}"


def get_pass_name(layer: str) -> str:
    """Return the name of the pass that made a layer, or an empty text for other layers.

    It is part of the layer's name, because ``persist`` and ``dask.optimize`` keep names and drop annotations.

    >>> get_pass_name(make_block_layer_name("weigh")), get_pass_name("getitem-0123")
    ('weigh', '')
    """
    match = LAYER_PATTERN.fullmatch(layer)
    return match[1] if match else ""


def task_label(key: str) -> str:
    """Return a label for messages from the key of a task.

    >>> task_label("('sketch-block-0123456789abcdef0123456789abcdef', 3, 0)")
    'block 3 of sketch'
    >>> task_label("('merge-level-2-0123456789abcdef0123456789abcdef', 7)")
    'a merge on level 2'
    >>> task_label("('documents-0123456789abcdef0123456789abcdef', 7)")
    'task 7 of documents'
    """
    labels = (match.expand(label) for pattern, label in TASKS if (match := pattern.search(key)))
    return next(labels, f"the task {key}")


def shared_node(key: Key, function: Callable[..., object]) -> Node:
    """Return a node that holds a function, which all tasks refer to."""
    return DataNode(key, SharedFunction(np.zeros(1, dtype=np.uint8), function))


def get_array_nodes(array: da.Array) -> Graph:
    """Return the graph of a Dask array."""
    return dict(convert_legacy_graph(dict(array.__dask_graph__())))


def get_merge_group(level: int, token: str) -> str:
    """Return the name of the Dask task group of a level of merges."""
    return f"merge-level-{level}-{token}"


def add_merge_tree(graph: Graph, tree: Tree, fan_in: int, token: str) -> Key:
    """Add merges of ``fan_in`` neighbors to a graph and its tree, and return the key of the last one."""
    keys, level = list(tree), 0
    # Invariant: `keys` are summaries of consecutive blocks, in order; each level has 1/fan_in as many as the last.
    # The tree depends only on the number of blocks, so floats are added in the same order however tasks finish.
    while len(keys) > 1:
        level += 1
        merged = []
        for i, group in enumerate(keys[start : start + fan_in] for start in range(0, len(keys), fan_in)):
            if len(group) == 1:
                merged.append(group[0])  # no neighbor: it moves up a level
                continue
            key = (get_merge_group(level, token), i)
            graph[key] = make_task(key, merge_summaries, *map(task_ref, group))
            tree[key] = group
            merged.append(key)
        keys = merged
    return keys[0]


def merge_summaries(*summaries: Any) -> Any:
    """Merge neighboring summaries in order, with BLAS in one thread."""
    first, *others = copy_unaligned(summaries)
    with blas_in_one_thread():
        return first.merge(*others)


def fuse_into(leaves: Iterable[Key], graph: Graph) -> Graph:
    """Fuse each leaf with the tasks that only it needs."""
    # Invariant: except for the leaf, only tasks in `members` depend on tasks in `members`.
    n_dependents = Counter(key for node in graph.values() for key in node.dependencies)
    fused: Graph = {}
    for leaf in leaves:
        if leaf not in graph:  # its summary is read from a checkpoint
            continue
        members, pending = [], [leaf]
        while pending:
            members.append(graph.pop(pending.pop()))
            # A task that several tasks need is not fused, or it would run several times.
            pending += [key for key in members[-1].dependencies if n_dependents[key] == 1 and key in graph]
        fused[leaf] = GraphNode.fuse(*members, key=leaf)
    return {**graph, **fused}


def wrap_task(
    task: Node, function: Callable[..., object], *arguments: object, kind: type[partial[Any]] = partial
) -> Node:
    """Return a task that calls ``function(inner, *arguments, ...)``, with the task's own function as ``inner``."""
    assert isinstance(task, Task)  # noqa: S101  only a Task has a function
    # Newer versions of Dask mark tasks that read data.
    marks = {"_data_producer": True} if getattr(task, "data_producer", False) else {}
    return Task(task.key, kind(function, task.func, *arguments), *task.args, **marks, **task.kwargs)


def guard_tasks(graph: Graph, function: Callable[..., object], *arguments: object) -> Graph:
    """Wrap each task in ``function(inner, label, *arguments, ...)``, which must not change results."""
    return {
        key: wrap_task(node, function, task_label(str(key)), *arguments, kind=GuardedFunction)
        if type(node) is Task
        else node
        for key, node in graph.items()
    }


class ContentAddressedReader:
    """A reader of content-addressed items: their location is not part of the content hash."""

    def __init__(self, read: Callable[[Any, Any], Any], location: object) -> None:
        self.read, self.location = read, location

    def __call__(self, item: Any) -> Any:
        """Read the item."""
        return self.read(self.location, item)

    def content_token(self) -> object:
        """Return the function, without the location, for the content hash."""
        return self.read


class GraphTokenizer:
    """Content hashes of tasks. Keys are not hashed, because most of them differ between processes."""

    def __init__(self, graph: Mapping[Key, Node], digest: Callable[[object], str]) -> None:
        self._graph, self._digest = graph, digest
        self._digests: dict[Key, str] = {}

    def tokenize(self, key: Key) -> str:
        """Return the hash of a task and of its inputs."""
        if key not in self._digests:
            self._digests[key] = self._tokenize_node(self._graph[key])
        return self._digests[key]

    def _tokenize_node(self, node: Any) -> str:
        """Return the hash of a task, a reference to a task, or a value."""
        if isinstance(node, TaskRef | Alias):
            return self.tokenize(node.key if isinstance(node, TaskRef) else node.target)
        if isinstance(node, DataNode) or not isinstance(node, Task):
            return self._digest(node.value if isinstance(node, DataNode) else node)
        func: Any = node.func
        while isinstance(func, GuardedFunction):
            func = func.args[0]
        if func is _execute_subgraph:
            inner, result, names, *inputs = node.args
            subgraph = GraphTokenizer(inner, self._digest)
            subgraph._digests |= {name: self._tokenize_node(value) for name, value in zip(names, inputs, strict=True)}
            return subgraph.tokenize(result)
        # Tuples, lists and dicts in a graph are tasks that collect their elements.
        function = type(node).__name__ if isinstance(node, NestedContainer) else func
        keyword_items = () if isinstance(node, NestedContainer) else sorted(node.kwargs.items())
        parts = [self._tokenize_node(value) for value in (*node.args, *(value for _, value in keyword_items))]
        return self._digest((function, *parts, *(name for name, _ in keyword_items)))
