"""Similarity matrices ``I + w W``: W from vectors, the largest admissible w, and factors of the matrix."""

from typing import Literal, NamedTuple, Protocol

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import ArpackError, eigsh, splu

from dspectral.types import CSRRows, FloatArray, is_sparse

FactorKind = Literal["auto", "dense", "sparse", "polynomial"]
DENSE_COLUMNS = 1024
"""Columns up to which ``"auto"`` takes a dense factor, and all eigenvalues are computed."""
HIGHEST_DEGREE = 500
"""Largest degree of a polynomial factor."""
_PRECISION = 1e-9
"""Coefficients of a polynomial below this number, relative to the smallest root, are left out."""


class Factor(Protocol):
    """A square matrix L with ``L L' = S``; all such L give the same spectrum."""

    def times(self, Y: FloatArray) -> FloatArray:
        """Return ``L Y``, for Y of shape (d, r)."""
        ...

    def transpose_times(self, Y: FloatArray) -> FloatArray:
        """Return ``L' Y``."""
        ...


class DenseFactor(NamedTuple):
    """Cholesky's factor as a dense lower triangle.

    `lower` (d, d): the factor L.
    """

    lower: NDArray[np.float64]

    def times(self, Y: FloatArray) -> FloatArray:
        """Return ``L Y``."""
        return np.asarray(self.lower @ Y, dtype=Y.dtype)

    def transpose_times(self, Y: FloatArray) -> FloatArray:
        """Return ``L' Y``."""
        return np.asarray(self.lower.T @ Y, dtype=Y.dtype)


class SparseFactor(NamedTuple):
    """Cholesky's factor of the matrix with its rows in another order.

    `lower` (d, d): lower triangle of the reordered matrix; `order` (d,): row of the factor for each row of
    the matrix.
    """

    lower: sparse.csr_array
    order: NDArray[np.int64]

    def times(self, Y: FloatArray) -> FloatArray:
        """Return ``L Y``."""
        return np.asarray((self.lower @ Y)[self.order], dtype=Y.dtype)

    def transpose_times(self, Y: FloatArray) -> FloatArray:
        """Return ``L' Y``."""
        # ``times`` picks rows by ``order``, so the transpose puts rows back to the places that they were picked from.
        ordered = np.empty_like(Y)
        ordered[self.order] = Y
        return np.asarray(self.lower.T @ ordered, dtype=Y.dtype)


class PolynomialFactor(NamedTuple):
    """The symmetric root as a Chebyshev series in the matrix, which takes products with it alone.

    `matrix` (d, d): the matrix S; `middle, half`: bounds of its eigenvalues; `coefficients`: coefficients of
    the Chebyshev polynomials of ``(S - middle) / half``, by degree.
    """

    matrix: sparse.csr_array
    middle: float
    half: float
    coefficients: NDArray[np.float64]

    def times(self, Y: FloatArray) -> FloatArray:
        """Return ``L Y``, by Clenshaw's recurrence."""
        # b_n = c_n Y + 2 T b_(n+1) - b_(n+2) for T = (S - middle) / half; the sum is c_0 Y + T b_1 - b_2. Invariant:
        # latest and later are b_(n+1) and b_(n+2). One product with S for each degree, three arrays like Y.
        matrix = self.matrix.astype(Y.dtype)
        later, latest = np.zeros_like(Y), np.zeros_like(Y)
        for coefficient in self.coefficients[:0:-1]:
            turned = (matrix @ latest - self.middle * latest) * (2.0 / self.half)
            later, latest = latest, turned - later + coefficient * Y
        turned = (matrix @ latest - self.middle * latest) / self.half
        return np.asarray(turned - later + self.coefficients[0] * Y, dtype=Y.dtype)

    def transpose_times(self, Y: FloatArray) -> FloatArray:
        """Return ``L' Y``, the same."""
        return self.times(Y)


def checked_similarity(similarity: object, size: int, name: str, of: str) -> sparse.csr_array:
    """Return a similarity as CSR in double precision, its diagonal left out.

    Shapes: `similarity` (size, size); returns (size, size).
    """
    if is_sparse(similarity):
        matrix: CSRRows = sparse.csr_array(similarity).astype(np.float64)
    else:
        matrix = sparse.csr_array(np.atleast_2d(np.asarray(similarity, dtype=np.float64)))
    if matrix.shape != (size, size):
        raise ValueError(
            f"{name} has shape {matrix.shape}, but there are {size} {of}: it must be {size} x {size}"
        )
    if not np.all(np.isfinite(matrix.data)):
        raise ValueError(f"{name} holds NaN or infinity, but every similarity must be finite")
    gap = abs(matrix - matrix.T).max() if matrix.nnz else 0.0
    if gap > 1e-6 * max(1.0, abs(matrix.data).max(initial=0.0)):
        raise ValueError(f"{name} is not symmetric: two entries that mirror each other differ by {gap:.3g}")
    # Rounding may differ between mirrored entries; Cholesky and the eigenvalue solvers want them equal.
    matrix = sparse.csr_array((matrix + matrix.T) / 2.0)
    matrix = sparse.csr_array(matrix - sparse.diags_array(matrix.diagonal()))
    matrix.eliminate_zeros()
    return matrix


