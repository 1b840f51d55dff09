"""Compiled loops over the entries of CSR blocks for :mod:`dspectral.linalg.sparse_products`; indices are not checked.

Products are added in the order of the rows, so results are reproducible. ``gather`` of a matrix and ``scatter`` of its
transpose return the same bits.
"""

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, compiled_with_contraction
from dspectral.types import AnyArray, Doubles, FloatArray, Int64s, IntArray


@compiled_with_contraction
def add_row(data: NDArray[np.generic], indices: IntArray, entry: int, end: int, Z: FloatArray, row: FloatArray) -> None:
    """Add ``a_j Z_j`` to a row for the entries from `entry` to `end`, four at a time to save loads and stores."""
    # Convert entries of A to the type of the sum: entries of another type would change that of each product.
    number = row.dtype.type
    while entry + 4 <= end:
        a, b = number(data[entry]), number(data[entry + 1])
        c, d = number(data[entry + 2]), number(data[entry + 3])
        za, zb = Z[indices[entry]], Z[indices[entry + 1]]
        zc, zd = Z[indices[entry + 2]], Z[indices[entry + 3]]
        for k in range(row.size):  # in the same order as `scatter`
            row[k] = (((row[k] + a * za[k]) + b * zb[k]) + c * zc[k]) + d * zd[k]
        entry += 4
    while entry < end:
        a, za = number(data[entry]), Z[indices[entry]]
        for k in range(row.size):
            row[k] += a * za[k]
        entry += 1


@compiled_with_contraction
def gather(data: NDArray[np.generic], indices: IntArray, indptr: IntArray, Z: FloatArray, out: FloatArray) -> None:
    """Add ``A Z`` to ``out``: row i becomes the sum of ``a_ij Z_j``. The cost is ``2 nnz r`` flops."""
    for i in range(indptr.size - 1):
        add_row(data, indices, indptr[i], indptr[i + 1], Z, out[i])


@compiled_with_contraction
def scatter(data: NDArray[np.generic], indices: IntArray, indptr: IntArray, Y: FloatArray, out: FloatArray) -> None:
    """Add ``A' Y`` to ``out``: each entry ``a_ij`` adds ``a_ij Y_i`` to row j."""
    # Several rows of A add to one row of `out`, in the order of the rows, so sums are reproducible. Access to `out` is
    # random, so wide Y use the transpose instead. The cost is `2 nnz r` flops.
    for i in range(indptr.size - 1):
        source = Y[i]
        for entry in range(indptr[i], indptr[i + 1]):
            value = Y.dtype.type(data[entry])
            row = out[indices[entry]]
            for k in range(row.size):
                row[k] += value * source[k]


@compiled
def scatter_rounded(
    data: NDArray[np.generic], indices: IntArray, indptr: IntArray, Y: FloatArray, out: FloatArray
) -> None:
    """Add ``A' Y`` to ``out`` like :func:`scatter`, but round each product before adding it, like SciPy."""
    for i in range(indptr.size - 1):
        source = Y[i]
        for entry in range(indptr[i], indptr[i + 1]):
            value = Y.dtype.type(data[entry])
            row = out[indices[entry]]
            for k in range(row.size):
                row[k] += value * source[k]


@compiled_with_contraction
def gram_gather_scatter(
    data: NDArray[np.generic], indices: IntArray, indptr: IntArray, Z: FloatArray, out: FloatArray
) -> None:
    """Add ``A' (A Z)`` to ``out`` row by row: gather ``y = A_i Z``, then scatter ``a_ij y`` while A_i is in cache."""
    number, product = Z.dtype.type, np.zeros(Z.shape[1], dtype=Z.dtype)
    # Each row of A is read twice, the second time from cache, so A is read from memory once.
    for i in range(indptr.size - 1):
        product[:] = 0
        add_row(data, indices, indptr[i], indptr[i + 1], Z, product)
        for entry in range(indptr[i], indptr[i + 1]):
            value = number(data[entry])
            row = out[indices[entry]]
            for k in range(product.size):
                row[k] += value * product[k]


@compiled_with_contraction
def add_columns(data: NDArray[np.generic], indices: IntArray, out: Doubles) -> None:
    """Add the entries of each column to ``out``."""
    # In the order of the entries, like np.bincount, with the same bits.
    for entry in range(data.size):
        out[indices[entry]] += np.float64(data[entry])


@compiled_with_contraction
def add_gram(
    data: NDArray[np.generic],
    indices: IntArray,
    indptr: IntArray,
    positions: IntArray,
    rows: IntArray,
    starts: IntArray,
    out: Doubles,
) -> None:
    """Add the products of each entry with itself and the later entries of its row to ``out``, column by column.

    Column j has the entries ``positions[p]`` of the rows ``rows[p]``, ``starts[j] <= p < starts[j + 1]``. One
    row of ``out`` is in the cache at a time. The cost is half the sum of the squared row sizes.
    """
    for j in range(starts.size - 1):
        row = out[j]
        for p in range(starts[j], starts[j + 1]):
            # Convert before multiplying: products of float32 are exact in float64, so only sums round.
            value = np.float64(data[positions[p]])
            for other in range(np.uint64(positions[p]), np.uint64(indptr[rows[p] + 1])):
                row[np.uint64(indices[other])] += value * np.float64(data[other])


