"""What a block is: rows of a matrix, or the raw text of some documents."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.integer[Any]]
Rows: TypeAlias = Any
"""A block of rows: a SciPy ``csr_array`` (which has no types) or an ndarray, shape ``(n_rows, n_columns)``."""


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
