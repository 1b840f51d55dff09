"""The spectrum of out-of-core rows: one recipe for each solver, all ending in the same few numbers."""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from dspectral import engine
from dspectral.decomposition.frequent_directions import FrequentDirections
from dspectral.decomposition.gram_products import (
    multiplied,
    product_with,
    random_columns,
    reads_of,
    take_mean_off,
    width_of,
)
from dspectral.decomposition.moments import GramProduct, Moments
from dspectral.decomposition.plan import Plan, check_size, chosen_solver, passes_of
from dspectral.html import card, number, share
from dspectral.linalg.dense import eigh_descending, fixed_signs, rounding_floor, rounding_of_sums
from dspectral.linalg.krylov import KrylovSpace
from dspectral.linalg.svd import orthonormal_axes, principal_axes
from dspectral.registry import saved
from dspectral.types import CheckedRows, FloatArray, HoldsRows


@saved
class Certificate(NamedTuple):
    """A bound on the spectral norm of ``A'A - B'B``, for A the (centered) rows and B their approximation.

    B is the sketch, the Gram matrix itself, or (``"krylov"``, ``"nystrom"``) all that the Krylov space holds: the
    bound is then the energy outside it. Each squared singular value is from below, and within the bound.

    Attributes
    ----------
    absolute : float
        Bound on the norm.
    relative : float
        Bound divided by the squared Frobenius norm of A.
    """

    absolute: float
    relative: float

    def _repr_html_(self) -> str:
        facts = [
            ("squared singular values", f"at most {number(self.absolute)} below the truth"),
            ("of the energy", share(self.relative, 1.0)),
        ]
        return card("Certificate", facts)


class Spectrum(NamedTuple):
    """Leading right singular vectors of the (centered) rows, and how they were found.

    Attributes
    ----------
    axes : ndarray, shape (k, d)
        Orthonormal rows; rows of zeros where the data has fewer directions.
    values : ndarray of float64, shape (k,)
        Squared singular values from below: each is at most the true one.
    n_rows : int
        Number of rows that were read.
    mean : ndarray of float64, shape (d,)
        Mean of the rows.
    energy : float
        Squared Frobenius norm of the (centered) rows.
    certificate : Certificate
        Bound on the error.
    solver : str
        Solver that was used, never ``"auto"``.
    n_passes : int
        Number of times that each block was read.
    summary : FrequentDirections, Moments or None
        Summary to which more rows can be added; None after solvers of several passes.
    """

    axes: FloatArray
    values: NDArray[np.float64]
    n_rows: int
    mean: NDArray[np.float64]
    energy: float
    certificate: Certificate
    solver: str
    n_passes: int
    summary: FrequentDirections | Moments | None


