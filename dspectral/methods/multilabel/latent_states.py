"""Latent states of documents: their words and labels as distributions, and the linear correction beside them."""

from typing import NamedTuple, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg import lapack

from dspectral.methods.multilabel.summaries import RegressionSums
from dspectral.types import FloatArray

MIN_VARIANCE_SHARE = 1e-6
"""Share of the largest variance of a feature below which nothing is left of features that are fewer than they seem."""


class Whitening(NamedTuple):
    """``W'M2 W = I`` on the leading directions of the words' second moment."""

    forward: FloatArray
    back: FloatArray


class Simplex(NamedTuple):
    """Distributions in columns (m, k), the number of entries that were negative, and their share."""

    columns: FloatArray
    n_negative: int
    negative_mass: float


class LabelModel(NamedTuple):
    """States, and the sums that the linear correction is solved from.

    Shapes: `log_words` (d, k): smoothed; `weights` (k,); `words` (d, k), `labels` (L, k): distributions.
    `label_state_counts` (L + 1, k): documents with each label, and in all, that words alone put into each state.
    `log_likelihood`: mean over the training documents, under the states that the pass began with.
    """

    log_words: FloatArray
    weights: NDArray[np.float64]
    words: Simplex
    labels: Simplex
    regression: RegressionSums
    label_state_counts: FloatArray
    log_likelihood: float


def clip_to_simplex(columns: FloatArray, prior: float = 0.0) -> Simplex:
    """Clip columns (m, k) at zero, add a prior and divide by the sum; zeros become uniform."""
    n_negative = int(np.count_nonzero(columns < 0))
    # The sum of the positive entries less the sum of all is the magnitude of the negative ones, without another array.
    clipped = np.maximum(columns, 0)
    above = float(clipped.sum(dtype=np.float64))
    below = above - float(columns.sum(dtype=np.float64)) if n_negative else 0.0
    if prior:
        clipped += columns.dtype.type(prior)
    # Sums in double: a column may have a million entries in single precision.
    total = clipped.sum(axis=0, dtype=np.float64)
    clipped[:, total == 0] = 1
    total[total == 0] = len(columns)
    clipped /= total.astype(columns.dtype)
    return Simplex(clipped, n_negative, below / (above + below) if n_negative else 0.0)


def smooth_logarithms(columns: FloatArray, background: NDArray[np.float64], share: float) -> FloatArray:
    """Return logarithms of distributions (d, k) mixed with a background (d,), floored at 1e-12."""
    # A word that a state never has would veto the state for good: its logarithm would be minus infinity.
    corpus = background / max(background.sum(), 1e-300)
    mixed: FloatArray = (1.0 - share) * columns
    # In the memory of the result: each further array of this size would have to be mapped anew.
    mixed += (share * corpus[:, None]).astype(columns.dtype)
    np.maximum(mixed, columns.dtype.type(1e-12), out=mixed)
    np.log(mixed, out=mixed)
    return mixed


class ScoringWeights(NamedTuple):
    """How labels are scored: by log-odds, and ``weight`` times a ridge regression; by a share of ``states``.

    `odds_alpha, alpha`: penalties of the log-odds and of the regression, for features of documents at unit length.
    """

    odds_alpha: float
    weight: float
    alpha: float
    states: float = 0.0


class EigenbasisRegression(NamedTuple):
    """Sums of the linear part, of features that are centered and turned until they are uncorrelated.

    Shapes: `values` (r,): their squares; `turn` (q, r); `mean` (q,); `labels` (L, r): ``Y'F``; `rates` (L,): means of
    the labels. `n_rows`: documents.
    """

    values: FloatArray
    turn: FloatArray
    mean: NDArray[np.float64]
    labels: FloatArray
    rates: NDArray[np.float64]
    n_rows: float

    @classmethod
    def from_sums(cls, regression: RegressionSums) -> Self:
        """Decompose the Gram matrix of the features once, for all labels and all penalties: some 9 q^3 operations."""
        gram, labels = regression
        n, dtype = float(gram[-1, -1]), labels.dtype
        mean = gram[-1, :-1] / n
        centered = gram[:-1, :-1] - n * np.outer(mean, mean)
        largest = centered.diagonal().max(initial=0.0)
        if (
            n < len(mean) and largest > 0
        ):  # a rank of n - 1 at most: L'L has the values of LL', and fewer rows
            factor, order, rank, _ = lapack.dpstrf(centered, tol=MIN_VARIANCE_SHARE * largest, lower=1)
            L = np.tril(factor)[np.argsort(order), :rank]
            values, turn = scipy.linalg.eigh(L.T @ L, driver="evd", check_finite=False)
            values, turn = values.astype(dtype), (L @ turn / np.sqrt(values)).astype(dtype)
        else:
            values, turn = scipy.linalg.eigh(centered.astype(dtype), driver="evd", check_finite=False)
        products = (labels[:, :-1] - np.outer(labels[:, -1], mean).astype(dtype)) @ turn
        return cls(np.maximum(values, 0), turn, mean, products, labels[:, -1].astype(np.float64) / n, n)

    @property
    def log_odds(self) -> NDArray[np.float64]:
        """Log-odds of the labels before a word is seen, with half a document more on either side (L,)."""
        have = self.rates * self.n_rows
        return np.log(have + 0.5) - np.log(self.n_rows - have + 0.5)

    @property
    def spread(self) -> FloatArray:
        """Variance ``p (1 - p)`` of each label, shape (L, 1)."""
        odds = np.exp(self.log_odds)[:, None]
        return np.asarray(odds / (1.0 + odds) ** 2, dtype=self.values.dtype)

    def ridge(self, alpha: float) -> FloatArray:
        """Return the ridge regression (L, q) of the labels on the turned features."""
        return np.asarray(self.labels / (self.values + self.values.dtype.type(alpha)))

    def odds(self, alpha: float) -> FloatArray:
        """Return one Newton step (L, q) of penalized logistic regressions, from the log-odds of all documents."""
        # At the start each label's weights of documents are all p (1 - p) = v, and the Hessian is v F'F + penalty: of
        # all labels it has the same eigenvectors. A rare label, whose v is small, is shrunk more.
        return np.asarray(self.labels / (self.spread * self.values + self.values.dtype.type(alpha)))

    def coefficients(self, linear: ScoringWeights, scales: NDArray[np.float64]) -> FloatArray:
        """Return coefficients (L, q + 1) of the features, the intercept last.

        `scales` (L, 2): what is added to log-odds, and what they are multiplied by.
        """
        shift, scale = scales.T
        turned = self.ridge(linear.alpha) * self.values.dtype.type(linear.weight)
        turned += self.odds(linear.odds_alpha) * scale[:, None].astype(turned.dtype)
        coefficients = turned @ self.turn.T
        intercept = linear.weight * self.rates + shift + scale * self.log_odds - coefficients @ self.mean
        return np.concatenate([coefficients, intercept[:, None].astype(coefficients.dtype)], axis=1)
