"""Compress rows of counts to about two bytes per entry, and sum them over blocks of sentences.

Packed rows hold some rows of one block: ``[n_entries, n_gap_bytes, n_rare]`` as int64, the rare values as float64, the
gaps between the columns of each row, one byte per value, and the size of each row, padded to a multiple of 8 bytes.
Gaps and sizes are variable-length integers (LEB128). The byte of a value is its index among the 255 smallest sums of
weights; 0 marks a rare value.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.cooccurrence.contexts import WEIGHT_UNIT, CSRParts, RowSums, add_to_row, take_row
from dspectral.types import Doubles, Int32s, Int64s

N_CODES = 256
"""Number of codes; 0 marks a value without a code."""
N_HEADER_NUMBERS = 3
"""Number of integers in the header of packed rows."""


class ByteCoding(NamedTuple):
    """Codes of frequent values: ``codes[value / quantum]``, or 0, and the value of each code."""

    values: Doubles
    codes: NDArray[np.uint8]
    quantum: float

    @classmethod
    def from_weights(cls, weights: Doubles) -> "ByteCoding":
        """Return the coding for sums of weights."""
        return _build_coding(np.asarray(weights, dtype=np.float64).tobytes())


@lru_cache(maxsize=16)
def _build_coding(weights: bytes) -> ByteCoding:
    """Return the coding for weights, cached because it takes about 10 ms."""
    whole = np.rint(np.frombuffer(weights) * WEIGHT_UNIT).astype(np.int64)
    divisor = max(1, int(np.gcd.reduce(whole)))
    terms = np.unique(whole[whole > 0]) // divisor
    sums_coded, sums = np.empty(0, dtype=np.int64), terms
    while len(sums) > 0 and len(sums_coded) < N_CODES - 1:
        sums_coded = np.concatenate([sums_coded, np.setdiff1d(sums, sums_coded)])
        sums = np.unique(sums[: N_CODES - 1, None] + terms)
    sums_coded = sums_coded[: N_CODES - 1]
    values, codes = np.zeros(N_CODES), np.zeros(1 + sums_coded.max(initial=0), dtype=np.uint8)
    values[1 : 1 + len(sums_coded)] = sums_coded * (divisor / WEIGHT_UNIT)
    codes[sums_coded] = np.arange(1, 1 + len(sums_coded))
    return ByteCoding(read_only(values), read_only(codes), divisor / WEIGHT_UNIT)


def pack_rows(rows: CSRParts, coding: ByteCoding) -> NDArray[np.uint8]:
    """Pack rows of counts into integers: at most 14 bytes per entry, typically about two."""
    data, indices, indptr = read_only(rows[0]), read_only(rows[1]), read_only(rows[2])
    sizes = _measure_rows(data, indices, indptr, coding)
    n_entries, n_gap_bytes, n_rare, n_size_bytes = (int(number) for number in sizes)
    length = 8 * (N_HEADER_NUMBERS + n_rare) + n_size_bytes + n_gap_bytes + n_entries
    packed = np.zeros(-(-length // 8), dtype=np.int64)
    packed[:N_HEADER_NUMBERS] = sizes[:N_HEADER_NUMBERS]
    views = packed.view(np.uint8), packed.view(np.float64)
    _pack(data, indices, indptr, coding, *views, _find_section_starts(packed, 0))
    return packed.view(np.uint8)


def sum_packed_rows(
    before: CSRParts, packed_rows: Int64s, starts: Int64s, coding: ByteCoding, capacity: int, row: RowSums
) -> CSRParts:
    """Add the packed counts of the same rows to `before`, exactly. Memory: 12 bytes per entry of the result."""
    data, indices, indptr = read_only(before[0]), read_only(before[1]), read_only(before[2])
    section_starts = np.concatenate(
        [np.empty((0, 4), dtype=np.int64), *(_find_section_starts(packed_rows, int(start)) for start in starts)]
    )
    packed = read_only(packed_rows)
    n_new = int(packed_rows[starts].sum())
    capacity = min(max(capacity, 1), len(data) + n_new)
    views = packed.view(np.uint8), packed.view(np.float64)
    totals: CSRParts = _add_packed_rows(data, indices, indptr, *views, section_starts, coding, capacity, row)
    return totals


def _find_section_starts(packed_rows: Int64s, start: int) -> Int64s:
    """Return the byte offsets of the sizes, gaps and codes of packed rows, and the index of its rare values."""
    n_entries, n_gap_bytes, n_rare = (int(number) for number in packed_rows[start : start + N_HEADER_NUMBERS])
    gaps = 8 * (start + N_HEADER_NUMBERS + n_rare)
    codes = gaps + n_gap_bytes
    return np.array([[codes + n_entries, gaps, codes, start + N_HEADER_NUMBERS]])


@compiled
def _count_varint_bytes(value: np.uint64) -> int:
    n = 1
    while value >= np.uint64(128):
        value >>= np.uint64(7)
        n += 1
    return n


@compiled
def _write_varint(content: NDArray[np.uint8], position: int, value: np.uint64) -> int:
    """Write a variable-length integer; return the next position."""
    while value >= np.uint64(128):
        content[position] = (value & np.uint64(127)) | np.uint64(128)
        value >>= np.uint64(7)
        position += 1
    content[position] = value
    return position + 1


@compiled
def _read_varint(content: NDArray[np.uint8], position: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the variable-length integer at a position, and the next position."""
    byte, shift = np.uint64(content[position]), np.uint64(7)
    value = byte & np.uint64(127)
    position += np.uint64(1)
    while byte > np.uint64(127):
        byte = np.uint64(content[position])
        position += np.uint64(1)
        value |= (byte & np.uint64(127)) << shift
        shift += np.uint64(7)
    return value, position


