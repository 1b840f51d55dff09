"""Operators and parameters of a refinement HMM from moments of labeled sequences."""

from itertools import pairwise, permutations
from typing import NamedTuple

import numpy as np
import scipy.linalg

from dspectral.linalg.tensors import joint_diagonalize
from dspectral.methods.hmm.chain import HiddenMarkov
from dspectral.registry import register_class
from dspectral.types import Doubles, Int64s


class Projections(NamedTuple):
    """Projections (n_labels, width + 1, m) of ``[view, 1]`` to coordinates that separate refinements."""

    past: Doubles
    future: Doubles
    correlations: Doubles
    n_refinements: Int64s


@register_class(
    {
        "emission": "n_labels n_types m m",
        "transition": "n_labels n_labels m m",
        "first": "n_labels m",
        "last": "n_labels m",
    }
)
class Operators(NamedTuple):
    """Observable operators, whose products along a sequence give probabilities without hidden states.

    Shapes: `emission` (n_labels, n_types, m, m), similar to diagonal matrices of ``o(x | a, h)``; `transition`
    (n_labels, n_labels, m, m); `first, last` (n_labels, m).
    """

    emission: Doubles
    transition: Doubles
    first: Doubles
    last: Doubles


def compute_projections(gram: Doubles, m: int, *, regularization: float = 1e-2) -> Projections:
    """Return the canonical directions of past and future within each label.

    Given a label and its refinement, past and future are independent, so their covariance within the label has rank
    ``m - 1`` for any views: Stratos et al. 2013, section 4; Hotelling 1936. Shapes: `gram` (n_labels, 2 width + 1,
    2 width + 1).
    """
    n_labels, width = len(gram), gram.shape[1] // 2
    shape = n_labels, width + 1, m
    out = Projections(np.zeros(shape), np.zeros(shape), np.zeros((n_labels, m - 1)), np.ones(n_labels, dtype=np.int64))
    # The first column of a projection selects the constant of [view, 1]: first coordinates of moments are counts.
    out.past[:, -1, 0] = out.future[:, -1, 0] = 1.0
    # For each label: the SVD of Cov(future, future)^-1/2 Cov(future, past) Cov(past, past)^-1/2, whose singular values
    # are the canonical correlations. The last row of a projection subtracts the mean. O(n_labels width^3).
    for label in range(n_labels):
        count = gram[label, -1, -1]
        if m == 1 or count == 0:
            continue
        mean = gram[label, -1, :-1] / count
        covariance = gram[label, :-1, :-1] / count - np.outer(mean, mean)
        blocks = covariance[:width, :width], covariance[width:, width:]
        sides = [inverse_root(block, regularization) for block in blocks]
        left, values, right = scipy.linalg.svd(sides[1] @ covariance[width:, :width] @ sides[0])
        # A correlation of 0 separates nothing: the label gets fewer refinements.
        rank = min(m - 1, int(np.sum(values > 1e-9)))
        for side, axes, side_number in (
            (out.past, sides[0] @ right[:rank].T, 0),
            (out.future, sides[1] @ left[:, :rank], 1),
        ):
            side[label, :-1, 1 : rank + 1] = axes
            side[label, -1, 1 : rank + 1] = -mean[side_number * width : (side_number + 1) * width] @ axes
        out.correlations[label, :rank] = values[:rank]
        out.n_refinements[label] = rank + 1
    return out


def inverse_root(covariance: Doubles, regularization: float) -> Doubles:
    """Return the regularized inverse square root of a covariance, 0 along constant directions."""
    values, vectors = scipy.linalg.eigh(covariance)
    floor = 1e-12 * max(values[-1], 0.0)
    ridge = regularization * float(np.mean(np.maximum(values, 0.0)))
    # The ridge is relative to the mean variance, independent of the unit of the views.
    scales = np.where(values > floor, (np.maximum(values, floor) + ridge + 1e-300) ** -0.5, 0.0)
    return (vectors * scales) @ vectors.T


def find_operators(joint: Doubles, steps: Doubles, first: Doubles, last: Doubles, n_refinements: Int64s) -> Operators:
    """Return observable operators (Hsu et al. 2008): moments times the inverse moment of past and future."""
    # With S_a the moment of future and past of label a: O[a][x] = joint[a, x] S_a^-1, T[a][b] = steps[a, b] S_a^-1 and
    # last[a] S_a^-1. Numbers of tokens cancel; the start is divided by the number of sequences, the sum of its first
    # coordinates. Cost: O(n_labels (n_types + n_labels) m^3).
    inverses = np.zeros_like(joint[:, 0])
    for label, m in enumerate(n_refinements):
        total = joint[label, :, :m, :m].sum(axis=0)
        # Padded coordinates are zero and excluded.
        if total[0, 0] > 0:
            inverses[label, :m, :m] = np.linalg.pinv(total)
    return Operators(
        joint @ inverses[:, None],
        steps @ inverses[:, None],
        first / max(1e-300, float(first[:, 0].sum())),
        np.einsum("ai,aij->aj", last, inverses),
    )


