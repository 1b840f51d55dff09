"""A CSR matrix that AnnData wrote, opened as a store: slices of it are read, nothing is converted."""

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import dask.array as da
import numpy as np
import zarr
from numpy.typing import NDArray
from scipy import sparse

from dspectral.engine import summarize
from dspectral.linalg.block_sums import energy_of, total_of
from dspectral.linalg.runs import cut_runs
from dspectral.store.arrays import Location, StoreError
from dspectral.store.facts import anndata_card
from dspectral.store.opened import OpenedCounts, read_lazily
from dspectral.types import CSRRows

BLOCK_BYTES = 32 << 20
"""Most bytes of a block in memory, unless one row is longer."""
ENTRY_BYTES = 8
"""Bytes of an entry: a float32 and an int32."""


class RowSlice(NamedTuple):
    """Rows of a matrix that are read as one block.

    Attributes
    ----------
    start, stop : int
        First row, and the row behind the last.
    first, last : int
        First entry of these rows, and the entry behind their last.
    n_columns : int
        Number of columns of the matrix.
    """

    start: int
    stop: int
    first: int
    last: int
    n_columns: int


class ColumnTotals(NamedTuple):
    """Sums over rows.

    Attributes
    ----------
    column_sums : ndarray of float64, shape (n_columns,)
        Sum of each column.
    document_frequency : ndarray of int64, shape (n_columns,)
        Number of rows in which each column is not zero.
    energy : float
        Sum of squares of all entries.
    """

    column_sums: NDArray[np.float64]
    document_frequency: NDArray[np.int64]
    energy: float

    @classmethod
    def of(cls, rows: CSRRows) -> Self:
        """Summarize one block; NaN and infinity raise a ValueError."""
        frequency = np.bincount(rows.indices, minlength=rows.shape[1])
        return cls(total_of(rows), frequency, energy_of(rows))

    def merge(self, *others: Self) -> Self:
        """Return the sums over all rows."""
        sums, frequencies, energies = zip(self, *others, strict=True)
        return type(self)(np.add.reduce(sums), np.add.reduce(frequencies), math.fsum(energies))


@dataclass(frozen=True, eq=False, repr=False)
class AnnDataCounts(OpenedCounts):
    """The matrix ``X`` of an AnnData file in Zarr, as blocks of rows.

    Attributes
    ----------
    where : Location
        The place of the file.
    slices : tuple of RowSlice
        The rows of each block.
    nnz : int
        Number of stored entries.
    n_columns : int
        Number of columns.

    Notes
    -----
    The first of ``column_sums``, ``document_frequency`` and ``energy`` to be asked for takes one pass over
    the rows, which finds all three. AnnData writes no checksums: damage shows only where it breaks the
    structure.
    """

    where: Location
    slices: tuple[RowSlice, ...]
    nnz: int
    n_columns: int

    def __repr__(self) -> str:
        n_rows, n_columns = self.shape
        size = f"{n_rows} x {n_columns}, {self.nnz} entries in {self.n_blocks} blocks"
        return f"AnnDataCounts({self.where.url!r}: {size})"

    def _repr_html_(self) -> str:
        return anndata_card(self)

    @property
    def counts(self) -> da.Array:
        """Dask array of the rows: CSR blocks of known sizes, one task a block, nothing read yet."""
        return read_lazily(partial(read_slice, self.where), self.slices, self.block_rows, self.n_columns)

    @property
    def block_rows(self) -> list[int]:
        """Number of rows of each block."""
        return [piece.stop - piece.start for piece in self.slices]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return sum(self.block_rows), self.n_columns

    @cached_property
    def _totals(self) -> ColumnTotals:
        return summarize(self, of=ColumnTotals.of, name="total")

    @property
    def column_sums(self) -> NDArray[np.float64]:
        """Sum of each column, shape (n_columns,): one pass."""
        return self._totals.column_sums

    @property
    def document_frequency(self) -> NDArray[np.int64]:
        """Number of rows in which each column is not zero, shape (n_columns,): one pass."""
        return self._totals.document_frequency

    @property
    def energy(self) -> float:
        """Sum of squares of all entries: one pass."""
        return self._totals.energy

    @property
    def provenance(self) -> dict[str, Any]:
        """Origin of the counts: the URL of the file."""
        return {"anndata": self.where.url}

    @property
    def hashing(self) -> None:
        """None: it is not known how n-grams became columns."""

    @property
    def vocabulary(self) -> None:
        """The n-grams behind the columns: not known."""


