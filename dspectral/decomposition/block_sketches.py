"""Sketches of blocks: the shrink step of Frequent Directions, and block Krylov iteration with an error bound."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from dspectral._compiled import read_only
from dspectral.linalg import sparse_loops, sparse_products
from dspectral.linalg.dense import eigh_descending, rounding_floor, sum_rounding_bound
from dspectral.linalg.krylov import KrylovSpace
from dspectral.linalg.leading import bound_largest_eigenvalue
from dspectral.linalg.panels import column_gram, combine_rows, inner_products, iter_panels, row_gram
from dspectral.linalg.sparse_products import TransposeBuffer, TransposedPanels, is_nearly_dense
from dspectral.types import CSRRows, Doubles, FloatArray, IntArray

OVERSAMPLING = 20
N_BLOCKS = 4
"""Number of products in which the Krylov iteration builds a sketch; each has this fraction of the columns."""
MIN_ASPECT_RATIO = 3
"""Ratio of occurring columns to rows from which the basis has the length of the rows."""
COLUMNS_AT_ONCE = 1024
"""Columns of a sketch that are summed at a time: 2 MiB for 200 rows, which fit the cache."""


class BlockSketch(NamedTuple):
    """Rows B (m, d) with ``B'B <= A'A`` up to rounding, and a bound on the spectral norm of ``A'A - B'B``."""

    rows: FloatArray
    error: float


def shrink_values(values: Doubles, capacity: int, dtype: DTypeLike, n_terms: int = 1) -> tuple[Doubles, float]:
    """Subtract the first eigenvalue beyond `capacity` from all and drop values below rounding; return also the error.

    The ``capacity + 1`` largest values lose the same amount, so ``(capacity + 1) * error`` is at most the energy lost,
    as the Frequent Directions bound requires (Ghashami, Liberty, Phillips and Woodruff 2016, section 2). Shapes:
    returns `values` (m,).

    >>> shrink_values(np.array([9.0, 4.0, 1.0]), 2, np.float64)[0]
    array([8., 3.])
    """
    cut = float(values[capacity]) if len(values) > capacity else 0.0
    floor = rounding_floor(values, dtype)
    reduced = values[:capacity] - cut
    # A dropped value was at most `cut + floor`. A second `floor` covers rounding of the eigenvalues and of the rows
    # computed from them. The rounding of the Gram matrix grows with the number of terms.
    return reduced[reduced > floor], cut + 2.0 * floor + sum_rounding_bound(n_terms, math.fsum(values))


def shrink_stack(parts: list[FloatArray], capacity: int) -> BlockSketch:
    """Sketch the concatenated rows of all parts by at most `capacity` rows. Shapes: `parts` (r_i, d)."""
    # Decompose the smaller of `A'A` and `A A'`: r d^2 or r^2 d flops for r rows of d columns, without a copy of all.
    n_rows, n_columns = sum(len(part) for part in parts), parts[0].shape[1]
    if n_rows <= capacity:
        return BlockSketch(np.concatenate(parts), 0.0)
    if n_columns < n_rows:
        gram = sum((np.asarray(part.T @ part, dtype=np.float64) for part in parts), np.zeros((n_columns,) * 2))
        return shrink_gram(gram, capacity, parts[0].dtype, n_terms=n_rows)
    # Fewer rows than columns: B = sqrt(kept / values) U'S does not need the right singular vectors.
    values, vectors = eigh_descending(row_gram(*parts))
    shrunk_values, error = shrink_values(values, capacity, parts[0].dtype)
    coefficients = vectors[:, : len(shrunk_values)] * np.sqrt(shrunk_values / values[: len(shrunk_values)])
    return BlockSketch(combine_rows(coefficients.T, *parts), error)


def shrink_gram(gram: Doubles, capacity: int, dtype: DTypeLike, *, n_terms: int) -> BlockSketch:
    """Sketch rows given by their Gram matrix. Shapes: `gram` (d, d)."""
    # With `A'A = V diag(v) V'`, the Gram matrix of the rows `sqrt(v - cut) V'` is `A'A` minus at most `cut` per axis.
    values, vectors = eigh_descending(gram)
    shrunk_values, error = shrink_values(values, capacity, dtype, n_terms)
    rows = (vectors[:, : len(shrunk_values)] * np.sqrt(shrunk_values)).T
    return BlockSketch(np.ascontiguousarray(rows, dtype=dtype), error)


class CenteredGram:
    """Operator ``A'A`` or ``A'A - n mean mean'``, restricted to occurring ``columns`` (c,) if at most half occur."""

    def __init__(self, rows: CSRRows, mean: Doubles | None, width: int) -> None:
        self._panels, self.width = TransposedPanels(), width
        occurs = np.zeros(rows.shape[1], dtype=bool)
        occurs[rows.indices] = True
        self.columns = np.flatnonzero(occurs)
        self.mean = None if mean is None else mean[self.columns]
        if 2 * len(self.columns) > rows.shape[1]:  # renumbering would save little
            self.columns, self.rows, self.mean = np.arange(rows.shape[1]), rows, mean
            return
        # Renumber columns, so that dense factors have rows only for occurring columns.
        number = np.cumsum(occurs, dtype=rows.indices.dtype) - 1
        self.rows = sparse.csr_array(
            (rows.data, number[rows.indices], rows.indptr), shape=(rows.shape[0], len(self.columns))
        )

    @property
    def panels(self) -> TransposedPanels:
        """Transposed panels of the block, a second copy that is cached on first use."""
        if not self._panels:
            row_bytes = self.width * self.rows.dtype.itemsize
            self._panels = list(sparse_products.iter_transposed_panels(self.rows, row_bytes, keep_transposes=True))
        return self._panels

    def __matmul__(self, Z: FloatArray) -> FloatArray:
        """Return the product with ``Z`` of shape (c, r): ``A'(A Z) - mean (n mean' Z)``."""
        wide = Z.shape[1] >= sparse_products.MIN_WIDE_COLUMNS
        product = sparse_products.gram_times(self.rows, Z, self.panels if wide else None)
        if self.mean is not None:
            mean_products = self.rows.shape[0] * (self.mean @ Z)
            product -= np.outer(self.mean, mean_products).astype(product.dtype)
        return product

    def multiply_in_double(self, Z: FloatArray) -> Doubles:
        """Return the product with eight columns (c, 8), summed over the rows in double precision."""
        product = sparse_products.gram_times_eight(self.rows, self.panels, Z)
        if self.mean is not None:
            product -= np.outer(self.mean, self.rows.shape[0] * (self.mean @ Z))
        return product


