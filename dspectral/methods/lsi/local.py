"""Local latent semantic indexing: a space of its own for each class, and a classifier in it."""

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from dspectral.engine import is_lazy, map_rows
from dspectral.inputs.class_labels import ClassRows, class_rows
from dspectral.inputs.labelled_rows import LabelledStreams, labelled_streams
from dspectral.inputs.rows import checked_rows
from dspectral.methods.lsi.linear_svm import Training, linear_machines
from dspectral.methods.lsi.local_regions import (
    Region,
    checked_members,
    local_spaces,
    relevant_regions,
    weighted_regions,
)
from dspectral.methods.lsi.squared_hinge import Relevancy, products
from dspectral.registry import saved
from dspectral.types import Rows, is_sparse


@saved
class LocalLSI(ClassifierMixin, TransformerMixin, BaseEstimator):
    """Classify documents, each class in a space that the SVD finds of the documents near it.

    ``"rds"``: the space of a class is that of its own documents. ``"lrw"``: a first classifier on all columns gives
    each document a relevancy r to the class, and the document is multiplied by ``f = 1 / (1 + exp(-a (r + b)))``;
    the ``gamma m`` documents with the highest r, for a class with m, make the space. All documents are folded
    into the space (new ones too, multiplied by their f), and a linear SVM tells the class from all others there.

    Parameters
    ----------
    n_components : int
        k. A class whose documents have fewer independent directions has a space of as many as there are.
    method : {"rds", "lrw"}
    gamma : float
        Size of a region of ``"lrw"``, in units of the class.
    a, b : float
        Slope and shift of its weights; ``a`` is above 0.
    C : float
        Of the SVMs, with squared hinge loss and l2 penalty, the intercept penalised as well.
    initial_C : float
        Of the first classifier of ``"lrw"``, such an SVM too.
    tol : float
        Where training stops: the largest entry of the gradient, in units of that at the start.
    max_passes : int
        Passes that training may take; a ConvergenceWarning says that they were too few.
    fan_in : int
        Neighbours that a merge takes.
    random_state : int
        The same seed and blocks give the same bits under every scheduler.

    Attributes
    ----------
    classes_ : ndarray, shape (L,)
    exclusive_ : bool
        Whether labels were given, one a document, and not an indicator matrix.
    components_ : list of ndarray, shape (k_c, d)
        Orthonormal rows for each class; the entry largest in magnitude of each is positive.
    coef_ : ndarray, shape (L, d)
        The SVMs in terms of columns: a class's score is ``f x'coef + intercept``.
    intercept_ : ndarray, shape (L,)
    relevancy_ : Relevancy or None
        The first classifier, with a and b.
    region_sizes_ : ndarray of int64, shape (L,)
        Documents behind each space.
    n_passes_ : int
        Reads of each block: one for the spaces (more, if there are over a million documents in them), one for
        the relevancies of ``"lrw"``, and one for each gradient of the SVMs.
    n_features_in_ : int

    Notes
    -----
    The spaces are a task a class, which holds the class's region alone and is exact. No matrix of all documents is
    made: not of words, and not of features, as ``w'(V x) = x'(V'w)``. In training a task holds its block, ``8 L``
    bytes for each row of it and ``8 L d`` some three times; this process ``8 L k`` (of the first classifier
    ``8 L d``) some twenty times. The model holds ``8 L k d``; labels in memory take theirs.

    References
    ----------
    Hull 1994, "Improving text retrieval for the routing problem using latent semantic indexing"; Liu and others
    2004, "Improving text classification using local latent semantic indexing"; Kolomeitsev and Shagadatov, "Hybrid
    latent semantic indexing", section 4.

    Examples
    --------
    >>> R = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> local = LocalLSI(1).fit(R, ["a", "b", "a", "b"])
    >>> local.predict(R), local.transform(R).shape
    (array(['a', 'b', 'a', 'b'], dtype='<U1'), (4, 2))
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        method: Literal["rds", "lrw"] = "rds",
        gamma: float = 3.0,
        a: float = 5.0,
        b: float = 0.2,
        C: float = 1.0,
        initial_C: float = 1.0,
        tol: float = 1e-4,
        max_passes: int = 1000,
        fan_in: int = 2,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.gamma = gamma
        self.a = a
        self.b = b
        self.C = C
        self.initial_C = initial_C
        self.tol = tol
        self.max_passes = max_passes
        self.fan_in = fan_in
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the spaces, and train the classifiers in them.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n, d)
        y : array-like of labels, shape (n,), or indicator matrix (array, SciPy sparse or Dask), shape (n, L)
            A document without a class has the label None, or an empty row. By default the labels of a store.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a class has none, one or all of the documents, no class has ``n_components`` independent directions
            (the largest usable number is named), a parameter is out of its range, or X holds NaN or infinity.
        """
        self._check()
        y = getattr(X, "labels", None) if y is None else y
        if y is None:
            raise ValueError("this LocalLSI requires y to be passed, but the target y is None")
        X = checked_rows(self, X, reset=True)
        known = class_rows(_checked_labels(y), X.shape[0])
        rows = checked_members(known, X.shape[0])
        data = labelled_streams(X, known.indicator)
        regions, passes = self._regions(data, rows)
        self.components_, n_gathered = local_spaces(
            X, regions, self.n_components, fan_in=self.fan_in, seed=self.random_state
        )
        training = Training(self.C, self.tol, self.max_passes, self.fan_in)
        machines = linear_machines(data, training, spaces=self.components_, relevancy=self.relevancy_)
        self._set(known, regions)
        self.coef_, self.intercept_ = np.ascontiguousarray(machines.axes.T), machines.offsets
        self.n_passes_ = passes + n_gathered + machines.n_passes
        return self

    def decision_function(self, X: Any) -> Any:
        """Score each class: how far beyond the margin of its SVM.

        Parameters
        ----------
        X : as for ``fit``, shape (n, d)

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n, L)
            For two labels, one a document, shape (n,): the second's score less the first's.
        """
        X = self._checked(X)
        if self._binary:
            return map_rows(X, self._difference, n_columns=1, name="score")[:, 0]
        return map_rows(X, self._scores, n_columns=len(self.classes_), name="score")

    def predict(self, X: Any) -> Any:
        """Return the class with the best score, or, after a fit to an indicator matrix, all with one above 0.

        Parameters
        ----------
        X : as for ``fit``, shape (n, d)

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n,), or csr_array (Dask array of them), shape (n, L)
        """
        X = self._checked(X)
        if self.exclusive_:
            return map_rows(X, self._best, n_columns=1, dtype=self.classes_.dtype, name="predict")[:, 0]
        return map_rows(X, self._above, n_columns=len(self.classes_), sparse_output=True, name="predict")

    def transform(self, X: Any) -> Any:
        """Fold documents into all spaces, one beside the other.

        Parameters
        ----------
        X : as for ``fit``, shape (n, d)

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n, sum of all k_c)
        """
        X = self._checked(X)
        width = sum(len(axes) for axes in self.components_)
        return map_rows(X, self._folded, n_columns=width, name="fold-in")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def _binary(self) -> bool:
        return self.exclusive_ and len(self.classes_) == 2

    def _check(self) -> None:
        if self.method not in ("rds", "lrw"):
            raise ValueError(f"method is {self.method!r}, but must be 'rds' or 'lrw'")
        for name in ("gamma", "a", "C", "initial_C", "tol", "max_passes"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be above 0")

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        return checked_rows(self, X, reset=False)

    def _regions(self, data: LabelledStreams, rows: list[NDArray[np.int64]]) -> tuple[list[Region], int]:
        """Return each class's region, and the passes over the rows that they took."""
        self.relevancy_: Relevancy | None = None
        if self.method == "rds":
            return relevant_regions(rows), 0
        training = Training(self.initial_C, self.tol, self.max_passes, self.fan_in)
        first = linear_machines(data, training)
        self.relevancy_ = Relevancy(first.axes, first.offsets, float(self.a), float(self.b))
        return weighted_regions(data, rows, self.relevancy_, self.gamma, self.fan_in), first.n_passes + 1

    def _set(self, known: ClassRows, regions: list[Region]) -> None:
        self.classes_, self.exclusive_ = known.classes, known.exclusive
        self.region_sizes_ = np.array([len(region.rows) for region in regions])

    def _weights(self, rows: Rows) -> Any:
        """Return the weight of each row in each class, or 1 for all."""
        return 1.0 if self.relevancy_ is None else self.relevancy_.weights(rows)

    def _scores(self, rows: Rows) -> NDArray[np.float64]:
        return np.asarray(products(rows, self.coef_.T) * self._weights(rows) + self.intercept_)

    def _difference(self, rows: Rows) -> NDArray[np.float64]:
        return np.diff(self._scores(rows), axis=1)

    def _best(self, rows: Rows) -> NDArray[Any]:
        return np.asarray(self.classes_[np.argmax(self._scores(rows), axis=1)][:, None])

    def _above(self, rows: Rows) -> sparse.csr_array:
        return sparse.csr_array((self._scores(rows) > 0).astype(np.float64))

    def _folded(self, rows: Rows) -> NDArray[np.float64]:
        weights = np.broadcast_to(self._weights(rows), (rows.shape[0], len(self.classes_)))
        parts = [products(rows, np.ascontiguousarray(axes.T)) for axes in self.components_]
        return np.concatenate([weights[:, [j]] * part for j, part in enumerate(parts)], axis=1)


def _checked_labels(y: Any) -> Any:
    """Return labels; a column of them is flattened, with scikit-learn's warning."""
    if is_lazy(y) or is_sparse(y):
        return y
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = column_or_1d(y, warn=True)
    if y.ndim == 1 and y.dtype.kind == "f" and np.all(np.isfinite(y)):
        check_classification_targets(y)
    return y
