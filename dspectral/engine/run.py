"""Run a pass: blocks to a graph, through the rewrites around it, to Dask; this file alone knows all others."""

import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
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
from numpy.typing import DTypeLike
from scipy import sparse

from dspectral.configuration import configured_fan_in, count_merges, requires_same_bits
from dspectral.engine.around.checkpoints import CheckpointError, CheckpointFolder, Checkpoints
from dspectral.engine.around.cluster import compare_machines, get_machine_kinds, require_same_bits
from dspectral.engine.around.cluster_pass import compute_on_cluster
from dspectral.engine.around.context import (
    RunContext,
    StopAtFirstPass,
    client_in_force,
    current_cache,
    current_context,
    is_in_worker_task,
)
from dspectral.engine.around.events import BlocksDone, Client, PassEnded, PassStarted
from dspectral.engine.around.memory import PassMemory, check_memory, estimate_pass_memory, group_blocks
from dspectral.engine.around.progress import LocalCounts, merge_and_emit
from dspectral.engine.around.retries import add_retries, run_single_threaded
from dspectral.engine.blocks import (
    ROWS_OF,
    Blocks,
    Stream,
    annotated,
    as_row_chunks,
    block_tasks,
    blocks_as_array,
    bytes_said,
    call_on_blocks,
    check_aligned_chunks,
    count_bytes,
    count_rows,
    get_annotation,
    in_blocks,
    is_in_memory,
    lazy_rows,
    say_bytes,
    slices_of,
)
from dspectral.engine.graph import (
    Graph,
    Key,
    SharedFunction,
    add_merge_tree,
    fuse_into,
    get_merge_group,
    make_task,
    merge_on_level,
    new_block_layer,
    pass_of_layer,
    shared_node,
    task_ref,
)
from dspectral.engine.summary import Summary, bytes_of
from dspectral.linalg.blas import blas_in_one_thread
from dspectral.paths import Place, place_of
from dspectral.types import Rows, is_sparse

S = TypeVar("S", bound=Summary)


def _reset_thread_pools() -> None:
    """Let a forked process start threads of its own: it would wait for those of its parent for ever."""
    dask.threaded.default_pool, dask.threaded.pools_lock = None, Lock()
    dask.threaded.pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_thread_pools)


def summarize(
    *streams: Stream,
    of: Callable[..., S],
    fan_in: int | None = None,
    name: str = "summary",
    keep: str | Path | None = None,
) -> S:
    """Summarize every row block and merge the summaries up a tree.

    Parameters
    ----------
    *streams : ndarray, SciPy sparse, Dask array, Blocks, or an object with a Dask array ``counts``
        Data of shape ``(n_rows, n_columns)``, cut into rows alike; ``of`` gets one block of each stream.
    of : callable
        ``of(block, ...) -> Summary``. A block is a ``csr_array`` or an ndarray, or what :class:`Blocks` read.
    fan_in : int, optional
        Number of neighboring summaries that one merge takes; by default ``dspectral.fan-in`` of Dask's configuration,
        or 2.
    name : str, default="summary"
        Name of the pass: its task groups are ``{name}-block`` and ``merge-level-1``, ``merge-level-2``, ...
    keep : str or Path, optional
        Folder or URL for finished parts, as for :func:`dspectral.keep`, where ``of`` is a function of dspectral.

    Returns
    -------
    Summary
        Summary of all rows, in the caller's process.

    Raises
    ------
    ValueError
        If streams are not cut into row blocks of known sizes alike, or ``of`` refuses a block, whose number is named.

    Notes
    -----
    One pass: each block is read by one task, which also summarizes it. A task reads several small blocks of a store
    where its summary is much larger. In-memory arrays are cut into blocks of 64 MiB and summarized where they lie, by
    threads, even if a Dask client is in force.

    Examples
    --------
    >>> import numpy as np
    >>> from dspectral.decomposition.moments import Moments
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> summarize(X, of=Moments.of).gram
    array([[20., 26.],
           [26., 35.]])
    """
    fan_in = configured_fan_in() if fan_in is None else fan_in
    if fan_in < 2:
        raise ValueError(f"fan_in is {fan_in}, but a merge takes at least 2 summaries")
    is_local = all(is_in_memory(stream) for stream in streams)
    arrays = [as_row_chunks(stream, name, is_local=is_local) for stream in streams]
    check_aligned_chunks(arrays)
    context, damaged = current_context(), set[str]()
    n_started = context.fit.n_started if context.fit else 0
    cache = current_cache() if keep is None else place_of(keep)
    while True:
        result, pass_info, need = _build_pass_graph(
            context, arrays, of, fan_in, name, is_local, cache, damaged
        )
        try:
            with _pass_context(context, result.dask, pass_info, need, is_local=is_local) as how:
                (summary,) = dask.compute(result, **how)
        except CheckpointError as error:
            sentence, path = error.args
            warnings.warn(sentence, stacklevel=2)
            damaged.add(path)
            if context.fit is not None:  # the attempt that it ended was no pass
                context.fit.n_started = n_started
        else:
            return summary if cache is None else summary.summary  # type: ignore[no-any-return]


