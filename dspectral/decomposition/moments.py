"""Exact moments of rows: number, sum and Gram matrix; and products with the Gram matrix."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dspectral.engine.summary import BlockSize, Need, add_fields
from dspectral.html import card, size_of
from dspectral.linalg import sparse_products
from dspectral.linalg.block_sums import check_range, energy_of, gram_of, total_of
from dspectral.registry import saved
from dspectral.types import FloatArray, Rows, is_sparse


@saved
class Moments(NamedTuple):
    """Number, sum and Gram matrix of rows.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    total : ndarray of float64, shape (d,)
        Sum of the rows.
    gram : ndarray of float64, shape (d, d)
        Gram matrix ``A'A``. It takes ``8 d^2`` bytes: for d of some thousands at most.

    Examples
    --------
    >>> Moments.of(np.array([[1.0, 2.0]])).merge(Moments.of(np.array([[3.0, 4.0]])))
    Moments(n_rows=2, total=array([4., 6.]), gram=array([[10., 14.],
           [14., 20.]]))
    """

    n_rows: int
    total: NDArray[np.float64]
    gram: NDArray[np.float64]

    def _repr_html_(self) -> str:
        facts = [
            ("of", f"{self.n_rows:,} rows x {len(self.gram):,} columns"),
            ("in memory", size_of(self.gram.nbytes + self.total.nbytes)),
        ]
        return card("Moments", facts)

    @classmethod
    def needs(cls, block: BlockSize) -> Need:
        """Return what the summary of a block needs: the Gram matrix, and another one while it is made."""
        summary = 8 * block.n_columns * (block.n_columns + 1)
        return Need(summary, 2 * summary)

    @classmethod
    def of(cls, rows: Rows) -> Self:
        """Summarize one block of shape (n, d); NaN and infinity are refused."""
        # Called because it refuses NaN and infinity; the energy itself is the trace of the Gram matrix.
        energy_of(rows)
        return cls(rows.shape[0], total_of(rows), gram_of(rows))

    @property
    def energy(self) -> float:
        """Squared Frobenius norm of the rows."""
        return float(np.trace(self.gram))

    def merge(self, *others: Self) -> Self:
        """Return the moments of all rows.

        Parameters
        ----------
        *others : Moments
            Moments of other rows.

        Returns
        -------
        Moments
            Sum of each field.
        """
        return add_fields(self, *others)


class GramProduct(NamedTuple):
    """Product ``A'(A Z)`` for a given Z, with the sum and the energy of the rows.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    total : ndarray of float64, shape (d,)
    energy : float
        Squared Frobenius norm of the rows.
    product : ndarray, shape (d, r)
        Product, of Z's dtype.
    """

    n_rows: int
    total: NDArray[np.float64]
    energy: float
    product: FloatArray

    @classmethod
    def needs(cls, block: BlockSize, *, factor: FloatArray) -> Need:
        """Return what the summary of a block needs: the product, and that of the block with Z."""
        # To write the product and add it to others costs as much as to multiply about twice as many bytes of rows.
        summary = factor.nbytes + 8 * block.n_columns
        return Need(summary, summary + block.n_rows * factor.shape[1] * factor.itemsize, 2 * factor.nbytes)

    @classmethod
    def of(cls, rows: Rows, *, factor: FloatArray) -> Self:
        """Summarize one block; NaN and infinity are refused. Shapes: `rows` (n, d), `factor` (d, r)."""
        energy = energy_of(rows)  # first, so that nothing is multiplied by infinity
        check_range(max(energy, 1.0), factor.dtype)  # a block may be small beside others
        if is_sparse(rows):
            product = sparse_products.gram_times(rows, factor)
        else:
            rows = np.asarray(rows, dtype=factor.dtype)
            product = rows.T @ (rows @ factor)
        return cls(rows.shape[0], total_of(rows), energy, product)

    def merge(self, *others: Self) -> Self:
        """Return the summary of all rows.

        Parameters
        ----------
        *others : GramProduct
            Summaries of other rows, for the same Z.

        Returns
        -------
        GramProduct
            Sum of each field.
        """
        return add_fields(self, *others)
