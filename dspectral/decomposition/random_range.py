"""Range of a matrix by one random product, and the sparse sign matrices of that product."""

import math
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral._compiled import compiled, read_only
from dspectral.linalg import sparse_products
from dspectral.linalg.block_sums import energy_of, total_of
from dspectral.linalg.dense import column_gram, fixed_signs, leading_eigenpairs
from dspectral.types import FloatArray, Rows, is_sparse

SIGNS = 4
"""Entries of each row: with them a random range is as good as a dense normal one."""
MARGIN = 64.0
"""Rank is counted above this multiple of the rounding, wider than elsewhere: the product is divided by itself."""


def random_signs(n_rows: int, n_columns: int, seed: int) -> NDArray[np.int32]:
    """Draw where the entries of each row are, and their signs.

    Returns
    -------
    ndarray of int32, shape (n_rows, 4)
        Twice the column, plus one where the sign is negative.

    Examples
    --------
    >>> random_signs(2, 10, seed=0).shape
    (2, 4)
    """
    return np.random.default_rng(seed).integers(2 * n_columns, size=(n_rows, SIGNS), dtype=np.int32)


def times_signs(A: sparse.csr_array, signs: NDArray[np.int32], n_columns: int) -> FloatArray:
    """Return ``A Omega``, shape (n, n_columns), of A's dtype.

    Parameters
    ----------
    A : csr_array, shape (n, d)
    signs : ndarray of int32, shape (d, 4)
        Of :func:`random_signs`.
    n_columns : int

    Examples
    --------
    >>> signs = random_signs(3, 5, seed=1)
    >>> A = sparse.csr_array([[0.0, 2.0, 1.0]])
    >>> np.allclose(times_signs(A, signs, 5), (A @ signs_matrix(signs, 5)).toarray())
    True
    """
    out = np.zeros((A.shape[0], n_columns), dtype=A.dtype)
    _gather_signs(read_only(A.data), read_only(A.indices), read_only(A.indptr), read_only(signs), out)
    return out


def signs_matrix(signs: NDArray[np.int32], n_columns: int, dtype: Any = np.float64) -> sparse.csr_array:
    """Return Omega as CSR, shape (d, n_columns)."""
    data = (1 - 2 * (signs & 1)).astype(dtype).ravel()
    indptr = SIGNS * np.arange(len(signs) + 1, dtype=np.int64)
    Omega = sparse.csr_array((data, (signs >> 1).ravel(), indptr), shape=(len(signs), n_columns))
    Omega.sum_duplicates()
    return Omega


@compiled
def _gather_signs(data: Any, indices: Any, indptr: Any, signs: Any, out: Any) -> None:
    for i in range(indptr.size - 1):
        row = out[i]
        for entry in range(indptr[i], indptr[i + 1]):
            value = data[entry]
            of_column = signs[indices[entry]]
            for k in range(of_column.size):
                place = of_column[k]
                if place & 1:
                    row[place >> 1] -= value
                else:
                    row[place >> 1] += value


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
        csr = rows if is_sparse(rows) else sparse.csr_array(rows)
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
        values, vectors = leading_eigenpairs((M + M.T) / 2, dtype, margin=MARGIN)
        root = Y @ (vectors / np.sqrt(values)).astype(dtype)
        values, vectors = leading_eigenpairs(column_gram(root), dtype, k=k, margin=MARGIN)
        axes = root @ (vectors / np.sqrt(values)).astype(dtype)
        return fixed_signs(np.ascontiguousarray(axes.T)), values
