"""Similarity matrices of terms: construction from word vectors, admissible weights, factors of I + w W."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import scipy.linalg
from scipy import sparse
from scipy.sparse.linalg import eigsh

from dspectral.registry import register_class
from dspectral.types import CSRRows, Doubles, FloatArray, is_sparse, trim_csr

DENSE_COLUMNS = 1024
"""Maximum number of columns for a dense factor and all eigenvalues."""
MAX_DEGREE = 500
"""Maximum degree of a polynomial factor."""
_PRECISION = 1e-9
"""Polynomial coefficients below this number, relative to the smallest square root, are dropped."""


class DenseFactor(NamedTuple):
    """Dense lower Cholesky factor, shape (d, d)."""

    lower: Doubles

    def times(self, Y: FloatArray) -> FloatArray:
        """Return ``L Y``."""
        return np.asarray(self.lower @ Y, dtype=Y.dtype)

    def transpose_times(self, Y: FloatArray) -> FloatArray:
        """Return ``L' Y``."""
        return np.asarray(self.lower.T @ Y, dtype=Y.dtype)


class PolynomialFactor(NamedTuple):
    """Symmetric square root of a matrix S (d, d) as a Chebyshev series in ``(S - center) / half_width``."""

    matrix: sparse.csr_array
    center: float
    half_width: float
    coefficients: Doubles

    def times(self, Y: FloatArray) -> FloatArray:
        """Return ``L Y``, by Clenshaw's recurrence."""
        # b_n = c_n Y + 2 T b_(n+1) - b_(n+2) for T = (S - middle) / half; the sum is c_0 Y + T b_1 - b_2. Invariant:
        # latest and later are b_(n+1) and b_(n+2). Cost: one product with S for each degree; three arrays like Y.
        matrix = self.matrix.astype(Y.dtype)
        later, latest = np.zeros_like(Y), np.zeros_like(Y)
        for coefficient in self.coefficients[:0:-1]:
            product = (matrix @ latest - self.center * latest) * (2.0 / self.half_width)
            later, latest = latest, product - later + coefficient * Y
        product = (matrix @ latest - self.center * latest) / self.half_width
        return np.asarray(product - later + self.coefficients[0] * Y, dtype=Y.dtype)

    def transpose_times(self, Y: FloatArray) -> FloatArray:
        """Return ``L' Y``, which equals ``L Y``."""
        return self.times(Y)


Factor: TypeAlias = DenseFactor | PolynomialFactor
"""A square matrix L with ``L L' = S``; the spectrum does not depend on the choice of L."""


def as_similarity_matrix(similarity: object, size: int) -> sparse.csr_array:
    """Return a similarity (size, size) as CSR in double precision with a zero diagonal."""
    if is_sparse(similarity):
        matrix: CSRRows = trim_csr(sparse.csr_array(similarity)).astype(np.float64)
    else:
        matrix = sparse.csr_array(np.atleast_2d(np.asarray(similarity, dtype=np.float64)))
    if matrix.shape != (size, size):
        raise ValueError(f"term_similarity has shape {matrix.shape}, but must have ({size}, {size}), the terms of X")
    if not np.all(np.isfinite(matrix.data)):
        raise ValueError("term_similarity contains NaN or infinity, but must be finite: remove these entries")
    gap = abs(matrix - matrix.T).max() if matrix.nnz else 0.0
    if gap > 1e-6 * max(1.0, abs(matrix.data).max(initial=0.0)):
        raise ValueError(
            f"term_similarity differs from its transpose by up to {gap:.3g}, but must be symmetric: pass (W + W.T) / 2"
        )
    # Cholesky and the eigenvalue solvers require exact symmetry.
    matrix = sparse.csr_array((matrix + matrix.T) / 2.0)
    matrix = sparse.csr_array(matrix - sparse.diags_array(matrix.diagonal()))
    matrix.eliminate_zeros()
    return matrix


