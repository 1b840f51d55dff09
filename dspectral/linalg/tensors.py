"""Symmetric third-order tensors as sums of cubes of orthonormal vectors, and the joint diagonalization of matrices."""

import math
from typing import NamedTuple, Self

import numpy as np

from dspectral._compiled import compiled
from dspectral.types import Doubles, FloatArray, Int64s

MAX_BATCH = 16
"""Most cubes that are taken off in one round."""
MIN_WEIGHT_SHARE = 0.5
"""Cubes of less than that share of a round's largest wait for a later round."""
MAX_OVERLAP = 0.3
"""Products of two vectors of one round, from which on the smaller one waits: it may be the same, or half of it."""
ROUGHLY, EXACTLY = 1e-4, 1e-6
"""Largest entry of a step that moves a vector no more, in single precision and in double."""


def joint_diagonalize(
    matrices: Doubles, start: Doubles | None = None, *, tolerance: float = 1e-10, max_sweeps: int = 60
) -> Doubles:
    """Find the rotation under which several symmetric matrices are nearly diagonal, by Jacobi sweeps.

    About ``4 m k^3`` operations a sweep, one copy of the matrices. Cardoso and Souloumiac 1996, "Jacobi angles for
    simultaneous diagonalization". Shapes: `matrices` (m, k, k), `start` (k, k); returns (k, k).
    """
    k = matrices.shape[1]
    U = np.eye(k) if start is None else np.array(start)
    work = np.ascontiguousarray(matrices if start is None else U.T @ matrices @ U)
    # The sweeps rotate `work` in place, and without a start it may still be the caller's memory.
    if start is None:
        work = work.copy()
    # The axes are kept as rows: a rotation of two of them then runs through contiguous memory.
    Ut = np.ascontiguousarray(U.T)
    _sweeps(work, Ut, tolerance, max_sweeps)
    return np.ascontiguousarray(Ut.T)


@compiled
def _sweeps(work: Doubles, Ut: Doubles, tolerance: float, max_sweeps: int) -> None:
    """Rotate all planes in turn, in place, until no rotation brings more onto the diagonals.

    Invariant: ``work[m] = U' M_m U``, and each rotation lowers the sum of squares outside the diagonals. A sweep costs
    ``O(m k^3)``.
    """
    k = work.shape[1]
    # Each rotation changes rows and columns p and q of all matrices, and so the angles of the planes behind it: the
    # planes can only be taken one after the other, and their fixed order makes the result reproducible.
    for _ in range(max_sweeps):
        turned = False
        for p in range(k - 1):
            for q in range(p + 1, k):
                c, s = _angle(work, p, q)
                if abs(s) > tolerance:
                    turned = True
                    _jacobi_rotate(work, Ut, p, q, c, s)
        if not turned:
            return


@compiled
def _angle(work: Doubles, p: int, q: int) -> tuple[float, float]:
    """Return cosine and sine of the rotation of a plane that leaves least outside the diagonals.

    The angle is that of the leading eigenvector of the 2 x 2 matrix of sums over m of ``h h'`` with
    ``h = (M_pp - M_qq, 2 M_pq)`` (Cardoso and Souloumiac, section 3).
    """
    on, off, mixed = 0.0, 0.0, 0.0
    for m in range(work.shape[0]):
        difference, twice = work[m, p, p] - work[m, q, q], 2.0 * work[m, p, q]
        on += difference * difference
        off += twice * twice
        mixed += difference * twice
    if mixed == 0.0 and off > on:  # both arguments of the angle would be 0, which is no angle
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
    """A symmetric tensor from which some cubes are subtracted.

    Shapes: `pairs` (k, k (k + 1) / 2): entries ``(i, j <= l)``, twice as large where ``j < l``; `upper, lower`: j and
    l of its columns; `values` (r,), `vectors` (r, k): the cubes.
    """

    pairs: Doubles
    upper: Int64s
    lower: Int64s
    values: Doubles
    vectors: Doubles

    @classmethod
    def of(cls, T: Doubles) -> Self:
        """Pack a tensor of shape (k, k, k)."""
        upper, lower = np.triu_indices(len(T))
        pairs = T[:, upper, lower] * np.where(upper == lower, 1.0, 2.0)
        return cls(pairs, upper, lower, np.empty(0), np.empty((0, len(T))))

    def apply(self, X: Doubles, pairs: FloatArray | None = None) -> Doubles:
        """Return ``T(I, x, x)`` for each row x, from the pairs as they are or rounded."""
        pairs = self.pairs if pairs is None else pairs
        columns = np.ascontiguousarray(X.T, dtype=pairs.dtype)
        # T(I, x, x)_i = sum over j <= l of pairs[i, jl] x_j x_l: half the products of the full tensor. Whole rows are
        # copied: to gather entry by entry takes four times as long.
        products = columns.take(self.upper, axis=0)
        products *= columns.take(self.lower, axis=0)
        whole = (pairs @ products).T
        # A cube `v u x u x u` takes `v (u'x)^2 u` off the product: `2 k` products a row, and no write of k^3 entries.
        return np.asarray(whole - ((X @ self.vectors.T) ** 2 * self.values) @ self.vectors)

    def deflate(self, u: Doubles) -> Self:
        """Subtract the cube of a row of shape (1, k), weighted by ``T(u, u, u)``."""
        value = np.einsum("rj,rj->r", self.apply(u), u)
        return self._replace(values=np.append(self.values, value), vectors=np.concatenate([self.vectors, u]))


