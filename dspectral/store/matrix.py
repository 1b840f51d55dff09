"""Write a matrix of counts as a store."""

from functools import partial
from itertools import groupby
from os import PathLike
from typing import Any, cast
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
from dask.base import tokenize
from scipy import sparse

from dspectral.engine import (
    as_dask_rows,
    expect_passes,
    is_dry_run,
    is_lazy,
    run_tasks,
    thread_pool_options,
    tracked_fit,
)
from dspectral.engine.around.callbacks import PassStarted
from dspectral.engine.around.context import StopAtFirstPass
from dspectral.engine.blocks import chunk_rows
from dspectral.linalg.block_sums import check_indicator
from dspectral.parameters import check_size
from dspectral.store.arrays import compute_digest
from dspectral.store.blocks import BlockInfo, find_block, to_stored_dtype, write_block
from dspectral.store.columns import WEIGHTING_KEY, check_columns, get_columns, get_weighting
from dspectral.store.counts import CountStore, open_finished
from dspectral.store.location import Location
from dspectral.store.writer import StoreWriter, finish_store, open_writer
from dspectral.types import CSRRows, Rows, RowsLike, is_sparse


@tracked_fit
def write_counts(
    X: RowsLike,
    store: str | PathLike[str],
    *,
    labels: "RowsLike | None" = None,
    block_rows: int | None = None,
    signed: bool = False,
    append: bool = False,
    overwrite: bool = False,
    provenance: dict[str, Any] | None = None,
    storage_options: dict[str, Any] | None = None,
) -> CountStore:
    """Write a matrix of counts as a store, block by block in parallel.

    Parameters
    ----------
    X : SciPy sparse, ndarray, or Dask array of CSR or dense blocks cut by rows, shape (n_rows, n_columns)
        Rows of finite real numbers, none of them negative unless ``signed``.
    store : str or path-like
        Local path or fsspec URL of the store to make.
    labels : SciPy sparse, ndarray, or Dask array, shape (n_rows, n_labels), optional
        1 or True where a row has the label, 0 elsewhere; stored with the rows.
    block_rows : int, optional
        Number of rows of a block; by default a Dask array's chunks, or 64 MiB of an array in memory.
    signed : bool, default=False
        Whether negative entries are allowed, as signed hashing gives.
    append : bool, default=False
        Whether to add the rows to a finished store, which stays unchanged until all of them are written.
    overwrite : bool, default=False
        Whether to replace a finished store, which stays unchanged until the new one is complete.
    provenance : dict, optional
        Origin of the rows, in JSON values; recorded in the store.
    storage_options : dict, optional
        Options of the store's file system.

    Returns
    -------
    CountStore
        The finished store.

    Raises
    ------
    ValueError
        If an entry is NaN, infinite or (unless ``signed``) negative, or rows or labels do not fit.
    StoreError
        If there is a finished store of other rows or arguments, or ``append`` finds none with as many columns.

    Notes
    -----
    One pass: a task computes, checks and writes one block. Values are stored as float32. A block with integers that
    float32 cannot hold, from 16,777,217 on, is stored as float64, and the store is then read as float64. Repeating an
    interrupted call with the same rows resumes it: equal rows in memory, or a Dask array with the same name. An error
    leaves a finished store unchanged. A finished store of equal rows in memory is opened, with a warning.

    Examples
    --------
    >>> write_counts(np.eye(3), "memory://identity").counts.compute().toarray()
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    in_memory = not is_lazy(X)
    rows = as_dask_rows(X)
    if block_rows is not None:
        size = check_size("block_rows", block_rows)
        rows = chunk_rows(X, size) if in_memory else rows.rechunk({0: size})
    n_rows, n_columns = rows.shape
    if not n_rows:
        raise ValueError("X has 0 rows, but needs at least one")
    if rows.dtype.kind not in "biuf":
        raise ValueError(f"X has dtype {rows.dtype}, but counts must be real numbers: convert it")
    # The manifest stores block sizes run-length encoded.
    cuts = [[size, len(list(run))] for size, run in groupby(rows.chunks[0])]
    settings = {"matrix": {"shape": [n_rows, n_columns], "cuts": cuts}, "signed": signed, **(provenance or {})}
    if weighting := get_weighting(X):
        settings[WEIGHTING_KEY] = weighting
    parts = [rows]
    if labels is not None:
        parts.append(align_labels(rows, labels))
        settings["labels"] = parts[1].shape[1]
        in_memory = in_memory and not is_lazy(labels)
    if append and (existing_store := open_finished(Location.from_url(store, storage_options))) is not None:
        check_columns(existing_store, get_columns(X))
    rows_are = " ".join(map(_compute_token, (X, labels), parts))
    modes: dict[str, Any] = {"append": append, "overwrite": overwrite}
    # The name of a lazy array does not show that the data behind it have changed.
    content = {"n_columns": n_columns, "content": rows_are, "reuse": in_memory}
    with open_writer(store, storage_options, settings, **modes, **content) as writer:
        if writer.finished is not None:
            return cast(CountStore, writer.finished)
        return finish_store(writer, _write_blocks(writer, parts, signed=signed, in_memory=in_memory))


def _compute_token(X: RowsLike, rows: da.Array) -> str:
    """Return a token of rows: a hash of rows in memory, the Dask name of lazy rows."""
    if is_lazy(X):
        return str(rows.name)
    if not is_sparse(X):
        return str(tokenize(X, rows.shape))
    csr = sparse.csr_array(X)
    return str((compute_digest(csr.data, csr.indices, csr.indptr), rows.shape))


def align_labels(rows: da.Array, labels: RowsLike) -> da.Array:
    """Return labels with the chunks of the rows."""
    array = as_dask_rows(labels)
    if array.shape[0] != rows.shape[0]:
        raise ValueError(f"labels have {array.shape[0]} rows, but must have {rows.shape[0]}, one for each row of X")
    return array if array.chunks[0] == rows.chunks[0] else array.rechunk({0: rows.chunks[0]})


def _write_blocks(writer: StoreWriter, parts: list[da.Array], *, signed: bool, in_memory: bool) -> list[BlockInfo]:
    """Write the incomplete blocks, in threads for rows in memory; return the infos of all blocks."""
    n_blocks = parts[0].numblocks[0]
    existing_blocks: list[BlockInfo | None] = [None] * n_blocks
    if writer.resumed:  # complete blocks are not computed again
        names = [writer.name(i) for i in range(n_blocks)]
        existing_blocks = run_tasks(partial(find_block, writer.location), names, name="find-block")
    # Each task returns its BlockInfo as an object array of shape (1, 1).
    written = da.map_blocks(
        partial(_write_block, writer=writer.drop_history(), signed=signed),
        *parts,
        chunks=((1,) * n_blocks, (1,)),
        dtype=object,
        meta=np.empty((0, 0), dtype=object),
        name=f"write-block-{uuid4().hex}",
    )
    if is_dry_run():
        expect_passes(1)
        raise StopAtFirstPass(PassStarted("", "write-block", str(written.name), n_blocks), None)
    tasks = [row[0] for row, info in zip(written.to_delayed(), existing_blocks, strict=True) if info is None]
    with thread_pool_options(force=in_memory) as threads:
        new_infos = iter(dask.compute(*tasks, **threads))
    infos = [next(new_infos) if info is None else info for info in existing_blocks]
    for number, (info, size) in enumerate(zip(infos, parts[0].chunks[0], strict=True)):
        if info.n_rows != size:
            raise ValueError(f"row block {number} has {info.n_rows} rows, but must have {size}, its Dask chunk size")
    return infos


def _write_block(
    block: Rows, labels: "Rows | None" = None, *, block_id: tuple[int, int], writer: StoreWriter, signed: bool
) -> BlockInfo:
    number = block_id[0]
    name = f"row block {number}"
    if np.ma.isMaskedArray(block) or np.ma.isMaskedArray(labels):
        raise ValueError(f"row block {number} is a masked array, but counts cannot be missing: fill the entries")
    if block.shape[1] != writer.n_columns:
        raise ValueError(f"row block {number} has {block.shape[1]} columns, but must have {writer.n_columns}")
    with np.errstate(over="ignore"):  # overflow becomes infinity, which is checked below
        entries = block if is_sparse(block) else np.asarray(block)
        # SciPy does not support float16, and its constructor copies views.
        small = not is_sparse(entries) and entries.dtype.itemsize < 4
        rows = entries.astype(np.float32) if small else entries
        rows = rows if isinstance(rows, sparse.csr_array) else sparse.csr_array(rows)
        # Sums of duplicates may overflow or cancel, so entries are checked after summing, and zeros are removed last.
        # The block may be a view of the caller's data, so only copies are modified.
        if not rows.has_canonical_format:
            to_stored_dtype(rows.data, name)  # raises for entries that summing would round
            rows = rows.astype({"i": np.int64, "u": np.uint64}.get(rows.dtype.kind, np.float64))
            rows.sum_duplicates()
        entries = to_stored_dtype(rows.data[: rows.indptr[-1]], name)
        rows = sparse.csr_array((entries, rows.indices[: len(entries)], rows.indptr), shape=rows.shape)
        rows.has_canonical_format = True
    _check_signs(rows, number, signed=signed)
    if not rows.data.all():
        rows = rows.copy()
        rows.eliminate_zeros()
    if labels is not None:
        labels = sparse.csr_array(labels).copy() if is_sparse(labels) else labels  # changed in place below
        check_indicator(labels)
        labels = labels if is_sparse(labels) else sparse.csr_array(labels != 0)
        labels.sum_duplicates()
        labels.eliminate_zeros()
    return write_block(writer.location, writer.name(number), rows, labels=labels)


def _check_signs(rows: CSRRows, block_number: int, *, signed: bool) -> None:
    # Comparisons with NaN are False, so valid entries need no boolean array.
    low, high = rows.data.min(initial=0), rows.data.max(initial=0)
    if (low > -np.inf if signed else low >= 0) and high < np.inf:
        return
    finite = np.isfinite(rows.data)
    wrong = np.flatnonzero(~finite if signed else ~(finite & (rows.data >= 0)))
    value, column = rows.data[wrong[0]], rows.indices[wrong[0]]
    row = int(np.searchsorted(rows.indptr, wrong[0], side="right")) - 1
    remedy = "be finite in float32" if not np.isfinite(value) else "be at least 0, or use signed=True"
    raise ValueError(f"row block {block_number}: row {row}, column {column} is {value}, but must {remedy}")
