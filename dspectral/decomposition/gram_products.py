"""Products ``A'(A Z)`` with a wide Z: in groups of columns where memory needs it, and from a file into a file."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dspectral import engine
from dspectral.decomposition.moments import GramProduct
from dspectral.decomposition.plan import Plan, chosen_solver, passes_of
from dspectral.linalg.panels import PANEL, panels
from dspectral.linalg.scratch import alike, is_in_file, tall_array
from dspectral.types import CheckedRows, FloatArray, HoldsRows


def reads_of(X: "CheckedRows | HoldsRows", plan: Plan) -> int:
    """Return how often a decomposition reads the rows, at most.

    Shapes: `X` (n, d).
    """
    solver = chosen_solver(plan, X.shape[1])
    if solver not in ("krylov", "nystrom"):
        return passes_of(plan, solver)
    shape = X.shape[1], width_of(plan, solver, X.shape[1])
    return passes_of(plan, solver) * engine.column_groups(X, product_with, shape, plan.dtype)


def product_with(factor: FloatArray) -> Callable[..., GramProduct]:
    """Return the function of a pass that multiplies by a factor.

    Shapes: `factor` (d, r).
    """
    return partial(GramProduct.of, factor=factor)


def width_of(plan: Plan, solver: str, n_columns: int) -> int:
    """Return the number of columns of a product."""
    # Few passes need a wide block to reach as far as many with a narrow one, which holds less.
    return min(n_columns, math.ceil(plan.width_of_space / max(1, passes_of(plan, solver) - 1)))


def random_columns(height: int, width: int, plan: Plan, *, in_file: bool) -> FloatArray:
    """Draw columns of normal random numbers, in single precision whatever the dtype: both precisions start alike.

    Shapes: returns (height, width).
    """
    start, generator = (
        tall_array(height, width, plan.dtype, in_file=in_file),
        np.random.default_rng(plan.seed),
    )
    # Drawn where they stay, or, in another precision, into memory that every panel uses again.
    drawn = None if start.dtype == np.float32 else np.empty((min(PANEL, height), width), dtype=np.float32)
    for panel in panels(height, start):
        room = start[panel] if drawn is None else drawn[: panel.stop - panel.start]
        generator.standard_normal(out=room, dtype=np.float32)
        if drawn is not None:
            start[panel] = room
    return start


def multiplied(
    multiply: Callable[[FloatArray], GramProduct], Z: FloatArray, n_at_once: int
) -> tuple[GramProduct, int]:
    """Multiply a matrix, so many columns at a time.

    Shapes: `Z` (d, r).

    Beside Z and the product a group of each is in memory.
    """
    if n_at_once >= Z.shape[1] and not is_in_file(Z):
        return multiply(Z), 1
    product, starts = alike(Z, Z.shape[1]), range(0, max(1, Z.shape[1]), n_at_once)
    # Each column of a product has its own sums, over the rows in their order: the same bits in whatever group.
    for start in starts:
        group = slice(start, min(start + n_at_once, Z.shape[1]))
        factor = np.empty((len(Z), group.stop - start), dtype=Z.dtype)
        for panel in panels(len(Z), Z):
            factor[panel] = Z[panel, group]
        part = multiply(factor)
        for panel in panels(len(Z), product):
            product[panel, group] = part.product[panel]
    return part._replace(product=product), len(starts)


def take_mean_off(product: FloatArray, mean: NDArray[np.float64], n_rows: int, Z: FloatArray) -> None:
    """Turn ``A'A Z`` into ``(A'A - n mean mean') Z``, in place, by the sum of the rows, which each pass has anyway.

    Shapes: `product` (d, r), `mean` (d,), `Z` (d, r).
    """
    along = n_rows * sum(mean[panel] @ Z[panel] for panel in panels(len(Z), Z))
    for panel in panels(len(Z), product):
        product[panel] -= np.outer(mean[panel], along).astype(product.dtype)
