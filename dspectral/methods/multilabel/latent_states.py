"""Latent states with their word and label distributions, and the linear model in the eigenbasis of its features."""

from typing import NamedTuple, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg import lapack

from dspectral.methods.multilabel.summaries import RegressionSums
from dspectral.types import FloatArray

MIN_VARIANCE_SHARE = 1e-6
"""Relative pivot tolerance of the rank-revealing Cholesky factorization."""


class Whitening(NamedTuple):
    """``W'M2 W = I`` on the leading directions of the words' second moment."""

    forward: FloatArray
    back: FloatArray


class Simplex(NamedTuple):
    """Distributions in columns (m, k), and the number and share of the clipped negative entries."""

    columns: FloatArray
    n_negative: int
    negative_mass: float


class LabelModel(NamedTuple):
    """Latent states, and the sums of the linear model.

    Shapes: `log_words` (d, k): smoothed; `weights` (k,); `words` (d, k), `labels` (L, k): distributions;
    `label_state_counts` (L + 1, k): expected documents of each state given words, with each label and in all.
    `log_likelihood`: mean over the training documents, under the states before the pass.
    """

    log_words: FloatArray
    weights: NDArray[np.float64]
    words: Simplex
    labels: Simplex
    regression: RegressionSums
    label_state_counts: FloatArray
    log_likelihood: float


def clip_to_simplex(columns: FloatArray, prior: float = 0.0) -> Simplex:
    """Return columns (m, k) clipped at zero, plus a prior, divided by their sum; zero columns become uniform."""
    n_negative = int(np.count_nonzero(columns < 0))
    # The sum of positive entries minus the total sum is the negative mass, without another array.
    clipped = np.maximum(columns, 0)
    above = float(clipped.sum(dtype=np.float64))
    below = above - float(columns.sum(dtype=np.float64)) if n_negative else 0.0
    if prior:
        clipped += columns.dtype.type(prior)
    # Sums in double precision, as columns may have a million entries.
    total = clipped.sum(axis=0, dtype=np.float64)
    clipped[:, total == 0] = 1
    total[total == 0] = len(columns)
    clipped /= total.astype(columns.dtype)
    return Simplex(clipped, n_negative, below / (above + below) if n_negative else 0.0)


def smooth_logarithms(columns: FloatArray, background: NDArray[np.float64], share: float) -> FloatArray:
    """Return logarithms of distributions (d, k) mixed with a background (d,), floored at 1e-12."""
    # Without the floor a single word of probability 0 would exclude a state.
    corpus = background / max(background.sum(), 1e-300)
    mixed: FloatArray = (1.0 - share) * columns
    # In place, to avoid further arrays of this size.
    mixed += (share * corpus[:, None]).astype(columns.dtype)
    np.maximum(mixed, columns.dtype.type(1e-12), out=mixed)
    np.log(mixed, out=mixed)
    return mixed


class ScoringWeights(NamedTuple):
    """Weights of a score: log-odds plus ``weight`` times ridge regression, mixed with a share of ``states``.

    `odds_alpha, alpha`: penalties of the log-odds and the ridge regression, for documents of unit length.
    """

    odds_alpha: float
    weight: float
    alpha: float
    states: float = 0.0


class EigenbasisRegression(NamedTuple):
    """Linear models of the labels in the eigenbasis of the centered features.

    Shapes: `values` (r,): eigenvalues; `eigenvectors` (q, r): eigenvectors; `mean` (q,); `labels` (L, r): ``Y'F``;
    `rates` (L,): means of the labels. `n_rows`: number of documents.
    """

    values: FloatArray
    eigenvectors: FloatArray
    mean: NDArray[np.float64]
    labels: FloatArray
    rates: NDArray[np.float64]
    n_rows: float

    @classmethod
    def from_sums(cls, regression: RegressionSums) -> Self:
        """Return the eigendecomposition of the Gram matrix, shared by all labels: about 9 q^3 operations."""
        gram, labels = regression
        n, dtype = float(gram[-1, -1]), labels.dtype
        mean = gram[-1, :-1] / n
        centered = gram[:-1, :-1] - n * np.outer(mean, mean)
        largest = centered.diagonal().max(initial=0.0)
        if (
            n < len(mean) and largest > 0
        ):  # The rank is at most n - 1, so L'L is smaller than LL' and has the same nonzero eigenvalues.
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
        """Prior log-odds of the labels, with half a pseudo-document on either side (L,)."""
        n_positive = self.rates * self.n_rows
        return np.log(n_positive + 0.5) - np.log(self.n_rows - n_positive + 0.5)

    @property
    def spread(self) -> FloatArray:
        """Variance ``p (1 - p)`` of each label, shape (L, 1)."""
        odds = np.exp(self.log_odds)[:, None]
        return np.asarray(odds / (1.0 + odds) ** 2, dtype=self.values.dtype)

    def ridge(self, alpha: float) -> FloatArray:
        """Return the ridge coefficients (L, r) in the eigenbasis."""
        return np.asarray(self.labels / (self.values + self.values.dtype.type(alpha)))

    def odds(self, alpha: float) -> FloatArray:
        """Return one Newton step (L, r) of penalized logistic regression from the prior log-odds."""
        # At the start all documents have the weight v = p (1 - p), so the Hessian v F'F + penalty has the same
        # eigenvectors for all labels. Rare labels, of small v, are shrunk more.
        return np.asarray(self.labels / (self.spread * self.values + self.values.dtype.type(alpha)))

    def coefficients(self, linear: ScoringWeights, scales: NDArray[np.float64]) -> FloatArray:
        """Return coefficients (L, q + 1) of the features, intercept last, from shift and scale (L, 2) of log-odds."""
        shift, scale = scales.T
        scaled = self.ridge(linear.alpha) * self.values.dtype.type(linear.weight)
        scaled += self.odds(linear.odds_alpha) * scale[:, None].astype(scaled.dtype)
        coefficients = scaled @ self.eigenvectors.T
        intercept = linear.weight * self.rates + shift + scale * self.log_odds - coefficients @ self.mean
        return np.concatenate([coefficients, intercept[:, None].astype(coefficients.dtype)], axis=1)
