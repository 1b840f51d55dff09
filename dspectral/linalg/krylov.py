"""Orthonormal bases of block Krylov spaces, in place and with the memory of rows given back early."""

import ctypes
import ctypes.util
import mmap
import sys
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.linalg.dense import (
    column_norms,
    leading_eigenpairs,
    orthonormal_columns,
    panels,
    subtract_product,
)
from dspectral.types import FloatArray, IntArray


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


class KrylovSpace(NamedTuple):
    """An orthonormal basis ``K = [K_1 ... K_j]`` with ``C [K_1 ... K_(j-1)] = K T``.

    Attributes
    ----------
    basis : tuple of ndarray, shapes (d, r_i)
    columns : tuple of tuple of ndarray
        The block columns of T, from the top to their last block that is not zero.

    Examples
    --------
    >>> C = np.diag([4.0, 3.0, 2.0, 1.0])
    >>> space = KrylovSpace.start(np.ones((4, 1)))
    >>> for _ in range(3):
    ...     space = space.extend(C @ space.newest)
    >>> space.close(C @ space.newest).values.round(6)
    array([4., 3., 2., 1.])
    """

    basis: tuple[FloatArray, ...]
    columns: tuple[tuple[NDArray[np.float64], ...], ...]

    @classmethod
    def start(cls, Z: FloatArray) -> "KrylovSpace":
        """Begin with the columns of ``Z``, shape (d, r) (which is overwritten)."""
        return cls((orthonormal_columns(Z, overwrite=True),), ())

    @property
    def newest(self) -> FloatArray:
        """The block whose product with C is wanted next, shape (d, r_j); r_j = 0 where nothing is left."""
        return self.basis[-1]

    def extend(self, product: FloatArray) -> "KrylovSpace":
        """Return the space one block larger, given ``C @ newest`` (which is overwritten)."""
        coefficients = [np.zeros((block.shape[1], product.shape[1])) for block in self.basis]
        size = column_norms(product).max(initial=0.0)
        for _ in range(2):  # once is not enough for orthogonality to rounding
            for i, block in enumerate(self.basis):
                inside = block.T @ product
                subtract_product(product, block, inside)
                coefficients[i] += inside
        product[:, column_norms(product) <= 64.0 * np.finfo(product.dtype).eps * size] = 0
        block = orthonormal_columns(product)
        column = (*coefficients, np.asarray(block.T @ product, dtype=np.float64))
        return KrylovSpace((*self.basis, block), (*self.columns, column))

    def close(self, product: FloatArray) -> "Approximation":
        """Return the best approximation of C from the space, given ``C @ newest``."""
        width = product.shape[1]
        last = (*(np.zeros((block.shape[1], width)) for block in self.basis), np.eye(width))
        return _best_approximation((*self.basis, product), (*self.columns, last))


class Approximation(NamedTuple):
    """``C`` is near ``rows' rows`` with ``rows = coefficients' M'``, and never below it.

    Attributes
    ----------
    values : ndarray of float64, shape (r,)
        Eigenvalues of the approximation, largest first.
    coefficients : ndarray of float64, shape (sum m_i, r)
        Column i gives a row of squared length ``values[i]``, orthogonal to the others.
    parts : tuple of ndarray, shapes (d, m_i)
        M, by columns.
    """

    values: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    parts: tuple[FloatArray, ...]

    def rows(
        self,
        scale: NDArray[np.float64],
        *,
        columns: IntArray | None = None,
        n_columns: int = 0,
        consume: bool = False,
    ) -> FloatArray:
        """Return the first ``len(scale)`` rows, row i times ``scale[i]``.

        Parameters
        ----------
        scale : ndarray of float64, shape (m,)
        columns : ndarray of int, shape (d,), optional
            Where the columns go, among ``n_columns``; all others are zero.
        consume : bool
            Whether the parts may be spoiled: their memory then goes as that of the result comes.

        Returns
        -------
        ndarray, shape (m, d) or (m, n_columns), in Fortran order
        """
        height, dtype = len(self.parts[0]), self.parts[0].dtype
        weights = (self.coefficients[:, : len(scale)] * scale).astype(dtype)
        # Tall, so that a panel of it is one piece of memory, touched when it is written.
        out = np.zeros((height if columns is None else n_columns, len(scale)), dtype=dtype)
        for panel in panels(height):
            rows = np.concatenate([part[panel] for part in self.parts], axis=1) @ weights
            out[panel if columns is None else columns[panel]] = rows
            for part in self.parts if consume else ():
                forget_rows(part, panel.start, panel.stop)
        return out.T


def _best_approximation(
    parts: tuple[FloatArray, ...], columns: tuple[tuple[NDArray[np.float64], ...], ...]
) -> Approximation:
    """``C K (K'C K)^(-1) K'C`` (Nystrom), with ``C K = M T`` and M the parts."""
    T = _assemble(columns, parts)
    inner = np.zeros((len(T), len(T)))
    for panel in panels(len(parts[0])):
        M = np.concatenate([part[panel] for part in parts], axis=1)
        inner += M.T @ M
    projected = inner[: T.shape[1]] @ T
    values, vectors = leading_eigenpairs((projected + projected.T) / 2, parts[0].dtype)
    root = T @ (vectors / np.sqrt(values))
    values, vectors = leading_eigenpairs(root.T @ inner @ root, parts[0].dtype)
    return Approximation(values, root @ vectors, parts)


def _assemble(
    columns: tuple[tuple[NDArray[np.float64], ...], ...], parts: tuple[FloatArray, ...]
) -> NDArray[np.float64]:
    heights = np.cumsum([0, *(part.shape[1] for part in parts)])
    widths = np.cumsum([0, *(column[0].shape[1] for column in columns)])
    T = np.zeros((heights[-1], widths[-1]))
    for j, column in enumerate(columns):
        for i, entry in enumerate(column):
            T[heights[i] : heights[i + 1], widths[j] : widths[j + 1]] = entry
    return T
