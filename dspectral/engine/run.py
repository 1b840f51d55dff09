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

from dspectral.configuration import configured_fan_in, merges_of, wants_same_bits
from dspectral.engine.around.checkpoints import Checkpoints, Folder, PartError
from dspectral.engine.around.cluster import compare_machines, kinds_of_machines, same_bits_only
from dspectral.engine.around.cluster_pass import compute_on
from dspectral.engine.around.context import (
    FirstPass,
    RunContext,
    client_in_force,
    current,
    current_cache,
    runs_in_task,
)
from dspectral.engine.around.events import BlocksDone, Client, PassBegan, PassEnded
from dspectral.engine.around.memory import PassNeed, check_memory, need_of_pass, spans_for
from dspectral.engine.around.progress import LocalCounts, merge_and_emit
from dspectral.engine.around.retries import pinned_and_named, with_retries
from dspectral.engine.blocks import (
    ROWS_OF,
    Blocks,
    Stream,
    annotated,
    annotation,
    as_array,
    block_tasks,
    bytes_in,
    bytes_said,
    call_on_blocks,
    check_cuts,
    in_blocks,
    in_cuts,
    is_in_memory,
    lazy_rows,
    rows_in,
    say_bytes,
    slices_of,
)
from dspectral.engine.graph import (
    Graph,
    Key,
    Shared,
    call,
    for_all,
    fuse_into,
    layer_of_blocks,
    merge_group,
    merge_on_level,
    merge_tree,
    pass_of_layer,
    result_of,
)
from dspectral.engine.summary import Summary, bytes_of
from dspectral.linalg.blas import blas_in_one_thread
from dspectral.paths import Place, place_of
from dspectral.types import Rows, is_sparse

S = TypeVar("S", bound=Summary)


def _forget_threads() -> None:
    """Let a forked process start threads of its own: it would wait for those of its parent for ever."""
    dask.threaded.default_pool, dask.threaded.pools_lock = None, Lock()
    dask.threaded.pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


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
    arrays = [in_cuts(stream, name, is_local=is_local) for stream in streams]
    check_cuts(arrays)
    context, damaged = current(), set[str]()
    n_begun = context.fit.n_begun if context.fit else 0
    cache = current_cache() if keep is None else place_of(keep)
    while True:
        result, begun, need = _graph_of_pass(context, arrays, of, fan_in, name, is_local, cache, damaged)
        try:
            with _computing(context, result.dask, begun, need, is_local=is_local) as how:
                (summary,) = dask.compute(result, **how)
        except PartError as error:
            sentence, path = error.args
            warnings.warn(sentence, stacklevel=2)
            damaged.add(path)
            if context.fit is not None:  # the attempt that it ended was no pass
                context.fit.n_begun = n_begun
        else:
            return summary if cache is None else summary.summary  # type: ignore[no-any-return]


def _graph_of_pass(
    context: RunContext,
    arrays: list[da.Array],
    of: Callable[..., S],
    fan_in: int,
    name: str,
    is_local: bool,
    cache: Place | None,
    damaged: set[str],
) -> tuple[Delayed, PassBegan, PassNeed]:
    """Return the graph of one attempt at a pass, what it will do, and what it takes."""
    # Keys are new in each pass: a scheduler takes tasks of one key for the same task, and would hand out the result of
    # another `of`.
    label, spans = layer_of_blocks(name), spans_for(of, arrays)
    run = label.rpartition("-")[2]
    graph, tree = block_tasks(of, arrays, label, spans)
    leaves = list(tree)
    merges, n_blocks = merges_of(len(leaves), fan_in), arrays[0].numblocks[0]
    begun = PassBegan(
        run,
        name,
        label,
        len(leaves),
        tuple(merge_group(level, run) for level in range(1, len(merges) + 1)),
        sum(merges),
        fan_in,
        n_rows=rows_in(arrays),
        n_bytes=bytes_in(arrays),
        n_joined=n_blocks if len(leaves) < n_blocks else 0,
    )
    client = _client_of(is_local=is_local)
    is_heard = client is not None and (context.has_listeners or context.counts_blocks)
    fit = context.fit.token if context.fit else ""
    merge = partial(merge_and_emit, fit, run) if is_heard else merge_on_level
    root = merge_tree(graph, tree, fan_in, run, merge)
    if cache is not None:
        checkpoints = Checkpoints(Folder(*cache), of, kinds_of_machines(client), damaged)
        graph, root = checkpoints.rewrite(graph, tree, root)
        n_blocks, n_merges = (
            sum(key in graph for key in keys) for keys in (leaves, list(tree)[len(leaves) :])
        )
        begun = begun._replace(n_kept=begun.n_blocks - n_blocks, n_kept_merges=begun.n_merges - n_merges)
    label, graph = f"merge-{run}", _guarded(leaves, graph)
    result = Delayed(root, HighLevelGraph.from_collections(label, graph), layer=label)
    return result, begun, need_of_pass(of, arrays, spans, fan_in)