def normalize_rows(X: Doubles) -> Doubles:
    """Return rows at length 1; a row of zeros stays. Shapes: `X` (n, k); returns (n, k)."""
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.where(lengths > 0, lengths, 1.0))


class OrthogonalCP(NamedTuple):
    """Cubes of a tensor, ``sum_j values[j] u_j x u_j x u_j``, largest first, and the share that is left.

    Shapes: `values` (k,), `vectors` (k, k): u_j of length 1 in columns.
    """

    values: Doubles
    vectors: Doubles
    residual: float


def power_method(
    T: Doubles, *, restarts: int = 10, iterations: int = 12, polish: int = 40, seed: int = 0
) -> OrthogonalCP:
    """Find the cubes one after the other, each as the best fixed point of ``u <- T(I, u, u)``, and deflate.

    Tensors of real text are not quite orthogonal, so that cubes are subtracted, and not looked for among orthogonal
    vectors: Anandkumar et al. 2014, algorithm 1. ``restarts iterations k^4`` operations in products; half of a copy
    of the tensor, its entries ``j <= l``, is read once a step. Shapes: `T` (k, k, k).
    """
    T = check_tensor(T)
    if restarts < 1 or iterations < 1:
        raise ValueError(f"restarts is {restarts} and iterations {iterations}, but each must be at least 1")
    k, generator = len(T), np.random.default_rng(seed)
    left = DeflatedTensor.of(T)
    rough = left.pairs.astype(
        np.float32
    )  # near a fixed point a step squares the error: single precision does at first
    for _ in range(k):
        starts = normalize_rows(generator.standard_normal((restarts, k)))
        for _ in range(iterations):
            starts = normalize_rows(left.apply(starts, rough))
        # The start with the largest T(u, u, u) is the one in the basin of the largest cube left.
        best = int(np.argmax(np.einsum("rj,rj->r", left.apply(starts, rough), starts)))
        left = left.deflate(_iterate_to_convergence(left, starts[best : best + 1], polish, EXACTLY))
    return sort_cubes(T, left.values, left.vectors.T)


def simultaneous_diagonalization(
    T: Doubles, *, projections: int | None = None, seed: int = 0
) -> OrthogonalCP:
    """Find all cubes at once, because every contraction ``T(I, I, x)`` is diagonal in the same basis.

    Two rounds: random contractions, then the contractions with the vectors that the first round found, which weigh
    each vector's own evidence most. ``4 k^4`` operations a sweep of the second, two copies of the tensor. Kuleshov,
    Chaganty and Liang 2015, "Tensor factorization via matrix factorization". Shapes: `T` (k, k, k).
    """
    T = check_tensor(T)
    k = len(T)
    # First round: contractions in random directions tell all vectors apart, each weighted by chance.
    directions = np.random.default_rng(seed).standard_normal((projections or min(k, 20), k))
    U = joint_diagonalize(np.tensordot(directions, T, axes=1))
    # Second round: the contraction with vector j weights the evidence for j itself most.
    U = joint_diagonalize(np.tensordot(U.T, T, axes=1), U)
    values = np.array([float(((T @ u) @ u) @ u) for u in U.T])
    return sort_cubes(T, np.abs(values), U * np.where(values < 0, -1.0, 1.0))


def tensor_from_cubes(values: Doubles, vectors: Doubles) -> Doubles:
    """Return ``sum_j values[j] u_j x u_j x u_j``. Shapes: `values` (r,), `vectors` (k, r); returns (k, k, k)."""
    k, r = vectors.shape
    # As one matrix product of size (k, r) x (r, k^2).
    pairs = (vectors[:, None, :] * vectors[None, :, :]).reshape(k * k, r)
    cube: Doubles = (vectors * values) @ pairs.T
    return cube.reshape(k, k, k)


def contract(T: Doubles, M: Doubles) -> Doubles:
    """Return ``T(M, M, M)``. Shapes: `T` (k, k, k), `M` (k, r); returns (r, r, r)."""
    for _ in range(3):
        T = np.tensordot(T, M, axes=(0, 0))
    return T


