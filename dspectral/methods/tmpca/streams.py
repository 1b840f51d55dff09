"""Input of TreePCA: texts with a vector for each word, or arrays of vectors, in blocks."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from sklearn.utils import murmurhash3_32

from dspectral.engine import Blocks, is_lazy
from dspectral.inputs.sequences import (
    HoldsSentences,
    TokenLists,
    as_corpus,
    as_token_lists,
    encode_sentences,
    is_corpus,
    is_token_lists,
)
from dspectral.methods.tmpca.nodes import Trees
from dspectral.types import RARE, Documents, FloatArray, RowsLike, Sentences, is_sparse

SentencesLike: TypeAlias = "HoldsSentences | TokenLists | RowsLike"
"""Input of TreePCA: a corpus, lists of tokens, or an array of vectors, in memory or lazy."""


WordVectors: TypeAlias = Any
"""A fitted embedding with ``words_`` and ``vectors_``, or a pair of distinct words and their vectors."""


class TreeSettings(NamedTuple):
    """Options that turn sentences into trees; without vectors, words are hashed to ``n_hashed`` dimensions."""

    length: int
    arity: int
    vectors: WordVectors | None
    n_hashed: int | None

    def trees(self, words: Sequence[str]) -> Trees:
        """Return the trees for sentences over a vocabulary."""
        d = self.n_hashed if self.vectors is None else int(_get_words_and_vectors(self.vectors)[1].shape[1])
        if d is None:
            raise ValueError(
                "n_components=None and vectors=None, but the length of a vector is needed: set one of them"
            )
        return Trees(self.length, self.arity, d, make_token_table(self.vectors, words, d))


class Stream(NamedTuple):
    """Sentences in blocks, their trees, and where known the number of sentences of each block and of all tokens."""

    blocks: "Blocks | RowsLike"
    trees: Trees
    n_rows: list[int] | None = None
    n_tokens: int | None = None

    def get_max_nodes(self, n_trees: int, level: int) -> int:
        """Return an upper bound on the number of nodes of a level, without pure padding."""
        # A level has at most one node for each P^level tokens, and one partly filled node for each tree.
        width: int = self.trees.arity**level
        full = n_trees * (self.trees.length // width)
        return full if self.n_tokens is None else min(full, self.n_tokens // width + n_trees)


def make_stream(X: SentencesLike, settings: TreeSettings) -> Stream:
    """Return a corpus, lists of tokens or an array of vectors, shape (n, length, d), as a stream."""
    if not is_corpus(X) and not is_token_lists(X):
        return _stream_from_array(X, settings)
    corpus = as_corpus(cast("HoldsSentences | TokenLists", X))
    trees = settings.trees(list(corpus.words))
    items = corpus.sentences.items
    # A lazy result needs the number of rows of each block, which a corpus in a store records.
    has_sizes = all(hasattr(item, "n_sentences") for item in items)
    n_rows = [item.n_sentences for item in items] if has_sizes else None
    # Sum over blocks where possible: corpus.counts of a sliced corpus includes all of its blocks.
    has_token_counts = all(hasattr(item, "n_tokens") for item in items)
    n_tokens = sum(item.n_tokens for item in items) if has_token_counts else int(corpus.counts.sum())
    return Stream(corpus.sentences, trees, n_rows, n_tokens)


def encode_lists(X: TokenLists, settings: TreeSettings) -> tuple[Sentences, Trees]:
    """Return lists of tokens, possibly all empty, as one block with its trees."""
    sentences = as_token_lists(X)
    words = list(dict.fromkeys(word for sentence in sentences for word in sentence))
    return encode_sentences(sentences, words), settings.trees(words)


def _stream_from_array(X: Any, settings: TreeSettings) -> Stream:
    lazy, length = is_lazy(X), settings.length
    if is_sparse(X) or is_sparse(getattr(X, "_meta", None)) or (lazy and not hasattr(X, "chunks")):
        raise TypeError(
            f"X is a {type(X).__name__}, but must be a corpus, lists of tokens, or a dense array of vectors"
        )
    if not lazy:
        X = np.asarray(X)
    is_joined = X.ndim == 2 and X.shape[1] and X.shape[1] % length == 0
    if not is_joined and (X.ndim != 3 or X.shape[1] != length or not X.shape[2]):
        raise ValueError(
            f"X has shape {X.shape}, but must have (n, {length}, n_dimensions) or (n, {length} * n_dimensions), for "
            f"length={length}"
        )
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X has dtype {X.dtype}, but must be numeric")
    if lazy and any(len(sizes) > 1 for sizes in X.chunks[1:]):
        raise ValueError("X has several chunks along axis 1 or 2, but must have one: X.rechunk({1: -1, 2: -1})")
    if lazy and np.isnan(X.chunks[0]).any():
        raise ValueError("X has chunks of unknown size, but they must be known: call X.compute_chunk_sizes()")
    # One row for each sentence, without a copy.
    rows = X if is_joined else X.reshape(X.shape[0], length * X.shape[2])
    return Stream(rows, Trees(length, settings.arity, rows.shape[1] // length))


def make_token_table(vectors: WordVectors | None, words: Sequence[str], n_dimensions: int) -> FloatArray:
    """Return the vector of each word.

    Parameters
    ----------
    vectors : fitted WordEmbedding, (words, matrix), or None
        An estimator with ``words_`` and ``vectors_``, or distinct words and their vectors. Out-of-vocabulary words
        get the vector of ``"<?>"``, or zeros. With None each word is hashed to one of ``n_dimensions`` unit vectors.
    words : sequence of str
        Words to look up.
    n_dimensions : int
        Number of hash buckets; used only if ``vectors`` is None.

    Returns
    -------
    ndarray of float32 or float64, shape (n_words, n_dimensions)
        One row for each word of ``words``.

    Raises
    ------
    ValueError
        If the numbers of words and vectors differ, or the vector of a word is not finite.

    Examples
    --------
    >>> make_token_table((["a", "b"], np.array([[1.0, 2.0], [3.0, 4.0]])), ["b", "c"], 2)
    array([[3., 4.],
           [0., 0.]])
    """
    if vectors is None:
        # Hashing treats training and new words alike.
        columns = [murmurhash3_32(word, positive=True) % n_dimensions for word in words]
        return np.eye(n_dimensions)[columns]
    vector_words, matrix = _get_words_and_vectors(vectors)
    numbers = {word: i for i, word in enumerate(vector_words)}
    # Index of out-of-vocabulary words; -1 where there is no vector of rare words.
    unknown = numbers.get(RARE, -1)
    vector_rows = np.fromiter((numbers.get(word, unknown) for word in words), np.int64, len(words))
    table = matrix[np.maximum(vector_rows, 0)]
    table[vector_rows < 0] = 0
    bad = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if len(bad):
        raise ValueError(
            f"the vector of {words[bad[0]]!r} contains NaN or infinity, but must be finite: remove the word"
        )
    return table


def _get_words_and_vectors(vectors: WordVectors) -> tuple[list[str], FloatArray]:
    if isinstance(vectors, tuple | list) and len(vectors) == 2:
        words, matrix = vectors
    elif hasattr(vectors, "words_") and hasattr(vectors, "vectors_"):
        words, matrix = vectors.words_, vectors.vectors_
    else:
        kind = type(vectors).__name__
        raise ValueError(f"vectors is a {kind}, but must be a fitted WordEmbedding, a pair (words, matrix), or None")
    if isinstance(words, Documents):
        words = [words.text(i).decode(errors="replace") for i in range(words.n_documents)]
    # Single precision is kept, which halves the memory.
    matrix = np.asarray(matrix)
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    if matrix.ndim != 2 or len(words) != len(matrix) or not matrix.size:
        raise ValueError(
            f"vectors has {len(words)} words and a matrix of shape {matrix.shape}, but must have one row for each word"
        )
    return list(words), matrix
