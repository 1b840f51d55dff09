"""Products with rows that are weighted by similarities between them: of classes in closed form, or any."""

import math
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.engine.summary import add_fields
from dspectral.linalg import sparse_products
from dspectral.linalg.block_sums import energy_of, float_rows, gram_of, total_of
from dspectral.types import CSRRows, FloatArray, Rows, is_sparse


class ClassGramProduct(NamedTuple):
    """``A'(W (A Z))`` with W diagonal, beside the sums of the rows of each class.

    With K the matrix that is 1 on the diagonal and ``alpha z_i'z_j`` elsewhere (z_i of length 1 holds the classes
    of row i, or is zero), ``A'K A = A'W A + alpha M'M``: W is ``1 - alpha`` for rows with a class and 1 for others,
    and M holds the class sums ``Z'A``. So K is never formed, and the summary has a size that does not depend on the
    number of rows.

    `n_rows`: number of rows; `total` (d,): sum of the rows; `energy`: squared Frobenius norm of the rows;
    `product` (d, r): product of the weighted rows' Gram matrix with the factor; `sums` (n_classes, d): class
    sums M.
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
        """Summarize one block.

        Shapes: `rows` (n, d), `classes` (n, n_classes), `factor` (d, r).
        """
        # A' W A Z is the Gram product of rows that are multiplied by the roots of W. Cost: 4 nnz r operations, or
        # 4 n d r for dense rows; the sums add one pass over the entries for each class of a row.
        # K is 1 on its diagonal: alpha z'z + (1 - alpha) for a document with classes, whose row z has unit length, and
        # 1 alone for one without any. Hence the two values of W.
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
        return add_fields(self, *others)


class CrossProduct(NamedTuple):
    """``A'B`` for rows A and B that belong together, with the sum and the energy of A's rows.

    `n_rows`: number of rows; `total` (d,): sum of A's rows; `energy`: squared Frobenius norm of A; `product`
    (d, r): the product ``A'B``.
    """

    n_rows: int
    total: NDArray[np.float64]
    energy: float
    product: FloatArray

    @classmethod
    def of(cls, rows: Rows, others: FloatArray) -> Self:
        """Summarize one block of A, shape (n, d), and of B, shape (n, r)."""
        energy = energy_of(rows)  # first, so that nothing is multiplied by infinity
        if is_sparse(rows):
            product = sparse_products.transpose_times(rows, np.ascontiguousarray(others))
        else:
            product = np.asarray(rows, dtype=others.dtype).T @ others
        return cls(rows.shape[0], total_of(rows), energy, product)

    def merge(self, *others: Self) -> Self:
        """Return the summary of all rows."""
        return add_fields(self, *others)


def class_sums(rows: Rows, classes: CSRRows, wanted: bool = True) -> NDArray[np.float64]:
    """Return ``Z'A``, shape (n_classes, d), or no rows at all."""
    if not wanted:
        return np.zeros((0, rows.shape[1]))  # an array, so that summaries of all passes merge in the same way
    sums = sparse.csr_array(classes.T) @ rows
    return np.asarray(sums.toarray() if is_sparse(sums) else sums, dtype=np.float64)


def scaled(rows: Rows, factors: NDArray[np.float64]) -> Rows:
    """Multiply each row by one number; the result is in single precision for float32 rows, else in double.

    Shapes: `rows` (n, d), `factors` (n,); returns (n, d).

    >>> scaled(np.array([[2, 4]], dtype=np.int8), np.array([0.25]))
    array([[0.5, 1. ]])
    """
    # Factors take the precision of the rows, never their type: sqrt(1 - alpha) as an integer is 0 and loses every
    # document that has a class.
    rows = float_rows(rows)
    if not is_sparse(rows):
        return np.asarray(rows * factors.astype(rows.dtype)[:, None])
    data = rows.data * np.repeat(factors, np.diff(rows.indptr)).astype(rows.dtype)
    return sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)
