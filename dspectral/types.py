"""What a block is: rows of a matrix, sentences of token ids with or without labels, or raw documents."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.integer[Any]]
Rows: TypeAlias = Any
"""A block of rows: a SciPy ``csr_array`` (which has no types) or an ndarray, shape ``(n_rows, n_columns)``."""


class Sentences(NamedTuple):
    """The token ids of a block of sentences.

    Attributes
    ----------
    ids : ndarray of int32, shape (n_tokens,)
        Word types, one sentence after the other.
    offsets : ndarray of int64, shape (n_sentences + 1,)
        Sentence ``i`` is ``ids[offsets[i]:offsets[i + 1]]``; it may be empty.
    """

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, sentences: "Sequence[Sequence[int]]") -> "Sentences":
        """Pack sentences of ids one after the other.

        Examples
        --------
        >>> Sentences.of([[3, 1], [], [2]]).offsets
        array([0, 2, 2, 3])
        """
        offsets = np.zeros(len(sentences) + 1, dtype=np.int64)
        np.cumsum([len(sentence) for sentence in sentences], out=offsets[1:])
        ids = np.fromiter((i for sentence in sentences for i in sentence), np.int32, int(offsets[-1]))
        return cls(ids, offsets)

    def sentence(self, i: int) -> NDArray[np.int32]:
        """Return the ids of sentence ``i``."""
        return self.ids[self.offsets[i] : self.offsets[i + 1]]

    @property
    def n_sentences(self) -> int:
        """Number of sentences."""
        return len(self.offsets) - 1


class LabelledSentences(NamedTuple):
    """Tokens and a label for each.

    Attributes
    ----------
    ids, labels : ndarray of int32, shape (n_tokens,)
        One sentence after the other.
    offsets : ndarray of int64, shape (n_sentences + 1,)
        Sentence ``i`` is ``ids[offsets[i]:offsets[i + 1]]`` with the same slice of ``labels``; it may be empty.
    """

    ids: NDArray[np.int32]
    labels: NDArray[np.int32]
    offsets: NDArray[np.int64]


class Documents(NamedTuple):
    """The raw UTF-8 text of a block of documents.

    Attributes
    ----------
    data : ndarray of uint8, shape (n_bytes,)
        The texts, one after the other.
    offsets : ndarray of int64, shape (n_documents + 1,)
        Document ``i`` is ``data[offsets[i]:offsets[i + 1]]``.
    """

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, texts: "list[str] | list[bytes]") -> "Documents":
        """Pack texts (``str`` is encoded as UTF-8) into one buffer."""
        encoded = [text.encode() if isinstance(text, str) else text for text in texts]
        offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in encoded], out=offsets[1:])
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets)

    def text(self, i: int) -> bytes:
        """Return the bytes of document ``i``."""
        return self.data[self.offsets[i] : self.offsets[i + 1]].tobytes()

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return len(self.offsets) - 1
