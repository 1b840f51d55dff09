"""The estimators ``PCA`` and ``SketchedPCA`` (centered) and ``TruncatedSVD`` (not centered)."""

import warnings
from functools import partial
from numbers import Integral, Real
from typing import Any, Self
from warnings import warn

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import norm
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from dspectral import engine
from dspectral.decomposition.nystrom import NystromSketch
from dspectral.decomposition.spectrum import (
    MAX_PASSES,
    SOLVERS,
    Solver,
    Spectrum,
    SVDOptions,
    block_summarizer,
    nystrom_summarizer,
    pad_components,
    select_solver,
    spectrum,
    spectrum_from_summary,
)
from dspectral.inputs.rows import (
    LazyOutputMixin,
    RunPlanMixin,
    frame_to_rows,
    get_row_dtype,
    project,
    validate_rows,
)
from dspectral.inputs.top_terms import TopTermsMixin
from dspectral.parameters import RandomState, check_flag, check_integer, check_option, resolve_seed
from dspectral.registry import Array, register_arrays, register_class
from dspectral.types import CheckedRows, CheckpointPath, Doubles, FloatArray, RowsLike

_GROWING = (
    "auto",
    "in_memory",
    "frequent_directions",
    "median_frequent_directions",
    "gram",
    "full",
    "nystrom",
)
"""Solvers for which ``partial_fit`` may be available; ``"auto"`` is resolved in ``fit``."""
_EXACT = ("arpack", "covariance_eigh")
"""Exact solvers of scikit-learn: here ``"auto"`` with a tolerance of ``_EXACT_TOL``."""
_EXACT_TOL = 1e-5
MAX_SHARE_COMPONENTS = 64
"""Maximum number of components for a share of the variance in ``partial_fit`` with a sketch."""
FAR_MEAN = 8.0
"""Ratio of the mean's length to the explained standard deviation above which ``transform`` uses double precision."""
_NORMALIZERS = ("auto", "QR", "LU", "none")


def _is_share(k: object) -> bool:
    """Return whether `n_components` is a share of the variance."""
    return isinstance(k, Real) and not isinstance(k, Integral) and 0 < float(k) < 1


