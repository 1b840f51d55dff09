"""Products of a CSR block with dense matrices, its transpose, the scaling of its entries, and checks of its structure.

SciPy's products hold the interpreter lock, so threads would wait for each other; these release it. Where the dense side
is wide, both products go through transposed pieces of the block, whose rows of ``A Z`` fit the cache. The long side,
which does not, is then walked from its first row to its last: ``A Z`` adds each row of Z to the rows of the piece that
have the column, and ``A' Y`` gathers them and writes each row of the result once. Reading a long Z at random, row
by row of the block, takes two to four times as long.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from dspectral._compiled import read_only
from dspectral.linalg import sparse_loops
from dspectral.linalg.panels import cut_runs
from dspectral.types import CSRRows, Doubles, FloatArray, IntArray, Rows, is_sparse, without_room

MIN_WIDE_COLUMNS = 32
"""Columns from which transposing a block pays."""
CACHE_BYTES = 4 << 20
"""Bytes of ``A Z`` that a transposed piece has, and of Z beyond which rows are not read from it at random."""
EIGHT = 8
MAX_NUMPY_ENTRIES = 1 << 14
"""Entries up to which a function of NumPy is as fast as a loop."""
DENSE_SHARE = 0.25
"""Share of entries that are stored from which a block is multiplied in dense tiles."""
GRAM_PANEL_ENTRIES = 1 << 18
"""Entries of a piece whose Gram matrix is summed column by column: 2 MiB, at which they stay in the cache."""
MIRROR_ROWS = 64
"""Rows of a Gram matrix that are made symmetric at a time: half the time of 512."""
TILE_ROWS = 512
TILE_BYTES = 4 << 20
ByColumns = tuple[NDArray[Any], IntArray, IntArray]
"""Entries column after column, the row of each, and where each column begins."""
TransposedPanel = tuple[slice, ByColumns]
"""Consecutive rows of a block, by columns."""
TransposedPanels = list[TransposedPanel]


def times(A: CSRRows, Z: FloatArray) -> FloatArray:
    """Return ``A Z``. Shapes: `A` (n, d), `Z` (d, r); returns (n, r)."""
    out = np.zeros((A.shape[0], Z.shape[1]), dtype=Z.dtype)
    if Z.shape[1] < MIN_WIDE_COLUMNS or Z.nbytes <= CACHE_BYTES or A.nnz < A.shape[1]:
        sparse_loops.gather(*_arrays(A), read_only(Z), out)
        return out
    # The same bits as above, whichever is chosen: each row's terms are added in the order of its columns.
    for rows, piece in iter_transposed_panels(A, Z.shape[1] * Z.itemsize):
        sparse_loops.scatter(*piece, read_only(Z), out[rows])
    return out


def transpose_times(A: CSRRows, Y: FloatArray, pieces: TransposedPanels | None = None) -> FloatArray:
    """Return ``A' Y``. Shapes: `A` (n, d), `Y` (n, r); returns (d, r)."""
    out = np.zeros((A.shape[1], Y.shape[1]), dtype=Y.dtype)
    if Y.shape[1] < MIN_WIDE_COLUMNS:
        sparse_loops.scatter(*_arrays(A), read_only(Y), out)
        return out
    for rows, piece in pieces or iter_transposed_panels(A, Y.shape[1] * Y.itemsize):
        sparse_loops.gather(*piece, read_only(Y[rows]), out)
    return out


def add_transpose_times(A: CSRRows, Y: FloatArray, out: FloatArray) -> None:
    """Add ``A' Y`` to a matrix, so that the bits of a sum over blocks of rows are those of all rows at once in SciPy.

    Shapes: `A` (n, d), `Y` (n, r), `out` (d, r).

    >>> out = np.ones((2, 2))
    >>> add_transpose_times(sparse.csr_array([[0.0, 2.0], [1.0, 0.0]]), np.eye(2), out)
    >>> out
    array([[1., 2.],
           [3., 1.]])
    """
    sparse_loops.scatter_rounded(*_arrays(A), read_only(Y), out)