def eigenvalue_range(matrix: sparse.csr_array) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue of a symmetric matrix."""
    if matrix.shape[0] <= DENSE_COLUMNS:
        values = scipy.linalg.eigvalsh(matrix.toarray())
        return float(values[0]), float(values[-1])
    # A start of its own: ARPACK's default draws from a global state, and bits would differ from run to run.
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])
    ends = []
    for which in ("SA", "LA"):
        try:
            ends.append(eigsh(matrix, 1, which=which, v0=start, ncv=64, return_eigenvectors=False)[0])
        except ArpackError as error:
            raise ValueError(f"the eigenvalues of a similarity could not be found: {error}") from error
    return float(ends[0]), float(ends[1])


def largest_weight(lowest: float) -> float:
    """Return the weight below which ``I + w W`` is positive definite (1 at most), given W's lowest eigenvalue.

    >>> largest_weight(-4.0), largest_weight(-0.5)
    (0.25, 1.0)
    """
    # I + w W has the eigenvalues 1 + w l, all above 0 iff w < -1 / min(l); the papers want w below 1 as well.
    return min(1.0, -1.0 / lowest) if lowest < 0 else 1.0


def checked_weight(weight: float, largest: float, name: str, matrix: str) -> None:
    """Refuse a weight with which ``I + w W`` is not positive definite."""
    if not 0.0 <= weight < largest:
        raise ValueError(
            f"{name} is {weight}, but {matrix} is positive definite only below {largest:.6g}: the largest "
            f"admissible {name} is just under {largest:.6g}, the smallest is 0"
        )


def factor(similarity: sparse.csr_array, weight: float, kind: str, ends: tuple[float, float]) -> Factor:
    """Return L with ``L L' = I + weight * similarity``.

    Shapes: `similarity` (d, d).
    """
    size = similarity.shape[0]
    matrix = sparse.csr_array(sparse.eye_array(size, format="csr") + weight * similarity)
    if kind == "auto":
        kind = "dense" if size <= DENSE_COLUMNS else "polynomial"
    if kind == "dense":
        return DenseFactor(scipy.linalg.cholesky(matrix.toarray(), lower=True))
    if kind == "sparse":
        return _sparse_cholesky(matrix)
    if kind == "polynomial":
        return _root_series(matrix, 1.0 + weight * ends[0], 1.0 + weight * ends[1])
    raise ValueError(f"factor is {kind!r}, but it must be 'auto', 'dense', 'sparse' or 'polynomial'")


def _sparse_cholesky(matrix: sparse.csr_array) -> SparseFactor:
    """Factor by SuperLU without row exchanges: for a positive definite matrix ``U = D L'``."""
    found = splu(
        matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )
    # With no row exchange A = P'(L D L')P, and L sqrt(D) is Cholesky's factor of the reordered matrix.
    pivots = found.U.diagonal()
    if np.any(found.perm_r != found.perm_c) or np.any(pivots <= 0):
        raise ValueError(
            "the sparse factorization of a similarity broke down, because it is nearly singular: lower its weight"
        )
    lower = sparse.csr_array(found.L @ sparse.diags_array(np.sqrt(pivots)))
    return SparseFactor(lower, np.asarray(found.perm_c, dtype=np.int64))


def _root_series(matrix: sparse.csr_array, lowest: float, highest: float) -> PolynomialFactor:
    """Return the root's Chebyshev series on the spectrum, cut where its coefficients no longer count."""
    # The coefficients by a cosine transform of the root at the 2 * HIGHEST_DEGREE Chebyshev points; they fall as
    # ((sqrt(c) - 1) / (sqrt(c) + 1))^n for a condition number c, so a nearly singular matrix needs many.
    margin = 0.01 * lowest  # eigenvalues are found to a few digits
    low, high = lowest - margin, max(highest + margin, lowest * 1.1)
    middle, half = (high + low) / 2.0, (high - low) / 2.0
    n = 2 * HIGHEST_DEGREE
    angles = np.pi * (np.arange(n) + 0.5) / n
    roots = np.sqrt(middle + half * np.cos(angles))
    coefficients = 2.0 / n * np.cos(np.outer(np.arange(n), angles)) @ roots
    coefficients[0] /= 2.0
    counts = np.flatnonzero(np.abs(coefficients) > _PRECISION * np.sqrt(lowest))
    if counts[-1] > HIGHEST_DEGREE:
        raise ValueError(
            f"a similarity's eigenvalues reach from {lowest:.3g} to {highest:.3g}, too far for a polynomial of "
            f"degree {HIGHEST_DEGREE}: lower its weight, or take factor='dense'"
        )
    return PolynomialFactor(matrix, middle, half, coefficients[: counts[-1] + 1])
