"""Leading eigenvectors of matrices that are given by their products with vectors, with a bound on the rest."""

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import DTypeLike
from scipy.special import erfinv

from dspectral.linalg.dense import (
    column_norms,
    eigh_descending,
    fix_signs,
    leading_eigenpairs,
)
from dspectral.linalg.krylov import KrylovSpace
from dspectral.linalg.sparse_products import EIGHT, add_transpose_times
from dspectral.types import CSRRows, Doubles, FloatArray, Rows, is_sparse

Multiply: TypeAlias = Callable[[FloatArray], FloatArray]
N_LANCZOS_STEPS, N_BISECTIONS = 8, 50
"""Lanczos steps of an eigenvalue bound, and bisection steps of its interval."""
FAILURE_PROBABILITY = 1e-12
"""Probability that one eigenvalue bound is below the truth."""
N_START_COLUMNS = 16
"""Random columns of a block Krylov space, and those that are added where it misses equal eigenvalues."""
MAX_BOUNDS = 12
"""Maximum number of eigenvalue bounds of one space."""
MAX_GROWTH = 0.25
"""Largest share by which a space grows between two looks at its eigenpairs."""


def bound_largest_eigenvalue(
    multiply: Callable[[FloatArray, Doubles], Doubles], length: int, seed: int, dtype: DTypeLike
) -> tuple[float, float]:
    """Return bounds of the largest eigenvalue of a positive semidefinite operator, by Lanczos steps from random starts.

    The lower bound is a Ritz value. For a unit eigenvector u with eigenvalue x, ``(u'w)^2`` of a start w is at most the
    Christoffel number ``|w|^2 / (p_0(x)^2 + ... + p_q(x)^2)`` of the orthonormal polynomials of q steps (Golub and
    Meurant 2010, "Matrices, moments and quadrature"). The eight starts are normal and independent of the operator M, so
    the probability that all ``|u'w|`` are small is the product of eight. `multiply`: returns ``M q - subtrahend``,
    shape (length, 8).

    >>> values = np.arange(100.0)[:, None]
    >>> low, high = bound_largest_eigenvalue(lambda q, subtrahend: values * q - subtrahend, 100, 0, np.float64)
    >>> bool(90.0 <= low <= 99.0 <= high < 115.0)
    True
    """
    min_norm = math.sqrt(2.0) * erfinv(FAILURE_PROBABILITY ** (1.0 / EIGHT))
    # A separate random stream, so that the probes are independent of the start of the sketch.
    q = np.random.default_rng([seed, 1]).standard_normal((length, EIGHT), dtype=np.float32).astype(dtype)
    norms = column_norms(q)
    q /= norms
    before = np.zeros_like(q)
    # Invariant: column j of q is the newest Lanczos vector of start j, `diagonals` and `off_diagonals` its tridiagonal
    # matrix so far: M q_t = beta_t q_(t-1) + alpha_t q_t + beta_(t+1) q_(t+1). There is no reorthogonalization.
    diagonals, off_diagonals = [], [np.zeros(EIGHT)]
    for _ in range(N_LANCZOS_STEPS):
        product = multiply(q, before * off_diagonals[-1])
        diagonals.append(np.einsum("ij,ij->j", q, product, dtype=np.float64))
        product -= q * diagonals[-1]
        # In an invariant space the product is 0: the floor makes the next vectors 0 instead of NaN.
        off_diagonals.append(np.maximum(column_norms(product), np.finfo(q.dtype).tiny))
        before, q = q, (product / off_diagonals[-1]).astype(q.dtype)
    # off_diagonals[0] couples the start vector to its predecessor, which is zero, so it is not part of the
    # tridiagonal matrix. The bound lies between the largest Ritz value, above which all polynomials increase, and the
    # point where the linear polynomial alone exceeds the limit.
    tridiagonal = zip(np.array(diagonals).T, np.array(off_diagonals[1:-1]).T, strict=True)
    low = ritz_values = np.array([scipy.linalg.eigvalsh_tridiagonal(d, e).max() for d, e in tridiagonal])
    high = np.maximum(low, diagonals[0] + off_diagonals[1] * norms / min_norm)
    with np.errstate(over="ignore", invalid="ignore"):  # if the space is invariant
        for _ in range(N_BISECTIONS):
            x = (low + high) / 2.0
            p_before, p, total = np.zeros(EIGHT), np.ones(EIGHT), np.ones(EIGHT)
            for alpha, beta, beta_next in zip(diagonals, off_diagonals[:-1], off_diagonals[1:], strict=True):
                p_before, p = p, ((x - alpha) * p - beta * p_before) / beta_next
                total += p * p
            below = total <= (norms / min_norm) ** 2
            low, high = np.where(below, x, low), np.where(below, high, x)
    return float(ritz_values.max()), max(0.0, float(high.max()))


