"""Passes over blocks: summarize and merge them up a tree, map them, or run a task for each item of a list."""

import os
import time
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
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

from dspectral.engine.blas import aligned, blas_in_one_thread
from dspectral.engine.cluster import compare_machines
from dspectral.engine.cluster_pass import compute_on
from dspectral.engine.configuration import configured_fan_in
from dspectral.engine.events import (
    BlocksDone,
    Client,
    Merged,
    PassBegan,
    PassEnded,
    client_in_force,
    counts_blocks,
    emit,
    emit_from_worker,
    has_listeners,
    runs_in_task,
)
from dspectral.engine.fits import FirstPass, fit_in_force, has_number, next_number, scratch_of_plan
from dspectral.engine.keeping import Checkpoints, Part, PartError, checkpoints_of_pass
from dspectral.engine.memory import PassNeed, admit, merges_of, need_of_pass, spans_for
from dspectral.engine.row_blocks import (
    ROWS_OF,
    Blocks,
    Shape,
    Stream,
    annotated,
    annotation,
    as_array,
    block_tasks,
    bytes_in,
    bytes_said,
    check_cuts,
    checked_block,
    cut_again,
    in_blocks,
    in_cuts,
    is_in_memory,
    lazy_rows,
    rows_in,
    say_bytes,
    slices_of,
)
from dspectral.engine.summary import Summary, bytes_of
from dspectral.engine.tasks import (
    Graph,
    Key,
    Tree,
    call,
    for_all,
    fuse_into,
    layer_of_blocks,
    pass_of_layer,
    pinned_and_named,
    result_of,
    with_retries,
)
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
    fit, damaged = fit_in_force(), set[str]()
    n_begun = fit.n_begun if fit else 0
    while True:
        checkpoints = checkpoints_of_pass(keep, of, damaged, is_local=is_local)
        result, begun, need = _tree_of_pass(arrays, of, fan_in, name, is_local, checkpoints)
        try:
            with _computing(result.dask, begun, need, is_local=is_local) as how:
                (summary,) = dask.compute(result, **how)
        except PartError as error:
            sentence, path = error.args
            warnings.warn(sentence, stacklevel=2)
            damaged.add(path)
            if fit is not None:  # the attempt that it ended was no pass
                fit.n_begun = n_begun
        else:
            return summary if checkpoints is None else summary.summary  # type: ignore[no-any-return]


def _tree_of_pass(
    arrays: list[da.Array],
    of: Callable[..., S],
    fan_in: int,
    name: str,
    is_local: bool,
    checkpoints: Checkpoints | None,
) -> tuple[Delayed, PassBegan, PassNeed]:
    """Return the graph of one attempt at a pass, what it will do, and what it takes."""
    # Keys are new in each pass: a scheduler takes tasks of one key for the same task, and would hand out the result of
    # another `of`.
    run = uuid4().hex
    label = f"{name}-block-{run}"
    spans = spans_for(of, arrays)
    graph, tree = block_tasks(_call, of, arrays, label, spans)
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
    fit = fit_in_force()
    is_heard = not is_local and (has_listeners() or counts_blocks()) and client_in_force() is not None
    root = merge_tree(graph, tree, fan_in, run, (fit.token if fit else "") if is_heard else None)
    if checkpoints is not None:
        graph, root = checkpoints.rewrite(graph, tree, root)
        n_blocks, n_merges = (
            sum(key in graph for key in keys) for keys in (leaves, list(tree)[len(leaves) :])
        )
        begun = begun._replace(n_kept=begun.n_blocks - n_blocks, n_kept_merges=begun.n_merges - n_merges)
    label = f"merge-{run}"
    graph = with_retries(fuse_into(leaves, graph))
    result = Delayed(root, HighLevelGraph.from_collections(label, graph), layer=label)
    return result, begun, need_of_pass(of, arrays, spans, fan_in)


def merge_tree(graph: Graph, tree: Tree, fan_in: int, token: str, fit_token: str | None = None) -> Key:
    """Add merges of ``fan_in`` neighbors to a graph and its tree until one is left, whose key is returned.

    With a ``fit_token`` the merges emit events.
    """
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
            key = (merge_group(level, token), i)
            work = _merge if fit_token is None else partial(_merge_and_emit, fit_token, token, level)
            graph[key] = call(key, work, *map(result_of, group))
            tree[key] = group
            merged.append(key)
        keys = merged
    return keys[0]


def _merge(*summaries: S) -> S:
    """Merge neighbors, in order, while BLAS has one thread."""
    first, *others = aligned(summaries)
    with blas_in_one_thread():
        return first.merge(*others)  # type: ignore[no-any-return]


def _merge_and_emit(fit_token: str, run: str, level: int, *summaries: S) -> S:
    """Merge neighbors, and send the scheduler the size and the certificate of the result."""
    result = _merge(*summaries)
    emit_from_worker(merged(fit_token, run, level, result))
    return result


def merged(fit_token: str, run: str, level: int, summary: Any) -> Merged:
    """Return the event of a summary that was merged."""
    summary = summary.summary if isinstance(summary, Part) else summary
    n_rows = getattr(summary, "n_rows", None)
    error, energy = getattr(summary, "error", None), getattr(summary, "energy", None)
    absolute = relative = None
    if error is not None and energy is not None:
        absolute, relative = float(error), float(error / energy) if energy else 0.0
    n_rows = None if n_rows is None else int(n_rows)
    return Merged(fit_token, run, level, bytes_of(summary), n_rows, absolute, relative)


