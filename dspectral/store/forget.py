"""Forget rows of a store: only their blocks are written again, and one write of the root replaces them."""

import warnings
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from dspectral.engine import expect_passes, is_dry_run, run_tasks, tracked_fit
from dspectral.engine.around.callbacks import PassStarted
from dspectral.engine.around.checkpoints import CheckpointFolder, digest
from dspectral.engine.around.context import StopAtFirstPass
from dspectral.paths import resolve_url
from dspectral.store.arrays import compute_content_hash
from dspectral.store.blocks import (
    IDS,
    TEXTS,
    BlockInfo,
    read_block,
    read_documents,
    read_labels,
    to_stored_dtype,
    write_block,
    write_documents,
)
from dspectral.store.counts import FIRST, CountStore, get_totals_path, open_store
from dspectral.store.location import Location, StoreError
from dspectral.store.lock import hold_write_lock
from dspectral.store.vocabulary import (
    KEEP_TERMS,
    Vocabulary,
    get_vocabulary_path,
    read_vocabulary,
    write_term_sample,
    write_vocabulary,
)
from dspectral.store.writer import (
    SETTINGS,
    StoreWriter,
    add_totals,
    finish_store,
    get_plan_path,
    list_replaced,
    open_writer,
)
from dspectral.text.hashing import HashingSettings
from dspectral.text.term_bytes import take_terms
from dspectral.text.term_sample import TermSample, merge_samples
from dspectral.text.weighting import select_columns
from dspectral.types import CheckpointPath, Documents, Int64s

FORGET, HISTORY = "forget", "forgotten"
"""Entry of the manifest with a hash of the request, and entry of the provenance with the receipts."""


class ForgetReceipt(NamedTuple):
    """Record of forgotten rows, without their content; the store keeps it in ``provenance["forgotten"]``.

    Attributes
    ----------
    n_rows, n_remaining_rows : int
        Number of rows that were removed, and of those that remain.
    blocks : list of (str, str or None)
        Content hashes of each rewritten block, before and after; None if no row remains.
    n_unused_terms : int
        Number of terms of the vocabulary that no row has; ``compact=True`` removes them.
    time, version : str
        Time in UTC, and version of dspectral.
    checkpoints : list of str
        Removed checkpoints; not kept in the store.
    """

    n_rows: int
    n_remaining_rows: int
    blocks: list[list[str | None]]
    n_unused_terms: int
    time: str
    version: str
    checkpoints: list[str]


