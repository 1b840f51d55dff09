"""Exact moments of rows: how many, their sum, their Gram matrix; and products with the Gram matrix."""

import math
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dspectral.linalg import sparse_products
from dspectral.linalg.block_sums import energy_of, gram_of, total_of
from dspectral.registry import saved
from dspectral.types import FloatArray, Rows, is_sparse


@saved
class Moments(NamedTuple):
    """Number, sum and Gram matrix of rows.

    Attributes
    ----------
    n_rows : int
    total : ndarray of float64, shape (d,)
        Sum of the rows.
    gram : ndarray of float64, shape (d, d)
        ``A'A``. It takes ``8 d^2`` bytes: for d of some thousands at most.

    Examples
    --------
    >>> Moments.of(np.array([[1.0, 2.0]])).merge(Moments.of(np.array([[3.0, 4.0]])))
    Moments(n_rows=2, total=array([4., 6.]), gram=array([[10., 14.],
           [14., 20.]]))
    """

    n_rows: int
    total: NDArray[np.float64]
    gram: NDArray[np.float64]

    @classmethod
    def of(cls, rows: Rows) -> Self:
        """Summarise one block of shape (n, d); NaN and infinity raise a ValueError."""
        energy_of(rows)
        return cls(rows.shape[0], total_of(rows), gram_of(rows))

    @property
    def energy(self) -> float:
        """Squared Frobenius norm of the rows."""
        return float(np.trace(self.gram))

    def merge(self, *others: Self) -> Self:
        """Return the moments of all rows."""
        parts = (self, *others)
        return type(self)(
            sum(part.n_rows for part in parts),
            np.add.reduce([part.total for part in parts]),
            np.add.reduce([part.gram for part in parts]),
        )


class GramProduct(NamedTuple):
    """``A'(A Z)`` for a given Z, with the sum and the energy of the rows.

    Attributes
    ----------
    n_rows : int
    total : ndarray of float64, shape (d,)
    energy : float
        Squared Frobenius norm of the rows.
    product : ndarray, shape (d, r), of Z's dtype
    """

    n_rows: int
    total: NDArray[np.float64]
    energy: float
    product: FloatArray

    @classmethod
    def of(cls, rows: Rows, *, factor: FloatArray) -> Self:
        """Summarise one block.

        Parameters
        ----------
        rows : csr_array or ndarray, shape (n, d)
        factor : ndarray, shape (d, r)
            Z.

        Raises
        ------
        ValueError
            If the rows hold NaN or infinity.
        """
        energy = energy_of(rows)  # first, so that nothing is multiplied by infinity
        if is_sparse(rows):
            product = sparse_products.gram_times(rows, factor)
        else:
            rows = np.asarray(rows, dtype=factor.dtype)
            product = rows.T @ (rows @ factor)
        return cls(rows.shape[0], total_of(rows), energy, product)

    def merge(self, *others: Self) -> Self:
        """Return the summary of all rows."""
        parts = (self, *others)
        product = self.product.copy()
        for other in others:
            product += other.product
        return type(self)(
            sum(part.n_rows for part in parts),
            np.add.reduce([part.total for part in parts]),
            math.fsum(part.energy for part in parts),
            product,
        )
