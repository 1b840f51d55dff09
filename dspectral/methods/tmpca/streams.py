"""What a tree of sentences is made from: texts with a vector for each word, or arrays of vectors, as blocks."""

from typing import Any, NamedTuple

import numpy as np

from dspectral.engine import is_lazy
from dspectral.inputs.sequences import as_corpus, encode
from dspectral.inputs.token_lists import token_lists
from dspectral.methods.tmpca.moments import Trees
from dspectral.methods.tmpca.token_vectors import n_dimensions_of, token_table
from dspectral.types import Sentences


class Stream(NamedTuple):
    """Sentences in blocks.

    Attributes
    ----------
    blocks : Blocks, ndarray or Dask array
    trees : Trees
        How a block becomes trees.
    n_rows : list of int or None
        Sentences of each block, where it does not say itself.
    n_tokens : int or None
        Of all texts, before they are cut.
    """

    blocks: Any
    trees: Trees
    n_rows: list[int] | None = None
    n_tokens: int | None = None

    def most_nodes(self, n_trees: int, level: int) -> int:
        """Return how many nodes a level has at most, without those of padding alone."""
        full: int = n_trees * (self.trees.length // self.trees.arity**level)
        return (
            full if self.n_tokens is None else min(full, self.n_tokens // self.trees.arity**level + n_trees)
        )


def is_text(X: Any) -> bool:
    """Whether X is a corpus, or anything that is not an array of numbers: lists of tokens."""
    if hasattr(X, "sentences"):
        return True
    return not (is_lazy(X) or (hasattr(X, "ndim") and X.dtype.kind != "O"))


def stream_of(X: Any, *, length: int, arity: int, vectors: Any, n_hashed: int | None) -> Stream:
    """Return a corpus, lists of tokens or an array of vectors as a stream.

    Parameters
    ----------
    X : Corpus, list of token lists, ndarray or Dask array of shape (n, length, d)
    length, arity
        Of the trees.
    vectors, n_hashed
        As for :func:`~dspectral.methods.tmpca.token_vectors.token_table`.

    Raises
    ------
    ValueError
        If X is of another shape or kind, or holds no word.
    """
    if not is_text(X):
        return _of_array(X, length, arity)
    corpus = as_corpus(X)
    trees = _trees(list(corpus.words), length, arity, vectors, n_hashed)
    items = corpus.sentences.items
    known = all(hasattr(item, "n_sentences") for item in items)
    n_rows = [item.n_sentences for item in items] if known else None
    return Stream(corpus.sentences, trees, n_rows, int(corpus.counts.sum()))


def block_of_lists(
    X: Any, *, length: int, arity: int, vectors: Any, n_hashed: int | None
) -> tuple[Sentences, Trees]:
    """Return lists of tokens, which may all be empty, as one block.

    Raises
    ------
    ValueError
        If one is not a list of strings.
    """
    sentences = token_lists(X)
    words = list(dict.fromkeys(word for sentence in sentences for word in sentence))
    return encode(sentences, words), _trees(words, length, arity, vectors, n_hashed)


def _trees(words: list[str], length: int, arity: int, vectors: Any, n_hashed: int | None) -> Trees:
    d = n_dimensions_of(vectors, n_hashed)
    return Trees(length, arity, d, token_table(vectors, words, d))


def _of_array(X: Any, length: int, arity: int) -> Stream:
    lazy = is_lazy(X)
    if not lazy:
        X = np.asarray(X)
    if X.ndim != 3 or X.shape[1] != length or not X.shape[2]:
        raise ValueError(f"X has shape {X.shape}, but it must be (sentences, length = {length}, dimensions)")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X is an array of {X.dtype}, but it must be one of numbers")
    if lazy and any(len(sizes) > 1 for sizes in X.chunks[1:]):
        raise ValueError(
            "the Dask array is cut within sentences, but a block must hold whole ones: call "
            "X.rechunk({1: -1, 2: -1}) first"
        )
    return Stream(X.reshape(X.shape[0], length * X.shape[2]), Trees(length, arity, X.shape[2]))
