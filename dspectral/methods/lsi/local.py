"""Local latent semantic indexing: one SVD space and one linear SVM for each class."""

from functools import partial
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from dspectral.engine import collect_rows, is_lazy, map_rows, tracked_fit
from dspectral.inputs.labels import (
    Classes,
    LabeledStreams,
    as_label_array,
    check_label_memory,
    encode_classes,
    encode_label_lists,
    get_label_names,
    pair_with_labels,
)
from dspectral.inputs.rows import RowTransformer, validate_rows
from dspectral.inputs.top_terms import TopTermsMixin
from dspectral.methods.lsi.linear_svm import MAX_PAIRS, Relevancy, multiply_rows, train_linear_svms
from dspectral.methods.lsi.local_regions import (
    LocalRecipe,
    Region,
    decompose_regions,
    find_weighted_regions,
    list_class_members,
    mean_row_nbytes,
)
from dspectral.parameters import (
    MAX_REAL,
    RandomState,
    check_integer,
    check_option,
    check_real,
    resolve_recipe,
    resolve_seed,
)
from dspectral.registry import register_class
from dspectral.types import AnyArray, CheckpointPath, CSRRows, Doubles, Int64s, Rows, RowsLike, is_sparse

MAX_COMPONENTS = 25
"""Maximum number of components for ``"auto"``."""
MAX_ITER = 1000
"""Maximum number of passes of a training."""
INITIAL_C = 1.0
"""C of the first classifier, which computes the relevancies."""
N_COPIES = 2 * MAX_PAIRS + 6
"""Arrays of SVM coefficients in memory during training."""


class LocalSVMs(NamedTuple):
    """Space (k_c, d) and linear SVM of each class, ``coef`` (L, d), and the model of the weights f."""

    components: list[Doubles]
    coef: Doubles
    intercept: Doubles
    relevancy: Relevancy | None

    def scores(self, rows: Rows) -> Doubles:
        """Return ``f x'coef + intercept``, shape (n, L)."""
        # f x'V'w + c: weighting the product equals weighting the row.
        return multiply_rows(rows, self.coef.T) * self._weights(rows) + self.intercept

    def score_difference(self, rows: Rows) -> Doubles:
        """Return the score of the second class minus that of the first, shape (n, 1)."""
        return np.diff(self.scores(rows), axis=1)

    def predict_class(self, rows: Rows, *, classes: AnyArray) -> AnyArray:
        """Return the class with the highest score of each row, shape (n, 1)."""
        return classes[np.argmax(self.scores(rows), axis=1)][:, None]

    def predict_indicator(self, rows: Rows) -> CSRRows:
        """Return an indicator of the positive scores, shape (n, L)."""
        return sparse.csr_array((self.scores(rows) > 0).astype(np.float64))

    def fold_in(self, rows: Rows) -> Doubles:
        """Return the concatenated coordinates in all spaces, shape (n, sum of all k_c)."""
        # Without relevancies the weight is the scalar 1.
        weights = np.broadcast_to(self._weights(rows), (rows.shape[0], len(self.components)))
        parts = [multiply_rows(rows, np.ascontiguousarray(axes.T)) for axes in self.components]
        return np.concatenate([weights[:, [j]] * part for j, part in enumerate(parts)], axis=1)

    def _weights(self, rows: Rows) -> Doubles | float:
        return 1.0 if self.relevancy is None else self.relevancy.weights(rows)


