"""Decomposition of symmetric third-order tensors into rank-one terms; joint diagonalization of matrices."""

import math
from typing import NamedTuple, Self

import numpy as np
import scipy.linalg

from dspectral._compiled import compiled
from dspectral.linalg.dense import normalize_rows
from dspectral.types import Doubles, FloatArray, Int64s

MAX_BATCH = 16
"""Largest number of rank-one terms subtracted per round."""
MIN_WEIGHT_SHARE = 0.5
"""Cubes below this share of the largest weight of a round are left for a later round."""
MAX_OVERLAP = 0.3
"""Inner product of two vectors of a round above which the one of smaller weight is left for a later round."""
SINGLE_TOLERANCE, DOUBLE_TOLERANCE = 1e-4, 1e-6
"""Largest entry of a converged step, in single precision and in double."""
N_RESTARTS, N_STARTS, N_ROUGH_STEPS, N_FINE_STEPS = 10, 32, 12, 40
"""Starts of one term and of a batch, and their steps in single and at most in double precision."""
N_BATCH_STEPS, N_DOUBLE_STEPS = 20, 4
"""Maximum number of further steps of a batch in single and in double precision."""
MAX_SWEEPS, SWEEP_TOLERANCE = 60, 1e-10
"""Maximum number of Jacobi sweeps, and sine of the largest rotation after which they end."""
N_DIRECTIONS = 20
"""Maximum number of random contractions that are made diagonal."""


def joint_diagonalize(matrices: Doubles, start: Doubles | None = None) -> Doubles:
    """Return the rotation that makes several symmetric matrices nearly diagonal, by Jacobi sweeps.

    About ``4 m k^3`` operations a sweep, one copy of the matrices. Cardoso and Souloumiac 1996, "Jacobi angles for
    simultaneous diagonalization". Shapes: `matrices` (m, k, k), `start` (k, k); returns (k, k).
    """
    k = matrices.shape[1]
    # The sweeps rotate `work` in place. Axes are rows, so that a rotation of two axes reads contiguous memory.
    work = np.array(matrices if start is None else start.T @ matrices @ start, order="C")
    Ut = np.eye(k) if start is None else np.array(start.T, order="C")
    _run_sweeps(work, Ut)
    return np.ascontiguousarray(Ut.T)


@compiled
def _run_sweeps(work: Doubles, Ut: Doubles) -> None:
    """Rotate all planes in turn, in place, until no rotation exceeds the tolerance.

    Invariant: ``work[m] = U' M_m U``, and each rotation lowers the sum of squares outside the diagonals. A sweep costs
    ``O(m k^3)``.
    """
    k = work.shape[1]
    # Each rotation changes rows and columns p and q of all matrices, and so the angles of later planes. The fixed
    # sequential order makes the result reproducible.
    for _ in range(MAX_SWEEPS):
        has_rotated = False
        for p in range(k - 1):
            for q in range(p + 1, k):
                c, s = _find_rotation(work, p, q)
                if abs(s) > SWEEP_TOLERANCE:
                    has_rotated = True
                    _jacobi_rotate(work, Ut, p, q, c, s)
        if not has_rotated:
            return


@compiled
def _find_rotation(work: Doubles, p: int, q: int) -> tuple[float, float]:
    """Return cosine and sine of the Jacobi rotation that minimizes the sum of squared off-diagonal entries.

    The angle is that of the leading eigenvector of the 2 x 2 matrix of sums over m of ``h h'`` with
    ``h = (M_pp - M_qq, 2 M_pq)`` (Cardoso and Souloumiac, section 3).
    """
    on, off, mixed = 0.0, 0.0, 0.0
    for m in range(work.shape[0]):
        difference, twice = work[m, p, p] - work[m, q, q], 2.0 * work[m, p, q]
        on += difference * difference
        off += twice * twice
        mixed += difference * twice
    if mixed == 0.0 and off > on:  # both arguments of atan2 would be 0
        return math.sqrt(0.5), math.sqrt(0.5)
    angle = 0.5 * math.atan2(2.0 * mixed, on - off + math.hypot(on - off, 2.0 * mixed))
    return math.cos(angle), math.sin(angle)


@compiled
def _jacobi_rotate(work: Doubles, Ut: Doubles, p: int, q: int, c: float, s: float) -> None:
    """Rotate rows p and q, then columns p and q, of each matrix, and the two axes themselves."""
    # `M <- R' M R` for the rotation R of one plane: the second loop reads rows that the first has rotated. The cost is
    # `8 k` products for each matrix.
    k = work.shape[1]
    for m in range(work.shape[0]):
        for j in range(k):
            a, b = work[m, p, j], work[m, q, j]
            work[m, p, j], work[m, q, j] = c * a + s * b, c * b - s * a
        for i in range(k):
            a, b = work[m, i, p], work[m, i, q]
            work[m, i, p], work[m, i, q] = c * a + s * b, c * b - s * a
    for j in range(k):
        a, b = Ut[p, j], Ut[q, j]
        Ut[p, j], Ut[q, j] = c * a + s * b, c * b - s * a