def _build_pass_graph(
    context: RunContext,
    arrays: list[da.Array],
    of: Callable[..., S],
    fan_in: int,
    name: str,
    is_local: bool,
    cache: Place | None,
    damaged: set[str],
) -> tuple[Delayed, PassStarted, PassMemory]:
    """Return the graph of one attempt at a pass, what it will do, and what it takes."""
    # Keys are new in each pass: a scheduler takes tasks of one key for the same task, and would hand out the result of
    # another `of`.
    label, spans = new_block_layer(name), group_blocks(of, arrays)
    run = label.rpartition("-")[2]
    graph, tree = block_tasks(of, arrays, label, spans)
    leaves = list(tree)
    merges, n_blocks = count_merges(len(leaves), fan_in), arrays[0].numblocks[0]
    pass_info = PassStarted(
        run,
        name,
        label,
        len(leaves),
        tuple(get_merge_group(level, run) for level in range(1, len(merges) + 1)),
        sum(merges),
        fan_in,
        n_rows=count_rows(arrays),
        n_bytes=count_bytes(arrays),
        n_joined=n_blocks if len(leaves) < n_blocks else 0,
    )
    client = _get_client(is_local=is_local)
    is_heard = client is not None and (context.has_listeners or context.counts_blocks)
    fit = context.fit.token if context.fit else ""
    merge = partial(merge_and_emit, fit, run) if is_heard else merge_on_level
    root = add_merge_tree(graph, tree, fan_in, run, merge)
    if cache is not None:
        checkpoints = Checkpoints(CheckpointFolder(*cache), of, get_machine_kinds(client), damaged)
        graph, root = checkpoints.rewrite(graph, tree, root)
        n_blocks, n_merges = (
            sum(key in graph for key in keys) for keys in (leaves, list(tree)[len(leaves) :])
        )
        pass_info = pass_info._replace(
            n_kept=pass_info.n_blocks - n_blocks, n_kept_merges=pass_info.n_merges - n_merges
        )
    label, graph = f"merge-{run}", _add_guards(leaves, graph)
    result = Delayed(root, HighLevelGraph.from_collections(label, graph), layer=label)
    return result, pass_info, estimate_pass_memory(of, arrays, spans, fan_in)


def _add_guards(leaves: Iterable[Key], graph: Graph) -> Graph:
    """Return the graph as it runs: leaves fused with what they read, workers compared, and tasks tried again."""
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
    """Apply a function to every row block: at once in memory, lazily to everything else, which gives a Dask array.

    ``n_rows`` says how many rows each of :class:`Blocks` becomes. Shapes: X (n_rows, n_columns_in); returns (n_rows,
    n_columns).
    """
    if is_in_memory(X) and not isinstance(X, Blocks):
        # Rows in memory are mapped at once, over the cuts that a pass over them would have. No array has made a
        # promise about their blocks, so there is none to check.
        rows: Any = sparse.csr_array(X) if is_sparse(X) else X
        sizes = in_blocks(rows).chunks[0]
        group, n_bytes = f"{name}-block", bytes_of(rows)
        pass_info = PassStarted(uuid4().hex, name, group, len(sizes), n_rows=rows.shape[0], n_bytes=n_bytes)
        shared = SharedFunction(np.empty(0, dtype=np.uint8), function)
        with _emit_pass_events(current_context(), pass_info):
            slices = enumerate(slices_of(rows, sizes))
            parts = [call_on_blocks(shared, i, (None,), (), block) for i, block in slices]
        return sparse.vstack(parts, format="csr") if sparse_output else np.concatenate(parts)
    if isinstance(X, Blocks):
        if n_rows is None or len(n_rows) != len(X.items):
            raise ValueError(f"n_rows must say of each of the {len(X.items)} blocks how many rows it becomes")
        array, sizes = blocks_as_array(X, f"{name}-read-{uuid4().hex}"), tuple(n_rows)
    else:
        array = lazy_rows(X)
        sizes = array.chunks[0]
    meta: Any = sparse.csr_array((0, 0), dtype=dtype) if sparse_output else np.empty((0, 0), dtype=dtype)
    label = new_block_layer(name)
    graph, tree = block_tasks(function, [array], label)
    graph = _add_guards(tree, graph)
    chunks = (sizes, (n_columns,))
    mapped = da.Array(HighLevelGraph.from_collections(label, graph), label, chunks=chunks, meta=meta)
    annotated(mapped, ROWS_OF, get_annotation(array, ROWS_OF))
    # Weights and the like leave blocks about as large as they were.
    return say_bytes(mapped, bytes_said(array) if sparse_output else None)


