"""Context counts larger than memory: blocks spill packed counts to disk, then row blocks are summed."""

import json
from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from typing import Any

import google_crc32c
import numpy as np
from numcodecs import Zstd
from numpy.typing import NDArray
from scipy import sparse

from dspectral.cooccurrence.contexts import ContextSettings, RowSums, count_contexts, make_window
from dspectral.cooccurrence.packed_counts import ByteCoding, pack_rows, sum_packed_rows
from dspectral.engine import Blocks, count_as_pass, run_tasks
from dspectral.engine.around.retries import retry
from dspectral.linalg.panels import split_by_size
from dspectral.store.blocks import BlockInfo, find_block, write_block
from dspectral.store.counts import CountStore, open_finished
from dspectral.store.location import Location, StoreError
from dspectral.store.writer import StoreWriter, finish_store, open_writer, thread_pool_options
from dspectral.types import CSRRows, Doubles, FloatArray, Int64s

CODEC = Zstd(1)
FIELDS = 3
"""Numbers in the index for each chunk: start, decoded length and checksum; a chunk ends where the next one starts."""


def write_spill_file(location: Location, path: str, packed_rows: Iterable[NDArray[np.uint8]]) -> Int64s:
    """Write compressed chunks into one spill file and return its index. Shapes: returns (n_pieces + 1, 3)."""
    index, bodies = [], []
    for packed in packed_rows:
        body = CODEC.encode(packed)
        index.append((len(body), len(packed) // 8, _compute_checksum(body)))
        bodies.append(body)
    lengths = [8 * FIELDS * (len(index) + 1), *(length for length, _, _ in index)]
    table = np.zeros((len(index) + 1, FIELDS), dtype=np.int64)
    table[:-1] = np.reshape(index, (-1, FIELDS))
    table[:, 0] = np.cumsum(lengths)
    # The last row has no chunk; its checksum is that of the index.
    table[-1, 2] = _compute_checksum(table.reshape(-1)[:-1].tobytes())
    content = b"".join([table.tobytes(), *bodies])
    retry(location.write_file, path, content, description=f"writing {path} of {location.url}")
    return table


def read_spill_index(location: Location, path: str, n_chunks: int) -> Int64s | None:
    """Read the index of a spill file; None if it is missing or incomplete. Shapes: returns (n_pieces + 1, 3)."""
    n_bytes = 8 * FIELDS * (n_chunks + 1)
    try:
        head = retry(_read_bytes, location, path, 0, n_bytes, description=f"reading {path} of {location.url}")
    except FileNotFoundError:
        return None
    if len(head) < n_bytes:
        return None
    index = np.frombuffer(head, dtype=np.int64).reshape(-1, FIELDS)
    return index if index[-1, 2] == _compute_checksum(head[:-8]) else None


def read_spill_chunk(
    location: Location, path: str, begin: int, end: int, checksum: int, out: NDArray[np.uint8]
) -> None:
    """Read one chunk into ``out`` and verify its checksum."""
    name = f"store {location.url}: the spill file {path}"
    try:
        body = retry(_read_bytes, location, path, begin, end, description=f"reading {path} of {location.url}")
    except FileNotFoundError as error:
        raise StoreError(f"{name} is missing; repeat the call, which writes it again") from error
    if len(body) != end - begin or _compute_checksum(body) != checksum:
        raise StoreError(f"{name} is damaged; remove this file and repeat the call")
    if len(out):
        CODEC.decode(body, out=out)


def _compute_checksum(content: bytes) -> int:
    return int(google_crc32c.extend(0, np.frombuffer(content, np.uint8))) if content else 0


def _read_bytes(location: Location, path: str, begin: int, end: int) -> bytes:
    file_system, file = location.path(path)
    return bytes(file_system.cat_file(file, start=begin, end=end))


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

    One pass over the sentences and one over the spill files, about two bytes per entry and block. A task holds 16
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
        with count_as_pass(is_pass=True), thread_pool_options() as threads:
            indices = run_tasks(count, list(enumerate(sentences.items)), name="count-contexts", **threads)
        bounds = [int(entries[a:b].sum()) for a, b in parts]
        merge = partial(_merge_row_block, writer=target, weights=window.weights, max_entries=max_entries, dtype=dtype)
        # Each task gets only its own chunk positions; otherwise the graph grows with the square of the data.
        items = [(i, b - a, bounds[i], _get_chunk_ranges(indices, i)) for i, (a, b) in enumerate(parts)]
        with thread_pool_options() as threads:
            blocks = run_tasks(merge, items, name="merge-contexts", **threads)
        return finish_store(writer, blocks)


def _get_chunk_ranges(indices: list[Int64s], row_block: int) -> Int64s:
    """Return start, end, checksum and length of the chunk of a row block in each spill file."""
    return np.array(
        [(*index[row_block : row_block + 2, 0], index[row_block, 2], index[row_block, 1]) for index in indices]
    )


def _spill_block(
    item: tuple[int, object],
    *,
    sentences: Blocks,
    writer: StoreWriter,
    type_ranges: list[tuple[int, int]],
    settings: ContextSettings,
) -> Int64s:
    """Write the spill file of one block of sentences, one chunk per row block; return its index."""
    block_number, block = item
    path = _get_spill_path(writer, block_number)
    if (index := read_spill_index(writer.location, path, len(type_ranges))) is not None:
        return index
    window = make_window(**settings._asdict())
    coding = ByteCoding.from_weights(window.weights)
    # Memory: the packed counts, and the rows of one row block at a time.
    row_blocks = count_contexts(sentences.read(block), settings.n_types, window, type_ranges)
    return write_spill_file(writer.location, path, (pack_rows(rows, coding) for rows in row_blocks))


def _get_spill_path(writer: StoreWriter, block_number: int) -> str:
    return f"{writer.scratch}/{block_number:06d}.counts"


def _merge_row_block(
    item: tuple[int, int, int, Int64s],
    *,
    writer: StoreWriter,
    weights: Doubles,
    max_entries: int,
    dtype: type[np.float32] | type[np.float64],
) -> BlockInfo:
    """Sum one row block over all blocks of sentences, in their order, and write it."""
    row_block, n_rows, capacity, chunk_ranges = item
    name = writer.name(row_block)
    if (finished := find_block(writer.location, name)) is not None:
        return finished
    coding, row = ByteCoding.from_weights(weights), RowSums.allocate(writer.n_columns)
    total = np.empty(0), np.empty(0, dtype=np.int32), np.zeros(n_rows + 1, dtype=np.int64)
    # Invariant: `total` is the sum over all previous block groups. Two neighboring groups have more packed counts than
    # the total has entries, so adding the total to each group costs at most a few times as much as reading it.
    for first, last in split_by_size(chunk_ranges[:, 3], max(max_entries, capacity)):
        packed_rows, starts = _read_block_group(writer, first, chunk_ranges[first:last])
        total = sum_packed_rows(total, packed_rows, starts, coding, capacity, row)
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


def _read_block_group(writer: StoreWriter, first: int, chunk_ranges: Int64s) -> tuple[Int64s, Int64s]:
    """Read the chunks of neighboring blocks into one array; return it and the start of each chunk."""
    starts = np.concatenate([[0], np.cumsum(chunk_ranges[:, 3])])
    packed_rows = np.empty(starts[-1], dtype=np.int64)
    for i, (start, end, checksum, _) in enumerate(chunk_ranges.tolist()):
        out = packed_rows[starts[i] : starts[i + 1]].view(np.uint8)
        read_spill_chunk(writer.location, _get_spill_path(writer, first + i), start, end, checksum, out)
    return packed_rows, starts[:-1]
