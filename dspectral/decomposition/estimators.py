"""The estimators ``SketchedPCA`` (centered) and ``TruncatedSVD`` (not centered)."""

import warnings
from functools import partial
from typing import Any, Self
from warnings import warn

import numpy as np
from numpy.typing import DTypeLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted

from dspectral import engine
from dspectral.decomposition.spectrum import (
    MOST_PASSES,
    Plan,
    Solver,
    Spectrum,
    chosen_solver,
    of_summary,
    pad_components,
    spectrum,
    summary_of,
)
from dspectral.inputs.fitted_facts import FittedFactsMixin
from dspectral.inputs.parameters import RandomState, check_flag, resolve_seed
from dspectral.inputs.rows import LazyOutputMixin, checked_rows, project, row_dtype, rows_of_frame
from dspectral.inputs.top_terms import TopTermsMixin
from dspectral.registry import saved
from dspectral.types import CheckedRows, FloatArray, RowsLike

_GROWING = ("auto", "in_memory", "frequent_directions", "median_frequent_directions", "gram")
"""Solvers that may take one pass; what ``"auto"`` means is known only when the data is."""


def _can_grow(estimator: "Decomposition") -> bool:
    return estimator.solver in _GROWING


class Decomposition(
    FittedFactsMixin,
    TopTermsMixin,
    LazyOutputMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
):
    """Base class of :class:`~dspectral.SketchedPCA` and :class:`~dspectral.TruncatedSVD`: all but the parameters."""

    n_components: float
    center: bool
    solver: Solver
    n_passes: int | None
    sketch_size: int | None
    tol: float
    random_state: RandomState
    _ddof: int
    _n_passes: int

    def _plan(self, dtype: DTypeLike) -> Plan:
        default = MOST_PASSES if self.tol else self._n_passes
        return Plan(
            self.n_components,  # type: ignore[arg-type]
            solver=self.solver,
            n_passes=default if self.n_passes is None else self.n_passes,
            sketch_size=self.sketch_size,
            center=check_flag("center", self.center),
            seed=self.random_state_,
            dtype=row_dtype(dtype),
            tol=self.tol,
        )

    @engine.emits_events
    def fit(self, X: RowsLike, y: object = None) -> Self:
        """Find the components.

        Parameters
        ----------
        X : ndarray, SciPy sparse, DataFrame, Dask array of dense or CSR blocks, or store, shape (n_rows, n_columns)
            Rows of real numbers. Float32 is decomposed in single precision, all else in double. A Dask DataFrame is
            read once more to count its rows, unless ``X.to_dask_array(lengths=[...])`` says them.
        y : None
            Ignored; it is there because scikit-learn's pipelines pass it.

        Returns
        -------
        self
            Fitted estimator.

        Raises
        ------
        ValueError
            If X holds NaN or infinity (the place is named) or has too few columns, or a parameter is out of range.

        Warns
        -----
        UserWarning
            If X has fewer than ``n_components`` independent directions: the other components are zero.
        ConvergenceWarning
            If more than ``tol`` of the energy may be lost.
        """
        X = checked_rows(self, X, reset=True)
        self.random_state_ = resolve_seed(self.random_state)
        plan = self._plan(X.dtype)
        if isinstance(self.n_components, float) and 0 < self.n_components < 1:
            self._set_share(X, plan, self.n_components)
        else:
            self._set(spectrum(X, plan))
        if 0 < self.tol < self.certificate_.lost:
            warn(
                f"tol is {self.tol}, but up to {self.certificate_.lost:.2g} of the energy may be lost after "
                f"{self.n_passes_} pass(es) of solver {self.solver_!r}",
                ConvergenceWarning,
                stacklevel=4,
            )
        return self

    def _set_share(self, X: CheckedRows, plan: Plan, share: float) -> None:
        """Find as few components as explain a share of the variance: 32, then twice as many, until they do."""
        most, n_passes = min(X.shape), 0
        k = most if chosen_solver(plan, X.shape[1]) == "gram" else min(32, most)
        while True:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "n_components is", UserWarning)
                found = spectrum(X, plan._replace(n_components=k), is_last=k == most)
            self._set(found)
            n_passes += found.n_passes
            reached = np.cumsum(self.explained_variance_ratio_)
            if k == most or reached[-1] > share:
                break
            k = min(2 * k, most)
        # Where rounding leaves even all of them below the share, those that are directions.
        n = min(int(np.searchsorted(reached, share, side="right")) + 1, max(1, int(np.sum(found.values > 0))))
        self._set(found._replace(axes=found.axes[:n], values=found.values[:n], n_passes=n_passes))

    @available_if(_can_grow)
    @engine.emits_events
    def partial_fit(self, X: RowsLike, y: object = None) -> Self:
        """Add rows to a fitted sketch: only the new ones are read.

        Parameters
        ----------
        X : as for ``fit``, shape (n_rows, n_columns)
            More rows, as many columns as the first ones.
        y : None
            Ignored.

        Returns
        -------
        self
            Fitted estimator.

        Raises
        ------
        ValueError
            If X has another number of columns, or the fitted solver takes more than one pass.
        """
        if not hasattr(self, "components_"):
            return self.fit(X)
        X = checked_rows(self, X, reset=False)
        if self.summary_ is None:
            raise ValueError(
                f"solver {self.solver_!r} reads all rows {self.n_passes_} time(s) and leaves nothing that can "
                "grow: fit with solver='frequent_directions' or 'gram' to add rows later"
            )
        plan = self._plan(self.components_.dtype)._replace(n_components=len(self.components_))
        # Only the new rows are read; the old ones are in the summary.
        engine.expect_passes(1)
        more: Any = engine.summarize(X, of=summary_of(plan, self.solver_), name="sketch")
        self._set(pad_components(of_summary(self.summary_.merge(more), plan), plan))
        return self

    def transform(self, X: RowsLike, *, out: str | None = None) -> Any:
        """Project rows onto the components.

        Parameters
        ----------
        X : as for ``fit``, shape (n_rows, n_columns)
            Rows, as many columns as in ``fit``.
        out : str, optional
            Where to write them, as :func:`dspectral.write_coordinates` does.

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n_rows, n_components)
            Projections; with ``set_output`` a DataFrame for input in memory; with ``out`` Coordinates.
        """
        check_is_fitted(self)
        X = checked_rows(self, X, reset=False)
        # (x - mean) V' = x V' - mean V': sparse rows stay sparse.
        offset = self.mean_ @ self.components_.T if self.center else None
        to_axes = partial(project, axes=np.ascontiguousarray(self.components_.T), offset=offset)
        Z = engine.map_rows(
            X, to_axes, n_columns=len(self.components_), dtype=self.components_.dtype, name="project"
        )
        if out is None:
            return Z
        from dspectral.store.coordinates import write_rows  # noqa: PLC0415  brings Zarr, which a fit in memory needs not

        return write_rows(Z, out)

    def inverse_transform(self, X: RowsLike) -> Any:
        """Return the rows in the space of the components that have given projections.

        Parameters
        ----------
        X : array-like or Dask array, shape (n_rows, n_components)
            Projections as ``transform`` returns them.

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n_rows, n_columns)
            Nearest rows in the span of the components.
        """
        check_is_fitted(self)
        X = rows_of_frame(X)
        X = engine.lazy_rows(X) if engine.is_lazy(X) else check_array(X, dtype=[np.float64, np.float32])
        if X.shape[1] != len(self.components_):
            raise ValueError(f"X has {X.shape[1]} columns, but there are {len(self.components_)} components")
        back = partial(_restore, axes=self.components_, mean=self.mean_ if self.center else None)
        if not engine.is_lazy(X):
            return back(X)
        dtype = np.result_type(X.dtype, self.components_.dtype, *([self.mean_.dtype] if self.center else []))
        return engine.map_rows(X, back, n_columns=self.components_.shape[1], dtype=dtype, name="restore")

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _set(self, found: Spectrum) -> None:
        self.components_ = found.axes
        self.singular_values_ = np.sqrt(found.values)
        self.n_samples_seen_ = found.n_rows
        self.energy_ = found.energy
        self.mean_ = found.mean
        self.certificate_ = found.certificate
        self.solver_ = found.solver
        self.n_passes_ = found.n_passes
        self.summary_ = found.summary
        # Of squared singular values about the origin, n (v' mean)^2 is what the mean puts along a component v, and
        # n |mean|^2 what it puts into the energy.
        variances = found.values.copy()
        total = found.energy
        if not self.center:  # the spectrum is about the origin, a variance about the mean
            variances -= found.n_rows * (found.axes @ found.mean) ** 2
            total -= found.n_rows * float(found.mean @ found.mean)
        self.explained_variance_ = np.maximum(variances, 0.0) / max(1, found.n_rows - self._ddof)
        # A total below the rounding of the energy is zero: all rows are equal, and no direction explains anything.
        varies = total > 1e-14 * max(1, found.n_rows) * found.energy
        self.explained_variance_ratio_ = np.maximum(variances, 0.0) / total if varies else variances * 0.0


