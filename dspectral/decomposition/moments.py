"""Rows of a pass as sums (moments, products with the Gram matrix), or whole, with their exact singular vectors."""

from functools import partial
from inspect import signature
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from dspectral.decomposition.block_sketches import largest_eigenvalue_bound
from dspectral.engine.summary import BlockSize, Need, add_fields, rows_worth
from dspectral.html import card, size_of
from dspectral.linalg import sparse_products
from dspectral.linalg.block_sums import check_range, energy_of, gram_of, total_of
from dspectral.linalg.dense import SMALL, eigh_descending, orthonormal_axes, rounding_floor, rounding_of_sums
from dspectral.linalg.panels import row_gram
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
        summary = factor.nbytes + 8 * block.n_columns
        return Need(
            summary,
            summary + block.n_rows * factor.shape[1] * factor.itemsize,
            rows_worth(factor.nbytes),
            is_sketch=True,
        )

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


GRADED = 1e3
"""Ratio of squared singular values from which on rounding keeps axes from being orthogonal at once."""


class AllRows(NamedTuple):
    """All `rows`, (n, d), of a pass, as they are: for those that fit in memory."""

    rows: Rows

    @classmethod
    def needs(cls, block: BlockSize) -> Need:
        """Return what the summary of a dense block needs; of sparse rows nobody knows it before they are read."""
        size = 0 if block.is_sparse else block.n_rows * block.n_columns * block.itemsize
        return Need(size, size)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.rows.shape[0])

    @classmethod
    def of(cls, rows: Rows) -> Self:
        """Keep one block, after a check that its numbers are finite."""
        energy_of(rows)
        return cls(rows)

    def merge(self, *others: Self) -> Self:
        """Return all rows, in their order."""
        parts: list[Any] = [part.rows for part in (self, *others) if part.rows.shape[0]]
        if len(parts) < 2:
            return type(self)(parts[0]) if parts else self
        if is_sparse(self.rows):
            return type(self)(sparse.csr_array(sparse.vstack(parts, format="csr")))
        return type(self)(np.concatenate(parts))


class Exact(NamedTuple):
    """Right singular vectors `axes` (k, d), by columns, and squared singular `values` (k,) of (centered) rows.

    `mean` (d,): mean of the rows; `energy`: squared Frobenius norm of the (centered) rows; `left`: bound on the squared
    singular values that are not among them.
    """

    axes: FloatArray
    values: NDArray[np.float64]
    mean: NDArray[np.float64]
    energy: float
    left: float


def exact_directions(rows: Rows, k: int, *, center: bool, seed: int) -> Exact:
    """Return the leading right singular vectors of rows, up to their rank, exact but for rounding.

    With m the shorter of n and the columns that occur, ARPACK takes a few hundred products with both sides, or, where
    m is at most 800 or ``4 k``, the m x m Gram matrix is decomposed. Memory: twice the rows, ``3 k`` numbers for each
    row or column of the shorter side, and ``k`` for each of the longer. Shapes: `rows` (n, d), float32 or float64.
    """
    mean, energy = total_of(rows) / max(1, rows.shape[0]), energy_of(rows)
    of_sums = rounding_of_sums(rows.shape[0], energy)
    side = _ShorterSide(rows, mean if center else None)
    energy = max(0.0, energy - rows.shape[0] * float(mean @ mean) * center)
    m, k, dtype = side.length, min(k, side.length), rows.dtype
    basis: FloatArray
    if energy <= of_sums:
        return Exact(np.zeros((0, rows.shape[1]), dtype=dtype), np.zeros(0), mean, energy, of_sums)
    if m <= max(SMALL, 4 * k):
        all_values, vectors = eigh_descending(side.times(np.eye(m)).astype(np.float64), min(m, k + 1))
        basis, left = vectors[:, :k].astype(dtype), float(all_values[k:].sum())
    else:
        operator, random = LinearOperator((m, m), matvec=side.times, dtype=dtype), np.random.default_rng(seed)
        # What it draws where rows have fewer directions; before SciPy 1.17 nobody could say.
        drawn: dict[str, Any] = {"rng": random} if "rng" in signature(eigsh).parameters else {}
        found = eigsh(operator, k=k, v0=random.standard_normal(m).astype(dtype), **drawn)
        basis = np.ascontiguousarray(found[1])
        left = largest_eigenvalue_bound(partial(side.outside, basis), m, seed, dtype)
    # The basis spans eigenvectors up to the rounding of the rows, and squared lengths are off by its square: they are
    # taken again, in double precision, from what the axes are made of anyway.
    across = side.across(basis)
    values, rotation = eigh_descending(row_gram(across.T))
    floor = rounding_floor(values, dtype) * max(1.0, np.sqrt(rows.shape[0]) / 16.0)
    rank = int(np.sum(values > floor))
    values, rotation = values[:rank], rotation[:, :rank]
    factor, back = (across, np.sqrt(values)) if side.by_rows else (basis, np.ones(rank))
    axes = factor @ (rotation / back).astype(dtype)
    if rank and values[0] > GRADED * values[-1]:
        axes = orthonormal_axes(axes.T).T
    # By columns, as products with rows read it; the first of the largest entries is positive.
    tall = np.zeros((rows.shape[1], rank), dtype=dtype)
    high, low = axes.max(axis=0, initial=0.0), axes.min(axis=0, initial=0.0)
    signs = np.where(high > -low, 1.0, -1.0).astype(dtype)
    tied = np.flatnonzero(high == -low)  # a search for places takes a tenth of the whole: for these alone
    peaks = np.abs(axes[:, tied]).argmax(axis=0)
    signs[tied] = np.sign(axes[peaks, tied])
    tall[side.columns] = axes * signs
    return Exact(tall.T, values, mean, energy, left + floor + of_sums)


