"""Symmetric third-order tensors as sums of cubes of orthonormal vectors (orthogonal CP decompositions)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.linalg.deflation import Deflated, unit_rows
from dspectral.linalg.joint_diagonalization import joint_diagonalize


class OrthogonalCP(NamedTuple):
    """Decomposition of a tensor T: near ``sum_j values[j] u_j x u_j x u_j``, u_j the columns of ``vectors``.

    `values` (k,): weights of the cubes, not negative, largest first; `vectors` (k, k): vectors u_j, one a
    column, of length 1; `residual`: frobenius norm of the difference to the tensor, relative to that of the
    tensor.
    """

    values: NDArray[np.float64]
    vectors: NDArray[np.float64]
    residual: float


def power_method(
    T: NDArray[np.float64], *, restarts: int = 10, iterations: int = 12, polish: int = 40, seed: int = 0
) -> OrthogonalCP:
    """Find the cubes one after the other, each as the best fixed point of ``u <- T(I, u, u)``, and deflate.

    Each cube is subtracted from the tensor before the next is looked for. (To look among the vectors orthogonal to it
    would be cheaper, and does as well on exact cubes, but tensors of real text are not quite orthogonal: there it costs
    accuracy.)

    Shapes: `T` (k, k, k).

    ``restarts iterations k^4`` operations in matrix products. Half of a copy of the tensor, its entries ``j <= l``,
    is read once for each further step of a cube, and in single precision ``iterations + 1`` times before. Cubes that
    were found are subtracted from the products, so that the tensor is never written.

    Anandkumar, Ge, Hsu, Kakade and Telgarsky 2014, "Tensor decompositions for learning latent variable models",
    algorithm 1.

    >>> found = power_method(from_cubes(np.array([1.0, 2.0]), np.array([[0.8, -0.6], [0.6, 0.8]])))
    >>> found.values.round(6), found.vectors.round(6)
    (array([2., 1.]), array([[-0.6,  0.8],
           [ 0.8,  0.6]]))
    """
    T = checked_tensor(T)
    if restarts < 1 or iterations < 1:
        raise ValueError(f"restarts is {restarts} and iterations {iterations}, but each must be at least 1")
    k, generator = len(T), np.random.default_rng(seed)
    left = Deflated.of(T)
    rough = (
        left.rounded()
    )  # near a fixed point a step squares the error, so that single precision does at first
    for _ in range(k):
        starts = unit_rows(generator.standard_normal((restarts, k)))
        for _ in range(iterations):
            starts = unit_rows(left.applied(starts, rough))
        # The start with the largest T(u, u, u) is the one in the basin of the largest cube left.
        best = int(np.argmax(np.einsum("rj,rj->r", left.applied(starts, rough), starts)))
        left = left.without(_follow(left, starts[best : best + 1], polish))
    return sorted_cubes(T, left.values, left.vectors.T)


def simultaneous_diagonalization(
    T: NDArray[np.float64], *, projections: int | None = None, seed: int = 0
) -> OrthogonalCP:
    """Find all cubes at once, because every contraction ``T(I, I, x)`` is diagonal in the same basis.

    Shapes: `T` (k, k, k).

    Two rounds: random contractions, then the contractions with the vectors that the first round found, which
    weigh each vector's own evidence most. ``4 k^4`` operations a sweep of the second, two copies of the tensor.

    Kuleshov, Chaganty and Liang 2015, "Tensor factorization via matrix factorization".

    >>> cubes = from_cubes(np.array([1.0, 2.0]), np.array([[0.8, -0.6], [0.6, 0.8]]))
    >>> simultaneous_diagonalization(cubes).values.round(6)
    array([2., 1.])
    """
    T = checked_tensor(T)
    k = len(T)
    # First round: contractions in random directions tell all vectors apart, each weighted by chance.
    directions = np.random.default_rng(seed).standard_normal((projections or min(k, 20), k))
    U = joint_diagonalize(np.tensordot(directions, T, axes=1))
    # Second round: the contraction with vector j weights the evidence for j itself most.
    U = joint_diagonalize(np.tensordot(U.T, T, axes=1), U)
    values = np.array([_cubic(T, u) for u in U.T])
    return sorted_cubes(T, np.abs(values), U * np.where(values < 0, -1.0, 1.0))


def from_cubes(values: NDArray[np.float64], vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``sum_j values[j] u_j x u_j x u_j``.

    Shapes: `values` (r,), `vectors` (k, r); returns (k, k, k).
    """
    k, r = vectors.shape
    # As one matrix product of size (k, r) x (r, k^2).
    pairs = (vectors[:, None, :] * vectors[None, :, :]).reshape(k * k, r)
    cube: NDArray[np.float64] = (vectors * values) @ pairs.T
    return cube.reshape(k, k, k)


def contract(T: NDArray[np.float64], M: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``T(M, M, M)``.

    Shapes: `T` (k, k, k), `M` (k, r); returns (r, r, r).
    """
    for _ in range(3):
        T = np.tensordot(T, M, axes=(0, 0))
    return T


def unfolded_symmetric(raw: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the symmetric tensor of which sums of ``y_i y_j y_k`` hold the pairs ``j <= k`` only.

    Shapes: `raw` (k, k (k + 1) / 2); returns (k, k, k).
    """
    k = len(raw)
    upper, lower = np.triu_indices(k)
    # Both triangles from one, then the average over the positions that the sums treat differently.
    T = np.empty((k, k, k))
    T[:, upper, lower] = raw
    T[:, lower, upper] = raw
    return np.asarray((T + T.transpose(1, 0, 2) + T.transpose(2, 1, 0)) / 3.0)


def _follow(left: Deflated, u: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """Iterate ``u <- T(I, u, u)``, at most so often, until it moves no more."""
    for _ in range(most):
        new = unit_rows(left.applied(u))
        moved = np.abs(new - u).max()
        u = new
        if moved < 1e-6:  # on a sum of cubes the next step would square it
            break
    return u


def _cubic(T: NDArray[np.float64], u: NDArray[np.float64]) -> float:
    return float(((T @ u) @ u) @ u)


def sorted_cubes(
    T: NDArray[np.float64], values: NDArray[np.float64], vectors: NDArray[np.float64]
) -> OrthogonalCP:
    """Return cubes, the largest first, with what they leave of the tensor.

    Shapes: `T` (k, k, k), `values` (k,), `vectors` (k, k).
    """
    order = np.argsort(-values, kind="stable")
    # At a fixed point of the power step the weight is positive, and the other method flips the signs of its vectors: a
    # negative weight did not converge, and counts as 0.
    values, vectors = np.maximum(values[order], 0.0), np.ascontiguousarray(vectors[:, order])
    size = float(np.linalg.norm(T))
    left = float(np.linalg.norm(T - from_cubes(values, vectors)))
    return OrthogonalCP(values, vectors, left / size if size else 0.0)


def checked_tensor(T: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a tensor as a contiguous array in double precision.

    Shapes: `T` (k, k, k); returns (k, k, k).
    """
    T = np.asarray(T, dtype=np.float64)
    if T.ndim != 3 or len(set(T.shape)) != 1 or not T.size:
        raise ValueError(f"the tensor has shape {T.shape}, but must be k x k x k")
    if not np.isfinite(T).all():
        raise ValueError("the tensor holds NaN or infinity, but every entry must be finite")
    return np.ascontiguousarray(T)
