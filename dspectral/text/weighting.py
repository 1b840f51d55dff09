"""Weightings of count rows, and document frequencies."""

from hashlib import sha256
from typing import Literal, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
from scipy import sparse

from dspectral.linalg.block_sums import compute_energy
from dspectral.linalg.sparse_products import weight_and_normalize
from dspectral.registry import register_class
from dspectral.types import CSRRows, Doubles, FloatArray, Int64s, IntArray, Rows, is_sparse


@register_class({"document_frequency": "d"})
class DocumentFrequencies(NamedTuple):
    """Number of rows, and number of nonzero rows of each column, shape (d,)."""

    n_rows: int
    document_frequency: Int64s

    @classmethod
    def from_block(cls, rows: Rows) -> Self:
        """Count one block of shape (n, d) without duplicate entries; NaN or infinity raises a ValueError."""
        compute_energy(rows)
        if is_sparse(rows):
            present = rows.indices[rows.data != 0]
            return cls(rows.shape[0], np.bincount(present, minlength=rows.shape[1]))
        return cls(rows.shape[0], np.count_nonzero(rows, axis=0))

    def merge(self, *others: Self) -> Self:
        """Return the document frequencies of all rows."""
        summaries = (self, *others)
        frequency = np.add.reduce([summary.document_frequency for summary in summaries])
        return type(self)(sum(summary.n_rows for summary in summaries), frequency)


TermFrequency: TypeAlias = Literal["count", "binary", "sqrt", "log", "sublinear"]
Norm: TypeAlias = Literal["l1", "l2"]
Unseen: TypeAlias = Literal["drop", "keep"]


@register_class({"column_weights": "d", "columns": "d"})
class Weighting(NamedTuple):
    """Weighting of sparse rows: by entry, then by column, then by the norm of the row.

    :class:`dspectral.TfidfWeighting` learns a weighting from counts.

    Attributes
    ----------
    tf : {"count", "binary", "sqrt", "log", "sublinear"}, default="count"
        Function of a count c: c, 1, ``sqrt|c|``, ``log(1 + |c|)`` or ``1 + log|c|``. The sign of c is kept, except for
        "binary".
    column_weights : ndarray of float, shape (d,), or None, default=None
        Factor of each column.
    columns : ndarray of int, shape (d',), or None, default=None
        Columns to select, in this order; ``column_weights`` then has one entry for each of them.
    norm : {"l1", "l2", None}, default=None
        Norm of the weighted rows; empty rows stay empty.

    Examples
    --------
    >>> counts = sparse.csr_array([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    >>> Weighting(tf="binary", norm="l1").apply(counts).toarray()
    array([[0.5, 0. , 0.5],
           [0. , 0. , 0. ]])
    """

    tf: TermFrequency = "count"
    column_weights: FloatArray | None = None
    columns: Int64s | None = None
    norm: Norm | None = None

    @classmethod
    def tfidf(cls, document_frequency: Int64s, n_rows: int, *, norm: Norm | None = "l2") -> Self:
        """Return the weighting of scikit-learn's ``TfidfVectorizer``; empty columns get weight 0.

        Parameters
        ----------
        document_frequency : ndarray of int, shape (d,)
            Number of nonzero rows of each column.
        n_rows : int
            Number of rows.
        norm : {"l1", "l2", None}, default="l2"
            Norm of the weighted rows.

        Returns
        -------
        Weighting
            Counts times inverse document frequencies, normalized.
        """
        weights = inverse_document_frequency(document_frequency, n_rows, unseen="drop")
        return cls("count", weights, None, norm)

    @property
    def digest(self) -> str:
        """Hash of all fields, 16 hexadecimal digits."""
        # The dtype is hashed too, since the same bytes are different numbers in another dtype.
        hasher = sha256(repr((self.tf, self.norm)).encode())
        for part in (self.column_weights, self.columns):
            hasher.update(b"none" if part is None else str(part.dtype).encode() + part.tobytes())
        return hasher.hexdigest()[:16]

    def apply(self, rows: CSRRows) -> CSRRows:
        """Return weighted rows in the floating type of the input, or float32 for integers.

        Parameters
        ----------
        rows : csr_array, shape (n, d)
            Counts without duplicate entries; they are not modified.

        Returns
        -------
        csr_array, shape (n, d) or (n, d')
            The weighted rows.

        Raises
        ------
        ValueError
            If the term frequency or norm is unknown.
        """
        if self.norm not in (None, "l1", "l2"):
            raise ValueError(f"norm={self.norm!r} must be 'l1', 'l2' or None")
        data = rows.data if rows.data.dtype.kind == "f" else rows.data.astype(np.float32)
        # The result shares its indices with the input: a weighting costs one copy of the data.
        weighted = sparse.csr_array((_transform_counts(data, self.tf), rows.indices, rows.indptr), shape=rows.shape)
        if self.columns is not None:
            weighted = select_columns(weighted, self.columns)
        if self.column_weights is not None or self.norm is not None:
            weighted.data = weight_and_normalize(weighted.data, weighted, self.column_weights, self.norm)
        return weighted


