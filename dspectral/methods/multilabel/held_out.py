"""Scores of the labels of documents that are held out, for many penalties of one model, and what they are worth."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.linalg import sparse_products
from dspectral.methods.multilabel.latent_states import penalized_inverse
from dspectral.methods.multilabel.state_statistics import LabelModel, Regression, posteriors
from dspectral.types import CSRRows, FloatArray, IntArray


class HeldOutScores(NamedTuple):
    """All that scores the labels of some documents by one model, for any penalty of its linear correction.

    `states` (n, k): probabilities of the states given the words; `features` (n, r + 1): features of the
    linear correction, with a last column of ones; `labels` (L, r + 1 + k): sums of the labels with the
    features, beside their probabilities in each state; `regression`: cross products that the linear
    correction is solved from.
    """

    states: FloatArray
    features: FloatArray
    labels: FloatArray
    regression: Regression

    @classmethod
    def of(cls, model: LabelModel, words: CSRRows, features: FloatArray) -> Self:
        """Take what does not hang on the penalty.

        Shapes: `words` (n, d), `features` (n, r).
        """
        states = posteriors(sparse_products.times(words, model.log_words) + np.log(model.weights))[0]
        ones = np.ones((len(features), 1), dtype=features.dtype)
        return cls(
            states.astype(features.dtype),
            np.concatenate([features, ones], axis=1),
            np.concatenate([model.regression.labels, model.labels.columns], axis=1),
            model.regression,
        )

    def with_penalty(self, alpha: float | None) -> FloatArray:
        """Return the score of every label, shape (n, L); without an alpha by the states alone."""
        n_features = self.features.shape[1]
        if alpha is None:
            return np.asarray(self.states @ self.labels[:, n_features:].T)
        # P gamma' + F B' for B = (Y'F - gamma P'F) G^-1 is [F G^-1, P - F G^-1 F'P] [Y'F, gamma]': one product with
        # all labels, and none of these with r^2 numbers.
        solved = self.features.astype(np.float64) @ penalized_inverse(self.regression.gram, alpha)
        rest = self.states - solved @ self.regression.states
        left = np.concatenate([solved, rest], axis=1).astype(self.labels.dtype)
        return np.asarray(left @ self.labels.T)


def gains_of(scores: FloatArray, truth: CSRRows) -> FloatArray:
    """Return the area under the curve and the precision of the first label, added, for each document.

    Shapes: `scores` (n, L), `truth` (n, L); returns (n,).

    >>> from scipy import sparse
    >>> gains_of(np.array([[0.9, 0.1], [0.2, 0.3]]), sparse.csr_array([[1.0, 0.0], [1.0, 1.0]]))
    array([2. , 1.5])
    """
    # A true label's place among all scores takes one comparison with each; ranks of all would take a sort of each row.
    n, n_labels = scores.shape
    n_true, total = np.diff(truth.indptr), np.zeros(n)
    _count_pairs_won(read_only(scores), read_only(truth.indices), read_only(truth.indptr), total)
    # Two labels of one document are compared once each way: that is one won pair, which does not count.
    total -= n_true * (n_true - 1) / 2
    pairs = n_true * (n_labels - n_true)
    area = np.where(pairs > 0, total / np.maximum(pairs, 1), 0.5)
    row = np.repeat(np.arange(n), n_true)
    first = np.bincount(row, weights=truth.indices == scores.argmax(axis=1)[row], minlength=n)
    return np.asarray(area + first)


@compiled
def _count_pairs_won(
    scores: FloatArray, indices: IntArray, indptr: IntArray, won: NDArray[np.float64]
) -> None:
    """Add to each document's number how many labels each of its own is above; an equal one counts half."""
    for i in range(indptr.size - 1):
        row = scores[i]
        for entry in range(indptr[i], indptr[i + 1]):
            own, below, equal = row[indices[entry]], 0, 0
            for other in range(row.size):
                below += row[other] < own
                equal += row[other] == own
            won[i] += below + 0.5 * (equal - 1)