class LeadingSpace(NamedTuple):
    """Orthonormal eigenvectors of a positive semidefinite matrix C, largest eigenvalues first.

    `vectors` (n, r): at most k eigenvectors; `bounds` (k + 1,): upper bounds of the first eigenvalues of C;
    `residuals` (r,): norms of ``C x - value x``.
    """

    vectors: FloatArray
    bounds: Doubles
    residuals: Doubles


def find_leading_space(multiply: Multiply, length: int, k: int, *, seed: int, dtype: DTypeLike) -> LeadingSpace:
    """Return the first k eigenvectors of a positive semidefinite matrix C (n, n), accurate to its products.

    A block Krylov space grows until the residuals of k pairs are ``eps^(2/3)`` of their values. Lanczos steps from
    eight new random columns then bound the norm of C outside of the space. While they show that it exceeds the k-th
    value, as it does if C has more equal eigenvalues than the space has start columns, random columns are added. Cost
    for a space of m columns: m products with a vector and ``4 n m^2`` flops; memory ``n m`` numbers.

    >>> values = np.repeat([3.0, 2.0, 1.0], 400)
    >>> space = find_leading_space(lambda Z: values[:, None] * Z, 1200, 3, seed=0, dtype=np.float64)
    >>> bool((space.bounds >= 3.0).all()), float(np.abs(space.vectors[400:]).max().round(6))
    (True, 0.0)
    """
    generator = np.random.default_rng(seed)

    def draw(n_columns: int) -> FloatArray:
        return generator.standard_normal((length, min(n_columns, length)), dtype=np.float32).astype(dtype)

    tolerance = float(np.finfo(np.dtype(dtype)).eps) ** (2.0 / 3.0)
    space, n_bounds, n_checked, outside = KrylovSpace.start(draw(N_START_COLUMNS)), 0, k, 0.0
    n_before, excess_before = 0, math.inf
    while True:
        space = space.extend(multiply(space.newest))
        n_inside = space.n_columns - space.newest.shape[1]
        is_all = n_inside >= length or not space.newest.shape[1]
        if n_inside < n_checked and not is_all:
            continue
        H = space.project()
        values, S = eigh_descending(H[:n_inside, :n_inside], k)
        residuals = np.linalg.norm(H[n_inside:, :n_inside] @ S, axis=0)
        excess = float(np.max(residuals / np.maximum(tolerance * values, np.finfo(np.float64).tiny)))
        if excess > 1.0 and not is_all:
            # Residuals fall at least geometrically: extrapolate, but by at most a quarter.
            rate = math.log(excess_before / excess) / (n_inside - n_before)
            n_checked = n_inside + math.ceil(min(MAX_GROWTH * n_inside, math.log(excess) / max(rate, 1e-9)))
            n_before, excess_before = n_inside, excess
            continue
        if n_inside >= length:
            break
        complement = partial(_multiply_complement, multiply, space.inside)
        inside, outside = bound_largest_eigenvalue(complement, length, seed + n_bounds, dtype)
        n_bounds += 1
        if n_bounds == MAX_BOUNDS or (n_inside >= k and inside <= values[k - 1] * (1.0 + tolerance)):
            break
        n_checked, excess_before = math.ceil((1.0 + MAX_GROWTH) * n_inside), math.inf
        space = space.widen(draw(N_START_COLUMNS << n_bounds))
        if not space.newest.shape[1]:  # the space is that of all vectors, up to rounding
            break
    H[range(n_inside, len(H)), range(n_inside, len(H))] = outside
    bounds = np.concatenate([np.full(k + 1, outside), scipy.linalg.eigvalsh(H, check_finite=False)])
    vectors = space.combine(S)
    return LeadingSpace(vectors, np.sort(bounds)[::-1][: k + 1], residuals)


