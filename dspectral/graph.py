"""Blocks to summaries to one summary: the only place that builds task graphs.

:func:`summarize` maps a function over row blocks and merges what comes back up a tree whose shape depends on
the number of blocks and on ``fan_in`` alone. Whatever runs the graph (nothing but this thread, threads,
processes, or the ``dask.distributed`` client in force), the same blocks give the same bits: merges happen in
block order, and BLAS has one thread inside a task.
"""

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
import scipy.linalg  # noqa: F401  loads SciPy's own BLAS, so that the controller below sees it
from dask._task_spec import DataNode, GraphNode, Task, TaskRef, convert_legacy_graph
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph
from scipy import sparse
from threadpoolctl import OpenBLASController, ThreadpoolController

from dspectral.kernels.sparse_products import row_slice
from dspectral.summaries.base import Summary
from dspectral.types import Rows

S = TypeVar("S", bound=Summary)
Key = Any
Graph = dict[Key, GraphNode]
BLOCK_BYTES = 64 << 20
"""Bytes of an in-memory array that one task takes."""


class Blocks(NamedTuple):
    """A stream of blocks that are not rows of a matrix: sentences of token ids, tagged sequences.

    Attributes
    ----------
    read : callable
        ``read(item)`` returns a block; called inside the task.
    items : sequence
        One for each block: small values that travel in the graph, unless ``in_memory``.
    in_memory : bool
        Whether the items are the data themselves: threads then work on them where they lie, also when a
        client is in force.

    Examples
    --------
    >>> from dspectral.summaries.moments import Moments
    >>> summarize(Blocks(np.diag, [[1.0, 2.0], [3.0, 4.0]]), of=Moments.of).gram
    array([[10.,  0.],
           [ 0., 20.]])
    """

    read: Callable[[Any], Any]
    items: Sequence[Any]
    in_memory: bool = False


def summarize(*streams: Any, of: Callable[..., S], fan_in: int = 2, name: str = "summary") -> S:
    """Summarise every row block and merge the summaries up a tree.

    Parameters
    ----------
    *streams : ndarray, SciPy sparse, Dask array, Blocks, or an object with a Dask array ``counts``
        Shape ``(n_rows, n_columns)`` each, cut into rows alike; ``of`` gets one block of each.
    of : callable
        ``of(block, ...) -> Summary``. A block is a ``csr_array`` or an ndarray, or what :class:`Blocks` read.
    fan_in : int
        How many neighbours a merge takes, at least 2.
    name : str
        Task groups are ``{name}-block`` and ``merge-level-1``, ``merge-level-2``, ...

    Returns
    -------
    Summary
        Of all rows, in the caller's process.

    Raises
    ------
    ValueError
        If a stream is not cut into row blocks of known sizes, if streams are cut differently, or if ``of``
        refuses a block: the message then begins with the block's number.

    Notes
    -----
    One pass: each block is read by one task, which also summarises it. In-memory arrays are cut into blocks
    of 64 MiB and summarised where they lie, by threads, also when a client is in force.

    Examples
    --------
    >>> import numpy as np
    >>> from dspectral.summaries.moments import Moments
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> summarize(X, of=Moments.of).gram
    array([[20., 26.],
           [26., 35.]])
    """
    if fan_in < 2:
        raise ValueError(f"fan_in is {fan_in}, but a merge takes at least 2 summaries")
    in_memory = all(_is_in_memory(stream) for stream in streams)
    arrays = [_in_cuts(stream, name, in_memory=in_memory) for stream in streams]
    cuts = {array.chunks[0] for array in arrays}
    if len(cuts) > 1:
        sizes = " and ".join(f"{len(cut)} blocks of {sum(cut)} rows" for cut in sorted(cuts))
        raise ValueError(f"streams must be cut into the same row blocks, but they are {sizes}")
    graph, leaves = _block_tasks(_summarize_block, of, arrays, f"{name}-block-{uuid4().hex}")
    result = _merge_tree(graph, leaves, fan_in)
    # Held from first to last: BLAS starts its threads anew each time that its limit changes.
    with blas_in_one_thread(), _no_word_of_large_graphs():
        (summary,) = dask.compute(result, **(_local_scheduler() if in_memory else {}))
    return summary  # type: ignore[no-any-return]


