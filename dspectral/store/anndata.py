"""Sparse matrices of AnnData files, opened as count matrices and read in blocks of rows without conversion."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple
from warnings import warn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.linalg.panels import split_by_size
from dspectral.store.anndata_files import get_element, matrix_path, open_anndata_root, read_variable_names
from dspectral.store.blocks import to_stored_dtype
from dspectral.store.columns import VARIABLES, Columns, columns_from_names
from dspectral.store.location import Location, StoreError, redact_urls
from dspectral.store.rows import ENTRY_BYTES, BlockReader, LazyTotalsMixin
from dspectral.types import CSRRows, Int64s

BLOCK_BYTES = 32 << 20
"""Largest block in memory, in bytes, unless a single row is larger."""
COLUMN_BLOCK_BYTES = 64 << 20
"""Largest block of a CSC matrix, in bytes; each block reads the whole matrix."""
WHOLE_GROUP = "/"
"""Path of a matrix in a group of Zarr that holds nothing else."""
CSC_READ_ENTRIES = 1 << 20
"""Number of entries of a CSC matrix that are read at once."""


class RowSlice(NamedTuple):
    """Rows ``start`` to ``stop - 1`` of a matrix, with entries ``first`` to ``last - 1`` in row order, as one block."""

    start: int
    stop: int
    first: int
    last: int
    n_columns: int


@dataclass(frozen=True, eq=False, repr=False)
class AnnDataCounts(LazyTotalsMixin):
    """A matrix of an AnnData file in Zarr or HDF5, as blocks of rows.

    Attributes
    ----------
    location : Location
        Path or URL of the file.
    slices : tuple of RowSlice
        The rows of each block.
    nnz : int
        Number of stored entries.
    n_columns : int
        Number of columns.
    path : str, default="X"
        Path of the matrix in the file: ``"X"``, ``"layers/NAME"``, ``"obsm/NAME"``, ``"raw/X"``, or ``"/"`` for all.
    by_column : bool, default=False
        Whether the matrix is stored as CSC.

    Notes
    -----
    Each block of a CSC matrix reads all of its entries.

    The first access to ``column_sums``, ``document_frequency`` or ``energy`` computes all three in one pass.
    """

    location: Location
    slices: tuple[RowSlice, ...]
    nnz: int
    n_columns: int
    path: str = "X"
    by_column: bool = False

    def __repr__(self) -> str:
        n_rows, n_columns = self.shape
        size = f"{n_rows} x {n_columns}, {self.nnz} entries in {self.n_blocks} blocks"
        return f"AnnDataCounts({redact_urls(self.location.url)!r}, {self.path}: {size})"

    @property
    def block_reader(self) -> BlockReader:
        """The sources of its blocks."""
        n_bytes = [ENTRY_BYTES * (row_slice.last - row_slice.first) for row_slice in self.slices]
        read = read_slice_by_columns if self.by_column else read_slice
        return BlockReader(partial(read, self.location, path=self.path), self.slices, n_bytes)

    @property
    def block_rows(self) -> list[int]:
        """Number of rows of each block."""
        return [row_slice.stop - row_slice.start for row_slice in self.slices]

    @cached_property
    def column_identity(self) -> Columns | None:
        """Names of the variables, read on first access."""
        names = read_variable_names(self.location, self.path)
        return None if names is None or len(names) != self.n_columns else columns_from_names(VARIABLES, names)

    @property
    def provenance(self) -> dict[str, Any]:
        """Origin of the counts: URL of the file and path of the matrix."""
        return {"anndata": self.location.url, "matrix": self.path}


def open_anndata(
    location: Location, block_bytes: int | None = None, *, layer: str | None = None, path: str | None = None
) -> AnnDataCounts:
    """Open a matrix of an AnnData file; reads its row pointers, or counts the entries of each row of a CSC matrix."""
    with open_anndata_root(location) as root:
        path = path or matrix_path(root, layer)
        if path is None:
            raise StoreError(f"{location.url} has no layer {layer!r}: {_describe_layers(root)}")
        name = _get_matrix_label(location, path)
        kind, (n_rows, n_columns) = _read_kind_and_shape(root, path, name)
        by_column = kind == "csc_matrix"
        # The pointers give the number of rows that fit a block, and detect a damaged file early.
        indptr = np.asarray(_get_array(root, path, "indptr", name)[:])
        n_pointers = (n_columns if by_column else n_rows) + 1
        if len(indptr) != n_pointers or indptr[0] != 0 or (np.diff(indptr) < 0).any():
            raise StoreError(f"{name}: indptr must rise from 0 and have {n_pointers} entries; write the file again")
        if not n_rows:
            raise StoreError(f"{name} has no rows, but must have at least one")
        if by_column:
            indptr = _count_row_pointers(_get_array(root, path, "indices", name), int(indptr[-1]), n_rows, name)
    block_bytes = block_bytes or (COLUMN_BLOCK_BYTES if by_column else BLOCK_BYTES)
    slices = tuple(
        RowSlice(start, stop, int(indptr[start]), int(indptr[stop]), n_columns)
        for start, stop in split_by_size(np.diff(indptr), block_bytes // ENTRY_BYTES)
    )
    if by_column and len(slices) > 1:
        warn(
            f"{name} is a csc_matrix, and each of its {len(slices)} blocks of rows reads the whole matrix: write it "
            "as a csr_matrix to read each entry once",
            stacklevel=2,
        )
    return AnnDataCounts(location, slices, int(indptr[-1]), n_columns, path, by_column)


def _count_row_pointers(indices: Any, nnz: int, n_rows: int, name: str) -> Int64s:
    """Count the row pointers of a CSC matrix, shape (n_rows + 1,)."""
    lengths = np.zeros(n_rows, dtype=np.int64)
    for first in range(0, nnz, CSC_READ_ENTRIES):
        rows = np.asarray(indices[first : min(first + CSC_READ_ENTRIES, nnz)])
        if not 0 <= rows.min(initial=0) <= rows.max(initial=0) < n_rows:
            raise StoreError(f"{name}: indices must be at least 0 and below {n_rows}, its rows; write the file again")
        lengths += np.bincount(rows, minlength=n_rows)
    return np.concatenate([[0], np.cumsum(lengths)])


def read_slice_by_columns(location: Location, row_slice: RowSlice, path: str = "X") -> CSRRows:
    """Read rows of a CSC matrix like `read_slice`; reads all entries of the matrix."""
    slice_name = f"{_get_matrix_label(location, path)}, rows {row_slice.start} to {row_slice.stop}"
    n_entries, filled = row_slice.last - row_slice.first, 0
    rows, columns = np.empty(n_entries, dtype=np.int32), np.empty(n_entries, dtype=np.int32)
    data = np.empty(n_entries, dtype=np.float32)
    with _annotate_read_errors(slice_name), open_anndata_root(location) as root:
        indptr, numbers, values = (_get_array(root, path, key, slice_name) for key in ("indptr", "indices", "data"))
        indptr = np.asarray(indptr[:])
        # Invariant: arrays hold, up to `filled`, the entries of this block among the first `first` of the matrix.
        for first in range(0, int(indptr[-1]), CSC_READ_ENTRIES):
            run = slice(first, min(first + CSC_READ_ENTRIES, int(indptr[-1])))
            run_rows = np.asarray(numbers[run])
            selected = np.flatnonzero((run_rows >= row_slice.start) & (run_rows < row_slice.stop))
            target_slice = slice(filled, filled + len(selected))
            rows[target_slice] = run_rows[selected] - row_slice.start
            data[target_slice] = _to_float32(np.asarray(values[run])[selected], slice_name)
            columns[target_slice] = np.searchsorted(indptr, first + selected, side="right") - 1
            filled = target_slice.stop
        if filled != n_entries:
            raise StoreError(f"{slice_name}: the file has changed since it was opened; open it again")
        shape = (row_slice.stop - row_slice.start, row_slice.n_columns)
        block = sparse.csr_array((data, (rows, columns)), shape=shape)  # sums duplicates, and checks the columns
    block.eliminate_zeros()
    return block


def open_backed(X: Any) -> Any:
    """Open a backed CSC matrix of AnnData as a count matrix; return every other object unchanged."""
    if getattr(X, "format", None) != "csc" or not hasattr(getattr(X, "group", None), "file"):
        return X
    return open_anndata(Location.from_url(X.group.file.filename), path=X.group.name.strip("/"))


def read_slice(location: Location, row_slice: RowSlice, path: str = "X") -> CSRRows:
    """Read rows as float32 with sorted columns, summed duplicates and no stored zeros."""
    slice_name = f"{_get_matrix_label(location, path)}, rows {row_slice.start} to {row_slice.stop}"
    entries = slice(row_slice.first, row_slice.last)
    # Only the chunks of these entries are read; a chunk shared by two blocks is read twice.
    with _annotate_read_errors(slice_name), open_anndata_root(location) as root:
        indptr = np.asarray(_get_array(root, path, "indptr", slice_name)[row_slice.start : row_slice.stop + 1])
        indices = np.asarray(_get_array(root, path, "indices", slice_name)[entries])
        data = _to_float32(np.asarray(_get_array(root, path, "data", slice_name)[entries]), slice_name)
        shape = (row_slice.stop - row_slice.start, row_slice.n_columns)
        rows = sparse.csr_array((data, indices, indptr - row_slice.first), shape=shape)
        # AnnData has no checksums, and an index out of range would make SciPy read out of bounds.
        rows.check_format()
    rows.sum_duplicates()  # sorts, too
    rows.eliminate_zeros()
    return rows


def _to_float32(data: NDArray[Any], name: str) -> NDArray[Any]:
    """Convert entries to float32; raise StoreError for integers that float32 cannot hold."""
    entries = to_stored_dtype(data, name)
    if data.dtype.kind in "iu" and entries.dtype != np.float32:
        wrong = data[entries.astype(np.float32) != entries][0]
        raise StoreError(
            f"{name}: {wrong} must be at most 16777216, as AnnData files are read as float32: store the matrix exactly "
            "with write_counts(matrix, store)"
        )
    return entries.astype(np.float32, copy=False)


@contextmanager
def _annotate_read_errors(name: str) -> Iterator[None]:
    """Context in which read errors of Zarr and HDF5 become a StoreError that names the rows."""
    try:
        yield
    except StoreError:
        raise
    except (ValueError, RuntimeError, OSError) as error:
        raise StoreError(f"{name}: {error}") from error


def _describe_layers(root: Any) -> str:
    """Return a phrase with the names of the layers of a file."""
    names = sorted(root["layers"].keys()) if "layers" in root else []
    return f"its layers are {', '.join(map(repr, names))}" if names else "it has no layers"


def _get_matrix_label(location: Location, path: str) -> str:
    """Return the label of a matrix for messages, such as ``layers/counts of URL``."""
    return location.url if path == WHOLE_GROUP else f"{path} of {location.url}"


def _read_kind_and_shape(root: object, path: str, name: str) -> tuple[str, tuple[int, int]]:
    """Return the encoding and the shape of a matrix; raise StoreError if it is missing or not sparse."""
    element = get_element(root, path)
    attributes: dict[str, Any] = {} if element is None else dict(element.attrs)
    kind = str(attributes.get("encoding-type", "missing" if element is None else "of unknown encoding"))
    if kind not in ("csr_matrix", "csc_matrix"):
        raise StoreError(
            f"{name} is {kind}, but must be a csr_matrix or csc_matrix: write it as a scipy.sparse.csr_matrix "
            f"({_describe_layers(root)})"
        )
    n_rows, n_columns = map(int, attributes["shape"])
    return kind, (n_rows, n_columns)


def _get_array(root: object, path: str, key: str, name: str) -> Any:
    """Return an open array of the matrix; raise StoreError if it is missing."""
    array = get_element(root, f"{path}/{key}")
    if array is None:
        raise StoreError(f"{name}: {key} is missing; write it again")
    return array
