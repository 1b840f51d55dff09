"""Count word co-occurrences exactly, as rows of a CSR matrix that merge by addition."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral._compiled import compiled, read_only
from dspectral.linalg.panels import split_by_size
from dspectral.types import CSRRows, Doubles, Int32s, Int64s, Sentences, check_ids

Context: TypeAlias = Literal["bag", "list", "zones"]
"""Definition of a context: a word anywhere in the window, a word at a position, or a word in the near or far zone."""
NEAR = 2
"""Maximum distance in the near zone of ``"zones"``."""
Sides: TypeAlias = Literal["both", "left", "right"]
"""Sides of a word on which contexts are counted."""
WEIGHT_UNIT = 2.0**20
"""Weights are multiples of 1 / UNIT, so sums up to 2**33 are exact in any order."""
DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
"""De Bruijn sequence, whose 64 windows of six bits are distinct (Leiserson, Prokop and Randall 1998)."""
BIT_POSITIONS = np.empty(64, dtype=np.uint8)
"""Position of a set bit, by the six leading bits of the product of the bit and ``DE_BRUIJN``."""
for _bit in range(64):
    BIT_POSITIONS[((int(DE_BRUIJN) << _bit) % 2**64) >> 58] = _bit
MAX_PAIRS = 1 << 20
"""Maximum pairs of a token and a context per batch of rows: 12 MB, which the allocator reuses."""

CSRParts: TypeAlias = tuple[Doubles, Int32s, Int64s]
"""``data``, ``indices`` and ``indptr`` of a CSR matrix."""


class Window(NamedTuple):
    """Context window of a word: positions, weights and columns.

    Shapes: `weights, first` (n_positions,), the weight and the raw column of type 0 at each position; `columns`, the
    hashed column of each raw column, or empty.
    """

    weights: Doubles
    first: Int64s
    left: int
    right: int
    columns: Int32s
    n_columns: int


class ContextSettings(NamedTuple):
    """Parameters of ``make_window``; ``window`` is the number of words on each side."""

    n_types: int
    window: int
    context: Context = "bag"
    distance_weighting: bool = False
    n_contexts: int | None = None


class ContextCounts(NamedTuple):
    """Number of tokens, and counts of contexts of each word type, shape (n_types, n_contexts)."""

    n_tokens: int
    counts: CSRRows

    @classmethod
    def from_block(cls, sentences: Sentences, *, n_types: int, window: int, **rule: Any) -> Self:
        """Count the contexts in one block of sentences; ``rule`` are arguments of ``make_window``."""
        context_window = make_window(n_types, window, **rule)
        ((data, indices, indptr),) = count_contexts(sentences, n_types, context_window, [(0, n_types)])
        if len(data) < 2**31:  # same type as `indices`, which SciPy would otherwise copy
            indptr = indptr.astype(np.int32)
        counts = sparse.csr_array((data, indices, indptr), shape=(n_types, context_window.n_columns))
        # Columns are sorted and distinct: setting the flag saves SciPy a scan.
        counts.has_canonical_format = True
        return cls(len(sentences.ids), counts)

    def merge(self, *others: Self) -> Self:
        """Return the counts of all sentences."""
        # Weights are multiples of 1 / UNIT, so the sums are exact in any order of blocks.
        # engine.summary.add_fields is not used, since this package must not import the engine.
        n_tokens, counts = self.n_tokens, self.counts
        for other in others:
            n_tokens, counts = n_tokens + other.n_tokens, counts + other.counts
        return type(self)(n_tokens, counts)


def make_window(
    n_types: int,
    window: int,
    *,
    context: Context = "bag",
    distance_weighting: bool = False,
    n_contexts: int | None = None,
    sides: Sides = "both",
) -> Window:
    """Return the context window for :func:`count_contexts`."""
    if window < 1:
        raise ValueError(f"window={window} must be at least 1, the number of words on each side")
    if context not in ("bag", "list", "zones"):
        raise ValueError(f"context={context!r} must be 'bag', 'list' or 'zones'")
    if n_contexts is not None and not 1 <= n_contexts < 2**31:
        raise ValueError(f"n_contexts={n_contexts} must be from 1 to 2**31 - 1, or None")
    left, right = (0 if sides == "right" else window), (0 if sides == "left" else window)
    # Columns and positions are int32.
    groups = {"bag": 1, "list": left + right, "zones": 1 + (window > NEAR)}[context]
    n_raw = n_types * groups
    if max(n_raw, left + right) >= 2**31:
        raise ValueError(
            f"window={window} with n_types={n_types} has {n_raw} contexts; the number must be below 2**31: lower it"
        )
    # Positions from left to right, the order of count_contexts.
    distances = np.concatenate([np.arange(left, 0, -1), np.arange(1, right + 1)])
    weights = np.rint(WEIGHT_UNIT / distances) / WEIGHT_UNIT if distance_weighting else np.ones(left + right)
    group = np.arange(left + right) if context == "list" else np.where(distances > NEAR, groups - 1, 0)
    first = group * n_types
    columns_from_hashing = np.empty(0, dtype=np.int32) if n_contexts is None else _hash_columns(n_raw, n_contexts)
    return Window(weights, first, left, right, columns_from_hashing, n_contexts or n_raw)


def _hash_columns(n: int, n_columns: int) -> Int32s:
    """Return the hashed column of each integer below n, by SplitMix64 (Steele, Lea and Flood 2014)."""
    # Integer i is hashed as the state (i + 1) times the constant; unsigned products wrap at 64 bits.
    x = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) % np.uint64(n_columns)).astype(np.int32)


class RowSums(NamedTuple):
    """Accumulator of one row: sums, bitmap ``marks`` of columns with entries, and bitmap ``tops`` of nonzero marks."""

    sums: Doubles
    marks: NDArray[np.uint64]
    tops: NDArray[np.uint64]

    @classmethod
    def allocate(cls, n_columns: int) -> "RowSums":
        """Return an empty accumulator."""
        n_marks = -(-n_columns // 64)
        return cls(np.zeros(n_columns), np.zeros(n_marks, dtype=np.uint64), np.zeros(-(-n_marks // 64), np.uint64))


@compiled
def add_to_row(row: RowSums, column: int, value: float) -> None:
    """Add a value to a column."""
    # Unsigned indices avoid the test for negative ones. Bits are set without a branch, since most columns are new.
    index, unit, low = np.uint64(column), np.uint64(1), np.uint64(63)
    mark = index >> np.uint64(6)
    row.marks[mark] |= unit << (index & low)
    row.tops[mark >> np.uint64(6)] |= unit << (mark & low)
    row.sums[index] += value


# Iterating over set bits yields sorted columns without a sort. Cost: the entries, and one read per 4096 columns.
# Invariant: data[:end] and indices[:end] hold the columns whose bits and sums are cleared.
@compiled
def take_row(row: RowSums, data: Doubles, indices: Int32s, end: int) -> int:
    """Append the entries of the row to ``data`` and ``indices``, clear the row, and return the new end."""
    unit, shift = np.uint64(1), np.uint64(58)
    for i in range(row.tops.size):
        top = row.tops[i]
        row.tops[i] = 0
        while top:
            lowest = top & (~top + unit)
            top ^= lowest
            mark = np.uint64(64 * i) + np.uint64(BIT_POSITIONS[(lowest * DE_BRUIJN) >> shift])
            bits = row.marks[mark]
            row.marks[mark] = 0
            while bits:
                lowest = bits & (~bits + unit)
                bits ^= lowest
                column = mark * np.uint64(64) + np.uint64(BIT_POSITIONS[(lowest * DE_BRUIJN) >> shift])
                indices[end], data[end] = column, row.sums[column]
                row.sums[column] = 0.0
                end += 1
    return end


def count_contexts(
    sentences: Sentences, n_types: int, window: Window, type_ranges: Sequence[tuple[int, int]]
) -> Iterator[CSRParts]:
    """Yield the context counts of each range of word types."""
    ids, offsets = read_only(sentences.ids), read_only(sentences.offsets)
    check_ids(ids, n_types)
    tokens = TokensByType(*_group_tokens(ids, offsets, n_types, window.left, window.right))
    window_arrays = (read_only(window.weights), read_only(window.first), read_only(window.columns))
    row = RowSums.allocate(window.n_columns)
    for first, last in type_ranges:
        # In small batches of rows, so that the allocator reuses memory.
        ranges = [(first + a, first + b) for a, b in split_by_size(tokens.n_pairs[first:last], MAX_PAIRS)]
        yield _concatenate_rows([_count_types(ids, tokens, a, b, window.left, window_arrays, row) for a, b in ranges])


class TokensByType(NamedTuple):
    """Tokens of a block grouped by type: positions in the text, and the start of each type.

    Shapes: `extents` (n_tokens, 2), the window size left and right within the sentence; `n_pairs` (n_types,), the
    number of contexts of all tokens.
    """

    positions: Int64s
    extents: Int32s
    starts: Int64s
    n_pairs: Int64s


def _concatenate_rows(parts: list[CSRParts]) -> CSRParts:
    """Concatenate the rows of CSR matrices."""
    if len(parts) == 1:
        return parts[0]
    sizes = [np.zeros(1, dtype=np.int64), *(np.diff(indptr) for _, _, indptr in parts)]
    data = [np.empty(0), *(values for values, _, _ in parts)]
    indices = [np.empty(0, dtype=np.int32), *(columns for _, columns, _ in parts)]
    return np.concatenate(data), np.concatenate(indices), np.cumsum(np.concatenate(sizes))


# Row by row: N[w, c] = sum of weights[p] over the tokens of type w and the positions p with context c.
#
# A counting sort groups the tokens by type, so each row is summed in a dense array that fits the cache of a core.
# Invariant at the start of each row: `row` is zero, and data[:end] holds the previous rows. Cost of a row: its pairs,
# its distinct columns, and one read per 4096 columns.
@compiled
def _count_types(
    ids: Int32s,
    tokens: TokensByType,
    start: int,
    stop: int,
    left: int,
    window_arrays: tuple[Doubles, Int64s, Int32s],
    row: RowSums,
) -> CSRParts:
    weights, first, columns = window_arrays
    # A row has at most as many entries as pairs, and as columns.
    capacity = 0
    for word in range(start, stop):
        capacity += min(tokens.n_pairs[word], row.sums.size)
    data, indices = np.empty(capacity, dtype=np.float64), np.empty(capacity, dtype=np.int32)
    indptr = np.zeros(stop - start + 1, dtype=np.int64)
    end = 0
    for word in range(start, stop):
        for k in range(tokens.starts[word], tokens.starts[word + 1]):
            token_index = tokens.positions[k]
            for position in range(left - tokens.extents[k, 0], left + tokens.extents[k, 1]):
                # Offsets are -left, ..., -1, 1, ..., right.
                step = position - left
                column = first[position] + ids[np.uint64(token_index + (step if step < 0 else step + 1))]
                if columns.size:
                    column = np.int64(columns[column])
                add_to_row(row, column, weights[position])
        end = take_row(row, data, indices, end)
        indptr[word - start + 1] = end
    return data[:end].copy(), indices[:end].copy(), indptr


# Stable counting sort of the tokens by type, O(n_tokens + n_types). Invariant of the last loop: the visited tokens of
# type w are positions[starts[w]:next_position[w]].
@compiled
def _group_tokens(
    ids: Int32s, offsets: Int64s, n_types: int, left: int, right: int
) -> tuple[Int64s, Int32s, Int64s, Int64s]:
    """Return the fields of ``TokensByType``."""
    starts = np.zeros(n_types + 1, dtype=np.int64)
    for token in range(ids.size):
        starts[ids[token] + 1] += 1
    for word in range(n_types):
        starts[word + 1] += starts[word]
    # `extents` limits the window to the sentence.
    next_position, n_pairs = starts[:-1].copy(), np.zeros(n_types, dtype=np.int64)
    positions, extents = np.empty(ids.size, dtype=np.int64), np.empty((ids.size, 2), dtype=np.int32)
    for i in range(offsets.size - 1):
        begin, end = offsets[i], offsets[i + 1]
        for token in range(begin, end):
            k = next_position[ids[token]]
            next_position[ids[token]] += 1
            positions[k] = token
            extents[k, 0] = min(left, token - begin)
            extents[k, 1] = min(right, end - 1 - token)
            n_pairs[ids[token]] += extents[k, 0] + extents[k, 1]
    return positions, extents, starts, n_pairs