def collect_rows(X: "Rows | da.Array") -> Any:
    """Bring the result of :func:`map_rows` into this process."""
    if not isinstance(X, da.Array):
        return dask.compute(X)[0]
    n_rows, n_bytes = count_rows([X]), count_bytes([X])
    name = pass_of_layer(str(X.name)) or str(X.name).rpartition("-")[0]
    pass_info = PassStarted(uuid4().hex, name, str(X.name), X.numblocks[0], n_rows=n_rows, n_bytes=n_bytes)
    with _pass_context(current_context(), X.dask, pass_info) as how:
        return dask.compute(X, **how)[0]


def run_tasks(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    *,
    name: str,
    n_rows: int | None = None,
    n_bytes: int | None = None,
    **options: Any,
) -> list[Any]:
    """Run ``function(item)`` as one task for each item, with options of ``dask.compute``; results are in their order.

    >>> run_tasks(len, ["a", "bc"], name="measure")
    [1, 2]
    """
    run = uuid4().hex
    label = f"{name}-{run}"
    # The function is one node of the graph, whatever is bound to it.
    shared = f"shared-{label}"
    keys = [(label, i) for i in range(len(items))]
    layer: Graph = {shared: shared_node(shared, function)}
    for key, item in zip(keys, items, strict=True):
        layer[key] = make_task(key, run_single_threaded, task_ref(shared), item)
    graph = HighLevelGraph.from_collections(label, _add_guards((), layer))
    pass_info = PassStarted(run, name, label, len(keys), n_rows=n_rows, n_bytes=n_bytes)
    results = [Delayed(key, graph, layer=label) for key in keys]
    with _pass_context(current_context(), graph, pass_info) as how:
        return list(dask.compute(*results, **options, **how))


def _get_client(*, is_local: bool) -> Client | None:
    """Return the client that computes a pass: none of what lies in this process, or within a task."""
    return None if is_local or is_in_worker_task() else client_in_force()


@contextmanager
def _pass_context(
    context: RunContext,
    graph: HighLevelGraph,
    pass_info: PassStarted,
    need: PassMemory | None = None,
    *,
    is_local: bool = False,
) -> Iterator[dict[str, Any]]:
    """Say how ``dask.compute`` is called in the body, and emit the events of the pass; refuse what does not fit."""
    client, fit, is_pass = _get_client(is_local=is_local), context.fit, need is not None
    if context.dry_run and fit is not None and fit.is_counted(is_pass=is_pass):
        # `dspectral.plan` lets a fit run until its first pass is known, and goes on from what this carries.
        raise StopAtFirstPass(pass_info, need, graph)
    if need is not None:
        check_memory(need, client, pass_info.name)
    if client is not None and client.status == "running":
        compare_machines(client)
    # A scheduler that is named goes before a distributed client, to which all the data in memory would be copied.
    is_sync = dask.config.get("scheduler", None) in ("sync", "synchronous", "single-threaded")
    local = {"scheduler": "sync" if is_sync else "threads"} if is_local else {}
    # BLAS is held from first to last: it starts its threads anew each time that its limit changes.
    with (
        blas_in_one_thread(),
        warnings.catch_warnings(),
        _emit_pass_events(context, pass_info, is_pass=is_pass, client=client) as how,
    ):
        # Dask advises to scatter large arrays; but scattered data is lost when its worker dies, and fits must survive
        # that, as data in the graph does.
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield {**local, **how}


@contextmanager
def _emit_pass_events(
    context: RunContext, pass_info: PassStarted, *, is_pass: bool = False, client: Client | None = None
) -> Iterator[dict[str, Any]]:
    """Emit the events of a pass, numbered if it reads data, around the body; yield options of ``dask.compute``."""
    if fit := context.fit:
        is_counted = fit.is_counted(is_pass=is_pass)
        fit.n_started += is_counted
        number, n_passes = (fit.n_started, fit.n_passes) if is_counted else (None, None)
        pass_info = pass_info._replace(fit=fit.token, fit_name=fit.name, number=number, n_passes=n_passes)
    context.emit(pass_info, client)
    if pass_info.n_kept:
        context.emit(BlocksDone(pass_info.fit, pass_info.run, pass_info.n_kept, pass_info.n_kept_merges))
    start, error = time.perf_counter(), ""
    try:
        if client is not None:
            yield {"scheduler": partial(compute_on_cluster, client, pass_info)}
        elif context.counts_blocks:
            # Named in the call and not registered: a fit in another thread would take registered ones away.
            yield {"callbacks": [*Callback.active, normalize_callback(LocalCounts(pass_info, context.emit))]}
        else:
            yield {}
    # Interrupts too: the event of the end says what ended the pass.
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        seconds = time.perf_counter() - start
        context.emit(PassEnded(pass_info.fit, pass_info.run, pass_info.name, seconds, error), client)
