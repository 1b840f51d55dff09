"""Predictions of a fitted multi-label classifier, in memory or block by block."""

from collections.abc import Callable, Iterator
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
from dspectral.inputs.labels import encode_label_lists, validate_documents
from dspectral.inputs.rows import RunPlanMixin
from dspectral.inputs.top_terms import TopTermsMixin
from dspectral.linalg import sparse_products
from dspectral.linalg.block_sums import check_indicator
from dspectral.methods.multilabel.documents import linear_features, word_rows
from dspectral.methods.multilabel.recipe import MultiLabelRecipe
from dspectral.methods.multilabel.summaries import compute_posteriors
from dspectral.parameters import check_integer
from dspectral.registry import register_class
from dspectral.text.weighting import inverse_document_frequency
from dspectral.types import CSRRows, FloatArray, IntArray, Rows, RowsLike, is_sparse

SCORE_BYTES = 64 << 20
"""Maximum bytes of scores in memory while the best labels are selected."""
MIN_SCORE = 1e-30
"""Lower bound of scores, which keeps probabilities positive."""


@register_class()
class Threshold(NamedTuple):
    """Labels are predicted where ``score - row_weight * (best score of the document) > level``."""

    level: float
    row_weight: float

    def is_above(self, scores: FloatArray) -> NDArray[np.bool_]:
        """Return which labels are predicted, shape (n, L)."""
        return np.asarray(shift_rows(scores, self.row_weight) > self.level)


def shift_rows(scores: FloatArray, row_weight: float) -> FloatArray:
    """Subtract a share of the largest score of each row. Shapes: `scores` (n, L), returns the same."""
    return np.asarray(scores - scores.dtype.type(row_weight) * scores.max(axis=1, keepdims=True))


class LabelTopic(NamedTuple):
    """Most probable words and labels of a latent state.

    Attributes
    ----------
    weight : float
        Probability of the state.
    words, labels : ndarray of int64
        Columns, most probable first.
    """

    weight: float
    words: NDArray[np.int64]
    labels: NDArray[np.int64]


