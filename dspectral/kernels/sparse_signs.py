"""Products with a random matrix of a few signs a row, which is never made dense."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.kernels.compiled import compiled, read_only
from dspectral.types import FloatArray

SIGNS = 4
"""Entries of each row: with them a random range is as good as a dense normal one."""


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