class DeflatedTensor(NamedTuple):
    """Symmetric tensor minus a list of rank-one terms.

    Shapes: `pairs` (k, k (k + 1) / 2): entries ``(i, j <= l)``, twice as large where ``j < l``; `upper, lower`: j and
    l of its columns; `values` (r,), `vectors` (r, k): the rank-one terms.
    """

    pairs: Doubles
    upper: Int64s
    lower: Int64s
    values: Doubles
    vectors: Doubles

    @classmethod
    def from_tensor(cls, T: Doubles) -> Self:
        """Return the packed tensor. Shapes: `T` (k, k, k)."""
        upper, lower = np.triu_indices(len(T))
        pairs = T[:, upper, lower] * np.where(upper == lower, 1.0, 2.0)
        return cls(pairs, upper, lower, np.empty(0), np.empty((0, len(T))))

    def apply(self, X: FloatArray, pairs: FloatArray | None = None) -> Doubles:
        """Return ``T(I, x, x)`` for each row x, optionally from pairs in another precision."""
        pairs = self.pairs if pairs is None else pairs
        columns = np.ascontiguousarray(X.T, dtype=pairs.dtype)
        # T(I, x, x)_i = sum over j <= l of pairs[i, jl] x_j x_l: half the products of the full tensor. Copying
        # whole rows is four times as fast as gathering entries.
        products = columns.take(self.upper, axis=0)
        products *= columns.take(self.lower, axis=0)
        whole = (pairs @ products).T
        # A term `v u x u x u` subtracts `v (u'x)^2 u`: `2 k` products per row, without writing k^3 entries.
        return whole - ((X @ self.vectors.T) ** 2 * self.values) @ self.vectors

    def deflate(self, U: FloatArray) -> Self:
        """Return the tensor minus the rank-one terms of the unit rows of U (r, k), one after the other."""
        # The weight of row j is ``T(u_j, u_j, u_j) - sum_(i < j) v_i (u_i'u_j)^3``: a triangular system.
        weights, cubes = _evaluate_cubic_form(self, U), (U @ U.T) ** 3
        values = scipy.linalg.solve_triangular(cubes, weights, lower=True, unit_diagonal=True)
        return self._replace(values=np.append(self.values, values), vectors=np.concatenate([self.vectors, U]))


class OrthogonalCP(NamedTuple):
    """Decomposition ``sum_j values[j] u_j x u_j x u_j`` with u_j in columns, and its relative residual."""

    values: Doubles
    vectors: Doubles
    residual: float


def power_method(T: Doubles, *, seed: int = 0) -> OrthogonalCP:
    """Return the rank-one terms one by one: find the best fixed point of ``u <- T(I, u, u)`` over starts, and deflate.

    Anandkumar et al. 2014, algorithm 1. Deflation subtracts terms that need not be exactly orthogonal. Cost:
    ``120 k^4`` operations. Shapes: `T` (k, k, k).
    """
    k, generator = len(T), np.random.default_rng(seed)
    remainder = DeflatedTensor.from_tensor(T)
    rough = remainder.pairs.astype(np.float32)  # enough at first: near a fixed point a step squares the error
    for _ in range(k):
        starts = normalize_rows(generator.standard_normal((N_RESTARTS, k)))
        for _ in range(N_ROUGH_STEPS):
            starts = normalize_rows(remainder.apply(starts, rough))
        # The start with the largest T(u, u, u) is the one in the basin of the largest remaining term.
        best = int(np.argmax(np.einsum("rj,rj->r", remainder.apply(starts, rough), starts)))
        U = _iterate_to_convergence(remainder, starts[best : best + 1], N_FINE_STEPS, DOUBLE_TOLERANCE)
        remainder = remainder.deflate(U)
    return sort_components(T, remainder.values, remainder.vectors.T)


def simultaneous_diagonalization(T: Doubles, *, seed: int = 0) -> OrthogonalCP:
    """Return all rank-one terms at once: every contraction ``T(I, I, x)`` is diagonal in the same basis.

    Two rounds: random contractions, then contractions with the vectors of the first round. Cost: ``4 k^4`` operations
    per sweep of the second round, and two copies of the tensor. Kuleshov, Chaganty and Liang 2015, "Tensor
    factorization via matrix factorization". Shapes: `T` (k, k, k).
    """
    k = len(T)
    # First round: contractions in random directions separate all vectors, with random weights.
    directions = np.random.default_rng(seed).standard_normal((min(k, N_DIRECTIONS), k))
    U = joint_diagonalize(np.tensordot(directions, T, axes=1))
    # Second round: the contraction with vector j has the largest weight on j itself.
    U = joint_diagonalize(np.tensordot(U.T, T, axes=1), U)
    values = np.array([float(((T @ u) @ u) @ u) for u in U.T])
    return sort_components(T, np.abs(values), U * np.where(values < 0, -1.0, 1.0))