def gram_times(A: CSRRows, Z: FloatArray, pieces: TransposedPanels | None = None) -> FloatArray:
    """Return ``A' (A Z)``.

    ``4 nnz r`` flops. Beside the result it holds 4 MiB of ``A Z`` and a transposed copy of as many rows, unless pieces
    are at hand; for narrow Z one row of ``A Z``, and A is read once. A block whose zeros are few goes through BLAS.
    Shapes: `A` (n, d), `Z` (d, r); returns (d, r).
    """
    Z = np.ascontiguousarray(Z)
    out = np.zeros((A.shape[1], Z.shape[1]), dtype=Z.dtype)
    if Z.shape[1] < MIN_WIDE_COLUMNS:
        sparse_loops.gram_gather_scatter(*_arrays(A), read_only(Z), out)
        return out
    if is_nearly_dense(A):
        return gram_times_dense(A, Z)
    # Piece by piece: A Z is then still in the cache when it is gathered from. One piece of memory for all: what is
    # asked for anew is mapped and cleared by the system page by page, each time.
    product = np.empty((min(_step(Z.shape[1] * Z.itemsize), A.shape[0]), Z.shape[1]), dtype=Z.dtype)
    for rows, piece in pieces or iter_transposed_panels(A, Z.shape[1] * Z.itemsize):
        of_piece = product[: rows.stop - rows.start]
        of_piece[:] = 0
        sparse_loops.scatter(*piece, read_only(Z), of_piece)
        sparse_loops.gather(*piece, read_only(of_piece), out)
    return out


def gram(A: CSRRows) -> Doubles:
    """Return ``A' A`` as a dense matrix, in double precision.

    Each pair of entries of a row is multiplied once: half the sum of the squared row sizes, at about 1 ns each where a
    row of the result and a piece of A fit the cache. Sums are in the order of the rows. Shapes: `A` (n, d); returns
    (d, d).
    """
    out = np.zeros((A.shape[1], A.shape[1]))
    for start, stop in cut_runs(np.diff(A.indptr), GRAM_PANEL_ENTRIES):
        piece = row_slice(A, start, stop)
        arrays, piece.data = _arrays(piece), np.arange(piece.nnz, dtype=piece.indices.dtype)
        positions, rows, starts = TransposeBuffer.of(piece, piece.nnz).transpose(piece)
        sparse_loops.add_gram(*arrays, positions, rows, starts, out)
    # So far a pair is on the side of whichever entry comes first in its row.
    diagonal = out.diagonal().copy()
    for start in range(0, len(out), MIRROR_ROWS):
        across = slice(start, start + MIRROR_ROWS), slice(start, None)
        both = out[across] + out[across[::-1]].T
        out[across], out[across[::-1]] = both, both.T
    np.fill_diagonal(out, diagonal)
    return out


def column_sums(A: CSRRows) -> Doubles:
    """Return the sum of each column in double precision. Shapes: `A` (n, d); returns (d,)."""
    if A.nnz <= MAX_NUMPY_ENTRIES:
        # The same sums in the same order: a small block waits for no loop to be compiled.
        return np.bincount(A.indices, weights=A.data, minlength=A.shape[1]).astype(np.float64, copy=False)
    out = np.zeros(A.shape[1])
    sparse_loops.add_columns(read_only(A.data), read_only(A.indices), out)
    return out


def canonical_rows(A: "CSRRows | sparse.csr_matrix") -> CSRRows:
    """Return a sparse matrix as a ``csr_array`` whose rows are sorted and hold each entry once.

    Kernels here take each stored value for an entry of its own, and look at no index twice: one that points outside
    would make them read or write memory that is not the matrix's. Shapes: `A` (n, d); returns (n, d).

    >>> canonical_rows(sparse.csr_array(([1.0, 2.0], [0, 0], [0, 2]), shape=(1, 1))).data
    array([3.])
    """
    rows: CSRRows = A if isinstance(A, sparse.csr_array) else sparse.csr_array(A)
    fault = csr_fault(rows.indices, rows.indptr, rows.shape[1])
    if fault:
        raise ValueError(f"the sparse matrix is damaged: {fault}")
    rows = without_room(rows)
    if not rows.has_canonical_format:
        rows = rows.copy()  # the caller's own memory stays as it is
        rows.sum_duplicates()
    return rows