@tracked_fit
def forget(
    store: CountStore | str | PathLike[str],
    rows: Iterable[int] | Iterable[str],
    *,
    compact: bool = False,
    checkpoints: CheckpointPath = None,
    storage_options: dict[str, Any] | None = None,
) -> ForgetReceipt:
    """Remove rows from a store, with their texts, ids and labels; all totals become those of the other rows.

    Parameters
    ----------
    store : CountStore, str or path-like
        Finished store, or its path or URL. An opened store is refused if another write has changed it since.
    rows : iterable of int, or of str
        Row numbers, from 0; or ids, each of which stands for all rows with this id.
    compact : bool, default=False
        Whether to remove the terms of the vocabulary that no row has any more, and to sort the others as a new build
        does. All blocks are written again.
    checkpoints : str or Path, optional
        Folder or URL of checkpoints: those that may depend on the old blocks are removed.
    storage_options : dict, optional
        Options of the file system of a path or URL.

    Returns
    -------
    ForgetReceipt
        Record of what was done.

    Raises
    ------
    IndexError
        If a row number is out of range.
    ValueError
        If no rows or all rows are given, or an id is unknown.
    StoreError
        If there is no finished store, another writer has changed it, or old data cannot be removed.

    Warns
    -----
    UserWarning
        If the store names hashed columns by terms but keeps no texts: the terms are removed.

    Notes
    -----
    One read and one write of each block that holds one of the rows, and one read of the column sums of the others. The
    store changes in one step, when its root is written; then the old blocks are removed. If a call is killed in
    between, the next one with the same path and rows removes them. Stores that were opened before lose the old blocks.
    Models, coordinates and copies of rows elsewhere are not changed.

    Examples
    --------
    >>> from dspectral import open_store, write_counts
    >>> _ = write_counts(np.eye(4), "memory://forgetful", block_rows=2)
    >>> receipt = forget("memory://forgetful", [3])
    >>> receipt.n_rows, len(receipt.blocks), open_store("memory://forgetful").block_rows
    (1, 1, [2, 1])
    """
    opened = store if isinstance(store, CountStore) else open_store(store, storage_options=storage_options)
    if not isinstance(opened, CountStore) or opened.left_out:
        raise TypeError(f"{opened!r} must be a whole store of dspectral, opened without leaving out blocks")
    location, request = opened.location, list(rows)
    if is_dry_run():
        starts = np.cumsum([0, *opened.block_rows])
        n_blocks = len(np.unique(np.searchsorted(starts, _find_rows(opened, request), side="right")))
        expect_passes(1)
        pass_info = PassStarted("", "forget-block", "", opened.n_blocks if compact else n_blocks)
        raise StopAtFirstPass(pass_info, None)
    request_hash = compute_content_hash([*map(str, request), compact])
    if _list_old(opened):  # an earlier call was killed after it had written the root
        with hold_write_lock(location):
            _remove_old(opened)
        is_same = (location.read_attributes(get_plan_path(opened.generation)) or {}).get(FORGET) == request_hash
        if is_same and not isinstance(store, CountStore):
            return ForgetReceipt(**opened.provenance[HISTORY][-1], checkpoints=[])
    numbers = _find_rows(opened, request)
    if compact and not opened.provenance.get("vocabulary"):
        raise ValueError(f"compact=True needs a vocabulary, but {opened!r} has none: leave it out")
    settings = {key: opened.provenance[key] for key in SETTINGS if key in opened.provenance}
    with open_writer(location.url, dict(location.options), {**settings, FORGET: request_hash}, append=True) as writer:
        if writer.generation != opened.generation + 1:
            raise StoreError(f"{location.url} was written since it was opened: open it again and find the rows in it")
        folder = None if checkpoints is None else CheckpointFolder(*resolve_url(checkpoints))
        return _write_others(writer, opened, numbers, folder, compact=compact)


def _find_rows(store: CountStore, request: list[Any]) -> Int64s:
    """Return the sorted numbers of the requested rows, which must be some but not all."""
    if request and all(isinstance(row, str) for row in request):
        if (ids := store.ids) is None:
            raise ValueError(f"rows are ids, but {store!r} has none: pass row numbers, or build it with id_field")
        if unknown := set(request).difference(ids):
            raise ValueError(f"rows have {len(unknown)} ids that are not in {store!r}, such as {min(unknown)!r}")
        known = set(request)
        request = [number for number, row_id in enumerate(ids) if row_id in known]
    numbers = np.unique(np.asarray(request))
    if not len(numbers) or numbers.dtype.kind not in "iu":
        raise ValueError(f"rows={request!r:.60} must have row numbers or ids, at least one")
    if len(outside := numbers[(numbers < 0) | (numbers >= len(store))]):
        raise IndexError(f"row {outside[0]} must be at least 0 and below {len(store)}, the number of {store!r}")
    if len(numbers) == len(store):
        raise ValueError(f"rows are all {len(store)} rows, but a store needs at least one: remove {store!r} instead")
    return numbers.astype(np.int64)


def _write_others(
    writer: StoreWriter, opened: CountStore, numbers: Int64s, folder: CheckpointFolder | None, *, compact: bool
) -> ForgetReceipt:
    """Write the blocks, totals and terms of the other rows, then the root, and remove the old ones."""
    columns = _sort_columns(opened, numbers) if compact else None
    starts = np.cumsum([0, *opened.block_rows])
    ends = np.searchsorted(numbers, starts)
    items = [
        (writer.name(i), block, numbers[ends[i] : ends[i + 1]] - starts[i])
        for i, block in enumerate(opened.blocks)
        if compact or ends[i] < ends[i + 1]
    ]
    kinds = [kind for kind, key in ((IDS, "id_field"), (TEXTS, "keep_texts")) if opened.provenance.get(key)]
    rewrite = partial(_rewrite_block, location=writer.location, kinds=kinds, columns=columns)
    written = dict(zip((block for _, block, _ in items), run_tasks(rewrite, items, name="forget-block"), strict=True))
    blocks = [block for old in opened.blocks if (block := written.get(old, old)) is not None]
    provenance = {**opened.provenance, FIRST: writer.generation}
    n_columns = opened.n_columns if columns is None else len(columns)
    writer = writer._replace(existing_blocks=(), n_columns=n_columns, provenance=provenance)
    totals, n_unused = add_totals(writer, blocks), 0
    if provenance.get("vocabulary"):
        terms = _read_terms(opened) if columns is None else take_terms(_read_terms(opened), columns)
        write_vocabulary(writer.location, writer.vocabulary, Vocabulary(terms, totals[1], totals[0].astype(np.int64)))
        n_unused = int(np.sum(totals[1] == 0))
    _write_kept_terms(writer, opened, blocks)
    old_blocks = {digest(block) for block in written}
    removed = [] if folder is None else folder.remove_dependent(old_blocks)
    hashes = [[_hash_block(old), None if new is None else _hash_block(new)] for old, new in written.items()]
    time = datetime.now(UTC).isoformat(timespec="seconds")
    sizes = len(numbers), len(opened) - len(numbers)
    receipt = ForgetReceipt(*sizes, hashes, n_unused, time, version("dspectral"), removed)
    record = {name: value for name, value in receipt._asdict().items() if name != "checkpoints"}
    provenance[HISTORY] = [*provenance.get(HISTORY, []), record]
    _remove_old(finish_store(writer, blocks, totals))
    return receipt