def _multiply_complement(multiply: Multiply, basis: tuple[FloatArray, ...], q: FloatArray, less: Doubles) -> Doubles:
    """Return ``P C P q - less`` for the orthogonal projection P onto the complement of a basis."""
    for block in basis:
        q = q - block @ (block.T @ q)
    product = multiply(q)
    for block in basis:
        product = product - block @ (block.T @ product)
    return np.asarray(product - less, dtype=np.float64)


N_PRODUCTS = 4
"""Products of a matrix that is read in blocks of rows; each has ``3 k / 4 + 8`` columns for k vectors."""


def leading_left_vectors(
    blocks: Callable[[], Iterable[CSRRows]], shape: tuple[int, int], dtype: DTypeLike, k: int, *, random_state: int
) -> tuple[Doubles, Doubles]:
    """Return at most k left singular vectors and values of sparse rows (n, d) from a block Krylov space.

    Each product reads the blocks twice. Memory: ``(n + d) (3 k + 32)`` numbers and one block. Shapes: returns
    `vectors` (n, at most k), `values`.

    >>> from scipy import sparse
    >>> rows = [sparse.csr_array([[1.0, 0.0]]), sparse.csr_array([[0.0, 3.0]])]
    >>> leading_left_vectors(lambda: rows, (2, 2), np.float64, 2, random_state=0)[1].round(6)
    array([3., 1.])
    """

    def multiply(Z: FloatArray) -> FloatArray:
        return np.concatenate([rows @ Z for rows in blocks()])

    def multiply_gram(Y: FloatArray) -> FloatArray:
        product, first = np.zeros((shape[1], Y.shape[1]), dtype=np.result_type(dtype, Y.dtype)), 0
        for rows in blocks():
            add_transpose_times(rows, Y[first : first + rows.shape[0]], product)
            first += rows.shape[0]
        return multiply(product)

    width = min(3 * k // 4 + EIGHT, *shape)
    space = KrylovSpace.start(
        multiply(np.random.default_rng(random_state).standard_normal((shape[1], width)).astype(dtype))
    )
    for _ in range(N_PRODUCTS - 1):
        space = space.extend(multiply_gram(space.newest))
    values, vectors = space.ritz_pairs(multiply_gram(space.newest))
    return np.asarray(vectors[:, :k], dtype=np.float64), np.sqrt(values[:k])


MAX_GRAM_SIDE = 800
"""Largest side of a Gram matrix that is decomposed directly."""


def leading_right_vectors(rows: Rows, k: int, *, seed: int = 0) -> Doubles:
    """Return the leading right singular vectors of a matrix, at most its rank.

    If the shorter side is at most ``max(800, 4 k)``, its Gram matrix is decomposed, ``8 min(m, d)^2`` bytes; otherwise
    its block Krylov space is searched. Shapes: `rows` (m, d); returns (at most k, d).

    >>> leading_right_vectors(np.array([[0.0, 3.0, 0.0], [1.0, 0.0, 0.0]]), 3) + 0.0
    array([[0., 1., 0.],
           [1., 0., 0.]])
    """
    rows = rows.astype(np.float64) if is_sparse(rows) else np.asarray(rows, dtype=np.float64)
    m, d = rows.shape
    k, by_rows = min(k, m, d), m < d
    inner = rows.T.tocsr() if is_sparse(rows) else rows.T
    left, right = (rows, inner) if by_rows else (inner, rows)
    if min(m, d) <= max(MAX_GRAM_SIDE, 4 * k):
        product: Any = left @ right
        gram = product.toarray() if is_sparse(product) else product
        values, vectors = leading_eigenpairs(gram, np.float64, k=k, only_k=True)
    else:
        basis = find_leading_space(
            lambda Z: np.asarray(left @ (right @ Z)), min(m, d), k, seed=seed, dtype=np.float64
        ).vectors
        image = right @ basis
        values, rotation = leading_eigenpairs(image.T @ image, np.float64)
        vectors = basis @ rotation
    # Vectors of the longer side are one product with the rows.
    axes = rows.T @ vectors / np.sqrt(values) if by_rows else vectors
    return np.asarray(fix_signs(np.ascontiguousarray(axes.T)), dtype=np.float64)
