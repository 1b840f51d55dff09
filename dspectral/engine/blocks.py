"""Streams of blocks (arrays in memory, Dask arrays, stores, other objects), and the tasks that read them."""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
from dask.sizeof import sizeof
from numpy.typing import NDArray
from scipy import sparse

from dspectral.configuration import get_in_memory_bytes, get_max_group_bytes, get_memory_limit
from dspectral.engine.graph import Graph, SharedFunction, Tree, get_array_nodes, make_task, shared_node, task_ref
from dspectral.engine.summary import get_nbytes
from dspectral.linalg import sparse_products
from dspectral.linalg.blas import blas_in_one_thread, copy_unaligned
from dspectral.linalg.sparse_products import slice_rows
from dspectral.types import (
    CSRRows,
    HoldsCounts,
    Rows,
    check_container,
    is_backed,
    is_disk_array,
    is_disk_group,
    is_sparse,
    unwrap_xarray,
)

BLOCK_BYTES = 64 << 20
"""Bytes of one block of an in-memory array."""
CHUNK_BYTES = 32 << 20
"""Bytes of one block of a sparse matrix on disk, estimated from the mean row length."""
ENTRY_BYTES = 16
"""Maximum bytes of a sparse entry: a float64 and an int64."""
MAX_GROUPED_BLOCKS = 8
"""Maximum number of blocks in a group, so that enough tasks remain for many cores."""
MAX_DENSE_SIDE = 800
"""Maximum of the smaller dimension of a dense matrix that is decomposed in memory."""
IN_MEMORY = "in_memory"
"""Annotation of arrays whose blocks are views of rows in memory."""
BLOCK_NBYTES = "bytes_of_blocks"
"""Annotation of the in-memory bytes of each block."""
STORE_ANNOTATION = "rows_of"
"""Annotation of the store that has the same rows in the same order."""


# Dask measures an array of SciPy by its Python object alone (56 bytes), and so would neither spill nor balance blocks.
sizeof.register(sparse.sparray, get_nbytes)


class Blocks(NamedTuple):
    """A stream of blocks ``read(item)`` that need not be matrices, such as sentences of token ids.

    >>> from dspectral.engine import summarize
    >>> from dspectral.decomposition.moments import Moments
    >>> summarize(Blocks(np.diag, [[1.0, 2.0], [3.0, 4.0]]), summarize_block=Moments.from_block).gram
    array([[10.,  0.],
           [ 0., 20.]])
    """

    read: Callable[[Any], Any]
    items: Sequence[Any]
    in_memory: bool = False


class DiskGroup:
    """A group of Zarr, or the file and name of one of HDF5, whose open files belong to one process."""

    def __init__(self, group: Any) -> None:
        # A path has no content hash, which checkpoints need.
        self.source = (Path(group.file.filename), group.name) if hasattr(group, "file") else group

    @contextmanager
    def open(self) -> Iterator[Any]:
        """Yield the open group."""
        if not isinstance(self.source, tuple):
            yield self.source
            return
        from h5py import File  # noqa: PLC0415  an optional package

        with File(self.source[0], "r") as file:
            yield file[self.source[1]]


InMemory: TypeAlias = NDArray[Any] | sparse.sparray | sparse.spmatrix
"""A dense or sparse matrix in this process."""
Stream: TypeAlias = InMemory | da.Array | HoldsCounts | Blocks
"""Everything that a pass can read."""
DeclaredBlock: TypeAlias = tuple[float, int, str] | None
"""Declared rows (NaN if unknown), columns and dtype of a block of a Dask array; None for other blocks than matrices."""