def _restore(X: FloatArray, *, axes: FloatArray, mean: FloatArray | None) -> FloatArray:
    """Return one block of projections in the space of the rows."""
    rows = X @ axes
    return np.asarray(rows if mean is None else rows + mean)


@saved
class SketchedPCA(Decomposition):
    """Principal component analysis of rows that do not fit in memory, in one pass, with a bound on the error.

    Parameters
    ----------
    n_components : int or float, default=2
        Number of components, k: at most the number of columns; or, above 0 and below 1, the share of the variance that
        they explain together: 32 are looked for, then twice as many, until they do.
    center : bool, default=True
        Whether the column means are subtracted: by rank-one corrections, never by making rows dense.
    solver : str, default="auto"
        - ``"frequent_directions"``: one pass, a sketch of ``sketch_size`` rows, deterministic guarantee;
        - ``"median_frequent_directions"``: the same with the shrink schedule of the paper's figure 1, which keeps
          half as many rows: for comparisons with the paper;
        - ``"gram"``: one pass, exact, ``8 d^2`` bytes a task for d columns;
        - ``"nystrom"``: one pass, one random product; poor on the flat spectra of text;
        - ``"krylov"``: ``n_passes`` passes, close to exact from the third on;
        - ``"in_memory"``: one pass, exact up to rounding, for rows that fit in memory;
        - ``"auto"``: ``"gram"`` up to 2,048 columns, else ``"in_memory"`` where the stored entries take at most
          ``dspectral.in-memory-bytes`` (128 MiB; unknown of lazy sparse rows that are no store's), else
          ``"frequent_directions"`` for one pass and ``"krylov"`` for more.
    n_passes : int, optional
        Number of times that ``"krylov"`` reads the rows, by default 1, and with a ``tol`` 12 at most. Each pass but
        the last multiplies by ``sketch_size / (n_passes - 1)`` columns. Other solvers take one pass.
    sketch_size : int, optional
        Rows of the sketch, at least k; by default ``2 k + 10``. For ``"krylov"`` the columns of all products
        together, by default ``3 k + 10``.
    tol : float, default=0.0
        Share of the energy that may be lost against the best rank k: ``"krylov"`` reads, with products of
        ``sketch_size`` columns, by default ``2 k + 30``, until ``certificate_.lost`` is at most this, or ``n_passes``
        times, after which a warning says what was reached. 0 asks for nothing.
    random_state : int, RandomState, Generator or None, default=0
        Seed. The same integer and the same blocks give the same bits under every scheduler.

    Attributes
    ----------
    components_ : ndarray, shape (n_components, n_columns)
        Orthonormal rows; the entry largest in magnitude of each is positive. Rows of zeros where the data has fewer
        directions.
    singular_values_ : ndarray of float64, shape (n_components,)
        Singular values of the centered rows, from below.
    explained_variance_, explained_variance_ratio_ : ndarray of float64, shape (n_components,)
        Variance along each component, and its share of the total variance.
    mean_ : ndarray of float64, shape (n_columns,)
        Mean of the rows.
    certificate_ : Certificate
        ``absolute`` bounds the spectral norm of ``A'A - B'B`` (A the centered rows, B the sketch), so each
        squared singular value is within it; ``relative`` is to ``energy_``; ``lost`` bounds the share of the energy
        that the best k directions hold beyond the components.
    energy_ : float
        Squared Frobenius norm of the centered rows.
    solver_ : str
        Solver that was used, never ``"auto"``.
    n_passes_ : int
        Number of times that each block was read: more than ``n_passes`` where a product is wider than memory.
    n_samples_seen_ : int
        Number of rows, those of ``partial_fit`` included.
    random_state_ : int
        Seed that was used.
    summary_ : FrequentDirections, Moments or None
        Summary to which ``partial_fit`` adds.
    n_features_in_ : int
        Number of columns.

    Notes
    -----
    Memory of a task: its block, and ``sketch_size * n_columns`` numbers for each summary (single precision for
    single-precision rows); the law is :func:`dspectral.projected_memory`.

    References
    ----------
    Liberty 2013, "Simple and deterministic matrix sketching"; Kim, Stratos and Sarikaya 2016, "Scalable
    semi-supervised query classification using matrix sketching", section 2.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).standard_normal((1000, 3)) * [3.0, 2.0, 1.0] + 5.0
    >>> pca = SketchedPCA(2).fit(rows)
    >>> pca.explained_variance_.round(1), pca.solver_, pca.n_passes_
    (array([8.8, 3.7]), 'gram', 1)
    """

    _ddof = 1
    _n_passes = 1

    def __init__(
        self,
        n_components: float = 2,
        *,
        center: bool = True,
        solver: Solver = "auto",
        n_passes: int | None = None,
        sketch_size: int | None = None,
        tol: float = 0.0,
        random_state: RandomState = 0,
    ) -> None:
        self.n_components = n_components
        self.center = center
        self.solver = solver
        self.n_passes = n_passes
        self.sketch_size = sketch_size
        self.tol = tol
        self.random_state = random_state


