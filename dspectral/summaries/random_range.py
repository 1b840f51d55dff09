"""One product of the rows' Gram matrix with random signs: one pass, and sums alone."""

import math
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.kernels import sparse_products
from dspectral.kernels.linalg import column_gram, eigh_descending, fixed_signs
from dspectral.kernels.sparse_signs import random_signs, signs_matrix, times_signs
from dspectral.summaries.moments import energy_of, total_of
from dspectral.types import FloatArray, Rows


class RandomRange(NamedTuple):
    """``A'(A Omega)``, with the sum and the energy of the rows.

    Attributes
    ----------
    n_rows : int
    total : ndarray of float64, shape (d,)
    energy : float
        Squared Frobenius norm.
    product : ndarray, shape (d, size)
    seed : int
        Of Omega.

    References
    ----------
    Tropp, Yurtsever, Udell and Cevher 2017, "Fixed-rank approximation of a positive-semidefinite matrix from
    streaming data"; sparse signs as in Martinsson and Tropp 2020, "Randomized numerical linear algebra", 9.2.

    Examples
    --------
    >>> rows = np.outer(np.arange(20.0), [3.0, 4.0, 0.0])
    >>> found = RandomRange.of(rows, size=2).leading(1)
    >>> np.abs(found[0]).round(3), np.allclose(found[1], [25.0 * 2470.0])
    (array([[0.6, 0.8, 0. ]]), True)
    """

    n_rows: int
    total: NDArray[np.float64]
    energy: float
    product: FloatArray
    seed: int

    @classmethod
    def of(cls, rows: Rows, *, size: int, seed: int = 0) -> Self:
        """Summarise one block of shape (n, d); NaN and infinity raise a ValueError.

        Notes
        -----
        ``2 nnz size`` operations; the block, a transposed copy and the product.
        """
        energy = energy_of(rows)
        csr = rows if sparse.issparse(rows) else sparse.csr_array(rows)
        signs = random_signs(csr.shape[1], size, seed)
        product = sparse_products.transpose_times(csr, times_signs(csr, signs, size))
        return cls(csr.shape[0], total_of(csr), energy, product, seed)

    def merge(self, *others: Self) -> Self:
        """Return the summary of all rows."""
        product = self.product.copy()
        for other in others:
            product += other.product
        parts = (self, *others)
        return self._replace(
            n_rows=sum(part.n_rows for part in parts),
            total=np.add.reduce([part.total for part in parts]),
            energy=math.fsum(part.energy for part in parts),
            product=product,
        )

    def leading(
        self, k: int, *, off_diagonal: NDArray[np.float64] | None = None
    ) -> tuple[FloatArray, NDArray[np.float64]]:
        """Return leading eigenvectors (rows) and eigenvalues of ``C = A'A``, or of C less a diagonal.

        Parameters
        ----------
        k : int
            Fewer are returned where the matrix has fewer that are positive.
        off_diagonal : ndarray of float64, shape (d,), optional
            The diagonal to be taken off: a matrix of rank below ``size`` is then found exactly all the same.

        Returns
        -------
        axes : ndarray, shape (k', d)
        values : ndarray of float64, shape (k',)
            Of the Nystrom approximation ``C Omega (Omega'C Omega)^+ Omega'C``, its positive part.
        """
        size, dtype = self.product.shape[1], self.product.dtype
        Omega = signs_matrix(random_signs(len(self.product), size, self.seed), size, dtype)
        Y = self.product
        if off_diagonal is not None:
            Y = Y.copy()
            rows = np.repeat(np.arange(len(Y)), np.diff(Omega.indptr))
            Y[rows, Omega.indices] -= (Omega.data * off_diagonal[rows]).astype(dtype)
        M = np.asarray(sparse_products.transpose_times(Omega, Y), dtype=np.float64)
        values, vectors = eigh_descending((M + M.T) / 2)
        keep = values > 64 * np.finfo(dtype).eps * values[0]
        root = Y @ (vectors[:, keep] / np.sqrt(values[keep])).astype(dtype)
        values, vectors = eigh_descending(column_gram(root))
        k = min(k, int(np.sum(values > 64 * np.finfo(dtype).eps * values[0])))
        axes = root @ (vectors[:, :k] / np.sqrt(values[:k])).astype(dtype)
        return fixed_signs(np.ascontiguousarray(axes.T)), values[:k]
