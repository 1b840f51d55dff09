"""How well the cosines of word vectors agree with people's judgments of similarity."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from dspectral.metrics.arguments import finite, hashable, list_of, matrix_of
from dspectral.types import FloatArray, is_sparse


class Similarity(NamedTuple):
    """Agreement on the pairs whose two words have vectors.

    Attributes
    ----------
    spearman : float
        Rank correlation of the cosines and the judgments, where equal values share their rank; NaN where fewer than
        two pairs are left, or one side is constant.
    n_pairs : int
        Number of pairs whose two words have vectors.
    coverage : float
        Share of those pairs among all pairs.
    """

    spearman: float
    n_pairs: int
    coverage: float


def word_similarity(
    words: Sequence[str], vectors: FloatArray, pairs: Sequence[tuple[str, str, float]]
) -> Similarity:
    """Correlate the cosines of word vectors with judgments.

    Parameters
    ----------
    words : sequence of str
        Distinct words.
    vectors : ndarray, shape (n_words, k)
        The vector of each word; lengths do not matter.
    pairs : sequence of (str, str, float)
        Two words each, and how similar people find them.

    Returns
    -------
    Similarity
        Rank correlation, number of pairs that could be compared, and their share.

    Raises
    ------
    ValueError
        If there is no pair, or the words are not as many as the vectors.

    Examples
    --------
    >>> vectors = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    >>> found = word_similarity(
    ...     ["cup", "mug", "sky"], vectors, [("cup", "mug", 9), ("cup", "sky", 1), ("cup", "x", 5)]
    ... )
    >>> round(found.spearman, 3), found.n_pairs, round(found.coverage, 3)
    (1.0, 2, 0.667)
    """
    row_of = row_of_word(words, vectors)
    pairs = entries_of("pairs", pairs, ("a word", "a word", "a number"))
    if not pairs:
        raise ValueError("there is no pair of words to compare")
    known = [(row_of[a], row_of[b], score) for a, b, score in pairs if a in row_of and b in row_of]
    share = len(known) / len(pairs)
    if len(known) < 2:
        return Similarity(float("nan"), len(known), share)
    first, second, judged = (np.array(column) for column in zip(*known, strict=True))
    # Only the words of the pairs are scaled, not the whole vocabulary.
    cosines = np.einsum("ij,ij->i", *(unit(np.asarray(vectors)[ids]) for ids in (first, second)))
    # Ranks of a constant have no correlation; SciPy would warn and return NaN as well.
    if np.ptp(judged) == 0 or np.ptp(cosines) == 0:
        return Similarity(float("nan"), len(known), share)
    return Similarity(float(spearmanr(cosines, judged).statistic), len(known), share)


def row_of_word(words: Sequence[str], vectors: FloatArray) -> dict[str, int]:
    """Return the row of each word's vector."""
    known: list[Any] = hashable("words", list_of("words", words, "words"))
    if is_sparse(vectors):
        raise TypeError("vectors is sparse, but it must be an array")
    n_vectors = len(finite("vectors", matrix_of("vectors", vectors)))
    if len(known) != n_vectors:
        raise ValueError(f"there are {len(known)} words, but {n_vectors} vectors")
    return {word: i for i, word in enumerate(known)}


def entries_of(name: str, entries: object, kinds: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Return a list of entries of some words and numbers each."""
    found = []
    for i, entry in enumerate(list_of(name, entries, "tuples")):
        fits = isinstance(entry, list | tuple) and len(entry) == len(kinds)
        if not fits or not all(_is(value, kind) for value, kind in zip(entry, kinds, strict=True)):
            raise ValueError(f"{name}[{i}] is {entry!r:.60}, but it must be ({', '.join(kinds)})")
        found.append(tuple(entry))
    return found


def _is(value: object, kind: str) -> bool:
    if kind == "a word":
        return isinstance(value, Hashable)
    return isinstance(value, int | float | np.integer | np.floating) and bool(np.isfinite(value))


def unit(vectors: FloatArray) -> NDArray[np.float64]:
    """Scale vectors to length 1 in double precision; zeros stay zero."""
    vectors = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0))
