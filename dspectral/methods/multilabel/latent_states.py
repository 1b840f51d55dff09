"""From moments to the latent states of documents: their weights, words and labels."""

from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dspectral.linalg.dense import eigh_descending
from dspectral.linalg.tensors import OrthogonalCP
from dspectral.types import FloatArray


class Whitening(NamedTuple):
    """``W'M2 W = I`` on the leading directions of the words' second moment.

    `forward` (d, k): the whitening matrix W; `back` (d, k): transposed pseudo-inverse of W.
    """

    forward: FloatArray
    back: FloatArray

    @classmethod
    def of(cls, axes: FloatArray, values: NDArray[np.float64]) -> "Whitening":
        """Return the whitening of a matrix with these eigenvectors (rows) and positive eigenvalues.

        Shapes: `axes` (k, d), `values` (k,).

        >>> whitening = Whitening.of(np.eye(2), np.array([4.0, 1.0]))
        >>> whitening.forward.T @ np.diag([4.0, 1.0]) @ whitening.forward
        array([[1., 0.],
               [0., 1.]])
        """
        # With M2 = V S V' the whitening is W = V S^(-1/2), and V S^(1/2) is the transpose of its pseudo-inverse, which
        # takes whitened vectors back to words.
        roots = np.sqrt(values).astype(axes.dtype)
        return cls(np.ascontiguousarray(axes.T / roots), np.ascontiguousarray(axes.T * roots))

    def corrected(
        self, second: NDArray[np.float64], *, fewer: bool = False
    ) -> tuple["Whitening", NDArray[np.float64]]:
        """Return a whitening for which the second moment is the identity, within the same directions.

        Shapes: `second` (k, k); returns `rotation` (k, k).
        """
        values, vectors = eigh_descending(second)
        # Whitening divides by the roots of these values: a direction with less than a thousandth of the largest would
        # blow noise up to unit size.
        usable = int(np.sum(values > 1e-3 * values[0])) if values[0] > 0 else 0
        if 0 < usable < len(values) and fewer:
            values, vectors = values[:usable], vectors[:, :usable]
            R, inverse = vectors / np.sqrt(values), vectors * np.sqrt(values)
        elif usable < len(values):
            raise ValueError(
                f"n_states is {len(values)}, but the words have only {usable} independent direction(s): "
                f"ask for at most {usable} states"
            )
        else:
            # The symmetric root turns the directions least; any R with R' second R = I would whiten.
            R = (vectors / np.sqrt(values)) @ vectors.T
            inverse = (vectors * np.sqrt(values)) @ vectors.T
        dtype = self.forward.dtype
        return Whitening(self.forward @ R.astype(dtype), self.back @ inverse.astype(dtype)), R


class Simplex(NamedTuple):
    """Distributions in columns, and what was taken away to make them so.

    `columns` (m, k): entries of at least 0; `n_negative`: number of entries that were below zero;
    `negative_mass`: share of those entries in the sum of all magnitudes.
    """

    columns: FloatArray
    n_negative: int
    negative_mass: float


def words_and_weights(back: FloatArray, cubes: OrthogonalCP) -> tuple[Simplex, NDArray[np.float64]]:
    """Return the words' probabilities in each state (section 2.3) and those of the states, from the whitened tensor.

    Shapes: `back` (d, k); returns `weights` (k,).
    """
    # Whitening took mu_j to a multiple of the j-th vector; its sign is lost, and a distribution sums to above 0.
    columns = back @ cubes.vectors.astype(back.dtype)
    words = on_simplex(columns * np.where(columns.sum(axis=0) < 0, -1, 1).astype(back.dtype))
    # The values are 1 / sqrt(pi). No probability is above 1, so a value below 1 is noise.
    weights = 1.0 / np.maximum(cubes.values, 1.0) ** 2
    return words, np.asarray(weights / weights.sum())


def on_simplex(columns: FloatArray, prior: float = 0.0) -> Simplex:
    """Clip each column at zero, add a prior to every entry and divide by the sum; a column of zeros is uniform.

    Shapes: `columns` (m, k).

    >>> on_simplex(np.array([[3.0], [-1.0], [1.0]])).columns.ravel()
    array([0.75, 0.  , 0.25])
    """
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
    """Return logarithms of distributions mixed with a background, a probability floored at 1e-12.

    Shapes: `columns` (d, k), `background` (d,); returns (d, k).
    """
    # A word that a state never has would veto the state for good: its logarithm would be minus infinity.
    corpus = background / max(background.sum(), 1e-300)
    mixed: FloatArray = (1.0 - share) * columns
    # In the memory of the result: each further array of this size would have to be mapped anew.
    mixed += (share * corpus[:, None]).astype(columns.dtype)
    np.maximum(mixed, columns.dtype.type(1e-12), out=mixed)
    np.log(mixed, out=mixed)
    return mixed


def residual_regression(
    gram: NDArray[np.float64],
    cross_states: NDArray[np.float64],
    cross_labels: FloatArray,
    label_distributions: FloatArray,
    alpha: float,
) -> FloatArray:
    """Return the ridge regression of ``Y - P gamma'`` on features, from cross products alone.

    Shapes: `gram` (r, r), `cross_states` (r, k), `cross_labels` (L, r), `label_distributions` (L, k); returns
    (L, r).
    """
    # Two products of L r^2 and L k r operations: the r x r inverse is taken once, since L may be hundreds of thousands.
    # The solution is (Y'F - gamma P'F) (F'F + penalty)^-1. The penalty is in units of the mean of the diagonal of F'F,
    # so that one alpha serves any number of documents.
    inverse = penalized_inverse(gram, alpha)
    dtype = cross_labels.dtype
    return np.asarray(
        cross_labels @ inverse.astype(dtype)
        - label_distributions @ (cross_states.T @ inverse).astype(label_distributions.dtype),
        dtype=dtype,
    )


def penalized_inverse(gram: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """Return the inverse of ``F'F + penalty``, for a penalty of alpha times the mean of the diagonal of ``F'F``."""
    size = len(gram)
    penalized = gram + alpha * np.trace(gram) / size * np.eye(size)
    return np.asarray(scipy.linalg.cho_solve(scipy.linalg.cho_factor(penalized), np.eye(size)))