def sketch_in_row_space(
    gram: CenteredGram, n_columns: int, capacity: int, width: int, *, seed: int, n_steps: int
) -> BlockSketch:
    """Sketch a block by block Krylov iteration with ``A A'``.

    ``B = W'A`` for ``W = U D`` with orthonormal columns U and ``D <= 1`` has ``B'B <= A'A``. The nonzero eigenvalues of
    the residual ``A'(I - W W')A`` are those of ``P C P`` with ``C = A A'`` and ``P^2 = I - W W'``.
    """
    rows, dtype = _RowGram(gram), gram.rows.dtype
    start = np.random.default_rng(seed).standard_normal((gram.rows.shape[0], width), dtype=np.float32)
    space = KrylovSpace.start(rows @ start.astype(dtype))
    for _ in range(n_steps - 1):
        space = space.extend(rows @ space.newest)
    values, vectors = space.ritz_pairs(rows @ space.newest)
    del space
    # Rows of U'A are orthogonal with squared lengths `values`; those of the sketch have `shrunk_values`. W is rounded
    # to the precision of the rows, which halves the memory that products with it read. Any W has the same bound.
    shrunk_values, _ = shrink_values(values, capacity, dtype)
    scales = np.sqrt(shrunk_values / values[: len(shrunk_values)])
    weights: Any = (vectors[:, : len(shrunk_values)] * scales).astype(dtype)
    sketch = rows.multiply_columns(weights, n_columns)
    # With W'W = R diag(v) R': P = I - W H W' for H = R diag((1 - sqrt(1 - v)) / v) R', for any lengths of the columns
    # of W. Values above 1 are rounding; clipping them to 1 only increases the bound. The form of H below avoids
    # cancellation.
    inside, R = eigh_descending(column_gram(weights))
    middle = (R / (1.0 + np.sqrt(1.0 - np.minimum(inside, 1.0)))) @ R.T

    def root(q: FloatArray) -> Doubles:
        products = middle @ inner_products((weights,), q.astype(dtype))
        return q - weights @ products.astype(dtype)

    _, residual_bound = bound_largest_eigenvalue(
        lambda q, less: root(rows.multiply_in_double(root(q))) - less, gram.rows.shape[0], seed, np.float64
    )
    # Rows are summed in double precision and rounded once: with rounding E the error of B'B is at most 2 |B| |E|. The
    # bound itself includes the errors of all earlier steps. Only its products with W are not in double precision.
    row_rounding = float(np.finfo(dtype).eps * np.sqrt(shrunk_values.max(initial=0.0) * shrunk_values.sum()))
    energy = float(np.einsum("i,i->", gram.rows.data, gram.rows.data, dtype=np.float64))
    sum_rounding = sum_rounding_bound(len(gram.columns), energy) + rounding_floor(values, dtype)
    return BlockSketch(sketch, residual_bound + row_rounding + sum_rounding)