def _guarded(leaves: Iterable[Key], graph: Graph) -> Graph:
    """Return the graph as it runs: leaves fused with what they read, workers compared, and tasks tried again."""
    graph = fuse_into(leaves, graph)
    return with_retries(same_bits_only(graph) if wants_same_bits() else graph)


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
        begun = PassBegan(uuid4().hex, name, group, len(sizes), n_rows=rows.shape[0], n_bytes=n_bytes)
        shared = Shared(np.empty(0, dtype=np.uint8), function)
        with _running_pass(current(), begun):
            slices = enumerate(slices_of(rows, sizes))
            parts = [call_on_blocks(shared, i, (None,), (), block) for i, block in slices]
        return sparse.vstack(parts, format="csr") if sparse_output else np.concatenate(parts)
    if isinstance(X, Blocks):
        if n_rows is None or len(n_rows) != len(X.items):
            raise ValueError(f"n_rows must say of each of the {len(X.items)} blocks how many rows it becomes")
        array, sizes = as_array(X, f"{name}-read-{uuid4().hex}"), tuple(n_rows)
    else:
        array = lazy_rows(X)
        sizes = array.chunks[0]
    meta: Any = sparse.csr_array((0, 0), dtype=dtype) if sparse_output else np.empty((0, 0), dtype=dtype)
    label = layer_of_blocks(name)
    graph, tree = block_tasks(function, [array], label)
    graph = _guarded(tree, graph)
    chunks = (sizes, (n_columns,))
    mapped = da.Array(HighLevelGraph.from_collections(label, graph), label, chunks=chunks, meta=meta)
    annotated(mapped, ROWS_OF, annotation(array, ROWS_OF))
    # Weights and the like leave blocks about as large as they were.
    return say_bytes(mapped, bytes_said(array) if sparse_output else None)


def collect_rows(X: "Rows | da.Array") -> Any:
    """Bring the result of :func:`map_rows` into this process."""
    if not isinstance(X, da.Array):
        return dask.compute(X)[0]
    n_rows, n_bytes = rows_in([X]), bytes_in([X])
    name = pass_of_layer(str(X.name)) or str(X.name).rpartition("-")[0]
    begun = PassBegan(uuid4().hex, name, str(X.name), X.numblocks[0], n_rows=n_rows, n_bytes=n_bytes)
    with _computing(current(), X.dask, begun) as how:
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
    layer: Graph = {shared: for_all(shared, function)}
    for key, item in zip(keys, items, strict=True):
        layer[key] = call(key, pinned_and_named, result_of(shared), item)
    graph = HighLevelGraph.from_collections(label, _guarded((), layer))
    begun = PassBegan(run, name, label, len(keys), n_rows=n_rows, n_bytes=n_bytes)
    results = [Delayed(key, graph, layer=label) for key in keys]
    with _computing(current(), graph, begun) as how:
        return list(dask.compute(*results, **options, **how))


def _client_of(*, is_local: bool) -> Client | None:
    """Return the client that computes a pass: none of what lies in this process, or within a task."""
    return None if is_local or runs_in_task() else client_in_force()


@contextmanager
def _computing(
    context: RunContext,
    graph: HighLevelGraph,
    begun: PassBegan,
    need: PassNeed | None = None,
    *,
    is_local: bool = False,
) -> Iterator[dict[str, Any]]:
    """Say how ``dask.compute`` is called in the body, and emit the events of the pass; refuse what does not fit."""
    client, fit, is_pass = _client_of(is_local=is_local), context.fit, need is not None
    if context.dry_run and fit is not None and fit.is_counted(is_pass=is_pass):
        # `dspectral.plan` lets a fit run until its first pass is known, and goes on from what this carries.
        raise FirstPass(begun, need, graph)
    if need is not None:
        check_memory(need, client, begun.name)
    if client is not None and client.status == "running":
        compare_machines(client)
    # A scheduler that is named goes before a distributed client, to which all the data in memory would be copied.
    is_sync = dask.config.get("scheduler", None) in ("sync", "synchronous", "single-threaded")
    local = {"scheduler": "sync" if is_sync else "threads"} if is_local else {}
    # BLAS is held from first to last: it starts its threads anew each time that its limit changes.
    with (
        blas_in_one_thread(),
        warnings.catch_warnings(),
        _running_pass(context, begun, is_pass=is_pass, client=client) as how,
    ):
        # Dask advises to scatter large arrays; but scattered data is lost when its worker dies, and fits must survive
        # that, as data in the graph does.
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield {**local, **how}


@contextmanager
def _running_pass(
    context: RunContext, begun: PassBegan, *, is_pass: bool = False, client: Client | None = None
) -> Iterator[dict[str, Any]]:
    """Emit the events of a pass, numbered if it reads data, around the body; yield options of ``dask.compute``."""
    if fit := context.fit:
        is_counted = fit.is_counted(is_pass=is_pass)
        fit.n_begun += is_counted
        number, n_passes = (fit.n_begun, fit.n_passes) if is_counted else (None, None)
        begun = begun._replace(fit=fit.token, of=fit.name, number=number, n_passes=n_passes)
    context.emit(begun, client)
    if begun.n_kept:
        context.emit(BlocksDone(begun.fit, begun.run, begun.n_kept, begun.n_kept_merges))
    start, error = time.perf_counter(), ""
    try:
        if client is not None:
            yield {"scheduler": partial(compute_on, client, begun)}
        elif context.counts_blocks:
            # Named in the call and not registered: a fit in another thread would take registered ones away.
            yield {"callbacks": [*Callback.active, normalize_callback(LocalCounts(begun, context.emit))]}
        else:
            yield {}
    # Interrupts too: the event of the end says what ended the pass.
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        seconds = time.perf_counter() - start
        context.emit(PassEnded(begun.fit, begun.run, begun.name, seconds, error), client)
