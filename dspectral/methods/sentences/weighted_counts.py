"""Counts of words as they are decomposed: how many sentences have each word, and rows weighted by it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.engine import summarize
from dspectral.text.document_frequencies import DocumentFrequencies
from dspectral.text.weighting import Weighting
from dspectral.types import CSRRows, Rows


def document_frequency_of(counts: Any) -> tuple[NDArray[np.int64], int, int]:
    """Count the rows in which each column is not zero.

    Parameters
    ----------
    counts : store, Dask array, SciPy sparse or ndarray, shape (n_rows, n_columns)
        Counts of words.

    Returns
    -------
    document_frequency : ndarray of int64, shape (n_columns,)
        Frequency of each column.
    n_rows : int
        Number of rows.
    n_passes : int
        Number of passes over the rows that it took to know them.
    """
    # A store has counted them when it was built: that pass is saved.
    known = getattr(counts, "document_frequency", None)
    if known is not None:
        return known, counts.n_rows, 0
    found = summarize(counts, of=DocumentFrequencies.of, name="count")
    return found.document_frequency, found.n_rows, 1


def weigh(rows: Rows, *, weighting: Weighting, n_columns: int) -> CSRRows:
    """Weigh rows, and give them empty columns at the right.

    Parameters
    ----------
    rows : CSR or ndarray, shape (n_rows, n_columns_in)
        Counts of words.
    weighting : Weighting
        Weighting, which also chooses columns.
    n_columns : int
        Number of columns of the result, at least as many as the weighting chooses.

    Returns
    -------
    csr_array, shape (n_rows, n_columns)
        Weighted rows.
    """
    # The matrix has the same entries in more columns: those beyond the words are empty.
    found = weighting.apply(sparse.csr_array(rows))
    return sparse.csr_array((found.data, found.indices, found.indptr), shape=(found.shape[0], n_columns))
