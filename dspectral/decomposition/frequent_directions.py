"""Frequent Directions: a sketch of a few rows that approximates the Gram matrix of many, with an error bound."""

import math
from typing import Literal, NamedTuple, Self

import numpy as np

from dspectral.decomposition.block_sketches import (
    BlockSketch,
    shrink_gram,
    shrink_stack,
    shrink_values,
    sketch_large_sparse,
)
from dspectral.engine.summary import BlockSize, MemoryEstimate
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
    sum_rows,
)
from dspectral.linalg.dense import eigh_descending, mean_rounding_bound, sum_rounding_bound
from dspectral.registry import register_class
from dspectral.types import CSRRows, Doubles, FloatArray, Rows, is_sparse

EXACT_SIDE = 1024
"""Largest side of a Gram matrix that is decomposed exactly (twice the capacity, if that is more)."""
N_PRODUCTS = (4, 6, 8)
"""Numbers of products to try in turn, until the error satisfies the Frequent Directions bound."""
Shrink = Literal["full", "median"]
WORK_FACTOR = 2.5
"""Working memory of sketching a block relative to the sketch, without the copy of the entries."""
MAX_COPIED_BYTES = 64 << 20
"""Largest number of bytes of entries that a task concatenates by default; it also holds their transpose."""


def sketch_block(rows: Rows, capacity: int, *, mean: Doubles | None = None, seed: int = 0) -> BlockSketch:
    """Sketch one block of rows. Shapes: `rows` (n, d), `mean` (d,).

    >>> sketch_block(np.diag([3.0, 2.0, 1.0]), 2)
    BlockSketch(rows=array([[2.82842712, 0.        , 0.        ],
           [0.        , 1.73205081, 0.        ]]), error=1.000...)
    """
    # If one side is short its Gram matrix is decomposed exactly. Otherwise a dense block is sketched by panels of rows,
    # and a sparse one by Krylov iteration, unless its spectrum is too flat for the deterministic bound.
    n_rows, n_columns = rows.shape
    exact_side = max(EXACT_SIDE, 2 * capacity)
    if n_columns <= exact_side:
        return shrink_gram(compute_gram(rows, mean), capacity, rows.dtype, n_terms=n_rows)
    if not is_sparse(rows) or is_dense(rows):
        return _sketch_by_panels(rows, capacity, exact_side, mean)
    if n_rows <= exact_side:
        return _sketch_few_sparse_rows(rows, capacity, mean)
    for n_steps in N_PRODUCTS:
        block_sketch = sketch_large_sparse(rows, capacity, mean=mean, seed=seed, n_steps=n_steps)
        if _is_within_bound(block_sketch, rows, capacity, mean):
            return block_sketch
    return _sketch_by_panels(rows, capacity, exact_side, mean)


def _is_within_bound(block_sketch: BlockSketch, rows: CSRRows, capacity: int, mean: Doubles | None) -> bool:
    """Return whether ``(capacity + 1) error <= ||A||^2 - ||B||^2``, which the bound of the merge tree requires."""
    energy = float(np.einsum("i,i->", rows.data, rows.data, dtype=np.float64))
    if mean is not None:
        energy -= rows.shape[0] * float(mean @ mean)
    # Squares of small float32 values underflow, so sum in double precision.
    sketch_energy = float(np.einsum("ij,ij->", block_sketch.rows, block_sketch.rows, dtype=np.float64))
    rounding = 64.0 * float(np.finfo(rows.dtype).eps) * energy
    return (capacity + 1) * block_sketch.error <= energy - sketch_energy + (capacity + 1) * rounding


def _sketch_by_panels(rows: Rows, capacity: int, step: int, mean: Doubles | None = None) -> BlockSketch:
    """Sketch a block by panels of `step` rows, each shrunk together with the sketch so far."""
    # Invariant: `sketch` sketches `rows[:start]` with an error of at most `error`. The Gram matrix of a shrink costs
    # `2 (capacity + step)^2 d` flops. The final copy prevents the sketch of an empty block from being a view of it.
    sketch: FloatArray = np.zeros((0, rows.shape[1]), dtype=rows.dtype) if is_sparse(rows) else rows[:0]
    error = 0.0
    for start in range(0, rows.shape[0], step):
        panel = rows[start : start + step]
        if is_sparse(panel) and not is_dense(rows):
            panel_sketch = _sketch_few_sparse_rows(panel, capacity, mean)
        else:  # subtract the mean in double precision
            (centered,) = iter_dense_panels(panel, 0.0 if mean is None else mean, step)
            panel_sketch = BlockSketch(centered.astype(rows.dtype, copy=False), 0.0)
        sketch, lost = shrink_stack([sketch, panel_sketch.rows], capacity)
        error += lost + panel_sketch.error
    return BlockSketch(np.array(sketch), error)


