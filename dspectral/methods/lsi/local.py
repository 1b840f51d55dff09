"""Local latent semantic indexing: a space of its own for each class, and a classifier in it."""

from functools import partial
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from dspectral.engine import collect_rows, emits_events, is_lazy, map_rows
from dspectral.inputs.fitted_facts import FittedFactsMixin
from dspectral.inputs.labels import (
    Classes,
    LabelledStreams,
    admit_labels,
    class_rows,
    label_array,
    label_names,
    labelled_streams,
)
from dspectral.inputs.parameters import (
    MAX_REAL,
    RandomState,
    check_integer,
    check_option,
    check_real,
    resolve_seed,
)
from dspectral.inputs.rows import LazyOutputMixin, checked_rows
from dspectral.inputs.top_terms import TopTermsMixin
from dspectral.methods.lsi.linear_svm import PAIRS, Relevancy, Training, products, train_linear_svms
from dspectral.methods.lsi.local_regions import (
    LocalRecipe,
    Region,
    local_spaces,
    members_of_classes,
    row_bytes,
    weighted_regions,
)
from dspectral.registry import Array, has_arrays, saved
from dspectral.types import CSRRows, KeepPath, Rows, RowsLike, is_sparse

MAX_COMPONENTS = 25
"""Most components that ``"auto"`` takes."""
INITIAL_C = 1.0
"""C of the first classifier, which gives the relevancies."""
MAX_ITER = 1000
"""Passes that a training may take."""
N_COPIES = 2 * PAIRS + 6
"""Arrays of the machines' coefficients that a training holds at once."""


class LocalMachines(NamedTuple):
    """A space (k_c, d) and a linear machine for each class, ``coef`` (L, d), and the weight f of a row in each."""

    components: list[NDArray[np.float64]]
    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    relevancy: Relevancy | None

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        """Return ``f x'coef + intercept``, shape (n, L)."""
        # f x'V'w + c: weighting a row's product is weighting the row.
        return np.asarray(products(rows, self.coef.T) * self._weights(rows) + self.intercept)

    def score_difference(self, rows: Rows) -> NDArray[np.float64]:
        """Return the second class's score less the first's, shape (n, 1)."""
        return np.diff(self.scores(rows), axis=1)

    def predict_class(self, rows: Rows, *, classes: NDArray[Any]) -> NDArray[Any]:
        """Return the class with the highest score of each row, shape (n, 1)."""
        return np.asarray(classes[np.argmax(self.scores(rows), axis=1)][:, None])

    def predict_indicator(self, rows: Rows) -> CSRRows:
        """Return ones where a score is above 0, shape (n, L)."""
        return sparse.csr_array((self.scores(rows) > 0).astype(np.float64))

    def fold_in(self, rows: Rows) -> NDArray[np.float64]:
        """Return the coordinates in all spaces, one beside the other, shape (n, sum of all k_c)."""
        # Without relevancies the weight is the number 1, which stands for all documents and classes.
        weights = np.broadcast_to(self._weights(rows), (rows.shape[0], len(self.components)))
        parts = [products(rows, np.ascontiguousarray(axes.T)) for axes in self.components]
        return np.concatenate([weights[:, [j]] * part for j, part in enumerate(parts)], axis=1)

    def _weights(self, rows: Rows) -> NDArray[np.float64] | float:
        return 1.0 if self.relevancy is None else self.relevancy.weights(rows)