def as_dask_rows(X: InMemory | da.Array | HoldsCounts, *, needs_sizes: bool = True) -> da.Array:
    """Return ``X`` as a Dask array in blocks of whole rows, of known sizes unless `needs_sizes` is False.

    Unknown sizes are counted, in one pass with a warning, and set in a Dask array that is given.
    """
    X = unwrap_xarray(X)
    # Read once, because the attribute of a store builds a new array each time.
    array = read_backed_rows(X) if is_backed(X) else wrap_disk_array(getattr(X, "counts", X))
    if not isinstance(array, da.Array):
        check_container(X)
        if is_in_memory(array):
            return chunk_rows(array)
        raise TypeError(
            f"X is a {type(X).__name__}, but must be an array, a SciPy sparse matrix, a Dask array or a store"
        )
    if array.ndim != 2:
        raise ValueError(f"X has {array.ndim} dimension(s), but must have 2: reshape it to (n_rows, n_columns)")
    if needs_sizes and any(math.isnan(size) for size in array.chunks[0]):
        warnings.warn(
            "X is a Dask array with row chunks of unknown size, and one more pass counts their rows; to use X again "
            "elsewhere, call X.compute_chunk_sizes() first",
            stacklevel=2,
        )
        array.compute_chunk_sizes()
    n_chunks, n_bytes = len(array.chunks[1]), max(array.chunks[0]) * array.shape[1] * array.dtype.itemsize
    if n_chunks > 1 and n_bytes > get_memory_limit():
        raise ValueError(
            f"the Dask array has {n_chunks} column chunks, but a block must hold whole rows, which take up to "
            f"{n_bytes / 1e9:.1f} GB: call X.rechunk({{0: 'auto', 1: -1}}) first"
        )
    if n_chunks > 1:
        array = array.rechunk({1: -1})
    return array


def is_lazy(X: object) -> bool:
    """Report whether ``X`` is a Dask array, a store, or a matrix on disk (sparse in AnnData, dense in h5py or Zarr)."""
    return is_backed(X) or is_disk_array(X) or isinstance(getattr(X, "counts", X), da.Array)


def is_in_memory(X: object) -> bool:
    """Report whether the data of ``X`` are in the memory of this process."""
    return X.in_memory if isinstance(X, Blocks) else isinstance(X, np.ndarray) or is_sparse(X)


