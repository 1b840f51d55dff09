"""How many documents of local regions are gathered at a time, so that memory stays within its limit."""

from collections.abc import Iterator, Sequence

import numpy as np

from dspectral.engine import asked_memory_limit, memory_limit
from dspectral.types import CheckedRows, RowsLike, is_sparse

REGION_ROWS = 1 << 20
"""Documents of all regions that one pass gathers, if there is more than one region."""
COPIES = 3.0
"""Memory of gathered documents, divided by what they take in their blocks: as pieces, put together, and decomposed."""


def row_bytes(given: RowsLike, X: CheckedRows) -> float:
    """Return the mean size of a row in memory; 0 where nobody knows it without a pass.

    Shapes: `X` (n, d).

    >>> row_bytes([[1.0] * 4] * 3, np.ones((3, 4)))
    32.0
    """
    if hasattr(given, "n_bytes"):  # a store knows the bytes of its blocks
        n_bytes = given.n_bytes
    elif is_sparse(X):
        n_bytes = X.nnz * (X.dtype.itemsize + 4)
    else:  # Dask counts sparse blocks as if they were dense
        n_bytes = X.nbytes if isinstance(getattr(X, "_meta", X), np.ndarray) else 0
    return float(n_bytes) / max(1, int(X.shape[0]))


def groups_of_regions(sizes: Sequence[int], bytes_of_row: float) -> Iterator[slice]:
    """Yield runs of neighboring regions that are gathered by one pass."""
    most = REGION_ROWS
    if bytes_of_row:
        most = min(most, max(1, int(memory_limit() / (COPIES * bytes_of_row))))
    start, gathered = 0, 0
    for i, size in enumerate(sizes):
        if i > start and gathered + size > most:
            yield slice(start, i)
            start, gathered = i, 0
        gathered += size
    yield slice(start, len(sizes))


def refuse_large_regions(sizes: Sequence[int], bytes_of_row: float) -> None:
    """Refuse regions that cannot be decomposed within a limit on memory that somebody has set."""
    limit, needed = asked_memory_limit(), int(COPIES * bytes_of_row * max(sizes))
    if limit is not None and needed > limit:
        raise MemoryError(
            f"the largest local region has {max(sizes):,} documents, whose decomposition takes {needed:,} bytes of "
            f"memory, but dspectral.memory-limit is {limit:,}: set it to {needed:,}, or lower gamma"
        )
