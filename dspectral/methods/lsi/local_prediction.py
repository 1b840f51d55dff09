"""Predictions of a fitted local LSI, in memory or block by block."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from dspectral.engine import collect_rows, is_lazy, map_rows
from dspectral.inputs.fitted_facts import FittedFactsMixin
from dspectral.inputs.labels import Classes
from dspectral.inputs.rows import LazyOutputMixin, checked_rows
from dspectral.inputs.top_terms import TopTermsMixin
from dspectral.methods.lsi.local_scores import LocalMachines
from dspectral.methods.lsi.squared_hinge import Relevancy
from dspectral.types import RowsLike


class LocalPrediction(
    FittedFactsMixin,
    TopTermsMixin,
    LazyOutputMixin,
    ClassNamePrefixFeaturesOutMixin,
    ClassifierMixin,
    TransformerMixin,
    BaseEstimator,
):
    """Everything that :class:`~dspectral.LocalLSI` does once it is fitted."""

    classes_: NDArray[Any]
    exclusive_: bool
    indicator_dtype_: str | None
    components_: list[NDArray[np.float64]]
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    relevancy_: Relevancy | None

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
        X = self._checked(X)
        # Of two classes scikit-learn wants one score for each document, above 0 for the second class.
        if self.exclusive_ and len(self.classes_) == 2:
            return map_rows(X, self._machines.difference, n_columns=1, name="score")[:, 0]
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
        X = self._checked(X)
        if self.exclusive_:
            best = partial(self._machines.best, classes=self.classes_)
            return map_rows(X, best, n_columns=1, dtype=self.classes_.dtype, name="predict")[:, 0]
        found = map_rows(
            X, self._machines.above, n_columns=len(self.classes_), sparse_output=True, name="predict"
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
        X = self._checked(X)
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

    def _checked(self, X: RowsLike) -> Any:
        check_is_fitted(self)
        return checked_rows(self, X, reset=False)

    @property
    def _machines(self) -> LocalMachines:
        return LocalMachines(self.components_, self.coef_, self.intercept_, self.relevancy_)
