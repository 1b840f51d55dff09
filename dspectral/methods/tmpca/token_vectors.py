"""Vectors of tokens from a fitted embedding, from words and a matrix, or from hashing alone."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
from sklearn.utils import murmurhash3_32

from dspectral.inputs.sequences import RARE
from dspectral.types import Documents, FloatArray


class HoldsVectors(Protocol):
    """A fitted embedding."""

    @property
    def words_(self) -> Sequence[str]:
        """Distinct words."""
        ...

    @property
    def vectors_(self) -> FloatArray:
        """The vector of each word, shape ``(n_words, n_dimensions)``."""
        ...


WordVectors: TypeAlias = HoldsVectors | tuple[Sequence[str] | Documents, FloatArray]
"""A fitted embedding, or distinct words and their vectors."""


def n_dimensions_of(vectors: WordVectors | None, n_hashed: int | None) -> int:
    """Return the length of the vectors that :func:`token_table` gives.

    Parameters
    ----------
    vectors : fitted WordEmbedding, (words, matrix), or None
        As for :func:`token_table`.
    n_hashed : int or None
        Number of dimensions that words are hashed to where there are no vectors.

    Returns
    -------
    int
        Number of dimensions.

    Raises
    ------
    ValueError
        If vectors are neither given nor can be hashed.
    """
    if vectors is not None:
        return int(_pair(vectors)[1].shape[1])
    if n_hashed is None:
        raise ValueError(
            "n_components is None and there are no vectors: one of them must say how long a vector is"
        )
    return n_hashed


def token_table(vectors: WordVectors | None, words: Sequence[str], n_dimensions: int) -> FloatArray:
    """Return the vector of each word.

    Parameters
    ----------
    vectors : fitted WordEmbedding, (words, matrix), or None
        An estimator with ``words_`` and ``vectors_``; or distinct words and their vectors, for example as
        :func:`dspectral.read_word2vec` returns them. A word that is not among them has the vector of ``"<?>"`` where
        there is one, else zeros. With None a word is one-hot in the dimension that it is hashed to.
    words : sequence of str
        Words to look up.
    n_dimensions : int
        Number of dimensions that words are hashed to where there are no vectors.

    Returns
    -------
    ndarray of float32 or float64, shape (n_words, n_dimensions)
        One row for each word of ``words``.

    Raises
    ------
    ValueError
        If there are not as many words as vectors, or a vector of a word is not finite: the word is named.

    Examples
    --------
    >>> token_table((["a", "b"], np.array([[1.0, 2.0], [3.0, 4.0]])), ["b", "c"], 2)
    array([[3., 4.],
           [0., 0.]])
    """
    if vectors is None:
        # One-hot rows: the table is as if drawn by hashing, and seen and unseen words are treated alike.
        columns = [murmurhash3_32(word, positive=True) % n_dimensions for word in words]
        return np.eye(n_dimensions)[columns]
    known, matrix = _pair(vectors)
    numbers = {word: i for i, word in enumerate(known)}
    # Words without a vector take that of rare ones, or -1: any row for now, zeroed below.
    unknown = numbers.get(RARE, -1)
    at = np.fromiter((numbers.get(word, unknown) for word in words), np.int64, len(words))
    table = matrix[np.maximum(at, 0)]
    table[at < 0] = 0
    bad = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if len(bad):
        raise ValueError(
            f"the vector of {words[bad[0]]!r} has NaN or infinity, but every number must be finite"
        )
    return table


def _pair(vectors: WordVectors) -> tuple[list[str], FloatArray]:
    words: Sequence[str] | Documents
    if isinstance(vectors, tuple | list) and len(vectors) == 2:
        words, matrix = vectors
    elif hasattr(vectors, "words_") and hasattr(vectors, "vectors_"):
        words, matrix = vectors.words_, vectors.vectors_
    else:
        raise ValueError(
            f"vectors is a {type(vectors).__name__}, but it must be a fitted WordEmbedding, a pair of words and "
            "their matrix, or None"
        )
    if isinstance(words, Documents):
        words = [words.text(i).decode(errors="replace") for i in range(words.n_documents)]
    # Single precision stays: the table, the vectors and the products then take half the memory.
    matrix = np.asarray(matrix)
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    if matrix.ndim != 2 or len(words) != len(matrix) or not matrix.size:
        raise ValueError(
            f"vectors has {len(words)} words, but a matrix of shape {matrix.shape}: one row a word"
        )
    return list(words), matrix
