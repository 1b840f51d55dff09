"""Scores and coordinates of one block of rows in the spaces of all classes."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.methods.lsi.squared_hinge import Relevancy, products
from dspectral.types import CSRRows, Rows


class LocalMachines(NamedTuple):
    """A space and a linear machine for each class.

    `components` (k_c, d): orthonormal rows of each class's space; `coef` (L, d): weights of the columns;
    `intercept` (L,): intercepts; `relevancy`: weight f of a row in each class.
    """

    components: list[NDArray[np.float64]]
    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    relevancy: Relevancy | None

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        """Return ``f x'coef + intercept``, shape (n, L)."""
        # f x'V'w + c: weighting a row's product is weighting the row.
        return np.asarray(products(rows, self.coef.T) * self._weights(rows) + self.intercept)

    def difference(self, rows: Rows) -> NDArray[np.float64]:
        """Return the second class's score less the first's, shape (n, 1)."""
        return np.diff(self.scores(rows), axis=1)

    def best(self, rows: Rows, *, classes: NDArray[Any]) -> NDArray[Any]:
        """Return the class with the highest score of each row, shape (n, 1)."""
        return np.asarray(classes[np.argmax(self.scores(rows), axis=1)][:, None])

    def above(self, rows: Rows) -> CSRRows:
        """Return ones where a score is above 0, shape (n, L)."""
        return sparse.csr_array((self.scores(rows) > 0).astype(np.float64))

    def fold_in(self, rows: Rows) -> NDArray[np.float64]:
        """Return the coordinates in all spaces, one beside the other, shape (n, sum of all k_c)."""
        # Without relevancies the weight is the number 1, which stands for all documents and classes.
        weights = np.broadcast_to(self._weights(rows), (rows.shape[0], len(self.components)))
        parts = [products(rows, np.ascontiguousarray(axes.T)) for axes in self.components]
        return np.concatenate([weights[:, [j]] * part for j, part in enumerate(parts)], axis=1)

    def _weights(self, rows: Rows) -> NDArray[np.float64] | float:
        return 1.0 if self.relevancy is None else self.relevancy.weights(rows)
