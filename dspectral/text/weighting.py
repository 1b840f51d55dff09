"""Weightings of count rows, applied as they are read, and the document frequencies that they need."""

from hashlib import sha256
from typing import Literal, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.linalg.block_sums import energy_of
from dspectral.linalg.sparse_products import scaled_to_length
from dspectral.registry import Array, has_arrays, saved
from dspectral.types import CSRRows, FloatArray, Rows, is_sparse


@has_arrays(
    {
        "document_frequency": Array("d", "i", at_least=0, below="n_rows+1"),
    }
)
@saved
class DocumentFrequencies(NamedTuple):
    """Rows, and for each column the rows in which it is not zero, shape (d,)."""

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


TermFrequency: TypeAlias = Literal["count", "binary", "sqrt", "log", "sublinear"]
Norm: TypeAlias = Literal["l1", "l2"]
Unseen: TypeAlias = Literal["drop", "keep"]


@has_arrays(
    {
        "column_weights": Array("d", optional=True),
        "columns": Array("d", "i", at_least=0, optional=True),
    }
)
@saved
class Weighting(NamedTuple):
    """A function of one sparse row: entries, then columns, then the row's length.

    :class:`dspectral.TfidfWeighting` learns one from counts.

    Attributes
    ----------
    tf : {"count", "binary", "sqrt", "log", "sublinear"}, default="count"
        Function of a count c: c, 1, ``sqrt|c|``, ``log(1 + |c|)`` or ``1 + log|c|``, with the sign of c but for
        "binary".
    column_weights : ndarray of float, shape (d,), or None, default=None
        Factor of each column.
    columns : ndarray of int, shape (d',), or None, default=None
        Columns to keep, in this order; ``column_weights`` then has one entry for each of them.
    norm : {"l1", "l2", None}, default=None
        Norm that rows are divided by; empty rows stay empty.

    Examples
    --------
    >>> counts = sparse.csr_array([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    >>> Weighting(tf="binary", norm="l1").apply(counts).toarray()
    array([[0.5, 0. , 0.5],
           [0. , 0. , 0. ]])
    """

    tf: TermFrequency = "count"
    column_weights: FloatArray | None = None
    columns: NDArray[np.int64] | None = None
    norm: Norm | None = None

    @classmethod
    def tfidf(cls, document_frequency: NDArray[np.int64], n_rows: int, *, norm: Norm | None = "l2") -> Self:
        """Return the weighting of scikit-learn's ``TfidfVectorizer``: columns that no row holds get weight 0.

        Parameters
        ----------
        document_frequency : ndarray of int, shape (d,)
            Number of rows that hold each column.
        n_rows : int
            Number of rows.
        norm : {"l1", "l2", None}, default="l2"
            Norm that rows are divided by.

        Returns
        -------
        Weighting
            Counts times inverse document frequencies, rows scaled to unit length.
        """
        weights = inverse_document_frequency(document_frequency, n_rows, unseen="drop")
        return cls("count", weights, None, norm)

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that two weightings share if all their fields are equal."""
        # The type goes into the hash beside the bytes, because the same bytes are other numbers in another type.
        hashed = sha256(repr((self.tf, self.norm)).encode())
        for part in (self.column_weights, self.columns):
            hashed.update(b"none" if part is None else str(part.dtype).encode() + part.tobytes())
        return hashed.hexdigest()[:16]

    def apply(self, rows: CSRRows) -> CSRRows:
        """Return weighted rows, of the rows' floating type (float32 for others).

        Parameters
        ----------
        rows : csr_array, shape (n, d)
            Counts without duplicate entries. They are not changed.

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
            raise ValueError(f"norm is {self.norm!r}, but it must be 'l1', 'l2' or None")
        data = rows.data if rows.data.dtype.kind == "f" else rows.data.astype(np.float32)
        # Entries are new, and the indices are shared with the rows: a weighting costs one copy of the data.
        out = sparse.csr_array((_transformed(data, self.tf), rows.indices, rows.indptr), shape=rows.shape)
        if self.columns is not None:
            out = _columns_of(out, self.columns)
        if self.column_weights is not None or self.norm is not None:
            out.data = scaled_to_length(out.data, out, self.column_weights, self.norm)
        return out


class HasWeighting(Protocol):
    """An object that has learned a weighting, such as a fitted :class:`dspectral.TfidfWeighting`."""

    @property
    def weighting(self) -> Weighting:
        """The weighting of new rows."""
        ...


def inverse_document_frequency(
    document_frequency: NDArray[np.int64], n_rows: int, *, smooth: bool = True, unseen: Unseen = "keep"
) -> NDArray[np.float64]:
    """Return ``log((1 + n) / (1 + df)) + 1`` for each column, scikit-learn's smooth form.

    Parameters
    ----------
    document_frequency : ndarray of int, shape (d,)
        Number of rows that hold each column.
    n_rows : int
        Number of rows.
    smooth : bool, default=True
        False takes ``log(n / df) + 1`` instead, and 0 for columns that no row holds.
    unseen : {"drop", "keep"}, default="keep"
        Whether columns that no row holds get weight 0, or the smooth form's weight of a document frequency of 0.

    Returns
    -------
    ndarray of float64, shape (d,)
        The factor of each column.

    Examples
    --------
    >>> inverse_document_frequency(np.array([3, 0]), 3).round(3)
    array([1.   , 2.386])
    """
    frequency = np.asarray(document_frequency)
    added = 1.0 if smooth else 0.0
    weights = np.log((added + n_rows) / np.maximum(added + frequency, 1.0)) + 1.0
    return np.where(frequency > 0, weights, 0.0) if unseen == "drop" or not smooth else np.asarray(weights)


def _transformed(data: FloatArray, tf: TermFrequency) -> FloatArray:
    if tf == "count":
        return np.array(data)
    if tf == "binary":
        return np.asarray(data != 0, dtype=data.dtype)
    if tf == "sqrt":
        return np.asarray(np.sign(data) * np.sqrt(np.abs(data)))
    if tf == "log":
        return np.asarray(np.sign(data) * np.log1p(np.abs(data)))
    if tf == "sublinear":  # the log of a stored zero would be infinite
        return np.asarray(np.sign(data) * (1 + np.log(np.where(data == 0, 1, np.abs(data)))))
    raise ValueError(f"tf is {tf!r}, but it must be 'count', 'binary', 'sqrt', 'log' or 'sublinear'")


def _columns_of(rows: CSRRows, columns: NDArray[np.int64]) -> CSRRows:
    """Keep and renumber columns by one look-up an entry; SciPy's own indexing sorts for each block."""
    # Entries before each one that stay: at the old row pointers, these are the new ones. O(nnz + d), order unchanged.
    number = np.full(rows.shape[1], -1, dtype=np.int32)
    number[columns] = np.arange(len(columns), dtype=np.int32)
    new = number[rows.indices]
    keep = new >= 0
    kept_before = np.concatenate([[0], np.cumsum(keep)])
    indptr = kept_before[rows.indptr].astype(rows.indptr.dtype)
    return sparse.csr_array((rows.data[keep], new[keep], indptr), shape=(rows.shape[0], len(columns)))
