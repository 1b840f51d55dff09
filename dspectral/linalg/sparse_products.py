"""Products of a CSR block with dense matrices, its transpose, scaling of its entries, and checks of its structure.

SciPy's products hold the GIL; these release it. Gram products go by tiles of columns, whose rows of Z fit the cache.
If rows have few entries in a tile, and for wide dense matrices, products use transposed panels of the block, whose
rows of ``A Z`` fit the cache, so that the long side is read sequentially: ``A Z`` adds each row of Z to the rows that
have the column, and ``A' Y`` writes each row of the result once. Random access to a long Z, row by row of the block,
takes two to four times as long.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from dspectral._compiled import read_only
from dspectral.linalg import sparse_loops
from dspectral.linalg.panels import split_by_size
from dspectral.types import AnyArray, CSRRows, Doubles, FloatArray, IntArray, Rows, is_sparse, trim_csr

MIN_WIDE_COLUMNS = 32
"""Number of dense columns from which products transpose the block."""
CACHE_BYTES = 4 << 20
"""Bytes of ``A Z`` for a transposed panel, and largest size of Z for random access."""
RANDOM_ACCESS_BYTES = 1 << 20
"""Largest size of Z for products without a transposed panel: half of the second-level cache of a core."""
EIGHT = 8
MAX_NUMPY_ENTRIES = 1 << 14
"""Number of entries up to which NumPy is as fast as a compiled loop."""
DENSE_SHARE = 0.25
"""Share of stored entries from which products convert a block to dense panels."""
GRAM_PANEL_ENTRIES = 1 << 18
"""Entries of a panel whose Gram matrix is summed column by column: 2 MiB, which fit the cache."""
MIRROR_ROWS = 64
"""Rows of a Gram matrix that are made symmetric at a time."""
TILE_ROWS = 512
TILE_BYTES = 4 << 20
ByColumns = tuple[AnyArray, IntArray, IntArray]
"""Data, row indices and column starts of a matrix in CSC layout."""
TransposedPanel = tuple[slice, ByColumns]
"""Consecutive rows of a block, and their entries in CSC layout."""
TransposedPanels = list[TransposedPanel]


def times(A: CSRRows, Z: FloatArray) -> FloatArray:
    """Return ``A Z``. Shapes: `A` (n, d), `Z` (d, r); returns (n, r)."""
    out = np.zeros((A.shape[0], Z.shape[1]), dtype=Z.dtype)
    if Z.shape[1] < MIN_WIDE_COLUMNS or Z.nbytes <= CACHE_BYTES or A.nnz < A.shape[1]:
        sparse_loops.gather(*_arrays(A), read_only(Z), out)
        return out
    # Same bits as above: the terms of each row are added in the order of its columns.
    for rows, panel in iter_transposed_panels(A, Z.shape[1] * Z.itemsize):
        sparse_loops.scatter(*panel, read_only(Z), out[rows])
    return out


def transpose_times(A: CSRRows, Y: FloatArray, panels: TransposedPanels | None = None) -> FloatArray:
    """Return ``A' Y``. Shapes: `A` (n, d), `Y` (n, r); returns (d, r)."""
    out = np.zeros((A.shape[1], Y.shape[1]), dtype=Y.dtype)
    if Y.shape[1] < MIN_WIDE_COLUMNS:
        sparse_loops.scatter(*_arrays(A), read_only(Y), out)
        return out
    for rows, panel in panels or iter_transposed_panels(A, Y.shape[1] * Y.itemsize):
        sparse_loops.gather(*panel, read_only(Y[rows]), out)
    return out


def add_transpose_times(A: CSRRows, Y: FloatArray, out: FloatArray) -> None:
    """Add ``A' Y`` to a matrix; over consecutive blocks of rows the sum has the bits of SciPy's product of all rows.

    Shapes: `A` (n, d), `Y` (n, r), `out` (d, r).

    >>> out = np.ones((2, 2))
    >>> add_transpose_times(sparse.csr_array([[0.0, 2.0], [1.0, 0.0]]), np.eye(2), out)
    >>> out
    array([[1., 2.],
           [3., 1.]])
    """
    sparse_loops.scatter_rounded(*_arrays(A), read_only(Y), out)