def map_rows(
    X: Any,
    function: Callable[[Rows], Rows],
    *,
    n_columns: int,
    dtype: Any = np.float64,
    sparse_output: bool = False,
    name: str = "map",
    n_rows: Sequence[int] | None = None,
) -> Any:
    """Apply a function to every row block.

    Parameters
    ----------
    X : ndarray, SciPy sparse, Dask array, Blocks, or an object with a Dask array ``counts``
        Shape ``(n_rows, n_columns_in)``. :class:`Blocks` are lazy.
    function : callable
        Block to block, with as many rows.
    n_columns : int
        Columns of what ``function`` returns.
    dtype : dtype
        Of what ``function`` returns.
    sparse_output : bool
        Whether ``function`` returns CSR.
    name : str
        The task group is ``{name}-block``.
    n_rows : sequence of int, optional
        Of each block: needed for :class:`Blocks`, which do not say.

    Returns
    -------
    Dask array for lazy input (nothing is computed), else an ndarray or ``csr_array``
    """
    if _is_in_memory(X) and not isinstance(X, Blocks):
        X = sparse.csr_array(X) if sparse.issparse(X) else X
        slices = _slices(X, _in_blocks(X).chunks[0])
        parts = [_call(function, i, block) for i, block in enumerate(slices)]
        return sparse.vstack(parts, format="csr") if sparse_output else np.concatenate(parts)
    if isinstance(X, Blocks):
        if n_rows is None or len(n_rows) != len(X.items):
            raise ValueError(f"n_rows must say of each of the {len(X.items)} blocks how many rows it becomes")
        array, sizes = _as_array(X, f"{name}-read-{uuid4().hex}"), tuple(n_rows)
    else:
        array = lazy_rows(X)
        sizes = array.chunks[0]
    meta: Any = sparse.csr_array((0, 0), dtype=dtype) if sparse_output else np.empty((0, 0), dtype=dtype)
    label = f"{name}-block-{uuid4().hex}"
    graph, _ = _block_tasks(_map_block, function, [array], label)
    chunks = (sizes, (n_columns,))
    return da.Array(HighLevelGraph.from_collections(label, graph), label, chunks=chunks, meta=meta)


def collect_rows(X: Any) -> Any:
    """Return what :func:`map_rows` gave as an array in this process; an array stays as it is.

    Examples
    --------
    >>> collect_rows(map_rows(da.ones((2, 1)), np.negative, n_columns=1))
    array([[-1.],
           [-1.]])
    """
    with blas_in_one_thread(), _no_word_of_large_graphs():
        return dask.compute(X)[0]


def run_tasks(function: Callable[[Any], Any], items: Sequence[Any], *, name: str) -> list[Any]:
    """Run ``function(item)`` as one task for each item; results come back in the order of the items.

    Parameters
    ----------
    function : callable
        Of one argument; BLAS has one thread while it runs.
    items : sequence
        Small values: they travel in the graph.
    name : str
        The task group.

    Examples
    --------
    >>> run_tasks(len, ["a", "bc"], name="measure")
    [1, 2]
    """
    label = f"{name}-{uuid4().hex}"
    layer: Graph = {f"shared-{label}": DataNode(f"shared-{label}", function)}
    tasks = [Task((label, i), _pinned, TaskRef(f"shared-{label}"), item) for i, item in enumerate(items)]
    layer.update((task.key, task) for task in tasks)
    graph = HighLevelGraph.from_collections(label, layer)
    with blas_in_one_thread(), _no_word_of_large_graphs():
        return list(dask.compute(*(Delayed(task.key, graph, layer=label) for task in tasks)))


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