class LabelScorer(NamedTuple):
    """Parameters that score the labels of documents.

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
        """Return the probabilities of the states given the words of each row (equation 14), shape (n, k)."""
        dtype = self.log_words.dtype
        words = word_rows(rows, keep_counts=self.counts, dtype=dtype)
        scores = sparse_products.times(words, self.log_words) + self.log_weights
        return compute_posteriors(scores)[0].astype(dtype)

    def scores(self, rows: Rows) -> FloatArray:
        """Return the scores of all labels, shape (n, L), from the linear model, the states, or both."""
        by_states = self.states(rows) @ self.labels.T if self.state_share else 0.0
        if self.linear is None:
            return np.asarray(by_states)
        by_states = np.log(np.maximum(by_states, MIN_SCORE))
        if self.state_share == 1.0:
            return np.asarray(by_states)
        word_features, direction_features = linear_features(
            rows, self.column_weights, self.own_words, self.directions, self.log_words.dtype
        )
        m = word_features.shape[1]
        scores = direction_features @ self.linear[:, m:].T
        if m:
            scores += sparse_products.times(word_features, np.ascontiguousarray(self.linear[:, :m].T))
        if self.state_share:
            scores += scores.dtype.type(self.state_share) * (by_states - scores)
        return np.asarray(scores)

    def normalized_scores(self, rows: Rows) -> FloatArray:
        """Return label probabilities for few labels, else scores normalized to sum 1, shape (n, L)."""
        scores = self.scores(rows)
        if self.scales is not None:
            odds = self.scales[:, 0] + self.scales[:, 1] * scores
            return np.maximum(expit(odds), MIN_SCORE).astype(scores.dtype)
        # logaddexp is strictly increasing and close to the odds where these are small.
        scores = np.maximum(scores, MIN_SCORE) if self.linear is None else np.logaddexp(0, scores)
        return np.asarray(scores / scores.sum(axis=1, keepdims=True), dtype=scores.dtype)

    def select_above(self, rows: Rows, *, threshold: Threshold) -> CSRRows:
        """Return the indicator of the labels above a threshold, shape (n, L)."""
        dtype = self.log_words.dtype
        panels = [sparse.csr_array(threshold.is_above(self.scores(panel)), dtype=dtype) for panel in self._panels(rows)]
        return sparse.csr_array(sparse.vstack(panels, format="csr"))

    def top_labels(self, rows: Rows, *, n: int) -> CSRRows:
        """Return the n largest normalized scores of each row as CSR, shape (n_rows, L)."""
        parts = [_select_largest(self.normalized_scores(panel), n) for panel in self._panels(rows)]
        columns = np.concatenate([columns for columns, _ in parts]).ravel()
        values = np.concatenate([values for _, values in parts]).ravel()
        indptr = n * np.arange(rows.shape[0] + 1)
        return sparse.csr_array((values, columns, indptr), shape=(rows.shape[0], len(self.labels)))

    def _panels(self, rows: Rows) -> Iterator[Rows]:
        """Yield panels of rows whose scores take SCORE_BYTES; one without rows for an empty block."""
        step = max(1, SCORE_BYTES // (len(self.labels) * np.dtype(np.float64).itemsize))
        return (rows[start : start + step] for start in range(0, max(1, rows.shape[0]), step))


def _select_largest(shares: FloatArray, n: int) -> tuple[NDArray[np.int32], FloatArray]:
    """Return columns, ascending, and values of the n largest entries of each row."""
    # A partition costs L operations for each row; CSR needs sorted columns.
    order = np.argpartition(-shares, n - 1, axis=1)[:, :n] if n < shares.shape[1] else None
    columns = np.sort(order, axis=1) if order is not None else np.tile(np.arange(n), (len(shares), 1))
    return columns.astype(np.int32), np.take_along_axis(shares, columns, axis=1)


def binarize(rows: CSRRows) -> CSRRows:
    """Return rows with all stored entries set to 1."""
    return sparse.csr_array((np.ones_like(rows.data), rows.indices, rows.indptr), shape=rows.shape)


class LabelPrediction(RunPlanMixin, TopTermsMixin, ClassifierMixin, BaseEstimator):
    """Prediction methods of :class:`~dspectral.MomentMultiLabelClassifier`."""

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
    threshold_: Threshold | None
    indicator_dtype_: str | None

    def _term_weights(self) -> FloatArray:
        return self.word_distributions_.T

    def decision_function(self, X: RowsLike) -> Any:
        """Return the score of every label: of the linear model, or else its probability given the words.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_documents, n_words)
            Counts of words.

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n_documents, n_labels)
            Scores on the scale of log-odds; without a linear model, probabilities that sum to 1 in each row.
        """
        return self._map_rows(self._scorer.scores, X, len(self.classes_), "score")

    def predict_proba(self, X: RowsLike) -> Any:
        """Return the probability of every label for at most ten labels, else scores normalized to sum 1.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_documents, n_words)
            Counts of words.

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n_documents, n_labels)
            For at most ten labels with a linear model, a calibrated probability of each label. Otherwise
            ``log(1 + exp(score))``, or the score of the states, divided by the row sum; :meth:`top_labels` needs less
            memory.
        """
        return self._map_rows(self._scorer.normalized_scores, X, len(self.classes_), "share")

    def top_labels(self, X: RowsLike, n: int = 10) -> Any:
        """Return the largest entries of :meth:`predict_proba` for each document.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_documents, n_words)
            Counts of words.
        n : int, default=10
            Maximum number of labels for each document.

        Returns
        -------
        csr_array or (for lazy input) Dask array of CSR blocks, shape (n_documents, n_labels)
            ``n`` positive stored entries in each row.
        """
        check_is_fitted(self)
        n = min(check_integer("n", n, at_least=1), len(self.classes_))
        return self._map_rows(partial(self._scorer.top_labels, n=n), X, len(self.classes_), "rank", sparse_output=True)

    def predict(self, X: RowsLike) -> Any:
        """Return the labels above ``threshold_``, or a fixed number of best labels if ``labels_each_`` is set.

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
        if self.threshold_ is not None:
            select = partial(self._scorer.select_above, threshold=self.threshold_)
            predicted = self._map_rows(select, X, len(self.classes_), "predict", sparse_output=True)
        else:
            best = self.top_labels(X, self.labels_each_ or 1)
            predicted = map_rows(
                best, binarize, n_columns=best.shape[1], dtype=best.dtype, sparse_output=True, name="predict"
            )
        dense = self.indicator_dtype_ is not None and not is_lazy(predicted)
        return predicted.toarray().astype(self.indicator_dtype_) if dense else predicted

    def score(self, X: RowsLike, y: "RowsLike | None" = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the subset accuracy: the share of documents with exactly the true labels predicted.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_documents, n_words)
            Counts of words.
        y : ndarray, SciPy sparse or Dask array, shape (n_documents, n_labels), or lists of labels, optional
            True labels; the default is the labels of the store X.
        sample_weight : array-like, shape (n_documents,), optional
            Weight of each document.

        Returns
        -------
        float
            Subset accuracy, as in scikit-learn. :mod:`dspectral.metrics` has scores of rankings.
        """
        y, names = encode_label_lists(getattr(X, "labels", None) if y is None else y, self.classes_)
        y = collect_rows(y)
        # Sparse indicators stay sparse.
        true: Any = sparse.csr_array(y) if is_sparse(y) else np.asarray(y)
        check_indicator(true)
        true = true != 0
        predicted = collect_rows(self.predict(X)) != 0
        if names is not None:  # labels that fit has not seen add a column
            predicted.resize(true.shape)
        return float(accuracy_score(true, predicted, sample_weight=sample_weight))

    def state_probabilities(self, X: RowsLike) -> Any:
        """Return the distribution over states of each document (equation 14).

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_documents, n_words)
            Counts of words.

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n_documents, n_states)
            Probabilities of the states given the words.
        """
        return self._map_rows(self._scorer.states, X, len(self.state_weights_), "states")

    @property
    def topics_(self) -> list[LabelTopic]:
        """The ten most probable words and labels of each state, the most probable state first."""
        check_is_fitted(self)
        columns = self.word_distributions_, self.label_distributions_
        best = [np.argsort(-values, axis=0, kind="stable")[:10].T for values in columns]
        return [LabelTopic(float(weight), *ids) for weight, *ids in zip(self.state_weights_, *best, strict=True)]

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

    def _map_rows(self, function: Callable[[Any], Rows], X: RowsLike, n_columns: int, name: str, **options: Any) -> Any:
        X = validate_documents(self, X, reset=False)
        dtype = self.log_words_.dtype
        return map_rows(X, function, n_columns=n_columns, dtype=dtype, name=name, **options)
