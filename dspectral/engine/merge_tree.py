"""Task graphs: one task of a block, and merges up a tree whose shape the number of blocks decides."""

import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from uuid import uuid4

import dask
import dask.array as da
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph

from dspectral.engine.blas import pinned
from dspectral.engine.row_blocks import shape_said
from dspectral.engine.summary import Summary
from dspectral.engine.task_graph import Graph, Key, call, fuse_into, nodes_of, result_of, value

S = TypeVar("S", bound=Summary)


def block_tasks(
    work: Callable[..., Any], function: Callable[..., Any], arrays: list[da.Array], name: str
) -> tuple[Graph, list[Key]]:
    """Make one task of a block: of all that reads it, of what was mapped over it, and of the work.

    The function is in the graph once: arrays bound to it travel to a worker once, and not with each task.
    """
    graph: Graph = {}
    for array in dask.optimize(*arrays):
        graph.update(nodes_of(array))
    shared = f"shared-{name}"
    graph[shared] = value(shared, function)
    leaves: list[Key] = []
    shapes = [tuple(shape_said(array, i) for array in arrays) for i in range(arrays[0].numblocks[0])]
    for i, blocks in enumerate(zip(*(array.__dask_keys__() for array in arrays), strict=True)):
        leaves.append((name, i, 0))
        graph[leaves[-1]] = call(
            leaves[-1], work, result_of(shared), i, shapes[i], *(result_of(row[0]) for row in blocks)
        )
    return fuse_into(leaves, graph), leaves


def merge_tree(graph: Graph, keys: list[Key], fan_in: int) -> Delayed:
    """Add merges of ``fan_in`` neighbours on each level to a graph, until one summary is left, and return it."""
    token = uuid4().hex
    layer = dict(graph)
    level = 0
    while len(keys) > 1:
        level += 1
        merged = []
        for i, group in enumerate(_groups(keys, fan_in)):
            if len(group) == 1:
                merged.append(group[0])  # nobody to merge with: it moves up as it is
                continue
            key = (f"merge-level-{level}-{token}", i)
            layer[key] = call(key, _merge, *map(result_of, group))
            merged.append(key)
        keys = merged
    name = f"merge-{token}"
    return Delayed(keys[0], HighLevelGraph.from_collections(name, layer), layer=name)


def _merge(*summaries: S) -> S:
    first, *others = summaries
    return pinned(first.merge, *others)  # type: ignore[no-any-return]


def _groups(keys: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(keys), size):
        yield keys[start : start + size]


def tree_depth(n_blocks: int, fan_in: int = 2) -> int:
    """Levels of merges above ``n_blocks`` summaries.

    Examples
    --------
    >>> [tree_depth(n) for n in (1, 2, 3, 8, 9)]
    [0, 1, 2, 3, 4]
    """
    depth = 0
    while n_blocks > 1:
        n_blocks = math.ceil(n_blocks / fan_in)
        depth += 1
    return depth


def projected_memory(
    *, summary_bytes: int, n_blocks: int, work_bytes: int, fan_in: int = 2, n_workers: int = 1
) -> int:
    """Bytes that a pass needs at most, over all workers, beside the interpreters themselves.

    Parameters
    ----------
    summary_bytes : int
        Of one summary.
    n_blocks : int
        Row blocks.
    work_bytes : int
        What summarising one block or merging ``fan_in`` summaries takes, the block included.
    fan_in, n_workers : int
        As given to :func:`summarize`, and tasks running at once.

    Notes
    -----
    ``n_workers * (work + summary) + depth * (fan_in - 1) * summary``: each running task and the summary that
    it leaves, and on each level of the tree the summaries that wait for their neighbours. The number of rows
    enters through the depth alone, ``ceil(log(n_blocks, fan_in))``.

    Examples
    --------
    >>> projected_memory(summary_bytes=10, n_blocks=8, work_bytes=100, n_workers=2)
    250
    """
    depth = tree_depth(n_blocks, fan_in)
    return n_workers * (work_bytes + summary_bytes) + depth * (fan_in - 1) * summary_bytes
