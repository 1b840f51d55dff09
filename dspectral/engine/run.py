"""Run a pass: build its graph, rewrite it and compute it with Dask. Only this file imports all others of engine."""

import os
import time
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar
from uuid import uuid4

import dask
import dask.array as da
import dask.threaded
import numpy as np
from dask.callbacks import Callback, normalize_callback
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph
from dask.system import CPU_COUNT
from numpy.typing import DTypeLike
from scipy import sparse

from dspectral.configuration import count_merges, get_fan_in, requires_same_bits
from dspectral.engine.around.callbacks import CALLBACKS, BlocksDone, Client, PassEnded, PassStarted, call_hooks
from dspectral.engine.around.checkpoints import CheckpointError, CheckpointFolder, Checkpoints, TimedSummary
from dspectral.engine.around.cluster import assign_workers, compare_machines, get_machine_kinds, require_same_bits
from dspectral.engine.around.cluster_pass import compute_on_cluster
from dspectral.engine.around.context import (
    RunContext,
    StopAtFirstPass,
    current_cache,
    current_client,
    current_context,
    emit,
    is_in_worker_task,
    is_watched,
)
from dspectral.engine.around.memory import PassMemory, check_memory, estimate_pass_memory, group_blocks
from dspectral.engine.around.retries import add_retries, run_single_threaded
from dspectral.engine.blocks import (
    STORE_ANNOTATION,
    Blocks,
    Stream,
    annotate,
    as_dask_rows,
    as_row_chunks,
    block_tasks,
    blocks_as_array,
    call_on_blocks,
    check_aligned_chunks,
    chunk_rows,
    count_bytes,
    count_rows,
    get_annotation,
    get_block_nbytes,
    is_in_memory,
    iterate_slices,
    set_block_nbytes,
)
from dspectral.engine.graph import (
    Graph,
    Key,
    SharedFunction,
    add_merge_tree,
    fuse_into,
    get_merge_group,
    get_pass_name,
    make_block_layer_name,
    make_task,
    shared_node,
    task_ref,
)
from dspectral.engine.summary import Summary, get_nbytes
from dspectral.linalg.blas import blas_in_one_thread, copy_unaligned
from dspectral.paths import ResolvedURL, resolve_url
from dspectral.types import Rows, is_sparse

S = TypeVar("S", bound=Summary)


def _reset_thread_pools() -> None:
    """Drop Dask's thread pools in a forked process, which would wait forever for threads of its parent."""
    dask.threaded.default_pool, dask.threaded.pools_lock = None, Lock()
    dask.threaded.pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_thread_pools)


def summarize(
    *streams: Stream,
    summarize_block: Callable[..., S],
    fan_in: int | None = None,
    name: str = "summary",
    checkpoints: str | Path | None = None,
    blocks: Sequence[int] | None = None,
    finish: tuple[str, Callable[[S], Any]] | None = None,
) -> S:
    """Summarize every row block and merge the summaries in a tree.

    Parameters
    ----------
    *streams : ndarray, SciPy sparse, Dask array, Blocks, or an object with a Dask array ``counts``
        Data of shape ``(n_rows, n_columns)`` in the same row blocks; ``summarize_block`` gets one block of each stream.
    summarize_block : callable
        Function from blocks to a summary. A block is a ``csr_array``, an ndarray, or a result of ``Blocks.read``.
    fan_in : int, optional
        Number of neighboring summaries that one merge takes; by default ``dspectral.fan-in`` of Dask's configuration,
        or 2.
    name : str, default="summary"
        Name of the pass: its task groups are ``{name}-block`` and ``merge-level-1``, ``merge-level-2``, ...
    checkpoints : str or Path, optional
        Folder or URL for checkpoints, as for :func:`dspectral.checkpoints`. ``summarize_block`` must be a function of
        dspectral.
    blocks : sequence of int, optional
        Numbers of the blocks to read, by default all.
    finish : (str, callable), optional
        Name and function of a last task, which gets the summary of all rows on the worker that holds it.

    Returns
    -------
    Summary, or result of ``finish``
        Summary of all rows, in the caller's process.

    Raises
    ------
    ValueError
        If row blocks of streams differ or have unknown sizes, or ``summarize_block`` raises it with the block named.

    Notes
    -----
    One pass. One task reads and summarizes a block, or several small blocks if a summary is much larger than they are.
    In-memory arrays are split into blocks of 64 MiB and summarized by threads of this process, even with a Dask client.

    Examples
    --------
    >>> import numpy as np
    >>> from dspectral.decomposition.moments import Moments
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> summarize(X, summarize_block=Moments.from_block).gram
    array([[20., 26.],
           [26., 35.]])
    """
    fan_in = get_fan_in() if fan_in is None else fan_in
    if fan_in < 2:
        raise ValueError(f"fan_in={fan_in} must be at least 2, the smallest number of summaries that a merge combines")
    is_local = all(is_in_memory(stream) for stream in streams)
    arrays: list[da.Array] = []
    for stream in streams:
        sizes = arrays[0].chunks[0] if arrays else ()
        arrays.append(as_row_chunks(stream, name, is_local=is_local, sizes=sizes))
    check_aligned_chunks(arrays)
    context, damaged = current_context(), set[str]()
    n_started = context.fit.n_started if context.fit else 0
    cache = current_cache() if checkpoints is None else resolve_url(checkpoints)
    while True:
        result, pass_info, pass_memory = _build_pass_graph(
            arrays, summarize_block, fan_in, name, is_local, cache, damaged, blocks, finish
        )
        try:
            with _pass_context(context, pass_info, pass_memory, is_local=is_local) as compute_options:
                (summary,) = dask.compute(result, **compute_options)
        except CheckpointError as error:
            message, path = error.args
            warnings.warn(message, stacklevel=2)
            damaged.add(path)
            if context.fit is not None:  # the failed attempt does not count as a pass
                context.fit.n_started = n_started
        else:
            return summary if cache is None or finish else summary.summary


