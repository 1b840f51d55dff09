"""Context counts that outgrow memory: each block's rows go to scratch in parts, then row blocks are added up."""

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

from dspectral.cooccurrence.contexts import ContextSettings, CSRParts, RowSums, count_runs, window_of
from dspectral.cooccurrence.packed_counts import Coding, packed_rows, sum_of_packed
from dspectral.engine import Blocks, numbered, run_tasks
from dspectral.engine.around.retries import retried
from dspectral.linalg.panels import cut_runs
from dspectral.store.blocks import BlockInfo, find_block, write_block
from dspectral.store.counts import CountStore, open_finished
from dspectral.store.draft import Draft, begin, finish, waiting_threads
from dspectral.store.location import Location, StoreError
from dspectral.types import CSRRows, Doubles, FloatArray, Int64s

# Measured on counts of contexts (bytes an entry, ns an entry written and read): lz4 1.8, 2, 1.3; zstd 1.5, 3, 2.
CODEC = Zstd(1)
FIELDS = 3
"""Numbers of the index for each piece: the end of a piece is the beginning of the next one."""


def write_pieces(where: Location, path: str, pieces: Iterable[NDArray[np.uint8]]) -> Int64s:
    """Write pieces as one file. Shapes: returns (n_pieces + 1, 3)."""
    index, bodies = [], []
    for piece in pieces:
        body = CODEC.encode(piece)
        index.append((len(body), len(piece) // 8, _compute_checksum(body)))
        bodies.append(body)
    lengths = [8 * FIELDS * (len(index) + 1), *(length for length, _, _ in index)]
    table = np.zeros((len(index) + 1, FIELDS), dtype=np.int64)
    table[:-1] = np.reshape(index, (-1, FIELDS))
    table[:, 0] = np.cumsum(lengths)
    # The end has no piece to sum up: its checksum is that of the index.
    table[-1, 2] = _compute_checksum(table.reshape(-1)[:-1].tobytes())
    content = b"".join([table.tobytes(), *bodies])
    write = where.open(read_only=False).write_files
    retried(write, {path: content}, what=f"writing {path} of {where.url}")
    return table


def find_pieces(where: Location, path: str, n_pieces: int) -> Int64s | None:
    """Return the index of a file, or None if it is not there. Shapes: returns (n_pieces + 1, 3)."""
    n_bytes = 8 * FIELDS * (n_pieces + 1)
    try:
        head = retried(_read_bytes, where, path, 0, n_bytes, what=f"reading {path} of {where.url}")
    except FileNotFoundError:
        return None
    if len(head) < n_bytes:
        return None
    index = np.frombuffer(head, dtype=np.int64).reshape(-1, FIELDS)
    return index if index[-1, 2] == _compute_checksum(head[:-8]) else None


def read_piece(
    where: Location, path: str, begin: int, end: int, checksum: int, out: NDArray[np.uint8]
) -> None:
    """Read one piece, its checksum verified."""
    name = f"store {where.url}: the scratch {path}"
    try:
        body = retried(_read_bytes, where, path, begin, end, what=f"reading {path} of {where.url}")
    except FileNotFoundError as error:
        raise StoreError(f"{name} is missing; call it again, and it is made again") from error
    if len(body) != end - begin or _compute_checksum(body) != checksum:
        raise StoreError(f"{name} is damaged; remove this file and call it again")
    if len(out):
        CODEC.decode(body, out=out)


def _compute_checksum(content: bytes) -> int:
    return int(google_crc32c.extend(0, np.frombuffer(content, np.uint8))) if content else 0


def _read_bytes(where: Location, path: str, begin: int, end: int) -> bytes:
    system, file = where.path(path)
    return bytes(system.cat_file(file, start=begin, end=end))


PACKED_BYTES_PER_ENTRY = 8
"""Bytes of packed counts that a task holds at once, for each entry of a row block."""


def spill_contexts(
    sentences: Blocks,
    corpus: Location,
    entries: Int64s,
    settings: ContextSettings,
    *,
    most: int,
    dtype: type[np.float32] | type[np.float64] = np.float32,
    ids: str = "",
) -> CountStore:
    """Count contexts into a store of row blocks inside a corpus, however many there are.

    One pass over the sentences, one over their counts in scratch, two bytes for each entry of each block. A task
    holds a block of sentences at 16 bytes a token, or 36 bytes for each entry of a row block. A run that is cut short
    continues. Shapes: `entries` (n_types,); returns (n_types, n_contexts).
    """
    how = settings._asdict()
    # Blocks and settings name the folder: another window, or some of the blocks alone, have counts of their own, and
    # the same ones are found again.
    of = [how, most, sentences.items, *([ids, np.dtype(dtype).name] if ids else [])]
    digest = sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:16]
    where = corpus._replace(url=f"{corpus.url.rstrip('/')}/contexts/{digest}")
    done = open_finished(where)
    if done is not None:
        return done
    parts = cut_runs(entries, most)
    plan: dict[str, Any] = {"contexts": how, "rows": [list(part) for part in parts]}
    with begin(where.url, dict(where.options), plan, append=False) as new_writer:
        window = window_of(**how)
        draft = new_writer._replace(n_columns=window.n_columns)
        count = partial(
            _spill_block, sentences=sentences, draft=draft.for_tasks(), parts=parts, settings=settings
        )
        # First pass: one task for each block of sentences, its rows cut into parts. Second pass: one task for each
        # part.
        with numbered(is_pass=True), waiting_threads() as threads:
            indices = run_tasks(count, list(enumerate(sentences.items)), name="count-contexts", **threads)
        bounds = [int(entries[a:b].sum()) for a, b in parts]
        merge = partial(
            _merge_row_block, draft=draft.for_tasks(), weights=window.weights, most=most, dtype=dtype
        )
        # A task gets the places of its pieces alone: with all of them the graph would grow with the square of the data.
        items = [(i, b - a, bounds[i], _get_chunk_ranges(indices, i)) for i, (a, b) in enumerate(parts)]
        with waiting_threads() as threads:
            blocks = run_tasks(merge, items, name="merge-contexts", **threads)
        return finish(draft, blocks)


def _get_chunk_ranges(indices: list[Int64s], part: int) -> Int64s:
    """Return the beginning, end, checksum and length of the piece of a part in the file of each block."""
    return np.array([(*index[part : part + 2, 0], index[part, 2], index[part, 1]) for index in indices])


def _spill_block(
    item: tuple[int, object],
    *,
    sentences: Blocks,
    draft: Draft,
    parts: list[tuple[int, int]],
    settings: ContextSettings,
) -> Int64s:
    """Write the counts of one block of sentences to scratch, a piece for each part; return the file's index."""
    number, block = item
    path = _get_spill_path(draft, number)
    if (there := find_pieces(draft.where, path, len(parts))) is not None:
        return there
    window = window_of(**settings._asdict())
    coding = Coding.of(window.weights)
    # One part at a time: memory is that of the packed counts and of the rows of one part.
    counted = count_runs(sentences.read(block), settings.n_types, window, parts)
    return write_pieces(draft.where, path, (packed_rows(rows, coding) for rows in counted))


def _get_spill_path(draft: Draft, number: int) -> str:
    return f"{draft.scratch}/{number:06d}.counts"


def _merge_row_block(
    item: tuple[int, int, int, Int64s],
    *,
    draft: Draft,
    weights: Doubles,
    most: int,
    dtype: type[np.float32] | type[np.float64],
) -> BlockInfo:
    """Add up one run of rows over all blocks of sentences, in the order of the blocks."""
    part, n_rows, room, chunk_ranges = item
    name = draft.name(part)
    if (done := find_block(draft.where, name)) is not None:
        return done
    # The sum is in double precision, and rounded only when it is stored.
    data, indices, indptr = _sum_chunks(n_rows, room, chunk_ranges, draft, Coding.of(weights), most)
    if len(data) < 2**31:  # as the columns are: SciPy would copy those to the type of `indptr`
        indptr = indptr.astype(np.int32)
    values: FloatArray = data.astype(dtype, copy=False)
    rows: CSRRows = sparse.csr_array((values, indices, indptr), shape=(n_rows, draft.n_columns))
    rows.has_canonical_format = True
    del data, values
    return write_block(draft.where, name, rows)


# Invariant: `total` is the sum over the blocks of the groups before. Two neighboring groups are more than the 8 bytes
# for each entry of the total together, so adding the total to each of them costs a few times their reading at most.
def _sum_chunks(
    n_rows: int, room: int, chunk_ranges: Int64s, draft: Draft, coding: Coding, most: int
) -> CSRParts:
    """Return the sum of a part over all blocks of sentences, a group of blocks at a time."""
    row = RowSums.of(draft.n_columns)
    total = np.empty(0), np.empty(0, dtype=np.int32), np.zeros(n_rows + 1, dtype=np.int64)
    for first, last in cut_runs(chunk_ranges[:, 3], max(most, room) * PACKED_BYTES_PER_ENTRY // 8):
        pieces, starts = _read_block_group(draft, first, chunk_ranges[first:last])
        total = sum_of_packed(total, pieces, starts, coding, room, row)
        del pieces  # before the next group is read
    return total


def _read_block_group(draft: Draft, first: int, chunk_ranges: Int64s) -> tuple[Int64s, Int64s]:
    """Return pieces of neighboring blocks one behind the other, and where each begins."""
    starts = np.concatenate([[0], np.cumsum(chunk_ranges[:, 3])])
    pieces = np.empty(starts[-1], dtype=np.int64)
    for i, (start, end, checksum, _) in enumerate(chunk_ranges.tolist()):
        out = pieces[starts[i] : starts[i + 1]].view(np.uint8)
        read_piece(draft.where, _get_spill_path(draft, first + i), start, end, checksum, out)
    return pieces, starts[:-1]