def gram_times_eight(A: CSRRows, pieces: TransposedPanels, Z: FloatArray) -> Doubles:
    """Return ``A'(A Z)`` for Z of eight columns: ``A Z`` is rounded to Z's precision, sums of it are not.

    Rows are only gathered, from A by rows and from A by columns, with the eight sums in registers: adding at random
    places takes more than twice as long. ``32 nnz`` flops. Shapes: `A` (n, d), `Z` (d, 8); returns (d, 8).
    """
    Y, out = np.zeros((A.shape[0], EIGHT), dtype=Z.dtype), np.zeros((A.shape[1], EIGHT))
    sparse_loops.gather_eight(*_arrays(A), read_only(Z), Y)
    for rows, piece in pieces:
        sparse_loops.gather_eight(*piece, read_only(Y[rows]), out)
    return out


def is_nearly_dense(A: CSRRows) -> bool:
    """Report whether products with a block are quicker in dense tiles. Shapes: `A` (n, d)."""
    # Measured at 153 columns: 39 ns a stored entry in loops; in tiles 50, 24 and 10 at a share of .17, .4 and 1.
    return bool(A.nnz >= DENSE_SHARE * A.shape[0] * A.shape[1] > 0)


def gram_times_dense(A: Rows, Z: FloatArray, mean: Doubles | None = None) -> FloatArray:
    """Return ``A' (A Z)``, or that of the rows less their mean, which are made dense a tile at a time.

    Shapes: `A` (n, d), `Z` (d, r), `mean` (d,); returns (d, r).
    """
    out = np.zeros_like(Z)
    for start in range(0, A.shape[0], TILE_ROWS):
        stop = min(start + TILE_ROWS, A.shape[0])
        product = np.zeros((stop - start, Z.shape[1]), dtype=Z.dtype)
        for columns, tile in iter_dense_tiles(A, start, stop, Z.dtype, mean):
            product += tile @ Z[columns]
        for columns, tile in iter_dense_tiles(A, start, stop, Z.dtype, mean):
            out[columns] += tile.T @ product
    return out


