"""The transpose of a CSR block, without the interpreter lock and into memory that is used again."""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled
from dspectral.types import CSRRows, IntArray

ByColumns = tuple[NDArray[Any], IntArray, IntArray]
"""Entries column after column, the row of each, and where each column begins."""


class Room(NamedTuple):
    """Memory for the transposes of pieces of one matrix, one after the other.

    `data` (most entries of a piece,): room for the entries; `indices` (most entries of a piece,): room for
    the row of each entry; `starts` (d + 2,): room for where the entries of each column begin.

    >>> from scipy import sparse
    >>> A = sparse.csr_array([[0.0, 2.0], [1.0, 3.0]])
    >>> Room.of(A, A.nnz).transposed(A)
    (array([1., 2., 3.]), array([1, 0, 1], dtype=int32), array([0, 1, 3], dtype=int32))
    """

    data: NDArray[Any]
    indices: IntArray
    starts: IntArray

    @classmethod
    def of(cls, A: CSRRows, n_entries: int) -> Self:
        """Ask for the memory.

        Shapes: `A` (n, d).
        """
        # As SciPy chooses: a loop over the transpose is then compiled for no other types than one over the rows.
        index = np.int32 if max(A.shape[0], n_entries) < 2**31 else np.int64
        return cls(
            np.empty(n_entries, dtype=A.dtype),
            np.empty(n_entries, dtype=index),
            np.empty(A.shape[1] + 2, dtype=index),
        )

    def transposed(self, piece: CSRRows) -> ByColumns:
        """Return a piece by columns; what was returned before is overwritten.

        Shapes: `piece` (m, d); returns `data` (nnz,), `indices` (nnz,), `indptr` (d + 1,).
        """
        data, indices = self.data[: piece.nnz], self.indices[: piece.nnz]
        _transpose(piece.data, piece.indices, piece.indptr, data, indices, self.starts)
        return data, indices, self.starts[:-1]


@compiled
def _transpose(
    data: NDArray[Any],
    indices: IntArray,
    indptr: IntArray,
    out: NDArray[Any],
    rows: IntArray,
    starts: IntArray,
) -> None:
    """Write the entries column by column, and where each column begins: a counting sort, stable, O(nnz + d)."""
    # Column j is counted two places on, and summed up one place on: `starts[j + 1]` is then where its next entry goes,
    # and has become its end, which is the beginning of column j + 1, once all entries are written.
    # Unsigned numbers, for then the compiler need not ask of each whether it counts from the end.
    one, two = np.uint64(1), np.uint64(2)
    starts[:] = 0
    for entry in range(np.uint64(indptr[0]), np.uint64(indptr[-1])):
        starts[np.uint64(indices[entry]) + two] += 1
    for j in range(2, starts.size):
        starts[j] += starts[j - 1]
    for i in range(indptr.size - 1):
        for entry in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            cursor = np.uint64(indices[entry]) + one
            place = np.uint64(starts[cursor])
            starts[cursor] = place + one
            out[place], rows[place] = data[entry], i
