"""A matrix of counts to a store."""

from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
from scipy import sparse

from dspectral.graph import is_lazy, lazy_rows
from dspectral.store.blocks import BlockInfo, finished, write_block
from dspectral.store.counts import CountStore
from dspectral.store.draft import Draft, begin, finish


def write_counts(
    X: Any,
    store: str,
    *,
    block_rows: int | None = None,
    signed: bool = False,
    append: bool = False,
    provenance: dict[str, Any] | None = None,
    storage_options: dict[str, Any] | None = None,
) -> CountStore:
    """Write a matrix of counts as a store, block by block in parallel.

    Parameters
    ----------
    X : SciPy sparse, ndarray, or Dask array of CSR or dense blocks cut by rows, shape (n_rows, n_columns)
    store : str
        Local path or fsspec URL of the store to make.
    block_rows : int, optional
        Rows of a block, for an array in memory; a Dask array's chunks are the blocks.
    signed : bool
        Whether negative entries are allowed, as signed hashing gives.
    append : bool
        Whether to add the rows behind those of a finished store.
    provenance : dict, optional
        Recorded in the store.
    storage_options : dict, optional

    Returns
    -------
    CountStore

    Raises
    ------
    ValueError
        If an entry is NaN, infinite or (unless ``signed``) negative, or the array is not cut by rows.
    StoreError
        If the store exists already, or ``append`` finds none or one of another width.

    Examples
    --------
    >>> write_counts(np.eye(3), "memory://identity").counts.compute().toarray()
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    in_memory = not is_lazy(X)
    rows = lazy_rows(X)
    if in_memory and block_rows is not None:
        rows = rows.rechunk({0: block_rows})
    made = {"matrix": {"shape": list(rows.shape), "block_rows": block_rows}, "signed": signed, **(provenance or {})}
    draft = begin(store, storage_options, made, append=append, n_columns=rows.shape[1])
    written = da.map_blocks(
        partial(_write_rows, draft=draft._replace(earlier=()), signed=signed),
        rows,
        chunks=((1,) * rows.numblocks[0], (1,)),
        dtype=object,
        meta=np.empty((0, 0), dtype=object),
        name=f"write-block-{dask.base.tokenize(store, rows.name, draft.generation)}",
    )
    keys = [block for row in written.to_delayed() for block in row]
    return finish(draft, list(dask.compute(*keys, **({"scheduler": "threads"} if in_memory else {}))))


def _write_rows(block: Any, *, block_id: tuple[int, int], draft: Draft, signed: bool) -> BlockInfo:
    name = draft.name(block_id[0])
    done = finished(draft.where, name)
    if done is not None:
        return done
    rows = sparse.csr_array(block).astype(np.float32)
    rows.sum_duplicates()
    if rows.shape[1] != draft.n_columns:
        raise ValueError(f"row block {block_id[0]} has {rows.shape[1]} columns, but must have {draft.n_columns}")
    if not signed and rows.nnz and rows.data.min() < 0:
        raise ValueError(
            f"row block {block_id[0]} has a negative count ({rows.data.min()}): counts are 0 or more, "
            "signed=True allows others"
        )
    rows.eliminate_zeros()
    try:
        return write_block(draft.where, name, rows)
    except ValueError as error:
        raise ValueError(f"row block {block_id[0]}: {error}") from error
