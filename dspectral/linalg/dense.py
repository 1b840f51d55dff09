"""Small dense linear algebra on tall or wide arrays, with a fixed sign convention.

Most functions decompose a Gram matrix in double precision, which costs less than a QR or SVD of the long side and
needs no copy of it. It halves the digits: singular values below ``sqrt(eps)`` of the largest cannot be distinguished
from rounding and are dropped. :func:`jacobi_svd` resolves singular values of a small factor down to ``16 eps``.
"""

import math
from collections.abc import Iterator

import numpy as np
import scipy.linalg
from numpy.typing import DTypeLike
from scipy.linalg.lapack import dgejsv

from dspectral.linalg.panels import (
    PANEL,
    column_gram,
    combine_rows,
    iter_panels,
    panel_buffer,
    row_gram,
    sum_panels,
    tall_zeros_like,
)
from dspectral.types import Bools, Doubles, FloatArray

MARGIN = 16.0
"""Eigenvalues above this multiple of the rounding error count towards the rank."""
GRADED_RATIO = 1e3
"""Ratio of squared singular values, or of column lengths, above which rounding must be treated per column."""
MIN_AXIS_LENGTH = 0.5
"""Length below which a singular vector, computed from an eigenvector of a Gram matrix, is rounding."""
MAX_SUM_TERMS = 1 << 14
"""Largest number of terms of a sum in single precision."""
MAX_JACOBI_ROWS = 1024
"""Largest number of rows of a factor decomposed by Jacobi rotations, which take 4 times as long as LAPACK's SVD."""


def eigh_descending(K: Doubles, k: int | None = None) -> tuple[Doubles, Doubles]:
    """Return the first k (by default all) eigenpairs of a positive semidefinite matrix (n, n), largest first.

    For many equal eigenvalues LAPACK returns fewer pairs than requested; then all are computed. Shapes: returns (k,)
    and (n, k).
    """
    k = len(K) if k is None else min(k, len(K))
    index_range = None if k == len(K) else (len(K) - k, len(K) - 1)
    try:
        values, vectors = scipy.linalg.eigh(K, subset_by_index=index_range, check_finite=False)
    except np.linalg.LinAlgError:
        values = vectors = np.zeros(0)
    if len(values) != k:
        values, vectors = scipy.linalg.eigh(K, driver="evd", check_finite=False)
    return np.maximum(values[: -k - 1 : -1], 0.0), vectors[:, : -k - 1 : -1]


def leading_eigenpairs(
    K: Doubles, dtype: DTypeLike, *, k: int | None = None, only_k: bool = False, margin: float = MARGIN
) -> tuple[Doubles, Doubles]:
    """Return the eigenpairs of a Gram matrix above its rounding error, largest first.

    All decompositions through a Gram matrix determine their rank here. If ``K = A A'``, the rows of
    ``(vectors / sqrt(values))' A`` are orthonormal. Shapes: `K` (n, n); returns `values` (r,), `vectors` (n, r).
    """
    values, vectors = eigh_descending(K, k if only_k else None)
    rank = int(np.sum(values > rounding_floor(values, dtype, margin)))
    rank = rank if k is None else min(k, rank)
    return values[:rank], vectors[:, :rank]


def triangular_factor(*parts: FloatArray) -> Doubles:
    """Return the triangular factor of a QR decomposition of the concatenated rows. Shapes: `*parts` (r_i, d)."""
    return np.asarray(np.linalg.qr(np.concatenate(parts), mode="r"))


def jacobi_svd(factor: Doubles) -> tuple[Doubles, Doubles]:
    """Return the singular values of a small matrix, largest first, and its right singular vectors.

    One-sided Jacobi rotations compute small values of graded rows or columns to full relative accuracy (Drmac and
    Veselic 2008). Factors of more than 1,024 rows use LAPACK's SVD, whose error is eps times the largest value. Values
    below ``16 eps`` of the largest are dropped. Shapes: `factor` (r, d); returns values (r',), vectors (r', d).

    >>> jacobi_svd(np.array([[1e9, 0.0], [1.0, 1e-5]]))[0]
    array([1.e+09, 1.e-05])
    """
    factor = factor[factor.any(axis=1)]
    if len(factor) > factor.shape[1]:
        factor = triangular_factor(factor)
    if not len(factor):
        return np.zeros(0), factor
    if len(factor) <= MAX_JACOBI_ROWS:
        values, vectors, _, scales, _, info = dgejsv(np.asfortranarray(factor.T), joba=2, jobv=3)
        values, axes = values * (scales[0] / scales[1]), vectors.T
    if len(factor) > MAX_JACOBI_ROWS or info:
        _, values, axes = np.linalg.svd(factor, full_matrices=False)
    rank = int(np.sum(values > MARGIN * np.finfo(np.float64).eps * values[0]))
    return values[:rank], axes[:rank]


