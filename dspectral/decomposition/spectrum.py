"""Singular values and vectors of out-of-core rows by one of several solvers.

``krylov`` uses :class:`GramProduct` and :class:`KrylovSpace`, ``gram`` uses :class:`Moments`, ``full``
:class:`RowFactor`, the sketches :class:`FrequentDirections` and :class:`NystromSketch`, and ``in_memory`` all rows.
Dense rows are always centered before the product; without centering the mean is added again as a row.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, Self, TypeAlias, get_args
from warnings import warn

import numpy as np
from numpy.typing import DTypeLike

from dspectral import engine
from dspectral.configuration import get_memory_limit
from dspectral.decomposition.frequent_directions import FrequentDirections
from dspectral.decomposition.moments import AllRows, GramProduct, Moments, RowFactor, exact_svd
from dspectral.decomposition.nystrom import (
    N_PROBES,
    NystromSketch,
    add_mean_term,
    draw_probes,
    find_pilot_basis,
    select_pilot_blocks,
)
from dspectral.linalg.block_sums import check_range
from dspectral.linalg.dense import (
    fix_signs,
    graded_eigenpairs,
    jacobi_svd,
    mean_noise_floor,
    mean_rounding_bound,
    orthonormalize_axes,
    principal_axes,
    product_rounding_bound,
    rounding_floor,
    sum_rounding_bound,
)
from dspectral.linalg.krylov import Approximation, KrylovSpace
from dspectral.linalg.panels import (
    PANEL,
    is_in_file,
    iter_panels,
    multiply_from_left,
    tall_array,
    tall_zeros_like,
)
from dspectral.linalg.sparse_products import DENSE_SHARE
from dspectral.parameters import MAX_READS, check_integer, check_option, check_real
from dspectral.registry import register_class
from dspectral.types import CheckedRows, Doubles, FloatArray, HoldsRows, Rows

UpdatableSummary: TypeAlias = FrequentDirections | Moments | NystromSketch | RowFactor
"""Summary to which ``partial_fit`` can add rows."""

Solver = Literal[
    "auto",
    "frequent_directions",
    "median_frequent_directions",
    "gram",
    "full",
    "nystrom",
    "krylov",
    "in_memory",
]
SOLVERS: tuple[str, ...] = get_args(Solver)
GRAM_COLUMNS = 2048
"""Largest number of columns for which ``solver="auto"`` uses the exact Gram matrix (32 MiB)."""
FIXED_PASSES_SHARE = 0.25
"""Share of ``dspectral.in-memory-bytes`` up to which ``"auto"`` replaces a fixed number of Krylov passes.