def lazy_rows(X: Any) -> da.Array:
    """Return the Dask array behind ``X``, cut into row blocks of known sizes.

    Raises
    ------
    ValueError
        If the array is not two-dimensional, is cut in columns, or has row blocks of unknown size.
    """
    array = getattr(X, "counts", X)
    if _is_in_memory(array):
        return _in_blocks(array)
    if not isinstance(array, da.Array):
        raise TypeError(
            f"expected an array, a SciPy sparse matrix, a Dask array or a store, got {type(X).__name__}"
        )
    if array.ndim != 2:
        raise ValueError(f"expected a two-dimensional array, got {array.ndim} dimension(s)")
    if len(array.chunks[1]) > 1:
        raise ValueError(
            f"the Dask array is cut into {len(array.chunks[1])} column chunks, but a block must hold whole rows: "
            "call X.rechunk({1: -1}) first"
        )
    if any(math.isnan(size) for size in array.chunks[0]):
        raise ValueError("the Dask array has row chunks of unknown size: call X.compute_chunk_sizes() first")
    return array


def is_lazy(X: Any) -> bool:
    """Whether ``X`` is a Dask array or a store, and not an array in memory."""
    return isinstance(getattr(X, "counts", X), da.Array)


def blas_in_one_thread() -> AbstractContextManager[None]:
    """Return a context in which BLAS uses one thread, also when several threads enter and leave it."""
    return _BlasGate()


class _BlasGate(AbstractContextManager[None]):
    """Sets the limit when the first task enters and lifts it when the last one leaves.

    The limit is the whole process's: were each task to restore what it found, one that ends would give its
    running neighbours all threads back, and their results other last bits.
    """

    _lock = Lock()
    _inside = 0
    _limit: Any = None

    def __enter__(self) -> None:
        with _BlasGate._lock:
            if _BlasGate._inside == 0:
                _take_control_of_blas()
                _BlasGate._limit = _controller().limit(limits=1, user_api="blas")
            _BlasGate._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        with _BlasGate._lock:
            _BlasGate._inside -= 1
            if _BlasGate._inside == 0:
                _take_control_of_blas()
                _BlasGate._limit.restore_original_limits()


