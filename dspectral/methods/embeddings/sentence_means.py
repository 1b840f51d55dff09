"""Mean of the vectors of the words of each sentence."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.types import CSRRows, Sentences


def sentence_means(sentences: Sentences, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean vector of the words of each sentence.

    Shapes: `vectors` (n_types, k); returns (n_sentences, k).

    >>> sentence_means(Sentences.of([[1, 2, 0], [0]]), np.array([[9], [1], [3]], dtype=np.float32))
    array([[2.],
           [0.]], dtype=float32)
    """
    # A matrix of sentences by words, whose entries of unknown words are 0: a sentence is then a sparse product.
    known = (sentences.ids > 0).astype(np.float32)
    shape = (sentences.n_sentences, len(vectors))
    words: CSRRows = sparse.csr_array((known, sentences.ids, sentences.offsets), shape=shape)
    n_known = np.asarray(words.sum(axis=1))
    return np.asarray(words @ vectors / np.maximum(n_known, 1.0)[:, None], dtype=np.float32)


def renumbered_means(
    sentences: Sentences, *, places: NDArray[np.int32], vectors: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the mean vectors of sentences of another vocabulary.

    Shapes: `vectors` (n_types, k); returns (n_sentences, k).
    """
    return sentence_means(sentences._replace(ids=places[sentences.ids]), vectors)
