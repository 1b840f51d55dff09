"""scikit-learn faces of the spectrum: ``SketchedPCA`` (centred) and ``TruncatedSVD`` (not)."""

from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dspectral.decomposition.frequent_directions import Shrink
from dspectral.decomposition.spectrum import Plan, Solver, Spectrum, of_summary, spectrum, summary_of
from dspectral.engine import map_rows, summarize
from dspectral.inputs.parameters import RandomState, resolve_seed
from dspectral.inputs.rows import checked_rows, project
from dspectral.registry import saved
from dspectral.types import FloatArray


def _can_grow(estimator: "_Decomposition") -> bool:
    """Whether a solver of one pass was asked for; ``"auto"`` is known only when the data is."""
    return estimator.solver in ("auto", "frequent_directions", "gram")


class _Decomposition(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What the two faces share."""

    n_components: int
    center: bool
    solver: Solver
    n_passes: int
    sketch_size: int | None
    shrink: Shrink
    random_state: RandomState
    _ddof: int

    def _plan(self, dtype: Any) -> Plan:
        return Plan(
            self.n_components,
            solver=self.solver,
            n_passes=self.n_passes,
            sketch_size=self.sketch_size,
            shrink=self.shrink,
            center=self.center,
            seed=self.random_state_,
            dtype=np.float32 if dtype == np.float32 else np.float64,
        )

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_rows, n_columns)
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X holds NaN or infinity (the block, row and column are named), is not cut by rows, or has fewer
            than ``n_components`` independent directions (the largest usable number is named).
        """
        X = checked_rows(self, X, reset=True)
        self.random_state_ = resolve_seed(self.random_state)
        self._set(spectrum(X, self._plan(X.dtype)))
        return self

    @available_if(_can_grow)
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add rows to a fitted sketch: only the new ones are read.

        Parameters
        ----------
        X : as for ``fit``, of the same width
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the fitted solver needs more than one pass and so left nothing that can grow.
        """
        if not hasattr(self, "components_"):
            return self.fit(X)
        X = checked_rows(self, X, reset=False)
        plan = self._plan(self.components_.dtype)
        if self.summary_ is None:
            raise ValueError(
                f"solver {self.solver_!r} reads all rows {self.n_passes_} time(s) and leaves nothing that can "
                "grow: fit with solver='frequent_directions' or 'gram' to add rows later"
            )
        more = summarize(X, of=summary_of(plan, self.solver_), name="sketch")
        self._set(of_summary(self.summary_.merge(more), plan))
        return self

    def transform(self, X: Any) -> Any:
        """Project rows onto the components.

        Parameters
        ----------
        X : as for ``fit``, shape (n_rows, n_columns)

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n_rows, n_components)
        """
        check_is_fitted(self)
        X = checked_rows(self, X, reset=False)
        offset = self.mean_ @ self.components_.T if self.center else None
        to_axes = partial(project, axes=np.ascontiguousarray(self.components_.T), offset=offset)
        return map_rows(
            X, to_axes, n_columns=len(self.components_), dtype=self.components_.dtype, name="project"
        )

    def inverse_transform(self, X: Any) -> FloatArray:
        """Return the rows of which ``X`` (ndarray, shape (n_rows, n_components)) are the projections."""
        check_is_fitted(self)
        rows = np.asarray(X) @ self.components_
        return np.asarray(rows + self.mean_ if self.center else rows)

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
        variances = found.values.copy()
        total = found.energy
        if not self.center:  # the spectrum is about the origin, a variance about the mean
            variances -= found.n_rows * (found.axes @ found.mean) ** 2
            total -= found.n_rows * float(found.mean @ found.mean)
        self.explained_variance_ = np.maximum(variances, 0.0) / max(1, found.n_rows - self._ddof)
        # A total below the rounding of the energy is zero: all rows are equal, and no direction explains anything.
        varies = total > 1e-14 * max(1, found.n_rows) * found.energy
        self.explained_variance_ratio_ = np.maximum(variances, 0.0) / total if varies else variances * 0.0


@saved
class SketchedPCA(_Decomposition):
    """Principal component analysis of rows that do not fit in memory, in one pass, with a bound on the error.

    Parameters
    ----------
    n_components : int
        k.
    center : bool
        Whether the column means are subtracted: by rank-one corrections, never by making rows dense.
    solver : {"auto", "frequent_directions", "gram", "nystrom", "krylov"}
        - ``"frequent_directions"``: one pass, a sketch of ``sketch_size`` rows, deterministic guarantee;
        - ``"gram"``: one pass, exact, ``8 d^2`` bytes a task;
        - ``"nystrom"``: one pass, one random product; poor on the flat spectra of text;
        - ``"krylov"``: ``n_passes`` passes, close to exact from the third on;
        - ``"auto"``: ``"gram"`` up to 2,048 columns, else ``"frequent_directions"`` for one pass and
          ``"krylov"`` for more.
    n_passes : int
        How often ``"krylov"`` reads the rows: each pass multiplies by ``sketch_size / (n_passes - 1)`` columns.
    sketch_size : int, optional
        l, rows of the sketch, at least k; by default ``2 k + 10``, and for ``"krylov"`` ``3 k + 10``.
    shrink : {"full", "median"}
        Schedule of Frequent Directions; ``"median"`` is the paper's figure 1.
    random_state : int, RandomState, Generator or None
        Seed. The same seed and blocks give the same bits under every scheduler.

    Attributes
    ----------
    components_ : ndarray, shape (n_components, n_columns)
        Orthonormal rows; the entry largest in magnitude of each is positive.
    singular_values_ : ndarray of float64, shape (n_components,)
        Of the centred rows, from below.
    explained_variance_, explained_variance_ratio_ : ndarray of float64, shape (n_components,)
    mean_ : ndarray of float64, shape (n_columns,)
    certificate_ : Certificate
        ``absolute`` bounds the spectral norm of ``A'A - B'B`` (A the centred rows, B the sketch), so each
        squared singular value is within it; ``relative`` is to ``energy_``.
    energy_ : float
        Squared Frobenius norm of the centred rows.
    solver_ : str
    n_passes_ : int
        Reads of each block.
    n_samples_seen_ : int
    summary_ : FrequentDirections, Moments or None
        What ``partial_fit`` adds to.

    Notes
    -----
    Memory of a task: its block, and ``sketch_size * n_columns`` numbers for each summary (single precision for
    single-precision rows); the law is :func:`dspectral.engine.projected_memory`.

    References
    ----------
    Liberty 2013, "Simple and deterministic matrix sketching"; Kim, Stratos and Sarikaya 2016, "Scalable
    semi-supervised query classification using matrix sketching", section 2.

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((1000, 3)) * [3.0, 2.0, 1.0] + 5.0
    >>> pca = SketchedPCA(2).fit(rows)
    >>> pca.explained_variance_.round(1), pca.solver_, pca.n_passes_
    (array([8.8, 3.7]), 'gram', 1)
    """

    _ddof = 1

    def __init__(
        self,
        n_components: int = 2,
        *,
        center: bool = True,
        solver: Solver = "auto",
        n_passes: int = 1,
        sketch_size: int | None = None,
        shrink: Shrink = "full",
        random_state: RandomState = 0,
    ) -> None:
        self.n_components = n_components
        self.center = center
        self.solver = solver
        self.n_passes = n_passes
        self.sketch_size = sketch_size
        self.shrink = shrink
        self.random_state = random_state


@saved
class TruncatedSVD(_Decomposition):
    """Leading singular vectors of rows that do not fit in memory, not centred, close to exact in a few passes.

    Parameters
    ----------
    n_components, solver, sketch_size, shrink, random_state
        As for :class:`SketchedPCA`.
    n_passes : int
        How often ``"krylov"`` reads the rows; one, with ``solver="auto"``, means Frequent Directions.

    Attributes
    ----------
    components_, singular_values_, explained_variance_, explained_variance_ratio_, mean_, certificate_, energy_,
    solver_, n_passes_, n_samples_seen_, summary_
        As for :class:`SketchedPCA`, of the rows as they are; variances are about the mean.

    References
    ----------
    Musco and Musco 2015, "Randomized block Krylov methods for stronger and faster approximate singular value
    decomposition".

    Examples
    --------
    >>> from scipy import sparse
    >>> rows = sparse.csr_array(np.diag([3.0, 2.0, 1.0]))
    >>> TruncatedSVD(2).fit(rows).singular_values_
    array([3., 2.])
    """

    _ddof = 0
    center = False

    def __init__(
        self,
        n_components: int = 2,
        *,
        solver: Solver = "auto",
        n_passes: int = 5,
        sketch_size: int | None = None,
        shrink: Shrink = "full",
        random_state: RandomState = 0,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.n_passes = n_passes
        self.sketch_size = sketch_size
        self.shrink = shrink
        self.random_state = random_state