def eigenvalue_range(matrix: sparse.csr_array) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue of a symmetric matrix."""
    if matrix.shape[0] <= DENSE_COLUMNS:
        values = scipy.linalg.eigvalsh(matrix.toarray())
        return float(values[0]), float(values[-1])
    # A fixed start vector: ARPACK's default is drawn from global state and is not reproducible.
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])
    ends = (eigsh(matrix, 1, which=which, v0=start, ncv=64, return_eigenvectors=False)[0] for which in ("SA", "LA"))
    low, high = map(float, ends)
    return low, high


def max_weight(lowest: float) -> float:
    """Return the bound (1 at most) below which ``I + w W`` is positive definite, given W's lowest eigenvalue."""
    # The eigenvalues 1 + w l are positive iff w < -1 / min(l); the papers also require w < 1.
    return min(1.0, -1.0 / lowest) if lowest < 0 else 1.0


def check_weight(weight: float, upper_bound: float, name: str, matrix: str) -> None:
    """Raise a ValueError if ``I + w W`` is not positive definite."""
    if not 0.0 <= weight < upper_bound:
        raise ValueError(
            f"{name}={weight} must be at least 0 and below {upper_bound:.6g}, so that {matrix} is positive definite"
        )


def factor(similarity: sparse.csr_array, weight: float, extreme_eigenvalues: tuple[float, float]) -> Factor:
    """Return L with ``L L' = I + weight * similarity``, given the extreme eigenvalues of the similarity."""
    size = similarity.shape[0]
    matrix = sparse.csr_array(sparse.eye_array(size, format="csr") + weight * similarity)
    if size <= DENSE_COLUMNS:
        return DenseFactor(scipy.linalg.cholesky(matrix.toarray(), lower=True))
    return sqrt_chebyshev_series(matrix, 1.0 + weight * extreme_eigenvalues[0], 1.0 + weight * extreme_eigenvalues[1])


def sqrt_chebyshev_series(matrix: sparse.csr_array, lowest: float, highest: float) -> PolynomialFactor:
    """Return the truncated Chebyshev series of the square root on the spectrum."""
    # A cosine transform of the square root at 2 * MAX_DEGREE Chebyshev points gives the coefficients. They decay as
    # ((sqrt(c) - 1) / (sqrt(c) + 1))^n for a condition number c, so a nearly singular matrix needs many.
    margin = 0.01 * lowest  # eigenvalues are accurate to a few digits
    low, high = lowest - margin, max(highest + margin, lowest * 1.1)
    middle, half = (high + low) / 2.0, (high - low) / 2.0
    n = 2 * MAX_DEGREE
    angles = np.pi * (np.arange(n) + 0.5) / n
    roots = np.sqrt(middle + half * np.cos(angles))
    coefficients = 2.0 / n * np.cos(np.outer(np.arange(n), angles)) @ roots
    coefficients[0] /= 2.0
    counts = np.flatnonzero(np.abs(coefficients) > _PRECISION * np.sqrt(lowest))
    if counts[-1] > MAX_DEGREE:
        raise ValueError(
            f"the eigenvalues of I + w W range from {lowest:.3g} to {highest:.3g}, too far for a polynomial of "
            f"degree {MAX_DEGREE}: lower the weight w"
        )
    return PolynomialFactor(matrix, middle, half, coefficients[: counts[-1] + 1])


S = TypeVar("S")
"""Any similarity matrix."""
_ROWS = 512
"""Rows of cosines in memory at a time."""


@register_class({"matrix": "terms terms"})
class TermSimilarity(NamedTuple):
    """Similarities between the terms of a vocabulary.

    Attributes
    ----------
    terms : list of str
        Terms in the order of rows and columns.
    matrix : csr_array of float64, shape (d, d)
        Symmetric similarities with zeros on the diagonal.
    n_known : int
        Number of terms with a vector; all similarities of the others are 0.
    """

    terms: list[str]
    matrix: sparse.csr_array
    n_known: int


