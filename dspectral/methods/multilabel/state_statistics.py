"""Labels and words weighted by the latent states: the third pass of the method of moments, and each pass of EM."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dspectral.engine.summary import add_fields
from dspectral.linalg import sparse_products
from dspectral.methods.multilabel.document_rows import label_rows, linear_features, word_rows
from dspectral.methods.multilabel.latent_states import Simplex
from dspectral.types import CSRRows, FloatArray, Rows


class Regression(NamedTuple):
    """Cross products for a linear model of what the states leave of the labels.

    `gram` (r + 1, r + 1): ``F'F``, for F the features with a last column of ones; `states` (r + 1, k):
    ``F'P``, for P the posteriors of the states; `labels` (L, r + 1): ``Y'F``, for Y the labels.
    """

    gram: NDArray[np.float64]
    states: NDArray[np.float64]
    labels: FloatArray

    @classmethod
    def of(cls, features: FloatArray, posterior: FloatArray, labels: CSRRows) -> Self:
        """Summarize one block: features of shape (n, r), posteriors (n, k), labels (n, L)."""
        # Products of features in double: the correction inverts F'F, whose condition single precision would not stand.
        F = np.concatenate([features, np.ones((len(features), 1), dtype=features.dtype)], axis=1)
        wide = F.astype(np.float64)
        return cls(wide.T @ wide, wide.T @ posterior, sparse_products.transpose_times(labels, F))

    def merge(self, *others: Self) -> Self:
        """Return the cross products of all rows."""
        return add_fields(self, *others)


class LabelModel(NamedTuple):
    """States, and the sums that the linear correction is solved from.

    `log_words` (d, k): logarithms of the words' smoothed probabilities in each state; `weights` (k,):
    probability of each state; `words, labels` (d, k): distributions over the words, shape (d, k), and over
    the labels, shape (L, k); `regression`: cross products for the linear correction; `log_likelihood`: mean
    log-likelihood of a training document's words under the states that the pass began with.
    """

    log_words: FloatArray
    weights: NDArray[np.float64]
    words: Simplex
    labels: Simplex
    regression: Regression
    log_likelihood: float


class StateStatistics(NamedTuple):
    """Labels and words weighted by how likely each state is, from a pass that knows the states.

    `n_rows`: number of rows; `weights` (k,): sum of the posteriors; `log_likelihood`: log-likelihood of the
    words, without the multinomial coefficient; `labels` (L, k): sum of the labels' rows, weighted by the
    posteriors, or by the squares ``(w_j' x)^2`` of the third pass; `words` (d, k): sum of the words' rows,
    weighted by the posteriors; `regression`: cross products of the linear correction.
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
        features: FloatArray | None = None,
    ) -> Self:
        """Summarize one block.

        Shapes: `rows` (n, d), `labels` (n, L), `log_words` (d, k), `log_weights` (k,), `directions` (d, r),
        `column_weights` (d,), `log_labels` (L, k), `squares` (d, k), `features` (n, r).
        """
        # E-step: p(j | x) is proportional to pi_j prod_v mu_vj^(x_v), in logarithms one product of the rows with
        # log_words; with labels, times prod_l gamma_lj^(label_weight y_l). P is the posterior given words alone, as
        # in prediction; `posterior` may have heard the labels. The sums over documents of posterior times rows are
        # what the M-step divides. Cost: 2 (nnz of words + nnz of labels) (k + r) operations and some n k numbers.
        words = word_rows(rows, counts=counts)
        Y = label_rows(labels, words.shape[0])
        scores = sparse_products.times(words, log_words) + log_weights
        P, log_likelihood = posteriors(scores)
        P = P.astype(log_words.dtype)
        posterior = P
        if log_labels is not None:
            posterior = posteriors(scores + sparse_products.times(Y, log_labels))[0].astype(P.dtype)
        weights: FloatArray = posterior
        if squares is not None:
            weights = sparse_products.times(words, squares) ** 2  # (w_j' x)^2
            if distinct:  # less sum_v x_v w_vj^2, a word paired with itself
                weights -= sparse_products.times(words, squares**2)
        if features is None:
            features = linear_features(words, column_weights, directions)
        none = np.zeros((0, P.shape[1]), dtype=P.dtype)
        return cls(
            words.shape[0],
            posterior.sum(axis=0, dtype=np.float64),
            log_likelihood,
            sparse_products.transpose_times(Y, weights),
            sparse_products.transpose_times(words, posterior) if squares is None else none,
            Regression.of(features, P, Y),
        )

    def merge(self, *others: Self) -> Self:
        """Return the sums of all rows."""
        return add_fields(self, *others)


def posteriors(scores: FloatArray) -> tuple[NDArray[np.float64], float]:
    """Return the states' probabilities from joint log-probabilities of shape (n, k), and the log-likelihood."""
    scores = np.asarray(scores, dtype=np.float64)
    peak = scores.max(
        axis=1, keepdims=True
    )  # exponentials of differences from it neither overflow nor all vanish
    P = np.exp(scores - peak)
    total = P.sum(axis=1, keepdims=True)
    return P / total, float(np.sum(peak) + np.sum(np.log(total)))