def read_backed_rows(X: Any) -> da.Array:
    """Return a Dask array that reads a sparse matrix of AnnData, h5py or Zarr from disk, shape (n_rows, n_columns)."""
    group = X if is_disk_group(X) else X.group
    n_rows, n_columns = _check_stored_by_rows(group, None if group is X else X.format)
    n_entries = group["indices"].shape[0]
    # size * (bytes of a mean row) = CHUNK_BYTES.
    size = min(n_rows, max(1, CHUNK_BYTES * n_rows // max(1, ENTRY_BYTES * n_entries)))
    source, sizes = DiskGroup(group), tuple(min(size, n_rows - start) for start in range(0, n_rows, size))
    name, dtype = f"rows-on-disk-{uuid4().hex}", group["data"].dtype
    layer = {
        (name, i, 0): make_task((name, i, 0), _read_group_rows, source, i * size, stop, n_columns)
        for i, stop in enumerate(accumulate(sizes))
    }
    return da.Array(layer, name, chunks=(sizes, (n_columns,)), meta=sparse.csr_array((0, 0), dtype=dtype))


def _check_stored_by_rows(group: Any, kind: str | None) -> tuple[int, int]:
    """Return the shape of a CSR matrix in a group, of the kind of AnnData's attributes or of its row pointers."""
    if not all(name in group for name in ("data", "indices", "indptr")):
        raise TypeError(
            f"X is the group {group.name!r}, but must be a sparse matrix with data, indices and indptr: pass one of "
            f"{', '.join(group) or 'another file'}, or the path to dspectral.open_store"
        )
    shape = group.attrs["shape"] if "shape" in group.attrs else group["shape"][:] if "shape" in group else (0, 0)
    (n_rows, n_columns), n_pointers = map(int, shape), group["indptr"].shape[0]
    kind = kind or str(group.attrs.get("encoding-type", ""))[:3]
    if not kind and n_rows != n_columns:
        kind = {n_rows + 1: "csr", n_columns + 1: "csc"}.get(n_pointers, "")
    if kind == "csc":
        raise TypeError(
            "X is a csc_matrix on disk, stored by columns, but rows are read: pass X.to_memory(), or write it as "
            "scipy.sparse.csr_matrix"
        )
    if kind != "csr" or n_pointers != n_rows + 1:
        raise ValueError(
            f"X is the group {group.name!r} of shape {(n_rows, n_columns)} with {n_pointers} pointers, which is not "
            "known to be a CSR matrix: set its attributes 'encoding-type' to 'csr_matrix' and 'shape'"
        )
    return n_rows, n_columns


def _read_group_rows(source: DiskGroup, start: int, stop: int, n_columns: int) -> CSRRows:
    """Read rows of a CSR matrix on disk."""
    with source.open() as group:
        indptr = np.asarray(group["indptr"][start : stop + 1]).astype(np.int64)
        entries = slice(int(indptr[0]), int(indptr[-1]))
        data, indices = np.asarray(group["data"][entries]), np.asarray(group["indices"][entries])
    rows: CSRRows = sparse.csr_array((data, indices, indptr - indptr[0]), shape=(stop - start, n_columns))
    return rows


def wrap_disk_array(X: Any) -> Any:
    """Return a dense array of h5py or Zarr as a Dask array; return other objects unchanged."""
    if not is_disk_array(X):
        return X
    # Whole stored chunks of about BLOCK_BYTES.
    n_stored = X.chunks[0] if X.chunks else 1
    n_rows = max(1, BLOCK_BYTES // max(1, n_stored * X.shape[1] * X.dtype.itemsize)) * n_stored
    return da.from_array(X, chunks=(n_rows, -1), name=False)


def as_row_chunks(X: Stream, name: str, *, is_local: bool, sizes: Sequence[int] = ()) -> da.Array:
    """Return a stream of a pass as a Dask array, one chunk per block.

    `is_local`: all streams are in memory; `sizes`: rows of the blocks of the first one, which the others follow.
    """
    if isinstance(X, Blocks):
        return blocks_as_array(X, f"{name}-block-{uuid4().hex}")  # the task that reads also summarizes
    return chunk_rows(X, sizes=sizes) if is_local or (sizes and is_in_memory(X)) else as_dask_rows(X)


def blocks_as_array(blocks: Blocks, name: str) -> da.Array:
    """Return a Dask array with one element per block, so that passes treat all streams alike."""
    if not len(blocks.items):
        raise ValueError("Blocks has no items, but a pass needs at least one")
    layer = {(name, i, 0): make_task((name, i, 0), blocks.read, item) for i, item in enumerate(blocks.items)}
    # The object dtype marks blocks that are not matrices: `get_declared_block` returns None.
    meta = np.empty((0, 0), dtype=object)
    return da.Array(layer, name, chunks=((1,) * len(layer), (1,)), meta=meta)


def chunk_rows(X: Any, size: int | None = None, sizes: Sequence[int] = ()) -> da.Array:
    """Return an in-memory array as a Dask array of views: row blocks of `size` rows, by default of `BLOCK_BYTES`.

    `sizes`: rows of each block, if they add up to all rows.
    """
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimension(s), but must have 2: reshape it to (n_rows, n_columns)")
    n_rows, n_columns = X.shape
    if is_sparse(X):
        X = sparse.csr_array(X)
        n_bytes = X.nnz * (X.data.itemsize + X.indices.itemsize)
    else:
        n_bytes = X.nbytes
    # Blocks depend only on the data, so results do not depend on the machine.
    n_blocks = max(1, math.ceil(n_bytes / BLOCK_BYTES))
    starts = np.linspace(0, n_rows, n_blocks + 1).astype(np.int64)
    if size is not None:
        starts = np.append(np.arange(0, n_rows, size), n_rows)
    sizes = tuple(np.diff(starts).tolist() if sum(sizes) != n_rows or not sizes else sizes)
    meta = sparse.csr_array((0, 0), dtype=X.dtype) if is_sparse(X) else np.empty((0, 0), dtype=X.dtype)
    name = f"slice-{uuid4().hex}"
    layer = {(name, i, 0): block for i, block in enumerate(iterate_slices(X, sizes))}
    return annotate(da.Array(layer, name, chunks=(sizes, (n_columns,)), meta=meta), IN_MEMORY, value=True)


def check_aligned_chunks(arrays: Sequence[da.Array]) -> None:
    """Raise ValueError unless all streams have the same row blocks."""
    cuts = {array.chunks[0] for array in arrays}
    if len(cuts) > 1:
        sizes = " and ".join(f"{len(cut)} blocks of {sum(cut)} rows" for cut in sorted(cuts))
        raise ValueError(f"streams have {sizes}, but must have the same row blocks: rechunk one as the other")


def iterate_slices(X: Rows, sizes: Sequence[int]) -> Iterator[Rows]:
    """Yield consecutive row slices of the given sizes of a CSR or dense matrix, without copies."""
    stop = 0
    for size in sizes:
        start, stop = stop, stop + size
        yield slice_rows(X, start, stop) if is_sparse(X) else X[start:stop]


def get_declared_block(array: da.Array, block_number: int) -> DeclaredBlock:
    """Return the declared shape and dtype of a row block of a Dask array."""
    if array.dtype.kind == "O":  # not a matrix
        return None
    return array.chunks[0][block_number], int(array.chunks[1][0]), array.dtype.str


def check_block(block: Any, declared: DeclaredBlock) -> Any:
    """Return a block as kernels need it, a canonical ``csr_array`` or an ndarray; raise ValueError for others."""
    if is_sparse(block):
        block = sparse_products.to_canonical_csr(block)
    if declared is None:
        return block
    if np.ma.isMaskedArray(block):
        raise ValueError("it is a masked array, but entries must not be missing: fill them first")
    if not is_sparse(block):
        if not isinstance(block, np.ndarray):
            raise ValueError(f"it is a {type(block).__name__}, but it must be an ndarray or a SciPy sparse matrix")
        block = np.asarray(block)  # a numpy.matrix has another product
    n_rows, n_columns, dtype = declared
    if block.shape != (block.shape[0] if math.isnan(n_rows) else n_rows, n_columns) or block.dtype.str != dtype:
        raise ValueError(
            f"it has shape {block.shape} and dtype {block.dtype}, but the Dask array declares {(n_rows, n_columns)} "
            f"and {np.dtype(dtype)}: create the array with the chunks and dtype of its blocks"
        )
    return block


def get_row_numbers(rows: Any) -> Any:
    """Return the row numbers as a column (n, 1), lazy and in the same blocks if the rows are."""
    if isinstance(rows, da.Array):
        return da.arange(rows.shape[0], chunks=(rows.chunks[0],), dtype=np.int64)[:, None]
    return np.arange(rows.shape[0], dtype=np.int64)[:, None]


def set_block_nbytes(array: da.Array, n_bytes: Sequence[int] | None) -> da.Array:
    """Annotate a Dask array with the in-memory bytes of each block."""
    return array if n_bytes is None else annotate(array, BLOCK_NBYTES, np.asarray(n_bytes, dtype=np.int64))


def annotate(array: da.Array, key: str, value: object) -> da.Array:
    """Set an attribute of a Dask array; arrays computed from it do not inherit the attribute."""
    vars(array)[key] = value
    return array


def get_annotation(array: da.Array, key: str) -> Any:
    """Return an attribute that :func:`annotate` has set, or None."""
    return vars(array).get(key)


def get_block_nbytes(array: da.Array) -> list[int] | None:
    """Return the annotated in-memory bytes of each block, or None."""
    sizes = get_annotation(array, BLOCK_NBYTES)
    return None if sizes is None or len(sizes) != array.numblocks[0] else [int(size) for size in sizes]


def group_blocks_by_size(arrays: Sequence[da.Array], target: int) -> list[range]:
    """Group consecutive blocks until a group has ``target`` bytes: each task reads one group.

    Groups depend only on the bytes of the blocks and on the summary, so results do not depend on the machine. They are
    filled from the first block, so appended rows change only the last group, and checkpoints of the others stay valid.

    >>> from dspectral import write_counts
    >>> rows = write_counts(np.eye(5), "memory://spans", block_rows=1).counts
    >>> group_blocks_by_size([rows], 40), group_blocks_by_size([rows], 0) == [range(i, i + 1) for i in range(5)]
    ([range(0, 2), range(2, 4), range(4, 5)], True)
    """
    n_blocks = arrays[0].numblocks[0]
    nbytes_by_stream = [get_block_nbytes(array) for array in arrays] if target else [None]
    target = min(target, get_max_group_bytes())
    if any(nbytes is None for nbytes in nbytes_by_stream):
        return [range(i, i + 1) for i in range(n_blocks)]
    sizes = [sum(block_nbytes) for block_nbytes in zip(*filter(None, nbytes_by_stream), strict=True)]
    # Invariant: the blocks before starts[-1] are in complete groups; the current group has `filled` bytes.
    starts, filled = [0], 0
    for i, size in enumerate(sizes):
        if i > starts[-1] and (filled + size > target or i - starts[-1] == MAX_GROUPED_BLOCKS):
            starts.append(i)
            filled = 0
        filled += size
    return [range(*ends) for ends in pairwise([*starts, n_blocks])]


def join_blocks(first_block: int, shapes: Sequence[DeclaredBlock], *blocks: Any) -> CSRRows:
    """Check consecutive blocks of one stream, and concatenate them."""
    checked = []
    for number, (block, shape) in enumerate(zip(blocks, shapes, strict=True), first_block):
        try:
            checked.append(check_block(block, shape))
        except ValueError as error:
            raise ValueError(f"row block {number}: {error}") from error
    joined = sparse.csr_array(sparse.vstack([sparse.csr_array(block) for block in checked], format="csr"))
    joined.has_canonical_format = True  # each block has canonical format, and no row is in two blocks
    return joined


def count_rows(arrays: Sequence[da.Array]) -> int | None:
    """Return the number of rows of aligned streams, or None if no stream is a matrix."""
    matrices = [array for array in arrays if array.dtype.kind != "O"]
    return int(sum(matrices[0].chunks[0])) if matrices else None


def count_bytes(arrays: Sequence[da.Array]) -> int | None:
    """Return the bytes of all streams, or None if they are unknown before reading."""
    if any(array.dtype.kind == "O" for array in arrays):
        return None
    sizes = [_get_array_bytes(array) for array in arrays]
    return None if None in sizes else sum(filter(None, sizes))


def _get_array_bytes(array: da.Array) -> int | None:
    if isinstance(array._meta, np.ndarray):  # noqa: SLF001  the kind of its blocks
        return int(array.nbytes)
    if get_annotation(array, IN_MEMORY):
        return sum(get_nbytes(getattr(block, "value", block)) for block in array.dask.values())
    sizes = get_block_nbytes(array)
    return None if sizes is None else sum(sizes)


def _get_bytes_and_kind(X: Stream) -> tuple[Any, int | None, bool]:
    """Return the rows, their bytes (None if unknown) and whether their blocks are dense."""
    rows: Any = X if is_in_memory(X) else as_dask_rows(cast("Any", X))
    is_lazy_array = isinstance(rows, da.Array)
    n_bytes = count_bytes([rows]) if is_lazy_array else get_nbytes(rows)
    return rows, n_bytes, isinstance(rows._meta if is_lazy_array else rows, np.ndarray)  # noqa: SLF001


def is_small(X: Stream, share: float = 1.0) -> bool:
    """Report whether rows take at most a share of the bytes of a matrix that is decomposed in memory.

    The size of lazy sparse rows is known only if they are annotated.
    """
    rows, n_bytes, is_dense = _get_bytes_and_kind(X)
    if is_dense and min(rows.shape) > MAX_DENSE_SIDE:
        return False
    return n_bytes is not None and n_bytes <= share * get_in_memory_bytes()


def has_few_zeros(X: Stream, share: float) -> bool:
    """Report whether blocks are dense, or store at least this share of their entries."""
    rows, n_bytes, is_dense = _get_bytes_and_kind(X)
    entries = share * rows.shape[0] * rows.shape[1]
    return is_dense or (n_bytes is not None and n_bytes >= entries * (rows.dtype.itemsize + 4))


def block_tasks(
    function: Callable[..., Any],
    arrays: list[da.Array],
    name: str,
    block_groups: Sequence[range] | None = None,
) -> tuple[Graph, Tree]:
    """Return a graph and its merge tree; one task per block group reads the group and calls the function."""
    graph: Graph = {}
    # Optimized together, so that streams of one source share the tasks that read it.
    is_local = all(get_annotation(array, IN_MEMORY) for array in arrays)  # nothing to optimize
    for array in arrays if is_local else dask.optimize(*arrays):
        graph.update(get_array_nodes(array))
    shared = f"shared-{name}"
    graph[shared] = shared_node(shared, function)
    tree: Tree = {}
    # Each task compares its blocks with the declared shapes and dtypes.
    n_blocks = arrays[0].numblocks[0]
    block_groups = [range(i, i + 1) for i in range(n_blocks)] if block_groups is None else block_groups
    keys = [[row[0] for row in array.__dask_keys__()] for array in arrays]
    for i, block_group in enumerate(block_groups):
        key, first = (name, i, 0), block_group[0]
        block_keys = [keys_by_stream[number] for number in block_group for keys_by_stream in keys]
        shapes: tuple[DeclaredBlock, ...] = tuple(get_declared_block(array, first) for array in arrays)
        read, sizes = block_keys, tuple[int, ...]()
        if len(block_group) > 1:
            # A separate task inside the fused one, so that blocks are freed after they are concatenated.
            read = [(f"join-{name}", i, stream) for stream in range(len(arrays))]
            for read_key, array, keys_by_stream in zip(read, arrays, keys, strict=True):
                shapes = tuple(get_declared_block(array, number) for number in block_group)
                blocks = (task_ref(keys_by_stream[number]) for number in block_group)
                graph[read_key] = make_task(read_key, join_blocks, first, shapes, *blocks)
            sizes = tuple(arrays[0].chunks[0][number] for number in block_group)
        graph[key] = make_task(key, call_on_blocks, task_ref(shared), first, shapes, sizes, *map(task_ref, read))
        tree[key] = block_keys
    return graph, tree


def call_on_blocks(
    shared: SharedFunction, first_block: int, shapes: Sequence[DeclaredBlock], sizes: Sequence[int], *rows: Any
) -> Any:
    """Call a function of one block, or of a block group of some sizes; errors name the number of the block."""
    try:
        blocks = rows if sizes else map(check_block, rows, shapes)
        with blas_in_one_thread():
            return copy_unaligned(shared.function)(*map(copy_unaligned, blocks))
    except ValueError as error:
        if not sizes:
            raise ValueError(f"row block {first_block}: {error}") from error
        # Call it on each block, to find the number of the block with the error.
        stream_blocks = (iterate_slices(joined, sizes) for joined in rows)
        for number, row_blocks in enumerate(zip(*stream_blocks, strict=True), first_block):
            call_on_blocks(shared, number, (None,) * len(row_blocks), (), *row_blocks)
        raise ValueError(f"row blocks {first_block} to {first_block + len(sizes) - 1}: {error}") from error
