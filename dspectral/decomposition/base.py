"""Fit, update and projection of the singular value decompositions, with scikit-learn's fitted attributes."""

from functools import partial
from numbers import Integral, Real
from typing import Any, Self
from warnings import warn

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import norm
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted

from dspectral import engine
from dspectral.decomposition.nystrom import NystromSketch
from dspectral.decomposition.spectrum import (
    MAX_PASSES,
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
    RowTransformer,
    frame_to_rows,
    get_row_dtype,
    is_whitened_in_double,
    project,
    validate_rows,
)
from dspectral.inputs.top_terms import TopTermsMixin
from dspectral.linalg.dense import rounding_floor
from dspectral.parameters import RandomState, check_flag, check_integer, check_option, resolve_seed
from dspectral.registry import register_class
from dspectral.types import CheckpointPath, Doubles, FloatArray, RowsLike

_GROWING = ("auto", "in_memory", "frequent_directions", "median_frequent_directions", "gram", "full", "nystrom")
"""Solvers for which ``partial_fit`` may be available; ``"auto"`` is resolved in ``fit``."""
EXACT = ("arpack", "covariance_eigh")
"""Exact solvers of scikit-learn: here ``"auto"`` until all residuals are at most ``EXACT_RESIDUAL_TOL``."""
EXACT_RESIDUAL_TOL = 1e-5
"""Norm of ``A'A x - value x`` relative to the squared singular value at which passes end."""
UNCONVERGED_RESIDUAL = 1e-2
"""Relative residual above which a component is named as not converged after the last pass."""
MAX_SHARE_COMPONENTS = 64
"""Maximum number of components for a share of the variance in ``partial_fit`` with a sketch."""
FAR_MEAN = 8.0
"""Ratio of the mean's length to the explained standard deviation above which ``transform`` uses double precision."""
_NORMALIZERS = ("auto", "QR", "LU", "none")


def _is_share(k: object) -> bool:
    """Return whether `n_components` is a share of the variance."""
    return isinstance(k, Real) and not isinstance(k, Integral) and 0 < float(k) < 1