def gram_times(A: CSRRows, Z: FloatArray, panels: TransposedPanels | None = None) -> FloatArray:
    """Return ``A' (A Z)``.

    ``4 nnz r`` flops. Working memory: 4 MiB of ``A Z`` and, without `panels`, a transposed copy of as many rows. Nearly
    dense blocks use BLAS. All code paths return the same bits. Shapes: `A` (n, d), `Z` (d, r); returns (d, r).
    """
    Z = np.ascontiguousarray(Z)
    if Z.shape[1] >= MIN_WIDE_COLUMNS and is_nearly_dense(A):
        return gram_times_dense(A, Z)
    out, row_bytes = np.zeros((A.shape[1], Z.shape[1]), dtype=Z.dtype), max(1, Z.shape[1] * Z.itemsize)
    if panels is None and Z.nbytes <= RANDOM_ACCESS_BYTES:
        sparse_loops.gram_gather_scatter(*_arrays(A), read_only(Z), out)
        return out
    # By panels: A Z is still in cache when it is read. Reuse one buffer: the system maps and clears new memory page by
    # page.
    product = np.empty((min(_get_panel_height(row_bytes), A.shape[0]), Z.shape[1]), dtype=Z.dtype)
    for panel_rows, panel in panels or iter_transposed_panels(A, row_bytes):
        panel_product = product[: panel_rows.stop - panel_rows.start]
        panel_product[:] = 0
        sparse_loops.scatter(*panel, read_only(Z), panel_product)
        sparse_loops.gather(*panel, read_only(panel_product), out)
    return out


def gram(A: CSRRows) -> Doubles:
    """Return ``A'A`` (d, d) in double precision, summed in the order of the rows."""
    out = np.zeros((A.shape[1], A.shape[1]))
    for start, stop in split_by_size(np.diff(A.indptr), GRAM_PANEL_ENTRIES):
        panel = slice_rows(A, start, stop)
        arrays, panel.data = _arrays(panel), np.arange(panel.nnz, dtype=panel.indices.dtype)
        positions, rows, starts = TransposeBuffer.allocate(panel, panel.nnz).transpose(panel)
        sparse_loops.add_gram(*arrays, positions, rows, starts, out)
    # Each pair was added once, in the row of the entry that comes first. Add the transpose.
    diagonal = out.diagonal().copy()
    for start in range(0, len(out), MIRROR_ROWS):
        upper = slice(start, start + MIRROR_ROWS), slice(start, None)
        lower = upper[::-1]
        total = out[upper] + out[lower].T
        out[upper], out[lower] = total, total.T
    np.fill_diagonal(out, diagonal)
    return out


def column_sums(A: CSRRows) -> Doubles:
    """Return the sum of each column in double precision. Shapes: `A` (n, d); returns (d,)."""
    if A.nnz <= MAX_NUMPY_ENTRIES:
        # The same sums in the same order, without compiling a loop for a small block.
        return np.bincount(A.indices, weights=A.data, minlength=A.shape[1]).astype(np.float64, copy=False)
    out = np.zeros(A.shape[1])
    sparse_loops.add_columns(read_only(A.data), read_only(A.indices), out)
    return out


def to_canonical_csr(A: "CSRRows | sparse.csr_matrix") -> CSRRows:
    """Return a sparse matrix as a ``csr_array`` with sorted rows and without duplicates; raise ValueError if invalid.

    The compiled loops do not check indices: an invalid one would access memory outside the matrix. Shapes: `A` (n, d);
    returns (n, d).

    >>> to_canonical_csr(sparse.csr_array(([1.0, 2.0], [0, 0], [0, 2]), shape=(1, 1))).data
    array([3.])
    """
    rows: CSRRows = A if isinstance(A, sparse.csr_array) else sparse.csr_array(A)
    fault = find_csr_error(rows.indices, rows.indptr, rows.shape[1])
    if fault:
        raise ValueError(f"invalid sparse matrix: {fault}; build it again, for example by scipy.sparse.csr_array")
    rows = trim_csr(rows)
    if not rows.has_canonical_format:
        rows = rows.copy()  # do not change the caller's matrix
        rows.sum_duplicates()
    return rows