def tensor_from_components(values: Doubles, vectors: Doubles) -> Doubles:
    """Return ``sum_j values[j] u_j x u_j x u_j``. Shapes: `values` (r,), `vectors` (k, r); returns (k, k, k)."""
    k, r = vectors.shape
    # As one matrix product of size (k, r) x (r, k^2).
    pairs = (vectors[:, None, :] * vectors[None, :, :]).reshape(k * k, r)
    tensor: Doubles = (vectors * values) @ pairs.T
    return tensor.reshape(k, k, k)


def contract(T: Doubles, M: Doubles) -> Doubles:
    """Return ``T(M, M, M)``. Shapes: `T` (k, k, k), `M` (k, r); returns (r, r, r)."""
    for _ in range(3):
        T = np.tensordot(T, M, axes=(0, 0))
    return T


def symmetric_tensor_from_pairs(pair_sums: Doubles) -> Doubles:
    """Return the symmetric tensor (k, k, k) from sums of ``y_i y_j y_l`` over the pairs ``j <= l``."""
    k = len(pair_sums)
    upper, lower = np.triu_indices(k)
    # Fill both triangles, then average over the three positions of the unpaired index.
    T = np.empty((k, k, k))
    T[:, upper, lower] = pair_sums
    T[:, lower, upper] = pair_sums
    return (T + T.transpose(1, 0, 2) + T.transpose(2, 1, 0)) / 3.0


def sort_components(T: Doubles, values: Doubles, vectors: Doubles) -> OrthogonalCP:
    """Return the rank-one terms, largest first, with the relative residual of the tensor."""
    order = np.argsort(-values, kind="stable")
    # A fixed point of the power step has a positive weight, and the other method flips signs. A negative weight means
    # no convergence and counts as 0.
    values, vectors = np.maximum(values[order], 0.0), np.ascontiguousarray(vectors[:, order])
    size = float(np.linalg.norm(T))
    residual = float(np.linalg.norm(T - tensor_from_components(values, vectors)))
    return OrthogonalCP(values, vectors, residual / size if size else 0.0)


def batched_power_method(T: Doubles, *, seed: int = 0) -> OrthogonalCP:
    """Return the rank-one terms in rounds of up to 16 separated fixed points with at least half of the largest weight.

    Cost: ``24 k^4`` operations if rounds are full, in products of matrices with 32 columns, which
    are several times as fast as those of :func:`power_method`. Shapes: `T` (k, k, k).
    """
    k, generator = len(T), np.random.default_rng(seed)
    remainder = DeflatedTensor.from_tensor(T)
    rough = remainder.pairs.astype(np.float32)
    while len(remainder.values) < k:
        U = normalize_rows(generator.standard_normal((N_STARTS, k)))
        for _ in range(N_ROUGH_STEPS):
            U = normalize_rows(remainder.apply(U, rough))
        weights = _evaluate_cubic_form(remainder, U, rough)
        # The minimum keeps the best vector even if all weights are negative, as for a tensor of rounding errors.
        heavy = weights >= min(MIN_WEIGHT_SHARE * weights.max(), weights.max())
        U = U[heavy][_select_separated(U[heavy], weights[heavy], min(MAX_BATCH, k - len(remainder.values)))]
        U = _iterate_to_convergence(remainder, U, N_BATCH_STEPS, SINGLE_TOLERANCE, rough)
        U = _iterate_to_convergence(remainder, U, N_DOUBLE_STEPS, DOUBLE_TOLERANCE)
        # Separate vectors may have converged to the same term.
        remainder = remainder.deflate(U[_select_separated(U, _evaluate_cubic_form(remainder, U), len(U))])
    return sort_components(T, remainder.values, remainder.vectors.T)


def _select_separated(U: FloatArray, weights: Doubles, max_rows: int) -> list[int]:
    """Return indices of rows by falling weight, without rows too close to an earlier one."""
    selected: list[int] = []
    overlaps = np.abs(U @ U.T) >= MAX_OVERLAP
    for number in np.argsort(-weights, kind="stable"):
        if len(selected) < max_rows and not overlaps[number, selected].any():
            selected.append(int(number))
    return selected


def _iterate_to_convergence(
    tensor: DeflatedTensor, U: FloatArray, max_steps: int, tolerance: float, pairs: FloatArray | None = None
) -> FloatArray:
    """Apply the power step to each row until it moves by less than the tolerance, at most `max_steps` times."""
    U, moving = U.copy(), np.arange(len(U))
    for _ in range(max_steps):
        new = normalize_rows(tensor.apply(U[moving], pairs))
        moved = np.abs(new - U[moving]).max(axis=1)
        U[moving] = new
        moving = moving[moved >= tolerance]
        if not len(moving):
            break
    return U


def _evaluate_cubic_form(tensor: DeflatedTensor, U: FloatArray, pairs: FloatArray | None = None) -> Doubles:
    """Return ``T(u, u, u)`` of each row."""
    return np.einsum("rj,rj->r", tensor.apply(U, pairs), U)