def graded_eigenpairs(
    gram: Doubles, k: int, share: float, floor: float, column_floor: Doubles
) -> tuple[Doubles, Doubles]:
    """Return at most k eigenpairs of a Gram matrix above rounding, including those of very short columns.

    Rounding of a Gram entry is relative to the lengths of both its columns. If fewer than k values exceed
    ``max(share * largest, floor)``, columns are scaled to length 1, directions below rounding are dropped, and the
    remaining factor is scaled back and decomposed. Shapes: `gram` (d, d), `column_floor` (d,): squared length below
    which a column is rounding; returns values (r,), vectors (d, r).
    """
    values, vectors = eigh_descending(gram, min(k, len(gram)))
    rank = int(np.sum(values > max(share * values[0], floor)))
    if rank == len(values):
        return values, vectors
    lengths = np.sqrt(np.where(gram.diagonal() > column_floor, gram.diagonal(), 0.0))
    above = np.flatnonzero(lengths)
    if not len(above) or lengths.max() < GRADED_RATIO * lengths[above].min():
        return values[:rank], vectors[:, :rank]
    scales = lengths[above]
    inner, rotation = eigh_descending(gram[np.ix_(above, above)] / np.outer(scales, scales))
    is_significant = inner > share * inner[0]
    sizes, axes = jacobi_svd((rotation[:, is_significant] * np.sqrt(inner[is_significant])).T * scales)
    vectors = np.zeros((len(gram), min(k, len(sizes))))
    vectors[above] = axes[:k].T
    return sizes[:k] ** 2, vectors


def rounding_floor(values: Doubles, dtype: DTypeLike, margin: float = MARGIN) -> float:
    """Return the value below which an eigenvalue of a Gram matrix is rounding error."""
    return float(margin * np.finfo(np.dtype(dtype)).eps * values[0]) if len(values) else 0.0


def sum_rounding_bound(n_terms: int, energy: float) -> float:
    """Bound the rounding of a Gram matrix of n rows: ``2 n eps`` times the trace (Higham 2002, section 3.1)."""
    return float(2.0 * n_terms * np.finfo(np.float64).eps * energy)


def product_rounding_bound(n_terms: int, energy: float, dtype: DTypeLike) -> float:
    """Bound the rounding of products with the Gram matrix of `n_terms` rows, computed and summed in `dtype`.

    In single precision a sum has at most as many terms as a panel of a block has rows.
    """
    n_terms = 8 * n_terms if dtype == np.float64 else min(n_terms, MAX_SUM_TERMS)
    return (MARGIN + n_terms / 4.0) * float(np.finfo(np.dtype(dtype)).eps) * energy


def mean_rounding_bound(energy: float, mean_energy: float, n_terms: int = 0) -> float:
    """Bound the error of a centered Gram matrix due to rounded differences: ``|E| <= 2 |Y| |R| + |R|^2``.

    `energy`: squared norm of the centered rows Y; `mean_energy`: squared norm of the n copies of the mean, of which R
    is the rounding; `n_terms`: number of terms if the mean is a sum of sparse rows.
    """
    mean_error = (2.0 * MARGIN + n_terms / 4.0) * float(np.finfo(np.float64).eps) * math.sqrt(mean_energy)
    return 2.0 * math.sqrt(energy) * mean_error + mean_error * mean_error


def mean_noise_floor(n_rows: int, mean_energy: float) -> float:
    """Return the largest scatter about the mean that rounding can produce from equal rows."""
    return float((max(MARGIN, n_rows) * np.finfo(np.float64).eps) ** 2 * mean_energy)


def orthonormalize_columns(Z: FloatArray, *, overwrite: bool = False) -> FloatArray:
    """Return an orthonormal basis of the columns of a tall matrix: see :func:`gram_qr_inplace`.

    Shapes: `Z` (d, r); returns (d, rank).
    """
    norms = column_norms(Z)
    if not overwrite or not norms.all():
        Z = select_columns(Z, norms > 0)
    for panel in iter_panels(len(Z), Z):  # squares of very short columns would underflow
        Z[panel] /= norms[norms > 0].astype(Z.dtype)
    return gram_qr_inplace(Z, column_gram(Z))[0]


def gram_qr_inplace(Z: FloatArray, gram: Doubles) -> tuple[FloatArray, Doubles]:
    """Return a QR decomposition of a tall matrix without zero columns, with Q overwriting it.

    Normalizes the columns, then computes ``Z <- Z V / sqrt(values)`` with the eigenpairs of ``Z'Z``, at ``4 d r^2``
    flops, twice unless the first result is orthonormal. Shapes: `Z` (d, r), `gram` (r, r): ``Z'Z``; returns `Q`
    (d, rank), `R` (rank, r).

    >>> Z = np.array([[3.0], [4.0]])
    >>> Q, R = gram_qr_inplace(Z, Z.T @ Z)
    >>> Q.round(3), R.round(3)
    (array([[0.6],
           [0.8]]), array([[5.]]))
    """
    R = np.eye(len(gram))
    # The first round leaves an error of eps times the squared condition number, the second one of eps.
    for is_last in (False, True):
        # Normalized, so that a short column next to a long one does not count as rounding.
        norms = np.sqrt(gram.diagonal())
        values, vectors = leading_eigenpairs(gram / norms / norms[:, None], Z.dtype)
        if is_last and np.abs(gram - np.eye(len(gram))).max(initial=0.0) <= MARGIN * np.finfo(Z.dtype).eps:
            break
        roots = np.sqrt(values)
        Z, gram = multiply_inplace(Z, vectors / roots / norms[:, None], with_gram=not is_last)
        # The old Z is the new Z times this factor, up to dropped pairs, without inner products over the long side.
        R = roots[:, None] * (vectors.T * norms) @ R
    return Z, R


