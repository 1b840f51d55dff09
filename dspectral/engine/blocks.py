"""Data read block by block (arrays in memory, Dask arrays, stores, streams of anything), and the tasks that read it."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, cast
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.configuration import get_in_memory_bytes, get_max_group_bytes
from dspectral.engine.graph import (
    Graph,
    SharedFunction,
    Tree,
    get_array_nodes,
    make_task,
    shared_node,
    task_ref,
)
from dspectral.engine.summary import bytes_of
from dspectral.linalg import sparse_products
from dspectral.linalg.blas import aligned, blas_in_one_thread
from dspectral.linalg.sparse_products import row_slice
from dspectral.types import (
    CSRRows,
    HoldsCounts,
    Rows,
    is_backed,
    is_sparse,
    refuse_other_containers,
    strip_labels,
)

BLOCK_BYTES = 64 << 20
"""Bytes of an in-memory array that one task takes."""
CHUNK_BYTES = 32 << 20
"""Bytes of a block in memory, as far as the mean length of the rows tells."""
ENTRY_BYTES = 16
"""Most bytes of an entry: a float64 and an int64."""
MAX_GROUPED_BLOCKS = 8
"""Blocks that one task reads at the most: what many cores share should not become few tasks."""
MAX_DENSE_SIDE = 800
"""Rows or columns that dense rows have at the most to be decomposed in memory."""
IN_MEMORY = "in_memory"
"""Annotation of an array whose blocks are views of rows in memory."""
BLOCK_NBYTES = "bytes_of_blocks"
"""Annotation of an array's layer that says how large its blocks are."""
ROWS_OF = "rows_of"
"""Annotation that says which store has the same rows in the same order."""


class Blocks(NamedTuple):
    """A stream of blocks, ``read(item)`` of each item, that are not rows of a matrix, such as sentences of token ids.

    >>> from dspectral.engine import summarize
    >>> from dspectral.decomposition.moments import Moments
    >>> summarize(Blocks(np.diag, [[1.0, 2.0], [3.0, 4.0]]), of=Moments.of).gram
    array([[10.,  0.],
           [ 0., 20.]])
    """

    read: Callable[[Any], Any]
    items: Sequence[Any]
    in_memory: bool = False


InMemory: TypeAlias = NDArray[Any] | sparse.sparray | sparse.spmatrix
"""A dense or sparse matrix in this process."""
Stream: TypeAlias = InMemory | da.Array | HoldsCounts | Blocks
"""Everything that a pass can read."""
DeclaredBlock: TypeAlias = tuple[int, int, str] | None
"""Rows, columns and dtype that an array says one of its blocks has; None for blocks that are not rows."""


def lazy_rows(X: InMemory | da.Array | HoldsCounts) -> da.Array:
    """Return the Dask array behind ``X``, cut into row blocks of known sizes."""
    X = strip_labels(X)
    # Asked for once: a store builds its array anew each time.
    array = read_backed_rows(X) if is_backed(X) else getattr(X, "counts", X)
    if not isinstance(array, da.Array):
        refuse_other_containers(X)
        if is_in_memory(array):
            return in_blocks(array)
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


def is_lazy(X: object) -> bool:
    """Report whether ``X`` is a Dask array, a store or a sparse matrix on disk, and not an array in memory."""
    return is_backed(X) or isinstance(getattr(X, "counts", X), da.Array)


def is_in_memory(X: object) -> bool:
    """Report whether the data of ``X`` lie in this process."""
    return X.in_memory if isinstance(X, Blocks) else isinstance(X, np.ndarray) or is_sparse(X)


