"""Sentences in blocks, and the trees made of them: texts with a vector for each word, or arrays of vectors."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from sklearn.utils import murmurhash3_32

from dspectral.engine import Blocks, is_lazy
from dspectral.inputs.sequences import (
    RARE,
    HoldsSentences,
    TokenLists,
    as_corpus,
    encode,
    is_corpus,
    token_lists,
)
from dspectral.methods.tmpca.nodes import Trees
from dspectral.types import Documents, FloatArray, RowsLike, Sentences, is_sparse

SentencesLike: TypeAlias = "HoldsSentences | TokenLists | RowsLike"
"""Data that a tree is fitted to: a corpus, lists of tokens, or vectors in memory or lazily."""


WordVectors: TypeAlias = Any
"""A fitted embedding, which has ``words_`` and ``vectors_``, or a pair of distinct words and their vectors."""


class TreeSettings(NamedTuple):
    """Settings that turn sentences into trees; without vectors, words are hashed to ``n_hashed`` dimensions."""

    length: int
    arity: int
    vectors: WordVectors | None
    n_hashed: int | None

    def trees(self, words: Sequence[str]) -> Trees:
        """Return the trees of sentences of these words."""
        d = self.n_hashed if self.vectors is None else int(_words_and_vectors(self.vectors)[1].shape[1])
        if d is None:
            raise ValueError(
                "n_components is None and there are no vectors: one of them must say how long a vector is"
            )
        return Trees(self.length, self.arity, d, token_table(self.vectors, words, d))


class Stream(NamedTuple):
    """Sentences in blocks, with the number of each block's where it is known, and that of all tokens of texts."""

    blocks: "Blocks | RowsLike"
    trees: Trees
    n_rows: list[int] | None = None
    n_tokens: int | None = None

    def most_nodes(self, n_trees: int, level: int) -> int:
        """Return the largest possible number of nodes of a level, without those of padding alone."""
        # In each tree at most one node of a level is filled in part, so a level has at most one node for each P^level
        # tokens, and one more for each tree.
        width: int = self.trees.arity**level
        full = n_trees * (self.trees.length // width)
        return full if self.n_tokens is None else min(full, self.n_tokens // width + n_trees)


def is_lists(X: object) -> bool:
    """Report whether X is lists of tokens, and neither a corpus nor an array of numbers, in memory or lazy."""
    if (
        is_corpus(X)
        or is_lazy(X)
        or is_sparse(X)
        or hasattr(X, "columns")
        or len(getattr(X, "shape", ())) > 2
    ):
        return False
    return getattr(getattr(X, "dtype", None), "kind", "O") not in "biufcV"


def stream_of(X: SentencesLike, settings: TreeSettings) -> Stream:
    """Return a corpus, lists of tokens or an array of vectors, shape (n, length, d), as a stream."""
    if not is_corpus(X) and not is_lists(X):
        return _stream_from_array(X, settings)
    corpus = as_corpus(cast("HoldsSentences | TokenLists", X))
    trees = settings.trees(list(corpus.words))
    items = corpus.sentences.items
    # A lazy result needs the rows of each block; a corpus in a store knows them, other streams may not.
    known = all(hasattr(item, "n_sentences") for item in items)
    n_rows = [item.n_sentences for item in items] if known else None
    # Those of the blocks in view: a corpus of some of its blocks keeps the counts of all.
    has_token_counts = all(hasattr(item, "n_tokens") for item in items)
    n_tokens = sum(item.n_tokens for item in items) if has_token_counts else int(corpus.counts.sum())
    return Stream(corpus.sentences, trees, n_rows, n_tokens)


def block_of_lists(X: TokenLists, settings: TreeSettings) -> tuple[Sentences, Trees]:
    """Return lists of tokens, which may all be empty, as one block."""
    sentences = token_lists(X)
    words = list(dict.fromkeys(word for sentence in sentences for word in sentence))
    return encode(sentences, words), settings.trees(words)


def _stream_from_array(X: Any, settings: TreeSettings) -> Stream:
    lazy, length = is_lazy(X), settings.length
    if is_sparse(X) or is_sparse(getattr(X, "_meta", None)) or (lazy and not hasattr(X, "chunks")):
        raise TypeError(
            f"X is a {type(X).__name__}, but it must be a corpus, lists of tokens, or an array of vectors"
        )
    if not lazy:
        X = np.asarray(X)
    joined = X.ndim == 2 and X.shape[1] and X.shape[1] % length == 0
    if not joined and (X.ndim != 3 or X.shape[1] != length or not X.shape[2]):
        raise ValueError(
            f"X has shape {X.shape}, but it must be (sentences, length = {length}, dimensions), or a sentence a row"
        )
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X is an array of {X.dtype}, but it must be one of numbers")
    if lazy and any(len(sizes) > 1 for sizes in X.chunks[1:]):
        raise ValueError("the Dask array is cut within sentences: call X.rechunk({1: -1, 2: -1}) first")
    if lazy and np.isnan(X.chunks[0]).any():
        raise ValueError("the Dask array has blocks of unknown size: call X.compute_chunk_sizes() first")
    # One row a sentence: blocks are then rows, which every reduction takes, and no number is moved.
    rows = X if joined else X.reshape(X.shape[0], length * X.shape[2])
    return Stream(rows, Trees(length, settings.arity, rows.shape[1] // length))


def token_table(vectors: WordVectors | None, words: Sequence[str], n_dimensions: int) -> FloatArray:
    """Return the vector of each word.

    Parameters
    ----------
    vectors : fitted WordEmbedding, (words, matrix), or None
        An estimator with ``words_`` and ``vectors_``, or distinct words and their vectors; other words have the
        vector of ``"<?>"``, or zeros. With None a word is one-hot in the dimension that it is hashed to.
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
    known, matrix = _words_and_vectors(vectors)
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


def _words_and_vectors(vectors: WordVectors) -> tuple[list[str], FloatArray]:
    if isinstance(vectors, tuple | list) and len(vectors) == 2:
        words, matrix = vectors
    elif hasattr(vectors, "words_") and hasattr(vectors, "vectors_"):
        words, matrix = vectors.words_, vectors.vectors_
    else:
        kind = type(vectors).__name__
        raise ValueError(
            f"vectors is a {kind}, but it must be a fitted WordEmbedding, (words, matrix), or None"
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
