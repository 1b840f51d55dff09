"""Nodes of Dask's task graphs: the only file that imports the private module ``dask._task_spec``.

Dask has no public call for two things that a pass needs:

- a node of plain data (``DataNode``), so that arrays bound to a function are stored in the graph once and are not
  searched for keys of other tasks, as tuples of the public graph format are;
- the fusion of a task with the tasks that it alone needs (``GraphNode.fuse``). Dask's own optimization fuses chains
  and blockwise layers, but stops where two arrays meet, or a block of the array is no blockwise layer: a block would
  then be read by one task and summarized by another, perhaps on another worker.

Needed are ``Task(key, function, *arguments)`` with its attributes, ``TaskRef(key)``, ``DataNode(key, value)``,
``GraphNode.fuse``, ``convert_legacy_graph``, and what :class:`Recipes` looks at, as they are from Dask 2025.11, the
oldest version that pyproject.toml allows, to 2026.8.
``tests/engine`` counts the tasks of each pass, and so fails if a version of Dask behaves differently.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias

import dask.array as da
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

from dspectral.engine.cluster import computed_alike, facts
from dspectral.engine.configuration import configured_retries, wants_same_bits
from dspectral.engine.events import task_label
from dspectral.engine.retrying import retrying, tried_by

Key: TypeAlias = Hashable
Node: TypeAlias = GraphNode
Graph: TypeAlias = dict[Key, GraphNode]


def call(key: Key, function: Callable[..., object], *arguments: object) -> Node:
    """Return a task: a call of a function."""
    if wants_same_bits():  # workers may join after those that were there have been compared
        function = partial(computed_alike, facts(), function)
    return Task(key, function, *arguments)


def result_of(key: Key) -> TaskRef:
    """Return an argument that stands for the result of another task."""
    return TaskRef(key)


def value(key: Key, content: object) -> Node:
    """Return a node that holds a value: it is in the graph once, however many tasks use it."""
    return DataNode(key, content)


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
        func = tried_by(node.func) if node.func is not None else None
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


def with_retries(graph: Graph) -> Graph:
    """Return the same tasks, each of which is tried again after an error that may pass."""
    # Read here: the configuration of workers is another one.
    n_retries = configured_retries()
    if not n_retries:
        return graph
    return {
        key: _with_retries(node, n_retries) if type(node) is Task else node for key, node in graph.items()
    }


def _with_retries(task: Task, n_retries: int) -> Node:
    function = retrying(task.func, task_label(str(task.key)), n_retries)
    # Newer versions of Dask mark the tasks that read.
    marks = {"_data_producer": True} if getattr(task, "data_producer", False) else {}
    return Task(task.key, function, *task.args, **marks, **task.kwargs)