class _RowGram:
    """Operator ``A A'``, or that of ``A - 1 mean'``, with A in CSC layout."""

    def __init__(self, gram: CenteredGram) -> None:
        self.by_columns = TransposeBuffer.allocate(gram.rows, gram.rows.nnz).transpose(gram.rows)
        self.columns, self.mean = gram.columns, gram.mean
        if gram.mean is not None:
            self.along, self.mean_energy = gram.rows @ gram.mean, float(gram.mean @ gram.mean)

    def __matmul__(self, Y: FloatArray) -> FloatArray:
        """Return the product with ``Y`` of shape (n, r), in ``4 nnz r`` flops."""
        product = np.zeros_like(Y)
        sparse_loops.gram_gather_scatter(*self.by_columns, read_only(Y), product)
        self._center_product(product, Y)
        return product

    def multiply_in_double(self, Q: Doubles) -> Doubles:
        """Return the product with eight columns, summed in double precision."""
        product = np.zeros_like(Q)
        sparse_loops.add_row_gram_eight(*self.by_columns, read_only(Q), product)
        self._center_product(product, Q)
        return product

    def _center_product(self, product: FloatArray, Y: FloatArray) -> None:
        if self.mean is not None:
            # (A - 1 m')(A - 1 m')' = A A' - (A m) 1' - 1 (A m)' + (m'm) 1 1'
            total = Y.sum(axis=0, dtype=np.float64)
            product -= np.outer(self.along, total).astype(product.dtype)
            product += (self.mean_energy * total - self.along @ Y).astype(product.dtype)

    def multiply_columns(self, weights: FloatArray, n_columns: int) -> FloatArray:
        """Return ``W'(A - 1 mean')`` in Fortran order, summed in double, zero in columns that do not occur."""
        data, indices, indptr = self.by_columns
        tall = np.zeros((n_columns, weights.shape[1]), dtype=data.dtype)
        total, buffer = weights.sum(axis=0, dtype=np.float64), np.empty((COLUMNS_AT_ONCE, weights.shape[1]))
        for start in range(0, len(self.columns), COLUMNS_AT_ONCE):
            panel = slice(start, min(start + COLUMNS_AT_ONCE, len(self.columns)))
            starts, rows = read_only(indptr[start : panel.stop + 1]), buffer[: panel.stop - start]
            rows[:] = 0.0
            sparse_loops.gather(data, indices, starts, read_only(weights), rows)
            if self.mean is not None:
                rows -= np.outer(self.mean[panel], total)
            tall[self.columns[panel]] = rows
        return tall.T


def sketch_large_sparse(
    rows: CSRRows, capacity: int, *, mean: Doubles | None = None, seed: int = 0, n_steps: int = 4
) -> BlockSketch:
    """Sketch a sparse block with two long sides by block Krylov iteration.

    Cost with c occurring columns: about ``5 nnz capacity`` flops in sparse products, ``12 c capacity^2`` in dense ones,
    and a basis of ``1.4 c capacity`` numbers. If ``c >= 3 n``: ``7 nnz capacity``, ``12 n capacity^2`` and ``1.4 n
    capacity``. Shapes: `rows` (n, d), `mean` (d,).
    """
    # A multiple of four: vectorized loops take as long for three remaining columns as for eight.
    width = 4 * math.ceil((capacity + OVERSAMPLING) / (4 * N_BLOCKS))
    gram = CenteredGram(rows, mean, width)
    # The basis has the length of the shorter side. Nearly dense blocks are multiplied by BLAS, from the column side.
    if MIN_ASPECT_RATIO * rows.shape[0] <= len(gram.columns) and not is_nearly_dense(gram.rows):
        return sketch_in_row_space(gram, rows.shape[1], capacity, width, seed=seed, n_steps=n_steps)
    # Draw in single precision, so that float32 and float64 rows start from the same numbers.
    shape = gram.rows.shape[0], min(width, *gram.rows.shape)
    start = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32).astype(rows.dtype)
    space = KrylovSpace.start(sparse_products.transpose_times(gram.rows, start, gram.panels))
    del start
    for _ in range(n_steps - 1):
        space = space.extend(gram @ space.newest)
    best = space.close(gram @ space.newest)
    del space
    # Row i of the sketch is an eigenvector of squared length kept[i].
    shrunk_values, _ = shrink_values(best.values, capacity, rows.dtype)
    scale = np.sqrt(shrunk_values / best.values[: len(shrunk_values)])
    sketch = best.rows(scale, columns=gram.columns, n_columns=rows.shape[1], release_parts=True)
    floor = rounding_floor(best.values, rows.dtype)
    del best  # holds as much memory as the sketch

    def multiply_residual(q: FloatArray, subtracted: Doubles) -> Doubles:
        # (A'A - B'B) q, in double: sums in single precision would hide the rounding errors of the sketch.
        product = gram.multiply_in_double(q) - subtracted
        subtract_gram_times(sketch, q, gram.columns, product)
        return product

    _, bound = bound_largest_eigenvalue(multiply_residual, len(gram.columns), seed, sketch.dtype)
    return BlockSketch(sketch, bound + 2.0 * floor)


def subtract_gram_times(sketch: FloatArray, q: FloatArray, columns: IntArray, target: FloatArray) -> None:
    """Subtract ``B'B q`` from ``target`` (c, r) in place, restricted to the given columns (c,) of B."""
    inside = np.zeros((len(sketch), q.shape[1]))
    # If all columns occur use slices, which are views; indexing by column numbers copies each panel.
    has_all_columns = len(columns) == sketch.shape[1]
    for panel in iter_panels(len(columns)):
        inside += sketch[:, panel if has_all_columns else columns[panel]] @ q[panel]
    narrow = inside.astype(q.dtype)
    for panel in iter_panels(len(columns)):
        target[panel] -= sketch[:, panel if has_all_columns else columns[panel]].T @ narrow
