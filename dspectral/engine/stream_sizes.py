"""How much the streams of a pass hold, as far as that is known before they are read."""

from collections.abc import Sequence

import dask.array as da
import numpy as np


def rows_in(arrays: Sequence[da.Array]) -> int | None:
    """Return the rows of streams that are cut alike; None for streams of something else than rows."""
    known = [array for array in arrays if array.dtype.kind != "O"]
    return int(sum(known[0].chunks[0])) if known else None


def bytes_in(arrays: Sequence[da.Array]) -> int | None:
    """Return the bytes of all streams together, which dense ones tell beforehand."""
    if any(array.dtype.kind == "O" or not isinstance(array._meta, np.ndarray) for array in arrays):  # noqa: SLF001
        return None
    return sum(int(array.nbytes) for array in arrays)