@saved
class TruncatedSVD(Decomposition):
    """Leading singular vectors of rows that do not fit in memory, not centered, close to exact in a few passes.

    Parameters
    ----------
    n_components : int or float, default=2
        Number of components, k: at most the number of columns; or, above 0 and below 1, the share of the variance that
        they explain together: 32 are looked for, then twice as many, until they do.
    solver : str, default="auto"
        As for :class:`SketchedPCA`.
    n_passes : int, optional
        Number of times that ``"krylov"`` reads the rows, by default 5, and with a ``tol`` 12 at most; ``"in_memory"``
        and ``"gram"`` read them once.
    sketch_size : int, optional
        Rows of the sketch, by default ``2 k + 10``; for ``"krylov"`` the columns of all products together, by
        default ``3 k + 10``.
    tol : float, default=0.0
        Share of the energy that may be lost against the best rank k, as for :class:`SketchedPCA`.
    random_state : int, RandomState, Generator or None, default=0
        Seed. The same integer and the same blocks give the same bits under every scheduler.

    Attributes
    ----------
    components_ : ndarray, shape (n_components, n_columns)
        Right singular vectors; the entry largest in magnitude of each is positive. Rows of zeros where the data has
        fewer directions.
    singular_values_ : ndarray of float64, shape (n_components,)
        Singular values of the rows as they are, from below.
    explained_variance_, explained_variance_ratio_ : ndarray of float64, shape (n_components,)
        Variance (about the mean) along each component, and its share of the total variance.
    mean_ : ndarray of float64, shape (n_columns,)
        Mean of the rows.
    certificate_ : Certificate
        Bound on the error of each squared singular value, and on the energy lost, as for :class:`SketchedPCA`.
    energy_ : float
        Squared Frobenius norm of the rows.
    solver_, n_passes_, n_samples_seen_, random_state_, summary_, n_features_in_
        As for :class:`SketchedPCA`.

    Notes
    -----
    For d columns and products of ``w = sketch_size / (n_passes - 1)`` columns a task returns ``d w`` numbers. What does
    not fit in 70 % of a worker's memory limit, or in ``dspectral.memory-limit`` where this process does the work and
    that is set, goes out in groups of columns, a pass for each. The basis, ``d w n_passes`` numbers, lies in a
    temporary file where it is larger than ``dspectral.memory-limit`` (1 GiB). Neither changes a bit for sparse rows.

    References
    ----------
    Musco and Musco 2015, "Randomized block Krylov methods for stronger and faster approximate singular value
    decomposition"; Halko, Martinsson and Tropp 2011, "Finding structure with randomness", section 4.3 (`tol`).

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> rows = sparse.csr_array(np.diag([3.0, 2.0, 1.0]))
    >>> TruncatedSVD(2).fit(rows).singular_values_
    array([3., 2.])
    >>> found = TruncatedSVD(2, solver="krylov", tol=1e-3).fit(np.diag(1.0 / np.arange(1.0, 101.0)))
    >>> bool(found.certificate_.lost <= 1e-3), found.n_passes_
    (True, 2)
    """

    _ddof = 0
    _n_passes = 5
    center = False

    def __init__(
        self,
        n_components: float = 2,
        *,
        solver: Solver = "auto",
        n_passes: int | None = None,
        sketch_size: int | None = None,
        tol: float = 0.0,
        random_state: RandomState = 0,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.n_passes = n_passes
        self.sketch_size = sketch_size
        self.tol = tol
        self.random_state = random_state
