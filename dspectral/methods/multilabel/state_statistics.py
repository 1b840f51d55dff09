"""Labels and words weighted by the latent states: the third pass of the method of moments, and each of EM."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.linalg import sparse_products
from dspectral.methods.multilabel.word_rows import label_rows, linear_features, word_rows
from dspectral.types import FloatArray, Rows


class Regression(NamedTuple):
    """Cross products for a linear model of what the states leave of the labels.

    Attributes
    ----------
    gram : ndarray of float64, shape (r + 1, r + 1)
        ``F'F``, F the features with a last column of ones.
    states : ndarray of float64, shape (r + 1, k)
        ``F'P``, P the posteriors of the states.
    labels : ndarray, shape (L, r + 1)
        ``Y'F``.
    """

    gram: NDArray[np.float64]
    states: NDArray[np.float64]
    labels: FloatArray

    @classmethod
    def of(cls, features: FloatArray, posterior: FloatArray, labels: sparse.csr_array) -> Self:
        """Summarise one block: features of shape (n, r), posteriors (n, k), labels (n, L)."""
        F = np.concatenate([features, np.ones((len(features), 1), dtype=features.dtype)], axis=1)
        wide = F.astype(np.float64)
        return cls(wide.T @ wide, wide.T @ posterior, sparse_products.transpose_times(labels, F))

    def merge(self, *others: Self) -> Self:
        """Return the cross products of all rows."""
        return type(self)(*(sum(field[1:], field[0]) for field in zip(self, *others, strict=True)))


class StateLabels(NamedTuple):
    """Of a pass that knows the states: labels and words weighted by how likely each state is.

    Attributes
    ----------
    n_rows : int
    weights : ndarray of float64, shape (k,)
        Sum of the posteriors.
    log_likelihood : float
        Of the words, without the multinomial coefficient.
    labels : ndarray, shape (L, k)
        Sum of the labels' rows, weighted by the posteriors, or by the squares ``(w_j' x)^2`` of the third pass.
    words : ndarray, shape (d, k) or (0, k)
        Sum of the words' rows, weighted by the posteriors.
    regression : Regression
    """

    n_rows: int
    weights: NDArray[np.float64]
    log_likelihood: float
    labels: FloatArray
    words: FloatArray
    regression: Regression

    @classmethod
    def of(
        cls,
        rows: Rows,
        labels: Rows,
        *,
        log_words: FloatArray,
        log_weights: NDArray[np.float64],
        directions: FloatArray,
        column_weights: NDArray[np.float64],
        counts: bool,
        log_labels: FloatArray | None = None,
        squares: FloatArray | None = None,
        distinct: bool = False,
    ) -> Self:
        """Summarise one block.

        Parameters
        ----------
        rows : csr_array or ndarray, shape (n, d)
        labels : csr_array or ndarray, shape (n, L)
        log_words : ndarray, shape (d, k)
            Logarithms of the words' probabilities in each state.
        log_weights : ndarray of float64, shape (k,)
        directions : ndarray, shape (d, r)
        column_weights : ndarray of float64, shape (d,)
            Of the regression's features (:func:`~dspectral.methods.multilabel.word_rows.linear_features`).
        counts : bool
            Whether words count as often as they occur.
        log_labels : ndarray, shape (L, k), optional
            Logarithms of the labels' probabilities in each state, times their weight: with them a document's own
            labels have a say in its state. The regression never sees them, as prediction does not.
        squares : ndarray, shape (d, k), optional
            The directions ``w_j``. With them labels are weighted by ``(w_j' x)^2``, which contracts the cross
            moment of labels with two words without forming it, and words are left out; without them by the
            posteriors: a step of EM.
        distinct : bool
            Whether those two words are at distinct positions.
        """
        words = word_rows(rows, counts=counts)
        Y = label_rows(labels, words.shape[0])
        scores = sparse_products.times(words, log_words) + log_weights
        P, log_likelihood = posteriors(scores)
        P = P.astype(log_words.dtype)
        told = P
        if log_labels is not None:
            told = posteriors(scores + sparse_products.times(Y, log_labels))[0].astype(P.dtype)
        weights = told if squares is None else _squared(words, squares, distinct=distinct)
        none = np.zeros((0, P.shape[1]), dtype=P.dtype)
        return cls(
            words.shape[0],
            told.sum(axis=0, dtype=np.float64),
            log_likelihood,
            sparse_products.transpose_times(Y, weights),
            sparse_products.transpose_times(words, told) if squares is None else none,
            Regression.of(linear_features(words, column_weights, directions), P, Y),
        )

    def merge(self, *others: Self) -> Self:
        """Return the sums of all rows."""
        parts = (self, *others)
        labels, words = self.labels.copy(), self.words.copy()
        for part in others:
            labels += part.labels
            words += part.words
        return type(self)(
            sum(part.n_rows for part in parts),
            np.add.reduce([part.weights for part in parts]),
            float(np.sum([part.log_likelihood for part in parts])),
            labels,
            words,
            self.regression.merge(*(part.regression for part in others)),
        )


def posteriors(scores: FloatArray) -> tuple[NDArray[np.float64], float]:
    """Return the states' probabilities from joint log-probabilities of shape (n, k), and the log-likelihood."""
    scores = np.asarray(scores, dtype=np.float64)
    peak = scores.max(axis=1, keepdims=True)
    P = np.exp(scores - peak)
    total = P.sum(axis=1, keepdims=True)
    return P / total, float(np.sum(peak) + np.sum(np.log(total)))


def _squared(words: sparse.csr_array, directions: FloatArray, *, distinct: bool) -> FloatArray:
    squares = sparse_products.times(words, directions) ** 2
    return squares - sparse_products.times(words, directions**2) if distinct else squares
