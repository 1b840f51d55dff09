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
N_LANCZOS_STEPS, N_BISECTIONS = 7, 50
"""Lanczos steps of an eigenvalue bound, and bisection steps of its interval."""
FAILURE_PROBABILITY = 1e-8
"""Probability that one eigenvalue bound is below the truth."""
N_START_COLUMNS = 16
"""Random columns of a block Krylov space, and those that are added where it misses equal eigenvalues."""
MAX_BOUNDS = 12
"""Maximum number of eigenvalue bounds of one space."""
MAX_SHARE_GAINED = 1e-6
"""Share of the sum of the eigenvalues by which further random columns may increase it before the search ends."""
GROWTH = 1.2
"""Factor by which a space grows between two looks at its eigenpairs."""


def largest_eigenvalue_bound(
    multiply: Callable[[FloatArray, Doubles], Doubles], length: int, seed: int, dtype: DTypeLike
) -> float:
    """Return an upper bound of the largest eigenvalue of a symmetric operator M, by Lanczos steps from random starts.

    For a unit eigenvector u with eigenvalue x, ``(u'w)^2`` of a start w is at most the Christoffel number
    ``|w|^2 / (p_0(x)^2 + ... + p_q(x)^2)`` of the orthonormal polynomials of q steps (Golub and Meurant 2010,
    "Matrices, moments and quadrature"). The eight starts are normal and independent of M, so the probability that all
    ``|u'w|`` are small is the product of eight. `multiply`: returns ``M q - subtrahend``, shape (length, 8).

    >>> values = np.arange(100.0)[:, None]
    >>> bound = largest_eigenvalue_bound(lambda q, subtrahend: values * q - subtrahend, 100, 0, np.float64)
    >>> bool(99.0 <= bound < 110.0)
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
    low = np.array([scipy.linalg.eigvalsh_tridiagonal(d, e).max() for d, e in tridiagonal])
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
    return max(0.0, float(high.max()))


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

    A block Krylov space grows until the residuals of k pairs are ``eps^(2/3)`` of their values. Eight new random
    columns then bound the norm of C outside of the space. While the bound exceeds the k-th value, as it does if C has
    more equal eigenvalues than the space has start columns, random columns are added. Cost for a space of m columns: m
    products with a vector and ``4 n m^2`` flops; memory ``n m`` numbers.

    >>> values = np.repeat([3.0, 2.0, 1.0], 400)
    >>> space = find_leading_space(lambda Z: values[:, None] * Z, 1200, 3, seed=0, dtype=np.float64)
    >>> bool((space.bounds >= 3.0).all()), float(np.abs(space.vectors[400:]).max().round(6))
    (True, 0.0)
    """
    generator = np.random.default_rng(seed)

    def draw(n_columns: int) -> FloatArray:
        return generator.standard_normal((length, min(n_columns, length)), dtype=np.float32).astype(dtype)

    tolerance = float(np.finfo(np.dtype(dtype)).eps) ** (2.0 / 3.0)
    space, n_bounds, n_checked, sum_before = KrylovSpace.start(draw(N_START_COLUMNS)), 0, k, 0.0
    while True:
        space = space.extend(multiply(space.newest))
        n_inside = space.n_columns - space.newest.shape[1]
        is_exhausted = not space.newest.shape[1]
        if n_inside < min(length, n_checked) and not is_exhausted:
            continue
        n_checked = math.ceil(GROWTH * n_inside)
        H = space.project()
        values, S = eigh_descending(H[:n_inside, :n_inside], k)
        residuals = np.linalg.norm(H[n_inside:, :n_inside] @ S, axis=0)
        if n_inside < length and not is_exhausted and np.any(residuals > tolerance * values):
            continue
        outside = 0.0
        if n_inside < length:
            complement = partial(_multiply_complement, multiply, space.inside)
            outside, n_bounds = largest_eigenvalue_bound(complement, length, seed + n_bounds, dtype), n_bounds + 1
        gained = math.fsum(values) - sum_before
        sum_before += gained
        is_complete = n_inside >= length or (n_inside >= k and outside <= values[k - 1])
        if is_complete or n_bounds == MAX_BOUNDS or (n_inside >= k and gained <= MAX_SHARE_GAINED * sum_before):
            break
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


OVERSAMPLING = 16
"""Number of additional columns in subspace iteration."""
ITERATIONS = 3


def leading_left_vectors(A: CSRRows, k: int, *, random_state: int = 0) -> tuple[Doubles, Doubles]:
    """Return the first left singular vectors and singular values of a sparse matrix by subspace iteration.

    Memory: ``(n + d) * (k + 16)`` numbers. Halko, Martinsson and Tropp 2011, algorithm 4.4. Shapes: `A` (n, d);
    returns `vectors` (n, k), `values` (k,).
    """
    # Store the transpose: products that gather rows are twice as fast.
    return _subspace_iteration(A.__matmul__, A.T.tocsr().__matmul__, A.shape, A.dtype, k, random_state)


def leading_left_vectors_by_block(
    blocks: Callable[[], Iterable[CSRRows]],
    shape: tuple[int, int],
    dtype: DTypeLike,
    k: int,
    *,
    random_state: int = 0,
) -> tuple[Doubles, Doubles]:
    """Return the same bits as :func:`leading_left_vectors` for a matrix read in blocks of rows.

    Memory: ``(n + d) * (k + 16)`` numbers and one block. Shapes: returns `vectors` (n, k), `values` (k,).

    >>> from scipy import sparse
    >>> rows = [sparse.csr_array([[1.0, 0.0]]), sparse.csr_array([[0.0, 3.0]])]
    >>> leading_left_vectors_by_block(lambda: rows, (2, 2), np.float64, 2)[1].round(6)
    array([3., 1.])
    """

    def multiply(Z: FloatArray) -> FloatArray:
        return np.concatenate([np.asarray(rows @ Z) for rows in blocks()])

    def multiply_back(Y: FloatArray) -> FloatArray:
        out, first = np.zeros((shape[1], Y.shape[1]), dtype=np.result_type(dtype, Y.dtype)), 0
        for rows in blocks():
            add_transpose_times(rows, Y[first : first + rows.shape[0]], out)
            first += rows.shape[0]
        return out

    return _subspace_iteration(multiply, multiply_back, shape, dtype, k, random_state)


def _subspace_iteration(
    multiply: Multiply, multiply_back: Multiply, shape: tuple[int, int], dtype: DTypeLike, k: int, seed: int
) -> tuple[Doubles, Doubles]:
    n, d = shape
    width = min(k + OVERSAMPLING, n, d)
    basis = multiply(np.random.default_rng(seed).standard_normal((d, width)).astype(dtype))
    for _ in range(ITERATIONS):
        basis = multiply(multiply_back(_orthonormalize(basis)))
    basis = _orthonormalize(basis)
    # The Gram matrix squares the singular values, so compute it in double precision.
    inner = np.asarray(multiply_back(basis), dtype=np.float64)
    values, rotation = eigh_descending(inner.T @ inner)
    return np.asarray(basis @ rotation[:, :k], dtype=np.float64), np.sqrt(values[:k])


def _orthonormalize(Y: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.qr(Y)[0])


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
        image = np.asarray(right @ basis)
        values, rotation = leading_eigenpairs(image.T @ image, np.float64)
        vectors = basis @ rotation
    # Vectors of the longer side are one product with the rows.
    axes = np.asarray(rows.T @ vectors) / np.sqrt(values) if by_rows else vectors
    return np.asarray(fix_signs(np.ascontiguousarray(axes.T)), dtype=np.float64)