@has_arrays(
    {
        "classes_": Array("classes_", ""),
        "components_": Array("* n_features_in_", each=True),
        "coef_": Array("classes_ n_features_in_"),
        "intercept_": Array("classes_"),
        "region_sizes_": Array("classes_", "i", at_least=0),
        "relevancy_.axes": Array("n_features_in_ classes_", optional=True),
    }
)
@saved
class LocalLSI(
    FittedFactsMixin,
    TopTermsMixin,
    LazyOutputMixin,
    ClassNamePrefixFeaturesOutMixin,
    ClassifierMixin,
    TransformerMixin,
    BaseEstimator,
):
    """Classify documents, each class in a space that the SVD finds of the documents near it.

    ``"rds"``: the space of a class is that of its own documents. ``"lrw"``: a first classifier on all columns gives
    each document a relevancy r to the class, and the document is multiplied by ``f = 1 / (1 + exp(-a (r + b)))``;
    the ``gamma m`` documents with the highest r, for a class with m, make the space. All documents are folded
    into the space (new ones too, multiplied by their f), and a linear SVM tells the class from all others there.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Largest number of components k of a class's space, or as many as its documents have directions; ``"auto"`` is
        25.
    method : {"rds", "lrw"}, default="lrw"
        Which documents make the space of a class: its own, or the most relevant ones, weighted.
    gamma : float, default=3.0
        Size of a region of ``"lrw"``, divided by that of the class; above 0.
    C : float, default=3.0
        Weight of the squared hinge loss of the SVMs against the l2 penalty, also of the intercept; above 0.
    recipe : LocalRecipe, optional
        Weights of ``"lrw"``, and where training stops: :class:`~dspectral.LocalRecipe`.
    random_state : int, RandomState, Generator or None, default=0
        Seed. The same seed and blocks give the same bits under every scheduler.

    Attributes
    ----------
    classes_ : ndarray, shape (L,)
        Labels in their order; for an indicator matrix its column names, or numbers where it has none.
    exclusive_ : bool
        Whether labels were given, one a document, and not an indicator matrix.
    indicator_dtype_ : str or None
        Type of the dense indicator matrix that :meth:`predict` returns; None where y was labels, sparse or lazy.
    components_ : list of ndarray, shape (k_c, d)
        Orthonormal rows for each class; the entry largest in magnitude of each is positive.
    coef_ : ndarray, shape (L, d)
        The SVMs in terms of columns: a class's score is ``f x'coef + intercept``.
    intercept_ : ndarray, shape (L,)
        Intercepts of the SVMs.
    relevancy_ : Relevancy or None
        The first classifier, with a and b.
    region_sizes_ : ndarray of int64, shape (L,)
        Number of documents behind each space.
    random_state_ : int
        Seed that the fit used.
    n_iter_ : int
        Passes of the training of the last SVMs.
    n_passes_ : int
        Reads of each block: one or more for the spaces, one for the relevancies of ``"lrw"``, and one for each
        gradient.
    n_features_in_ : int
        Number of columns.

    Notes
    -----
    The spaces are a task a class, which holds its region, and is exact. Memory: three times the bytes of the regions'
    rows, as many at a time as ``dspectral.memory-limit`` (1 GiB) has room for; a region that has none is refused
    before it is gathered. Of Dask arrays of sparse blocks regions of a million documents are gathered.

    In training a task holds its block, ``8 L`` bytes a row and ``8 L d`` some three times; this process ``8 L k``
    (for the first classifier ``8 L d``) some twenty times. The model holds ``8 L k d``.

    A class that none or all of the documents are in, as happens in small folds, has no space and a constant score.

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
        n_components: int | Literal["auto"] = "auto",
        *,
        method: Literal["rds", "lrw"] = "lrw",
        gamma: float = 3.0,
        C: float = 3.0,
        recipe: LocalRecipe | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.gamma = gamma
        self.C = C
        self.recipe = recipe
        self.random_state = random_state

    @emits_events
    def fit(self, X: RowsLike, y: "Classes | None" = None, *, keep: KeepPath = None) -> Self:
        """Find the spaces, and train the classifiers in them.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n, d)
            Documents.
        y : array-like of labels, shape (n,), or indicator matrix (array, SciPy sparse or Dask), shape (n, L)
            Classes of the documents. A document without a class has the label None, or an empty row. By default the
            labels of a store.
        keep : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.keep` takes it.

        Returns
        -------
        LocalLSI
            The estimator itself.

        Raises
        ------
        ValueError
            If all documents have the same label, a parameter is out of its range, or X holds NaN or infinity.
        MemoryError
            If ``dspectral.memory-limit`` is set in Dask's configuration, and the region of a class takes more.
        """
        # Four steps: which documents make each class's region (LRW trains a first classifier for it), the region's
        # singular vectors, machines in these spaces, and the machines taken back to columns.
        recipe = self._check()
        y = getattr(X, "labels", None) if y is None else y
        if y is None:
            raise ValueError("this LocalLSI requires y to be passed, but the target y is None")
        given, X = X, checked_rows(self, X, reset=True)
        target = label_array(y)
        if target.ndim == 1 and target.dtype.kind == "f" and np.all(np.isfinite(target)):
            check_classification_targets(target)  # NaN is refused below, by name
        known = class_rows(target, X.shape[0])
        admit_labels(len(known.classes), X.shape[1], N_COPIES)
        rows = members_of_classes(known, X.shape[0])
        data = labelled_streams(X, known.indicator)
        regions, n_first = self._regions(data, rows, recipe)
        auto = max(1, min(MAX_COMPONENTS, X.shape[1], max(len(region.rows) for region in regions)))
        self.components_, n_gathered = local_spaces(
            X,
            regions,
            auto if self.n_components == "auto" else self.n_components,
            seed=self.random_state_,
            row_nbytes=row_bytes(given, X),
        )
        machines = train_linear_svms(
            data,
            Training(float(self.C), recipe.tol, MAX_ITER),
            spaces=self.components_,
            relevancy=self.relevancy_,
        )
        self.exclusive_ = known.exclusive
        self.classes_ = known.classes if known.exclusive else label_names(y, len(known.classes))
        dense = not (known.exclusive or is_lazy(target) or is_sparse(target))
        self.indicator_dtype_ = target.dtype.str if dense else None
        self.region_sizes_ = np.array([len(region.rows) for region in regions])
        self.coef_, self.intercept_ = np.ascontiguousarray(machines.axes.T), machines.offsets
        self.n_iter_ = machines.n_passes
        self.n_passes_ = n_first + n_gathered + machines.n_passes
        return self

    def _check(self) -> LocalRecipe:
        """Refuse parameters that make no sense, resolve the seed, and return the recipe."""
        recipe = LocalRecipe() if self.recipe is None else self.recipe
        if not isinstance(recipe, LocalRecipe):
            raise TypeError(f"recipe is {self.recipe!r:.60}, but it must be a LocalRecipe or None")
        if self.n_components != "auto":
            check_integer("n_components", self.n_components, at_least=1)
        check_option("method", self.method, ("rds", "lrw"))
        for name, value in {"gamma": self.gamma, "C": self.C, "a": recipe.a, "tol": recipe.tol}.items():
            if check_real(name, value, at_most=MAX_REAL) <= 0:
                raise ValueError(f"{name} is {value}, but must be above 0")
        self.random_state_ = resolve_seed(self.random_state)
        # Numbers of NumPy's narrow types would overflow in products.
        shift = check_real("b", recipe.b, at_least=-MAX_REAL, at_most=MAX_REAL)
        return LocalRecipe(float(recipe.a), shift, float(recipe.tol))

    def _regions(
        self, data: LabelledStreams, rows: list[NDArray[np.int64]], recipe: LocalRecipe
    ) -> tuple[list[Region], int]:
        """Return each class's region, and the passes over the rows that they took."""
        self.relevancy_: Relevancy | None = None
        if self.method == "rds":
            return [Region(members, np.ones(len(members))) for members in rows], 0
        first = train_linear_svms(data, Training(INITIAL_C, recipe.tol, MAX_ITER))
        self.relevancy_ = Relevancy(first.axes, first.offsets, recipe.a, recipe.b)
        return weighted_regions(data, rows, self.relevancy_, float(self.gamma)), first.n_passes + 1

    def _term_weights(self) -> NDArray[np.float64]:
        return self.coef_

    def decision_function(self, X: RowsLike) -> Any:
        """Score each class by the output of its SVM.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n, d)
            Documents.

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n, L)
            Scores, above 0 where a document is taken to be in the class. For two labels, one a document, shape
            (n,): the second's score less the first's.
        """
        X = self._check_input(X)
        # Of two classes scikit-learn wants one score for each document, above 0 for the second class.
        if self.exclusive_ and len(self.classes_) == 2:
            return map_rows(X, self._machines.score_difference, n_columns=1, name="score")[:, 0]
        return map_rows(X, self._machines.scores, n_columns=len(self.classes_), name="score")

    def predict(self, X: RowsLike) -> Any:
        """Return the class with the best score, or, after a fit to an indicator matrix, all with one above 0.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n, d)
            Documents.

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n,), or an indicator matrix, shape (n, L)
            Labels; or an indicator matrix, dense where that of the fit was, CSR where it was sparse or lazy. Lazy
            documents give a Dask array of CSR blocks.
        """
        X = self._check_input(X)
        if self.exclusive_:
            best = partial(self._machines.predict_class, classes=self.classes_)
            return map_rows(X, best, n_columns=1, dtype=self.classes_.dtype, name="predict")[:, 0]
        found = map_rows(
            X,
            self._machines.predict_indicator,
            n_columns=len(self.classes_),
            sparse_output=True,
            name="predict",
        )
        dense = self.indicator_dtype_ is not None and not is_lazy(X)
        return found.toarray().astype(self.indicator_dtype_) if dense else found

    def score(self, X: RowsLike, y: "Classes | None" = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of documents whose label, or whole set of labels, is predicted.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n, d)
            Documents.
        y : array-like of labels, shape (n,), or indicator matrix, shape (n, L), optional
            True classes; by default the labels of a store.
        sample_weight : array-like, shape (n,), optional
            Weight of each document.

        Returns
        -------
        float
            Accuracy; for an indicator matrix subset accuracy, as of all classifiers of scikit-learn.
        """
        y = getattr(X, "labels", None) if y is None else y
        found = collect_rows(self.predict(X))
        return float(accuracy_score(collect_rows(y), found, sample_weight=sample_weight))

    def transform(self, X: RowsLike) -> Any:
        """Fold documents into all spaces, one beside the other.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n, d)
            Documents.

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n, sum of all k_c)
            Coordinates in the space of the first class, then in that of the second, and so on.
        """
        X = self._check_input(X)
        return map_rows(X, self._machines.fold_in, n_columns=self._n_features_out, name="fold-in")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return sum(len(axes) for axes in self.components_)

    def _check_input(self, X: RowsLike) -> Any:
        check_is_fitted(self)
        return checked_rows(self, X, reset=False)

    @property
    def _machines(self) -> LocalMachines:
        return LocalMachines(self.components_, self.coef_, self.intercept_, self.relevancy_)
