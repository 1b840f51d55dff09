"""Tables of terms as one array of numbers each, and back."""

import numpy as np
from numpy.typing import NDArray

from dspectral.text.terms import TermTable
from dspectral.types import Documents


def pack(table: TermTable) -> NDArray[np.int64]:
    """Return a table as one array of numbers, its text padded to whole ones.

    Shapes: returns (3 * n + 2 + ceil(n_bytes / 8),).
    """
    # One array of one type: a file for each part of each block, instead of four.
    data = table.terms.data
    padded = np.zeros(-(-len(data) // 8) * 8, dtype=np.uint8)
    padded[: len(data)] = data
    parts = [[len(table.counts)], table.terms.offsets, table.document_frequency, table.counts]
    return np.concatenate([*(np.asarray(part, dtype=np.int64) for part in parts), padded.view(np.int64)])


def unpack(packed: NDArray[np.int64]) -> TermTable:
    """Return the table of :func:`pack`.

    >>> unpack(pack(TermTable.of(Documents.of(["to be"])))).term(1)
    'to'
    """
    n = int(packed[0])
    offsets, frequency, counts, text = np.split(packed[1:], [n + 1, 2 * n + 1, 3 * n + 1])
    return TermTable(Documents(text.view(np.uint8)[: offsets[-1]], offsets), frequency, counts)