def unfolded_symmetric(raw: Doubles) -> Doubles:
    """Return the symmetric tensor (k, k, k) of which sums of ``y_i y_j y_k`` hold the pairs ``j <= k``."""
    k = len(raw)
    upper, lower = np.triu_indices(k)
    # Both triangles from one, then the average over the positions that the sums treat differently.
    T = np.empty((k, k, k))
    T[:, upper, lower] = raw
    T[:, lower, upper] = raw
    return np.asarray((T + T.transpose(1, 0, 2) + T.transpose(2, 1, 0)) / 3.0)


def sort_cubes(T: Doubles, values: Doubles, vectors: Doubles) -> OrthogonalCP:
    """Return cubes, the largest first, with what they leave of the tensor."""
    order = np.argsort(-values, kind="stable")
    # At a fixed point of the power step the weight is positive, and the other method flips the signs of its vectors: a
    # negative weight did not converge, and counts as 0.
    values, vectors = np.maximum(values[order], 0.0), np.ascontiguousarray(vectors[:, order])
    size = float(np.linalg.norm(T))
    left = float(np.linalg.norm(T - tensor_from_cubes(values, vectors)))
    return OrthogonalCP(values, vectors, left / size if size else 0.0)


def check_tensor(T: Doubles) -> Doubles:
    """Return a tensor as a contiguous array in double precision. Shapes: `T` (k, k, k); returns (k, k, k)."""
    T = np.asarray(T, dtype=np.float64)
    if T.ndim != 3 or len(set(T.shape)) != 1 or not T.size:
        raise ValueError(f"the tensor has shape {T.shape}, but must be k x k x k")
    if not np.isfinite(T).all():
        raise ValueError("the tensor holds NaN or infinity, but every entry must be finite")
    return np.ascontiguousarray(T)


def power_method_in_batches(
    T: Doubles, *, starts: int = 64, iterations: int = 12, polish: int = 40, seed: int = 0
) -> OrthogonalCP:
    """Find the cubes in rounds: up to 16 fixed points of many starts that lie apart and weigh half of the largest.

    ``starts iterations k^4 / 16`` operations where rounds are full, in products of matrices with 64 columns, which
    run several times as fast. Shapes: `T` (k, k, k).
    """
    T = check_tensor(T)
    if starts < 1 or iterations < 1:
        raise ValueError(f"starts is {starts} and iterations {iterations}, but each must be at least 1")
    k, generator = len(T), np.random.default_rng(seed)
    left = DeflatedTensor.of(T)
    rough = left.pairs.astype(np.float32)
    while len(left.values) < k:
        U = normalize_rows(generator.standard_normal((starts, k)))
        for _ in range(iterations):
            U = normalize_rows(left.apply(U, rough))
        weights = _evaluate_cubic_form(left, U, rough)
        # The best is always among them, also of a tensor of rounding errors, whose weights may be below 0.
        heavy = weights >= min(MIN_WEIGHT_SHARE * weights.max(), weights.max())
        U = U[heavy][_select_separated(U[heavy], weights[heavy], min(MAX_BATCH, k - len(left.values)))]
        U = _iterate_to_convergence(
            left, _iterate_to_convergence(left, U, polish, ROUGHLY, rough), polish, EXACTLY
        )
        # Two that lay apart may have come to the same end.
        for number in _select_separated(U, _evaluate_cubic_form(left, U), len(U)):
            left = left.deflate(U[number : number + 1])
    return sort_cubes(T, left.values, left.vectors.T)


def _select_separated(U: Doubles, weights: Doubles, most: int) -> list[int]:
    """Return the numbers of the heaviest rows that lie apart, the heaviest first."""
    taken: list[int] = []
    for number in np.argsort(-weights, kind="stable"):
        if len(taken) < most and not np.any(np.abs(U[taken] @ U[number]) >= MAX_OVERLAP):
            taken.append(int(number))
    return taken


def _iterate_to_convergence(
    left: DeflatedTensor, U: Doubles, most: int, enough: float, pairs: FloatArray | None = None
) -> Doubles:
    """Iterate rows at most so often, each until a step moves it by no more than is enough."""
    U, moving = U.copy(), np.arange(len(U))
    for _ in range(most):
        new = normalize_rows(left.apply(U[moving], pairs))
        moved = np.abs(new - U[moving]).max(axis=1)
        U[moving] = new
        moving = moving[moved >= enough]
        if not len(moving):
            break
    return U


def _evaluate_cubic_form(left: DeflatedTensor, U: Doubles, pairs: FloatArray | None = None) -> Doubles:
    """Return ``T(u, u, u)`` of each row."""
    return np.asarray(np.einsum("rj,rj->r", left.apply(U, pairs), U))