def iter_dense_tiles(
    A: Rows, start: int, stop: int, dtype: DTypeLike, mean: Doubles | None = None
) -> Iterator[tuple[slice, FloatArray]]:
    """Yield some rows in tiles, from the first column to the last, in memory that the next one overwrites.

    A mean (d,) is taken off in double precision.
    """
    n_rows = stop - start
    n_columns = max(1, TILE_BYTES // (max(TILE_ROWS, n_rows) * np.dtype(dtype).itemsize))
    # Invariant: entries of row i before `positions[i - start]` are in tiles that were yielded.
    if is_sparse(A):
        data, indices = read_only(A.data), read_only(A.indices)
        positions, ends = (
            A.indptr[start:stop].astype(np.int64),
            A.indptr[start + 1 : stop + 1].astype(np.int64),
        )
    room = np.empty(n_rows * n_columns, dtype=dtype)
    for first in range(0, A.shape[1], n_columns):
        columns = slice(first, min(first + n_columns, A.shape[1]))
        tile = room[: n_rows * (columns.stop - first)].reshape(n_rows, -1)
        if is_sparse(A):
            sparse_loops.fill_tile(data, indices, positions, ends, first, tile)
        else:
            tile[:] = A[start:stop, columns]
        if mean is not None:
            np.subtract(
                tile if is_sparse(A) else A[start:stop, columns], mean[columns], out=tile, casting="same_kind"
            )
        yield columns, tile


def row_slice(A: CSRRows, start: int, stop: int) -> CSRRows:
    """Return consecutive rows of a CSR matrix as views of its entries; SciPy's own slicing copies them."""
    first, last = A.indptr[start], A.indptr[stop]
    rows = sparse.csr_array((stop - start, A.shape[1]), dtype=A.dtype)
    # Set afterwards: the constructor copies views of less than a half.
    rows.data, rows.indices = A.data[first:last], A.indices[first:last]
    rows.indptr = A.indptr[start : stop + 1] - first
    return rows


def _step(row_bytes: int) -> int:
    """Return the number of rows of a piece: as many as rows of ``A Z`` fit the cache."""
    return max(1, CACHE_BYTES // row_bytes)


def iter_transposed_panels(A: CSRRows, row_bytes: int, *, held: bool = False) -> Iterator[TransposedPanel]:
    """Yield consecutive rows, and their transpose in memory that the next one overwrites unless it is held."""
    cuts = [*range(0, A.shape[0], _step(row_bytes)), A.shape[0]]
    room = TransposeBuffer.of(A, 0 if held else int(np.diff(A.indptr[cuts]).max(initial=0)))
    for start, stop in pairwise(cuts):
        rows = row_slice(A, start, stop)
        room = TransposeBuffer.of(rows, rows.nnz) if held else room
        yield slice(start, stop), room.transpose(rows)


def _arrays(A: CSRRows) -> tuple[NDArray[np.generic], IntArray, IntArray]:
    """Return the arrays of a block, read-only: loops are then compiled once for blocks in memory and in a store."""
    return read_only(A.data), read_only(A.indices), read_only(A.indptr)


class TransposeBuffer(NamedTuple):
    """Memory for the transposes of pieces of one matrix: most entries of a piece, and d + 2 starts."""

    data: NDArray[Any]
    indices: IntArray
    starts: IntArray

    @classmethod
    def of(cls, A: CSRRows, n_entries: int) -> Self:
        """Ask for the memory. Shapes: `A` (n, d)."""
        # As SciPy chooses: a loop over the transpose is then compiled for no other types than one over the rows.
        index = np.int32 if max(A.shape[0], n_entries) < 2**31 else np.int64
        return cls(
            np.empty(n_entries, dtype=A.dtype),
            np.empty(n_entries, dtype=index),
            np.empty(A.shape[1] + 2, dtype=index),
        )

    def transpose(self, piece: CSRRows) -> ByColumns:
        """Return data, indices and indptr of a piece by columns, in place of the last ones."""
        data, indices = self.data[: piece.nnz], self.indices[: piece.nnz]
        sparse_loops.transpose(piece.data, piece.indices, piece.indptr, data, indices, self.starts)
        return read_only(data), read_only(indices), read_only(self.starts[:-1])


def csr_fault(indices: IntArray, indptr: IntArray, n_columns: int) -> str:
    """Say what is wrong with the structure of a CSR matrix, or nothing: compiled loops follow indices without checks.

    Shapes: `indices` (nnz,), `indptr` (n_rows + 1,).

    >>> csr_fault(np.array([0, 7]), np.array([0, 2]), 3)
    'column 7 is not one of its 3 columns'
    >>> csr_fault(np.array([0, 2]), np.array([0, 2]), 3)
    ''
    """
    if not len(indptr) or not 0 <= indptr[-1] <= len(indices) or offset_fault(indptr, indptr[-1]):
        return f"its row pointers do not cut {len(indices)} entries into rows"
    used = indices[: indptr[-1]]
    if not len(used):
        return ""
    for column in (used.min(), used.max()):
        if not 0 <= column < n_columns:
            return f"column {column} is not one of its {n_columns} columns"
    return ""


def offset_fault(offsets: IntArray, length: int) -> str:
    """Say what is wrong with offsets that cut an array into pieces, or nothing. Shapes: `offsets` (n + 1,).

    >>> offset_fault(np.array([0, 2, 5]), 5), offset_fault(np.array([0, 7, 5]), 5)
    ('', 'its offsets do not cut an array of 5 into pieces')
    """
    right = len(offsets) and offsets[0] == 0 and offsets[-1] == length and (offsets[1:] >= offsets[:-1]).all()
    return "" if right else f"its offsets do not cut an array of {length} into pieces"


def scaled_to_length(
    data: NDArray[Any], rows: CSRRows, column_weights: FloatArray | None, norm: str | None
) -> FloatArray:
    """Return entries (nnz,) times the weights of their columns (d,), over the lengths of their rows."""
    out = np.empty(len(data), dtype=data.dtype)
    weights = np.empty(0, data.dtype) if column_weights is None else column_weights.astype(data.dtype)
    power = {None: 0, "l1": 1, "l2": 2}[norm]
    sparse_loops.scale_rows(read_only(data), *_arrays(rows)[1:], read_only(weights), power, out)
    return out


def divide_entries(values: Doubles, rows: CSRRows, first: int, by_row: Doubles, by_column: Doubles) -> None:
    """Divide entries by a number of their row (n,), and then by one of their column (d,), in place."""
    sparse_loops.divide(values, *_arrays(rows)[1:], first, by_row, by_column)
