"""Predictions of a fitted multi-label classifier, in memory or block by block."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import expit

from dspectral.linalg import sparse_products
from dspectral.methods.multilabel.documents import linear_features, word_rows
from dspectral.methods.multilabel.summaries import compute_posteriors
from dspectral.registry import register_class
from dspectral.types import Bools, CSRRows, Doubles, FloatArray, Int32s, Int64s, IntArray, Rows

SCORE_BYTES = 64 << 20
"""Maximum bytes of scores in memory while the best labels are selected."""
MIN_SCORE = 1e-30
"""Lower bound of scores, which keeps probabilities positive."""


@register_class()
class Threshold(NamedTuple):
    """Labels are predicted where ``score - row_weight * (best score of the document) > level``."""

    level: float
    row_weight: float

    def is_above(self, scores: FloatArray) -> Bools:
        """Return which labels are predicted, shape (n, L)."""
        return shift_rows(scores, self.row_weight) > self.level


def shift_rows(scores: FloatArray, row_weight: float) -> FloatArray:
    """Subtract a share of the largest score of each row. Shapes: `scores` (n, L), returns the same."""
    return scores - scores.dtype.type(row_weight) * scores.max(axis=1, keepdims=True)


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
    words: Int64s
    labels: Int64s


class LabelScorer(NamedTuple):
    """Parameters that score the labels of documents.

    Shapes: `log_words` (d, k), `log_weights` (k,), `labels` (L, k), `column_weights` (d,), `own_words` (m,),
    `directions` (d, s), `linear` (L, m + s + 1).
    """

    log_words: FloatArray
    log_weights: Doubles
    labels: FloatArray
    column_weights: Doubles
    own_words: IntArray
    directions: FloatArray
    linear: FloatArray | None
    state_share: float
    counts: bool
    scales: Doubles | None

    def states(self, rows: Rows) -> FloatArray:
        """Return the probabilities of the states given the words of each row (equation 14), shape (n, k)."""
        dtype = self.log_words.dtype
        words = word_rows(rows, keep_counts=self.counts, dtype=dtype)
        scores = sparse_products.times(words, self.log_words) + self.log_weights
        return compute_posteriors(scores)[0].astype(dtype)

    def scores(self, rows: Rows) -> FloatArray:
        """Return the scores of all labels, shape (n, L), from the linear model, the states, or both."""
        by_states: Any = self.states(rows) @ self.labels.T if self.state_share else 0.0
        if self.linear is None:
            return by_states
        by_states = np.log(np.maximum(by_states, MIN_SCORE))
        if self.state_share == 1.0:
            return by_states
        word_features, direction_features = linear_features(
            rows, self.column_weights, self.own_words, self.directions, self.log_words.dtype
        )
        m = word_features.shape[1]
        scores = direction_features @ self.linear[:, m:].T
        if m:
            scores += sparse_products.times(word_features, np.ascontiguousarray(self.linear[:, :m].T))
        if self.state_share:
            scores += scores.dtype.type(self.state_share) * (by_states - scores)
        return scores

    def normalized_scores(self, rows: Rows) -> FloatArray:
        """Return label probabilities for few labels, else scores normalized to sum 1, shape (n, L)."""
        scores = self.scores(rows)
        if self.scales is not None:
            odds = self.scales[:, 0] + self.scales[:, 1] * scores
            return np.maximum(expit(odds), MIN_SCORE).astype(scores.dtype)
        # logaddexp is strictly increasing and close to the odds where these are small.
        scores = np.maximum(scores, MIN_SCORE) if self.linear is None else np.logaddexp(0, scores)
        return np.asarray(scores / scores.sum(axis=1, keepdims=True), dtype=scores.dtype)

    def select(self, rows: Rows, *, threshold: Threshold | None, n: int) -> CSRRows:
        """Return the indicator of the labels above a threshold, or of the n best without one, shape (n_rows, L)."""
        dtype = self.log_words.dtype
        if threshold is None:
            best = self.top_labels(rows, n=n)
            best.data[:] = 1
            return best
        panels = [sparse.csr_array(threshold.is_above(self.scores(panel)), dtype=dtype) for panel in self._panels(rows)]
        return sparse.vstack(panels, format="csr")

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


def _select_largest(shares: FloatArray, n: int) -> tuple[Int32s, FloatArray]:
    """Return columns, ascending, and values of the n largest entries of each row."""
    # A partition costs L operations for each row; CSR needs sorted columns.
    order = np.argpartition(-shares, n - 1, axis=1)[:, :n] if n < shares.shape[1] else None
    columns = np.sort(order, axis=1) if order is not None else np.tile(np.arange(n), (len(shares), 1))
    return columns.astype(np.int32), np.take_along_axis(shares, columns, axis=1)
