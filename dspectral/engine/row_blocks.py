"""What can be read block by block: arrays in memory, Dask arrays, stores, and streams of anything else."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import dask.array as da
import numpy as np
from scipy import sparse

from dspectral.engine.task_graph import call
from dspectral.linalg.sparse_products import row_slice
from dspectral.types import is_sparse

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
    >>> from dspectral.engine import summarize
    >>> from dspectral.decomposition.moments import Moments
    >>> summarize(Blocks(np.diag, [[1.0, 2.0], [3.0, 4.0]]), of=Moments.of).gram
    array([[10.,  0.],
           [ 0., 20.]])
    """

    read: Callable[[Any], Any]
    items: Sequence[Any]
    in_memory: bool = False


def lazy_rows(X: Any) -> da.Array:
    """Return the Dask array behind ``X``, cut into row blocks of known sizes.

    Raises
    ------
    ValueError
        If the array is not two-dimensional, is cut in columns, or has row blocks of unknown size.
    """
    array = getattr(X, "counts", X)
    if is_in_memory(array):
        return in_blocks(array)
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


def is_in_memory(X: Any) -> bool:
    """Whether ``X`` lies in this process."""
    return X.in_memory if isinstance(X, Blocks) else isinstance(X, np.ndarray) or is_sparse(X)


def in_cuts(X: Any, name: str, *, in_memory: bool) -> da.Array:
    """Return the Dask array of what a pass reads, ``in_memory`` if all that it reads with it is."""
    if isinstance(X, Blocks):
        return as_array(X, f"{name}-block-{uuid4().hex}")  # read and summarised by one task, of this name
    return in_blocks(X) if in_memory else lazy_rows(X)


def as_array(blocks: Blocks, name: str) -> da.Array:
    """Return an array with one element a block, so that one mechanism serves rows and all else."""
    if not len(blocks.items):
        raise ValueError("there is no block at all")
    layer = {(name, i, 0): call((name, i, 0), blocks.read, item) for i, item in enumerate(blocks.items)}
    meta = np.empty((0, 0), dtype=object)
    return da.Array(layer, name, chunks=((1,) * len(layer), (1,)), meta=meta)


def in_blocks(X: Any) -> da.Array:
    """Cut an in-memory array into row blocks: views of it, computed where it lies."""
    if X.ndim != 2:
        raise ValueError(f"expected a two-dimensional array, got {X.ndim} dimension(s)")
    n_rows, n_columns = X.shape
    if is_sparse(X):
        X = sparse.csr_array(X)
        n_bytes = X.nnz * (X.data.itemsize + X.indices.itemsize)
    else:
        n_bytes = X.nbytes
    n_blocks = max(1, math.ceil(n_bytes / BLOCK_BYTES))
    cuts = np.diff(np.linspace(0, n_rows, n_blocks + 1).astype(np.int64))
    sizes = tuple(int(size) for size in cuts)
    meta = sparse.csr_array((0, 0), dtype=X.dtype) if is_sparse(X) else np.empty((0, 0), dtype=X.dtype)
    name = f"slice-{uuid4().hex}"
    layer = {(name, i, 0): block for i, block in enumerate(slices_of(X, sizes))}
    return da.Array(layer, name, chunks=(sizes, (n_columns,)), meta=meta)


def slices_of(X: Any, sizes: Sequence[int]) -> Iterator[Any]:
    """Yield consecutive rows, so many at a time."""
    stop = 0
    for size in sizes:
        start, stop = stop, stop + size
        yield row_slice(X, start, stop) if is_sparse(X) else X[start:stop]
