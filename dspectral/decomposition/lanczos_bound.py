"""A bound on the largest eigenvalue of an operator, measured by Lanczos from several random starts."""

import math
from collections.abc import Callable

import numpy as np
import scipy.linalg
from numpy.typing import DTypeLike, NDArray

from dspectral.linalg.dense import column_norms
from dspectral.linalg.gram_of_eight import EIGHT
from dspectral.types import FloatArray

PROBES = EIGHT
PROBE_STEPS = 9
FAILURE = 1e-8
"""Probability, block by block, that the measured bound is below the truth."""


def largest_eigenvalue_bound(
    multiply: Callable[[FloatArray, NDArray[np.float64]], NDArray[np.float64]],
    length: int,
    seed: int,
    dtype: DTypeLike,
) -> float:
    """Bound the largest eigenvalue of a positive semidefinite operator M from above.

    Shapes: `multiply` (length, 8).

    After q steps from one random start in c dimensions the largest Ritz value is below ``1 - e`` of the
    eigenvalue with probability at most ``1.648 sqrt(c) exp(-sqrt(e) (2q - 1))`` (Kuczynski and Wozniakowski
    1992, theorem 4.2). Several starts fail together only with the product of their probabilities.

    >>> values = np.arange(100.0)[:, None]
    >>> bound = largest_eigenvalue_bound(lambda q, less: values * q - less, 100, 0, np.float64)
    >>> bool(99.0 <= bound < 110.0)
    True
    """
    for_one = FAILURE ** (1.0 / PROBES)
    # Solve 1.648 sqrt(c) exp(-sqrt(e) (2q - 1)) = FAILURE^(1/PROBES) for sqrt(e).
    root = math.log(1.648 * math.sqrt(length) / for_one) / (2 * PROBE_STEPS - 1)
    # A random stream of its own: probes that are drawn like the start of the sketch would not be independent of the
    # error that they measure.
    q = np.random.default_rng([seed, 1]).standard_normal((length, PROBES), dtype=np.float32).astype(dtype)
    q /= column_norms(q)
    before = np.zeros_like(q)
    # Invariant: column j of q is the newest Lanczos vector of start j, `diagonals` and `off_diagonals` its tridiagonal
    # matrix so far: M q_t = beta_t q_(t-1) + alpha_t q_t + beta_(t+1) q_(t+1). All starts share the products, and no
    # vectors are kept to be orthogonalized against.
    diagonals, off_diagonals = [], [np.zeros(PROBES)]
    for _ in range(PROBE_STEPS):
        product = multiply(q, before * off_diagonals[-1])
        diagonals.append(np.einsum("ij,ij->j", q, product, dtype=np.float64))
        product -= q * diagonals[-1]
        off_diagonals.append(column_norms(product))
        # A start whose Krylov space is exhausted leaves a zero vector: the floor makes its next vectors zero and not
        # NaN.
        scale = np.maximum(off_diagonals[-1], np.finfo(q.dtype).tiny)
        before, q = q, (product / scale).astype(q.dtype)
    # The first off-diagonal is that of the missing vector before the start, and the last belongs to a step that is not
    # taken. A Ritz value is at most the eigenvalue and, but for the failure, at least `1 - e` of it.
    ritz = [
        scipy.linalg.eigvalsh_tridiagonal(d, e).max()
        for d, e in zip(np.array(diagonals).T, np.array(off_diagonals[1:-1]).T, strict=True)
    ]
    return max(0.0, float(max(ritz))) / (1.0 - root * root)