class HasWeighting(Protocol):
    """An object with a learned weighting, such as a fitted :class:`dspectral.TfidfWeighting`."""

    @property
    def weighting(self) -> Weighting:
        """Weighting for new rows."""
        ...


def inverse_document_frequency(
    document_frequency: Int64s, n_rows: int, *, smooth: bool = True, unseen: Unseen = "keep"
) -> Doubles:
    """Return the smooth inverse document frequency of scikit-learn, ``log((1 + n) / (1 + df)) + 1``.

    Parameters
    ----------
    document_frequency : ndarray of int, shape (d,)
        Number of nonzero rows of each column.
    n_rows : int
        Number of rows.
    smooth : bool, default=True
        If False, return ``log(n / df) + 1`` instead, and 0 for empty columns.
    unseen : {"drop", "keep"}, default="keep"
        Weight of empty columns: 0 for "drop", or the smooth form with df = 0 for "keep".

    Returns
    -------
    ndarray of float64, shape (d,)
        Weight of each column.

    Examples
    --------
    >>> inverse_document_frequency(np.array([3, 0]), 3).round(3)
    array([1.   , 2.386])
    """
    frequency = np.asarray(document_frequency)
    added = 1.0 if smooth else 0.0
    weights = np.log((added + n_rows) / np.maximum(added + frequency, 1.0)) + 1.0
    return np.where(frequency > 0, weights, 0.0) if unseen == "drop" or not smooth else np.asarray(weights)


def _transform_counts(data: FloatArray, tf: TermFrequency) -> FloatArray:
    if tf == "count":
        return np.array(data)
    if tf == "binary":
        return np.asarray(data != 0, dtype=data.dtype)
    if tf == "sqrt":
        return np.asarray(np.sign(data) * np.sqrt(np.abs(data)))
    if tf == "log":
        return np.asarray(np.sign(data) * np.log1p(np.abs(data)))
    if tf == "sublinear":  # avoid log(0) at explicit zeros
        return np.asarray(np.sign(data) * (1 + np.log(np.where(data == 0, 1, np.abs(data)))))
    raise ValueError(f"tf={tf!r} must be 'count', 'binary', 'sqrt', 'log' or 'sublinear'")


def select_columns(rows: CSRRows, columns: IntArray) -> CSRRows:
    """Select columns in O(nnz + d), without the sort of SciPy's indexing; the order of entries is unchanged."""
    # The cumulative number of kept entries, at the old row pointers, gives the new row pointers.
    number = np.full(rows.shape[1], -1, dtype=np.int32)
    number[columns] = np.arange(len(columns), dtype=np.int32)
    renumbered = number[rows.indices]
    is_kept = renumbered >= 0
    kept_before = np.concatenate([[0], np.cumsum(is_kept)])
    indptr = kept_before[rows.indptr].astype(rows.indptr.dtype)
    return sparse.csr_array((rows.data[is_kept], renumbered[is_kept], indptr), shape=(rows.shape[0], len(columns)))
