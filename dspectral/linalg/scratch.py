"""Tall arrays in memory or in a file without a name, and the release of memory that is not needed for now."""

import ctypes
import ctypes.util
import mmap
import os
import sys
from collections.abc import Callable
from functools import cache
from tempfile import TemporaryFile, gettempdir
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

from dspectral.types import FloatArray


class _Scratch(mmap.mmap):
    """Memory of a file of our own: its type tells such arrays from all others, whose pages must not be dropped."""


def tall_array(height: int, width: int, dtype: DTypeLike, *, in_file: bool = False) -> FloatArray:
    """Return an array of zeros, in memory or in a file.

    Shapes: returns (height, width).

    >>> tall = tall_array(2, 1, np.float32, in_file=True)
    >>> tall[1] = 3
    >>> tall
    array([[0.],
           [3.]], dtype=float32)
    """
    n_bytes = height * width * np.dtype(dtype).itemsize
    if not in_file or not n_bytes:
        return np.zeros((height, width), dtype=dtype)
    with TemporaryFile(prefix="dspectral-") as file:
        try:
            file.truncate(n_bytes)
            if hasattr(os, "posix_fallocate"):  # a disk that fills later would end the process by a signal
                os.posix_fallocate(file.fileno(), 0, n_bytes)
        except OSError as error:
            raise OSError(
                error.errno,
                f"no room for a temporary file of {n_bytes / 1e6:,.0f} MB in {gettempdir()}: set TMPDIR to a folder "
                "with more, or dspectral.memory-limit to keep more in memory",
            ) from error
        return np.ndarray((height, width), dtype, buffer=_Scratch(file.fileno(), n_bytes))


def alike(array: FloatArray, width: int) -> FloatArray:
    """Return an array of zeros as tall as another one, and in a file if that one is.

    Shapes: `array` (d, r); returns (d, width).
    """
    return tall_array(len(array), width, array.dtype, in_file=is_in_file(array))


def is_in_file(array: FloatArray) -> bool:
    """Report whether an array lies in a file that :func:`tall_array` made."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, _Scratch)


def let_go(array: FloatArray, rows: slice) -> None:
    """Release the memory of rows that lie in a file, where they stay; do nothing for other arrays.

    Shapes: `array` (d, r).
    """
    if is_in_file(array):
        forget_rows(array, rows.start, rows.stop)


def forget_rows(array: np.ndarray[Any, Any], start: int, stop: int) -> None:
    """Release pages of a large array to the operating system while the array is still referenced (Linux only).

    Shapes: `array` (n, ...).

    Whole pages within the rows are released; on other systems nothing is, until the array is freed. The sketch of a
    block of 300,000 columns and 200 rows then peaks at 530 MB instead of 750 MB: as the sketch is written, panel by
    panel, the basis that it is made from goes.

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
    # Only whole pages can be released: round the beginning up and the length down.
    first, last = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE, array.ctypes.data + stop * row_bytes
    length = (last - first) // mmap.PAGESIZE * mmap.PAGESIZE
    if length > 0:
        # The addresses stay mapped: a later read finds zeros instead of a fault, and the array is freed as usual. A
        # refusal, which the call returns and nobody reads, only leaves the memory in use.
        advise(first, length, mmap.MADV_DONTNEED)


@cache
def _advise() -> Callable[[int, int, int], int] | None:
    """Return the system's ``madvise``, or None where there is none."""
    if sys.platform != "linux":
        return None
    advise: Any = ctypes.CDLL(ctypes.util.find_library("c")).madvise
    # Without declared types ctypes would pass an address as a C int, and cut it to 32 bits.
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return cast("Callable[[int, int, int], int]", advise)
