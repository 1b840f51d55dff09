"""Scores of all labels of a block of documents, the best of them, and what states say most."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.linalg import sparse_products
from dspectral.methods.multilabel.document_rows import linear_features, word_rows
from dspectral.methods.multilabel.state_statistics import posteriors
from dspectral.types import CSRRows, FloatArray, Rows

SCORE_BYTES = 64 << 20
"""Bytes of scores of all labels that are held while the best are picked."""


class Topic(NamedTuple):
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


def topics(weights: NDArray[np.float64], words: FloatArray, labels: FloatArray, n: int = 10) -> list[Topic]:
    """Return the n most probable words and labels of each state, from distributions in columns."""
    best = [np.argsort(-columns, axis=0, kind="stable")[:n].T for columns in (words, labels)]
    return [Topic(float(weight), *ids) for weight, *ids in zip(weights, *best, strict=True)]


class LabelScorer(NamedTuple):
    """Everything that scores labels of documents.

    `log_words` (d, k): logarithms of the words' probabilities in each state; `log_weights` (k,): logarithms
    of the states' probabilities; `labels` (L, k): probabilities of the labels in each state; `column_weights`
    (d,): inverse document frequencies; `directions` (d, r): directions of the linear correction's features;
    `linear` (L, r + 1): coefficients of the linear correction; `counts`: whether words count as often as they
    occur.
    """

    log_words: FloatArray
    log_weights: NDArray[np.float64]
    labels: FloatArray
    column_weights: NDArray[np.float64]
    directions: FloatArray
    linear: FloatArray | None
    counts: bool

    def states(self, rows: Rows) -> FloatArray:
        """Return the states' probabilities given the words of each row (equation 14), shape (n, k)."""
        dtype = self.log_words.dtype
        words = word_rows(rows, counts=self.counts, dtype=dtype)
        scores = sparse_products.times(words, self.log_words) + self.log_weights
        return posteriors(scores)[0].astype(dtype)

    def scores(self, rows: Rows) -> FloatArray:
        """Return the score of every label, shape (n, L): probability given the words, and linear correction."""
        scores = self.states(rows) @ self.labels.T
        if self.linear is None:
            return np.asarray(scores)
        words = word_rows(rows, counts=False, dtype=self.log_words.dtype)
        features = linear_features(words, self.column_weights, self.directions)
        return np.asarray(scores + features @ self.linear[:, :-1].T + self.linear[:, -1])

    def shares(self, rows: Rows) -> FloatArray:
        """Return scores, those below 0 taken for 0, divided by their sum over all labels, shape (n, L)."""
        scores = np.maximum(self.scores(rows), 0)
        return np.asarray(scores / _sums(scores), dtype=scores.dtype)

    def top(self, rows: Rows, *, n: int) -> CSRRows:
        """Return the n largest shares of each row as CSR, shape (n_rows, L)."""
        # Scores of all labels are held for SCORE_BYTES of rows at a time; what is kept has n entries a row.
        n_labels = len(self.labels)
        step = max(1, SCORE_BYTES // (n_labels * np.dtype(np.float64).itemsize))
        # There is one turn at least, so that a block without rows gives arrays of the right types.
        parts = [
            _largest(self.scores(rows[start : start + step]), n)
            for start in range(0, max(1, rows.shape[0]), step)
        ]
        columns = np.concatenate([columns for columns, _ in parts]).ravel()
        values = np.concatenate([values for _, values in parts]).ravel()
        indptr = n * np.arange(rows.shape[0] + 1)
        return sparse.csr_array((values, columns, indptr), shape=(rows.shape[0], n_labels))


def _sums(scores: FloatArray) -> FloatArray:
    """Return the sum of each row, or 1 where it is 0, shape (n, 1)."""
    total = scores.sum(axis=1, keepdims=True)
    return np.where(total > 0, total, 1)


def _largest(scores: FloatArray, n: int) -> tuple[NDArray[np.int32], FloatArray]:
    """Return columns and shares of the largest scores of each row, in the order of the columns."""
    scores = np.maximum(scores, 0)
    # A partition finds the n largest in L operations a row; the few columns are then put in order, as CSR wants.
    order = np.argpartition(-scores, n - 1, axis=1)[:, :n] if n < scores.shape[1] else None
    columns = np.sort(order, axis=1) if order is not None else np.tile(np.arange(n), (len(scores), 1))
    best = np.take_along_axis(scores, columns, axis=1) / _sums(scores)
    return columns.astype(np.int32), best.astype(scores.dtype)


def ones_of(rows: CSRRows) -> CSRRows:
    """Return ones where rows have stored entries."""
    return sparse.csr_array((np.ones_like(rows.data), rows.indices, rows.indptr), shape=rows.shape)