def spectrum(X: "CheckedRows | HoldsRows", plan: Plan) -> Spectrum:
    """Decompose rows of any kind that :func:`dspectral.engine.summarize` takes.

    Parameters
    ----------
    X : ndarray, SciPy sparse, Dask array or store, shape (n, d)
        Rows.
    plan : Plan
        Decomposition that is asked for.

    Returns
    -------
    Spectrum
        With as many axes as asked for: zeros, after a warning, where the rows have fewer directions.

    Raises
    ------
    ValueError
        If the plan asks for more components than columns, or the rows hold NaN or infinity.
    """
    check_size(plan, X.shape[1])
    solver = chosen_solver(plan, X.shape[1])
    n_reads = reads_of(X, plan)
    engine.expect_passes(n_reads)
    if solver in ("krylov", "nystrom"):
        found = _by_krylov(X, plan, solver, n_reads // passes_of(plan, solver))
    else:
        found = of_summary(engine.summarize(X, of=summary_of(plan, solver), name="sketch"), plan)
    return pad_components(found, plan)


def pad_components(found: Spectrum, plan: Plan) -> Spectrum:
    """Return a spectrum with as many components as asked for, the last of them zero if need be."""
    missing = plan.n_components - len(found.values)
    if missing <= 0:
        return found
    warn(
        f"n_components is {plan.n_components}, but the {found.n_rows} row(s) have only {len(found.values)} "
        "independent direction(s) above rounding: the other components are zero",
        UserWarning,
        stacklevel=3,
    )
    # Zero rows project everything to zero: pipelines of a fixed width go on working.
    axes = np.zeros((missing, found.axes.shape[1]), dtype=found.axes.dtype)
    return found._replace(axes=np.concatenate([found.axes, axes]), values=np.pad(found.values, (0, missing)))


def summary_of(plan: Plan, solver: str) -> Callable[..., FrequentDirections | Moments]:
    """Return the function that summarizes a block for a solver of one pass."""
    if solver == "gram":
        return Moments.of
    return partial(
        FrequentDirections.of,
        size=plan.rows_of_sketch,
        shrink="median" if solver == "median_frequent_directions" else "full",
        center=plan.center,
        seed=plan.seed,
    )


def of_summary(summary: FrequentDirections | Moments, plan: Plan) -> Spectrum:
    """Solve for the spectrum, given the summary of all rows."""
    mean = summary.total / max(1, summary.n_rows)
    if isinstance(summary, FrequentDirections):
        axes, singular_values = principal_axes(summary.sketch, plan.n_components)
        values, energy, error = singular_values**2, summary.energy, summary.error
        solver = "frequent_directions" if summary.shrink == "full" else "median_frequent_directions"
    else:
        # Sum of (x - mean) (x - mean)' = sum of x x' - n mean mean': one pass, whatever the mean turns out to be.
        gram = summary.gram - summary.n_rows * np.outer(mean, mean) if plan.center else summary.gram
        values, vectors = eigh_descending(gram)
        # What sums of n products, rounded to either side, leave of a direction that is not there.
        noise = rounding_floor(values, np.float64) * max(1.0, math.sqrt(summary.n_rows) / 16.0)
        # The certificate holds also where all of them are rounded to one side; means are taken off large sums.
        error = rounding_floor(values, np.float64) + rounding_of_sums(summary.n_rows, summary.energy)
        energy, solver = max(0.0, float(np.trace(gram))), "gram"
        k = min(plan.n_components, int(np.sum(values > noise)))
        axes, values = fixed_signs(np.ascontiguousarray(vectors[:, :k].T, dtype=plan.dtype)), values[:k]
    certificate = Certificate(error, error / energy if energy else 0.0)
    return Spectrum(axes, values, summary.n_rows, mean, energy, certificate, solver, 1, summary)


def _by_krylov(X: "CheckedRows | HoldsRows", plan: Plan, solver: str, n_groups: int) -> Spectrum:
    def multiply(Z: FloatArray) -> GramProduct:
        return engine.summarize(X, of=product_with(Z), name="product")

    return krylov_spectrum(multiply, engine.lazy_rows(X).shape[1], plan, solver, n_groups)


def krylov_spectrum(
    multiply: Callable[[FloatArray], GramProduct], n_columns: int, plan: Plan, solver: str, n_groups: int = 1
) -> Spectrum:
    """Decompose the matrix ``A'A`` that a function multiplies by, in one pass for each product, or group of columns.

    With w columns of a product, p products and k components, ``d (p w + k)`` numbers: in memory up to
    ``dspectral.memory-limit`` (1 GiB), else in temporary files, of which a panel at a time is in memory for most of the
    work, and one or two products for some. The same bits either way.

    Musco and Musco 2015, "Randomized block Krylov methods for stronger and faster approximate singular value
    decomposition", algorithm 2.
    """
    n_passes, width = passes_of(plan, solver), width_of(plan, solver, n_columns)
    held = n_columns * (n_passes * width + plan.n_components) * np.dtype(plan.dtype).itemsize
    start = random_columns(n_columns, width, plan, in_file=held > engine.memory_limit())
    space, n_done, n_reads = KrylovSpace.start(start), 0, 0
    del start
    # Invariant: `space` spans Z, C Z, ..., C^(n_done) Z for C = A'A, centered by a rank-one correction where asked.
    # The last product is not orthogonalized: it only closes the approximation.
    while True:
        part, n_more = multiplied(multiply, space.newest, math.ceil(width / n_groups))
        n_done, n_reads = n_done + 1, n_reads + n_more
        mean = part.total / max(1, part.n_rows)
        product = part.product
        part = part._replace(product=product[:0])
        if plan.center:
            take_mean_off(product, mean, part.n_rows, space.newest)
        if n_done == n_passes or space.newest.shape[1] == 0:
            break
        space = space.extend(product)
    best = space.close(product)
    energy = part.energy - part.n_rows * float(mean @ mean) * plan.center
    k = min(plan.n_components, len(best.values))
    axes = orthonormal_axes(best.rows(1.0 / np.sqrt(best.values[:k])))
    # What is left is positive semidefinite, so its trace bounds its norm.
    left = max(0.0, energy - math.fsum(best.values)) + rounding_floor(best.values, plan.dtype)
    left += rounding_of_sums(part.n_rows, part.energy)
    certificate = Certificate(left, left / energy if energy else 0.0)
    return Spectrum(axes, best.values[:k], part.n_rows, mean, energy, certificate, solver, n_reads, None)
