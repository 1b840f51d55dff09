"""The decomposition that an estimator asks for, and its checks."""

from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import DTypeLike

from dspectral.inputs.parameters import check_integer, check_option

Solver = Literal["auto", "frequent_directions", "median_frequent_directions", "gram", "nystrom", "krylov"]
SOLVERS: tuple[str, ...] = get_args(Solver)
GRAM_COLUMNS = 2048
"""Columns up to which ``solver="auto"`` takes the exact Gram matrix (32 MiB)."""
OVERSAMPLING = 10


class Plan(NamedTuple):
    """The decomposition that an estimator asks for.

    Attributes
    ----------
    n_components : int
        Number of singular vectors.
    solver : str, default="auto"
        One of :data:`SOLVERS`; see :class:`~dspectral.SketchedPCA`.
    n_passes : int, default=1
        Number of times that ``"krylov"`` reads the rows.
    sketch_size : int, optional
        Rows of the sketch, or columns of all products together; by default :attr:`rows_of_sketch` and
        :attr:`width_of_space` choose.
    center : bool, default=False
        Whether the column means are subtracted.
    seed : int, default=0
        Seed of the random starts.
    dtype : dtype, default=float64
        Precision of the singular vectors, float32 or float64.
    """

    n_components: int
    solver: str = "auto"
    n_passes: int = 1
    sketch_size: int | None = None
    center: bool = False
    seed: int = 0
    dtype: DTypeLike = np.float64

    @property
    def rows_of_sketch(self) -> int:
        """Number of rows of a sketch, by default ``2 k + 10`` for k components."""
        return self.sketch_size or 2 * self.n_components + OVERSAMPLING

    @property
    def width_of_space(self) -> int:
        """Number of columns of the products of all passes but the last together, by default ``3 k + 10``.

        Where a spectrum is flat beyond k components, ``2 k`` leaves an excess of 0.3 %, and
        ``3 k`` 0.005 %, for a tenth more work.
        """
        return self.sketch_size or 3 * self.n_components + OVERSAMPLING


def chosen_solver(plan: Plan, n_columns: int) -> str:
    """Return the solver that a plan means; ``"auto"`` depends on the number of columns."""
    check_option("solver", plan.solver, SOLVERS)
    check_integer("n_passes", plan.n_passes, at_least=1)
    if plan.solver != "auto":
        return plan.solver
    if n_columns <= GRAM_COLUMNS:
        return "gram"
    return "frequent_directions" if plan.n_passes == 1 else "krylov"


def passes_of(plan: Plan, solver: str) -> int:
    """Return how often a solver reads the rows, at most.

    >>> passes_of(Plan(2, n_passes=4), "krylov"), passes_of(Plan(2, n_passes=4), "gram")
    (4, 1)
    """
    return plan.n_passes if solver == "krylov" else 1


def check_size(plan: Plan, n_columns: int) -> None:
    """Refuse more components than columns or than rows of the sketch."""
    k = check_integer("n_components", plan.n_components, at_least=1)
    if k > n_columns:
        raise ValueError(
            f"n_components is {k}, but X has only {n_columns} column(s): n_features = {n_columns}"
        )
    if plan.sketch_size is not None and check_integer("sketch_size", plan.sketch_size) < k:
        raise ValueError(f"sketch_size is {plan.sketch_size}, below n_components = {k}")
