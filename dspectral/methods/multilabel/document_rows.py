"""Rows of counts as the moment methods read them: which words a document has, or how often."""

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from dspectral._compiled import compiled, read_only
from dspectral.linalg import sparse_products
from dspectral.linalg.block_sums import energy_of
from dspectral.types import CSRRows, FloatArray, IntArray, Rows


def word_rows(rows: Rows, *, counts: bool, dtype: DTypeLike | None = None) -> CSRRows:
    """Return rows as CSR with ones for the words that occur, or with their counts.

    Parameters
    ----------
    rows : csr_array or ndarray, shape (n, d)
        Numbers that are not negative, of any type; left as they are.
    counts : bool
        Whether a word counts as often as it occurs.
    dtype : dtype, optional
        Type of the result; by default float32 for float32 rows, else float64.

    Returns
    -------
    csr_array, shape (n, d)
        Rows without stored zeros; entries that are stored twice are summed.

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
    if rows.dtype == np.float16:  # which SciPy's sparse arrays do not know
        rows = rows.astype(np.float64)
    csr = sparse_products.canonical_rows(
        sparse.csr_array(rows)
    )  # two entries in one place would be two words
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
        # A stored zero is no word. The copy keeps the caller's matrix whole: its index arrays are shared until here,
        # and eliminate_zeros writes to them.
        data *= csr.data != 0
        out = out.copy()
        out.eliminate_zeros()
    return out


def label_rows(labels: Rows, n_rows: int) -> CSRRows:
    """Return labels as CSR rows of ones in single precision.

    Parameters
    ----------
    labels : csr_array or ndarray, shape (n, L)
        Not zero where a document has a label.
    n_rows : int
        Number of documents.

    Returns
    -------
    csr_array of float32, shape (n, L)
        Ones where a document has a label.

    Raises
    ------
    ValueError
        If there are more or fewer rows of labels than of words.
    """
    if labels.shape[0] != n_rows:
        raise ValueError(f"there are {labels.shape[0]} rows of labels for {n_rows} rows of words")
    return word_rows(labels, counts=False, dtype=np.float32)


def lengths_of(rows: CSRRows, *, counts: bool) -> NDArray[np.float64]:
    """Return the sum of each row in double precision, shape (n,); without counts all entries are ones."""
    if not counts:
        return np.diff(rows.indptr).astype(np.float64)
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    weights = rows.data.astype(np.float64)
    return np.asarray(np.bincount(row, weights=weights, minlength=rows.shape[0]), dtype=np.float64)


def linear_features(
    words: CSRRows, column_weights: NDArray[np.float64], directions: FloatArray
) -> FloatArray:
    """Project rows of weighted words, scaled to unit length, on some directions.

    Shapes: `words` (n, d), `column_weights` (d,), `directions` (d, r); returns (n, r).
    """
    return sparse_products.times(unit_rows(words, column_weights), directions)


def unit_rows(words: CSRRows, column_weights: NDArray[np.float64]) -> CSRRows:
    """Return rows of the weights of the words that occur, scaled to unit length.

    Shapes: `words` (n, d), `column_weights` (d,); returns (n, d).
    """
    data = np.empty(words.nnz, dtype=words.dtype)
    _weigh(read_only(column_weights), read_only(words.indices), read_only(words.indptr), data)
    return sparse.csr_array((data, words.indices, words.indptr), shape=words.shape)


@compiled
def _weigh(column_weights: NDArray[np.float64], indices: IntArray, indptr: IntArray, out: FloatArray) -> None:
    """Write the weight of each entry's column, divided by the length of its row of weights."""
    for i in range(indptr.size - 1):
        total = 0.0
        for entry in range(indptr[i], indptr[i + 1]):
            weight = column_weights[indices[entry]]
            total += weight * weight
        # Weights may be 0, and a row of zeros stays as it is.
        scale = 1.0 / np.sqrt(total) if total > 0 else 1.0
        for entry in range(indptr[i], indptr[i + 1]):
            out[entry] = column_weights[indices[entry]] * scale
