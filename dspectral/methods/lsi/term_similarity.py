"""Similarities between the terms of a vocabulary, from word vectors."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from scipy import sparse

from dspectral.registry import saved
from dspectral.types import CSRRows, FloatArray

S = TypeVar("S")
"""A matrix of similarities of any kind."""
_ROWS = 512
"""Rows of cosines that are held at a time."""


@saved
class TermSimilarity(NamedTuple):
    """Similarities between the terms of a vocabulary.

    Attributes
    ----------
    terms : list of str
        Terms in the order of rows and columns.
    matrix : csr_array of float64, shape (d, d)
        Symmetric similarities with zeros on the diagonal.
    n_known : int
        Number of terms that have a vector; the others are similar to none.
    """

    terms: list[str]
    matrix: sparse.csr_array
    n_known: int


def term_similarity(
    terms: Sequence[str],
    words: Sequence[str],
    vectors: FloatArray,
    *,
    n_neighbours: int = 10,
    threshold: float = 0.3,
) -> TermSimilarity:
    """Connect each term of a vocabulary to those whose vectors are at the smallest angles.

    Parameters
    ----------
    terms : sequence of str
        The vocabulary, in the order of columns.
    words : sequence of str
        Words that have a vector; those that are not in the vocabulary are left out.
    vectors : ndarray, shape (len(words), m)
        Vectors of the words. A term without a vector is similar to none.
    n_neighbours : int, default=10
        Number of neighbors of each term.
    threshold : float, default=0.3
        Cosines up to this number are left out.

    Returns
    -------
    TermSimilarity
        Cosines between neighbors.

    Raises
    ------
    ValueError
        If no term has a vector, a vector is not finite, or there are more or fewer vectors than words.

    Examples
    --------
    >>> found = term_similarity(["cat", "dog", "the"], ["dog", "cat"], np.array([[1.0, 0.9], [0.9, 1.0]]))
    >>> found.matrix.toarray().round(2).tolist(), found.n_known
    ([[0.0, 0.99, 0.0], [0.99, 0.0, 0.0], [0.0, 0.0, 0.0]], 2)
    """
    vectors = np.asarray(vectors)
    if vectors.ndim != 2 or len(vectors) != len(words):
        raise ValueError(f"there are {len(words)} words, but vectors of shape {vectors.shape}")
    if not np.all(np.isfinite(vectors)):
        raise ValueError("a word vector holds NaN or infinity, but every entry must be finite")
    # Terms without a vector keep a row of zeros, which no cosine connects.
    row_of = {word: row for row, word in enumerate(words)}
    rows = np.array([row_of.get(term, -1) for term in terms], dtype=np.int64)
    known = rows >= 0
    if not known.any():
        raise ValueError(
            f"none of the {len(rows)} terms has a vector among {len(words)} words: are they of the same language "
            "and letter case?"
        )
    of_terms = np.zeros((len(rows), vectors.shape[1]))
    of_terms[known] = vectors[rows[known]]
    matrix = cosine_similarities(of_terms, n_neighbours=n_neighbours, threshold=threshold)
    return TermSimilarity(list(terms), matrix, int(known.sum()))


def cosine_similarities(
    vectors: FloatArray, *, n_neighbours: int = 10, threshold: float = 0.0
) -> sparse.csr_array:
    """Connect each row to those at the smallest angles.

    Shapes: `vectors` (d, m); returns (d, d).

    ``2 d^2 m`` operations; 512 rows of cosines are held at a time.

    >>> cosine_similarities(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 3.0]]), n_neighbours=1).toarray()
    array([[0., 0., 0.],
           [0., 0., 1.],
           [0., 1., 0.]])
    """
    if n_neighbours < 1:
        raise ValueError(f"n_neighbours is {n_neighbours}, but it must be 1 or more")
    # Rows of zeros stay zero: their cosines are 0, which is below every threshold.
    sizes = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, sizes, out=np.zeros_like(vectors, dtype=np.float64), where=sizes > 0)
    n_neighbours = min(n_neighbours, len(unit) - 1)
    rows, columns, values = [], [], []
    # Each row keeps its n largest cosines, a selection without a sort; below, max(A, A') makes neighbors mutual.
    for start in range(0, len(unit), _ROWS):
        cosines = unit[start : start + _ROWS] @ unit.T
        here = np.arange(len(cosines))
        cosines[here, start + here] = -np.inf  # no row is its own neighbor
        best = np.argpartition(-cosines, n_neighbours - 1, axis=1)[:, :n_neighbours]
        found = np.take_along_axis(cosines, best, axis=1)
        row, place = np.nonzero(found > max(threshold, 0.0))
        rows.append(start + row)
        columns.append(best[row, place])
        values.append(found[row, place])
    parts = [np.concatenate(part) for part in (rows, columns, values)]
    one_way = sparse.csr_array((parts[2], (parts[0], parts[1])), shape=(len(unit),) * 2)
    return sparse.csr_array(one_way.maximum(one_way.T))


def matrix_of(similarity: S | TermSimilarity | None, X: object) -> S | CSRRows | None:
    """Return the matrix of a similarity, once its terms are known to be those of X."""
    if not isinstance(similarity, TermSimilarity):
        return similarity
    # A store knows its terms, an array does not: then only the number of columns can be compared, later.
    vocabulary = getattr(X, "vocabulary", None)
    names = None if vocabulary is None else vocabulary.terms
    if names is not None and names != similarity.terms:
        differ = [
            i for i, pair in enumerate(zip(similarity.terms, names, strict=False)) if pair[0] != pair[1]
        ]
        where = (
            f"the first to differ is column {differ[0]}" if differ else "one is the beginning of the other"
        )
        raise ValueError(
            f"term_similarity is for {len(similarity.terms)} other terms than the {len(names)} of the vocabulary "
            f"({where}): make it with term_similarity(vocabulary.terms, ...)"
        )
    return similarity.matrix
