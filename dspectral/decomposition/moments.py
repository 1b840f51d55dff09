"""Summaries of rows: moments, QR factors and Gram products; exact singular vectors of rows in memory."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from dspectral.engine.summary import BlockSize, MemoryEstimate, add_fields, min_block_bytes
from dspectral.linalg import sparse_products
from dspectral.linalg.block_sums import (
    compute_centered_energy,
    compute_energy,
    compute_gram,
    is_dense,
    is_in_range,
    iter_dense_panels,
    mean_row,
    mean_scatter,
    sum_dense_gram,
    sum_rows,
)
from dspectral.linalg.dense import (
    GRADED_RATIO,
    eigh_descending,
    jacobi_svd,
    mean_noise_floor,
    mean_rounding_bound,
    orthonormalize_axes,
    product_rounding_bound,
    rounding_floor,
    sum_rounding_bound,
    triangular_factor,
)
from dspectral.linalg.leading import MAX_GRAM_SIDE, find_leading_space
from dspectral.linalg.panels import iter_panels, multiply_from_left, row_gram
from dspectral.linalg.sparse_products import iter_dense_column_panels
from dspectral.registry import register_class
from dspectral.types import Doubles, FloatArray, Rows, is_sparse


@register_class({"total": "d", "gram": "d d"})
class Moments(NamedTuple):
    """Number, sum and Gram matrix of rows.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    total : ndarray of float64, shape (d,)
        Sum of the rows.
    gram : ndarray of float64, shape (d, d)
        Gram matrix ``A'A``, ``8 d^2`` bytes.
    center : bool
        Whether the Gram matrix is that of the rows minus their mean.

    Examples
    --------
    >>> Moments.from_block(np.array([[1.0, 2.0]])).merge(Moments.from_block(np.array([[3.0, 4.0]]))).gram
    array([[10., 14.],
           [14., 20.]])
    """

    n_rows: int
    total: Doubles
    gram: Doubles
    center: bool = False

    @classmethod
    def estimate_block_memory(cls, block: BlockSize, **_settings: object) -> MemoryEstimate:
        """Return the memory estimate of a block: its Gram matrix, and a second one while it is computed."""
        summary = 8 * block.n_columns * (block.n_columns + 1)
        return MemoryEstimate(summary, 2 * summary)

    @classmethod
    def from_block(cls, rows: Rows, *, center: bool = False) -> Self:
        """Summarize one block of shape (n, d), minus its mean with `center` if it has few zeros; refuse NaN."""
        # Called only for its check of NaN and infinity; the energy is the trace of the Gram matrix.
        compute_energy(rows)
        if not center or not is_dense(rows):
            return cls(rows.shape[0], sum_rows(rows), compute_gram(rows))
        mean = mean_row(rows)
        return cls(rows.shape[0], rows.shape[0] * mean, sum_dense_gram(rows, mean), center)

    @property
    def energy(self) -> float:
        """Squared Frobenius norm of the rows, minus their mean if ``center``."""
        return float(np.trace(self.gram))

    def merge(self, *others: Self) -> Self:
        """Return the moments of all rows.

        Parameters
        ----------
        *others : Moments
            Moments of other rows.

        Returns
        -------
        Moments
            Sums of the fields, plus the scatter of the means if all parts are centered.
        """
        summaries = [summary for summary in (self, *others) if summary.n_rows] or [self]
        if len(summaries) == 1:
            return summaries[0]
        if not all(summary.center for summary in summaries):
            return add_fields(*(summary.undo_centering() for summary in summaries))
        merged, scatter = add_fields(*summaries), mean_scatter(summaries)
        return merged._replace(gram=merged.gram + scatter.T @ scatter, center=True)

    def undo_centering(self) -> Self:
        """Return the moments of the uncentered rows.

        Returns
        -------
        Moments
            Moments with the contribution of the mean added.
        """
        if not self.center:
            return self
        return self._replace(gram=self.gram + np.outer(self.total / self.n_rows, self.total), center=False)


@register_class({"total": "d", "factor": "r d"})
class RowFactor(NamedTuple):
    """Number and sum of rows, and the triangular QR factor R (r, d) of the centered rows, which needs no squares."""

    n_rows: int
    total: Doubles
    factor: Doubles

    @property
    def center(self) -> bool:
        """Whether the rows are centered: always True."""
        return True

    @classmethod
    def estimate_block_memory(cls, block: BlockSize) -> MemoryEstimate:
        """Return the memory estimate of a block: the factor, and twice a panel of rows below it."""
        summary = 8 * block.n_columns * (block.n_columns + 1)
        return MemoryEstimate(summary, 4 * summary + (1 << 25))

    @classmethod
    def from_block(cls, rows: Rows) -> Self:
        """Summarize one block of shape (n, d); raise ValueError for NaN and infinity."""
        compute_energy(rows)
        mean, factor = mean_row(rows), np.zeros((0, rows.shape[1]))
        for panel in iter_dense_panels(rows, mean, rows.shape[1]):
            factor = triangular_factor(factor, panel)
        return cls(rows.shape[0], rows.shape[0] * mean, factor)

    @property
    def energy(self) -> float:
        """Squared Frobenius norm of the centered rows."""
        return float(np.einsum("ij,ij->", self.factor, self.factor))

    def merge(self, *others: Self) -> Self:
        """Return the factor of all rows, from the factors of the parts and the scatter of their means."""
        summaries = [summary for summary in (self, *others) if summary.n_rows] or [self]
        if len(summaries) == 1:
            return summaries[0]
        factor = triangular_factor(*(summary.factor for summary in summaries), mean_scatter(summaries))
        total = np.add.reduce([summary.total for summary in summaries])
        return type(self)(sum(summary.n_rows for summary in summaries), total, factor)


@register_class({"product": "d r", "total": "d", "projected_total": "r"})
class GramProduct(NamedTuple):
    """Product ``A'(A Z)`` for a given Z, with the sum and the energy of the rows.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    total : ndarray of float64, shape (d,)
    energy : float
        Squared Frobenius norm of the rows.
    product : ndarray, shape (d, r)
        Product, of Z's dtype; in double precision if that cannot represent the squares of the rows.
    projected_total : ndarray of float64, shape (r,), or None
        Sum of the rows times Z, if product and energy are those of the centered rows.
    """

    n_rows: int
    total: Doubles
    energy: float
    product: FloatArray
    projected_total: Doubles | None = None

    @classmethod
    def estimate_block_memory(cls, block: BlockSize, *, factor: FloatArray, **_settings: object) -> MemoryEstimate:
        """Return the memory estimate of a block: the product, and that of the block with Z."""
        summary = factor.nbytes + 8 * block.n_columns
        work = summary + block.n_rows * factor.shape[1] * factor.itemsize
        return MemoryEstimate(summary, work, min_block_bytes(factor.nbytes), is_sketch=True)

    @classmethod
    def from_block(cls, rows: Rows, *, factor: FloatArray, center: bool = False, with_sums: bool = True) -> Self:
        """Summarize one block; raise ValueError for NaN and infinity. Shapes: `rows` (n, d), `factor` (d, r).

        With `center`, dense and nearly dense rows are centered before the product. The product of sparse rows is not
        centered; the caller corrects it. With `with_sums` False the sum and the energy of sparse rows are 0, and they
        are not checked: an earlier pass did both.
        """
        if not with_sums and is_sparse(rows) and not sparse_products.is_nearly_dense(rows):
            return cls(rows.shape[0], np.zeros(rows.shape[1]), 0.0, sparse_products.gram_times(rows, factor))
        energy = compute_energy(rows)  # first, to reject infinity before the product
        if not is_in_range(energy, factor.dtype):
            factor = factor.astype(np.float64)
        if center and rows.shape[0] and is_dense(rows):
            total = rows.shape[0] * (mean := mean_row(rows))
            product = sparse_products.gram_times_dense(rows, factor, mean)
            energy = compute_centered_energy(rows, mean)
            return cls(rows.shape[0], total, energy, product, multiply_from_left(total, factor))
        if is_sparse(rows):
            product = sparse_products.gram_times(rows, factor)
        else:
            rows = np.asarray(rows, dtype=factor.dtype)
            product = rows.T @ (rows @ factor)
        return cls(rows.shape[0], sum_rows(rows), energy, product)

    @property
    def mean(self) -> Doubles:
        """Mean of the rows (d,); zeros without rows."""
        return self.total / max(1, self.n_rows)

    @property
    def mean_energy(self) -> float:
        """Squared Frobenius norm of the mean, repeated for each row."""
        return self.n_rows * float(self.mean @ self.mean)

    def get_energy(self, *, center: bool) -> float:
        """Return the squared Frobenius norm of the rows.

        Parameters
        ----------
        center : bool
            Whether it is that of the rows minus their mean.

        Returns
        -------
        float
            Energy, at least 0.
        """
        added = int(self.projected_total is not None) - int(center)
        return max(0.0, self.energy + added * self.mean_energy)

    def merge(self, *others: Self) -> Self:
        """Return the summary of all rows.

        Parameters
        ----------
        *others : GramProduct
            Summaries of other rows, for the same Z.

        Returns
        -------
        GramProduct
            Sums of the fields, plus the scatter of the means if all parts are centered.
        """
        summaries = [summary for summary in (self, *others) if summary.n_rows] or [self]
        if len({summary.product.dtype for summary in summaries}) > 1:
            summaries = [summary._replace(product=summary.product.astype(np.float64)) for summary in summaries]
        projected_totals = [summary.projected_total for summary in summaries if summary.projected_total is not None]
        if len(projected_totals) < len(summaries):  # mixed blocks: use uncentered products for all
            return add_fields(*(summary.undo_centering() for summary in summaries))
        if len(summaries) == 1:
            return summaries[0]
        merged = add_fields(*summaries)
        scatter = mean_scatter(summaries)
        product_scatter = mean_scatter(summaries, "projected_total")
        for panel in iter_panels(len(merged.product)):
            merged.product[panel] += scatter[:, panel].T @ product_scatter
        return merged._replace(energy=merged.energy + float(np.einsum("ij,ij->", scatter, scatter)))

    def undo_centering(self) -> Self:
        """Return the summary of the uncentered rows.

        Returns
        -------
        GramProduct
            Summary with the contribution of the mean added.
        """
        if self.projected_total is None:
            return self
        mean = self.total / self.n_rows
        product = self.product + np.outer(mean, self.projected_total).astype(self.product.dtype)
        return self._replace(energy=self.energy + float(mean @ self.total), product=product, projected_total=None)


class AllRows(NamedTuple):
    """All `rows` (n, d) of a pass for data that fits in memory, or a sample of them."""

    rows: Rows

    @classmethod
    def estimate_block_memory(cls, block: BlockSize, *, step: int = 0) -> MemoryEstimate:
        """Return the memory estimate of a block: its size if dense, 0 (unknown before reading) if sparse."""
        n_rows = -(-block.n_rows // max(1, step))
        size = 0 if block.is_sparse else n_rows * block.n_columns * block.itemsize
        return MemoryEstimate(size, size)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.rows.shape[0])

    @classmethod
    def from_block(cls, rows: Rows, *, step: int = 0) -> Self:
        """Return a summary that holds the block; raise ValueError for NaN and infinity.

        With a `step` hold one row in `step`, without checks.
        """
        if step:
            return cls(rows[::step])
        compute_energy(rows)
        return cls(rows)

    def merge(self, *others: Self) -> Self:
        """Return all rows in order."""
        summaries: list[Any] = [summary.rows for summary in (self, *others) if summary.rows.shape[0]]
        if len(summaries) < 2:
            return type(self)(summaries[0]) if summaries else self
        if is_sparse(self.rows):
            return type(self)(sparse.vstack(summaries, format="csr"))
        return type(self)(np.concatenate(summaries))


class ExactSVD(NamedTuple):
    """Right singular vectors `axes` (r, d), in Fortran order, and squared singular `values` (r,) of (centered) rows.

    `mean` (d,): mean of the rows; `energy`: squared Frobenius norm of the (centered) rows; `bounds` (k + 1,): upper
    bounds of the first squared singular values; `residuals` (r,): norms of ``C x - value x``; both without `rounding`,
    a bound on the rounding error of the values; `variance_fields`: variances, scatter, noise_floor and resolution of a
    ``Spectrum``.
    """

    axes: FloatArray
    values: Doubles
    mean: Doubles
    energy: float
    bounds: Doubles
    residuals: Doubles
    rounding: float
    variance_fields: tuple[Doubles, float, float, float]


GRAM_RESOLUTION = 1e-6
"""Share of the largest squared singular value above which a Gram matrix is accurate enough."""
MAX_FILLED_ENTRIES = 1 << 24
"""Largest size, zeros included, of sparse rows that may be decomposed as dense rows."""


def exact_svd(rows: Rows, k: int, *, center: bool, seed: int) -> ExactSVD:
    """Return the leading right singular vectors of rows, at most their rank, exact up to rounding.

    Let m be the smaller of n and the number of occurring columns. If m is at most ``max(800, 4 k)``, the m x m Gram
    matrix is decomposed, or a QR decomposition is computed if the Gram matrix cannot resolve k values. Otherwise a
    block Krylov space of a few hundred columns is searched. Memory: twice the rows, ``4 k`` to ``8 k`` numbers per row
    or column of the shorter side and ``k`` per one of the longer. Shapes: `rows` (n, d), float32 or float64.
    """
    n_rows, dense = rows.shape[0], is_dense(rows)
    whole: Any = rows
    mean, row_energy = mean_row(rows), compute_energy(rows)
    mean_energy, scatter = n_rows * float(mean @ mean), compute_centered_energy(rows, mean)
    # Dense rows are centered before the product, and products of sparse rows after it.
    mean_rounding = mean_rounding_bound(scatter, mean_energy) if center and dense else 0.0
    noise_floor = mean_noise_floor(n_rows, mean_energy) if dense else sum_rounding_bound(n_rows, row_energy)
    energy, formed = (scatter, scatter if dense else row_energy) if center else (row_energy, row_energy)
    side = _ShorterSide(rows, mean if center else None)
    k, is_small = min(k, side.length), side.length <= max(MAX_GRAM_SIDE, 4 * k)
    if is_small or dense or not is_in_range(row_energy, rows.dtype):
        if not dense:
            whole = rows.astype(np.float64)
        elif not is_small:
            (whole,) = iter_dense_panels(rows, mean if center else 0.0, n_rows)
        side = _ShorterSide(whole, mean if center and (is_small or not dense) else None)
    products = np.float64 if is_small else whole.dtype
    rounding = mean_rounding + product_rounding_bound(n_rows, formed, products)
    axes: FloatArray
    residuals = np.zeros(k)
    if energy <= noise_floor * center:
        values, axes, bounds, floor = np.zeros(0), np.zeros((len(side.columns), 0)), np.full(k + 1, energy), 0.0
    elif is_small:
        values, axes, bounds, floor = side.decompose_gram(k, min(k, n_rows - center), formed)
    else:
        space = find_leading_space(side.times, side.length, k, seed=seed, dtype=side.rows.dtype)
        # The basis is rotated, so that each residual is at most the norm of all.
        bounds, residuals = space.bounds, np.full(k, np.linalg.norm(space.residuals))
        values, axes, floor = side.rotate_basis(space.vectors, formed)
    resolution = np.sqrt(min(1.0, floor / values[0])) if len(values) else 1.0
    # In Fortran order, for products with rows. Fix signs: the first of the largest entries is positive.
    tall = np.zeros((rows.shape[1], len(values)), dtype=rows.dtype)
    high, low = axes.max(axis=0, initial=0.0), axes.min(axis=0, initial=0.0)
    signs = np.where(high > -low, 1.0, -1.0).astype(rows.dtype)
    tied = np.flatnonzero(high == -low)  # argmax takes a tenth of the total time: only for ties
    if len(tied):
        signs[tied] = np.sign(axes[np.abs(axes[:, tied]).argmax(axis=0), tied])
    tall[side.columns] = axes * signs
    variances = values
    if not center and dense:
        variances = sum((np.square(y @ tall).sum(axis=0) for y in iter_dense_panels(rows, mean)), 0.0 * values)
    elif not center:  # over occurring columns only, which are few for hashed text
        variances = values - n_rows * (mean[side.columns] @ axes) ** 2
    scatter_fields = variances, scatter, noise_floor, float(resolution)
    return ExactSVD(tall.T, values, mean, energy, bounds, residuals[: len(values)], rounding, scatter_fields)


class _ShorterSide:
    """Operator ``C = A A'`` or ``A'A``, whichever is smaller, for the (centered) rows A on occurring `columns`."""

    def __init__(self, rows: Rows, mean: Doubles | None) -> None:
        self.rows: Any = rows
        whole: Any = rows
        self.columns, self.diagonal = np.arange(rows.shape[1]), None
        count = None
        if is_sparse(rows):
            count = np.bincount(rows.indices, minlength=rows.shape[1])
            self.columns = np.flatnonzero(count)
            self.rows = rows[:, self.columns]
        self.by_rows, self.length = self.rows.shape[0] <= self.rows.shape[1], min(self.rows.shape)
        self.outer = self.inner = self.rows
        if self.by_rows and count is not None:
            # In hashed text most columns have a single entry, which only affects the diagonal of A A'.
            row_indices = np.repeat(np.arange(rows.shape[0]), np.diff(whole.indptr))
            once = count[whole.indices] == 1
            squares = np.square(whole.data[once], dtype=np.float64)
            self.diagonal = np.bincount(row_indices[once], squares, rows.shape[0]).astype(rows.dtype)
            self.outer = self.rows[:, count[self.columns] > 1]
        self.inner = self.outer.T.tocsr() if is_sparse(rows) else self.outer.T
        if not self.by_rows:
            self.outer, self.inner = self.inner, self.outer
        self.shift = None if mean is None else mean[self.columns]
        self.mean = None if self.shift is None else self.shift.astype(rows.dtype)
        self.projected_total = 0.0 if self.mean is None else self.rows @ self.mean

    def decompose_gram(
        self, k: int, n_wanted: int, uncentered_energy: float
    ) -> tuple[Doubles, Doubles, Doubles, float]:
        """Decompose a short side; return squared singular values, singular vectors (c, r), bounds and floor.

        The bounds (k + 1,) are those of the first values, the floor is the rounding of values. `n_wanted`: largest
        possible rank up to k; `uncentered_energy`: energy of the rows before centering.
        """
        values, vectors = eigh_descending(self._compute_gram(), min(self.length, k + 1))
        centers_product = self.shift is not None and not is_dense(self.rows)
        floor = rounding_floor(np.array([uncentered_energy if centers_product else values[0]]), np.float64)
        floor *= max(1.0, np.sqrt(max(self.rows.shape)) / 16.0)
        rank = int(np.sum(values[:k] > floor))
        squares = bool(n_wanted) and values[n_wanted - 1] > max(floor, GRAM_RESOLUTION * values[0])
        squares |= not is_dense(self.rows) and self.rows.shape[0] * self.rows.shape[1] > MAX_FILLED_ENTRIES
        if not squares:
            sizes, right_vectors = jacobi_svd(self._compute_factor())
            values, vectors = sizes**2, right_vectors.T
            rank, floor = min(k, len(values)), rounding_floor(sizes[:1], np.float64) ** 2
        # Values that are dropped are at most the floor.
        bounds = np.maximum(np.pad(values, (0, k + 1))[: k + 1], floor)
        values, vectors = values[:rank], vectors[:, :rank]
        if not self.by_rows:
            return values, vectors, bounds, floor
        sparsely = squares and not is_dense(self.rows)
        long_vectors = (
            self.lift(vectors) if sparsely else np.concatenate([t.T @ vectors for _, t in self._iter_tiles()])
        )
        # QR from the largest value on, so that errors of small values do not affect large ones.
        return values, np.linalg.qr(long_vectors / np.sqrt(values))[0], bounds, floor

    def _iter_tiles(self) -> Iterator[tuple[slice, FloatArray]]:
        return iter_dense_column_panels(self.rows, 0, self.rows.shape[0], np.float64, self.shift)

    def _compute_gram(self) -> Doubles:
        if not is_dense(self.rows):
            return np.asarray(self.times(np.eye(self.length)))
        if not self.by_rows:
            return compute_gram(self.rows, self.shift)
        return sum((panel @ panel.T for _, panel in self._iter_tiles()), np.zeros((self.length, self.length)))

    def _compute_factor(self) -> Doubles:
        """Return the triangular factor of a QR decomposition of the (centered) rows or their transpose."""
        factor, shift = np.zeros((0, self.length)), 0.0 if self.shift is None else self.shift
        for panel_rows in (
            (panel.T for _, panel in self._iter_tiles()) if self.by_rows else iter_dense_panels(self.rows, shift)
        ):
            factor = triangular_factor(factor, panel_rows)
        return factor

    def rotate_basis(self, basis: FloatArray, uncentered_energy: float) -> tuple[Doubles, FloatArray, float]:
        """Return squared singular values and singular vectors (c, r) in the span of a basis, and their floor."""
        dtype = self.rows.dtype
        # The basis spans the eigenvectors up to rounding. Recompute their values in double precision from its image
        # under the rows, which the axes need anyway.
        long_vectors = self.lift(basis)
        values, rotation = eigh_descending(row_gram(long_vectors.T))
        floor = rounding_floor(values if self.mean is None else np.array([uncentered_energy]), dtype)
        floor *= max(1.0, np.sqrt(self.rows.shape[0]) / 16.0)
        rank = int(np.sum(values > floor))
        values, rotation = values[:rank], rotation[:, :rank]
        factor, scale = (long_vectors, np.sqrt(values)) if self.by_rows else (basis, np.ones(rank))
        axes = factor @ (rotation / scale).astype(dtype)
        if rank and values[0] > GRADED_RATIO * values[-1]:
            axes = orthonormalize_axes(axes.T).T
        return values, axes, floor

    def times(self, Y: FloatArray) -> FloatArray:
        """Return ``C Y`` for a vector or a matrix Y."""
        product = self.outer @ (self.inner @ Y)
        if self.diagonal is not None:
            product += (self.diagonal * Y.T).T
        if self.mean is None:
            return product
        if not self.by_rows:  # A'A - n m m'
            product -= self.rows.shape[0] * np.multiply.outer(self.mean, self.mean @ Y)
            return product
        # (A - 1 m')(A - 1 m')' = A A' - (A m) 1' - 1 (A m)' + (m'm) 1 1'
        total = Y.sum(axis=0)
        product -= np.multiply.outer(self.projected_total, total)
        product += (self.mean @ self.mean) * total - self.projected_total @ Y
        return product

    def lift(self, basis: FloatArray) -> FloatArray:
        """Map a basis of the shorter side to the longer one by the (centered) rows or their transpose."""
        product = (self.rows.T if self.by_rows else self.rows) @ basis
        if self.mean is None:
            return product
        mean_product = np.outer(self.mean, basis.sum(axis=0)) if self.by_rows else self.mean @ basis
        return product - mean_product