def _build_pass_graph(
    arrays: list[da.Array],
    summarize_block: Callable[..., S],
    fan_in: int,
    name: str,
    is_local: bool,
    cache: ResolvedURL | None,
    damaged: set[str],
    blocks: Sequence[int] | None,
    finish: tuple[str, Callable[[S], Any]] | None,
) -> tuple[Delayed, PassStarted, PassMemory]:
    """Return the graph of one attempt at a pass, its description and its memory estimate."""
    # Keys are new in each pass, because a scheduler reuses the result of an earlier task with the same key.
    label = make_block_layer_name(name)
    block_groups = (
        group_blocks(summarize_block, arrays) if blocks is None else [range(block, block + 1) for block in blocks]
    )
    run = label.rpartition("-")[2]
    graph, tree = block_tasks(summarize_block, arrays, label, block_groups)
    leaves = list(tree)
    merges, n_blocks = count_merges(len(leaves), fan_in), sum(map(len, block_groups))
    pass_info = PassStarted(
        run,
        name,
        label,
        len(leaves),
        tuple(get_merge_group(level, run) for level in range(1, len(merges) + 1)),
        sum(merges),
        fan_in,
        n_rows=count_rows(arrays) if blocks is None else None,
        n_bytes=count_bytes(arrays) if blocks is None else None,
        n_joined=n_blocks if len(leaves) < n_blocks else 0,
        finish=finish[0] if finish else "",
    )
    client = _get_client(is_local=is_local)
    root = add_merge_tree(graph, tree, fan_in, run)
    if cache is not None:
        checkpoints = Checkpoints(CheckpointFolder(*cache), summarize_block, get_machine_kinds(client), damaged)
        graph, root = checkpoints.rewrite(graph, tree, root)
        n_blocks, n_merges = (sum(key in graph for key in keys) for keys in (leaves, list(tree)[len(leaves) :]))
        pass_info = pass_info._replace(
            n_kept=pass_info.n_blocks - n_blocks, n_kept_merges=pass_info.n_merges - n_merges
        )
    if finish is not None:
        key = (f"{finish[0]}-{run}", 0)
        graph[key], root = make_task(key, _call_on_summary, finish[1], task_ref(root)), key
    label, graph = f"merge-{run}", _add_guards(leaves, graph)
    # Annotations of the caller come first.
    workers = {} if client is None or dask.get_annotations() else assign_workers(client, leaves)
    with dask.annotate(workers=workers.get, allow_other_workers=True) if workers else nullcontext():
        layers = HighLevelGraph.from_collections(label, graph)
    result = Delayed(root, layers, layer=label)
    return result, pass_info, estimate_pass_memory(summarize_block, arrays, block_groups, fan_in)


def _call_on_summary(function: Callable[[Any], Any], summary: Any) -> Any:
    """Call a function of the summary of all rows, with BLAS in one thread."""
    with blas_in_one_thread():
        return function(copy_unaligned(summary.summary if isinstance(summary, TimedSummary) else summary))


def check_pass_memory(X: Stream, summarize_block: Callable[..., S], name: str) -> None:
    """Raise an error if a later pass, with arguments that are not computed yet, does not fit in memory."""
    is_local = is_in_memory(X)
    arrays = [as_row_chunks(X, name, is_local=is_local)]
    pass_memory = estimate_pass_memory(summarize_block, arrays, group_blocks(summarize_block, arrays), get_fan_in())
    # Computing the arguments takes as much again as they hold.
    check_memory(pass_memory, _get_client(is_local=is_local), name, 2 * pass_memory.bound)


