"""Singular vectors of matrices in memory: wide sketches, sparse matrices, and the few rows of one class."""

from collections.abc import Callable, Iterable

import numpy as np
import scipy.linalg
from numpy.typing import DTypeLike, NDArray
from scipy.sparse.linalg import svds

from dspectral.linalg.dense import eigh_descending, fixed_signs, leading_eigenpairs, rounding_floor
from dspectral.linalg.panels import combine_rows, row_gram
from dspectral.linalg.sparse_products import add_transpose_times
from dspectral.types import CSRRows, FloatArray, Rows, is_sparse


def principal_axes(sketch: FloatArray, k: int) -> tuple[FloatArray, NDArray[np.float64]]:
    """Return the first right singular vectors of a wide matrix, and its singular values.

    Shapes: `sketch` (r, d); returns `axes` (k', d), `singular_values` (k',).

    ``V' = S^(-1) U' A`` with the eigenpairs ``(U, S^2)`` of ``A A'``, then one small round ``(V'V)^(-1/2) V'``: the
    first leaves the vectors orthogonal only to the rounding times the condition. The cost is ``2 r^2 d + 4 k r d``
    flops, panel by panel.

    >>> axes, singular_values = principal_axes(np.array([[0.0, 3.0], [-2.0, 0.0]]), 2)
    >>> np.abs(axes), singular_values
    (array([[0., 1.],
           [1., 0.]]), array([3., 2.]))
    """
    values, vectors = leading_eigenpairs(row_gram(sketch), sketch.dtype, k=k)
    return orthonormal_axes(combine_rows((vectors / np.sqrt(values)).T, sketch)), np.sqrt(values)


def orthonormal_axes(axes: FloatArray) -> FloatArray:
    """Return singular vectors that are orthonormal to rounding, with signs that are not arbitrary.

    Shapes: `axes` (k, d); returns (k, d).

    The symmetric inverse root moves the vectors less than any other orthonormalization, so that each remains the
    vector of its own singular value. The cost is ``4 k^2 d`` flops, panel by panel.
    """
    values, rotation = scipy.linalg.eigh(row_gram(axes))
    axes = combine_rows((rotation / np.sqrt(values)) @ rotation.T, axes)
    return fixed_signs(axes, overwrite=True)


EXTRA = 16
"""Vectors iterated beyond those wanted."""


def leading_left(
    A: CSRRows, k: int, *, n_iterations: int = 3, random_state: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the first left singular vectors and singular values of a sparse matrix by subspace iteration.

    Shapes: `A` (n, d); returns `vectors` (n, k), `values` (k,).

    Memory: ``(n + d) * (k + 16)`` numbers. scikit-learn's ``randomized_svd`` is as close (and quicker with LU in place
    of QR), but its other last bits would change every fitted clustering that starts from these vectors.

    Halko, Martinsson and Tropp 2011, "Finding structure with randomness", algorithm 4.4.

    >>> from scipy import sparse
    >>> leading_left(sparse.csr_array(np.diag([1.0, 3.0, 2.0])), 2)[1].round(6)
    array([3., 2.])
    """
    # The transpose is stored, because products with rows gathered are twice as fast.
    return _iterated(A.__matmul__, A.T.tocsr().__matmul__, A.shape, A.dtype, k, n_iterations, random_state)


def leading_left_of_blocks(
    blocks: Callable[[], Iterable[CSRRows]],
    shape: tuple[int, int],
    dtype: DTypeLike,
    k: int,
    *,
    n_iterations: int = 3,
    random_state: int = 0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what :func:`leading_left` returns, bit for bit, of a matrix that comes in blocks of rows.

    Shapes: returns `vectors` (n, k), `values` (k,).

    Memory: ``(n + d) * (k + 16)`` numbers and one block.

    >>> from scipy import sparse
    >>> rows = [sparse.csr_array([[1.0, 0.0]]), sparse.csr_array([[0.0, 3.0]])]
    >>> leading_left_of_blocks(lambda: rows, (2, 2), np.float64, 2)[1].round(6)
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

    return _iterated(multiply, multiply_back, shape, dtype, k, n_iterations, random_state)


def _iterated(
    multiply: Callable[[FloatArray], FloatArray],
    multiply_back: Callable[[FloatArray], FloatArray],
    shape: tuple[int, int],
    dtype: DTypeLike,
    k: int,
    n_iterations: int,
    random_state: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    n, d = shape
    width = min(k + EXTRA, n, d)
    basis = multiply(np.random.default_rng(random_state).standard_normal((d, width)).astype(dtype))
    for _ in range(n_iterations):
        basis = multiply(multiply_back(_orthonormal(basis)))
    basis = _orthonormal(basis)
    # The Gram matrix squares the singular values, so it is formed in double precision whatever the type of A.
    inner = np.asarray(multiply_back(basis), dtype=np.float64)
    values, rotation = eigh_descending(inner.T @ inner)
    return np.asarray(basis @ rotation[:, :k], dtype=np.float64), np.sqrt(values[:k])


def _orthonormal(Y: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.qr(Y)[0])


SMALL = 800
"""Rows or columns up to which the Gram matrix is decomposed."""


def right_axes(rows: Rows, k: int, *, seed: int = 0) -> NDArray[np.float64]:
    """Return the leading right singular vectors of a matrix one side of which is short, up to its rank.

    Shapes: `rows` (m, d); returns (at most k, d).

    Where m, d or ``4 k`` is small, the Gram matrix of the shorter side is decomposed, ``8 min(m, d)^2`` bytes;
    else ARPACK multiplies by the rows.

    >>> right_axes(np.array([[0.0, 3.0, 0.0], [1.0, 0.0, 0.0]]), 3) + 0.0
    array([[0., 1., 0.],
           [1., 0., 0.]])
    """
    rows = rows.astype(np.float64) if is_sparse(rows) else np.asarray(rows, dtype=np.float64)
    shorter = min(rows.shape)
    k = min(k, shorter)
    if shorter <= max(SMALL, 4 * k):
        return np.asarray(fixed_signs(_by_gram(rows, k)), dtype=np.float64)
    # ARPACK would draw its own first vector, another each time.
    start = np.random.default_rng(seed).standard_normal(shorter)
    # ARPACK finds fewer vectors than the shorter side is long; here that is more than `4 k`.
    _, sizes, axes = svds(rows, k=k, v0=start, solver="arpack")
    order = np.argsort(-sizes, kind="stable")
    squares: NDArray[np.float64] = sizes[order].astype(np.float64) ** 2
    kept = order[squares > rounding_floor(squares, np.float64)]
    return np.asarray(fixed_signs(np.ascontiguousarray(axes[kept])), dtype=np.float64)


def _by_gram(rows: Rows, k: int) -> NDArray[np.float64]:
    """Return the right singular vectors through the Gram matrix of the shorter side, ``8 min(m, d)^2`` bytes."""
    m, d = rows.shape
    # The side that is not decomposed follows by one product with the rows.
    product = rows @ rows.T if m < d else rows.T @ rows
    gram = product.toarray() if is_sparse(product) else np.asarray(product)
    values, vectors = leading_eigenpairs(gram, np.float64, k=k, only_k=True)
    axes = np.asarray(rows.T @ vectors) / np.sqrt(values) if m < d else vectors
    return np.ascontiguousarray(axes.T)
