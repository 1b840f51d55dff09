"""Tasks and the merge tree: nodes of Dask's graphs, and pure functions that make one graph of another.

The only file that imports the private module ``dask._task_spec``. Dask has no public call for two things:

- a node of plain data (``DataNode``), so that arrays bound to a function are stored in the graph once and are not
  searched for keys of other tasks, as tuples of the public graph format are;
- the fusion of a task with the tasks that it alone needs (``GraphNode.fuse``). Dask's own optimization fuses chains
  and blockwise layers, but stops where two arrays meet, or a block of the array is no blockwise layer: a block would
  then be read by one task and summarized by another, perhaps on another worker.

``tests/engine`` counts the tasks of each pass, and so fails if a version of Dask behaves differently.
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

from dspectral.linalg.blas import aligned, blas_in_one_thread

make_task, task_ref, cull_graph = Task, TaskRef, cull
"""A task, which calls a function; an argument that stands for the result of another task; and what some tasks need."""
Key: TypeAlias = Hashable
Node: TypeAlias = GraphNode
Graph: TypeAlias = dict[Key, GraphNode]
Tree: TypeAlias = dict[Key, list[Key]]
"""Keys of the blocks that each block summary is made from, then keys of the summaries that each merge takes."""
LAYER = re.compile(r"(.+)-block-[0-9a-f]{32}")
"""Name of the layer of the blocks of a pass."""
TASKS = (
    (re.compile(r"merge-level-(\d+)-[0-9a-f]{32}"), r"a merge on level \1"),
    (re.compile(r"\('(.*)-block-[0-9a-f]{32}', (\d+)"), r"block \2 of \1"),
    (re.compile(r"\('(.*)-[0-9a-f]{32}', (\d+)"), r"task \2 of \1"),
)
"""Label of a task, by the form of its key."""


class SharedFunction(NamedTuple):
    """A function that is one node of the graph for all tasks.

    The first array of a message lies behind its head, at an odd byte, where each task would copy it: `first` is small.
    """

    first: NDArray[np.uint8]
    function: Callable[..., Any]


class GuardedFunction(partial[Any]):
    """The function of a task within another that changes no result: what a task computes is read through it."""


def new_block_layer(name: str) -> str:
    """Return a new name for the layer of the blocks of a pass."""
    return f"{name}-block-{uuid4().hex}"


def pass_of_layer(layer: str) -> str:
    """Return the name of the pass that made a layer, empty for a layer of anything else.

    It is read from the layer's name because ``persist`` and ``dask.optimize`` keep names and drop annotations.

    >>> pass_of_layer(new_block_layer("weigh")), pass_of_layer("getitem-0123")
    ('weigh', '')
    """
    found = LAYER.fullmatch(layer)
    return found[1] if found else ""


def task_label(key: str) -> str:
    """Return what a task does, from its key.

    >>> task_label("('sketch-block-0123456789abcdef0123456789abcdef', 3, 0)")
    'block 3 of sketch'
    >>> task_label("('merge-level-2-0123456789abcdef0123456789abcdef', 7)")
    'a merge on level 2'
    >>> task_label("('documents-0123456789abcdef0123456789abcdef', 7)")
    'task 7 of documents'
    """
    found = (one.expand(label) for form, label in TASKS if (one := form.search(key)))
    return next(found, f"the task {key}")


def shared_node(key: Key, function: Callable[..., object]) -> Node:
    """Return a node that holds a function for all tasks: it is in the graph once."""
    return DataNode(key, SharedFunction(np.zeros(1, dtype=np.uint8), function))


def get_array_nodes(array: da.Array) -> Graph:
    """Return the nodes behind a Dask array."""
    return dict(convert_legacy_graph(dict(array.__dask_graph__())))


def get_merge_group(level: int, token: str) -> str:
    """Return the name of the task group of one level of merges."""
    return f"merge-level-{level}-{token}"


def add_merge_tree(graph: Graph, tree: Tree, fan_in: int, token: str, merge: Callable[..., Any]) -> Key:
    """Add merges of ``fan_in`` neighbors to a graph and its tree until one is left, whose key is returned."""
    keys, level = list(tree), 0
    # Invariant: `keys` are summaries of consecutive runs of blocks, in order. Their number falls by fan_in a level.
    # Neighbors alone are merged, in a tree whose shape the number of blocks decides: in whatever order tasks finish,
    # floats are added in the same order and sums have the same bits.
    while len(keys) > 1:
        level += 1
        merged = []
        for i, group in enumerate(keys[start : start + fan_in] for start in range(0, len(keys), fan_in)):
            if len(group) == 1:
                merged.append(group[0])  # nobody to merge with: it moves up as it is
                continue
            key = (get_merge_group(level, token), i)
            graph[key] = make_task(key, merge, level, *map(task_ref, group))
            tree[key] = group
            merged.append(key)
        keys = merged
    return keys[0]


def merge_on_level(_level: int, *summaries: Any) -> Any:
    """Merge neighbors, in order, while BLAS has one thread."""
    first, *others = aligned(summaries)
    with blas_in_one_thread():
        return first.merge(*others)


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


def wrap_task(
    task: Node, function: Callable[..., object], *arguments: object, kind: type[partial[Any]] = partial
) -> Node:
    """Return a task that calls ``function(inner, *arguments, ...)``, where ``inner`` is the function of the task."""
    assert isinstance(task, Task)  # noqa: S101  nothing else has a function
    # Newer versions of Dask mark the tasks that read.
    marks = {"_data_producer": True} if getattr(task, "data_producer", False) else {}
    return Task(task.key, kind(function, task.func, *arguments), *task.args, **marks, **task.kwargs)


def guard_tasks(graph: Graph, function: Callable[..., object], *arguments: object) -> Graph:
    """Return the same tasks within ``function(inner, label, *arguments, ...)``, which changes no result."""
    return {
        key: wrap_task(node, function, task_label(str(key)), *arguments, kind=GuardedFunction)
        if type(node) is Task
        else node
        for key, node in graph.items()
    }


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


class GraphTokenizer:
    """Digests of what tasks compute, whatever they are called: keys are left out, as most are new in each process."""

    def __init__(self, graph: Mapping[Key, Node], digest: Callable[[object], str]) -> None:
        self._graph, self._digest = graph, digest
        self._digests: dict[Key, str] = {}

    def tokenize(self, key: Key) -> str:
        """Return the digest of a task and of all that it needs."""
        if key not in self._digests:
            self._digests[key] = self._tokenize_node(self._graph[key])
        return self._digests[key]

    def _tokenize_node(self, node: Any) -> str:
        """Return the digest of a task, a reference to one, or a value."""
        if isinstance(node, TaskRef | Alias):
            return self.tokenize(node.key if isinstance(node, TaskRef) else node.target)
        if isinstance(node, DataNode) or not isinstance(node, Task):
            return self._digest(node.value if isinstance(node, DataNode) else node)
        func: Any = node.func
        while isinstance(func, GuardedFunction):
            func = func.args[0]
        if func is _execute_subgraph:
            inner, result, names, *needed = node.args
            within = GraphTokenizer(inner, self._digest)
            within._digests |= {
                name: self._tokenize_node(need) for name, need in zip(names, needed, strict=True)
            }
            return within.tokenize(result)
        # The tuples, lists and dicts of a graph are tasks too, which gather their parts.
        function = type(node).__name__ if isinstance(node, NestedContainer) else func
        named = () if isinstance(node, NestedContainer) else sorted(node.kwargs.items())
        parts = [self._tokenize_node(one) for one in (*node.args, *(value for _, value in named))]
        return self._digest((function, *parts, *(name for name, _ in named)))