def gram_times_eight(A: CSRRows, panels: TransposedPanels, Z: FloatArray) -> Doubles:
    """Return ``A'(A Z)`` for Z of eight columns, with ``A Z`` rounded to Z's precision and summed in double.

    Both products only gather rows, with eight sums in registers. ``32 nnz`` flops. Shapes: `A` (n, d), `Z` (d, 8);
    returns (d, 8).
    """
    Y, out = np.zeros((A.shape[0], EIGHT), dtype=Z.dtype), np.zeros((A.shape[1], EIGHT))
    sparse_loops.gather_eight(*_arrays(A), read_only(Z), Y)
    for rows, panel in panels:
        sparse_loops.gather_eight(*panel, read_only(Y[rows]), out)
    return out


def is_nearly_dense(A: CSRRows) -> bool:
    """Return whether products with a block are faster in dense panels. Shapes: `A` (n, d)."""
    return bool(A.nnz >= DENSE_SHARE * A.shape[0] * A.shape[1] > 0)


def gram_times_dense(A: Rows, Z: FloatArray, mean: Doubles | None = None) -> FloatArray:
    """Return ``A' (A Z)``, of the rows minus a mean (d,) if given, converting the rows to dense panels."""
    out = np.zeros_like(Z)
    for start in range(0, A.shape[0], TILE_ROWS):
        stop = min(start + TILE_ROWS, A.shape[0])
        product = np.zeros((stop - start, Z.shape[1]), dtype=Z.dtype)
        for columns, panel in iter_dense_column_panels(A, start, stop, Z.dtype, mean):
            product += panel @ Z[columns]
        for columns, panel in iter_dense_column_panels(A, start, stop, Z.dtype, mean):
            out[columns] += panel.T @ product
    return out


