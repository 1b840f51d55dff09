"""The estimators ``SketchedPCA`` (centered) and ``TruncatedSVD`` (not centered)."""

from dspectral.decomposition.base import Decomposition
from dspectral.decomposition.plan import Solver
from dspectral.inputs.parameters import RandomState
from dspectral.registry import saved


@saved
class SketchedPCA(Decomposition):
    """Principal component analysis of rows that do not fit in memory, in one pass, with a bound on the error.

    Parameters
    ----------
    n_components : int, default=2
        Number of components, k: at most the number of columns.
    center : bool, default=True
        Whether the column means are subtracted: by rank-one corrections, never by making rows dense.
    solver : str, default="auto"
        - ``"frequent_directions"``: one pass, a sketch of ``sketch_size`` rows, deterministic guarantee;
        - ``"median_frequent_directions"``: the same with the shrink schedule of the paper's figure 1, which keeps
          half as many rows: for comparisons with the paper;
        - ``"gram"``: one pass, exact, ``8 d^2`` bytes a task for d columns;
        - ``"nystrom"``: one pass, one random product; poor on the flat spectra of text;
        - ``"krylov"``: ``n_passes`` passes, close to exact from the third on;
        - ``"auto"``: ``"gram"`` up to 2,048 columns, else ``"frequent_directions"`` for one pass and
          ``"krylov"`` for more.
    n_passes : int, default=1
        Number of times that ``"krylov"`` reads the rows. Each pass but the last multiplies by
        ``sketch_size / (n_passes - 1)`` columns. Other solvers take one pass.
    sketch_size : int, optional
        Rows of the sketch, at least k; by default ``2 k + 10``. For ``"krylov"`` the columns of all products
        together, by default ``3 k + 10``.
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
        squared singular value is within it; ``relative`` is to ``energy_``.
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
    single-precision rows); the law is :func:`dspectral.engine.projected_memory`.

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

    def __init__(
        self,
        n_components: int = 2,
        *,
        center: bool = True,
        solver: Solver = "auto",
        n_passes: int = 1,
        sketch_size: int | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.n_components = n_components
        self.center = center
        self.solver = solver
        self.n_passes = n_passes
        self.sketch_size = sketch_size
        self.random_state = random_state


@saved
class TruncatedSVD(Decomposition):
    """Leading singular vectors of rows that do not fit in memory, not centered, close to exact in a few passes.

    Parameters
    ----------
    n_components : int, default=2
        Number of components, k: at most the number of columns.
    solver : str, default="auto"
        As for :class:`SketchedPCA`. With ``n_passes=1`` ``"auto"`` means Frequent Directions for more than 2,048
        columns.
    n_passes : int, default=5
        Number of times that ``"krylov"`` reads the rows.
    sketch_size : int, optional
        Rows of the sketch, by default ``2 k + 10``; for ``"krylov"`` the columns of all products together, by
        default ``3 k + 10``.
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
        Bound on the error of each squared singular value, as for :class:`SketchedPCA`.
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
    decomposition".

    Examples
    --------
    >>> import numpy as np
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
        random_state: RandomState = 0,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.n_passes = n_passes
        self.sketch_size = sketch_size
        self.random_state = random_state
