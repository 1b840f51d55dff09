"""Sums over the rows of one block: their total, their energy and their Gram matrix."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.linalg import sparse_products
from dspectral.types import Rows, is_sparse


def total_of(rows: Rows) -> NDArray[np.float64]:
    """Sum of the rows, in double precision."""
    if is_sparse(rows):
        return sparse_products.column_sums(rows)
    return np.asarray(rows.sum(axis=0, dtype=np.float64))


def energy_of(rows: Rows) -> float:
    """Squared Frobenius norm, in double precision.

    Raises
    ------
    ValueError
        If it is not finite: a row then holds NaN or infinity, and the message says which.
    """
    values = rows.data if is_sparse(rows) else np.ravel(rows)
    energy = float(np.einsum("i,i->", values, values, dtype=np.float64))
    if math.isfinite(energy):
        return energy
    bad = np.flatnonzero(~np.isfinite(values))
    if not len(bad):
        raise ValueError("the sum of squares overflows double precision: scale the rows down")
    if is_sparse(rows):
        row = int(np.searchsorted(rows.indptr, bad[0], side="right")) - 1
        column = int(rows.indices[bad[0]])
    else:
        row, column = divmod(int(bad[0]), rows.shape[1])
    raise ValueError(f"row {row}, column {column} is {values[bad[0]]}, but every entry must be finite")


def gram_of(rows: Rows, step: int = 8192) -> NDArray[np.float64]:
    """Return ``A'A`` in double precision."""
    if is_sparse(rows):
        return sparse_products.gram(rows)
    gram = np.zeros((rows.shape[1],) * 2)
    for start in range(0, len(rows), step):
        piece = np.asarray(rows[start : start + step], dtype=np.float64)
        gram += piece.T @ piece
    return gram


def float_rows(rows: Rows) -> Rows:
    """Return rows in single or double precision; rows of integers, bool or half precision become float64.

    Parameters
    ----------
    rows : csr_array or ndarray, shape (n, d)
        Rows of any type of numbers; float32 and float64 rows are returned as they are.

    Returns
    -------
    csr_array or ndarray, shape (n, d)
        Rows whose products with factors and weights are not cut to integers.

    Examples
    --------
    >>> float_rows(np.array([[True, False]])) * 0.5
    array([[0.5, 0. ]])
    """
    if rows.dtype in (np.float32, np.float64):
        return rows
    if not is_sparse(rows):
        return rows.astype(np.float64)
    return sparse.csr_array((rows.data.astype(np.float64), rows.indices, rows.indptr), shape=rows.shape)
