"""The refinements of one label, from the third moment of three independent views."""

from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dspectral.linalg.tensors import joint_diagonalize


class Mixture(NamedTuple):
    """The refinements of one label.

    `past, future` (m, m): maps from a view to shares of refinements; `tokens` (n_types, m): number of tokens
    of each type in each refinement.
    """

    past: NDArray[np.float64]
    future: NDArray[np.float64]
    tokens: NDArray[np.float64]

    @classmethod
    def of(cls, joint: NDArray[np.float64]) -> "Mixture":
        """Solve for one label, given its ``joint`` moments of shape (n_types, m, m)."""
        m, count = joint.shape[2], float(joint[:, 0, 0].sum())
        # One refinement is the label itself: counts as they are, which is the supervised model.
        if m == 1 or count == 0:
            return cls(np.eye(m), np.eye(m), joint[:, 0, :])
        token = token_view(joint, m)
        between = joint.sum(axis=0) / count
        apart = ridge_inverse(between, count)
        # Past and future are mapped to coordinates in which their means in each refinement are those of the token view.
        # The maps are E[token past'] E[future past']^-1 for the future, and E[token future'] E[past future']^-1 for the
        # past, their inverses damped where noise rules.
        from_past = token.T @ joint[:, :, 0] @ apart.T / count
        from_future = token.T @ joint[:, 0, :] @ apart / count
        pairs = from_future @ between @ from_past.T
        triples = np.einsum("xij,xk->ijk", joint, token, optimize=True) / count
        triples = np.einsum("ijk,ai,bj->abk", triples, from_future, from_past, optimize=True)
        means = component_means(pairs, triples)
        # The columns of ``means`` are the refinements' means, so its inverse maps the mean of refinement h to the h-th
        # unit vector: mapped views are shares of refinements, right on average.
        shares = np.linalg.inv(means)
        past, future = shares @ from_past, shares @ from_future
        # The counts of types in each refinement follow from the past and from the future alike; the mean of the two has
        # less noise than either.
        tokens = 0.5 * (joint[:, 0, :] @ past.T + joint[:, :, 0] @ future.T)
        order = np.argsort(-tokens.sum(axis=0), kind="stable")
        return cls(past[order], future[order], tokens[:, order])


def token_view(joint: NDArray[np.float64], m: int) -> NDArray[np.float64]:
    """Return numbers for each type that tell refinements apart, shape (n_types, m); the first is 1.

    The others are leading left singular vectors of the sums of past and future at each type, scaled by its count.
    """
    count = joint[:, 0, 0]
    # Divided by the root of the count, rows have noise of one size; the constant direction is taken out, since the
    # first coordinate stands for it already.
    root = np.sqrt(np.maximum(count, 1e-300))
    rows = np.hstack([joint[:, 0, 1:], joint[:, 1:, 0]]) / root[:, None]
    rows[count <= 0] = 0.0
    share = root / np.linalg.norm(root)
    rows -= np.outer(share, share @ rows)
    left, _, _ = scipy.linalg.svd(rows, full_matrices=False)
    view = np.zeros((len(joint), m))
    view[:, 0] = 1.0
    width = min(m - 1, left.shape[1])
    view[:, 1 : width + 1] = left[:, :width] / root[:, None] * np.sqrt(count.sum())
    view[count <= 0, 1:] = 0.0
    return view


def ridge_inverse(between: NDArray[np.float64], count: float) -> NDArray[np.float64]:
    """Invert the moment of past and future, whose noise is of the order ``count ** -0.5``."""
    # Directions whose correlation is below the noise are damped instead of amplified: s / (s^2 + 1 / n).
    left, values, right = scipy.linalg.svd(between)
    return np.asarray((right.T * (values / (values**2 + 1.0 / count))) @ left.T)


def component_means(pairs: NDArray[np.float64], triples: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of a view in each refinement.

    Shapes: `pairs` (m, m), `triples` (m, m, m); returns (m, m).
    """
    # Whitening maps sqrt(w_h) y_h to orthonormal vectors v_h, so the whitened third moment is
    # sum_h v_h (x) v_h (x) v_h / sqrt(w_h): all its slices are diagonal in the basis of the v_h.
    values, vectors = scipy.linalg.eigh((pairs + pairs.T) / 2)
    # Noise can make the smallest eigenvalue negative: the floor keeps whitening finite.
    values = np.maximum(values, 1e-6 * values[-1])
    white, color = vectors / np.sqrt(values), vectors * np.sqrt(values)
    whitened = np.einsum("ijk,ia,jb,kc->abc", triples, white, white, white, optimize=True)
    # Views differ by noise, so the estimate is symmetrized over all orders of the three axes.
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    slices = np.ascontiguousarray(sum(np.transpose(whitened, order) for order in orders) / 6)
    scaled = color @ joint_diagonalize(slices)
    heads = scaled[0]  # columns are sqrt(w_h) y_h, and the first coordinate of y_h is 1
    # A head near 0 is a refinement without weight; dividing by it would give a mean of any size.
    heads = np.where(np.abs(heads) < 1e-3, np.where(heads < 0, -1e-3, 1e-3), heads)
    return np.asarray(scaled / heads)