def _take_control_of_blas() -> None:
    """Make OpenBLAS listen to this thread.

    From threadpoolctl 3.8 on it heeds only the thread that was first to set a limit and ignores all others;
    here the thread that lifts the limit is often another than the one that set it.
    """
    clear = getattr(OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def _no_word_of_large_graphs() -> Iterator[None]:
    """Silence Dask's advice to scatter large arrays: scattered data are lost with their worker, a graph's are not."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield


def _pinned(function: Callable[..., Any], *arguments: Any) -> Any:
    with blas_in_one_thread():
        return function(*arguments)


def _call(function: Callable[..., Any], number: int, *blocks: Any) -> Any:
    try:
        return _pinned(function, *map(_as_rows, blocks))
    except ValueError as error:
        raise ValueError(f"row block {number}: {error}") from error


def _as_rows(block: Any) -> Rows:
    if sparse.issparse(block) and not isinstance(block, sparse.csr_array):
        return sparse.csr_array(block)
    return block  # as it is: to wrap a view again copies it


def _summarize_block(of: Callable[..., S], number: int, *blocks: Any) -> S:
    return _call(of, number, *blocks)  # type: ignore[no-any-return]


def _map_block(function: Callable[[Rows], Rows], number: int, block: Any) -> Any:
    return _call(function, number, block)


def _merge(*summaries: S) -> S:
    first, *others = summaries
    return _pinned(first.merge, *others)  # type: ignore[no-any-return]


def _block_tasks(
    work: Callable[..., Any], function: Callable[..., Any], arrays: list[da.Array], name: str
) -> tuple[Graph, list[Key]]:
    """Make one task of a block: of all that reads it, of what was mapped over it, and of the work.

    The function is in the graph once: arrays bound to it travel to a worker once, and not with each task.
    """
    graph: Graph = {}
    for array in dask.optimize(*arrays):
        graph.update(convert_legacy_graph(dict(array.__dask_graph__())))
    shared = f"shared-{name}"
    graph[shared] = DataNode(shared, function)
    leaves: list[Key] = []
    for i, blocks in enumerate(zip(*(array.__dask_keys__() for array in arrays), strict=True)):
        leaves.append((name, i, 0))
        graph[leaves[-1]] = Task(leaves[-1], work, TaskRef(shared), i, *(TaskRef(row[0]) for row in blocks))
    return _absorbed(graph, leaves), leaves


def _absorbed(graph: Graph, leaves: list[Key]) -> Graph:
    """Fuse each leaf with the tasks that it alone needs; Dask's own fusion stops where two arrows meet."""
    n_dependents = Counter(key for node in graph.values() for key in node.dependencies)
    fused: Graph = {}
    for leaf in leaves:
        members, left = [], [leaf]
        while left:
            members.append(graph.pop(left.pop()))
            left += [key for key in members[-1].dependencies if n_dependents[key] == 1 and key in graph]
        fused[leaf] = GraphNode.fuse(*members, key=leaf)
    return {**graph, **fused}


def _merge_tree(graph: Graph, keys: list[Key], fan_in: int) -> Delayed:
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
            layer[key] = Task(key, _merge, *(TaskRef(k) for k in group))
            merged.append(key)
        keys = merged
    name = f"merge-{token}"
    return Delayed(keys[0], HighLevelGraph.from_collections(name, layer), layer=name)


def _groups(keys: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(keys), size):
        yield keys[start : start + size]


def _is_in_memory(X: Any) -> bool:
    return X.in_memory if isinstance(X, Blocks) else isinstance(X, np.ndarray) or sparse.issparse(X)


def _in_cuts(X: Any, name: str, *, in_memory: bool) -> da.Array:
    if isinstance(X, Blocks):
        return _as_array(X, f"{name}-block-{uuid4().hex}")  # read and summarised by one task, of this name
    return _in_blocks(X) if in_memory else lazy_rows(X)


def _as_array(blocks: Blocks, name: str) -> da.Array:
    """Return an array with one element a block, so that one mechanism serves rows and all else."""
    if not len(blocks.items):
        raise ValueError("there is no block at all")
    layer = {(name, i, 0): Task((name, i, 0), blocks.read, item) for i, item in enumerate(blocks.items)}
    meta = np.empty((0, 0), dtype=object)
    return da.Array(layer, name, chunks=((1,) * len(layer), (1,)), meta=meta)


def _in_blocks(X: Any) -> da.Array:
    """Cut an in-memory array into row blocks: views of it, computed where it lies."""
    if X.ndim != 2:
        raise ValueError(f"expected a two-dimensional array, got {X.ndim} dimension(s)")
    n_rows, n_columns = X.shape
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        n_bytes = X.nnz * (X.data.itemsize + X.indices.itemsize)
    else:
        n_bytes = X.nbytes
    n_blocks = max(1, math.ceil(n_bytes / BLOCK_BYTES))
    cuts = np.diff(np.linspace(0, n_rows, n_blocks + 1).astype(np.int64))
    sizes = tuple(int(size) for size in cuts)
    meta = sparse.csr_array((0, 0), dtype=X.dtype) if sparse.issparse(X) else np.empty((0, 0), dtype=X.dtype)
    name = f"slice-{uuid4().hex}"
    layer = {(name, i, 0): block for i, block in enumerate(_slices(X, sizes))}
    return da.Array(layer, name, chunks=(sizes, (n_columns,)), meta=meta)


def _slices(X: Any, sizes: Sequence[int]) -> Iterator[Any]:
    stop = 0
    for size in sizes:
        start, stop = stop, stop + size
        yield row_slice(X, start, stop) if sparse.issparse(X) else X[start:stop]


def _local_scheduler() -> dict[str, str]:
    """Threads, or the caller's own thread where the configuration asks for it."""
    scheduler = dask.config.get("scheduler", None)
    return {"scheduler": "sync" if scheduler in ("sync", "synchronous", "single-threaded") else "threads"}