def open_anndata(where: Location, block_bytes: int = BLOCK_BYTES) -> AnnDataCounts:
    """Open the matrix ``X`` of an AnnData file; its row pointers are read, which take 4 or 8 bytes a row.

    Parameters
    ----------
    where : Location
        The place of the file.
    block_bytes : int, default=33554432
        Most bytes of a block in memory, unless one row is longer.

    Returns
    -------
    AnnDataCounts
        The matrix, cut into blocks.

    Raises
    ------
    StoreError
        If ``X`` is missing, or is not a CSR matrix.
    """
    attributes = _attributes_of_matrix(where)
    if attributes.get("encoding-type") != "csr_matrix":
        kind = attributes.get("encoding-type", "not there")
        raise StoreError(
            f"X of {where.url} is {kind}, but must be a csr_matrix: "
            "set adata.X = scipy.sparse.csr_matrix(adata.X) and write it again"
        )
    n_rows, n_columns = attributes["shape"]
    # Read here, because the pointers alone say how many rows fit a block; they also show a damaged file early.
    indptr = np.asarray(_part(where, "indptr")[:])
    if len(indptr) != n_rows + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise StoreError(f"X of {where.url}: indptr does not fit its {n_rows} rows; write it again")
    if not n_rows:
        raise StoreError(f"X of {where.url} has no rows")
    slices = tuple(
        RowSlice(start, stop, int(indptr[start]), int(indptr[stop]), n_columns)
        for start, stop in cut_runs(np.diff(indptr), block_bytes // ENTRY_BYTES)
    )
    return AnnDataCounts(where, slices, int(indptr[-1]), n_columns)


def read_slice(where: Location, piece: RowSlice) -> CSRRows:
    """Read rows as float32, their columns sorted, duplicates summed and zeros dropped.

    Parameters
    ----------
    where : Location
        The place of the file.
    piece : RowSlice
        The rows to read, and where their entries are.

    Returns
    -------
    csr_array of float32, shape (stop - start, n_columns)
        The rows; only the chunks that hold their entries are read.

    Raises
    ------
    StoreError
        If the parts of ``X`` are missing or do not fit together; the message names store and rows.
    """
    rows_of = f"X of {where.url}, rows {piece.start} to {piece.stop}"
    entries = slice(piece.first, piece.last)
    # Zarr reads the chunks that hold these entries and no others: a chunk that two blocks share is read twice.
    try:
        indptr = np.asarray(_part(where, "indptr")[piece.start : piece.stop + 1]) - piece.first
        indices = np.asarray(_part(where, "indices")[entries])
        data = np.asarray(_part(where, "data")[entries]).astype(np.float32)
    except (ValueError, RuntimeError) as error:
        raise StoreError(f"{rows_of}: {error}") from error
    # There are no checksums: an index beyond the columns would make SciPy read memory that is not the array's.
    fits = len(indices) == len(data) == piece.last - piece.first
    if not fits or (len(indices) and not 0 <= indices.min() <= indices.max() < piece.n_columns):
        raise StoreError(f"{rows_of}: indices and data do not fit its {piece.n_columns} columns")
    shape = (piece.stop - piece.start, piece.n_columns)
    rows = sparse.csr_array((data, indices.astype(np.int32), indptr.astype(np.int32)), shape=shape)
    rows.sum_duplicates()  # sorts, too
    rows.eliminate_zeros()
    return rows


def _attributes_of_matrix(where: Location) -> dict[str, Any]:
    """Return the attributes of ``X``, whether it is an array or a group."""
    # Consolidated metadata are a copy that other programs may not have brought up to date.
    root = zarr.open_group(where.open(), mode="r", zarr_format=None, use_consolidated=False)
    return dict(root["X"].attrs.asdict()) if "X" in root else {}


def _part(where: Location, part: str) -> "zarr.Array[Any]":
    """Open an array of ``X``."""
    try:
        return zarr.open_array(where.open(), path=f"X/{part}", mode="r", zarr_format=None)
    except FileNotFoundError as error:
        raise StoreError(f"X of {where.url}: {part} is missing; write it again") from error