def _sketch_few_sparse_rows(rows: CSRRows, capacity: int, mean: Doubles | None) -> BlockSketch:
    """Sketch a block from the Gram matrix of its rows, centered by rank-one corrections."""
    gram = (rows.astype(np.float64) @ rows.T.astype(np.float64)).toarray()
    if mean is not None:
        # `(A - 1 m')(A - 1 m')' = A A' - (A m) 1' - 1 (A m)' + (m'm) 1 1'`, without the dense centered rows.
        mean_products = rows @ mean
        gram += float(mean @ mean) - mean_products[:, None] - mean_products[None, :]
    values, vectors = eigh_descending(gram)
    shrunk_values, error = shrink_values(values, capacity, rows.dtype)
    weights = (vectors[:, : len(shrunk_values)] * np.sqrt(shrunk_values / values[: len(shrunk_values)])).astype(
        rows.dtype
    )
    sketch = np.ascontiguousarray(sparse_products.transpose_times(rows, weights).T)
    if mean is not None:
        sketch -= np.outer(weights.sum(axis=0), mean).astype(sketch.dtype)
    return BlockSketch(sketch, error)


@register_class({"sketch": "* d", "total": "d"})
class FrequentDirections(NamedTuple):
    """Sketch B of rows A with ``0 <= A'A - B'B <= error`` in the spectral sense.

    Attributes
    ----------
    sketch : ndarray, shape (r, d), r <= size
        Sketch B, in single precision for single-precision rows, else in double.
    size : int
        Maximum number of rows of the sketch, l.
    shrink : {"full", "median"}
        A shrink subtracts the (l+1)-th squared singular value if ``"full"``, and the (l/2)-th if ``"median"``, as in
        figure 1 of Kim et al. 2016, which keeps fewer than l/2 rows.
    n_rows : int
        Number of rows of A.
    total : ndarray of float64, shape (d,)
        Sum of the rows.
    center : bool
        Whether A is the rows minus their mean.
    energy : float
        Squared Frobenius norm of A.
    error : float
        Bound on the spectral norm of ``A'A - B'B``: the sum of the values subtracted by all shrinks. Up to rounding it
        is at most ``||A - A_j||_F^2 / (l - j)`` for every ``j < l`` and any merge tree, with ``l / 2`` in place of
        ``l`` for ``"median"``.

    References
    ----------
    Liberty 2013, "Simple and deterministic matrix sketching"; Ghashami, Liberty, Phillips and Woodruff 2016,
    "Frequent Directions"; Kim, Stratos and Sarikaya 2016, figure 1 and section 3.3 (merging sketches).

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((100, 8))
    >>> whole = FrequentDirections.from_block(rows, size=4)
    >>> parts = FrequentDirections.from_block(rows[:30], size=4).merge(FrequentDirections.from_block(rows[30:], size=4))
    >>> truth = rows.T @ rows
    >>> for summary in (whole, parts):
    ...     error = np.linalg.norm(truth - summary.sketch.T @ summary.sketch, 2)
    ...     assert error <= summary.error <= summary.energy / 4
    """

    sketch: FloatArray
    size: int
    shrink: Shrink
    n_rows: int
    total: Doubles
    center: bool
    energy: float
    error: float

    @classmethod
    def estimate_block_memory(
        cls, block: BlockSize, *, size: int, center: bool | None = False, **_settings: object
    ) -> MemoryEstimate:
        """Return the memory estimate of a block: the sketch, a basis of 1.4 times its size, and the transposed block.

        With few columns it is three Gram matrices instead; dense rows are copied.
        """
        # A block should have at least twice the bytes of its sketch; in smaller ones the basis dominates the work.
        summary = (size * block.itemsize + 8) * block.n_columns
        sketch_bytes = summary if block.n_rows > size else (block.n_rows * block.itemsize + 8) * block.n_columns
        # With few columns the sketch is computed from a Gram matrix, without a basis.
        small = block.n_columns <= max(EXACT_SIDE, 2 * size)
        gram = 24 * block.n_columns**2 if small else 0
        copied_bytes = 0 if small else 2 * summary
        dense = (3 - (center is False)) * block.n_rows * block.n_columns * block.itemsize
        copies = min(copied_bytes, MAX_COPIED_BYTES) if block.is_sparse else dense
        return MemoryEstimate(summary, int(WORK_FACTOR * sketch_bytes) + gram + copies, copied_bytes, is_sketch=True)

    @classmethod
    def from_block(
        cls, rows: Rows, *, size: int, shrink: Shrink = "full", center: bool | None = False, seed: int = 0
    ) -> Self:
        """Sketch one block of shape (n, d); raise ValueError if `size` is too small or an entry is not finite.

        With `center` None the mean is subtracted from blocks with few zeros only.
        """
        center = is_dense(rows) if center is None else center
        if rows.dtype != np.float32:
            rows = rows.astype(np.float64, copy=False)
        n_rows = rows.shape[0]
        energy, n_kept_rows = compute_energy(rows), count_kept_rows(size, shrink)
        mean = mean_row(rows) if center else None
        scatter = energy if mean is None else compute_centered_energy(rows, mean)
        if not (is_in_range(energy, rows.dtype) and is_in_range(scatter, rows.dtype)):
            rows = rows.astype(np.float64)
        if mean is None:
            block_sketch = sketch_block(rows, n_kept_rows, seed=seed)
            return cls(block_sketch.rows, size, shrink, n_rows, sum_rows(rows), center, energy, block_sketch.error)
        # Centering the Gram matrix of sparse rows far from the origin cancels most of it, but not its rounding. Dense
        # rows are centered before the product.
        mean_rounding = mean_rounding_bound(scatter, energy) if is_dense(rows) else sum_rounding_bound(n_rows, energy)
        block_sketch = BlockSketch(np.zeros((0, rows.shape[1]), dtype=rows.dtype), scatter)
        if is_dense(rows) or scatter > mean_rounding:
            block_sketch = sketch_block(rows, n_kept_rows, mean=mean, seed=seed)
        error = block_sketch.error + mean_rounding
        return cls(block_sketch.rows, size, shrink, n_rows, n_rows * mean, center, scatter, error)

    def merge(self, *others: Self) -> Self:
        """Return a sketch of all rows, of the same size.

        Parameters
        ----------
        *others : FrequentDirections
            Sketches of the rows that follow, with the same settings.

        Returns
        -------
        FrequentDirections
            Sketch of all rows.
        """
        # Skip empty blocks, whose mean is undefined.
        summaries = [summary for summary in (self, *others) if summary.n_rows]
        if len(summaries) < 2:
            return summaries[0] if summaries else self
        n_rows = sum(summary.n_rows for summary in summaries)
        total = np.add.reduce([summary.total for summary in summaries])
        dtype = np.result_type(*(summary.sketch.dtype for summary in summaries))
        center = all(summary.center for summary in summaries)
        if not center:
            summaries = [summary.undo_centering() for summary in summaries]
        stack = [summary.sketch.astype(dtype, copy=False) for summary in summaries]
        energy = math.fsum(summary.energy for summary in summaries)
        if center:
            # Scatter about the common mean = scatter about each block mean + n_i (mean_i - mean)(mean_i - mean)'.
            scatter = mean_scatter(summaries)
            energy += float(np.einsum("ij,ij->", scatter, scatter))
            stack.append(scatter.astype(dtype))
        merged_sketch = shrink_stack(stack, count_kept_rows(self.size, self.shrink))
        error = math.fsum(summary.error for summary in summaries) + merged_sketch.error
        if center:
            # Rounding of the scatter to the precision of the sketch, and of the means.
            mean_rounding = mean_rounding_bound(energy, float(total @ total) / n_rows, n_rows)
            mean_rounding += sum_rounding_bound(n_rows, energy)
            error += 8.0 * float(np.finfo(dtype).eps) * energy + mean_rounding
        return type(self)(merged_sketch.rows, self.size, self.shrink, n_rows, total, center, energy, error)

    def undo_centering(self) -> Self:
        """Return the sketch of the uncentered rows, with one row more.

        Returns
        -------
        FrequentDirections
            Sketch with the mean, times the root of the number of rows, as a further row.
        """
        if not self.center:
            return self
        as_row = (self.total / math.sqrt(self.n_rows)).astype(self.sketch.dtype)
        mean_energy = float(self.total @ self.total) / self.n_rows
        rounding = float(np.finfo(self.sketch.dtype).eps) * mean_energy
        return self._replace(
            sketch=np.vstack([self.sketch, as_row]),
            center=False,
            energy=self.energy + mean_energy,
            error=self.error + rounding + mean_rounding_bound(self.energy, mean_energy, self.n_rows),
        )

    @property
    def mean(self) -> Doubles:
        """Mean of the rows, shape (d,)."""
        return self.total / max(1, self.n_rows)

    @property
    def n_bytes(self) -> int:
        """Bytes of a sketch of `size` rows."""
        return int(self.size * self.sketch.shape[1] * self.sketch.itemsize)


def count_kept_rows(size: int, shrink: Shrink) -> int:
    """Return the number of rows that remain after a shrink."""
    min_size = {"full": 1, "median": 4}
    if shrink not in min_size:
        raise ValueError(f"shrink={shrink!r} must be 'full' or 'median'")
    if size < min_size[shrink]:
        raise ValueError(f"size={size} must be at least {min_size[shrink]} for shrink={shrink!r}")
    return size if shrink == "full" else size // 2 - 1
