"""Weightings of count rows, applied as they are read: what is stored stays counts."""

from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.registry import saved

TermFrequency = Literal["count", "binary", "sqrt", "log"]


@saved
class Weighting(NamedTuple):
    """A function of one sparse row: entries, then columns, then the row's length.

    Attributes
    ----------
    tf : {"count", "binary", "sqrt", "log"}
        What becomes of a count c: c, 1, the root of ``|c|`` or ``log(1 + |c|)``; the sign of a hashed count
        stays with c, root and logarithm.
    column_weights : ndarray, shape (d,), or None
        Factor of each column.
    columns : ndarray of int, shape (d',), or None
        Columns to keep, in this order; ``column_weights`` then has one entry for each of them.
    norm : {"l1", "l2", None}
        Rows are divided by this norm; empty rows stay empty.

    Examples
    --------
    >>> counts = sparse.csr_array([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    >>> Weighting(tf="binary", norm="l1").apply(counts).toarray()
    array([[0.5, 0. , 0.5],
           [0. , 0. , 0. ]])
    """

    tf: TermFrequency = "count"
    column_weights: NDArray[np.floating] | None = None
    columns: NDArray[np.int64] | None = None
    norm: Literal["l1", "l2"] | None = None

    @classmethod
    def tfidf(
        cls, document_frequency: NDArray[np.int64], n_rows: int, *, norm: Literal["l1", "l2"] | None = "l2"
    ) -> Self:
        """Return the weighting of scikit-learn's ``TfidfTransformer``.

        Parameters
        ----------
        document_frequency : ndarray of int, shape (d,)
            Rows that hold each column.
        n_rows : int
        norm : {"l1", "l2", None}
        """
        return cls("count", inverse_document_frequency(document_frequency, n_rows), None, norm)

    def apply(self, rows: sparse.csr_array) -> sparse.csr_array:
        """Return weighted rows, of the rows' floating type (float32 for others); ``rows`` are not changed.

        Raises
        ------
        ValueError
            If the term frequency or norm is unknown.
        """
        data = rows.data if rows.data.dtype.kind == "f" else rows.data.astype(np.float32)
        out = sparse.csr_array((_transformed(data, self.tf), rows.indices, rows.indptr), shape=rows.shape)
        if self.columns is not None:
            out = _columns_of(out, self.columns)
        if self.column_weights is not None:
            out.data = out.data * self.column_weights.astype(out.dtype)[out.indices]
        return out if self.norm is None else _divided(out, self.norm)


def inverse_document_frequency(document_frequency: NDArray[np.int64], n_rows: int) -> NDArray[np.float64]:
    """Return ``log((1 + n) / (1 + df)) + 1`` for each column, scikit-learn's smooth form.

    Examples
    --------
    >>> inverse_document_frequency(np.array([3, 0]), 3).round(3)
    array([1.   , 2.386])
    """
    return np.asarray(np.log((1.0 + n_rows) / (1.0 + np.asarray(document_frequency))) + 1.0)


def _transformed(data: NDArray[np.floating], tf: TermFrequency) -> NDArray[np.floating]:
    if tf == "count":
        return np.array(data)
    if tf == "binary":
        return np.asarray(data != 0, dtype=data.dtype)
    if tf == "sqrt":
        return np.asarray(np.sign(data) * np.sqrt(np.abs(data)))
    if tf == "log":
        return np.asarray(np.sign(data) * np.log1p(np.abs(data)))
    raise ValueError(f"tf is {tf!r}, but it must be 'count', 'binary', 'sqrt' or 'log'")


def _columns_of(rows: sparse.csr_array, columns: NDArray[np.int64]) -> sparse.csr_array:
    """Keep and renumber columns by one look-up an entry; SciPy's own indexing sorts for each block."""
    number = np.full(rows.shape[1], -1, dtype=np.int32)
    number[columns] = np.arange(len(columns), dtype=np.int32)
    new = number[rows.indices]
    keep = new >= 0
    kept_before = np.concatenate([[0], np.cumsum(keep)])
    indptr = kept_before[rows.indptr].astype(rows.indptr.dtype)
    return sparse.csr_array((rows.data[keep], new[keep], indptr), shape=(rows.shape[0], len(columns)))


def _divided(rows: sparse.csr_array, norm: str) -> sparse.csr_array:
    sizes = {"l1": np.abs, "l2": np.square}
    if norm not in sizes:
        raise ValueError(f"norm is {norm!r}, but it must be 'l1', 'l2' or None")
    lengths = np.diff(rows.indptr)
    row = np.repeat(np.arange(rows.shape[0]), lengths)
    total = np.bincount(row, weights=sizes[norm](rows.data.astype(np.float64)), minlength=rows.shape[0])
    size = np.sqrt(total) if norm == "l2" else total
    rows.data = (rows.data / np.where(size > 0, size, 1.0)[row]).astype(rows.dtype)
    return rows