@register_arrays(
    {
        "components_": Array("n_components_ n_features_in_"),
        "singular_values_": Array("n_components_", at_least=0),
        "explained_variance_": Array("n_components_", at_least=0),
        "explained_variance_ratio_": Array("n_components_", at_least=0),
        "mean_": Array("n_features_in_"),
        "summary_.total": Array("n_features_in_", optional=True),
    }
)
class Decomposition(
    RunPlanMixin,
    TopTermsMixin,
    LazyOutputMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
):
    """Base class of PCA, SketchedPCA and TruncatedSVD."""

    n_components: float
    center: bool
    solver: Solver
    n_passes: int | None
    sketch_size: int | None
    tol: float
    random_state: RandomState
    n_oversamples: int | None = None
    power_iteration_normalizer: str = "auto"
    whiten: bool = False
    _ddof: int
    _n_passes: int
    _scikit_solver: str = "auto"
    _n_iter: int | None = None

    def _make_options(self, dtype: DTypeLike, *, grows: bool = False) -> SVDOptions:
        """Return the solver options; one pass if `grows`, which allows ``partial_fit``."""
        exact = self._scikit_solver in _EXACT or self.solver == "full"
        # Convert NumPy integers, whose sums may overflow.
        numbers: Any = (self.n_passes, self.sketch_size, self.n_components)
        n_passes, size, k = (int(x) if isinstance(x, Integral) else x for x in numbers)
        # `power_iteration_normalizer` is only validated, because every product is orthonormalized.
        check_option("power_iteration_normalizer", self.power_iteration_normalizer, _NORMALIZERS)
        tol = 0.0 if grows else _EXACT_TOL if exact and not self.tol else self.tol
        if n_passes is None:
            n_passes = MAX_PASSES if tol else self._n_passes
            if self._n_iter is not None:
                n_passes = check_integer("n_iter", self._n_iter, at_least=0) + 1
        n_passes = 1 if grows else n_passes
        if self.n_oversamples is not None and size is None and isinstance(k, int):
            width = k + check_integer("n_oversamples", self.n_oversamples, at_least=0)
            size = width * (1 if tol else max(1, n_passes - 1))
        return SVDOptions(
            k,
            solver=self.solver,
            n_passes=n_passes,
            sketch_size=size,
            center=check_flag("center", self.center),
            seed=self.random_state_,
            dtype=get_row_dtype(dtype),
            tol=tol,
        )

    @engine.tracked_fit
    def fit(self, X: RowsLike, y: object = None, *, checkpoints: CheckpointPath = None) -> Self:
        """Fit the components.

        Parameters
        ----------
        X : ndarray, SciPy sparse, DataFrame, Dask array of dense or CSR blocks, or store, shape (n_rows, n_columns)
            Rows of real numbers. Float32 is decomposed in single precision, all other types in double. A Dask DataFrame
            is read once more to count its rows, unless ``X.to_dask_array(lengths=[...])`` declares them.
        y : None
            Not used, present for API consistency.
        checkpoints : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.checkpoints` takes it.

        Returns
        -------
        self
            Fitted estimator.

        Raises
        ------
        ValueError
            If X contains NaN or infinity or has too few columns, or a parameter is out of range.

        Warns
        -----
        UserWarning
            If the numerical rank of X is below ``n_components``; the other components are zero.
        ConvergenceWarning
            If more than ``tol`` of the energy may be lost.
        """
        if not hasattr(self, "_skl_callbacks"):
            X, options = self._prepare(X)
            result = self._fit_share(X, options) if _is_share(self.n_components) else spectrum(X, options)
            return self._finish(options, result)
        from sklearn.callback import CallbackSupportMixin, with_callbacks  # noqa: PLC0415  takes a second

        def fit_with_callbacks(self: Self) -> None:
            task = CallbackSupportMixin._init_callback_context(self)  # noqa: SLF001  for authors of estimators
            task.call_on_fit_task_begin(estimator=self)
            self._fit(X)
            task.call_on_fit_task_end(estimator=self)

        with_callbacks(fit_with_callbacks)(self)
        return self

    def set_callbacks(self, *callbacks: object) -> Self:
        """Set callbacks of scikit-learn (version 1.9 or later) for ``fit``.

        Parameters
        ----------
        *callbacks : object
            Callbacks such as ``sklearn.callback.ProgressBar()``. Without arguments all callbacks are removed, as
            required before ``save``.

        Returns
        -------
        self
            The estimator.
        """
        from sklearn.callback import CallbackSupportMixin  # noqa: PLC0415

        CallbackSupportMixin.set_callbacks(self, *callbacks)
        return self

    def _fit(self, X: RowsLike, *, grows: bool = False) -> Self:
        """Fit the components; in one pass if `grows`, which allows ``partial_fit``."""
        X, options = self._prepare(X, grows=grows)
        is_share = _is_share(self.n_components)
        return self._finish(options, self._fit_share(X, options, grows=grows) if is_share else spectrum(X, options))

    def _prepare(self, X: RowsLike, *, grows: bool = False) -> tuple[CheckedRows, SVDOptions]:
        """Return validated rows and the solver options."""
        X = validate_rows(self, X, reset=True)
        self.random_state_ = resolve_seed(self.random_state)
        options = self._make_options(X.dtype, grows=grows)
        if self.n_components is None:
            options = options._replace(n_components=min(X.shape))
        if grows:
            options = options._replace(solver=select_solver(options, X.shape[1]))
        return X, options

    def _finish(self, options: SVDOptions, result: Spectrum) -> Self:
        """Set the fitted attributes, unless they are set; warn if the tolerance was not reached."""
        if not _is_share(self.n_components):
            self._set(result)
        if 0 < options.tol < result.lost_share:
            warn(
                f"tol={options.tol} was not reached: up to {self.certificate_.lost:.2g} of the energy may be lost "
                "after "
                f"{self.n_passes_} pass(es) of solver {self.solver_!r}; increase n_passes or sketch_size",
                ConvergenceWarning,
                stacklevel=4,
            )
        return self

    def _fit_share(self, X: CheckedRows, options: SVDOptions, *, grows: bool = False) -> Spectrum:
        """Fit the fewest components that explain a share of the variance: try 32, then double the number.

        With `grows` the rows are read once, and the sketch size limits the number of components.
        """
        max_components, n_passes, finds_all = (
            min(X.shape),
            0,
            select_solver(options, X.shape[1]) in ("gram", "full"),
        )
        if grows and not finds_all:
            max_components = min(max_components, options.sketch_size or MAX_SHARE_COMPONENTS)
        k = max_components if finds_all or grows else min(32, max_components)
        while True:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "n_components is", UserWarning)
                result = spectrum(X, options._replace(n_components=k), is_last=k == max_components)
            n_passes += result.n_passes
            self._set(result)
            if k == max_components or np.sum(self.explained_variance_ratio_) > self.n_components:
                break
            k = min(2 * k, max_components)
        self._truncate_to_share(result._replace(n_passes=n_passes))
        return result

    def _truncate_to_share(self, result: Spectrum) -> None:
        """Keep the fewest components of a spectrum that explain the share of the variance together."""
        self._set(result)
        cumulative_shares = np.cumsum(self.explained_variance_ratio_)
        # If rounding keeps the sum below the share, keep all nonzero components.
        n = min(
            int(np.searchsorted(cumulative_shares, self.n_components, side="right")) + 1,
            max(1, int(np.sum(result.values > 0))),
        )
        axes, values, variances = result.axes[:n], result.values[:n], result.variances[:n]
        self._set(result._replace(axes=axes, values=values, variances=variances))

    @available_if(lambda self: self.solver in _GROWING)
    @engine.tracked_fit
    def partial_fit(self, X: RowsLike, y: object = None, *, checkpoints: CheckpointPath = None) -> Self:
        """Update the fit with more rows; only the new rows are read.

        Parameters
        ----------
        X : as for ``fit``, shape (n_rows, n_columns)
            More rows, as many columns as the first ones.
        y : None
            Not used, present for API consistency.
        checkpoints : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.checkpoints` takes it.

        Returns
        -------
        self
            Fitted estimator.

        Raises
        ------
        ValueError
            If X has another number of columns, or ``fit`` used a solver that cannot be updated.
        """
        if not hasattr(self, "components_"):
            return self._fit(X, grows=True)
        X = validate_rows(self, X, reset=False)
        summary: Any = self.summary_
        if summary is None:
            name = "svd_solver" if "svd_solver" in self.get_params() else "solver"
            raise ValueError(
                f"solver {self.solver_!r} of fit cannot be updated after {self.n_passes_} pass(es): start with "
                f"partial_fit, or fit with {name}='frequent_directions', 'nystrom' or 'gram'"
            )
        options, n_rows = self._make_options(self.components_.dtype, grows=True), summary.n_rows + X.shape[0]
        # Only the new rows are read. The summary of the old rows determines the size and the centering.
        engine.expect_passes(1)
        size = getattr(summary, "size", None)
        summarize_block: Any = block_summarizer(options._replace(sketch_size=size), self.solver_, center=summary.center)
        if isinstance(summary, NystromSketch) and summary.basis is not None:
            summarize_block = nystrom_summarizer(summary.basis, summary.seed)
        whole: Any = summary.merge(engine.summarize(X, summarize_block=summarize_block, name="sketch"))
        max_components = min(n_rows, X.shape[1], size or n_rows)
        if _is_share(self.n_components):
            self._truncate_to_share(spectrum_from_summary(whole, options._replace(n_components=max_components)))
            return self
        options = options if self.n_components is not None else options._replace(n_components=max_components)
        self._set(pad_components(spectrum_from_summary(whole, options), options))
        return self

    def transform(self, X: RowsLike, *, out: str | None = None) -> Any:
        """Project rows onto the components.

        Parameters
        ----------
        X : as for ``fit``, shape (n_rows, n_columns)
            Rows with as many columns as in ``fit``.
        out : str, optional
            Path or URL of a store for the projections, as for :func:`dspectral.write_coordinates`.

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n_rows, n_components)
            Projections; with ``set_output`` a DataFrame for input in memory; with ``out`` Coordinates.
        """
        check_is_fitted(self)
        X = validate_rows(self, X, reset=False)
        axes, dtype, mean = self.components_.T, self.components_.dtype, self.mean_ if self.center else None
        if self.whiten:
            axes = (axes / self._lengths).astype(dtype)
        # (x - mean) V' = x V' - mean V' keeps sparse rows sparse. Far from the origin both products are in double.
        is_far = mean is not None and norm(mean) > FAR_MEAN * np.sqrt(np.sum(self.explained_variance_))
        axes = np.ascontiguousarray(axes, dtype=np.float64 if is_far else dtype)
        to_axes = partial(project, axes=axes, mean=mean, dtype=dtype)
        Z = engine.map_rows(X, to_axes, n_columns=len(self.components_), dtype=dtype, name="project")
        if out is None:
            return Z
        from dspectral.store.coordinates import write_rows  # noqa: PLC0415  imports Zarr

        return write_rows(Z, out)

    def inverse_transform(self, X: RowsLike) -> Any:
        """Return rows in the original space from their projections.

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
        X = frame_to_rows(X)
        X = engine.as_dask_rows(X) if engine.is_lazy(X) else check_array(X, dtype=[np.float64, np.float32])
        if X.shape[1] != len(self.components_):
            raise ValueError(
                f"X has {X.shape[1]} columns, but must have {len(self.components_)}, one for each component: pass the "
                "output of transform"
            )
        axes = self.components_
        if self.whiten:
            axes = (axes * self._lengths[:, None]).astype(axes.dtype)
        restore = partial(_restore, axes=axes, mean=self.mean_ if self.center else None)
        if not engine.is_lazy(X):
            return restore(X)
        dtype = np.result_type(X.dtype, self.components_.dtype, *([self.mean_.dtype] if self.center else []))
        return engine.map_rows(X, restore, n_columns=self.components_.shape[1], dtype=dtype, name="restore")

    @property
    def _lengths(self) -> Doubles:
        """Standard deviations of the projections, 1 where they are 0, shape (n_components,)."""
        deviations = np.sqrt(self.explained_variance_)
        return np.where(deviations > 0.0, deviations, 1.0)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _set(self, result: Spectrum) -> None:
        self.components_ = result.axes
        self.singular_values_ = np.sqrt(result.values)
        self.n_components_ = len(result.axes)
        self.n_samples_ = self.n_samples_seen_ = result.n_rows
        self.energy_ = result.energy
        self.mean_ = result.mean
        self.certificate_ = result.certificate
        self.solver_ = result.solver
        self.n_passes_ = result.n_passes
        self.summary_ = result.summary
        variances, degrees = np.maximum(result.variances, 0.0), max(1, result.n_rows - self._ddof)
        self.explained_variance_ = variances / degrees
        # If all rows are equal up to rounding, no direction explains any variance.
        self.explained_variance_ratio_ = variances / (result.scatter if result.scatter > result.noise_floor else np.inf)
        n_rest = min(result.n_rows, result.axes.shape[1]) - len(result.axes)
        residual_variance = max(0.0, result.scatter / degrees - float(self.explained_variance_.sum()))
        self.noise_variance_ = residual_variance / n_rest if n_rest > 0 else 0.0


@np.errstate(under="ignore")
def _restore(X: FloatArray, *, axes: FloatArray, mean: FloatArray | None) -> FloatArray:
    """Return rows in the original space from one block of projections."""
    rows = X @ axes
    return np.asarray(rows if mean is None else rows + mean)


@register_class
class SketchedPCA(Decomposition):
    """Principal component analysis of rows that do not fit in memory, in one pass, with a bound on the error.

    Parameters
    ----------
    n_components : int or float, default=2
        Number of components k, at most the number of columns. A number between 0 and 1 is the share of the variance to
        explain: the fit tries 32 components, then doubles the number until they suffice.
    center : bool, default=True
        Whether the column means are subtracted. Rank-one corrections keep sparse rows sparse.
    solver : str, default="auto"
        - ``"frequent_directions"``: one pass, a sketch of ``sketch_size`` rows with a deterministic error bound;
        - ``"median_frequent_directions"``: the same with the shrink schedule of figure 1 of Kim et al. 2016, which
          keeps half as many rows;
        - ``"gram"``: one pass, exact, ``8 d^2`` bytes per task for d columns;
        - ``"full"``: one pass of QR decompositions, exact also for singular values far below the largest, ``8 d^2``
          bytes per task; above 2,048 columns ``"in_memory"``, or ``"krylov"`` with a `tol` of 1e-5;
        - ``"nystrom"``: one pass of products with a basis, which is computed from about a twentieth of the rows (the
          pilot, read from at least four blocks); the error bound is random;
        - ``"krylov"``: ``n_passes`` passes, close to exact from the third on;
        - ``"in_memory"``: one pass, exact up to rounding, for rows that fit in memory; one task gets all rows;
        - ``"auto"``: ``"gram"`` up to 2,048 columns; else ``"frequent_directions"`` for one pass and ``"krylov"`` for
          more, or ``"in_memory"`` in their place if the stored entries are known to take at most
          ``dspectral.in-memory-bytes`` (128 MiB), and a quarter of it (32 MiB) for ``"krylov"`` without a `tol`. It
          depends on the rows alone, not on the cluster.
    n_passes : int, optional
        Number of passes of ``"krylov"``, by default 1, or at most 12 with a ``tol``. Each pass but the last multiplies
        by ``sketch_size / (n_passes - 1)`` columns. Other solvers take one pass.
    sketch_size : int, optional
        Rows of the sketch, at least k; by default ``2 k + 10``. For ``"krylov"`` and ``"nystrom"`` the total number of
        columns of all products, by default ``3 k + 10``.
    tol : float, default=0.0
        Share of the energy that may be lost against the best rank k. ``"krylov"`` takes passes, with products of
        ``sketch_size`` columns (by default ``2 k + 30``), until ``certificate_.lost`` is at most `tol`. A warning is
        emitted if ``n_passes`` do not suffice. 0 means a fixed number of passes.
    random_state : int, RandomState, Generator or None, default=0
        Seed. The same integer and the same blocks give the same bits under every scheduler.

    Attributes
    ----------
    components_ : ndarray, shape (n_components, n_columns)
        Orthonormal rows; the entry of largest magnitude of each is positive. Components beyond the rank are zero.
    singular_values_ : ndarray of float64, shape (n_components,)
        Singular values of the centered rows, each at most the true value.
    explained_variance_, explained_variance_ratio_ : ndarray of float64, shape (n_components,)
        Variance along each component, and its share of the total variance.
    mean_ : ndarray of float64, shape (n_columns,)
        Mean of the rows.
    certificate_ : Certificate
        ``absolute`` bounds the spectral norm of ``A'A - B'B`` (A the centered rows, B the sketch) and so the error of
        each squared singular value; ``relative`` is ``absolute / energy_``; ``lost`` bounds the share of the energy
        lost against the best k directions.
    energy_ : float
        Squared Frobenius norm of the centered rows.
    solver_ : str
        Solver that was used, never ``"auto"``.
    n_passes_ : int
        Number of times that each block was read; above ``n_passes`` if products are split to fit memory. The pilot of
        ``"nystrom"`` is not counted.
    n_samples_seen_, n_features_in_, random_state_ : int
        Number of rows, including those of ``partial_fit``, and of columns; the seed that was used.
    summary_ : FrequentDirections, Moments, NystromSketch, RowFactor or None
        Summary that ``partial_fit`` extends.

    Notes
    -----
    Memory of a task: its block, and ``sketch_size * n_columns`` numbers for each summary (single precision for
    single-precision rows); for an estimate see :func:`dspectral.estimate_memory`.

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