def recover_counts(
    joint: Doubles, steps: Doubles, first: Doubles, last: Doubles, n_refinements: Int64s
) -> HiddenMarkov:
    """Return the tokens, steps, starts and ends of each refinement by the method of moments.

    Past, token and future are conditionally independent views of a refinement. Their symmetrized, whitened third
    moment is diagonal in one orthogonal basis, which Jacobi rotations compute without a random start. The basis gives
    the mean of each view in each refinement, and solving for these means turns moments into counts. Anandkumar, Ge,
    Hsu, Kakade and Telgarsky 2014, "Tensor decompositions for learning latent variable models", sections 3.3 and 4;
    Cardoso and Souloumiac 1996, "Jacobi angles for simultaneous diagonalization".
    """
    mixtures = [Mixture.from_moments(joint[a, :, :m, :m]) for a, m in enumerate(n_refinements)]
    bounds = np.concatenate([[0], np.cumsum(n_refinements)])
    n_states, parts = int(bounds[-1]), [slice(a, b) for a, b in pairwise(bounds)]
    counts = HiddenMarkov(
        np.empty(n_states),
        np.zeros((n_states, n_states)),
        np.empty((joint.shape[1], n_states)),
        np.empty(n_states),
    )
    # ``future`` and ``past`` map a view to weights of refinements, with mean e_h in refinement h. Multiplying a moment
    # of two views by them on both sides gives counts of pairs of refinements.
    for a, (source, rows, m) in enumerate(zip(mixtures, parts, n_refinements, strict=True)):
        counts.emission[:, rows] = source.tokens
        counts.initial[rows] = source.future @ first[a, :m]
        counts.final[rows] = source.past @ last[a, :m]
        for b, (target, columns) in enumerate(zip(mixtures, parts, strict=True)):
            # Rows of a step's moment belong to the next token: transpose, as in the transition matrix.
            moment = steps[a, b, : n_refinements[b], :m]
            counts.transition[rows, columns] = (target.future @ moment @ source.past.T).T
    return HiddenMarkov(*(np.maximum(part, 0.0) for part in counts))


class Mixture(NamedTuple):
    """Refinements of one label: maps of views to their weights, (m, m), and counts of types, (n_types, m)."""

    past: Doubles
    future: Doubles
    tokens: Doubles

    @classmethod
    def from_moments(cls, joint: Doubles) -> "Mixture":
        """Return the refinements of one label from its ``joint`` moments of shape (n_types, m, m)."""
        m, count = joint.shape[2], float(joint[:, 0, 0].sum())
        # With m = 1 each label is a single state: the supervised model.
        if m == 1 or count == 0:
            return cls(np.eye(m), np.eye(m), joint[:, 0, :])
        token = token_view(joint, m)
        between = joint.sum(axis=0) / count
        apart = ridge_inverse(between, count)
        # Map past and future to coordinates in which their means equal those of the token view in each refinement:
        # E[token past'] E[future past']^-1 for the future, E[token future'] E[past future']^-1 for the past, with
        # regularized inverses.
        from_past = token.T @ joint[:, :, 0] @ apart.T / count
        from_future = token.T @ joint[:, 0, :] @ apart / count
        pairs = from_future @ between @ from_past.T
        triples = np.einsum("xij,xk->ijk", joint, token, optimize=True) / count
        triples = np.einsum("ijk,ai,bj->abk", triples, from_future, from_past, optimize=True)
        means = component_means(pairs, triples)
        # The inverse of ``means`` maps the mean of refinement h to e_h.
        shares = np.linalg.inv(means)
        past, future = shares @ from_past, shares @ from_future
        # Counts follow from the past and from the future; the average has less noise.
        tokens = 0.5 * (joint[:, 0, :] @ past.T + joint[:, :, 0] @ future.T)
        order = np.argsort(-tokens.sum(axis=0), kind="stable")
        return cls(past[order], future[order], tokens[:, order])


def token_view(joint: Doubles, m: int) -> Doubles:
    """Return a vector for each type that separates refinements, shape (n_types, m); its first entry is 1."""
    count = joint[:, 0, 0]
    # Division by the square root of the count equalizes noise. The constant direction is projected out, as the first
    # coordinate represents it.
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


def ridge_inverse(between: Doubles, count: float) -> Doubles:
    """Return the regularized inverse of the moment of past and future, whose noise is about ``count ** -0.5``."""
    # s / (s^2 + 1 / n) damps directions below the noise.
    left, values, right = scipy.linalg.svd(between)
    return (right.T * (values / (values**2 + 1.0 / count))) @ left.T


def component_means(pairs: Doubles, triples: Doubles) -> Doubles:
    """Return the mean of a view in each refinement, shape (m, m), from moments of two and of three views."""
    # Whitening maps sqrt(w_h) y_h to orthonormal vectors v_h, so the whitened third moment is
    # sum_h v_h (x) v_h (x) v_h / sqrt(w_h): all its slices are diagonal in the basis of the v_h.
    values, vectors = scipy.linalg.eigh((pairs + pairs.T) / 2)
    # The floor keeps whitening finite if noise makes an eigenvalue negative.
    values = np.maximum(values, 1e-6 * values[-1])
    white, color = vectors / np.sqrt(values), vectors * np.sqrt(values)
    whitened = np.einsum("ijk,ia,jb,kc->abc", triples, white, white, white, optimize=True)
    # Average over all orders of the three axes to reduce noise.
    slices = np.ascontiguousarray(sum(np.transpose(whitened, order) for order in permutations(range(3))) / 6)
    scaled = color @ joint_diagonalize(slices)
    heads = scaled[0]  # columns are sqrt(w_h) y_h, and the first coordinate of y_h is 1
    # A first entry near 0 is a refinement without weight, whose mean is undefined.
    heads = np.where(np.abs(heads) < 1e-3, np.where(heads < 0, -1e-3, 1e-3), heads)
    return scaled / heads