def merge_group(level: int, token: str) -> str:
    """Return the name of the task group of one level of merges."""
    return f"merge-level-{level}-{token}"


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
        with running_pass(begun):
            slices = enumerate(slices_of(rows, sizes))
            parts = [_call(function, i, (None,), (), block) for i, block in slices]
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
    graph, tree = block_tasks(_call, function, [array], label)
    graph = with_retries(fuse_into(tree, graph))
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
    with _computing(X.dask, begun) as how:
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
    graph = HighLevelGraph.from_collections(label, with_retries(layer))
    begun = PassBegan(run, name, label, len(keys), n_rows=n_rows, n_bytes=n_bytes)
    results = [Delayed(key, graph, layer=label) for key in keys]
    with _computing(graph, begun) as how:
        return list(dask.compute(*results, **options, **how))


@contextmanager
def _computing(
    graph: HighLevelGraph, begun: PassBegan, need: PassNeed | None = None, *, is_local: bool = False
) -> Iterator[dict[str, Any]]:
    """Say how ``dask.compute`` is called in the body, and emit the events of the pass; refuse what does not fit."""
    client, is_pass = None if is_local or runs_in_task() else client_in_force(), need is not None
    if has_number(is_pass=is_pass) and scratch_of_plan():
        # `dspectral.plan` lets a fit run until its first pass is known, and goes on from what this carries.
        raise FirstPass(begun, need, graph)
    if need is not None:
        admit(need, client, begun.name)
    if client is not None and client.status == "running":
        compare_machines(client)
    # A scheduler that is named goes before a distributed client, to which all the data in memory would be copied.
    is_sync = dask.config.get("scheduler", None) in ("sync", "synchronous", "single-threaded")
    local = {"scheduler": "sync" if is_sync else "threads"} if is_local else {}
    # BLAS is held from first to last: it starts its threads anew each time that its limit changes.
    with (
        blas_in_one_thread(),
        warnings.catch_warnings(),
        running_pass(begun, is_pass=is_pass, client=client) as how,
    ):
        # Dask advises to scatter large arrays; but scattered data is lost when its worker dies, and fits must survive
        # that, as data in the graph does.
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield {**local, **how}


class LocalCounts(Callback):
    """Counts the tasks of one pass that Dask's schedulers within this process have done."""

    def __init__(self, begun: PassBegan) -> None:
        super().__init__()
        self._begun = begun
        self._levels = {group: level for level, group in enumerate(begun.merge_groups, 1)}
        self._n_blocks, self._n_merges = begun.n_kept, begun.n_kept_merges

    def _posttask(self, key: Hashable, result: Any, *_others: Any) -> None:
        # The scheduler calls this in the thread that waits for the pass, one task at a time.
        group, begun = str(key[0] if isinstance(key, tuple) else key), self._begun
        level = self._levels.get(group)
        if level is None and group != begun.block_group:
            return
        # Either a block or a merge: what is shared by all tasks, and what reads a stream, counts as neither.
        self._n_blocks += level is None
        self._n_merges += level is not None
        if level is not None:
            emit(merged(begun.fit, begun.run, level, result))
        emit(BlocksDone(begun.fit, begun.run, self._n_blocks, self._n_merges))


@contextmanager
def running_pass(
    begun: PassBegan, *, is_pass: bool = False, client: Client | None = None
) -> Iterator[dict[str, Any]]:
    """Emit the events of a pass, numbered if it reads data, around the body; yield options of ``dask.compute``."""
    fit, number = fit_in_force(), next_number(is_pass=is_pass)
    if fit:
        n_passes = fit.n_passes if number else None
        begun = begun._replace(fit=fit.token, of=fit.name, number=number, n_passes=n_passes)
    emit(begun, client)
    if begun.n_kept:
        emit(BlocksDone(begun.fit, begun.run, begun.n_kept, begun.n_kept_merges))
    start, error = time.perf_counter(), ""
    try:
        if client is not None:
            yield {"scheduler": partial(compute_on, client, begun)}
        elif counts_blocks():
            # Named in the call and not registered: a fit in another thread would take registered ones away.
            yield {"callbacks": [*Callback.active, normalize_callback(LocalCounts(begun))]}
        else:
            yield {}
    # Interrupts too: the event of the end says what ended the pass.
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        emit(PassEnded(begun.fit, begun.run, begun.name, time.perf_counter() - start, error), client)


def _call(
    function: Callable[..., Any], first: int, shapes: Sequence[Shape], sizes: Sequence[int], *rows: Any
) -> Any:
    """Call a function of a block, or of several joined ones of some sizes; what it refuses gets the block's number."""
    try:
        blocks = rows if sizes else map(checked_block, rows, shapes)
        with blas_in_one_thread():
            return aligned(function)(*map(aligned, blocks))
    except ValueError as error:
        if not sizes:
            raise ValueError(f"row block {first}: {error}") from error
        # What it refuses is looked for in each of the blocks.
        for number, one in enumerate(cut_again(rows, sizes), first):
            _call(function, number, (None,) * len(one), (), *one)
        raise ValueError(f"row blocks {first} to {first + len(sizes) - 1}: {error}") from error