def iter_dense_column_panels(
    A: Rows, start: int, stop: int, dtype: DTypeLike, mean: Doubles | None = None
) -> Iterator[tuple[slice, FloatArray]]:
    """Yield rows as dense panels from the first column to the last; each panel overwrites the previous one.

    A mean (d,) is subtracted in double precision.
    """
    n_rows = stop - start
    n_columns = max(1, TILE_BYTES // (max(TILE_ROWS, n_rows) * np.dtype(dtype).itemsize))
    # Invariant: entries of row i before `positions[i - start]` are in earlier panels.
    if is_sparse(A):
        data, indices = read_only(A.data), read_only(A.indices)
        positions = A.indptr[start:stop].astype(np.int64)
        ends = A.indptr[start + 1 : stop + 1].astype(np.int64)
    buffer = np.empty(n_rows * n_columns, dtype=dtype)
    for first in range(0, A.shape[1], n_columns):
        columns = slice(first, min(first + n_columns, A.shape[1]))
        panel = buffer[: n_rows * (columns.stop - first)].reshape(n_rows, -1)
        if is_sparse(A):
            sparse_loops.fill_panel(data, indices, positions, ends, first, panel)
        else:
            panel[:] = A[start:stop, columns]
        if mean is not None:
            rows = panel if is_sparse(A) else A[start:stop, columns]
            np.subtract(rows, mean[columns], out=panel, casting="same_kind")
        yield columns, panel


def slice_rows(A: CSRRows, start: int, stop: int) -> CSRRows:
    """Return consecutive rows of a CSR matrix as views of its entries; SciPy's slicing would copy them."""
    first, last = A.indptr[start], A.indptr[stop]
    rows = sparse.csr_array((stop - start, A.shape[1]), dtype=A.dtype)
    # Set the arrays afterwards: the constructor copies views of less than half of an array.
    rows.data, rows.indices = A.data[first:last], A.indices[first:last]
    rows.indptr = A.indptr[start : stop + 1] - first
    return rows


def _get_panel_height(row_bytes: int) -> int:
    """Return the number of rows of a panel, whose rows of ``A Z`` fit the cache."""
    return max(1, CACHE_BYTES // row_bytes)


def iter_transposed_panels(A: CSRRows, row_bytes: int, *, keep_transposes: bool = False) -> Iterator[TransposedPanel]:
    """Yield consecutive rows and their transpose, which overwrites the previous one unless `keep_transposes`."""
    cuts = [*range(0, A.shape[0], _get_panel_height(row_bytes)), A.shape[0]]
    buffer = TransposeBuffer.allocate(A, 0 if keep_transposes else int(np.diff(A.indptr[cuts]).max(initial=0)))
    for start, stop in pairwise(cuts):
        rows = slice_rows(A, start, stop)
        buffer = TransposeBuffer.allocate(rows, rows.nnz) if keep_transposes else buffer
        yield slice(start, stop), buffer.transpose(rows)


def _arrays(A: CSRRows) -> tuple[NDArray[np.generic], IntArray, IntArray]:
    """Return the arrays of a block as read-only, so that loops are compiled once for memory and stores."""
    return read_only(A.data), read_only(A.indices), read_only(A.indptr)


class TransposeBuffer(NamedTuple):
    """Reusable memory for the transposes of panels of one matrix: entries of the largest panel, and d + 2 starts."""

    data: AnyArray
    indices: IntArray
    starts: IntArray

    @classmethod
    def allocate(cls, A: CSRRows, n_entries: int) -> Self:
        """Return a buffer for panels of at most `n_entries` entries. Shapes: `A` (n, d)."""
        # The same index type as SciPy, so that loops over the transpose need no compilation for another type.
        index = np.int32 if max(A.shape[0], n_entries) < 2**31 else np.int64
        return cls(
            np.empty(n_entries, dtype=A.dtype),
            np.empty(n_entries, dtype=index),
            np.empty(A.shape[1] + 2, dtype=index),
        )

    def transpose(self, panel: CSRRows) -> ByColumns:
        """Return data, indices and indptr of a panel in CSC layout, overwriting the previous ones."""
        data, indices = self.data[: panel.nnz], self.indices[: panel.nnz]
        sparse_loops.transpose(panel.data, panel.indices, panel.indptr, data, indices, self.starts)
        return read_only(data), read_only(indices), read_only(self.starts[:-1])


def find_csr_error(indices: IntArray, indptr: IntArray, n_columns: int) -> str:
    """Return a description of an error in the structure of a CSR matrix, or an empty string.

    Shapes: `indices` (nnz,), `indptr` (n_rows + 1,).

    >>> find_csr_error(np.array([0, 7]), np.array([0, 2]), 3)
    'column 7 is not one of its 3 columns'
    >>> find_csr_error(np.array([0, 2]), np.array([0, 2]), 3)
    ''
    """
    if not len(indptr) or not 0 <= indptr[-1] <= len(indices) or find_offset_error(indptr, indptr[-1]):
        return f"its row pointers do not split {len(indices)} entries into rows"
    used = indices[: indptr[-1]]
    if not len(used):
        return ""
    for column in (used.min(), used.max()):
        if not 0 <= column < n_columns:
            return f"column {column} is not one of its {n_columns} columns"
    return ""


def find_offset_error(offsets: IntArray, length: int) -> str:
    """Return a description of an error in offsets (n + 1,) that split `length` entries, or an empty string.

    >>> find_offset_error(np.array([0, 2, 5]), 5), find_offset_error(np.array([0, 7, 5]), 5)
    ('', 'its offsets do not cut an array of 5 into pieces')
    """
    right = len(offsets) and offsets[0] == 0 and offsets[-1] == length and (offsets[1:] >= offsets[:-1]).all()
    return "" if right else f"its offsets do not cut an array of {length} into pieces"


def weight_and_normalize(
    data: AnyArray, rows: CSRRows, column_weights: FloatArray | None, norm: str | None
) -> FloatArray:
    """Return entries (nnz,) times column weights (d,), divided by the norms of their rows."""
    out = np.empty(len(data), dtype=data.dtype)
    weights = np.empty(0, data.dtype) if column_weights is None else column_weights.astype(data.dtype)
    power = {None: 0, "l1": 1, "l2": 2}[norm]
    sparse_loops.scale_rows(read_only(data), *_arrays(rows)[1:], read_only(weights), power, out)
    return out


def divide_entries(values: Doubles, rows: CSRRows, first: int, by_row: Doubles, by_column: Doubles) -> None:
    """Divide entries by the numbers of their rows (n,) and then of their columns (d,), in place."""
    sparse_loops.divide(values, *_arrays(rows)[1:], first, by_row, by_column)