class _ShorterSide:
    """Operator ``C = A A'`` or ``A'A``, whichever is smaller, for A the (centered) rows on the `columns` that occur."""

    def __init__(self, rows: Rows, mean: NDArray[np.float64] | None) -> None:
        self.rows: Any = rows
        whole: Any = rows
        self.columns, self.diagonal = np.arange(rows.shape[1]), None
        count = None
        if is_sparse(rows):
            count = np.bincount(rows.indices, minlength=rows.shape[1])
            self.columns = np.flatnonzero(count)
            self.rows = rows[:, self.columns]
        self.by_rows, self.length = self.rows.shape[0] <= self.rows.shape[1], min(self.rows.shape)
        self.outer = self.inner = self.rows
        if self.by_rows and count is not None:
            # Of hashed text most columns have one entry, which is on the diagonal of A A' alone.
            of_rows = np.repeat(np.arange(rows.shape[0]), np.diff(whole.indptr))
            once = count[whole.indices] == 1
            squares = np.square(whole.data[once], dtype=np.float64)
            self.diagonal = np.bincount(of_rows[once], squares, rows.shape[0]).astype(rows.dtype)
            self.outer = self.rows[:, count[self.columns] > 1]
        self.inner = self.outer.T.tocsr() if is_sparse(rows) else self.outer.T
        if not self.by_rows:
            self.outer, self.inner = self.inner, self.outer
        self.mean = None if mean is None else mean[self.columns].astype(rows.dtype)
        self.along = 0.0 if self.mean is None else self.rows @ self.mean

    def times(self, Y: FloatArray) -> FloatArray:
        """Return ``C Y``; Y is a vector or a matrix."""
        product = np.asarray(self.outer @ (self.inner @ Y))
        if self.diagonal is not None:
            product += (self.diagonal * Y.T).T
        if self.mean is None:
            return product
        if not self.by_rows:  # A'A - n m m'
            product -= self.rows.shape[0] * np.multiply.outer(self.mean, self.mean @ Y)
            return product
        # (A - 1 m')(A - 1 m')' = A A' - (A m) 1' - 1 (A m)' + (m'm) 1 1'
        total = Y.sum(axis=0)
        product -= np.multiply.outer(self.along, total)
        product += (self.mean @ self.mean) * total - self.along @ Y
        return product

    def outside(self, basis: FloatArray, q: FloatArray, less: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``P C P q - less`` for the projection P to what is orthogonal to a basis."""
        found = self.times(q - basis @ (basis.T @ q))
        return np.asarray(found - basis @ (basis.T @ found) - less, dtype=np.float64)

    def across(self, basis: FloatArray) -> FloatArray:
        """Return the product of the (centered) rows, or of their transpose, with a basis of the shorter side."""
        if not self.by_rows:
            product = np.asarray(self.rows @ basis)
            return product if self.mean is None else product - self.mean @ basis
        product = np.asarray(self.rows.T @ basis)
        return product if self.mean is None else product - np.outer(self.mean, basis.sum(axis=0))