def read_backed_rows(X: Any) -> da.Array:
    """Return the rows of a sparse matrix on disk as AnnData reads them lazily, shape (n_rows, n_columns)."""
    if X.format != "csr":
        raise TypeError(
            f"X is a {X.format}_matrix on disk, stored by columns, but rows are read: pass X.to_memory(), or write it "
            "as scipy.sparse.csr_matrix"
        )
    from anndata.experimental import read_elem_lazy  # noqa: PLC0415  whoever has such a matrix has AnnData

    n_rows, n_columns = X.shape
    n_entries = X.group["indices"].shape[0]
    # Rows times bytes a row is CHUNK_BYTES, with n_entries / n_rows entries in a mean row. Where rows are of very
    # unequal length, so are the blocks.
    block_rows = max(1, CHUNK_BYTES * n_rows // max(1, ENTRY_BYTES * n_entries))
    rows: da.Array = read_elem_lazy(X.group, chunks=(min(block_rows, n_rows), n_columns))
    return rows


def dense_rows(X: Any) -> Any:
    """Return a dense array of h5py or Zarr as a Dask array of its rows, and all else as it is."""
    on_disk = hasattr(X, "chunks") and hasattr(X, "shape") and not is_lazy(X)
    return da.from_array(X, chunks=("auto", -1), name=False) if on_disk else X


def as_row_chunks(X: Stream, name: str, *, is_local: bool) -> da.Array:
    """Return the Dask array of one stream of a pass; ``is_local`` says whether all its streams lie in this process."""
    if isinstance(X, Blocks):
        return blocks_as_array(
            X, f"{name}-block-{uuid4().hex}"
        )  # read and summarized by one task, of this name
    return in_blocks(X) if is_local else lazy_rows(X)


def blocks_as_array(blocks: Blocks, name: str) -> da.Array:
    """Return an array with one element a block, so that one mechanism serves rows and all else."""
    if not len(blocks.items):
        raise ValueError("there is no block at all")
    layer = {(name, i, 0): make_task((name, i, 0), blocks.read, item) for i, item in enumerate(blocks.items)}
    # The object dtype marks a stream of anything: `get_declared_block` promises nothing about its blocks.
    meta = np.empty((0, 0), dtype=object)
    return da.Array(layer, name, chunks=((1,) * len(layer), (1,)), meta=meta)


def in_blocks(X: Any, size: int | None = None) -> da.Array:
    """Cut an in-memory array into row blocks of some size, by default of `BLOCK_BYTES`: views, computed where it is."""
    if X.ndim != 2:
        raise ValueError(f"expected a two-dimensional array, got {X.ndim} dimension(s)")
    n_rows, n_columns = X.shape
    if is_sparse(X):
        X = sparse.csr_array(X)
        n_bytes = X.nnz * (X.data.itemsize + X.indices.itemsize)
    else:
        n_bytes = X.nbytes
    # Cuts depend on the data alone, never on the machine, so that results do not either.
    n_blocks = max(1, math.ceil(n_bytes / BLOCK_BYTES))
    starts = np.linspace(0, n_rows, n_blocks + 1).astype(np.int64)
    if size is not None:
        starts = np.append(np.arange(0, n_rows, size), n_rows)
    sizes = tuple(np.diff(starts).tolist())
    meta = sparse.csr_array((0, 0), dtype=X.dtype) if is_sparse(X) else np.empty((0, 0), dtype=X.dtype)
    name = f"slice-{uuid4().hex}"
    layer = {(name, i, 0): block for i, block in enumerate(slices_of(X, sizes))}
    return annotated(da.Array(layer, name, chunks=(sizes, (n_columns,)), meta=meta), IN_MEMORY, value=True)


def check_aligned_chunks(arrays: Sequence[da.Array]) -> None:
    """Refuse streams that are not cut alike."""
    # Streams are paired by the number of the block, so their cuts must be the same.
    cuts = {array.chunks[0] for array in arrays}
    if len(cuts) > 1:
        sizes = " and ".join(f"{len(cut)} blocks of {sum(cut)} rows" for cut in sorted(cuts))
        raise ValueError(f"streams must be cut into the same row blocks, but they are {sizes}")


def slices_of(X: Rows, sizes: Sequence[int]) -> Iterator[Rows]:
    """Yield consecutive rows of a CSR or dense matrix, ``sizes`` many at a time, without a copy."""
    stop = 0
    for size in sizes:
        start, stop = stop, stop + size
        yield row_slice(X, start, stop) if is_sparse(X) else X[start:stop]


def get_declared_block(array: da.Array, number: int) -> DeclaredBlock:
    """Return what an array says about one of its row blocks."""
    if array.dtype.kind == "O":  # a stream of anything, one element a block
        return None
    return int(array.chunks[0][number]), int(array.chunks[1][0]), array.dtype.str


def check_block(block: Any, said: DeclaredBlock) -> Any:
    """Return a block as a kernel takes it: a ``csr_array`` without repeated entries, or an ndarray."""
    if is_sparse(block):
        block = sparse_products.canonical_rows(block)
    # Blocks of a stream are what their summary takes, and no concern of this function.
    if said is None:
        return block
    if np.ma.isMaskedArray(block):
        raise ValueError("it is a masked array, but missing entries have no meaning here: fill them first")
    if not is_sparse(block):
        if not isinstance(block, np.ndarray):
            raise ValueError(
                f"it is a {type(block).__name__}, but it must be an ndarray or a SciPy sparse matrix"
            )
        block = np.asarray(block)  # a numpy.matrix multiplies otherwise
    n_rows, n_columns, dtype = said
    if block.shape != (n_rows, n_columns):
        raise ValueError(
            f"it has shape {block.shape}, but the Dask array says {(n_rows, n_columns)}: make the array with the "
            "chunks that its blocks have"
        )
    if block.dtype.str != dtype:
        raise ValueError(
            f"it holds {block.dtype}, but the Dask array says {np.dtype(dtype)}: make the array with the dtype that "
            "its blocks have"
        )
    return block


def row_numbers(rows: Any) -> Any:
    """Return the numbers of rows as a column (n, 1) that is cut, and lazy, as the rows are."""
    if isinstance(rows, da.Array):
        return da.arange(rows.shape[0], chunks=(rows.chunks[0],), dtype=np.int64)[:, None]
    return np.arange(rows.shape[0], dtype=np.int64)[:, None]


def say_bytes(array: da.Array, n_bytes: Sequence[int] | None) -> da.Array:
    """Let an array of sparse blocks say how large they will be in memory."""
    return array if n_bytes is None else annotated(array, BLOCK_NBYTES, np.asarray(n_bytes, dtype=np.int64))


def annotated(array: da.Array, key: str, value: object) -> da.Array:
    """Let an array say something; what is computed from it does not."""
    layer = array.dask.layers[array.name]
    layer.collection_annotations = {**(layer.collection_annotations or {}), key: value}
    return array


def get_annotation(array: da.Array, key: str) -> Any:
    """Return what an array itself says, None if it says nothing."""
    layer = getattr(array.dask, "layers", {}).get(array.name)
    return (getattr(layer, "collection_annotations", None) or {}).get(key)


def bytes_said(array: da.Array) -> list[int] | None:
    """Return how large the blocks of an array are in memory."""
    said = get_annotation(array, BLOCK_NBYTES)
    return None if said is None or len(said) != array.numblocks[0] else [int(one) for one in said]


def group_blocks_by_size(arrays: Sequence[da.Array], target: int) -> list[range]:
    """Return the blocks that each task reads: several where a summary of ``target`` bytes is much larger than they are.

    How many are joined depends on their bytes and on the summary, never on the machine, so that results do not either.
    Runs begin at the first block and are filled in order: rows that come later leave all runs but the last one as they
    are, and with them the partial results that are kept.

    >>> from dspectral import write_counts
    >>> rows = write_counts(np.eye(5), "memory://spans", block_rows=1).counts
    >>> group_blocks_by_size([rows], 40), group_blocks_by_size([rows], 0) == [range(i, i + 1) for i in range(5)]
    ([range(0, 2), range(2, 4), range(4, 5)], True)
    """
    n_blocks = arrays[0].numblocks[0]
    said = [bytes_said(array) for array in arrays] if target else [None]
    target = min(target, get_max_group_bytes())
    if any(one is None for one in said):
        return [range(i, i + 1) for i in range(n_blocks)]
    sizes = [sum(of_block) for of_block in zip(*filter(None, said), strict=True)]
    # Invariant: the blocks before starts[-1] are in finished runs; `filled` bytes are in the one that grows.
    starts, filled = [0], 0
    for i, size in enumerate(sizes):
        if i > starts[-1] and (filled + size > target or i - starts[-1] == MAX_GROUPED_BLOCKS):
            starts.append(i)
            filled = 0
        filled += size
    return [range(*ends) for ends in pairwise([*starts, n_blocks])]


def join_blocks(first: int, shapes: Sequence[DeclaredBlock], *blocks: Any) -> CSRRows:
    """Check consecutive blocks of one stream, and put them together."""
    checked = []
    for number, (block, shape) in enumerate(zip(blocks, shapes, strict=True), first):
        try:
            checked.append(check_block(block, shape))
        except ValueError as error:
            raise ValueError(f"row block {number}: {error}") from error
    joined = sparse.csr_array(sparse.vstack([sparse.csr_array(one) for one in checked], format="csr"))
    joined.has_canonical_format = True  # each block was, and rows are not shared
    return joined


def count_rows(arrays: Sequence[da.Array]) -> int | None:
    """Return the rows of streams that are cut alike; None for streams of something else than rows."""
    known = [array for array in arrays if array.dtype.kind != "O"]
    return int(sum(known[0].chunks[0])) if known else None


def count_bytes(arrays: Sequence[da.Array]) -> int | None:
    """Return the bytes of all streams together, as far as they are known before they are read."""
    if any(array.dtype.kind == "O" for array in arrays):
        return None
    sizes = [_get_array_bytes(array) for array in arrays]
    return None if None in sizes else sum(filter(None, sizes))


def _get_array_bytes(array: da.Array) -> int | None:
    if isinstance(array._meta, np.ndarray):  # noqa: SLF001  the kind of its blocks
        return int(array.nbytes)
    if get_annotation(array, IN_MEMORY):
        return sum(bytes_of(getattr(block, "value", block)) for block in array.dask.values())
    said = bytes_said(array)
    return None if said is None else sum(said)


def _get_bytes_and_kind(X: Stream) -> tuple[Any, int | None, bool]:
    """Return rows, their bytes as far as they are known before they are read, and whether their blocks are dense."""
    rows: Any = X if is_in_memory(X) else lazy_rows(cast("Any", X))
    is_lazy_array = isinstance(rows, da.Array)
    n_bytes = count_bytes([rows]) if is_lazy_array else bytes_of(rows)
    return rows, n_bytes, isinstance(rows._meta if is_lazy_array else rows, np.ndarray)  # noqa: SLF001


def is_small(X: Stream) -> bool:
    """Report whether rows, lazy sparse ones only of a store, have few enough entries to be decomposed in memory."""
    rows, n_bytes, is_dense = _get_bytes_and_kind(X)
    if is_dense and min(rows.shape) > MAX_DENSE_SIDE:
        return False
    return n_bytes is not None and n_bytes <= get_in_memory_bytes()


def has_few_zeros(X: Stream, share: float) -> bool:
    """Report whether blocks are dense, or are known to store so large a share of their entries."""
    rows, n_bytes, is_dense = _get_bytes_and_kind(X)
    entries = share * rows.shape[0] * rows.shape[1]
    return is_dense or (n_bytes is not None and n_bytes >= entries * (rows.dtype.itemsize + 4))


def block_tasks(
    function: Callable[..., Any],
    arrays: list[da.Array],
    name: str,
    spans: Sequence[range] | None = None,
) -> tuple[Graph, Tree]:
    """Make one task for each block or few of them, which calls the function, and the tasks that read for it."""
    graph: Graph = {}
    # Optimized together, so that streams made from one source share the tasks that read it.
    for array in dask.optimize(*arrays):
        graph.update(get_array_nodes(array))
    shared = f"shared-{name}"
    graph[shared] = shared_node(shared, function)
    tree: Tree = {}
    # What each array promises travels with the task that reads, which compares it with what it finds.
    n_blocks = arrays[0].numblocks[0]
    spans = [range(i, i + 1) for i in range(n_blocks)] if spans is None else spans
    keys = [[row[0] for row in array.__dask_keys__()] for array in arrays]
    for i, span in enumerate(spans):
        key, first = (name, i, 0), span[0]
        of_blocks = [key_of[number] for number in span for key_of in keys]
        shapes: tuple[DeclaredBlock, ...] = tuple(get_declared_block(array, first) for array in arrays)
        read, sizes = of_blocks, tuple[int, ...]()
        if len(span) > 1:
            # A task of its own within the fused one: blocks are let go once they are joined.
            read = [(f"join-{name}", i, stream) for stream in range(len(arrays))]
            for to, array, key_of in zip(read, arrays, keys, strict=True):
                shapes = tuple(get_declared_block(array, number) for number in span)
                graph[to] = make_task(
                    to, join_blocks, first, shapes, *(task_ref(key_of[number]) for number in span)
                )
            sizes = tuple(arrays[0].chunks[0][number] for number in span)
        graph[key] = make_task(
            key, call_on_blocks, task_ref(shared), first, shapes, sizes, *map(task_ref, read)
        )
        tree[key] = of_blocks
    return graph, tree


def call_on_blocks(
    shared: SharedFunction, first: int, shapes: Sequence[DeclaredBlock], sizes: Sequence[int], *rows: Any
) -> Any:
    """Call a function of a block, or of several joined ones of some sizes; what it refuses gets the block's number."""
    try:
        blocks = rows if sizes else map(check_block, rows, shapes)
        with blas_in_one_thread():
            return aligned(shared.function)(*map(aligned, blocks))
    except ValueError as error:
        if not sizes:
            raise ValueError(f"row block {first}: {error}") from error
        # What it refuses is looked for in each of the blocks.
        blocks_of = (slices_of(joined, sizes) for joined in rows)
        for number, one in enumerate(zip(*blocks_of, strict=True), first):
            call_on_blocks(shared, number, (None,) * len(one), (), *one)
        raise ValueError(f"row blocks {first} to {first + len(sizes) - 1}: {error}") from error
