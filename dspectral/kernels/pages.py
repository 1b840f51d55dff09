"""Memory that is given back before its array is."""

import ctypes
import ctypes.util
import mmap
import sys
from functools import cache
from typing import Any

import numpy as np


def forget_rows(array: np.ndarray[Any, Any], start: int, stop: int) -> None:
    """Give back the memory of rows that nobody reads again, while later rows are still needed.

    Parameters
    ----------
    array : ndarray, shape (n, ...), C-contiguous, writable
        Of this caller alone. What the rows hold afterwards is undefined.
    start, stop : int
        The rows.

    Notes
    -----
    On Linux whole pages within the rows; elsewhere nothing, and they go with the array.

    Examples
    --------
    >>> tall = np.ones((4, 1 << 16))
    >>> forget_rows(tall, 0, 2)
    >>> tall[2:].sum() == 2 << 16
    np.True_
    """
    advise = _advise()
    if advise is None or not array.flags.c_contiguous or not array.flags.writeable:
        return
    row_bytes = array.nbytes // max(1, len(array))
    first = array.ctypes.data + start * row_bytes
    first, last = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE, array.ctypes.data + stop * row_bytes
    length = (last - first) // mmap.PAGESIZE * mmap.PAGESIZE
    if length > 0:
        advise(first, length, mmap.MADV_DONTNEED)


@cache
def _advise() -> Any:
    if sys.platform != "linux":
        return None
    advise = ctypes.CDLL(ctypes.util.find_library("c")).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return advise