@register_class(
    {
        "components_": "n_components_ n_features_in_",
        "singular_values_": "n_components_",
        "singular_value_intervals_": "n_components_ 2",
        "residuals_": "n_components_",
        "explained_variance_": "n_components_",
        "explained_variance_ratio_": "n_components_",
        "mean_": "n_features_in_",
        "summary_.total": "n_features_in_",
    }
)
class Decomposition(TopTermsMixin, RowTransformer, BaseEstimator):
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
    _residual_tol = 0.0

    def _make_options(self, dtype: DTypeLike, *, one_pass: bool = False) -> SVDOptions:
        """Return the solver options. With `one_pass`, they have one pass, so that ``partial_fit`` works."""
        exact = self._scikit_solver in EXACT or self.solver == "full"
        # Convert NumPy integers, whose sums may overflow.
        numbers: Any = (self.n_passes, self.sketch_size, self.n_components)
        n_passes, size, k = (int(x) if isinstance(x, Integral) else x for x in numbers)
        # `power_iteration_normalizer` is only validated, because every product is orthonormalized.
        check_option("power_iteration_normalizer", self.power_iteration_normalizer, _NORMALIZERS)
        tol, residual_tol = (0.0, 0.0) if one_pass else (self.tol, self._residual_tol)
        if exact and not tol and not one_pass:
            residual_tol = EXACT_RESIDUAL_TOL
        until_converged = bool(tol or residual_tol)
        if n_passes is None:
            n_passes = MAX_PASSES if until_converged else self._n_passes
            if self._n_iter is not None:
                n_passes = check_integer("n_iter", self._n_iter, at_least=0) + 1
        n_passes = 1 if one_pass else n_passes
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
            residual_tol=residual_tol,
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
        X, options = self._prepare(X)
        if not _is_share(self.n_components):
            result = spectrum(X, options)
            self._set(result)
        else:
            # For a share of the variance try 32 components, then double the number.
            max_components, n_passes = min(X.shape), 0
            finds_all = select_solver(options, X.shape[1]) in ("gram", "full")
            k = max_components if finds_all else min(32, max_components)
            while True:
                result = spectrum(X, options._replace(n_components=k), is_last=k == max_components, warns=False)
                n_passes += result.n_passes
                self._set(result)
                if k == max_components or np.sum(self.explained_variance_ratio_) > self.n_components:
                    break
                k = min(2 * k, max_components)
            self._truncate_to_share(result._replace(n_passes=n_passes))
        self._warn_if_not_converged(options, result.lost_share)
        return self

    def _prepare(self, X: RowsLike, *, one_pass: bool = False) -> tuple[Any, SVDOptions]:
        """Return validated rows and the solver options, with `one_pass` those of a fit that can be updated."""
        X = validate_rows(self, X, reset=True)
        self.random_state_ = resolve_seed(self.random_state)
        options = self._make_options(X.dtype, one_pass=one_pass)
        if self.n_components is None:
            options = options._replace(n_components=min(X.shape))
        if one_pass:
            options = options._replace(solver=select_solver(options, X.shape[1]))
        return X, options

    def _warn_if_not_converged(self, options: SVDOptions, lost_share: float) -> None:
        """Warn if a tolerance was not reached within the passes."""
        is_left_out = self.residuals_ > UNCONVERGED_RESIDUAL * self.singular_values_**2
        if options.residual_tol and is_left_out.any() and self.solver_ == "krylov":
            warn(
                f"{np.sum(is_left_out)} of {len(is_left_out)} components, from number {np.argmax(is_left_out) + 1} on, "
                f"did not converge within {self.n_passes_} passes: their residuals exceed {UNCONVERGED_RESIDUAL} of "
                "their squared singular values. singular_value_intervals_ has bounds of the singular values; increase "
                "n_passes, or pass tol=1e-6 to pp.pca",
                ConvergenceWarning,
                stacklevel=4,
            )
        elif 0 < options.tol < lost_share:
            warn(
                f"tol={options.tol} was not reached: up to {self.certificate_.lost:.2g} of the energy may be lost "
                f"after {self.n_passes_} pass(es) of solver {self.solver_!r}; pass a larger tol, or to an estimator "
                "more n_passes or a larger sketch_size",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _truncate_to_share(self, result: Spectrum) -> None:
        """Keep the fewest components of a spectrum that explain the share of the variance together."""
        self._set(result)
        cumulative_shares = np.cumsum(self.explained_variance_ratio_)
        # If rounding keeps the sum below the share, keep all nonzero components.
        n_enough = int(np.searchsorted(cumulative_shares, self.n_components, side="right")) + 1
        n = min(n_enough, max(1, int(np.sum(result.values > 0))))
        names = ("axes", "values", "variances", "bounds", "residuals")
        self._set(result._replace(**{name: getattr(result, name)[:n] for name in names}))

    @available_if(lambda self: self.solver in _GROWING)
    @engine.tracked_fit
    def partial_fit(self, X: RowsLike, y: object = None, *, checkpoints: CheckpointPath = None) -> Self:
        """Update the fit with more rows; only the new rows are read.

        Parameters
        ----------
        X, y, checkpoints : as for ``fit``
            More rows, as many columns as the first ones.

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
            X, options = self._prepare(X, one_pass=True)
            if not _is_share(self.n_components):
                self._set(spectrum(X, options))
                return self
            # The sketch size limits the number of components for a share.
            finds_all = options.solver in ("gram", "full")
            k = min(X.shape) if finds_all else min(*X.shape, options.sketch_size or MAX_SHARE_COMPONENTS)
            self._truncate_to_share(spectrum(X, options._replace(n_components=k), warns=False))
            return self
        X = validate_rows(self, X, reset=False)
        summary: Any = self.summary_
        if summary is None:
            name = "svd_solver" if "svd_solver" in self.get_params() else "solver"
            raise ValueError(
                f"solver {self.solver_!r} of fit cannot be updated after {self.n_passes_} pass(es): start with "
                f"partial_fit, or fit with {name}='frequent_directions', 'nystrom' or 'gram'"
            )
        options, n_rows = self._make_options(self.components_.dtype, one_pass=True), summary.n_rows + X.shape[0]
        # Only the new rows are read. The summary of the old rows determines the size and the centering.
        engine.expect_passes(1)
        size = getattr(summary, "size", None)
        summarize_block: Any = block_summarizer(options._replace(sketch_size=size), self.solver_)
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
        # (x - mean) V' = x V' - mean V' keeps sparse rows sparse. Far from the origin both products are in double.
        in_double = mean is not None and norm(mean) > FAR_MEAN * np.sqrt(np.sum(self.explained_variance_))
        if self.whiten:  # quotients by tiny deviations overflow single precision
            axes = axes / self._standard_deviations
            in_double |= is_whitened_in_double(axes, dtype)
        axes = np.ascontiguousarray(axes, dtype=np.float64 if in_double else dtype)
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
        is_lazy, kinds = engine.is_lazy(X), [np.float64, np.float32]
        X = engine.as_dask_rows(X, needs_sizes=False) if is_lazy else check_array(X, dtype=kinds)
        if X.shape[1] != len(self.components_):
            raise ValueError(
                f"X has {X.shape[1]} columns, but must have {len(self.components_)}, one for each component: pass the "
                "output of transform"
            )
        axes = self.components_
        if self.whiten:
            axes = (axes * self._standard_deviations[:, None]).astype(axes.dtype)
        restore = partial(_restore_rows, axes=axes, mean=self.mean_ if self.center else None)
        if not engine.is_lazy(X):
            return restore(X)
        dtype = np.result_type(X.dtype, self.components_.dtype, *([self.mean_.dtype] if self.center else []))
        return engine.map_rows(X, restore, n_columns=self.components_.shape[1], dtype=dtype, name="restore")

    @property
    def _standard_deviations(self) -> Doubles:
        """Standard deviations of the projections, 1 where they are 0, shape (n_components,)."""
        deviations = np.sqrt(self.explained_variance_)
        return np.where(deviations > 0.0, deviations, 1.0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _set(self, result: Spectrum) -> None:
        self.components_ = result.axes
        self.singular_values_ = np.sqrt(result.values)
        self.singular_value_intervals_ = np.sqrt(result.bounds[: len(result.values)])
        # Components and products are rounded.
        rounding = 8.0 * rounding_floor(result.values, result.axes.dtype)
        self.residuals_ = result.residuals + rounding * (result.values > 0.0)
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
        # Rounding may leave less scatter than the variances have together.
        scatter = max(result.scatter, float(variances.sum()))
        self.explained_variance_ratio_ = variances / (scatter if result.scatter > result.noise_floor else np.inf)
        n_rest = min(result.n_rows, result.axes.shape[1]) - len(result.axes)
        residual_variance = max(0.0, result.scatter / degrees - float(self.explained_variance_.sum()))
        self.noise_variance_ = residual_variance / n_rest if n_rest > 0 else 0.0


@np.errstate(under="ignore")
def _restore_rows(X: FloatArray, *, axes: FloatArray, mean: FloatArray | None) -> FloatArray:
    """Return rows in the original space from one block of projections."""
    rows = X @ axes
    return rows if mean is None else rows + mean
