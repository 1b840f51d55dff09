"""Decomposition of symmetric tensors by power steps of many starts at once, several cubes to a round."""

import numpy as np
from numpy.typing import NDArray

from dspectral.linalg.deflation import Deflated, unit_rows
from dspectral.linalg.tensors import OrthogonalCP, checked_tensor, sorted_cubes
from dspectral.types import FloatArray

MOST = 16
"""Most cubes that are taken off in one round."""
SHARE = 0.5
"""Cubes of less than that share of a round's largest wait for a later round."""
OVERLAP = 0.3
"""Products of two vectors of one round, from which on the smaller one waits: it may be the same, or half of it."""
ROUGHLY, EXACTLY = 1e-4, 1e-6
"""Largest entry of a step that moves a vector no more, in single precision and in double."""


def power_method_in_batches(
    T: NDArray[np.float64], *, starts: int = 64, iterations: int = 12, polish: int = 40, seed: int = 0
) -> OrthogonalCP:
    """Find the cubes in rounds: the largest that many starts come to, as far as they lie apart.

    Each round iterates all starts together by ``u <- T(I, u, u)``, keeps up to 16 of the fixed points that lie apart
    and weigh at least half of the largest, follows these together to the end, and subtracts their cubes.

    Shapes: `T` (k, k, k).

    ``starts iterations k^4 / 16`` operations where rounds are full: as many as one cube after the other takes, or
    half of it, but in products of matrices with 64 columns in place of 10 and of one, which run several times as fast.

    >>> from dspectral.linalg.tensors import from_cubes
    >>> cubes = from_cubes(np.array([1.0, 2.0]), np.array([[0.8, -0.6], [0.6, 0.8]]))
    >>> power_method_in_batches(cubes).values.round(6)
    array([2., 1.])
    """
    T = checked_tensor(T)
    if starts < 1 or iterations < 1:
        raise ValueError(f"starts is {starts} and iterations {iterations}, but each must be at least 1")
    k, generator = len(T), np.random.default_rng(seed)
    left = Deflated.of(T)
    rough = left.rounded()
    while len(left.values) < k:
        U = unit_rows(generator.standard_normal((starts, k)))
        for _ in range(iterations):
            U = unit_rows(left.applied(U, rough))
        weights = _cubic(left, U, rough)
        # The best is always among them, also of a tensor of rounding errors, whose weights may be below 0.
        heavy = weights >= min(SHARE * weights.max(), weights.max())
        U = U[heavy][_apart(U[heavy], weights[heavy], min(MOST, k - len(left.values)))]
        U = _followed(left, _followed(left, U, polish, ROUGHLY, rough), polish, EXACTLY)
        # Two that lay apart may have come to the same end.
        for number in _apart(U, _cubic(left, U), len(U)):
            left = left.without(U[number : number + 1])
    return sorted_cubes(T, left.values, left.vectors.T)


def _apart(U: NDArray[np.float64], weights: NDArray[np.float64], most: int) -> list[int]:
    """Return the numbers of the heaviest rows that lie apart, the heaviest first."""
    taken: list[int] = []
    for number in np.argsort(-weights, kind="stable"):
        if len(taken) < most and not np.any(np.abs(U[taken] @ U[number]) >= OVERLAP):
            taken.append(int(number))
    return taken


def _followed(
    left: Deflated, U: NDArray[np.float64], most: int, enough: float, pairs: FloatArray | None = None
) -> NDArray[np.float64]:
    """Iterate rows at most so often, each until a step moves it by no more than is enough."""
    U, moving = U.copy(), np.arange(len(U))
    for _ in range(most):
        new = unit_rows(left.applied(U[moving], pairs))
        moved = np.abs(new - U[moving]).max(axis=1)
        U[moving] = new
        moving = moving[moved >= enough]
        if not len(moving):
            break
    return U


def _cubic(left: Deflated, U: NDArray[np.float64], pairs: FloatArray | None = None) -> NDArray[np.float64]:
    """Return ``T(u, u, u)`` of each row."""
    return np.asarray(np.einsum("rj,rj->r", left.applied(U, pairs), U))
