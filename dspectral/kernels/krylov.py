"""Block Krylov spaces of a symmetric operator, built one product at a time, and the best that they hold.

The space only ever sees products ``C Z`` handed to it, so the operator may be one block of rows in memory or a
whole store, one pass a product. Of the products only the last is kept: each earlier one is, to rounding, a
combination of the basis and the next basis block.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.kernels.linalg import (
    column_norms,
    eigh_descending,
    numerical_rank,
    orthonormal_columns,
    panels,
    subtract_product,
)
from dspectral.kernels.pages import forget_rows
from dspectral.types import FloatArray, IntArray


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
    values, vectors = eigh_descending((projected + projected.T) / 2)
    rank = numerical_rank(values, parts[0].dtype)
    root = T @ (vectors[:, :rank] / np.sqrt(values[:rank]))
    values, vectors = eigh_descending(root.T @ inner @ root)
    rank = numerical_rank(values, parts[0].dtype)
    return Approximation(values[:rank], root @ vectors[:, :rank], parts)


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