@compiled
def _get_code(value: float, coding: ByteCoding) -> int:
    # Values are multiples of the quantum; adding 0.5 removes the rounding error of the quotient.
    multiple = np.int64(value / coding.quantum + 0.5) if value < coding.codes.size * coding.quantum else 0
    code = coding.codes[multiple] if multiple < coding.codes.size else 0
    return code if coding.values[code] == value else 0


@compiled
def _measure_rows(data: Doubles, indices: Int32s, indptr: Int64s, coding: ByteCoding) -> Int64s:
    """Return the numbers of entries, gap bytes, rare values and size bytes."""
    totals = np.zeros(4, dtype=np.int64)
    for i in range(indptr.size - 1):
        before, n = np.int64(-1), 0
        for k in range(indptr[i], indptr[i + 1]):
            if data[k] == 0.0:
                continue
            n += 1
            totals[1] += _count_varint_bytes(np.uint64(indices[k] - before - 1))
            before = np.int64(indices[k])
            totals[2] += _get_code(data[k], coding) == 0
        totals[0] += n
        totals[3] += _count_varint_bytes(np.uint64(n))
    return totals


# Invariant: the four section positions follow the data of rows 0, ..., i - 1.
@compiled
def _pack(
    data: Doubles,
    indices: Int32s,
    indptr: Int64s,
    coding: ByteCoding,
    content: NDArray[np.uint8],
    rare_values: Doubles,
    section_starts: Int64s,
) -> None:
    size = section_starts[0, 0]
    gap = section_starts[0, 1]
    code = section_starts[0, 2]
    rare = section_starts[0, 3]
    for i in range(indptr.size - 1):
        before, n = np.int64(-1), 0
        for k in range(indptr[i], indptr[i + 1]):
            if data[k] == 0.0:
                continue
            n += 1
            gap = _write_varint(content, gap, np.uint64(indices[k] - before - 1))
            before = np.int64(indices[k])
            code_value = _get_code(data[k], coding)
            content[code] = code_value
            code += 1
            if code_value == 0:
                rare_values[rare] = data[k]
                rare += 1
        size = _write_varint(content, size, np.uint64(n))


# Row by row: total[i] = before[i] + sum over p of packed_rows[p][i], in a dense array that fits the cache of a core.
# Cost: one read per entry, whereas adding matrices one by one would read the total for each array of packed rows.
# Invariant: the positions of each array of packed rows follow its data of rows 0, ..., i - 1, and `row` is zero.
@compiled
def _add_packed_rows(
    data: Doubles,
    indices: Int32s,
    indptr: Int64s,
    content: NDArray[np.uint8],
    rare_values: Doubles,
    section_starts: Int64s,
    coding: ByteCoding,
    capacity: int,
    row: RowSums,
) -> CSRParts:
    n_rows = indptr.size - 1
    total, columns = np.empty(capacity, dtype=np.float64), np.empty(capacity, dtype=np.int32)
    ends = np.zeros(n_rows + 1, dtype=np.int64)
    end = 0
    for i in range(n_rows):
        n = indptr[i + 1] - indptr[i]
        for k in range(indptr[i], indptr[i + 1]):
            add_to_row(row, indices[k], data[k])
        for p in range(section_starts.shape[0]):
            size, position = _read_varint(content, np.uint64(section_starts[p, 0]))
            section_starts[p, 0] = np.int64(position)
            n += np.int64(size)
            gap, code = np.uint64(section_starts[p, 1]), np.uint64(section_starts[p, 2])
            rare = section_starts[p, 3]
            column = np.uint64(0)
            for _ in range(np.int64(size)):
                step, gap = _read_varint(content, gap)
                column += step
                code_value = content[code]
                code += np.uint64(1)
                value = coding.values[code_value]
                if code_value == 0:
                    value = rare_values[rare]
                    rare += 1
                add_to_row(row, column, value)  # type: ignore[arg-type]
                column += np.uint64(1)
            section_starts[p, 1] = np.int64(gap)
            section_starts[p, 2] = np.int64(code)
            section_starts[p, 3] = rare
        n = min(n, row.sums.size)
        if end + n > total.size:  # doubling keeps the total cost of copies linear
            longer = max(end + n, 2 * total.size)
            more_total, more_columns = np.empty(longer, dtype=np.float64), np.empty(longer, dtype=np.int32)
            for k in range(end):  # slice assignments take seconds to compile
                more_total[k], more_columns[k] = total[k], columns[k]
            total, columns = more_total, more_columns
        end = take_row(row, total, columns, end)
        ends[i + 1] = end
    return total[:end], columns[:end], ends
