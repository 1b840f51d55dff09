"""Task graphs: one task for each block or few small ones, and merges up a tree whose shape their number decides."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import dask
import dask.array as da
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph

from dspectral.engine.blas import aligned, blas_in_one_thread
from dspectral.engine.configuration import configured_fan_in
from dspectral.engine.events import Merged, emit_from_worker
from dspectral.engine.keeping import Keeper, Part
from dspectral.engine.row_blocks import Shape, join, shape_said
from dspectral.engine.summary import Summary, bytes_of
from dspectral.engine.tasks import Graph, Key, call, fuse_into, nodes_of, result_of, value, with_retries

S = TypeVar("S", bound=Summary)


def block_tasks(
    work: Callable[..., Any],
    function: Callable[..., Any],
    arrays: list[da.Array],
    name: str,
    keeper: Keeper | None = None,
    spans: Sequence[range] | None = None,
) -> tuple[Graph, list[Key]]:
    """Make one task for each block or few of them, which reads, applies what was mapped over it, and does the work."""
    graph: Graph = {}
    # Optimized together, so that streams made from one source share the tasks that read it.
    for array in dask.optimize(*arrays):
        graph.update(nodes_of(array))
    shared = f"shared-{name}"
    graph[shared] = value(shared, function)
    leaves: list[Key] = []
    # What each array promises travels with the task that reads, which compares it with what it finds.
    n_blocks = arrays[0].numblocks[0]
    spans = [range(i, i + 1) for i in range(n_blocks)] if spans is None else spans
    keys = [[row[0] for row in array.__dask_keys__()] for array in arrays]
    for i, span in enumerate(spans):
        key, first = (name, i, 0), span[0]
        of_blocks = [key_of[number] for number in span for key_of in keys]
        said: tuple[Shape | int, ...] = tuple(shape_said(array, first) for array in arrays)
        read = of_blocks
        if len(span) > 1:
            # A task of its own within the fused one: blocks are let go once they are joined.
            read = [(f"join-{name}", i, stream) for stream in range(len(arrays))]
            for to, array, key_of in zip(read, arrays, keys, strict=True):
                shapes = tuple(shape_said(array, number) for number in span)
                graph[to] = call(to, join, first, shapes, *(result_of(key_of[number]) for number in span))
            said = tuple(arrays[0].chunks[0][number] for number in span)
        task = work, result_of(shared), first, said, *map(result_of, read)
        node = call(key, *task) if keeper is None else keeper.leaf(key, graph, of_blocks, task, len(spans))
        leaves.append(node.key)
        graph[node.key] = node
    return with_retries(fuse_into(leaves, graph)), leaves


def merge_tree(
    graph: Graph,
    keys: list[Key],
    fan_in: int,
    token: str,
    fit: str | None = None,
    keeper: Keeper | None = None,
) -> Delayed:
    """Add merges of ``fan_in`` neighbors on each level until one is left; they emit events where ``fit`` is given."""
    layer = dict(graph)
    level = 0
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
            key = (merge_group(level, token), i)
            work = _merge if fit is None else partial(_merge_and_emit, fit, token, level)
            task = work, *map(result_of, group)
            node = call(key, *task) if keeper is None else keeper.merge(key, group, task, len(keys) <= fan_in)
            layer[node.key] = node
            merged.append(node.key)
        keys = merged
    name = f"merge-{token}"
    layer = layer if keeper is None else keeper.needed(layer, keys[0])
    return Delayed(keys[0], HighLevelGraph.from_collections(name, layer), layer=name)


def _merge(*summaries: S) -> S:
    """Merge neighbors, in order, while BLAS has one thread."""
    first, *others = aligned(summaries)
    with blas_in_one_thread():
        return first.merge(*others)  # type: ignore[no-any-return]


def _merge_and_emit(fit: str, run: str, level: int, *summaries: S) -> S:
    """Merge neighbors, and send the scheduler the size and the certificate of the result."""
    result = _merge(*summaries)
    emit_from_worker(merged(fit, run, level, result))
    return result


def merged(fit: str, run: str, level: int, summary: Any) -> Merged:
    """Return the event of a summary that was merged."""
    summary = summary.summary if isinstance(summary, Part) else summary
    n_rows = getattr(summary, "n_rows", None)
    error, energy = getattr(summary, "error", None), getattr(summary, "energy", None)
    absolute = relative = None
    if error is not None and energy is not None:
        absolute, relative = float(error), float(error / energy) if energy else 0.0
    n_bytes = bytes_of(summary)
    return Merged(fit, run, level, n_bytes, None if n_rows is None else int(n_rows), absolute, relative)


def merge_group(level: int, token: str) -> str:
    """Return the name of the task group of one level of merges."""
    return f"merge-level-{level}-{token}"


def merges_of(n_blocks: int, fan_in: int) -> list[int]:
    """Return the number of merges on each level above summaries of blocks."""
    numbers = []
    while n_blocks > 1:
        n_full, n_left = divmod(n_blocks, fan_in)
        numbers.append(n_full + (n_left > 1))
        n_blocks = n_full + (n_left > 0)
    return numbers


def tree_depth(n_blocks: int, fan_in: int | None = None) -> int:
    """Return the number of levels of merges above summaries of blocks."""
    return len(merges_of(n_blocks, configured_fan_in() if fan_in is None else fan_in))


def projected_memory(
    *, summary_bytes: int, n_blocks: int, work_bytes: int, fan_in: int | None = None, n_workers: int = 1
) -> int:
    """Bound the bytes that a pass needs, over all workers, beside the interpreters themselves.

    Parameters
    ----------
    summary_bytes : int
        Size of one summary in bytes.
    n_blocks : int
        Number of row blocks.
    work_bytes : int
        Bytes that summarizing one block or merging ``fan_in`` summaries takes, the block included.
    fan_in : int, optional
        Number of summaries that a merge takes; by default the configured one, as for :func:`summarize`.
    n_workers : int, default=1
        Number of tasks that run at once.

    Returns
    -------
    int
        Bound in bytes.

    Notes
    -----
    ``n_workers * (work + summary) + depth * (fan_in - 1) * summary``: running tasks with their summaries, and those
    that wait on each level; the depth is ``ceil(log(n_blocks, fan_in))``.

    Examples
    --------
    >>> projected_memory(summary_bytes=10, n_blocks=8, work_bytes=100, n_workers=2)
    250
    """
    fan_in = configured_fan_in() if fan_in is None else fan_in
    depth = tree_depth(n_blocks, fan_in)
    return n_workers * (work_bytes + summary_bytes) + depth * (fan_in - 1) * summary_bytes
