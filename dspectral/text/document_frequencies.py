"""How many rows hold each column."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dspectral.linalg.block_sums import energy_of
from dspectral.registry import saved
from dspectral.types import Rows, is_sparse


@saved
class DocumentFrequencies(NamedTuple):
    """Rows, and for each column the rows in which it is not zero.

    `n_rows`: number of rows; `document_frequency` (d,): number of rows in which each column is not zero.

    >>> from scipy import sparse
    >>> DocumentFrequencies.of(sparse.csr_array([[2.0, 0.0], [1.0, 1.0]])).document_frequency
    array([2, 1])
    """

    n_rows: int
    document_frequency: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Rows) -> Self:
        """Count one block of shape (n, d) without repeated entries; NaN and infinity raise a ValueError."""
        energy_of(rows)
        if is_sparse(rows):
            present = rows.indices[rows.data != 0]
            return cls(rows.shape[0], np.bincount(present, minlength=rows.shape[1]))
        return cls(rows.shape[0], np.count_nonzero(rows, axis=0))

    def merge(self, *others: Self) -> Self:
        """Return the frequencies in all rows."""
        parts = (self, *others)
        return type(self)(
            sum(part.n_rows for part in parts), np.add.reduce([part.document_frequency for part in parts])
        )
