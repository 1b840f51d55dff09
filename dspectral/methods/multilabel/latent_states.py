"""Latent states of documents: their words and labels as distributions, and the linear correction beside them."""

from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dspectral.methods.multilabel.summaries import Regression
from dspectral.types import FloatArray


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
    `log_likelihood`: mean over the training documents, under the states that the pass began with.
    """

    log_words: FloatArray
    weights: NDArray[np.float64]
    words: Simplex
    labels: Simplex
    regression: Regression
    log_likelihood: float


def on_simplex(columns: FloatArray, prior: float = 0.0) -> Simplex:
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


def smoothed_logarithms(columns: FloatArray, background: NDArray[np.float64], share: float) -> FloatArray:
    """Return logarithms of distributions (d, k) mixed with a background (d,), floored at 1e-12."""
    # A word that a state never has would veto the state for good: its logarithm would be minus infinity.
    corpus = background / max(background.sum(), 1e-300)
    mixed: FloatArray = (1.0 - share) * columns
    # In the memory of the result: each further array of this size would have to be mapped anew.
    mixed += (share * corpus[:, None]).astype(columns.dtype)
    np.maximum(mixed, columns.dtype.type(1e-12), out=mixed)
    np.log(mixed, out=mixed)
    return mixed


def residual_regression(regression: Regression, labels: FloatArray, alpha: float) -> FloatArray:
    """Return the ridge regression (L, r + 1) of ``Y - P gamma'`` on features, from cross products alone."""
    # Two products of L r^2 and L k r operations: the r x r inverse is taken once, since L may be hundreds of thousands.
    # The solution is (Y'F - gamma P'F) (F'F + penalty)^-1. The penalty is in units of the mean of the diagonal of F'F,
    # so that one alpha serves any number of documents.
    inverse, dtype = penalized_inverse(regression.gram, alpha), regression.labels.dtype
    return np.asarray(
        regression.labels @ inverse.astype(dtype)
        - labels @ (regression.states.T @ inverse).astype(labels.dtype),
        dtype=dtype,
    )


def penalized_inverse(gram: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """Return the inverse of ``F'F + penalty``, for a penalty of alpha times the mean of the diagonal of ``F'F``."""
    size = len(gram)
    penalized = gram + alpha * np.trace(gram) / size * np.eye(size)
    return np.asarray(scipy.linalg.cho_solve(scipy.linalg.cho_factor(penalized), np.eye(size)))