@register_class(
    {
        "classes_": "classes_",
        "coef_": "classes_ n_features_in_",
        "intercept_": "classes_",
        "region_sizes_": "classes_",
        "relevancy_.axes": "n_features_in_ classes_",
    }
)
class LocalLSI(TopTermsMixin, ClassifierMixin, RowTransformer, BaseEstimator):
    """Classify documents with one truncated SVD and one linear SVM for each class.

    ``method="rds"`` decomposes the documents of the class. ``method="lrw"`` first trains a classifier on all columns,
    which computes a relevancy r of each document to the class. It multiplies documents by
    ``f = 1 / (1 + exp(-a (r + b)))`` and decomposes the ``gamma m`` documents of highest r, for a class of m
    documents. All documents, also new ones, are folded into the space, where a linear SVM separates the class from
    the others.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of components k of a class's space, or fewer where its documents have a lower rank; ``"auto"`` is 25.
    method : {"rds", "lrw"}, default="lrw"
        Documents that define the space of a class: its own, or the most relevant ones, weighted.
    gamma : float, default=3.0
        Number of documents of a region of ``"lrw"``, as a multiple of those of the class; above 0.
    C : float, default=3.0
        Weight of the squared hinge loss against the l2 penalty, which includes the intercept; above 0.
    recipe : LocalRecipe, optional
        Further options: :class:`~dspectral.LocalRecipe`.
    random_state : int, RandomState, Generator or None, default=0
        Seed. The same seed and blocks give the same bits under every scheduler.

    Attributes
    ----------
    classes_ : ndarray, shape (L,)
        Sorted labels; for an indicator matrix its column names, or else column numbers.
    exclusive_ : bool
        Whether y held one label per document rather than an indicator matrix.
    indicator_dtype_ : str or None
        Dtype of the dense indicator matrix that :meth:`predict` returns; None where y was labels, sparse or lazy.
    components_ : list of ndarray, shape (k_c, d)
        Orthonormal rows for each class; the entry largest in magnitude of each is positive.
    coef_ : ndarray, shape (L, d)
        Coefficients of the SVMs for the columns of X: the score of a class is ``f x'coef + intercept``.
    intercept_ : ndarray, shape (L,)
        Intercepts of the SVMs.
    relevancy_ : Relevancy or None
        The first classifier, with a and b.
    region_sizes_ : ndarray of int64, shape (L,)
        Number of documents that define each space.
    random_state_ : int
        Seed that the fit used.
    n_iter_ : int
        Number of passes that trained the final SVMs.
    n_passes_ : int
        Number of passes: one or more for the spaces, one for the relevancies of ``"lrw"``, and one for each gradient.
    n_features_in_ : int
        Number of columns.

    Notes
    -----
    Each space is an exact SVD in one task, which holds its region. Memory: three times the bytes of the rows of as
    many regions as fit in ``dspectral.memory-limit`` (1 GiB). A region that does not fit raises an error before it is
    read. The size of sparse rows in Dask arrays is unknown; a pass then gathers up to a million documents.

    A training task holds its block, ``8 L`` bytes a row and three arrays of ``8 L d`` bytes. The client process holds
    about twenty arrays of ``8 L k`` bytes (``8 L d`` for the first classifier), and the model ``8 L k d`` bytes.

    A class with no documents or with all documents, as in small folds, has no space and a constant score.

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

    @tracked_fit
    def fit(self, X: RowsLike, y: "Classes | None" = None, *, checkpoints: CheckpointPath = None) -> Self:
        """Find the spaces, and train the classifiers in them.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n, d)
            Documents.
        y : array-like of labels, shape (n,), lists of labels, or indicator matrix (array, sparse or Dask), shape (n, L)
            Classes of the documents. Several labels in a column are lists after ``column.str.split(";")``. A document
            without a class has the label None, or an empty row. The default is the labels of the store X.
        checkpoints : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.checkpoints` takes it.

        Returns
        -------
        LocalLSI
            The estimator itself.

        Raises
        ------
        ValueError
            If all documents have the same label, a parameter is out of range, or X holds NaN or infinity.
        MemoryError
            If ``dspectral.memory-limit`` is set in Dask's configuration, and the region of a class exceeds it.
        """
        # Steps: select the region of each class (LRW trains a first classifier), compute its singular vectors, train
        # SVMs in these spaces, and express the SVMs in columns.
        recipe = self._check_parameters()
        y = getattr(X, "labels", None) if y is None else y
        if y is None:
            raise ValueError("this LocalLSI requires y to be passed, but the target y is None")
        input_rows, X = X, validate_rows(self, X, reset=True)
        y, names = encode_label_lists(y, allow_column=True)
        target = as_label_array(y)
        if target.ndim == 1 and target.dtype.kind == "f" and np.all(np.isfinite(target)):
            check_classification_targets(target)  # encode_classes raises on NaN
        class_rows = encode_classes(target, X.shape[0])
        check_label_memory(len(class_rows.classes), X.shape[1], N_COPIES)
        rows = list_class_members(class_rows, X.shape[0])
        data = pair_with_labels(X, class_rows.indicator)
        regions, n_first = self._find_regions(data, rows, recipe)
        auto = max(1, min(MAX_COMPONENTS, X.shape[1], max(len(region.rows) for region in regions)))
        self.components_, n_gathered = decompose_regions(
            X,
            regions,
            auto if self.n_components == "auto" else self.n_components,
            seed=self.random_state_,
            row_nbytes=mean_row_nbytes(input_rows, X),
        )
        svms = train_linear_svms(
            data, float(self.C), recipe.tol, MAX_ITER, spaces=self.components_, relevancy=self.relevancy_
        )
        self.exclusive_ = class_rows.exclusive
        if names is None:
            names = class_rows.classes if class_rows.exclusive else get_label_names(y, len(class_rows.classes))
        self.classes_ = names
        dense = not (class_rows.exclusive or is_lazy(target) or is_sparse(target))
        self.indicator_dtype_ = target.dtype.str if dense else None
        self.region_sizes_ = np.array([len(region.rows) for region in regions])
        self.coef_, self.intercept_ = np.ascontiguousarray(svms.axes.T), svms.offsets
        self.n_iter_ = svms.n_passes
        self.n_passes_ = n_first + n_gathered + svms.n_passes
        return self

    def _check_parameters(self) -> LocalRecipe:
        """Check the parameters, resolve the seed, and return the recipe."""
        recipe = resolve_recipe(self.recipe, LocalRecipe)
        if self.n_components != "auto":
            check_integer("n_components", self.n_components, at_least=1)
        check_option("method", self.method, ("rds", "lrw"))
        for name, value in {"gamma": self.gamma, "C": self.C, "a": recipe.a, "tol": recipe.tol}.items():
            if check_real(name, value, at_most=MAX_REAL) <= 0:
                raise ValueError(f"{name}={value} must be above 0")
        self.random_state_ = resolve_seed(self.random_state)
        # As Python floats: scalars of narrow NumPy dtypes would overflow in products.
        shift = check_real("b", recipe.b, at_least=-MAX_REAL, at_most=MAX_REAL)
        return LocalRecipe(float(recipe.a), shift, float(recipe.tol))

    def _find_regions(self, data: LabeledStreams, rows: list[Int64s], recipe: LocalRecipe) -> tuple[list[Region], int]:
        """Return the region of each class, and the number of passes over the rows."""
        self.relevancy_: Relevancy | None = None
        if self.method == "rds":
            return [Region(members, np.ones(len(members))) for members in rows], 0
        initial_svms = train_linear_svms(data, INITIAL_C, recipe.tol, MAX_ITER)
        self.relevancy_ = Relevancy(initial_svms.axes, initial_svms.offsets, recipe.a, recipe.b)
        return find_weighted_regions(data, rows, self.relevancy_, float(self.gamma)), initial_svms.n_passes + 1

    def _term_weights(self) -> Doubles:
        return self.coef_

    def decision_function(self, X: RowsLike) -> Any:
        """Return the score of each class: the output of its SVM.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n, d)
            Documents.

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n, L)
            Scores; positive where the class is predicted. For two exclusive labels, shape (n,): the score of the
            second minus that of the first.
        """
        X = self._check_input(X)
        # scikit-learn expects one score for each document of two classes, positive for the second.
        if self.exclusive_ and len(self.classes_) == 2:
            return map_rows(X, self._local_svms.score_difference, n_columns=1, name="score")[:, 0]
        return map_rows(X, self._local_svms.scores, n_columns=len(self.classes_), name="score")

    def predict(self, X: RowsLike) -> Any:
        """Return the class of highest score, or, after a fit to an indicator matrix, all classes of positive score.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n, d)
            Documents.

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n,), or an indicator matrix, shape (n, L)
            Labels; or an indicator matrix, dense if y was dense in :meth:`fit`, CSR if it was sparse or lazy. Lazy
            documents return a Dask array of CSR blocks.
        """
        X = self._check_input(X)
        if self.exclusive_:
            best = partial(self._local_svms.predict_class, classes=self.classes_)
            return map_rows(X, best, n_columns=1, dtype=self.classes_.dtype, name="predict")[:, 0]
        predict = self._local_svms.predict_indicator
        indicator = map_rows(X, predict, n_columns=len(self.classes_), sparse_output=True, name="predict")
        dense = self.indicator_dtype_ is not None and not is_lazy(X)
        return indicator.toarray().astype(self.indicator_dtype_) if dense else indicator

    def score(self, X: RowsLike, y: "Classes | None" = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy: the share of documents whose label, or whole set of labels, is predicted.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n, d)
            Documents.
        y : array-like of labels, shape (n,), lists of labels, or indicator matrix, shape (n, L), optional
            True classes; by default the labels of the store X.
        sample_weight : array-like, shape (n,), optional
            Weight of each document.

        Returns
        -------
        float
            Accuracy; for an indicator matrix subset accuracy, as of all classifiers of scikit-learn.
        """
        target, names = encode_label_lists(
            getattr(X, "labels", None) if y is None else y, self.classes_, allow_column=self.exclusive_
        )
        predicted = collect_rows(self.predict(X))
        if names is not None:  # labels that fit has not seen add a column
            predicted.resize(target.shape)
        return float(accuracy_score(collect_rows(target), predicted, sample_weight=sample_weight))

    def transform(self, X: RowsLike) -> Any:
        """Return the concatenated coordinates of documents in all spaces.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n, d)
            Documents.

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n, sum of all k_c)
            Coordinates in the space of the first class, followed by those of the second, and so on.
        """
        X = self._check_input(X)
        return map_rows(X, self._local_svms.fold_in, n_columns=self._n_features_out, name="fold-in")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return sum(len(axes) for axes in self.components_)

    def _check_input(self, X: RowsLike) -> Any:
        check_is_fitted(self)
        return validate_rows(self, X, reset=False)

    @property
    def _local_svms(self) -> LocalSVMs:
        return LocalSVMs(self.components_, self.coef_, self.intercept_, self.relevancy_)
