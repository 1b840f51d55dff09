"""Products with rows that are weighted by similarities between them: of classes in closed form, or any."""

import math
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.linalg import sparse_products
from dspectral.linalg.block_sums import energy_of, gram_of, total_of
from dspectral.types import FloatArray, Rows, is_sparse


class ClassProduct(NamedTuple):
    """``A'(W (A Z))`` with W diagonal, beside the sums of the rows of each class.

    With K the matrix that is 1 on the diagonal and ``alpha z_i'z_j`` elsewhere (z_i of length 1 holds the classes
    of row i, or is zero), ``A'K A = A'W A + alpha M'M``: W is ``1 - alpha`` for rows with a class and 1 for others,
    and M holds the class sums ``Z'A``. So K is never formed, and what rows leave has the size of classes.

    Attributes
    ----------
    n_rows : int
    total : ndarray of float64, shape (d,)
        Sum of the rows.
    energy : float
        Squared Frobenius norm of the rows.
    product : ndarray, shape (d, r)
        Of the weighted rows; their Gram matrix, shape (d, d), where there is no factor.
    sums : ndarray of float64, shape (n_classes, d)
        M; without rows where it was not asked for.
    """

    n_rows: int
    total: NDArray[np.float64]
    energy: float
    product: FloatArray
    sums: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        rows: Rows,
        classes: sparse.csr_array,
        *,
        alpha: float,
        with_sums: bool = True,
        factor: FloatArray | None = None,
    ) -> Self:
        """Summarise one block.

        Parameters
        ----------
        rows : csr_array or ndarray, shape (n, d)
        classes : csr_array, shape (n, n_classes)
            The z_i: rows of length 1, or zero.
        alpha : float
        with_sums : bool
            Whether class sums are wanted: one pass is enough for them.
        factor : ndarray, shape (d, r), optional
            Z.

        Raises
        ------
        ValueError
            If the rows hold NaN or infinity.
        """
        energy = energy_of(rows)
        has_class = np.diff(classes.indptr) > 0
        weighted = scaled(rows, np.where(has_class, math.sqrt(1.0 - alpha), 1.0))
        product: FloatArray
        if factor is None:
            product = gram_of(weighted)
        elif is_sparse(weighted):
            product = sparse_products.gram_times(weighted, factor)
        else:
            weighted = np.asarray(weighted, dtype=factor.dtype)
            product = weighted.T @ (weighted @ factor)
        return cls(rows.shape[0], total_of(rows), energy, product, class_sums(rows, classes, with_sums))

    def merge(self, *others: Self) -> Self:
        """Return the summary of all rows."""
        parts = (self, *others)
        product, sums = self.product.copy(), self.sums.copy()
        for other in others:
            product += other.product
            sums += other.sums
        return type(self)(
            sum(part.n_rows for part in parts),
            np.add.reduce([part.total for part in parts]),
            math.fsum(part.energy for part in parts),
            product,
            sums,
        )


class CrossProduct(NamedTuple):
    """``A'B`` for rows A and B that belong together, with the sum and the energy of A's.

    Attributes
    ----------
    n_rows : int
    total : ndarray of float64, shape (d,)
    energy : float
    product : ndarray, shape (d, r), of B's dtype
    """

    n_rows: int
    total: NDArray[np.float64]
    energy: float
    product: FloatArray

    @classmethod
    def of(cls, rows: Rows, others: FloatArray) -> Self:
        """Summarise one block of A, shape (n, d), and of B, shape (n, r)."""
        energy = energy_of(rows)
        if is_sparse(rows):
            product = sparse_products.transpose_times(rows, np.ascontiguousarray(others))
        else:
            product = np.asarray(rows, dtype=others.dtype).T @ others
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


def class_sums(rows: Rows, classes: sparse.csr_array, wanted: bool = True) -> NDArray[np.float64]:
    """Return ``Z'A``, shape (n_classes, d), or no rows at all."""
    if not wanted:
        return np.zeros((0, rows.shape[1]))
    sums = sparse.csr_array(classes.T) @ rows
    return np.asarray(sums.toarray() if is_sparse(sums) else sums, dtype=np.float64)


def scaled(rows: Rows, factors: NDArray[Any]) -> Rows:
    """Return rows times one number each, of the rows' own type."""
    if not is_sparse(rows):
        return np.asarray(rows * factors.astype(rows.dtype)[:, None])
    data = rows.data * np.repeat(factors, np.diff(rows.indptr)).astype(rows.dtype)
    return sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)
