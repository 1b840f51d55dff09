"""One row of counts at a time, summed in a dense array and read back in the order of its columns."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled

DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
"""Number whose 64 runs of six bits are all different (Leiserson, Prokop and Randall 1998)."""
PLACES = np.empty(64, dtype=np.uint8)
"""Place of a bit, by the run of six bits that the number above, shifted by that place, begins with."""
for _place in range(64):
    PLACES[((int(DE_BRUIJN) << _place) % 2**64) >> 58] = _place


class RowSums(NamedTuple):
    """Sums of the row at hand, all zero between rows.

    `sums` (n_columns,): sum of each column; `marks` (ceil(n_columns / 64),): A bit for each column that was
    met; `tops` (ceil(n_columns / 4096),): A bit for each number of ``marks`` that is not zero.
    """

    sums: NDArray[np.float64]
    marks: NDArray[np.uint64]
    tops: NDArray[np.uint64]

    @classmethod
    def of(cls, n_columns: int) -> "RowSums":
        """Return an empty row.

        >>> row = RowSums.of(100)
        >>> add_to_row(row, 70, 0.5), add_to_row(row, 3, 1.0), add_to_row(row, 70, 0.5)
        (None, None, None)
        >>> data, indices = np.zeros(2), np.zeros(2, dtype=np.int32)
        >>> take_row(row, data, indices, 0), data, indices
        (2, array([1., 1.]), array([ 3, 70], dtype=int32))
        """
        n_marks = -(-n_columns // 64)
        return cls(
            np.zeros(n_columns), np.zeros(n_marks, dtype=np.uint64), np.zeros(-(-n_marks // 64), np.uint64)
        )


@compiled
def add_to_row(row: RowSums, column: int, value: float) -> None:
    """Add a value to a column."""
    # Unsigned, because a compiled loop tests each signed index for being negative, which counts from the end. Bits are
    # set without asking whether they are: most columns of a row are new, and none is waited for.
    place, one, low = np.uint64(column), np.uint64(1), np.uint64(63)
    mark = place >> np.uint64(6)
    row.marks[mark] |= one << (place & low)
    row.tops[mark >> np.uint64(6)] |= one << (mark & low)
    row.sums[place] += value


# Bits in order are columns in order: no sorting, and no column is looked at that was not met but those of `tops`.
# Invariant: data[:end] and indices[:end] hold the columns whose bits are cleared; their sums are zero again.
@compiled
def take_row(row: RowSums, data: NDArray[np.float64], indices: NDArray[np.int32], end: int) -> int:
    """Write the columns that were met and their sums, and clear the row."""
    one, shift = np.uint64(1), np.uint64(58)
    for i in range(row.tops.size):
        top = row.tops[i]
        row.tops[i] = 0
        while top:
            lowest = top & (~top + one)
            top ^= lowest
            mark = np.uint64(64 * i) + np.uint64(PLACES[(lowest * DE_BRUIJN) >> shift])
            bits = row.marks[mark]
            row.marks[mark] = 0
            while bits:
                lowest = bits & (~bits + one)
                bits ^= lowest
                column = mark * np.uint64(64) + np.uint64(PLACES[(lowest * DE_BRUIJN) >> shift])
                indices[end], data[end] = column, row.sums[column]
                row.sums[column] = 0.0
                end += 1
    return end