@compiled
def transpose(
    data: AnyArray,
    indices: IntArray,
    indptr: IntArray,
    out: AnyArray,
    rows: IntArray,
    starts: IntArray,
) -> None:
    """Write the transpose in CSR layout, by a stable counting sort in O(nnz + d)."""
    # Counts of column j are at `starts[j + 2]`. After the cumulative sum `starts[j + 1]` is the position of its next
    # entry, and after all entries are written, the start of column j + 1.
    # Unsigned numbers save the check for negative indices.
    one, two = np.uint64(1), np.uint64(2)
    starts[:] = 0
    for entry in range(np.uint64(indptr[0]), np.uint64(indptr[-1])):
        starts[np.uint64(indices[entry]) + two] += 1
    for j in range(2, starts.size):
        starts[j] += starts[j - 1]
    for i in range(indptr.size - 1):
        for entry in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            cursor = np.uint64(indices[entry]) + one
            position = np.uint64(starts[cursor])
            starts[cursor] = position + one
            out[position], rows[position] = data[entry], i


@compiled
def fill_panel(
    data: NDArray[np.generic],
    indices: IntArray,
    positions: Int64s,
    ends: Int64s,
    first: int,
    panel: FloatArray,
) -> None:
    """Write the columns from ``first`` on as a dense panel."""
    number = panel.dtype.type
    panel[:] = 0
    last = first + panel.shape[1]
    for i in range(positions.size):
        position = positions[i]
        while position < ends[i] and indices[position] < last:
            panel[i, indices[position] - first] = number(data[position])
            position += 1
        positions[i] = position


@compiled_with_contraction
def gather_eight(data: AnyArray, indices: IntArray, indptr: IntArray, Z: FloatArray, out: FloatArray) -> None:
    """Add ``A Z`` to ``out`` for Z of eight columns, with products in Z's type and sums in that of ``out``."""
    # Eight scalars instead of an array, so that the compiler keeps them in a register. Row i is written once. `16 nnz`
    # flops; each entry reads a row of Z: one cache line in double precision, half of one in single.
    number, total = Z.dtype.type, out.dtype.type
    for i in range(indptr.size - 1):
        row = out[i]
        a, b, c, d, e, f, g, h = row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7]
        for entry in range(indptr[i], indptr[i + 1]):
            value, z = number(data[entry]), Z[indices[entry]]
            a, b, c, d = (
                a + total(value * z[0]),
                b + total(value * z[1]),
                c + total(value * z[2]),
                d + total(value * z[3]),
            )
            e, f, g, h = (
                e + total(value * z[4]),
                f + total(value * z[5]),
                g + total(value * z[6]),
                h + total(value * z[7]),
            )
        row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7] = a, b, c, d, e, f, g, h


@compiled_with_contraction
def add_row_gram_eight(data: AnyArray, indices: IntArray, indptr: IntArray, Q: Doubles, out: Doubles) -> None:
    """Add ``A (A' Q)`` to ``out`` for Q of eight columns and A in CSC layout. Shapes: `Q` (n, 8), `out` (n, 8)."""
    # For each column of A: eight inner products with Q, then each entry adds its multiple of them to its row. `32 nnz`
    # flops. Only Q and `out` are accessed at random, 128 bytes per row of A.
    for j in range(indptr.size - 1):
        a = b = c = d = e = f = g = h = 0.0
        for entry in range(indptr[j], indptr[j + 1]):
            value, z = np.float64(data[entry]), Q[indices[entry]]
            a, b, c, d = a + value * z[0], b + value * z[1], c + value * z[2], d + value * z[3]
            e, f, g, h = e + value * z[4], f + value * z[5], g + value * z[6], h + value * z[7]
        for entry in range(indptr[j], indptr[j + 1]):
            value, row = np.float64(data[entry]), out[indices[entry]]
            row[0], row[1], row[2] = row[0] + value * a, row[1] + value * b, row[2] + value * c
            row[3], row[4], row[5] = row[3] + value * d, row[4] + value * e, row[5] + value * f
            row[6], row[7] = row[6] + value * g, row[7] + value * h


@compiled
def scale_rows(
    data: FloatArray, indices: IntArray, indptr: IntArray, weights: FloatArray, norm_order: int, out: FloatArray
) -> None:
    """Multiply entries by column weights and divide each row by its norm of order 1 or 2; order 0 does not divide."""
    number = out.dtype.type
    # Invariant: rows before i are done. Sums follow the order of the entries and round each product, with the same bits
    # as NumPy. Two multiplications and one division per entry.
    for i in range(indptr.size - 1):
        first, last = indptr[i], indptr[i + 1]
        total = 0.0
        for entry in range(first, last):
            value = data[entry] * weights[indices[entry]] if weights.size else data[entry]
            out[entry] = value
            total += abs(np.float64(value)) if norm_order == 1 else np.float64(value) * np.float64(value)
        if norm_order:
            norm = np.sqrt(total) if norm_order == 2 else total
            if norm > 0:
                for entry in range(first, last):
                    out[entry] = number(np.float64(out[entry]) / norm)


@compiled
def divide(
    values: Doubles, indices: IntArray, indptr: IntArray, first: int, by_row: Doubles, by_column: Doubles
) -> None:
    """Divide each entry by the numbers of its row and, if given, of its column."""
    start, i = indptr[first], first
    for k in range(values.size):
        while start + k >= indptr[i + 1]:
            i += 1
        value = values[k] / by_row[i]
        values[k] = value / by_column[indices[start + k]] if by_column.size else value
