"""Tall or wide arrays by panels: products summed in double without copies, file-backed arrays, released memory."""

import ctypes
import ctypes.util
import mmap
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import chain, pairwise
from tempfile import TemporaryFile, gettempdir
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

from dspectral.linalg.blas import blas_in_one_thread
from dspectral.types import Doubles, FloatArray, IntArray


class _Scratch(mmap.mmap):
    """Memory map of a temporary file. Only pages of arrays with this base type may be dropped."""


def tall_array(height: int, width: int, dtype: DTypeLike, *, in_file: bool = False) -> FloatArray:
    """Return an array of zeros (height, width), in memory or in a temporary file."""
    n_bytes = height * width * np.dtype(dtype).itemsize
    if not in_file or not n_bytes:
        return np.zeros((height, width), dtype=dtype)
    with TemporaryFile(prefix="dspectral-") as file:
        try:
            file.truncate(n_bytes)
            if hasattr(os, "posix_fallocate"):  # a full disk would otherwise raise SIGBUS later
                os.posix_fallocate(file.fileno(), 0, n_bytes)
        except OSError as error:
            raise OSError(
                error.errno,
                f"a temporary file of {n_bytes / 1e6:,.0f} MB does not fit in {gettempdir()}: set TMPDIR to a folder "
                "with more space, or raise dspectral.memory-limit to keep more in memory",
            ) from error
        return np.ndarray((height, width), dtype, buffer=_Scratch(file.fileno(), n_bytes))


def tall_zeros_like(array: FloatArray, width: int) -> FloatArray:
    """Return zeros with the height of `array` and a new width, in a file if `array` is in one."""
    return tall_array(len(array), width, array.dtype, in_file=is_in_file(array))


def is_in_file(array: FloatArray) -> bool:
    """Return whether an array is in a temporary file of :func:`tall_array`."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, _Scratch)


def release_rows(array: FloatArray, rows: slice) -> None:
    """Release the memory of rows of a file-backed array; the file keeps them. Do nothing for other arrays."""
    if is_in_file(array):
        release_pages(array, rows.start, rows.stop)


def release_pages(array: np.ndarray[Any, Any], start: int, stop: int) -> None:
    """Return pages of a large array to the operating system while it is still referenced (Linux only).

    Rows in memory read as zeros afterwards. Shapes: `array` (n, ...).

    >>> tall = np.ones((4, 1 << 16))
    >>> release_pages(tall, 0, 2)
    >>> tall[2:].sum() == 2 << 16
    np.True_
    """
    advise = _load_madvise()
    if advise is None or not array.flags.c_contiguous or not array.flags.writeable:
        return
    row_bytes = array.nbytes // max(1, len(array))
    first = array.ctypes.data + start * row_bytes
    # Only whole pages can be released: round the start up and the length down.
    first, last = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE, array.ctypes.data + stop * row_bytes
    length = (last - first) // mmap.PAGESIZE * mmap.PAGESIZE
    if length > 0:
        # The addresses stay mapped: later reads return zeros, and the array is freed as usual. The return code is
        # ignored, because a failure only keeps the memory in use.
        advise(first, length, mmap.MADV_DONTNEED)


@cache
def _load_madvise() -> Callable[[int, int, int], int] | None:
    """Return the C function ``madvise``, or None if the system is not Linux."""
    if sys.platform != "linux":
        return None
    advise: Any = ctypes.CDLL(ctypes.util.find_library("c")).madvise
    # Without declared types ctypes would truncate the address to a 32-bit int.
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return cast("Callable[[int, int, int], int]", advise)


PANEL = 8192
"""Length of a panel along the long side: 500 rows of it in single precision fit the cache of a core."""


def iter_panels(length: int, *arrays: FloatArray, first: int = 0) -> Iterator[slice]:
    """Yield slices of at most :data:`PANEL` rows, and release those of file-backed arrays (length, r_i) after use."""
    for start in range(first, length, PANEL):
        panel = slice(start, min(start + PANEL, length))
        yield panel
        for array in arrays:
            release_rows(array, panel)


def sum_panels(
    compute: Callable[[Iterator[slice]], Iterable[FloatArray | float]],
    shape: tuple[int, ...],
    length: int,
    *arrays: FloatArray,
) -> Doubles:
    """Return the sum of what `compute` yields for each panel, in double precision and in the order of the panels.

    Threads that BLAS may use outside of fits compute consecutive panels, with the same bits for any number of threads.
    """
    total, n_panels = np.zeros(shape), -(-length // PANEL)
    with (
        blas_in_one_thread() as gate,
        ThreadPoolExecutor(n_threads := max(1, min(gate.count_free_threads(), n_panels))) as pool,
    ):
        ends = [min(i * n_panels // n_threads * PANEL, length) for i in range(n_threads + 1)]
        panels = [iter_panels(stop, *arrays, first=first) for first, stop in pairwise(ends)]
        shares = pool.map(lambda share: list(compute(share)), panels) if n_threads > 1 else map(compute, panels)
        for part in chain.from_iterable(shares):
            total += part
    return total


def panel_buffer(panel: slice, buffer: FloatArray) -> FloatArray | None:
    """Return `buffer` as ``out=`` argument for a full panel, or None for a shorter last one."""
    # Reusing one buffer saves a tenth of the time of a merge: the system maps and clears new memory page by page.
    return buffer if panel.stop - panel.start == PANEL else None


def row_gram(*parts: FloatArray) -> Doubles:
    """Return ``S S'`` in double precision, where S concatenates the rows (r_i, d) of all parts."""
    size = sum(len(part) for part in parts)
    total = np.zeros((size, size))
    buffer = np.empty((size, PANEL), dtype=np.result_type(*parts))
    # A panel of all parts fits the cache. Its product has the precision of the parts, the sum over panels is double.
    for panel in iter_panels(parts[0].shape[1], *(part.T for part in parts)):
        stacked = np.concatenate([part[:, panel] for part in parts], out=panel_buffer(panel, buffer))
        total += stacked @ stacked.T
    return total


