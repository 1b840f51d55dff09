"""Count rows as the moment methods read them: which words a document has, or how often."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.linalg import sparse_products
from dspectral.linalg.block_sums import energy_of
from dspectral.text.weighting import Weighting
from dspectral.types import FloatArray, Rows, is_sparse


def word_rows(rows: Rows, *, counts: bool, dtype: Any = None) -> sparse.csr_array:
    """Return rows as CSR with ones for the words that occur, or with their counts.

    Parameters
    ----------
    rows : csr_array or ndarray, shape (n, d)
        Not negative; left as they are.
    counts : bool
        Whether a word counts as often as it occurs.
    dtype : dtype, optional
        Of the result; by default float32 for float32 rows, else float64.

    Returns
    -------
    csr_array, shape (n, d)
        Without stored zeros.

    Raises
    ------
    ValueError
        If an entry is NaN, infinite or negative: a word occurs a number of times.

    Examples
    --------
    >>> word_rows(np.array([[0.0, 3.0]]), counts=False).toarray()
    array([[0., 1.]])
    """
    energy_of(rows)  # names an entry that is not finite
    csr = rows if is_sparse(rows) else sparse.csr_array(rows)
    if csr.nnz and csr.data.min() < 0:
        entry = int(np.argmax(csr.data < 0))
        row = int(np.searchsorted(csr.indptr, entry, side="right")) - 1
        raise ValueError(
            f"Negative values in data: row {row}, column {csr.indices[entry]} is {csr.data[entry]}, but a word "
            "occurs 0 times or more"
        )
    if dtype is None:
        dtype = np.float32 if csr.dtype == np.float32 else np.float64
    data = csr.data.astype(dtype) if counts else np.ones(csr.nnz, dtype=dtype)
    out = sparse.csr_array((data, csr.indices, csr.indptr), shape=csr.shape)
    if csr.nnz and not csr.data.all():
        data *= csr.data != 0
        out = out.copy()
        out.eliminate_zeros()
    return out


def label_rows(labels: Rows, n_rows: int) -> sparse.csr_array:
    """Return labels as CSR of ones in single precision.

    Raises
    ------
    ValueError
        If there are more or fewer rows of labels than of words.
    """
    if labels.shape[0] != n_rows:
        raise ValueError(f"there are {labels.shape[0]} rows of labels for {n_rows} rows of words")
    return word_rows(labels, counts=False, dtype=np.float32)


def lengths_of(rows: sparse.csr_array) -> NDArray[np.float64]:
    """Sum of each row, in double precision, shape (n,)."""
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    weights = rows.data.astype(np.float64)
    return np.asarray(np.bincount(row, weights=weights, minlength=rows.shape[0]), dtype=np.float64)


def linear_features(
    words: sparse.csr_array, column_weights: NDArray[np.float64], directions: FloatArray
) -> FloatArray:
    """Return rows of unit length, of the weights of the words that occur, on some directions, shape (n, r).

    Parameters
    ----------
    words : csr_array, shape (n, d)
    column_weights : ndarray of float64, shape (d,)
        Inverse document frequencies.
    directions : ndarray, shape (d, r)
    """
    rows = Weighting("binary", column_weights, norm="l2").apply(words)
    return sparse_products.times(rows, directions)
