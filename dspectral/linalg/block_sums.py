"""Sums over the rows of one block: their total, their energy and their Gram matrix."""

import math

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from dspectral.linalg import sparse_products
from dspectral.types import Rows, is_sparse


def total_of(rows: Rows) -> NDArray[np.float64]:
    """Return the sum of the rows in double precision. Shapes: `rows` (n, d); returns (d,)."""
    if is_sparse(rows):
        return sparse_products.column_sums(rows)
    return np.asarray(rows.sum(axis=0, dtype=np.float64))


def energy_of(rows: Rows) -> float:
    """Return the squared Frobenius norm of the rows in double precision. Shapes: `rows` (n, d)."""
    values = rows.data if is_sparse(rows) else np.ravel(rows)
    # einsum widens the entries buffer by buffer: a product of vectors would sum float32 entries in single precision,
    # and a converted copy would be twice as large as the block.
    energy = float(np.einsum("i,i->", values, values, dtype=np.float64))
    if not math.isfinite(energy):
        refuse_not_finite(rows)
        raise ValueError("the sum of squares overflows double precision: scale the rows down")
    return energy


def check_range(energy: float, dtype: DTypeLike) -> None:
    """Refuse rows of a squared Frobenius norm that products in their type cannot hold; a zero one is allowed."""
    known = np.finfo(np.dtype(dtype))
    least, most = 100.0 * float(known.tiny), float(known.max) / 100.0
    if energy and not least <= energy <= most:
        raise ValueError(
            f"the squares of X sum up to {energy:.3g}, but products of {known.dtype} keep their digits from "
            f"{least:.0e} to {most:.0e}: give rows of float64, or scale them"
        )


def refuse_not_finite(rows: Rows) -> None:
    """Refuse rows with NaN or infinity, and name the place. Shapes: `rows` (n, d)."""
    values = rows.data if is_sparse(rows) else np.ravel(rows)
    with np.errstate(over="ignore", invalid="ignore"):
        if math.isfinite(float(np.sum(values, dtype=np.float64))):  # no array of bool in the usual case
            return
    # A finite sum proves that each entry is finite; the converse is false, as large entries may overflow together.
    bad = np.flatnonzero(~np.isfinite(values))
    if not len(bad):
        return
    if is_sparse(rows):
        row = int(np.searchsorted(rows.indptr, bad[0], side="right")) - 1
        column = int(rows.indices[bad[0]])
    else:
        row, column = divmod(int(bad[0]), rows.shape[1])
    raise ValueError(f"row {row}, column {column} is {values[bad[0]]}, but every entry must be finite")


def gram_of(rows: Rows, step: int = 8192) -> NDArray[np.float64]:
    """Return ``A'A`` in double precision. Shapes: `rows` (n, d); returns (d, d)."""
    if is_sparse(rows):
        return sparse_products.gram(rows)
    gram = np.zeros((rows.shape[1],) * 2)
    for start in range(0, len(rows), step):
        piece = np.asarray(rows[start : start + step], dtype=np.float64)
        gram += piece.T @ piece
    return gram


def float_rows(rows: Rows) -> Rows:
    """Return rows in single or double precision; rows of integers, bool or half precision become float64.

    Shapes: `rows` (n, d); returns (n, d).

    >>> float_rows(np.array([[True, False]])) * 0.5
    array([[0.5, 0. ]])
    """
    if rows.dtype in (np.float32, np.float64):
        return rows
    if not is_sparse(rows):
        return rows.astype(np.float64)
    return sparse.csr_array((rows.data.astype(np.float64), rows.indices, rows.indptr), shape=rows.shape)


def scaled_rows(rows: Rows, factors: NDArray[np.float64]) -> Rows:
    """Multiply each row (d,) by one number, in single precision for float32 rows, else in double."""
    # Factors take the precision of the rows, never their type: sqrt(1 - alpha) as an integer is 0 and loses every
    # document that has a class.
    rows = float_rows(rows)
    if not is_sparse(rows):
        return np.asarray(rows * factors.astype(rows.dtype)[:, None])
    data = rows.data * np.repeat(factors, np.diff(rows.indptr)).astype(rows.dtype)
    return sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)
