"""Predictions of a fitted classifier of many labels, in memory or block by block."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from dspectral.engine import collect_rows, is_lazy, map_rows
from dspectral.inputs.fitted_facts import FittedFactsMixin
from dspectral.inputs.labels import validate_documents
from dspectral.inputs.parameters import check_integer
from dspectral.inputs.top_terms import TopTermsMixin
from dspectral.linalg import sparse_products
from dspectral.linalg.block_sums import check_indicator
from dspectral.methods.multilabel.documents import linear_features, word_rows
from dspectral.methods.multilabel.recipe import MultiLabelRecipe
from dspectral.methods.multilabel.summaries import posteriors
from dspectral.text.weighting import inverse_document_frequency
from dspectral.types import CSRRows, FloatArray, IntArray, Rows, RowsLike, is_sparse

SCORE_BYTES = 64 << 20
"""Bytes of scores of all labels that are held while the best are picked."""
MIN_SCORE = 1e-30
"""Score of a label that nothing speaks for: a share above 0, as scikit-learn asks of probabilities."""


class LabelTopic(NamedTuple):
    """The most probable words and labels of a latent state.

    Attributes
    ----------
    weight : float
        Probability of the state.
    words, labels : ndarray of int64
        Columns, the most probable first.
    """

    weight: float
    words: NDArray[np.int64]
    labels: NDArray[np.int64]


class LabelScorer(NamedTuple):
    """Everything that scores labels of documents.

    Shapes: `log_words` (d, k), `log_weights` (k,), `labels` (L, k), `column_weights` (d,), `own_words` (m,),
    `directions` (d, s), `linear` (L, m + s + 1).
    """

    log_words: FloatArray
    log_weights: NDArray[np.float64]
    labels: FloatArray
    column_weights: NDArray[np.float64]
    own_words: IntArray
    directions: FloatArray
    linear: FloatArray | None
    state_share: float
    counts: bool
    scales: NDArray[np.float64] | None

    def states(self, rows: Rows) -> FloatArray:
        """Return the states' probabilities given the words of each row (equation 14), shape (n, k)."""
        dtype = self.log_words.dtype
        words = word_rows(rows, counts=self.counts, dtype=dtype)
        scores = sparse_products.times(words, self.log_words) + self.log_weights
        return posteriors(scores)[0].astype(dtype)

    def scores(self, rows: Rows) -> FloatArray:
        """Return the score of every label, shape (n, L): by the linear part, by the states, or by both."""
        by_states = self.states(rows) @ self.labels.T if self.state_share else 0.0
        if self.linear is None:
            return np.asarray(by_states)
        by_states = np.log(np.maximum(by_states, MIN_SCORE))
        if self.state_share == 1.0:
            return np.asarray(by_states)
        own, wide = linear_features(
            rows, self.column_weights, self.own_words, self.directions, self.log_words.dtype
        )
        m = own.shape[1]
        scores = wide @ self.linear[:, m:].T
        if m:
            scores += sparse_products.times(own, np.ascontiguousarray(self.linear[:, :m].T))
        if self.state_share:
            scores += scores.dtype.type(self.state_share) * (by_states - scores)
        return np.asarray(scores)

    def normalized_scores(self, rows: Rows) -> FloatArray:
        """Return the probability of each label where these are few, else its share of the scores, shape (n, L)."""
        scores = self.scores(rows)
        if self.scales is not None:
            odds = self.scales[:, 0] + self.scales[:, 1] * scores
            return np.maximum(expit(odds), MIN_SCORE).astype(scores.dtype)
        # Odds where these are small, and never two equal where scores are not.
        scores = np.maximum(scores, MIN_SCORE) if self.linear is None else np.logaddexp(0, scores)
        return np.asarray(scores / scores.sum(axis=1, keepdims=True), dtype=scores.dtype)

    def select_likely(self, rows: Rows) -> CSRRows:
        """Return ones for labels that are more probable than not, shape (n, L)."""
        return sparse.csr_array((self.normalized_scores(rows) > 0.5).astype(self.log_words.dtype))

    def top_labels(self, rows: Rows, *, n: int) -> CSRRows:
        """Return the n largest shares of each row as CSR, shape (n_rows, L)."""
        # Scores of all labels are held for SCORE_BYTES of rows at a time; what is kept has n entries a row.
        n_labels = len(self.labels)
        step = max(1, SCORE_BYTES // (n_labels * np.dtype(np.float64).itemsize))
        # There is one turn at least, so that a block without rows gives arrays of the right types.
        parts = [
            _select_largest(self.normalized_scores(rows[start : start + step]), n)
            for start in range(0, max(1, rows.shape[0]), step)
        ]
        columns = np.concatenate([columns for columns, _ in parts]).ravel()
        values = np.concatenate([values for _, values in parts]).ravel()
        indptr = n * np.arange(rows.shape[0] + 1)
        return sparse.csr_array((values, columns, indptr), shape=(rows.shape[0], n_labels))


def _select_largest(shares: FloatArray, n: int) -> tuple[NDArray[np.int32], FloatArray]:
    """Return columns and values of the largest shares of each row, all above 0, in the order of the columns."""
    # A partition finds the n largest in L operations a row; the few columns are then put in order, as CSR wants.
    order = np.argpartition(-shares, n - 1, axis=1)[:, :n] if n < shares.shape[1] else None
    columns = np.sort(order, axis=1) if order is not None else np.tile(np.arange(n), (len(shares), 1))
    return columns.astype(np.int32), np.take_along_axis(shares, columns, axis=1)


def binarize(rows: CSRRows) -> CSRRows:
    """Return ones where rows have stored entries."""
    return sparse.csr_array((np.ones_like(rows.data), rows.indices, rows.indptr), shape=rows.shape)


class LabelPrediction(FittedFactsMixin, TopTermsMixin, ClassifierMixin, BaseEstimator):
    """Everything that :class:`~dspectral.MomentMultiLabelClassifier` does once it is fitted."""

    recipe: MultiLabelRecipe | None
    classes_: NDArray[Any]
    state_weights_: NDArray[np.float64]
    word_distributions_: FloatArray
    label_distributions_: FloatArray
    log_words_: FloatArray
    own_words_: IntArray
    directions_: FloatArray
    linear_: FloatArray | None
    state_share_: float
    state_labels_: FloatArray | None
    document_frequency_: NDArray[np.int64]
    label_totals_: NDArray[np.int64]
    n_documents_: int
    label_scales_: NDArray[np.float64] | None
    labels_each_: int | None
    indicator_dtype_: str | None

    def _term_weights(self) -> FloatArray:
        return self.word_distributions_.T

    def decision_function(self, X: RowsLike) -> Any:
        """Score every label by the linear part, or without one by its probability given the words.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_documents, n_words)
            Counts of words.

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n_documents, n_labels)
            Scores near log-odds; probabilities that sum to 1 in each row if there is no linear part.
        """
        return self._map(self._scorer.scores, X, len(self.classes_), "score")

    def predict_proba(self, X: RowsLike) -> Any:
        """Return the probability of every label where there are at most ten, else its share of a document's scores.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_documents, n_words)
            Counts of words.

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n_documents, n_labels)
            Of at most ten labels each has a probability of its own, and rows have any sum. Of more, and of those of
            states alone, ``log(1 + exp(score))`` (or the score), divided by its sum over the row;
            :meth:`top_labels` then takes less memory.
        """
        return self._map(self._scorer.normalized_scores, X, len(self.classes_), "share")

    def top_labels(self, X: RowsLike, n: int = 10) -> Any:
        """Return the shares of the most probable labels of each document, as :meth:`predict_proba` has them.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_documents, n_words)
            Counts of words.
        n : int, default=10
            Number of labels for each document; all where there are fewer.

        Returns
        -------
        csr_array or (for lazy input) Dask array of CSR blocks, shape (n_documents, n_labels)
            ``n`` stored entries a row, all above 0.
        """
        check_is_fitted(self)
        n = min(check_integer("n", n, at_least=1), len(self.classes_))
        return self._map(
            partial(self._scorer.top_labels, n=n), X, len(self.classes_), "rank", sparse_output=True
        )

    def predict(self, X: RowsLike) -> Any:
        """Return the labels that are more probable than not, or the best ones, as many as training documents have.

        At most ten labels are predicted where their probability is above .5, unless all documents have the same number
        of them. Of more labels the best ones are predicted, as many as training documents have on average.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_documents, n_words)
            Counts of words.

        Returns
        -------
        ndarray, csr_array or (for lazy input) Dask array of CSR blocks, shape (n_documents, n_labels)
            Indicator matrix: dense where that of the fit was, CSR where it was sparse or lazy.
        """
        check_is_fitted(self)
        if self.label_scales_ is not None and self.labels_each_ is None:
            found = self._map(
                self._scorer.select_likely, X, len(self.classes_), "predict", sparse_output=True
            )
        else:  # shares are no probabilities, so no threshold serves all labels; the mean number of labels does
            n = round(float(self.label_totals_.sum()) / self.n_documents_)
            best = self.top_labels(X, max(1, self.labels_each_ or n))
            found = map_rows(
                best, binarize, n_columns=best.shape[1], dtype=best.dtype, sparse_output=True, name="predict"
            )
        dense = self.indicator_dtype_ is not None and not is_lazy(found)
        return found.toarray().astype(self.indicator_dtype_) if dense else found

    def score(
        self, X: RowsLike, y: "RowsLike | None" = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the subset accuracy: the share of documents whose labels are all predicted, and no others.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_documents, n_words)
            Counts of words.
        y : ndarray, SciPy sparse or Dask array, shape (n_documents, n_labels), optional
            True labels; by default those of a store.
        sample_weight : array-like, shape (n_documents,), optional
            Weight of each document.

        Returns
        -------
        float
            Subset accuracy, as of all classifiers of scikit-learn. :mod:`dspectral.metrics` scores rankings.
        """
        y = collect_rows(getattr(X, "labels", None) if y is None else y)
        # Sparse indicators stay sparse: what is compared has one entry for each label of a document.
        true: Any = sparse.csr_array(y) if is_sparse(y) else np.asarray(y)
        check_indicator(true)
        true = true != 0
        predicted = collect_rows(self.predict(X)) != 0
        return float(accuracy_score(true, predicted, sample_weight=sample_weight))

    def state_probabilities(self, X: RowsLike) -> Any:
        """Return each document's distribution over the states (equation 14).

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_documents, n_words)
            Counts of words.

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n_documents, n_states)
            Probabilities of the states given the words.
        """
        return self._map(self._scorer.states, X, len(self.state_weights_), "states")

    @property
    def topics_(self) -> list[LabelTopic]:
        """The ten most probable words and labels of each state, the most probable state first."""
        check_is_fitted(self)
        columns = self.word_distributions_, self.label_distributions_
        best = [np.argsort(-each, axis=0, kind="stable")[:10].T for each in columns]
        return [
            LabelTopic(float(weight), *ids) for weight, *ids in zip(self.state_weights_, *best, strict=True)
        ]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags

    @property
    def _scorer(self) -> LabelScorer:
        check_is_fitted(self)
        weights = inverse_document_frequency(self.document_frequency_, self.n_documents_)
        counts = (self.recipe or MultiLabelRecipe()).counts
        labels = self.label_distributions_ if self.state_labels_ is None else self.state_labels_
        return LabelScorer(
            self.log_words_, np.log(self.state_weights_), labels, weights,
            self.own_words_, self.directions_, self.linear_, self.state_share_, counts, self.label_scales_,
        )  # fmt: skip

    def _map(
        self, function: Callable[[Any], Rows], X: RowsLike, n_columns: int, name: str, **options: Any
    ) -> Any:
        X = validate_documents(self, X, reset=False)
        dtype = self.log_words_.dtype
        return map_rows(X, function, n_columns=n_columns, dtype=dtype, name=name, **options)
