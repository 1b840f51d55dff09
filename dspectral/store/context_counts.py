"""Context counts larger than memory: blocks spill packed counts to disk, then row blocks are summed."""

import json
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
from scipy import sparse

from dspectral.cooccurrence.contexts import ContextSettings, RowSums, count_contexts, make_window
from dspectral.cooccurrence.packed_counts import pack_rows, sum_packed_rows
from dspectral.engine import Blocks, count_as_pass, run_tasks
from dspectral.engine.around.retries import retry
from dspectral.linalg.panels import split_by_size
from dspectral.store.arrays import decode_chunk, encode_chunk
from dspectral.store.blocks import BlockInfo, find_block, write_block
from dspectral.store.counts import CountStore, open_finished
from dspectral.store.location import Location, StoreError
from dspectral.store.writer import StoreWriter, finish_store, open_writer
from dspectral.types import CSRRows, FloatArray, Int64s


def spill_contexts(
    sentences: Blocks,
    corpus: Location,
    entries: Int64s,
    settings: ContextSettings,
    *,
    max_entries: int,
    dtype: type[np.float32] | type[np.float64] = np.float32,
    ids: str = "",
) -> CountStore:
    """Count contexts into a store of row blocks inside a corpus; resumes an interrupted call.

    One pass over the sentences and one over the spilled counts, about two bytes per entry and block. A task holds 16
    bytes per token of a block, or 36 bytes per entry of a row block. Shapes: `entries` (n_types,); returns (n_types,
    n_contexts).
    """
    options = settings._asdict()
    # The folder name is a hash of blocks and settings: equal calls share counts, and other calls do not.
    inputs = [options, max_entries, sentences.items, *([ids, np.dtype(dtype).name] if ids else [])]
    digest = sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]
    location = corpus._replace(url=f"{corpus.url.rstrip('/')}/contexts/{digest}")
    finished = open_finished(location)
    if finished is not None:
        return finished
    parts = split_by_size(entries, max_entries)
    record: dict[str, Any] = {"contexts": options, "rows": [list(part) for part in parts]}
    with open_writer(location.url, dict(location.options), record) as new_writer:
        window = make_window(**options)
        writer = new_writer._replace(n_columns=window.n_columns)
        target = writer.drop_history()
        count = partial(_spill_block, sentences=sentences, writer=target, type_ranges=parts, settings=settings)
        # First pass: one task per block of sentences. Second pass: one task per row block.
        with count_as_pass(is_pass=True):
            index = np.array(run_tasks(count, list(enumerate(sentences.items)), name="count-contexts"))
        merge = partial(_merge_row_block, writer=target, dtype=dtype)
        # Each task gets only its own chunks; otherwise the graph grows with the square of the data.
        items = [(i, b - a, max(max_entries, int(entries[a:b].sum())), index[:, i]) for i, (a, b) in enumerate(parts)]
        return finish_store(writer, run_tasks(merge, items, name="merge-contexts"))


def _spill_block(
    item: tuple[int, object],
    *,
    sentences: Blocks,
    writer: StoreWriter,
    type_ranges: list[tuple[int, int]],
    settings: ContextSettings,
) -> list[tuple[int, int, int]]:
    """Write the counts of one block of sentences into one file; return start, stop and length of each row block."""
    block_number, block = item
    path = _get_spill_path(writer, block_number)
    if marker := writer.location.read_attributes(path):
        return list(marker["index"])
    window = make_window(**settings._asdict())
    bodies, index, stop = [], list[tuple[int, int, int]](), 0
    for rows in count_contexts(sentences.read(block), settings.n_types, window, type_ranges):
        packed = pack_rows(rows)
        bodies.append(encode_chunk(packed))
        start, stop = stop, stop + len(bodies[-1])
        index.append((start, stop, len(packed)))
    name = f"{path}/counts"
    retry(writer.location.write_file, name, b"".join(bodies), description=f"writing {name} of {writer.location.url}")
    writer.location.write_attributes(path, {"index": index})
    return index


def _get_spill_path(writer: StoreWriter, block_number: int) -> str:
    return f"{writer.scratch}/{block_number:06d}"


def _merge_row_block(
    item: tuple[int, int, int, Int64s], *, writer: StoreWriter, dtype: type[np.float32] | type[np.float64]
) -> BlockInfo:
    """Sum one row block over all blocks of sentences, in their order, and write it."""
    row_block, n_rows, max_numbers, index = item
    name = writer.name(row_block)
    if (finished := find_block(writer.location, name)) is not None:
        return finished
    row = RowSums.allocate(writer.n_columns)
    total = np.empty(0), np.empty(0, dtype=np.int32), np.zeros(n_rows + 1, dtype=np.int64)
    # Invariant: `total` is the sum over all previous block groups. Two neighboring groups have more numbers than the
    # total has entries, so adding the total to each group costs at most a few times as much as reading it.
    for first, last in split_by_size(index[:, 2], max_numbers):
        packed_rows, starts = _read_block_group(writer, first, index[first:last])
        total = sum_packed_rows(total, packed_rows, starts, row)
        del packed_rows  # before the next group is read
    data, indices, indptr = total
    if len(data) < 2**31:  # the type of the columns; otherwise SciPy copies them to the type of `indptr`
        indptr = indptr.astype(np.int32)
    # Sums are float64 and are rounded only when stored.
    values: FloatArray = data.astype(dtype, copy=False)
    rows: CSRRows = sparse.csr_array((values, indices, indptr), shape=(n_rows, writer.n_columns))
    rows.has_canonical_format = True
    del data, values, total
    return write_block(writer.location, name, rows)


def _read_block_group(writer: StoreWriter, first: int, index: Int64s) -> tuple[Int64s, Int64s]:
    """Read the counts of a row block in neighboring blocks into one array; return it and the start of each."""
    ends = np.cumsum([0, *index[:, 2]])
    packed_rows = np.empty(ends[-1], dtype=np.int64)
    for i, (start, stop, _) in enumerate(index.tolist()):
        name = f"{_get_spill_path(writer, first + i)}/counts"
        file_system, file = writer.location.path(name)
        try:
            body = retry(file_system.cat_file, file, start, stop, description=f"reading {name}")
            decode_chunk(np.frombuffer(body, dtype=np.uint8), packed_rows[ends[i] : ends[i + 1]])
        except (FileNotFoundError, ValueError) as error:
            path = f"{writer.location.url}, {name}"
            raise StoreError(
                f"{path} is missing or damaged ({error}); remove its folder and repeat the call"
            ) from error
    return packed_rows, ends[:-1]
