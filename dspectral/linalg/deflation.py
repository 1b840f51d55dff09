"""A symmetric tensor in packed form, from which cubes of vectors are subtracted one after the other."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dspectral.types import FloatArray


class Deflated(NamedTuple):
    """A symmetric tensor from which some cubes are subtracted.

    `pairs` (k, k (k + 1) / 2): entries ``(i, j <= l)`` of the tensor, those with ``j < l`` twice as large;
    `upper, lower` (k (k + 1) / 2,): numbers j and l of each column of ``pairs``; `values` (r,): weights of
    the cubes; `vectors` (r, k): vectors of the cubes, one a row.
    """

    pairs: NDArray[np.float64]
    upper: NDArray[np.int64]
    lower: NDArray[np.int64]
    values: NDArray[np.float64]
    vectors: NDArray[np.float64]

    @classmethod
    def of(cls, T: NDArray[np.float64]) -> Self:
        """Pack a tensor of shape (k, k, k)."""
        upper, lower = np.triu_indices(len(T))
        pairs = T[:, upper, lower] * np.where(upper == lower, 1.0, 2.0)
        return cls(pairs, upper, lower, np.empty(0), np.empty((0, len(T))))

    def rounded(self) -> FloatArray:
        """Return the pairs in single precision."""
        return self.pairs.astype(np.float32)

    def applied(self, X: NDArray[np.float64], pairs: FloatArray | None = None) -> NDArray[np.float64]:
        """Return ``T(I, x, x)`` for each row x, from the pairs as they are or rounded."""
        pairs = self.pairs if pairs is None else pairs
        rows = X.astype(pairs.dtype)
        # T(I, x, x)_i = sum over j <= l of pairs[i, jl] x_j x_l: half the products of the full tensor.
        whole = (pairs @ (rows[:, self.upper] * rows[:, self.lower]).T).T
        # A cube `v u x u x u` takes `v (u'x)^2 u` off the product: `2 k` products a row, and no write of k^3 entries.
        return np.asarray(whole - ((X @ self.vectors.T) ** 2 * self.values) @ self.vectors)

    def without(self, u: NDArray[np.float64]) -> Self:
        """Subtract the cube of a row of shape (1, k), weighted by ``T(u, u, u)``."""
        value = np.einsum("rj,rj->r", self.applied(u), u)
        return self._replace(values=np.append(self.values, value), vectors=np.concatenate([self.vectors, u]))


def unit_rows(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows at length 1; a row of zeros stays.

    Shapes: `X` (n, k); returns (n, k).
    """
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.where(lengths > 0, lengths, 1.0))