@register_class
class TruncatedSVD(Decomposition):
    """Truncated singular value decomposition of rows that do not fit in memory, close to exact in a few passes.

    Parameters
    ----------
    n_components : int or float, default=2
        Number of components k, at most the number of columns. A number between 0 and 1 is the share of the variance to
        explain: the fit tries 32 components, then doubles the number until they suffice.
    solver : str, default="auto"
        As for :class:`SketchedPCA`.
    n_passes : int, optional
        Number of passes of ``"krylov"``, by default 5, or at most 12 with a ``tol``. Other solvers take one pass.
    sketch_size : int, optional
        Rows of the sketch, by default ``2 k + 10``; for ``"krylov"`` and ``"nystrom"`` the total number of columns of
        all products, by default ``3 k + 10``.
    tol : float, default=0.0
        Share of the energy that may be lost against the best rank k, as for :class:`SketchedPCA`.
    algorithm : {"randomized", "arpack"}, default="randomized"
        Names of scikit-learn. ``"arpack"`` sets a `tol` of 1e-5 if that is 0.
    n_iter : int, optional
        Equal to ``n_passes - 1``; the name of scikit-learn.
    n_oversamples : int, optional
        Alternative to `sketch_size`: each product has ``n_components + n_oversamples`` columns.
    power_iteration_normalizer : {"auto", "QR", "LU", "none"}, default="auto"
        No effect, for compatibility with scikit-learn: each product is orthonormalized.
    random_state : int, RandomState, Generator or None, default=0
        Seed. The same integer and the same blocks give the same bits under every scheduler.

    Attributes
    ----------
    components_, singular_values_, energy_, certificate_
        As for :class:`SketchedPCA`, but of the rows without centering.
    explained_variance_, explained_variance_ratio_, mean_
        As for :class:`SketchedPCA`: variance about the mean along each component, and its share of the total variance.
    solver_, n_passes_, n_samples_seen_, random_state_, summary_, n_features_in_
        As for :class:`SketchedPCA`.

    Notes
    -----
    For d columns and products of ``w = sketch_size / (n_passes - 1)`` columns a task returns ``d w`` numbers. If they
    do not fit in 70 % of a worker's memory limit (locally in ``dspectral.memory-limit``, if set), products are split
    into groups of columns with a pass for each. The basis of ``d w n_passes`` numbers is stored in a temporary file if
    it exceeds ``dspectral.memory-limit`` (1 GiB). For sparse rows neither changes a bit of the result.

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
        algorithm: str = "randomized",
        n_iter: int | None = None,
        n_oversamples: int | None = None,
        power_iteration_normalizer: str = "auto",
        random_state: RandomState = 0,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.n_passes = n_passes
        self.sketch_size = sketch_size
        self.tol = tol
        self.algorithm = algorithm
        self.n_iter = n_iter
        self.n_oversamples = n_oversamples
        self.power_iteration_normalizer = power_iteration_normalizer
        self.random_state = random_state

    @property
    def _scikit_solver(self) -> str:  # type: ignore[override]
        return str(check_option("algorithm", self.algorithm, ("randomized", "arpack")))

    @property
    def _n_iter(self) -> int | None:  # type: ignore[override]
        return self.n_iter


@register_class
class PCA(Decomposition):
    """Principal component analysis with the interface of scikit-learn, for rows that may exceed memory.

    Parameters
    ----------
    n_components : int or float, optional
        Number of components, by default the smaller number of rows and columns. A number between 0 and 1 is the share
        of the variance to explain. ``"mle"`` is not supported.
    copy : bool, default=True
        No effect, for compatibility with scikit-learn: rows are never overwritten.
    whiten : bool, default=False
        Whether ``transform`` divides by the standard deviation along each component.
    svd_solver : str, default="auto"
        A `solver` of :class:`SketchedPCA`, or a name of scikit-learn: ``"randomized"`` is ``"auto"``, and
        ``"covariance_eigh"`` and ``"arpack"`` are ``"auto"`` with a `tol` of 1e-5 if that is 0.
    tol : float, default=0.0
        Share of the energy that may be lost against the best rank k, as for :class:`SketchedPCA`.
    iterated_power : int or "auto", default="auto"
        Equal to ``n_passes - 1``; the name of scikit-learn, used if `n_passes` is None.
    n_oversamples : int, optional
        Alternative to `sketch_size`: each product has ``n_components + n_oversamples`` columns.
    power_iteration_normalizer : {"auto", "QR", "LU", "none"}, default="auto"
        No effect, for compatibility with scikit-learn: each product is orthonormalized.
    n_passes, sketch_size : int, optional
        As for :class:`TruncatedSVD`: five passes if ``"auto"`` chooses ``"krylov"``.
    random_state : int, RandomState, Generator or None, default=0
        Seed. The same integer and the same blocks give the same bits under every scheduler.

    Attributes
    ----------
    components_, singular_values_, explained_variance_, explained_variance_ratio_, mean_, n_features_in_
        As for :class:`SketchedPCA`.
    noise_variance_ : float
        Mean of the variances beyond the components.
    n_components_, n_samples_ : int
        Number of components and of rows.
    certificate_, energy_, solver_, n_passes_, n_samples_seen_, random_state_, summary_
        As for :class:`SketchedPCA`.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).standard_normal((1000, 3)) * [3.0, 2.0, 1.0] + 5.0
    >>> pca = PCA(2, whiten=True).fit(rows)
    >>> pca.transform(rows).std(axis=0, ddof=1).round(6), round(pca.noise_variance_, 2)
    (array([1., 1.]), 1.04)
    """

    _ddof = 1
    _n_passes = 5
    center = True

    def __init__(
        self,
        n_components: float | None = None,
        *,
        copy: bool = True,
        whiten: bool = False,
        svd_solver: str = "auto",
        tol: float = 0.0,
        iterated_power: int | str = "auto",
        n_oversamples: int | None = None,
        power_iteration_normalizer: str = "auto",
        n_passes: int | None = None,
        sketch_size: int | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.n_components = n_components  # type: ignore[assignment]
        self.copy = copy
        self.whiten = whiten
        self.svd_solver = svd_solver
        self.tol = tol
        self.iterated_power = iterated_power
        self.n_oversamples = n_oversamples
        self.power_iteration_normalizer = power_iteration_normalizer
        self.n_passes = n_passes
        self.sketch_size = sketch_size
        self.random_state = random_state

    def get_covariance(self) -> Doubles:
        """Return the covariance of the model.

        Returns
        -------
        ndarray, shape (n_columns, n_columns)
            ``V' diag(v - s) V + s I`` for components V, variances v and noise variance s.
        """
        check_is_fitted(self)
        above = np.maximum(self.explained_variance_ - self.noise_variance_, 0.0)
        covariance = (self.components_.T * above) @ self.components_
        covariance.flat[:: len(covariance) + 1] += self.noise_variance_
        return np.asarray(covariance)

    def get_precision(self) -> Doubles:
        """Return the inverse of the covariance of the model.

        Returns
        -------
        ndarray, shape (n_columns, n_columns)
            Inverse of :meth:`get_covariance`.
        """
        return np.asarray(np.linalg.inv(self.get_covariance()))

    def score_samples(self, X: RowsLike) -> Doubles:
        """Return the log-likelihood of each row under the probabilistic PCA model.

        Parameters
        ----------
        X : ndarray, shape (n_rows, n_columns)
            Rows in memory.

        Returns
        -------
        ndarray, shape (n_rows,)
            Natural logarithms of densities.
        """
        precision = self.get_precision()
        rows = validate_data(self, X, dtype=[np.float64, np.float32], reset=False) - self.mean_
        constant = len(precision) * np.log(2.0 * np.pi) - np.linalg.slogdet(precision)[1]
        return np.asarray(-0.5 * (np.einsum("ij,ij->i", rows @ precision, rows) + constant))

    def score(self, X: RowsLike, y: object = None) -> float:
        """Return the mean log-likelihood of rows.

        Parameters
        ----------
        X : ndarray, shape (n_rows, n_columns)
            Rows in memory.
        y : None
            Not used, present for API consistency.

        Returns
        -------
        float
            Mean of :meth:`score_samples`.
        """
        return float(np.mean(self.score_samples(X)))

    @property
    def solver(self) -> Solver:  # type: ignore[override]
        """Solver of dspectral for `svd_solver`."""
        return "auto" if self.svd_solver in ("randomized", *_EXACT) else self.svd_solver  # type: ignore[return-value]

    @property
    def _scikit_solver(self) -> str:  # type: ignore[override]
        check_flag("copy", self.copy)
        return str(check_option("svd_solver", self.svd_solver, (*SOLVERS, "randomized", *_EXACT)))

    @property
    def _n_iter(self) -> int | None:  # type: ignore[override]
        power = self.iterated_power
        return None if power == "auto" else check_integer("iterated_power", power, at_least=0)