def _add_guards(leaves: Iterable[Key], graph: Graph) -> Graph:
    """Fuse leaves with the tasks that read their blocks, and add retries and comparisons of workers."""
    graph = fuse_into(leaves, graph)
    return add_retries(require_same_bits(graph) if requires_same_bits() else graph)


def map_rows(
    X: Stream,
    function: Callable[[Any], Rows],
    *,
    n_columns: int,
    dtype: DTypeLike = np.float64,
    sparse_output: bool = False,
    name: str = "map",
    n_rows: Sequence[int] | None = None,
) -> Any:
    """Apply a function to every row block, now for rows in memory, else lazily; `n_rows`: rows of each block."""
    if is_in_memory(X) and not isinstance(X, Blocks):
        # The same blocks as in a pass over these rows. They have no declared shapes to check.
        rows: Any = sparse.csr_array(X) if is_sparse(X) else X
        sizes = chunk_rows(rows).chunks[0]
        group, n_bytes = f"{name}-block", get_nbytes(rows)
        pass_info = PassStarted(uuid4().hex, name, group, len(sizes), n_rows=rows.shape[0], n_bytes=n_bytes)
        shared = SharedFunction(np.empty(0, dtype=np.uint8), function)
        with _emit_pass_events(current_context(), pass_info):
            slices = enumerate(iterate_slices(rows, sizes))
            parts = [call_on_blocks(shared, i, (None,), (), block) for i, block in slices]
        return sparse.vstack(parts, format="csr") if sparse_output else np.concatenate(parts)
    if isinstance(X, Blocks):
        if n_rows is None or len(n_rows) != len(X.items):
            raise ValueError(f"n_rows={n_rows} must have one number of rows for each of the {len(X.items)} blocks")
        array, sizes = blocks_as_array(X, f"{name}-read-{uuid4().hex}"), tuple(n_rows)
    else:
        array = as_dask_rows(X, needs_sizes=False)
        sizes = array.chunks[0]
    meta: Any = sparse.csr_array((0, 0), dtype=dtype) if sparse_output else np.empty((0, 0), dtype=dtype)
    label = make_block_layer_name(name)
    graph, tree = block_tasks(function, [array], label)
    graph = _add_guards(tree, graph)
    chunks = (sizes, (n_columns,))
    mapped = da.Array(HighLevelGraph.from_collections(label, graph), label, chunks=chunks, meta=meta)
    annotate(mapped, STORE_ANNOTATION, get_annotation(array, STORE_ANNOTATION))
    # The functions of dspectral that return sparse rows keep the size of a block.
    return set_block_nbytes(mapped, get_block_nbytes(array) if sparse_output else None)


def collect_rows(X: "Rows | da.Array") -> Any:
    """Compute the result of :func:`map_rows` and return it as one array."""
    if not isinstance(X, da.Array):
        return dask.compute(X)[0]
    n_rows, n_bytes = count_rows([X]), count_bytes([X])
    name = get_pass_name(str(X.name)) or str(X.name).rpartition("-")[0]
    pass_info = PassStarted(uuid4().hex, name, str(X.name), X.numblocks[0], n_rows=n_rows, n_bytes=n_bytes)
    with _pass_context(current_context(), pass_info) as compute_options:
        return dask.compute(X, **compute_options)[0]


@contextmanager
def thread_pool_options(*, force: bool = False) -> Iterator[dict[str, Any]]:
    """Yield options of ``dask.compute`` with a thread pool; on exit, also by an error, its tasks have ended."""
    if not force and dask.base.get_scheduler() not in (None, dask.threaded.get):
        yield {}  # a single-threaded, process or distributed scheduler
        return
    with ThreadPoolExecutor(dask.config.get("num_workers", None) or CPU_COUNT) as pool:
        yield {"pool": pool, **({"scheduler": "threads"} if force else {})}


def run_tasks(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    *,
    name: str,
    n_rows: int | None = None,
    n_bytes: int | None = None,
) -> list[Any]:
    """Run ``function(item)`` as one task for each item; return the results in order. All tasks have ended on exit.

    >>> run_tasks(len, ["a", "bc"], name="measure")
    [1, 2]
    """
    run = uuid4().hex
    label = f"{name}-{run}"
    # One node holds the function and its bound arguments.
    shared = f"shared-{label}"
    keys = [(label, i) for i in range(len(items))]
    layer: Graph = {shared: shared_node(shared, function)}
    for key, item in zip(keys, items, strict=True):
        layer[key] = make_task(key, run_single_threaded, task_ref(shared), item)
    graph = HighLevelGraph.from_collections(label, _add_guards((), layer))
    pass_info = PassStarted(run, name, label, len(keys), n_rows=n_rows, n_bytes=n_bytes)
    results = [Delayed(key, graph, layer=label) for key in keys]
    with _pass_context(current_context(), pass_info) as compute_options, thread_pool_options() as threads:
        return list(dask.compute(*results, **{**threads, **compute_options}))


