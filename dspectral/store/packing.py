"""Documents packed into blocks: as many as fit, in order."""

from collections.abc import Iterable, Iterator

import numpy as np

from dspectral.types import Documents

OFFSET_BYTES = 8


def pack(parts: Iterable[Documents], block_bytes: int) -> Iterator[Documents]:
    """Yield blocks of as many documents as fit, wherever the parts were cut.

    Parameters
    ----------
    parts : iterable of Documents
    block_bytes : int
        Most bytes of text of a block, and most bytes of its offsets, so that documents without text are
        bounded too. A larger document is a block of its own.

    Yields
    ------
    Documents
        Never without a document. The cut depends on the documents and ``block_bytes`` alone.

    Notes
    -----
    Holds the parts of one block and one more part, and that block while it joins them.

    Examples
    --------
    >>> blocks = pack([Documents.of(["a", "b"]), Documents.of(["c"])], block_bytes=16)
    >>> [block.data.tobytes() for block in blocks]
    [b'ab', b'c']
    """
    most = max(1, block_bytes // OFFSET_BYTES)
    held: list[Documents] = []
    n_bytes = n_documents = 0
    for part in parts:
        first = 0
        while first < part.n_documents:
            stop = _fitting(part, first, block_bytes - n_bytes, most - n_documents)
            if stop == first and not held:
                stop = first + 1  # too long for any block
            if stop > first:
                held.append(_slice(part, first, stop))
                n_bytes += int(part.offsets[stop] - part.offsets[first])
                n_documents += stop - first
            else:
                held = [_joined(held)]
                yield held.pop()  # whoever takes the block is the only one to hold it
                n_bytes = n_documents = 0
            first = stop
    if held:
        yield _joined(held)


def _fitting(part: Documents, first: int, n_bytes: int, n_documents: int) -> int:
    """Return where the documents from ``first`` on stop to fit."""
    limit = part.offsets[first] + n_bytes
    stop = int(np.searchsorted(part.offsets, limit, side="right")) - 1
    return max(first, min(stop, first + n_documents, part.n_documents))


def _slice(part: Documents, first: int, stop: int) -> Documents:
    if stop - first == part.n_documents:
        return part
    a, b = part.offsets[first], part.offsets[stop]
    return Documents(part.data[a:b], part.offsets[first : stop + 1] - a)


def _joined(parts: list[Documents]) -> Documents:
    if len(parts) == 1:
        return parts[0]
    begins = np.cumsum([0, *(len(part.data) for part in parts)])
    offsets = [part.offsets[1:] + begin for part, begin in zip(parts, begins, strict=False)]
    data = np.concatenate([part.data for part in parts])
    return Documents(data, np.concatenate([np.zeros(1, dtype=np.int64), *offsets]))
