"""The Gram matrix of a sparse block as an operator, centered or not."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.linalg import sparse_products
from dspectral.linalg.gram_of_eight import GramOfEight
from dspectral.linalg.transposition import ByColumns, Room
from dspectral.types import CSRRows, FloatArray


class CenteredGram:
    """Operator ``A'A`` or ``A'A - n mean mean'``, restricted to the columns that occur in A if that saves much.

    `columns` (c,): numbers of the columns that the operator is restricted to, or of all.

    Shapes: `rows` (n, d), `mean` (d,).
    """

    def __init__(self, rows: CSRRows, mean: NDArray[np.float64] | None) -> None:
        self._of_eight: GramOfEight | None = None
        self._by_columns: ByColumns | None = None
        occurs = np.zeros(rows.shape[1], dtype=bool)
        occurs[rows.indices] = True
        self.columns = np.flatnonzero(occurs)
        self.mean = None if mean is None else mean[self.columns]
        if 2 * len(self.columns) > rows.shape[1]:  # a second copy of the indices would save little
            self.columns, self.rows, self.mean = np.arange(rows.shape[1]), rows, mean
            return
        # Renumbered, so that dense factors have a row only for columns that occur.
        number = np.cumsum(occurs, dtype=rows.indices.dtype) - 1
        self.rows = sparse.csr_array(
            (rows.data, number[rows.indices], rows.indptr), shape=(rows.shape[0], len(self.columns))
        )

    @property
    def by_columns(self) -> ByColumns:
        """Block by columns: a second copy, held from the first use on."""
        if self._by_columns is None:
            self._by_columns = Room.of(self.rows, self.rows.nnz).transposed(self.rows)
        return self._by_columns

    def __matmul__(self, Z: FloatArray) -> FloatArray:
        """Return the product with ``Z`` of shape (c, r): ``A'(A Z) - mean (n mean' Z)``."""
        product = sparse_products.gram_times(self.rows, Z)
        if self.mean is not None:
            against = self.rows.shape[0] * (self.mean @ Z)
            product -= np.outer(self.mean, against).astype(product.dtype)
        return product

    def summed_in_double(self, Z: FloatArray) -> NDArray[np.float64]:
        """Return the product with eight columns, its sums over the rows in double precision whatever the type of Z.

        Shapes: `Z` (c, 8); returns (c, 8).

        From the first call on a second copy of the block is held, by columns.
        """
        if self._of_eight is None:
            self._of_eight = GramOfEight(self.rows, self.by_columns)
        product = self._of_eight @ Z
        if self.mean is not None:
            product -= np.outer(self.mean, self.rows.shape[0] * (self.mean @ Z))
        return product

    def random_range(self, r: int, seed: int) -> FloatArray:
        """Return ``A'G`` for a Gaussian ``G``.

        Shapes: returns (c, r).
        """
        # Drawn in single precision whatever the type of the rows, so that both precisions start from the same numbers.
        G = np.random.default_rng(seed).standard_normal((self.rows.shape[0], r), dtype=np.float32)
        return sparse_products.transpose_times(self.rows, G.astype(self.rows.dtype))