def term_similarity(
    terms: Sequence[str],
    words: Sequence[str],
    vectors: FloatArray,
    *,
    n_neighbors: int = 10,
    threshold: float = 0.3,
) -> TermSimilarity:
    """Return the cosine similarities between each term and its nearest neighbors by word vectors.

    Parameters
    ----------
    terms : sequence of str
        The vocabulary, in the order of columns.
    words : sequence of str
        Words with a vector; words outside the vocabulary are ignored.
    vectors : ndarray, shape (len(words), m)
        Vectors of the words. All similarities of a term without a vector are 0.
    n_neighbors : int, default=10
        Number of neighbors of each term.
    threshold : float, default=0.3
        Cosines up to this value are set to 0.

    Returns
    -------
    TermSimilarity
        Cosines between neighbors.

    Raises
    ------
    ValueError
        If no term has a vector, a vector is not finite, or the numbers of vectors and words differ.

    Examples
    --------
    >>> found = term_similarity(["cat", "dog", "the"], ["dog", "cat"], np.array([[1.0, 0.9], [0.9, 1.0]]))
    >>> found.matrix.toarray().round(2).tolist(), found.n_known
    ([[0.0, 0.99, 0.0], [0.99, 0.0, 0.0], [0.0, 0.0, 0.0]], 2)
    """
    vectors = np.asarray(vectors)
    if vectors.ndim != 2 or len(vectors) != len(words):
        raise ValueError(f"vectors has shape {vectors.shape}, but must have one row for each of {len(words)} words")
    if not np.all(np.isfinite(vectors)):
        raise ValueError("vectors contains NaN or infinity, but must be finite: remove these words")
    # Terms without a vector keep a row of zeros.
    row_by_word = {word: row for row, word in enumerate(words)}
    rows = np.array([row_by_word.get(term, -1) for term in terms], dtype=np.int64)
    has_vector = rows >= 0
    if not has_vector.any():
        raise ValueError(
            f"none of the {len(rows)} terms is among the {len(words)} words with a vector: both must have the same "
            "language and letter case"
        )
    term_vectors = np.zeros((len(rows), vectors.shape[1]))
    term_vectors[has_vector] = vectors[rows[has_vector]]
    # Cosines with rows of zeros are 0, below every threshold. Cost: 2 d^2 m operations.
    sizes = np.linalg.norm(term_vectors, axis=1, keepdims=True)
    unit = np.divide(term_vectors, sizes, out=np.zeros_like(term_vectors), where=sizes > 0)
    n_neighbors = min(n_neighbors, len(unit) - 1)
    starts, columns, values = [], [], []
    # Each row keeps its n largest cosines by partition; max(A, A') below symmetrizes.
    for start in range(0, len(unit), _ROWS):
        cosines = unit[start : start + _ROWS] @ unit.T
        row_indices = np.arange(len(cosines))
        cosines[row_indices, start + row_indices] = -np.inf  # no row is its own neighbor
        best = np.argpartition(-cosines, n_neighbors - 1, axis=1)[:, :n_neighbors]
        best_cosines = np.take_along_axis(cosines, best, axis=1)
        row, column = np.nonzero(best_cosines > max(threshold, 0.0))
        starts.append(start + row)
        columns.append(best[row, column])
        values.append(best_cosines[row, column])
    triplets = [np.concatenate(part) for part in (starts, columns, values)]
    one_way = sparse.csr_array((triplets[2], (triplets[0], triplets[1])), shape=(len(unit),) * 2)
    return TermSimilarity(list(terms), sparse.csr_array(one_way.maximum(one_way.T)), int(has_vector.sum()))


def resolve_similarity(similarity: S | TermSimilarity | None, X: object) -> S | CSRRows | None:
    """Return the matrix of a similarity after checking its terms against the vocabulary of X."""
    if not isinstance(similarity, TermSimilarity):
        return similarity
    # Only stores have a vocabulary; for arrays the number of columns is compared later.
    vocabulary = getattr(X, "vocabulary", None)
    names = None if vocabulary is None else vocabulary.terms
    if names is not None and names != similarity.terms:
        raise ValueError(
            f"term_similarity is for {len(similarity.terms)} other terms than the {len(names)} of the vocabulary: make "
            "it with term_similarity(vocabulary.terms, ...)"
        )
    return similarity.matrix