def _get_client(*, is_local: bool) -> Client | None:
    """Return the client that computes a pass, or None for rows in memory and inside a Dask task."""
    return None if is_local or is_in_worker_task() else current_client()


@contextmanager
def _pass_context(
    context: RunContext,
    pass_info: PassStarted,
    pass_memory: PassMemory | None = None,
    *,
    is_local: bool = False,
) -> Iterator[dict[str, Any]]:
    """Context of one pass: check memory, emit events, and yield keyword arguments for ``dask.compute``."""
    client, fit, is_pass = _get_client(is_local=is_local), context.fit, pass_memory is not None
    if context.dry_run and fit is not None and fit.is_counted(is_pass=is_pass):
        # `dspectral.plan` runs a fit up to this exception.
        raise StopAtFirstPass(pass_info, pass_memory)
    if pass_memory is not None:
        check_memory(pass_memory, client, pass_info.name)
    if client is not None and client.status == "running":
        compare_machines(client)
    # Naming a scheduler overrides a distributed client, to which all rows in memory would be copied.
    is_sync = dask.config.get("scheduler", None) in ("sync", "synchronous", "single-threaded")
    # The graph of rows in memory has only tasks that are needed.
    scheduler = dask.local.get_sync if is_sync else dask.threaded.get  # by its name, Dask would import distributed
    local = {"scheduler": scheduler, "optimize_graph": False} if is_local else {}
    # The limit of BLAS threads covers the whole pass, because each change restarts its threads.
    with (
        blas_in_one_thread(),
        warnings.catch_warnings(),
        _emit_pass_events(context, pass_info, is_pass=is_pass, client=client) as compute_options,
    ):
        # Dask advises to scatter large arrays, but scattered data is lost if its worker dies, unlike data in the graph.
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield {**local, **compute_options}


@contextmanager
def _emit_pass_events(
    context: RunContext, pass_info: PassStarted, *, is_pass: bool = False, client: Client | None = None
) -> Iterator[dict[str, Any]]:
    """Context that emits the start and end of a pass, and yields keyword arguments for ``dask.compute``."""
    pass_info = pass_info._replace(on_cluster=client is not None)
    if fit := context.fit:
        is_counted = fit.is_counted(is_pass=is_pass)
        fit.n_started += is_counted
        number, n_passes = (fit.n_started, fit.n_passes) if is_counted else (None, None)
        fits, names = zip(*((outer.token, outer.name) for outer in fit.path), strict=True)
        pass_info = pass_info._replace(fits=fits, fit_names=names, number=number, n_passes=n_passes)
    emit(pass_info)
    if pass_info.n_kept:
        emit(BlocksDone(pass_info.run, pass_info.n_kept, pass_info.n_kept_merges))
    start, error = time.perf_counter(), ""
    try:
        if client is not None:
            yield {"scheduler": partial(compute_on_cluster, client, pass_info)}
        elif is_watched():
            # Passed in the call, because a fit in another thread would unregister global callbacks.
            yield {"callbacks": [*Callback.active, normalize_callback(_LocalCounts(pass_info))]}
        else:
            yield {}
    # Also on interrupts: PassEnded names the exception.
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        seconds = time.perf_counter() - start
        emit(PassEnded(pass_info.run, pass_info.name, seconds, error, pass_info.on_cluster))


class _LocalCounts(Callback):
    """Dask callback that counts the finished tasks of one pass in this process."""

    def __init__(self, pass_info: PassStarted) -> None:
        super().__init__()
        self._pass_info, self._n_blocks, self._n_merges = pass_info, pass_info.n_kept, pass_info.n_kept_merges

    def _posttask(self, key: Hashable, *_others: Any) -> None:
        # Dask calls this in the thread that waits for the pass, one task at a time. Nodes of shared functions and
        # tasks that only read do not count.
        group = str(key[0] if isinstance(key, tuple) else key)
        is_block, is_merge = group == self._pass_info.block_group, group in self._pass_info.merge_groups
        self._n_blocks, self._n_merges = self._n_blocks + is_block, self._n_merges + is_merge
        if is_block or is_merge:
            call_hooks(BlocksDone(self._pass_info.run, self._n_blocks, self._n_merges), tuple(CALLBACKS))
