"""The spectrum of out-of-core rows: a recipe for each solver, all ending in the same few numbers.

``krylov`` and ``nystrom`` are here, over :class:`GramProduct` and :class:`KrylovSpace`; ``gram`` over :class:`Moments`,
``full`` over :class:`RowFactor`, the sketches over :class:`FrequentDirections`, and ``in_memory`` over all rows. The
mean is taken off dense rows before they are multiplied, also where it is not asked for, and then comes back as a row.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, Self, TypeAlias, get_args
from warnings import warn

import numpy as np
from numpy.typing import DTypeLike

from dspectral import engine
from dspectral.configuration import get_memory_limit
from dspectral.decomposition.frequent_directions import FrequentDirections
from dspectral.decomposition.moments import AllRows, GramProduct, Moments, RowFactor, exact_svd
from dspectral.html import card, number, share
from dspectral.inputs.parameters import MAX_READS, check_integer, check_option, check_real
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
from dspectral.linalg.krylov import KrylovSpace
from dspectral.linalg.panels import (
    PANEL,
    is_in_file,
    iter_panels,
    multiply_from_left,
    tall_array,
    tall_zeros_like,
)
from dspectral.linalg.sparse_products import DENSE_SHARE
from dspectral.registry import register_class
from dspectral.types import CheckedRows, Doubles, FloatArray, HoldsRows, Rows

UpdatableSummary: TypeAlias = FrequentDirections | Moments | RowFactor
"""What more rows can be added to."""

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
"""Columns up to which ``solver="auto"`` takes the exact Gram matrix (32 MiB)."""
OVERSAMPLING = 10
FINEST_RESOLUTION = 1e-12
"""Resolution of solvers that form no squares, or a finer one."""
MAX_PASSES = 12
"""Passes that a decomposition to a tolerance takes at most, unless it is told."""


class SVDOptions(NamedTuple):
    """The decomposition that an estimator asks for.

    `n_passes`: how often ``"krylov"`` reads the rows; `sketch_size`: rows of the sketch, or columns of all products
    together; `center`: whether the means are subtracted; `dtype`: precision of the singular vectors; `tol`: share of
    energy lost up to which ``"krylov"`` reads on, each product with the columns of a sketch, at most `n_passes` times.
    """

    n_components: int
    solver: str = "auto"
    n_passes: int = 1
    sketch_size: int | None = None
    center: bool = False
    seed: int = 0
    dtype: DTypeLike = np.float64
    tol: float = 0.0

    @property
    def n_sketch_rows(self) -> int:
        """Number of rows of a sketch, by default ``2 k + 10`` for k components."""
        return self.sketch_size or 2 * self.n_components + OVERSAMPLING

    @property
    def n_space_columns(self) -> int:
        """Number of columns of the products of all passes but the last together, by default ``3 k + 10``.

        Where a spectrum is flat beyond k components, ``2 k`` leaves an excess of 0.3 %, and
        ``3 k`` 0.005 %, for a tenth more work.
        """
        return self.sketch_size or 3 * self.n_components + OVERSAMPLING


def select_solver(plan: SVDOptions, n_columns: int) -> str:
    """Return the solver for rows that are not small; ``"auto"`` depends on the number of columns."""
    check_option("solver", plan.solver, SOLVERS)
    check_integer("n_passes", plan.n_passes, at_least=1, at_most=MAX_READS)
    if plan.solver not in ("auto", "full"):
        return plan.solver
    if n_columns <= GRAM_COLUMNS:
        return "full" if plan.solver == "full" else "gram"
    return "frequent_directions" if plan.n_passes == 1 and not plan.tol else "krylov"


def select_solver_for_rows(X: "CheckedRows | HoldsRows", plan: SVDOptions) -> str:
    """Return the solver of rows: where they are small ``"auto"`` works in memory, whoever computes."""
    solver = select_solver(plan, X.shape[1])
    is_small = plan.solver in ("auto", "full") and solver not in ("gram", "full") and engine.is_small(X)
    return "in_memory" if is_small else solver


def n_solver_passes(plan: SVDOptions, solver: str) -> int:
    """Return how often a solver reads the rows, at most."""
    return plan.n_passes if solver == "krylov" else 1


def check_size(plan: SVDOptions, n_columns: int) -> None:
    """Refuse more components than columns or than rows of the sketch."""
    k = check_integer("n_components", plan.n_components, at_least=1)
    if k > n_columns:
        raise ValueError(
            f"n_components is {k}, but X has only {n_columns} column(s): n_features = {n_columns}"
        )
    check_real("tol", plan.tol, at_least=0.0, at_most=1.0)
    if plan.sketch_size is not None and check_integer("sketch_size", plan.sketch_size) < k:
        raise ValueError(f"sketch_size is {plan.sketch_size}, below n_components = {k}")


def n_block_reads(X: "CheckedRows | HoldsRows", plan: SVDOptions) -> int:
    """Return how often a decomposition reads the rows, at most."""
    solver = select_solver_for_rows(X, plan)
    if solver not in ("krylov", "nystrom"):
        return n_solver_passes(plan, solver)
    shape = X.shape[1], n_product_columns(plan, solver, X.shape[1])
    return n_solver_passes(plan, solver) * engine.count_column_groups(
        X, product_summarizer, shape, product_dtype(X, plan)
    )


def product_dtype(X: "CheckedRows | HoldsRows", plan: SVDOptions) -> DTypeLike:
    """Return the type that products are formed in: rows without many zeros may have large means, and take doubles."""
    return np.float64 if engine.has_few_zeros(X, DENSE_SHARE) else plan.dtype


def product_summarizer(factor: FloatArray) -> Callable[..., GramProduct]:
    """Return the function of a pass that multiplies by a factor of shape (d, r)."""
    return partial(GramProduct.from_block, factor=factor, center=True)


def n_product_columns(plan: SVDOptions, solver: str, n_columns: int) -> int:
    """Return the number of columns of a product."""
    if plan.tol and solver == "krylov":  # a third of them are probes of the certificate
        return min(n_columns, plan.sketch_size or 2 * plan.n_components + 3 * OVERSAMPLING)
    # Few passes need a wide block to reach as far as many with a narrow one, which holds less.
    return min(n_columns, math.ceil(plan.n_space_columns / max(1, n_solver_passes(plan, solver) - 1)))


def draw_random_columns(height: int, width: int, plan: SVDOptions, *, in_file: bool) -> FloatArray:
    """Draw normal random numbers, in single precision whatever the dtype: both precisions start alike."""
    start = tall_array(height, width, plan.dtype, in_file=in_file)
    generator = np.random.default_rng(plan.seed)
    # Drawn where they stay, or, in another precision, into memory that every panel uses again.
    drawn = None if start.dtype == np.float32 else np.empty((min(PANEL, height), width), dtype=np.float32)
    for panel in iter_panels(height, start):
        room = start[panel] if drawn is None else drawn[: panel.stop - panel.start]
        generator.standard_normal(out=room, dtype=np.float32)
        if drawn is not None:
            start[panel] = room
    return start


def multiply_by_column_groups(
    multiply: Callable[[FloatArray], GramProduct], Z: FloatArray, n_at_once: int
) -> tuple[GramProduct, int]:
    """Multiply a matrix of shape (d, r), so many columns at a time, and return also how many products it took."""
    if n_at_once >= Z.shape[1] and not is_in_file(Z):
        return multiply(Z), 1
    product, along, starts = tall_zeros_like(Z, Z.shape[1]), [], range(0, max(1, Z.shape[1]), n_at_once)
    # Each column of a product has its own sums, over the rows in their order: the same bits in whatever group.
    for start in starts:
        group = slice(start, min(start + n_at_once, Z.shape[1]))
        factor = np.empty((len(Z), group.stop - start), dtype=Z.dtype)
        for panel in iter_panels(len(Z), Z):
            factor[panel] = Z[panel, group]
        part = multiply(factor)
        along += [] if part.projected_total is None else [part.projected_total]
        for panel in iter_panels(len(Z), product):
            product[panel, group] = part.product[panel]
    return part._replace(product=product, projected_total=np.concatenate(along) if along else None), len(
        starts
    )


def power_of_four_scale(energy: float, dtype: DTypeLike) -> float:
    """Return a power of four by which products of rows times their transpose can be multiplied with each other.

    Their own products, squares of the rows' squares, leave the range of float32 for entries beyond 1e10. Ordinary
    rows have 1, and lose no bit.
    """
    most = float(np.finfo(np.dtype(dtype)).max)
    if not energy or most**-0.3 <= energy <= most**0.4:
        return 1.0
    return 4.0 ** -round(math.log(energy, 4.0))


def add_mean_term(product: FloatArray, mean: Doubles, n_rows: int, Z: FloatArray) -> None:
    """Turn ``C Z`` into ``(C + n mean mean') Z``, in place; for n below 0 it is taken off.

    Shapes: `product` (d, r), `mean` (d,), `Z` (d, r).
    """
    along = n_rows * multiply_from_left(mean, Z)
    for panel in iter_panels(len(Z), product):
        product[panel] += np.outer(mean[panel], along).astype(product.dtype)


@register_class
class Certificate(NamedTuple):
    """A bound on the spectral norm of ``A'A - B'B``, for A the (centered) rows and B their approximation.

    B is the sketch, the Gram matrix itself, or (``"krylov"``, ``"nystrom"``) all that the Krylov space holds: the
    bound is then the energy outside it. Each squared singular value is from below, and within the bound.

    Attributes
    ----------
    absolute : float
        Bound on the norm; where ``"krylov"`` reads to a `tol`, on the error of the squared singular values alone.
    relative : float
        Bound divided by the squared Frobenius norm of A.
    lost : float
        Bound on the share of energy lost against the best rank k: what the best k directions hold of the squared
        Frobenius norm of A, less what the components hold. Certain, but with ``"krylov"`` and a `tol`, where it fails
        with a probability below 1e-6, over the seed.
    """

    absolute: float
    relative: float
    lost: float = 1.0

    @classmethod
    def from_bounds(cls, absolute: float, energy: float, lost: float) -> Self:
        """Return the bounds on rows of some energy, of which the components may lose so much."""
        shares = (absolute / energy, min(1.0, lost / energy)) if energy else (0.0, 0.0)
        return cls(*map(float, (absolute, *shares)))

    def _repr_html_(self) -> str:
        facts = [
            ("squared singular values", f"at most {number(self.absolute)} below the truth"),
            ("of the energy", share(self.relative, 1.0)),
            ("energy lost against the best rank", f"at most {share(self.lost, 1.0)}"),
        ]
        return card("Certificate", facts)


class Spectrum(NamedTuple):
    """Leading right singular vectors of the (centered) rows, and how they were found.

    `axes` (k, d); `values` (k,): squared singular values, each at most the true one; `mean` (d,); `energy`: squared
    Frobenius norm; `solver`: never ``"auto"``; `summary`: summary that ``partial_fit`` extends, after one pass;
    `variances` (k,) and `scatter`: squared norms about the mean, along the axes and in total; `noise_floor`: rounding
    of `scatter`; `resolution`: share of the largest singular value below which others may be rounding; `lost_share`:
    bound on the share of the energy lost, without rounding.
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


def spectrum(X: "CheckedRows | HoldsRows", plan: SVDOptions, *, is_last: bool = True) -> Spectrum:
    """Decompose rows; directions that they do not have are zero, after a warning. Shapes: `X` (n, d)."""
    check_size(plan, X.shape[1])
    solver = select_solver_for_rows(X, plan)
    n_reads = n_block_reads(X, plan)
    if is_last:
        engine.expect_passes(n_reads)
    if solver == "in_memory":
        return pad_components(
            in_memory_spectrum(engine.summarize(X, of=AllRows.from_block, name="read").rows, plan), plan
        )
    if solver in ("krylov", "nystrom"):

        def multiply(Z: FloatArray) -> GramProduct:
            return engine.summarize(X, of=product_summarizer(Z), name="product")

        n_groups = n_reads // n_solver_passes(plan, solver)
        products = plan._replace(dtype=product_dtype(X, plan))
        found = krylov_spectrum(multiply, X.shape[1], products, solver, n_groups)
        found = found._replace(axes=found.axes.astype(plan.dtype, copy=False))
    else:
        of = block_summarizer(plan, solver, center=True if engine.has_few_zeros(X, DENSE_SHARE) else None)
        found = spectrum_from_summary(engine.summarize(X, of=of, name="sketch"), plan)
    return pad_components(found, plan)


def pad_components(found: Spectrum, plan: SVDOptions) -> Spectrum:
    """Return a spectrum with as many components as asked for, the last of them zero if need be."""
    missing = plan.n_components - len(found.values)
    if missing <= 0:
        return found
    finer = "" if found.resolution < FINEST_RESOLUTION else "; solver 'full' tells shorter ones from rounding"
    warn(
        f"n_components is {plan.n_components}, but the {found.n_rows} row(s) have only {len(found.values)} independent "
        f"direction(s) longer than {found.resolution:.0e} of the longest, as far as solver {found.solver!r} sees: the "
        f"other components are zero{finer}",
        UserWarning,
        stacklevel=3,
    )
    # Zero rows project everything to zero: pipelines of a fixed width go on working.
    axes = np.zeros((missing, found.axes.shape[1]), dtype=found.axes.dtype)
    values, variances = np.pad(found.values, (0, missing)), np.pad(found.variances, (0, missing))
    return found._replace(axes=np.concatenate([found.axes, axes]), values=values, variances=variances)


def block_summarizer(
    plan: SVDOptions, solver: str, *, center: bool | None = None
) -> Callable[..., UpdatableSummary]:
    """Return the function that summarizes a block, about its mean or not, for a solver of one pass."""
    center = (
        plan.center and solver != "gram" if center is None else center
    )  # of sparse rows it is taken off the sums
    if solver == "full":
        return RowFactor.from_block
    if solver == "gram":
        return partial(Moments.from_block, center=center)
    return partial(
        FrequentDirections.from_block,
        size=plan.n_sketch_rows,
        shrink="median" if solver == "median_frequent_directions" else "full",
        center=center,
        seed=plan.seed,
    )


def spectrum_from_summary(summary: UpdatableSummary, plan: SVDOptions) -> Spectrum:
    """Solve for the spectrum, given the summary of all rows."""
    n_rows, k = summary.n_rows, plan.n_components
    mean = summary.total / max(1, n_rows)
    of_mean, early = n_rows * float(mean @ mean), summary.center
    # Sum of (x - mean) (x - mean)' = sum of x x' - n mean mean': one pass, whatever the mean turns out to be.
    added = int(early) - int(plan.center)
    energy = max(0.0, summary.energy + added * of_mean)
    scatter = summary.energy if early else max(0.0, summary.energy - of_mean)
    noise_floor = mean_noise_floor(n_rows, of_mean) if early else sum_rounding_bound(n_rows, summary.energy)
    as_row = math.sqrt(n_rows) * mean[None, :]
    # The certificate holds also where all sums are rounded to one side; means are taken off large sums.
    formed = max(energy, summary.energy)
    error = product_rounding_bound(n_rows, formed, np.float64) + mean_rounding_bound(scatter, of_mean) * early
    # What sums of n products, rounded to either side, leave of a direction that is not there.
    share = rounding_floor(np.ones(1), np.float64) * max(1.0, math.sqrt(n_rows) / 16.0)
    late = share * summary.energy * (added < 0)
    axes: FloatArray
    if isinstance(summary, Moments):
        gram = summary.gram + added * n_rows * np.outer(mean, mean) if added else summary.gram
        dust = share * summary.gram.diagonal() if late else np.zeros(len(gram))
        values, vectors = graded_eigenpairs(gram, k, share, late, dust)
        axes, solver, resolution = np.ascontiguousarray(vectors.T), "gram", math.sqrt(share)
        along = np.einsum("ij,ij->i", axes @ summary.gram, axes)
    elif isinstance(summary, RowFactor):
        rows = np.concatenate([summary.factor, as_row]) if added else summary.factor
        singular_values, axes = jacobi_svd(rows)
        values, axes, solver, resolution = singular_values[:k] ** 2, axes[:k], "full", share
        along = np.square(summary.factor @ axes.T).sum(axis=0)
    else:
        axes, singular_values = principal_axes(
            np.concatenate([summary.sketch, as_row]) if added > 0 else summary.sketch, k
        )
        values, error = singular_values**2, summary.error + error * (added > 0)
        solver = "frequent_directions" if summary.shrink == "full" else "median_frequent_directions"
        resolution = math.sqrt(rounding_floor(np.ones(1), summary.sketch.dtype))
        along = np.square(summary.sketch @ axes.T).sum(axis=0) if added > 0 else values
    if late and len(values):
        resolution = max(resolution, math.sqrt(min(1.0, late / values[0])))
    variances = values if plan.center else along if early else values - n_rows * (axes @ mean) ** 2
    axes = fix_signs(axes.astype(plan.dtype, copy=False))
    certificate = Certificate.from_bounds(error, energy, k * error)
    lost_share = k * summary.error / energy if isinstance(summary, FrequentDirections) and energy else 0.0
    about = variances, scatter, noise_floor, resolution, lost_share
    return Spectrum(axes, values, n_rows, mean, energy, certificate, solver, 1, summary, *about)


def in_memory_spectrum(rows: Rows, plan: SVDOptions) -> Spectrum:
    """Decompose rows that are all here; what was found can grow if one pass was asked for."""
    n_rows, k = rows.shape[0], plan.n_components
    same: Rows = rows.astype(plan.dtype, copy=False)  # type: ignore[assignment]
    found = exact_svd(same, k, center=plan.center, seed=plan.seed)
    axes, values, rounding, summary = found.axes, found.values, found.rounding, None
    if plan.n_passes == 1:
        sketch = np.sqrt(values).astype(plan.dtype)[:, None] * axes
        size, total, left = (
            plan.n_sketch_rows,
            n_rows * found.mean,
            found.left + rounding_floor(values, plan.dtype),
        )
        summary = FrequentDirections(sketch, size, "full", n_rows, total, plan.center, found.energy, left)
    certificate = Certificate.from_bounds(found.left, found.energy, k * rounding)
    answer = axes, values, n_rows, found.mean, found.energy, certificate
    return Spectrum(*answer, "in_memory", 1, summary, *found.about, 0.0)


def krylov_spectrum(
    multiply: Callable[[FloatArray], GramProduct],
    n_columns: int,
    plan: SVDOptions,
    solver: str,
    n_groups: int = 1,
) -> Spectrum:
    """Decompose the matrix ``A'A`` that a function multiplies by, in one pass for each product, or group of columns.

    With w columns of a product, p products and k components, ``d (p w + k)`` numbers: in memory up to
    ``dspectral.memory-limit`` (1 GiB), else in temporary files, of which a panel at a time is in memory for most of
    the work, and one or two products for some. The same bits either way. Musco and Musco 2015, "Randomized block
    Krylov methods for stronger and faster approximate singular value decomposition", algorithm 2.
    """
    n_passes, width = n_solver_passes(plan, solver), n_product_columns(plan, solver, n_columns)
    k, to_tol = plan.n_components, solver == "krylov" and plan.tol > 0.0
    held = n_columns * (n_passes * width + plan.n_components) * np.dtype(plan.dtype).itemsize
    start = draw_random_columns(n_columns, width, plan, in_file=held > get_memory_limit())
    space, n_done, n_reads, scale = KrylovSpace.start(start), 0, 0, 1.0
    del start
    # Invariant: `space` spans Z, C Z, ..., C^(n_done) Z for C = A'A, centered by a rank-one correction where asked.
    # The last product is not orthogonalized: it only closes the approximation. With a tolerance nobody knows yet which
    # is the last.
    while True:
        part, n_more = multiply_by_column_groups(multiply, space.newest, math.ceil(width / n_groups))
        n_done, n_reads = n_done + 1, n_reads + n_more
        mean = part.total / max(1, part.n_rows)
        product, of_mean = part.product, part.n_rows * float(mean @ mean)
        part = part._replace(product=product[:0])
        added = int(part.projected_total is not None) - int(plan.center)
        if added:
            add_mean_term(product, mean, added * part.n_rows, space.newest)
        energy = max(0.0, part.energy + added * of_mean)
        if n_done == 1:
            check_range(energy, np.float64)
            scale = power_of_four_scale(max(energy, part.energy), plan.dtype)
        if scale != 1.0:
            product *= product.dtype.type(scale)
        product = product.astype(plan.dtype, copy=False)
        is_last = n_done == n_passes or space.newest.shape[1] == 0
        if to_tol or not is_last:
            space = space.extend(product, graded=to_tol)
        if to_tol or is_last:
            best, most = (
                space.approximation_and_bounds(k, -(-width // 3)) if to_tol else (space.close(product), None)
            )
            values = best.values / scale
            formed = max(energy, part.energy) * best.rounding_factor
            rounding = product_rounding_bound(part.n_rows, formed, plan.dtype)
            rounding += mean_rounding_bound(part.energy, of_mean) * (part.projected_total is not None)
            # What is left is positive semidefinite, so its trace bounds its norm.
            lost_share = max(0.0, energy - math.fsum(values))
            left = lost_share + rounding
            certificate = Certificate.from_bounds(left, energy, left)
            if most is not None:
                short = most / scale - np.pad(values, (0, k))[: len(most)] + rounding
                certificate = Certificate.from_bounds(min(left, short.max()), energy, min(left, short.sum()))
                lost_share = min(lost_share, float(short.sum()) - len(short) * rounding)
            if is_last or lost_share <= plan.tol * energy or space.newest.shape[1] == 0:
                break
    # Of means that were taken off large products only rounding may be left.
    late = added < 0
    floor = rounding_floor(np.array([part.energy if late else values[0]]), plan.dtype) if len(values) else 0.0
    k = min(k, int(np.sum(values > floor)))
    axes, n_rows = orthonormalize_axes(best.rows(1.0 / np.sqrt(best.values[:k]), consume=True)), part.n_rows
    values, early = values[:k], part.projected_total is not None
    scatter = energy if plan.center else part.energy if early else max(0.0, energy - of_mean)
    variances = values if plan.center else values - n_rows * (axes @ mean) ** 2
    noise_floor = mean_noise_floor(n_rows, of_mean) if early else sum_rounding_bound(n_rows, part.energy)
    about = (
        variances,
        scatter,
        noise_floor,
        math.sqrt(floor / values[0]) if k else 1.0,
        lost_share / (energy or 1.0),
    )
    return Spectrum(axes, values, n_rows, mean, energy, certificate, solver, n_reads, None, *about)
