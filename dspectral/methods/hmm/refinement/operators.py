"""From moments of labelled sequences to the operators, or the parameters, of a refinement HMM."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dspectral.linalg.joint_diagonalization import joint_diagonalize
from dspectral.methods.hmm.inference import HiddenMarkov
from dspectral.registry import saved


class Projections(NamedTuple):
    """From the views of a token to what they say about its refinement.

    Attributes
    ----------
    past, future : ndarray of float64, shape (n_labels, width + 1, m)
        Of ``[view, 1]``. The first coordinate is 1, the others have mean 0 within each label, and there the two
        have the canonical correlations as their only covariances.
    correlations : ndarray of float64, shape (n_labels, m - 1)
    n_refinements : ndarray of int64, shape (n_labels,)
        How many refinements of each label the moments can tell apart; further coordinates are 0.
    """

    past: NDArray[np.float64]
    future: NDArray[np.float64]
    correlations: NDArray[np.float64]
    n_refinements: NDArray[np.int64]


@saved
class Operators(NamedTuple):
    """Observable operators: chain products of them give probabilities, without any hidden state.

    Attributes
    ----------
    emission : ndarray of float64, shape (n_labels, n_types, m, m)
        O[a][x], similar to a diagonal matrix of ``o(x | a, h)``.
    transition : ndarray of float64, shape (n_labels, n_labels, m, m)
        T[a][b], from a to b.
    first, last : ndarray of float64, shape (n_labels, m)
        ``p(a_1 = a_n = a, x, n = 1)`` is ``last[a] O[a][x] first[a]``.
    """

    emission: NDArray[np.float64]
    transition: NDArray[np.float64]
    first: NDArray[np.float64]
    last: NDArray[np.float64]


class Recovered(NamedTuple):
    """What tokens, steps, starts and ends count for each refinement, and how many of these came out negative.

    Attributes
    ----------
    counts : HiddenMarkov
        Of all labels' refinements, one label's after the other's; negative ones set to 0.
    n_negative : int
    """

    counts: HiddenMarkov
    n_negative: int


def projections(gram: NDArray[np.float64], m: int, *, regularization: float = 1e-2) -> Projections:
    """Find the directions in which past and future agree within each label.

    Parameters
    ----------
    gram : ndarray of float64, shape (n_labels, 2 width + 1, 2 width + 1)
        Of rows ``[past, future, 1]``.
    m : int
        Refinements asked for: the constant and ``m - 1`` pairs of canonical directions.
    regularization : float
        Added to variances before whitening, in units of their mean.

    Notes
    -----
    Given a label and its refinement, past and future are independent, so their covariance within the label has
    rank ``m - 1``, whatever the views and the scaling.

    References
    ----------
    Stratos, Rush, Cohen and Collins 2013, "Spectral learning of refinement HMMs", section 4 (projections from the
    covariance of past and future for each label); Hotelling 1936 (canonical correlations).

    Examples
    --------
    >>> rows = np.array([[0.0, 0, 1], [1, 1, 1], [1, 1, 1], [0, 0, 1]])
    >>> projections((rows.T @ rows)[None], 2, regularization=0).correlations.round(6)
    array([[1.]])
    """
    n_labels, width = len(gram), gram.shape[1] // 2
    out = Projections(
        np.zeros((n_labels, width + 1, m)),
        np.zeros((n_labels, width + 1, m)),
        np.zeros((n_labels, m - 1)),
        np.ones(n_labels, dtype=np.int64),
    )
    out.past[:, -1, 0] = out.future[:, -1, 0] = 1.0
    for label in range(n_labels):
        count = gram[label, -1, -1]
        if m == 1 or count == 0:
            continue
        mean = gram[label, -1, :-1] / count
        covariance = gram[label, :-1, :-1] / count - np.outer(mean, mean)
        sides = [
            inverse_root(covariance[:width, :width], regularization),
            inverse_root(covariance[width:, width:], regularization),
        ]
        left, values, right = scipy.linalg.svd(sides[1] @ covariance[width:, :width] @ sides[0])
        rank = min(m - 1, int(np.sum(values > 1e-9)))
        for side, axes, at in (
            (out.past, sides[0] @ right[:rank].T, 0),
            (out.future, sides[1] @ left[:, :rank], 1),
        ):
            side[label, :-1, 1 : rank + 1] = axes
            side[label, -1, 1 : rank + 1] = -mean[at * width : (at + 1) * width] @ axes
        out.correlations[label, :rank] = values[:rank]
        out.n_refinements[label] = rank + 1
    return out


def inverse_root(covariance: NDArray[np.float64], regularization: float) -> NDArray[np.float64]:
    """Return the inverse square root of a covariance, 0 along the directions that do not vary."""
    values, vectors = scipy.linalg.eigh(covariance)
    floor = 1e-12 * max(values[-1], 0.0)
    ridge = regularization * float(np.mean(np.maximum(values, 0.0)))
    scales = np.where(values > floor, (np.maximum(values, floor) + ridge + 1e-300) ** -0.5, 0.0)
    return np.asarray((vectors * scales) @ vectors.T)


def operators(
    joint: NDArray[np.float64],
    steps: NDArray[np.float64],
    first: NDArray[np.float64],
    last: NDArray[np.float64],
    n_refinements: NDArray[np.int64],
) -> Operators:
    """Divide moments by the moment of past and future: chain products of these give probabilities.

    Parameters
    ----------
    joint, steps, first, last
        As in :class:`~dspectral.methods.hmm.refinement.moments.OperatorMoments`.
    n_refinements : ndarray of int64, shape (n_labels,)

    References
    ----------
    Hsu, Kakade and Zhang 2008, "A spectral algorithm for learning hidden Markov models"; Stratos et al. 2013.
    """
    inverses = np.zeros_like(joint[:, 0])
    for label, m in enumerate(n_refinements):
        total = joint[label, :, :m, :m].sum(axis=0)
        if total[0, 0] > 0:
            inverses[label, :m, :m] = np.linalg.pinv(total)
    return Operators(
        joint @ inverses[:, None],
        steps @ inverses[:, None],
        first / max(1e-300, float(first[:, 0].sum())),
        np.einsum("ai,aij->aj", last, inverses),
    )


def recovered(
    joint: NDArray[np.float64],
    steps: NDArray[np.float64],
    first: NDArray[np.float64],
    last: NDArray[np.float64],
    n_refinements: NDArray[np.int64],
) -> Recovered:
    """Find each refinement's own tokens, steps, starts and ends by the method of moments.

    Parameters
    ----------
    joint, steps, first, last
        As in :class:`~dspectral.methods.hmm.refinement.moments.OperatorMoments`.
    n_refinements : ndarray of int64, shape (n_labels,)

    Returns
    -------
    Recovered
        Refinements in order of falling weight within each label.

    Notes
    -----
    Past, token and future are three independent views of a refinement: the third moment, symmetrised and
    whitened, is diagonal in one orthogonal basis, which Jacobi's rotations find (no random start). It gives what
    the views expect of each refinement; solving for these shares turns each moment into counts.

    References
    ----------
    Anandkumar, Ge, Hsu, Kakade and Telgarsky 2014, "Tensor decompositions for learning latent variable models",
    sections 3.3 and 4; Cardoso and Souloumiac 1996, "Jacobi angles for simultaneous diagonalization".
    """
    solved = [Mixture.of(joint[a, :, :m, :m]) for a, m in enumerate(n_refinements)]
    bounds = np.concatenate([[0], np.cumsum(n_refinements)])
    n_states, parts = int(bounds[-1]), [slice(a, b) for a, b in pairwise(bounds)]
    counts = HiddenMarkov(
        np.empty(n_states),
        np.zeros((n_states, n_states)),
        np.empty((joint.shape[1], n_states)),
        np.empty(n_states),
    )
    for a, (here, own, m) in enumerate(zip(solved, parts, n_refinements, strict=True)):
        counts.emission[:, own] = here.tokens
        counts.initial[own] = here.future @ first[a, :m]
        counts.final[own] = here.past @ last[a, :m]
        for b, (there, others) in enumerate(zip(solved, parts, strict=True)):
            moment = steps[a, b, : n_refinements[b], :m]
            counts.transition[own, others] = (there.future @ moment @ here.past.T).T
    n_negative = sum(int(np.sum(part < 0)) for part in counts)
    return Recovered(HiddenMarkov(*(np.maximum(part, 0.0) for part in counts)), n_negative)


class Mixture(NamedTuple):
    """One label's refinements.

    Attributes
    ----------
    past, future : ndarray of float64, shape (m, m)
        From a view to shares of refinements; the mean over all views of a refinement is 1 for it, 0 for others.
    tokens : ndarray of float64, shape (n_types, m)
        What each type counts for each refinement.
    """

    past: NDArray[np.float64]
    future: NDArray[np.float64]
    tokens: NDArray[np.float64]

    @classmethod
    def of(cls, joint: NDArray[np.float64]) -> "Mixture":
        """Solve for one label, from ``joint`` of shape (n_types, m, m)."""
        m, count = joint.shape[2], float(joint[:, 0, 0].sum())
        if m == 1 or count == 0:
            return cls(np.eye(m), np.eye(m), joint[:, 0, :])
        token = token_view(joint, m)
        between = joint.sum(axis=0) / count
        apart = ridge_inverse(between, count)
        # Past and future are mapped to where they expect of each refinement what the token view expects.
        from_past = token.T @ joint[:, :, 0] @ apart.T / count
        from_future = token.T @ joint[:, 0, :] @ apart / count
        pairs = from_future @ between @ from_past.T
        triples = np.einsum("xij,xk->ijk", joint, token, optimize=True) / count
        triples = np.einsum("ijk,ai,bj->abk", triples, from_future, from_past, optimize=True)
        means = component_means(pairs, triples)
        shares = np.linalg.inv(means)
        past, future = shares @ from_past, shares @ from_future
        tokens = 0.5 * (joint[:, 0, :] @ past.T + joint[:, :, 0] @ future.T)
        order = np.argsort(-tokens.sum(axis=0), kind="stable")
        return cls(past[order], future[order], tokens[:, order])


def token_view(joint: NDArray[np.float64], m: int) -> NDArray[np.float64]:
    """Return numbers for each type that tell refinements apart, shape (n_types, m); the first is 1.

    The leading left singular vectors of what past and future are at each type, weighted by its count.
    """
    count = joint[:, 0, 0]
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
    left, values, right = scipy.linalg.svd(between)
    return np.asarray((right.T * (values / (values**2 + 1.0 / count))) @ left.T)


def component_means(pairs: NDArray[np.float64], triples: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what a view expects of each refinement, shape (m, m), one a column; the first row is 1.

    Parameters
    ----------
    pairs : ndarray, shape (m, m)
        ``sum_h w_h y_h y_h'``, up to noise.
    triples : ndarray, shape (m, m, m)
        ``sum_h w_h y_h (x) y_h (x) y_h``.
    """
    values, vectors = scipy.linalg.eigh((pairs + pairs.T) / 2)
    values = np.maximum(values, 1e-6 * values[-1])
    white, colour = vectors / np.sqrt(values), vectors * np.sqrt(values)
    whitened = np.einsum("ijk,ia,jb,kc->abc", triples, white, white, white, optimize=True)
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    slices = np.ascontiguousarray(sum(np.transpose(whitened, order) for order in orders) / 6)
    scaled = colour @ joint_diagonalize(
        slices
    )  # columns are sqrt(w_h) y_h, and the first coordinate of y_h is 1
    heads = scaled[0]
    heads = np.where(np.abs(heads) < 1e-3, np.where(heads < 0, -1e-3, 1e-3), heads)
    return np.asarray(scaled / heads)
