"""Sum rows of context counts over blocks of sentences.

Packed rows are one vector of int64: the size of each row, then all columns, then the bits of all float64 values.
"""

import numpy as np

from dspectral._compiled import compiled, read_only
from dspectral.cooccurrence.contexts import CSRParts, RowSums, add_to_row, take_row
from dspectral.types import Doubles, Int32s, Int64s


def pack_rows(rows: CSRParts) -> Int64s:
    """Pack rows of counts. Shapes: returns (n_rows + 2 n_entries,)."""
    data, indices, indptr = rows
    return np.concatenate([np.diff(indptr), indices, data.view(np.int64)])


def sum_packed_rows(before: CSRParts, packed_rows: Int64s, starts: Int64s, row: RowSums) -> CSRParts:
    """Add the packed counts of the same rows, which begin at `starts`, to `before`, exactly."""
    data, indices, indptr = read_only(before[0]), read_only(before[1]), read_only(before[2])
    packed = read_only(packed_rows)
    totals: CSRParts = _add_packed_rows(data, indices, indptr, packed, packed.view(np.float64), starts, row)
    return totals


# Row by row: total[i] = before[i] + sum over p of packed_rows[p][i], in a dense array that fits the cache of a core.
# Cost: one read per entry, whereas adding matrices one by one would read the total for each array of packed rows.
# Invariant: columns of packed rows p before `position[p]` are those of rows 0, ..., i - 1, and `row` is zero.
@compiled
def _add_packed_rows(
    data: Doubles, indices: Int32s, indptr: Int64s, packed: Int64s, values: Doubles, starts: Int64s, row: RowSums
) -> CSRParts:
    n_rows, ends = indptr.size - 1, np.zeros_like(indptr)
    position, n_entries, capacity = starts + n_rows, np.zeros_like(starts), data.size
    for p in range(starts.size):
        for i in range(n_rows):
            n_entries[p] += packed[starts[p] + i]
        capacity += n_entries[p]
    total, columns = np.empty(capacity, dtype=np.float64), np.empty(capacity, dtype=np.int32)
    end = 0
    for i in range(n_rows):
        for k in range(indptr[i], indptr[i + 1]):
            add_to_row(row, indices[k], data[k])
        for p in range(starts.size):
            stop = position[p] + packed[starts[p] + i]
            for k in range(position[p], stop):
                add_to_row(row, packed[k], values[k + n_entries[p]])
            position[p] = stop
        end = take_row(row, total, columns, end)
        ends[i + 1] = end
    return total[:end], columns[:end], ends
