"""Sketch of a sparse block that has more columns than rows, by vectors as long as its rows are many.

All that is made orthogonal and multiplied again and again is then short, and fits the cache; only the rows of the
sketch are as long as the columns, and they are written once.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import read_only
from dspectral.decomposition.centered_gram import CenteredGram
from dspectral.decomposition.lanczos_bound import largest_eigenvalue_bound
from dspectral.decomposition.shrinking import Sketched, shrink_values
from dspectral.linalg import sparse_loops
from dspectral.linalg.dense import eigh_descending, rounding_floor, rounding_of_sums
from dspectral.linalg.gram_of_eight import add_row_gram_of_eight
from dspectral.linalg.krylov import KrylovSpace
from dspectral.linalg.panels import panels
from dspectral.types import FloatArray


def sketch_in_row_space(
    gram: CenteredGram, n_columns: int, capacity: int, width: int, *, seed: int, n_steps: int
) -> Sketched:
    """Sketch a block by block Krylov iteration with ``A A'``.

    ``B = W'A`` for ``W = U D`` with orthonormal columns U and ``D <= 1`` has ``B'B <= A'A``. What is left,
    ``A'(I - W W')A``, has the eigenvalues of ``P C P`` with ``C = A A'`` and ``P^2 = I - W W'``, beside zeros.
    """
    rows, dtype = _RowGram(gram), gram.rows.dtype
    start = np.random.default_rng(seed).standard_normal((gram.rows.shape[0], width), dtype=np.float32)
    space = KrylovSpace.start(rows @ start.astype(dtype))
    for _ in range(n_steps - 1):
        space = space.extend(rows @ space.newest)
    values, vectors = space.ritz(rows @ space.newest)
    del space
    # Rows of U'A are orthogonal, with the squared lengths `values`, of which `kept` are left.
    kept, _ = shrink_values(values, capacity, dtype)
    weights = vectors[:, : len(kept)].astype(np.float64) * np.sqrt(kept / values[: len(kept)])
    sketch = rows.combined(weights, n_columns)
    left = largest_eigenvalue_bound(_WhatIsLeft(rows, weights).times, gram.rows.shape[0], seed, np.float64)
    # Rows are sums in double precision, rounded once: with E the rounding, B'B is off by 2 |B| |E| at most. All else is
    # measured in double precision, whatever the steps before have cost.
    lengths = np.einsum("ij,ij->i", sketch, sketch, dtype=np.float64)
    of_rows = float(np.finfo(dtype).eps * np.sqrt(lengths.max(initial=0.0) * lengths.sum()))
    energy = float(np.einsum("i,i->", gram.rows.data, gram.rows.data, dtype=np.float64))
    of_sums = rounding_of_sums(len(gram.columns), energy) + rounding_floor(values, np.float64)
    return Sketched(sketch, left + of_rows + of_sums)


class _RowGram:
    """Operator ``A A'``, or that of ``A - 1 mean'``; A is read by columns."""

    def __init__(self, gram: CenteredGram) -> None:
        data, indices, indptr = gram.by_columns
        self.by_columns = read_only(data), read_only(indices), read_only(indptr)
        self.columns, self.mean = gram.columns, gram.mean
        if gram.mean is not None:
            self.along, self.of_mean = gram.rows @ gram.mean, float(gram.mean @ gram.mean)

    def __matmul__(self, Y: FloatArray) -> FloatArray:
        """Return the product with ``Y`` of shape (n, r): ``4 nnz r`` flops, and no array as long as the columns."""
        product = np.zeros_like(Y)
        sparse_loops.gram_gather_scatter(*self.by_columns, read_only(Y), product)
        self._take_the_mean_off(product, Y)
        return product

    def summed_in_double(self, Q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product with eight columns, all sums in double precision."""
        product = np.zeros_like(Q)
        add_row_gram_of_eight(*self.by_columns, read_only(Q), product)
        self._take_the_mean_off(product, Q)
        return product

    def _take_the_mean_off(self, product: FloatArray, Y: FloatArray) -> None:
        if self.mean is not None:
            # (A - 1 m')(A - 1 m')' = A A' - (A m) 1' - 1 (A m)' + (m'm) 1 1'
            total = Y.sum(axis=0, dtype=np.float64)
            product -= np.outer(self.along, total).astype(product.dtype)
            product += (self.of_mean * total - self.along @ Y).astype(product.dtype)

    def combined(self, weights: NDArray[np.float64], n_columns: int) -> FloatArray:
        """Return ``W'(A - 1 mean')`` in Fortran order, zero in columns that do not occur."""
        data, indices, indptr = self.by_columns
        tall = np.zeros((n_columns, weights.shape[1]), dtype=data.dtype)
        total = weights.sum(axis=0)
        for panel in panels(len(self.columns)):
            rows = np.zeros((panel.stop - panel.start, weights.shape[1]))
            sparse_loops.gather(
                data, indices, read_only(indptr[panel.start : panel.stop + 1]), read_only(weights), rows
            )
            if self.mean is not None:
                rows -= np.outer(self.mean[panel], total)
            tall[self.columns[panel]] = rows
        return tall.T


class _WhatIsLeft:
    """Operator ``P C P`` with ``P^2 = I - W W'``."""

    def __init__(self, rows: _RowGram, weights: NDArray[np.float64]) -> None:
        self.rows, self.weights = rows, weights
        # With W'W = R diag(v) R': P = I - W H W' for H = R diag((1 - sqrt(1 - v)) / v) R', whether or not W is exactly
        # as long as it should be. Above 1 is rounding; taken for 1 it makes P larger, and the bound with it.
        values, R = eigh_descending(weights.T @ weights)
        values = np.minimum(values, 1.0)
        # (1 - sqrt(1 - v)) / v without a difference of numbers that are near each other
        self.middle = (R / (1.0 + np.sqrt(1.0 - values))) @ R.T

    def times(self, q: Any, less: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product with q, less a matrix."""
        return self._root(self.rows.summed_in_double(self._root(q))) - less

    def _root(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``P q``."""
        return q - self.weights @ (self.middle @ (self.weights.T @ q))
