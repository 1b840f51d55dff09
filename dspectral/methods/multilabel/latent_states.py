"""Latent states with their word and label distributions, and the linear model in the eigenbasis of its features."""

from typing import NamedTuple, Self

import numpy as np
import scipy.linalg

from dspectral.methods.multilabel.summaries import RegressionSums
from dspectral.types import Doubles, FloatArray

MAX_EXACT_FEATURES, N_STEPS = 512, 4
"""Number of features above which a fifth of the eigenvectors is computed, and steps of conjugate gradients then."""


class Whitening(NamedTuple):
    """``W'M2 W = I`` on the leading directions of the words' second moment."""

    forward: FloatArray
    back: FloatArray


class Simplex(NamedTuple):
    """Distributions in columns (m, k), and the share of the clipped negative mass."""

    columns: FloatArray
    negative_mass: float


class LabelModel(NamedTuple):
    """Latent states, and the sums of the linear model.

    Shapes: `log_words` (d, k): log-probabilities; `weights` (k,); distributions `words` (d, k), `labels` (L, k);
    `label_state_counts` (L + 1, k): documents expected in each state given words: with each label, and all.
    `log_likelihood`: mean over the training documents, under the states before the pass.
    """

    log_words: FloatArray
    weights: Doubles
    words: Simplex
    labels: Simplex
    regression: RegressionSums
    label_state_counts: FloatArray
    log_likelihood: float


def clip_to_simplex(columns: FloatArray, prior: float = 0.0) -> Simplex:
    """Return columns (m, k) clipped at zero, plus a prior, divided by their sum; zero columns become uniform."""
    # The sum of positive entries minus the total sum is the negative mass, without another array.
    clipped = np.maximum(columns, 0)
    above = float(clipped.sum(dtype=np.float64))
    below = above - float(columns.sum(dtype=np.float64))
    if prior:
        clipped += columns.dtype.type(prior)
    # Sums in double precision, as columns may have a million entries.
    total = clipped.sum(axis=0, dtype=np.float64)
    clipped[:, total == 0] = 1
    total[total == 0] = len(columns)
    clipped /= total.astype(columns.dtype)
    return Simplex(clipped, below / (above + below) if below else 0.0)


def smooth_logarithms(columns: FloatArray, background: Doubles, share: float) -> FloatArray:
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
    """Linear models of the labels in leading eigenvectors of the centered features, exact or nearly so.

    Shapes: `values` (r,): leading eigenvalues of the Gram matrix; `eigenvectors` (q, r); `gram` (q, q); `mean` (q,);
    `products` (L, q): ``Y'F``; `labels` (L, r): the same in the eigenbasis; `rest_values` (L,): Rayleigh quotient of
    the rest of each row of `products`; `rates` (L,): means of the labels. `n_rows`: number of documents.
    """

    values: FloatArray
    eigenvectors: FloatArray
    gram: FloatArray
    mean: Doubles
    products: FloatArray
    labels: FloatArray
    rest_values: FloatArray
    rates: Doubles
    n_rows: float

    @classmethod
    def from_sums(cls, regression: RegressionSums) -> Self:
        """Return the eigenvectors shared by all labels: about 9 q^3 operations, or 6 q^2 r for the leading ones."""
        gram, labels = regression
        n, dtype = float(gram[-1, -1]), labels.dtype
        mean = gram[-1, :-1] / n
        centered = (gram[:-1, :-1] - n * np.outer(mean, mean)).astype(dtype)
        q, n_labels = len(mean), len(labels)
        if q <= MAX_EXACT_FEATURES or q < 4 * n_labels:
            values, turn = scipy.linalg.eigh(centered, driver="evd", check_finite=False)
        else:
            # Subspace iteration from the columns of the features of largest variance, closer than random ones.
            first = np.argsort(-centered.diagonal(), kind="stable")[: min(q // 5, int(n))]
            basis, _ = scipy.linalg.qr(centered @ centered[:, first], mode="economic", check_finite=False)
            values, turn = scipy.linalg.eigh(basis.T @ (centered @ basis), driver="evd", check_finite=False)
            turn = basis @ turn
        products = labels[:, :-1] - np.outer(labels[:, -1], mean).astype(dtype)
        inside = products @ turn
        rest = products - inside @ turn.T
        energy = np.maximum(np.einsum("ij,ij->i", rest, rest), np.finfo(dtype).tiny)
        rest_values = np.maximum(np.einsum("ij,ij->i", rest @ centered, rest) / energy, 0)
        rates = labels[:, -1].astype(np.float64) / n
        return cls(np.maximum(values, 0), turn, centered, mean, products, inside, rest_values, rates, n)

    @property
    def log_odds(self) -> Doubles:
        """Prior log-odds of the labels, with half a pseudo-document on either side (L,)."""
        n_positive = self.rates * self.n_rows
        return np.log(n_positive + 0.5) - np.log(self.n_rows - n_positive + 0.5)

    @property
    def spread(self) -> FloatArray:
        """Variance ``p (1 - p)`` of each label, shape (L, 1)."""
        odds = np.exp(self.log_odds)[:, None]
        return np.asarray(odds / (1.0 + odds) ** 2, dtype=self.values.dtype)

    def inverses(self, spread: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Return ``1 / (spread values + alpha)`` of the eigenvectors (L, r), and of the rest of each label (L, 1)."""
        shift = self.values.dtype.type(alpha)
        return 1 / (spread * self.values + shift), 1 / (spread * self.rest_values[:, None] + shift)

    def solve(self, spread: FloatArray, alpha: float) -> FloatArray:
        """Solve ``(spread gram + alpha) w = products`` for each label, shape (L, q); `spread` (L, 1) or (1, 1)."""
        # The eigenvectors give the start. Conjugate gradients then reduce the error in the rest of the spectrum, which
        # is narrow: a step is one product of shape (L, q) with the Gram matrix.
        inside, outside = self.inverses(spread, alpha)
        W = (self.labels * (inside - outside)) @ self.eigenvectors.T + outside * self.products
        if len(self.values) == len(self.gram):
            return W
        R = self.products - spread * (W @ self.gram) - W.dtype.type(alpha) * W
        P, size = R, np.einsum("ij,ij->i", R, R)[:, None]
        tiny = np.finfo(W.dtype).tiny
        for _ in range(N_STEPS):
            product = spread * (P @ self.gram) + P.dtype.type(alpha) * P
            step = size / np.maximum(np.einsum("ij,ij->i", P, product)[:, None], tiny)
            W, R = W + step * P, R - step * product
            before, size = size, np.einsum("ij,ij->i", R, R)[:, None]
            P = R + size / np.maximum(before, tiny) * P
        return W

    def coefficients(self, linear: ScoringWeights, scales: Doubles) -> FloatArray:
        """Return coefficients (L, q + 1) of the features, intercept last, from shift and scale (L, 2) of log-odds."""
        # One Newton step of penalized logistic regression from the prior log-odds: there all documents have the weight
        # v = p (1 - p), so the Hessian v F'F + penalty has the same eigenvectors for all labels. Rare labels, of small
        # v, are shrunk more.
        shift, scale = scales.T
        coefficients = self.values.dtype.type(linear.weight) * self.solve(np.ones_like(self.spread), linear.alpha)
        coefficients += self.solve(self.spread, linear.odds_alpha) * scale[:, None].astype(coefficients.dtype)
        intercept = linear.weight * self.rates + shift + scale * self.log_odds - coefficients @ self.mean
        return np.concatenate([coefficients, intercept[:, None].astype(coefficients.dtype)], axis=1)