def column_gram(Z: FloatArray) -> Doubles:
    """Return ``Z' Z`` of a tall matrix in double precision. Shapes: `Z` (d, r); returns (r, r)."""
    return inner_products((Z,), Z)


def multiply_from_left(vector: Doubles, Z: FloatArray) -> Doubles:
    """Return ``v' Z`` in double precision without a copy of Z. Shapes: `vector` (d,), `Z` (d, r); returns (r,)."""
    return sum((vector[panel] @ Z[panel] for panel in iter_panels(len(Z), Z)), np.zeros(Z.shape[1]))


def combine_rows(coefficients: FloatArray, *parts: FloatArray) -> FloatArray:
    """Return ``coefficients @ S`` (m, d), where S concatenates the rows (r_i, d) of all parts, without building S."""
    n_columns = parts[0].shape[1]
    out = np.empty((len(coefficients), n_columns), dtype=parts[0].dtype)
    coefficients = coefficients.astype(out.dtype)
    buffer = np.empty((coefficients.shape[1], PANEL), dtype=np.result_type(*parts))
    product = np.empty((len(out), PANEL), dtype=np.result_type(coefficients, buffer))
    # `2 m r d` flops for r rows in total. Only one panel of S is copied at a time.
    for panel in iter_panels(n_columns, *(part.T for part in parts)):
        stacked = np.concatenate([part[:, panel] for part in parts], out=panel_buffer(panel, buffer))
        out[:, panel] = np.matmul(coefficients, stacked, out=panel_buffer(panel, product))
    return out


def inner_products(parts: Sequence[FloatArray], product: FloatArray) -> Doubles:
    """Return ``S' P`` in double precision, where S concatenates the columns (d, r_i) of all parts."""
    shape = sum(part.shape[1] for part in parts), product.shape[1]
    return sum_panels(
        lambda panels: (multiply_panel(parts, panel, product) for panel in panels), shape, len(product), product, *parts
    )


def orthogonalize_against(product: FloatArray, basis: Sequence[FloatArray]) -> tuple[list[Doubles], Doubles]:
    """Orthogonalize a product with the newest block against an orthonormal basis, in place.

    Return the coefficients and the Gram matrix of the remainder.

    For a symmetric matrix only the last two blocks have large coefficients. They are subtracted first, and then all
    blocks once more, which makes the result orthogonal to rounding. ``4 d m`` flops per column, ``8 d m`` for the last
    two blocks. Shapes: `product` (d, m), `basis` (d, r_i); returns (r_i, m) and (m, m).
    """
    widths, newest, arrays = [part.shape[1] for part in basis], basis[-2:], (product, *basis)
    first = inner_products(newest, product)

    def subtract(parts: Sequence[FloatArray], weights: FloatArray, panels: Iterator[slice]) -> Iterator[slice]:
        buffer = np.empty((PANEL, product.shape[1]), dtype=product.dtype)
        for panel in panels:
            _subtract_product(product[panel], parts, panel, weights, buffer)
            yield panel

    def remainders(panels: Iterator[slice]) -> Iterator[FloatArray]:
        weights = first.astype(product.dtype)
        return (multiply_panel(basis, panel, product) for panel in subtract(newest, weights, panels))

    def grams(panels: Iterator[slice]) -> Iterator[FloatArray]:
        weights = second.astype(product.dtype)
        return (product[panel].T @ product[panel] for panel in subtract(basis, weights, panels))

    # Invariant: the first coefficients are subtracted from all panels before this one of a thread, and `second` sums
    # the coefficients of their remainders.
    second = sum_panels(remainders, (sum(widths), product.shape[1]), len(product), *arrays)
    gram = sum_panels(grams, (product.shape[1],) * 2, len(product), *arrays)
    second[len(second) - len(first) :] += first
    return np.split(second, np.cumsum(widths)[:-1]), gram


# Loop over the parts: concatenating them would copy each panel, a third of the total time.


def multiply_panel(parts: Sequence[FloatArray], panel: slice, product: FloatArray) -> FloatArray:
    """Return ``S' P`` of one panel, where S concatenates the columns (d, r_i) of all parts."""
    return np.concatenate([part[panel].T @ product[panel] for part in parts])


def _subtract_product(
    product: FloatArray, parts: Sequence[FloatArray], panel: slice, weights: FloatArray, buffer: FloatArray
) -> None:
    """Subtract ``S weights`` of one panel from it, in place."""
    start = 0
    for part in parts:
        stop = start + part.shape[1]
        product -= np.matmul(part[panel], weights[start:stop], out=panel_buffer(panel, buffer))
        start = stop


def split_by_size(sizes: IntArray, max_size: int) -> list[tuple[int, int]]:
    """Split consecutive items greedily into ranges of total size at most `max_size`, or of one item."""
    ends = np.cumsum(sizes)
    runs, start, before = [], 0, 0
    # Invariant: `before` is the total size of the items before `start`.
    while start < len(sizes):
        stop = max(start + 1, int(np.searchsorted(ends, before + max_size, side="right")))
        runs.append((start, stop))
        start, before = stop, int(ends[stop - 1])
    return runs