Some 350 products with one column in one task cost as much as five passes over a store of 30 MB, which use all workers.
"""
OVERSAMPLING = 10
FINEST_RESOLUTION = 1e-12
"""Resolution of solvers that compute no squares."""
MAX_PASSES = 12
"""Default maximum number of passes of a decomposition with a tolerance."""


class SVDOptions(NamedTuple):
    """Options of a decomposition.

    `n_passes`: number of passes of ``"krylov"``; `sketch_size`: rows of the sketch, or total number of columns of all
    products; `center`: whether the mean is subtracted; `dtype`: precision of the singular vectors; `tol`: share of
    energy that may be lost, and `residual_tol`: largest residual of a component relative to its squared singular value;
    for either ``"krylov"`` takes as many passes as necessary, at most `n_passes`.
    """

    n_components: int
    solver: str = "auto"
    n_passes: int = 1
    sketch_size: int | None = None
    center: bool = False
    seed: int = 0
    dtype: DTypeLike = np.float64
    tol: float = 0.0
    residual_tol: float = 0.0

    @property
    def until_converged(self) -> bool:
        """Whether the number of passes depends on a tolerance."""
        return self.tol > 0.0 or self.residual_tol > 0.0

    @property
    def n_sketch_rows(self) -> int:
        """Number of rows of a sketch, by default ``2 k + 10`` for k components."""
        return self.sketch_size or 2 * self.n_components + OVERSAMPLING

    @property
    def n_space_columns(self) -> int:
        """Total number of columns of the products of all passes but the last, by default ``3 k + 10``."""
        return self.sketch_size or 3 * self.n_components + OVERSAMPLING


def select_solver(options: SVDOptions, n_columns: int) -> str:
    """Return the solver of rows that do not fit in memory; ``"auto"`` depends on the number of columns."""
    check_option("solver", options.solver, SOLVERS)
    check_integer("n_passes", options.n_passes, at_least=1, at_most=MAX_READS)
    if options.solver not in ("auto", "full"):
        return options.solver
    if n_columns <= GRAM_COLUMNS:
        return "full" if options.solver == "full" else "gram"
    return "frequent_directions" if options.n_passes == 1 and not options.until_converged else "krylov"


def select_solver_for_rows(X: "CheckedRows | HoldsRows", options: SVDOptions) -> str:
    """Return the solver of rows; ``"auto"`` is ``"in_memory"`` for small rows under every scheduler."""
    solver = select_solver(options, X.shape[1])
    share = FIXED_PASSES_SHARE if solver == "krylov" and not options.until_converged else 1.0
    may_collect = options.solver in ("auto", "full") and solver not in ("gram", "full")
    return "in_memory" if may_collect and engine.is_small(X, share) else solver


def n_solver_passes(options: SVDOptions, solver: str) -> int:
    """Return the maximum number of passes of a solver."""
    return options.n_passes if solver == "krylov" else 1


def check_size(options: SVDOptions, n_columns: int) -> None:
    """Raise ValueError if there are more components than columns or than rows of the sketch."""
    k = check_integer("n_components", options.n_components, at_least=1)
    if k > n_columns:
        raise ValueError(
            f"n_components={k} must be at most {n_columns}, the number of columns of X (n_features = {n_columns})"
        )
    check_real("tol", options.tol, at_least=0.0, at_most=1.0)
    if options.sketch_size is not None and check_integer("sketch_size", options.sketch_size) < k:
        raise ValueError(f"sketch_size={options.sketch_size} must be at least n_components={k}")


def n_block_reads(X: "CheckedRows | HoldsRows", options: SVDOptions) -> int:
    """Return the maximum number of times that a decomposition reads each block."""
    solver = select_solver_for_rows(X, options)
    if solver != "krylov":
        return 1
    shape = X.shape[1], n_product_columns(options, X.shape[1])
    return n_solver_passes(options, solver) * engine.count_column_groups(
        X, product_summarizer, shape, get_product_dtype(X, options)
    )


def get_product_dtype(X: "CheckedRows | HoldsRows", options: SVDOptions) -> DTypeLike:
    """Return the type of products: double for rows with few zeros, whose means may be large."""
    return np.float64 if engine.has_few_zeros(X, DENSE_SHARE) else options.dtype


def product_summarizer(factor: FloatArray, *, with_sums: bool = True) -> Callable[..., GramProduct]:
    """Return the function that summarizes a block by its product with a factor (d, r), with or without its sums."""
    return partial(GramProduct.from_block, factor=factor, center=True, with_sums=with_sums)


def n_product_columns(options: SVDOptions, n_columns: int) -> int:
    """Return the number of columns of a product."""
    # A third of the columns are probes of the certificate.
    if options.tol or (options.residual_tol and options.sketch_size is None):
        return min(n_columns, options.sketch_size or 2 * options.n_components + 3 * OVERSAMPLING)
    # With fewer passes each product needs more columns.
    return min(n_columns, math.ceil(options.n_space_columns / max(1, options.n_passes - 1)))


def draw_random_columns(height: int, width: int, options: SVDOptions, *, in_file: bool) -> FloatArray:
    """Draw normal random numbers in single precision, so that both precisions have the same start."""
    start = tall_array(height, width, options.dtype, in_file=in_file)
    generator = np.random.default_rng(options.seed)
    # Draw in place, or for double precision into a buffer that is reused for every panel.
    drawn = None if start.dtype == np.float32 else np.empty((min(PANEL, height), width), dtype=np.float32)
    for panel in iter_panels(height, start):
        buffer = start[panel] if drawn is None else drawn[: panel.stop - panel.start]
        generator.standard_normal(out=buffer, dtype=np.float32)
        if drawn is not None:
            start[panel] = buffer
    return start


def multiply_by_column_groups(
    summarize: Callable[..., GramProduct], Z: FloatArray, n_at_once: int, *, with_sums: bool
) -> tuple[GramProduct, int]:
    """Return the product with a matrix (d, r), by groups of `n_at_once` columns, and the number of groups."""
    product = tall_zeros_like(Z, Z.shape[1])
    projected_totals = []
    starts = range(0, max(1, Z.shape[1]), n_at_once)
    # Columns are summed separately, so the bits do not depend on the groups.
    for start in starts:
        group = slice(start, min(start + n_at_once, Z.shape[1]))
        factor = np.empty((len(Z), group.stop - start), dtype=Z.dtype)
        for panel in iter_panels(len(Z), Z):
            factor[panel] = Z[panel, group]
        part = summarize(summarize_block=product_summarizer(factor, with_sums=with_sums))
        projected_totals += [] if part.projected_total is None else [part.projected_total]
        for panel in iter_panels(len(Z), product):
            product[panel, group] = part.product[panel]
    return part._replace(
        product=product, projected_total=np.concatenate(projected_totals) if projected_totals else None
    ), len(starts)


def power_of_four_scale(energy: float, dtype: DTypeLike) -> float:
    """Return a power of four that scales Gram products so that their squares stay within the range of `dtype`.

    Scaling is exact. It is 1 unless entries of the rows are as large as 1e10 in single precision.
    """
    max_value = float(np.finfo(np.dtype(dtype)).max)
    if not energy or max_value**-0.3 <= energy <= max_value**0.4:
        return 1.0
    return 4.0 ** -round(math.log(energy, 4.0))


@register_class()
class Certificate(NamedTuple):
    """Bound on the spectral norm of ``A'A - B'B``, for the (centered) rows A and their approximation B.

    B is the sketch, A itself (``"gram"``, ``"full"``), or the projection of A to the Krylov space (``"krylov"``). Each
    squared singular value is at most the true one, up to rounding, and at least the true one minus the bound.

    Attributes
    ----------
    absolute : float
        Bound on the norm; for ``"krylov"`` with a `tol`, only on the error of the squared singular values.
    relative : float
        Bound divided by the squared Frobenius norm of A.
    lost : float
        Bound on the share of energy lost against the best rank k: the energy of A along the best k directions minus
        that along the components, divided by the squared Frobenius norm of A.

    Notes
    -----
    ``"gram"`` and ``"full"`` have certain bounds. The others draw random probes: all bounds of a fit of at most 300,000
    blocks together fail with probability below 2e-6 over the seed, later merges and added rows included.
    """

    absolute: float
    relative: float
    lost: float = 1.0

    @classmethod
    def from_bounds(cls, absolute: float, energy: float, lost: float) -> Self:
        """Return the certificate of rows of the given energy, of which the components lose at most `lost`.

        If rounding leaves no energy although the bounds are not 0, all of it may be lost.
        """
        if energy > 0.0:
            return cls(float(absolute), float(absolute / energy), float(min(1.0, lost / energy)))
        return cls(float(absolute), float(absolute > 0.0), float(lost > 0.0))


def bound_values(values: Doubles, upper: FloatArray | float, rounding: float, k: int) -> Doubles:
    """Return lower and upper bounds of the first k squared singular values, shape (k, 2).

    `values` (r,), `upper` (k,): upper bounds without rounding.
    """
    values = np.pad(values[:k], (0, max(0, k - len(values))))
    return np.column_stack([np.maximum(0.0, values - rounding), np.maximum(values, upper) + rounding])


class Spectrum(NamedTuple):
    """Leading right singular vectors and values of the (centered) rows, with error bounds.

    `axes` (k, d); `values` (k,): squared singular values, each at most the true one; `mean` (d,); `energy`: squared
    Frobenius norm; `solver`: never ``"auto"``; `summary`: summary that ``partial_fit`` extends, after one pass;
    `variances` (k,) and `scatter`: squared norms about the mean, along the axes and in total; `noise_floor`: rounding
    of `scatter`; `resolution`: share of the largest singular value below which others may be rounding; `lost_share`:
    bound on the share of the energy lost, without rounding; `bounds` (n_components, 2): lower and upper bounds of the
    squared singular values; `residuals` (k,): bounds on the norms of ``A'A x - value x``.
    """

    axes: FloatArray
    values: Doubles
    n_rows: int
    mean: Doubles
    energy: float
    certificate: Certificate
    solver: str
    n_passes: int
    summary: UpdatableSummary | None
    variances: Doubles
    scatter: float
    noise_floor: float
    resolution: float
    lost_share: float
    bounds: Doubles
    residuals: Doubles


def spectrum(
    X: "CheckedRows | HoldsRows", options: SVDOptions, *, is_last: bool = True, warns: bool = True
) -> Spectrum:
    """Decompose rows (n, d); missing directions are zero, with a warning if `warns`."""
    check_size(options, X.shape[1])
    solver = select_solver_for_rows(X, options)
    n_reads = n_block_reads(X, options)
    if is_last:
        engine.expect_passes(n_reads)
    if solver == "in_memory":
        finish = ("decompose", partial(in_memory_spectrum, options=options))
        answer: Any = engine.summarize(X, summarize_block=AllRows.from_block, name="read", finish=finish)
        return pad_components(answer, options, warns=warns)
    products = options._replace(dtype=get_product_dtype(X, options))
    if solver == "krylov":
        summarize = partial(engine.summarize, X, name="product")
        result = krylov_spectrum(summarize, X.shape[1], products, n_reads // options.n_passes)
        result = result._replace(axes=result.axes.astype(options.dtype, copy=False))
    elif solver == "nystrom":
        basis = pilot_basis(X, products)
        to_products = nystrom_summarizer(basis, options.seed)
        sketch = engine.summarize(X, summarize_block=to_products, name="sketch")
        result = nystrom_spectrum(sketch._replace(basis=basis), options)
    else:
        summary = engine.summarize(X, summarize_block=block_summarizer(options, solver), name="sketch")
        result = spectrum_from_summary(summary, options)
    return pad_components(result, options, warns=warns)


def pilot_basis(X: "CheckedRows | HoldsRows", options: SVDOptions) -> FloatArray:
    """Return an orthonormal basis (d, l) for the products of ``"nystrom"``, from rows of a few blocks."""
    width = min(X.shape[1], options.n_space_columns)
    empty = np.broadcast_to(np.zeros((), dtype=options.dtype), (X.shape[1], width))  # a view without memory
    if engine.is_dry_run():
        return empty
    engine.check_pass_memory(X, nystrom_summarizer(empty, options.seed, is_estimate=True), "sketch")
    sizes = (X.shape[0],) if not engine.is_lazy(X) else engine.as_dask_rows(X).chunks[0]
    blocks, step = select_pilot_blocks(sizes, options.seed)
    with engine.count_as_pass(is_pass=False):
        summarize_block = partial(AllRows.from_block, step=step)
        rows = engine.summarize(X, summarize_block=summarize_block, name="pilot", blocks=blocks).rows
    return find_pilot_basis(rows, width, center=options.center, seed=options.seed, dtype=options.dtype)


def nystrom_summarizer(basis: FloatArray, seed: int, *, is_estimate: bool = False) -> Callable[..., NystromSketch]:
    """Return the function that summarizes a block by its products with a basis (d, l) and random probes."""
    empty = np.broadcast_to(np.zeros(()), (len(basis), N_PROBES))
    probes = empty if is_estimate or engine.is_dry_run() else draw_probes(len(basis), seed)
    return partial(NystromSketch.from_block, basis=basis, probes=probes, seed=seed)


def pad_components(result: Spectrum, options: SVDOptions, *, warns: bool = True) -> Spectrum:
    """Return the spectrum padded with zeros to `n_components`, with a warning if `warns`; check its squares."""
    check_range(result.scatter + result.n_rows * float(result.mean @ result.mean), np.float64)
    missing = options.n_components - len(result.values)
    if missing <= 0:
        return result
    if warns:
        advice = "" if result.resolution < FINEST_RESOLUTION else ", or use solver='full' for smaller singular values"
        warn(
            f"n_components is {options.n_components}, but the numerical rank of the {result.n_rows} row(s) is "
            f"{len(result.values)} (solver {result.solver!r} resolves singular values above {result.resolution:.0e} of "
            f"the largest): the other components are zero; reduce n_components{advice}",
            UserWarning,
            stacklevel=3,
        )
    # Zero components keep the output width, so that pipelines still work.
    axes = np.zeros((missing, result.axes.shape[1]), dtype=result.axes.dtype)
    values, variances, residuals = (
        np.pad(x, (0, missing)) for x in (result.values, result.variances, result.residuals)
    )
    axes = np.concatenate([result.axes, axes])
    return result._replace(axes=axes, values=values, variances=variances, residuals=residuals)


def block_summarizer(
    options: SVDOptions, solver: str, *, centers_dense: bool = True
) -> Callable[..., UpdatableSummary]:
    """Return the function that summarizes a block for a one-pass solver.

    Each block with few zeros is centered, also for uncentered results, because its mean may be large.
    """
    if solver == "full":
        return RowFactor.from_block
    if solver == "gram":  # moments of sparse rows are centered after summing
        return partial(Moments.from_block, center=centers_dense)
    return partial(
        FrequentDirections.from_block,
        size=options.n_sketch_rows,
        shrink="median" if solver == "median_frequent_directions" else "full",
        center=options.center or (None if centers_dense else False),
        seed=options.seed,
    )


def spectrum_from_summary(summary: UpdatableSummary, options: SVDOptions) -> Spectrum:
    """Return the spectrum from the summary of all rows."""
    if isinstance(summary, NystromSketch):
        return nystrom_spectrum(summary, options)
    n_rows, k = summary.n_rows, options.n_components
    mean = summary.total / max(1, n_rows)
    mean_energy, is_centered = n_rows * float(mean @ mean), summary.center
    # One pass: sum of (x - mean) (x - mean)' = sum of x x' - n mean mean'.
    added = int(is_centered) - int(options.center)
    energy = max(0.0, summary.energy + added * mean_energy)
    scatter = summary.energy if is_centered else max(0.0, summary.energy - mean_energy)
    noise_floor = mean_noise_floor(n_rows, mean_energy) if is_centered else sum_rounding_bound(n_rows, summary.energy)
    as_row = math.sqrt(n_rows) * mean[None, :]
    # The certificate assumes that all sums round to the same side, also those of uncentered rows.
    formed = max(energy, summary.energy)
    error = product_rounding_bound(n_rows, formed, np.float64) + mean_rounding_bound(scatter, mean_energy) * is_centered
    # Random rounding of sums of n products, relative to the largest value.
    share = rounding_floor(np.ones(1), np.float64) * max(1.0, math.sqrt(n_rows) / 16.0)
    centering_rounding = share * summary.energy * (added < 0)
    axes: FloatArray
    if isinstance(summary, Moments):
        gram = summary.gram + added * n_rows * np.outer(mean, mean) if added else summary.gram
        diagonal_rounding = share * summary.gram.diagonal() if centering_rounding else np.zeros(len(gram))
        values, vectors = graded_eigenpairs(gram, k, share, centering_rounding, diagonal_rounding)
        axes, solver, resolution = np.ascontiguousarray(vectors.T), "gram", math.sqrt(share)
        squared_norms = np.einsum("ij,ij->i", axes @ summary.gram, axes)
    elif isinstance(summary, RowFactor):
        rows = np.concatenate([summary.factor, as_row]) if added else summary.factor
        singular_values, axes = jacobi_svd(rows)
        values, axes, solver, resolution = singular_values[:k] ** 2, axes[:k], "full", share
        squared_norms = np.square(summary.factor @ axes.T).sum(axis=0)
    else:
        axes, singular_values = principal_axes(
            np.concatenate([summary.sketch, as_row]) if added > 0 else summary.sketch, k
        )
        values, error = singular_values**2, summary.error + error * (added > 0)
        solver = "frequent_directions" if summary.shrink == "full" else "median_frequent_directions"
        resolution = math.sqrt(rounding_floor(np.ones(1), summary.sketch.dtype))
        squared_norms = np.square(summary.sketch @ axes.T).sum(axis=0) if added > 0 else values
    if centering_rounding and len(values):
        resolution = max(resolution, math.sqrt(min(1.0, centering_rounding / values[0])))
    variances = values if options.center else squared_norms if is_centered else values - n_rows * (axes @ mean) ** 2
    axes = fix_signs(axes.astype(options.dtype, copy=False))
    certificate = Certificate.from_bounds(error, energy, k * error)
    lost_share = k * summary.error / energy if isinstance(summary, FrequentDirections) and energy else 0.0
    statistics = variances, scatter, noise_floor, resolution, lost_share
    dropped = values[:1].sum() * resolution**2 * (np.arange(k) >= len(values))
    bounds = bound_values(values, dropped, error, k)
    residuals = np.full(len(values), error)
    return Spectrum(axes, values, n_rows, mean, energy, certificate, solver, 1, summary, *statistics, bounds, residuals)


def in_memory_spectrum(summary: AllRows, options: SVDOptions) -> Spectrum:
    """Decompose rows in memory; with one pass also return a sketch that can be extended."""
    rows, n_rows, k = summary.rows, summary.n_rows, options.n_components
    typed_rows: Rows = rows.astype(options.dtype, copy=False)  # type: ignore[assignment]
    svd = exact_svd(typed_rows, k, center=options.center, seed=options.seed)
    axes, values, rounding, sketch_summary = svd.axes, svd.values, svd.rounding, None
    if options.n_passes == 1:
        sketch = np.sqrt(values).astype(options.dtype)[:, None] * axes
        size = options.n_sketch_rows
        total = n_rows * svd.mean
        rounding_of_sketch = rounding + rounding_floor(values, options.dtype)
        residual_bound = svd.bounds[-1] + 2.0 * svd.residuals.max(initial=0.0) + rounding_of_sketch
        sketch_summary = FrequentDirections(
            sketch, size, "full", n_rows, total, options.center, svd.energy, residual_bound
        )
    bounds = bound_values(values, np.pad(svd.bounds, (0, k))[:k], rounding, k)
    # Values are recomputed from the components, so only the upper bounds have the rounding of products.
    lost = float(np.sum(bounds[:, 1])) - math.fsum(values)
    certificate = Certificate.from_bounds(float(svd.bounds[-1]) + rounding, svd.energy, lost)
    answer = axes, values, n_rows, svd.mean, svd.energy, certificate
    fields, residuals = svd.variance_fields, svd.residuals + rounding_floor(values, options.dtype)
    return Spectrum(*answer, "in_memory", 1, sketch_summary, *fields, 0.0, bounds, residuals)


def krylov_spectrum(
    summarize: Callable[..., GramProduct], n_columns: int, options: SVDOptions, n_groups: int = 1
) -> Spectrum:
    """Decompose ``A'A``, given as a function that summarizes all rows by ``summarize_block=`` in one pass.

    With w columns of a product, p products and k components the space takes ``d (p w + k)`` numbers: in memory up to
    ``dspectral.memory-limit`` (1 GiB), else in temporary files, with the same bits. Musco and Musco 2015, "Randomized
    block Krylov methods for stronger and faster approximate singular value decomposition", algorithm 2.
    """
    n_passes, width = options.n_passes, n_product_columns(options, n_columns)
    k = options.n_components
    basis_bytes = n_columns * (n_passes * width + options.n_components) * np.dtype(options.dtype).itemsize
    start = draw_random_columns(n_columns, width, options, in_file=basis_bytes > get_memory_limit())
    space, n_done, n_reads, scale = KrylovSpace.start(start), 0, 0, 1.0
    del start
    n_at_once, with_sums, total, total_energy = math.ceil(width / n_groups), True, np.zeros(0), 0.0
    # Invariant: `space` spans Z, C Z, ..., C^(n_done) Z for C = A'A, centered by a rank-one correction if `center`. The
    # last product needs no orthogonalization, but with a tolerance the last one is not known in advance.
    while True:
        Z, n_more = space.newest, 1
        if n_at_once >= Z.shape[1] and not is_in_file(Z):
            gram_product = summarize(summarize_block=product_summarizer(Z, with_sums=with_sums))
        else:
            gram_product, n_more = multiply_by_column_groups(summarize, Z, n_at_once, with_sums=with_sums)
        n_done, n_reads, product = n_done + 1, n_reads + n_more, gram_product.product
        if with_sums:  # once, unless rows are out of the range of the factor, which their energy shows
            total, total_energy, with_sums = gram_product.total, gram_product.energy, product.dtype != Z.dtype
        gram_product = gram_product._replace(product=product[:0], total=total, energy=total_energy)
        energy = gram_product.get_energy(center=options.center)
        if n_done == 1:
            check_range(energy, np.float64)
            scale = power_of_four_scale(max(energy, gram_product.energy), options.dtype)
        product = scale_product(product, gram_product, Z, scale, options)
        is_last = n_done == n_passes or not Z.shape[1]
        if is_last and not options.until_converged:
            best = space.close(product, k, -(-width // 3))
            break
        space = space.extend(product)
        if options.until_converged and (is_last or has_converged(space, gram_product, n_done, scale, options)):
            best = space.approximate(k, -(-width // 3))
            break

    def get_axes(k: int) -> FloatArray:
        return best.rows(1.0 / np.sqrt(best.values[:k]), release_parts=True)

    bounds = certify_space(gram_product, best, scale, options)
    floor = best.floor / scale
    residuals = best.outside_norms * (energy if best.bounds is None else best.bounds.outside / scale) + floor
    return spectrum_from_products(
        get_axes, best.values / scale, floor, gram_product, options, *bounds, residuals, "krylov", n_reads
    )


def scale_product(
    product: FloatArray, gram_product: GramProduct, Z: FloatArray, scale: float, options: SVDOptions
) -> FloatArray:
    """Return the product (d, r) with Z, centered or not as `options` require, times the scale, in their type."""
    if added := int(gram_product.projected_total is not None) - int(options.center):
        add_mean_term(product, gram_product.mean, added * gram_product.n_rows, Z)
    if scale != 1.0:
        product *= product.dtype.type(scale)
    return product.astype(options.dtype, copy=False)


def has_converged(
    space: KrylovSpace, gram_product: GramProduct, n_done: int, scale: float, options: SVDOptions
) -> bool:
    """Return whether little energy is lost or, every third pass of the second half, k residuals are small."""
    k, n_passes = options.n_components, options.n_passes
    if not space.newest.shape[1]:
        return True
    if options.tol:
        best = space.approximate(k, -(-n_product_columns(options, len(space.newest)) // 3))
        return certify_space(gram_product, best, scale, options)[2] <= options.tol
    if 2 * n_done < n_passes or (n_passes - n_done) % 3:
        return False
    values, residuals = space.ritz_values(k)
    return len(values) == k and bool(np.all(residuals <= options.residual_tol * values))


def certify_space(
    gram_product: GramProduct, best: Approximation, scale: float, options: SVDOptions
) -> tuple[Certificate, Doubles, float]:
    """Return the certificate of an approximation, bounds of the values and the share lost without rounding.

    The bounds of an approximation, times `scale`, require normal start columns. The trace of the residual is another
    one for any start, because the residual is positive semidefinite.
    """
    k, values, energy = options.n_components, best.values / scale, gram_product.get_energy(center=options.center)
    rounding = product_rounding_bound(gram_product.n_rows, max(energy, gram_product.energy), options.dtype)
    mean_rounding = float(best.roundings[:k].max(initial=0.0)) / scale
    if gram_product.projected_total is not None:
        mean_rounding += mean_rounding_bound(gram_product.energy, gram_product.mean_energy)
    # Values whose rounding exceeds them are left out of the bound.
    trace = max(0.0, energy - math.fsum(values))
    residuals = np.maximum(0.0, energy - np.cumsum(values)) + rounding * best.rounding_factors
    error = max_lost = residuals.min(initial=energy + rounding) + mean_rounding
    rounding = rounding * best.rounding_factors[:k].max(initial=1.0) + mean_rounding
    padded = np.pad(values[:k], (0, max(0, k - len(values))))
    upper = padded + trace
    if best.bounds is not None:
        upper = np.minimum(upper, np.pad(best.bounds.eigenvalues, (0, k))[:k] / scale)
    upper = np.maximum(upper, padded)
    excess = upper - padded
    if best.bounds is not None:
        error = min(error, (excess.max() if options.until_converged else best.bounds.outside / scale) + rounding)
    max_lost = min(max_lost, excess.sum() + k * rounding)
    certificate = Certificate.from_bounds(error, energy, max_lost)
    lost_share = min(trace, float(excess.sum())) / (energy or 1.0)
    return certificate, bound_values(values, upper, rounding, k), lost_share


def nystrom_spectrum(sketch: NystromSketch, options: SVDOptions) -> Spectrum:
    """Return the spectrum from products with a basis and with random probes, which bound its error."""
    gram_product, k, dtype = sketch.products, options.n_components, sketch.products.product.dtype
    mean_energy, added = gram_product.mean_energy, int(sketch.center) - int(options.center)
    energy = gram_product.get_energy(center=options.center)
    formed = gram_product.energy + max(0, added) * mean_energy
    check_range(energy, np.float64)
    scale = power_of_four_scale(formed, dtype)
    best = sketch.multiply(scale).approximate(k, added * gram_product.n_rows * scale)
    values, bounds = best.values / scale, best.bounds / scale
    # Products with probes and the error that they show are computed in double precision; the trace of the error is not.
    sum_rounding = mean_rounding_bound(gram_product.energy, mean_energy) * sketch.center
    exact = best.amplification * (product_rounding_bound(gram_product.n_rows, formed, np.float64) + sum_rounding)
    rounding = product_rounding_bound(gram_product.n_rows, formed, dtype) + sum_rounding
    residual_energy = max(0.0, energy - math.fsum(values))
    error = min(residual_energy + rounding, bounds[0] + exact)
    max_lost = min(residual_energy, bounds.sum() + k * exact) + rounding
    certificate = Certificate.from_bounds(error, energy, max_lost)
    lost_share = min(residual_energy, float(bounds.sum())) / (energy or 1.0)
    intervals = bound_values(values, np.pad(values[:k], (0, max(0, k - len(values)))) + error, rounding, k)
    result = spectrum_from_products(
        best.get_axes,
        values,
        best.floor / scale,
        gram_product,
        options._replace(dtype=dtype),
        certificate,
        intervals,
        lost_share,
        np.full(len(values), error),
        "nystrom",
        1,
    )
    return result._replace(axes=result.axes.astype(options.dtype, copy=False), summary=sketch)


def spectrum_from_products(
    get_axes: Callable[[int], FloatArray],
    values: Doubles,
    floor: float,
    gram_product: GramProduct,
    options: SVDOptions,
    certificate: Certificate,
    bounds: Doubles,
    lost_share: float,
    residuals: Doubles,
    solver: str,
    n_reads: int,
) -> Spectrum:
    """Return the spectrum from a product of all rows; `get_axes` returns the first k singular vectors (k, d).

    Values up to `floor` may be dropped as rounding.
    """
    n_rows, is_centered = gram_product.n_rows, gram_product.projected_total is not None
    mean, mean_energy = gram_product.mean, gram_product.mean_energy
    energy = gram_product.get_energy(center=options.center)
    # Centering a product after summing may leave only rounding.
    is_centered_after_sum = options.center and not is_centered
    rounding = rounding_floor(np.array([gram_product.energy]) if is_centered_after_sum else values[:1], options.dtype)
    k = min(options.n_components, int(np.sum(values > rounding)))
    axes, values = orthonormalize_axes(get_axes(k)), values[:k]
    scatter = energy if options.center else gram_product.energy if is_centered else max(0.0, energy - mean_energy)
    variances = values if options.center else values - n_rows * multiply_from_left(mean, axes.T) ** 2
    noise_floor = (
        mean_noise_floor(n_rows, mean_energy) if is_centered else sum_rounding_bound(n_rows, gram_product.energy)
    )
    if is_centered and not options.center and noise_floor < scatter <= rounding_floor(values, np.float64):
        warn(
            f"explained_variance_ is smaller than the rounding of the squared singular values, up to {values[0]:.2g}, "
            f"because the mean is far from 0: use PCA, or solver='full' or 'gram' (solver is {solver!r})",
            UserWarning,
            stacklevel=6,
        )
    floor = max(rounding, floor * (k < options.n_components))
    resolution = math.sqrt(min(1.0, floor / values[0])) if k else 1.0
    bounds[:, 1] = np.maximum(bounds[:, 1], floor)
    statistics = variances, scatter, noise_floor, resolution, lost_share, bounds, residuals[:k]
    return Spectrum(axes, values, n_rows, mean, energy, certificate, solver, n_reads, None, *statistics)