def column_norms(Z: FloatArray) -> Doubles:
    """Return the Euclidean norm of each column in double precision. Shapes: `Z` (d, r); returns (r,)."""
    return np.sqrt(np.einsum("ij,ij->j", Z, Z, dtype=np.float64))


def multiply_inplace(Z: FloatArray, C: FloatArray, *, with_gram: bool = False) -> tuple[FloatArray, Doubles]:
    """Return ``Z C`` in the memory of Z, and its Gram matrix (or zeros). C has at most as many columns as Z."""
    C, rank = C.astype(Z.dtype), C.shape[1]

    def multiply(panels: Iterator[slice]) -> Iterator[FloatArray]:
        buffer, no_gram = np.empty((PANEL, rank), dtype=Z.dtype), np.zeros((rank, rank))
        for panel in panels:
            # Safe in place: the product has its own buffer, so the panel is read before it is overwritten.
            product = np.matmul(Z[panel], C, out=panel_buffer(panel, buffer))
            Z[panel, :rank] = product
            yield product.T @ product if with_gram else no_gram

    gram = sum_panels(multiply, (rank, rank), len(Z), Z)
    return Z if rank == Z.shape[1] else select_columns(Z, np.arange(Z.shape[1]) < rank), gram


def select_columns(Z: FloatArray, is_selected: Bools) -> FloatArray:
    """Return a copy of the chosen columns of a tall matrix (d, r), in a file if the matrix is in one."""
    out = tall_zeros_like(Z, int(np.sum(is_selected)))
    for panel in iter_panels(len(Z), Z, out):
        out[panel] = Z[panel] if is_selected.all() else Z[panel][:, is_selected]
    return out


def normalize_rows(rows: FloatArray) -> FloatArray:
    """Scale each row to length 1; rows of zeros stay zero. Shapes: `rows` (n, d); returns (n, d)."""
    sizes = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    return np.asarray(rows / np.where(sizes > 0, sizes, 1.0)[:, None], dtype=rows.dtype)


def fix_signs(rows: FloatArray, *, overwrite: bool = False) -> FloatArray:
    """Flip signs of rows (k, d) so that the (first) entry of largest magnitude of each row is positive."""
    if not rows.size:
        return rows
    size = np.empty(rows.shape[1], dtype=rows.dtype)
    peaks = [np.argmax(np.abs(row, out=size)) for row in rows]  # row by row to limit memory
    signs = np.sign(rows[np.arange(len(rows)), peaks])
    unit_signs = np.where(signs == 0, 1, signs)[:, None].astype(rows.dtype)
    return np.multiply(rows, unit_signs, out=rows if overwrite else None)


def principal_axes(sketch: FloatArray, k: int) -> tuple[FloatArray, Doubles]:
    """Return the first right singular vectors of a wide matrix, and its singular values.

    ``V' = S^(-1) U' A`` with the eigenpairs ``(U, S^2)`` of ``A A'``, then :func:`orthonormalize_axes`: the first step
    is orthogonal only to rounding times the condition number. Cost: ``2 r^2 d + 4 k r d`` flops. Shapes: `sketch`
    (r, d); returns `axes` (k', d), `singular_values` (k',).
    """
    values, vectors = leading_eigenpairs(row_gram(sketch), sketch.dtype, k=k)
    axes = combine_rows((vectors / np.sqrt(values)).T, sketch)
    # The length of an axis shows whether its value, computed from squares, is rounding.
    is_rounding = column_norms(axes.T) < MIN_AXIS_LENGTH
    rank = int(np.argmax(np.append(is_rounding, True)))
    return orthonormalize_axes(axes[:rank]), np.sqrt(values[:rank])


def orthonormalize_axes(axes: FloatArray) -> FloatArray:
    """Orthonormalize nearly orthonormal singular vectors (k, d) one after the other, in ``3 k^2 d`` flops.

    Errors of the vectors of small values do not affect those of large values, which come first.
    """
    triangle = scipy.linalg.cholesky(row_gram(axes), lower=True, check_finite=False)
    inverse = scipy.linalg.solve_triangular(triangle, np.eye(len(triangle)), lower=True, check_finite=False)
    return fix_signs(combine_rows(inverse, axes), overwrite=True)
