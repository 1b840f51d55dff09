"""The estimators ``PCA`` and ``SketchedPCA`` (centered) and ``TruncatedSVD`` (not centered)."""

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from dspectral.decomposition.base import EXACT, Decomposition
from dspectral.decomposition.spectrum import SOLVERS, Solver
from dspectral.parameters import RandomState, check_flag, check_integer, check_option
from dspectral.registry import register_class
from dspectral.types import Doubles, RowsLike


@register_class()
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
        - ``"frequent_directions"``: one pass, a sketch of ``sketch_size`` rows with an error bound;
        - ``"median_frequent_directions"``: the same with the shrink schedule of figure 1 of Kim et al. 2016, which
          keeps half as many rows;
        - ``"gram"``: one pass, exact, ``8 d^2`` bytes per task for d columns;
        - ``"full"``: one pass of QR decompositions, exact also for singular values far below the largest, ``8 d^2``
          bytes per task; above 2,048 columns ``"in_memory"``, or ``"krylov"`` until all residuals are small;
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
        Maximum share of the energy lost relative to the best rank k. ``"krylov"`` takes passes, with products of
        ``sketch_size`` columns (by default ``2 k + 30``), until ``certificate_.lost`` is at most `tol`. A warning is
        emitted if ``n_passes`` do not suffice. 0 means a fixed number of passes.
    random_state : int, RandomState, Generator or None, default=0
        Seed. The same integer and the same blocks give the same bits under every scheduler.

    Attributes
    ----------
    components_ : ndarray, shape (n_components, n_columns)
        Orthonormal rows; the entry of largest magnitude of each is positive. Components beyond the rank are zero.
    singular_values_ : ndarray of float64, shape (n_components,)
        Singular values of the centered rows, each at most the true value up to rounding.
    singular_value_intervals_ : ndarray of float64, shape (n_components, 2)
        Lower and upper bound of each true singular value.
    residuals_ : ndarray of float64, shape (n_components,)
        Bound on ``|A'A x - s^2 x|`` for each component x with its singular value s.
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


@register_class()
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
        Maximum share of the energy lost relative to the best rank k, as for :class:`SketchedPCA`.
    algorithm : {"randomized", "arpack"}, default="randomized"
        Solver name of scikit-learn. ``"arpack"`` takes passes until all residuals are small.
    n_iter : int, optional
        Same as ``n_passes - 1``, under scikit-learn's name.
    n_oversamples : int, optional
        Alternative to `sketch_size`: each product has ``n_components + n_oversamples`` columns.
    power_iteration_normalizer : {"auto", "QR", "LU", "none"}, default="auto"
        No effect, for compatibility with scikit-learn: each product is orthonormalized.
    random_state : int, RandomState, Generator or None, default=0
        Seed. The same integer and the same blocks give the same bits under every scheduler.

    Attributes
    ----------
    components_, singular_values_, singular_value_intervals_, residuals_, energy_, certificate_
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


@register_class()
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
        ``"covariance_eigh"`` and ``"arpack"`` are ``"auto"`` with passes until all residuals are small, if `tol` is 0.
    tol : float, default=0.0
        Maximum share of the energy lost relative to the best rank k, as for :class:`SketchedPCA`.
    iterated_power : int or "auto", default="auto"
        Same as ``n_passes - 1``, under scikit-learn's name, used if `n_passes` is None.
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
    singular_value_intervals_, residuals_, certificate_, energy_, solver_, n_passes_, n_samples_seen_, random_state_
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
        return covariance

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
        return -0.5 * (np.einsum("ij,ij->i", rows @ precision, rows) + constant)

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
        return "auto" if self.svd_solver in ("randomized", *EXACT) else self.svd_solver  # type: ignore[return-value]

    @property
    def _scikit_solver(self) -> str:  # type: ignore[override]
        check_flag("copy", self.copy)
        return str(check_option("svd_solver", self.svd_solver, (*SOLVERS, "randomized", *EXACT)))

    @property
    def _n_iter(self) -> int | None:  # type: ignore[override]
        power = self.iterated_power
        return None if power == "auto" else check_integer("iterated_power", power, at_least=0)