def _rewrite_block(
    item: tuple[str, BlockInfo, Int64s], *, location: Location, kinds: list[str], columns: Int64s | None
) -> BlockInfo | None:
    """Write a block without some rows, with the given columns; None if no row remains."""
    name, block, removed = item
    remaining = np.setdiff1d(np.arange(block.n_rows), removed)
    if not len(remaining):
        return None
    rows = read_block(location, block)[remaining]
    rows.data = to_stored_dtype(rows.data, name)
    if columns is not None:
        rows = select_columns(rows, columns)
        rows.sort_indices()
    for kind in kinds:
        documents = take_terms(read_documents(location, f"{block.name}/{kind}"), remaining)
        write_documents(location, f"{name}/{kind}", documents)
    labels = None if block.n_labels is None else read_labels(location, block)[remaining]
    return write_block(location, name, rows, labels=labels, last=block.last)


def _sort_columns(store: CountStore, numbers: Int64s) -> Int64s:
    """Return the columns that rows other than the given ones have, in the order of a vocabulary of these rows."""
    frequency = store.document_frequency - store[numbers].document_frequency
    terms = _read_terms(store)
    ranks = np.empty(len(frequency), dtype=np.int64)
    ranks[sorted(range(len(frequency)), key=terms.text)] = np.arange(len(frequency))
    order = np.lexsort([ranks, -frequency])
    return order[: np.count_nonzero(frequency)]


def _read_terms(store: CountStore) -> Documents:
    return read_vocabulary(store.location, get_vocabulary_path(store.provenance.get(FIRST, 0))).documents


def _write_kept_terms(writer: StoreWriter, opened: CountStore, blocks: list[BlockInfo]) -> None:
    """Write the terms that name hashed columns, counted in the texts again; drop them if the store has no texts."""
    if opened.hashing is None or not (size := opened.provenance.get(KEEP_TERMS)):
        return
    if not opened.provenance.get("keep_texts"):
        del writer.provenance[KEEP_TERMS]
        warnings.warn(
            f"{opened!r} names its hashed columns by terms, but keeps no texts to count them without the rows: the "
            "terms are removed; build the store again with keep_terms to have them",
            stacklevel=4,
        )
        return
    sample = partial(_sample_terms, location=writer.location, settings=opened.hashing, size=size)
    merged = merge_samples(run_tasks(sample, blocks, name="count-terms"))
    write_term_sample(writer.location, get_totals_path(writer.generation), merged)


def _sample_terms(block: BlockInfo, *, location: Location, settings: HashingSettings, size: int) -> TermSample:
    return TermSample.from_block(read_documents(location, f"{block.name}/{TEXTS}"), settings, size)


def _hash_block(block: BlockInfo) -> str:
    return compute_content_hash(list(block[1:]))


def _list_old(store: CountStore) -> list[str]:
    """Return the paths of data that a store has replaced."""
    return list_replaced(store.location, store.provenance.get(FIRST, 0), {block.name for block in store.blocks})


def _remove_old(store: CountStore) -> None:
    store.location.remove(*_list_old(store))
    if old := _list_old(store):
        raise StoreError(f"{old[0]} of {store.location.url} was replaced, but cannot be removed: call forget again")
