"""A CSR matrix in a file of AnnData, opened as a store: slices of it are read, nothing is converted."""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dspectral.linalg.panels import cut_runs
from dspectral.store.anndata_files import element, opened, variable_names
from dspectral.store.columns import VARIABLES, Columns, named_columns
from dspectral.store.facts import anndata_card
from dspectral.store.location import Location, StoreError
from dspectral.store.rows import ENTRY_BYTES, Pieces, SummedInPass
from dspectral.types import CSRRows

BLOCK_BYTES = 32 << 20
"""Most bytes of a block in memory, unless one row is longer."""


class RowSlice(NamedTuple):
    """Rows ``start`` to ``stop - 1`` of a matrix, read as one block, with their entries ``first`` to ``last - 1``."""

    start: int
    stop: int
    first: int
    last: int
    n_columns: int


@dataclass(frozen=True, eq=False, repr=False)
class AnnDataCounts(SummedInPass):
    """A matrix of an AnnData file in Zarr or HDF5, as blocks of rows.

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
    path : str, default="X"
        The matrix in the file: ``"X"``, ``"layers/NAME"`` or ``"raw/X"``.

    Notes
    -----
    The first of ``column_sums``, ``document_frequency`` and ``energy`` takes one pass, which finds all three.
    """

    where: Location
    slices: tuple[RowSlice, ...]
    nnz: int
    n_columns: int
    path: str = "X"

    def __repr__(self) -> str:
        n_rows, n_columns = self.shape
        size = f"{n_rows} x {n_columns}, {self.nnz} entries in {self.n_blocks} blocks"
        return f"AnnDataCounts({self.where.url!r}, {self.path}: {size})"

    def _repr_html_(self) -> str:
        return anndata_card(self.where.url, self.shape, self.nnz, self.n_blocks)

    @property
    def pieces(self) -> Pieces:
        """The sources of its blocks."""
        n_bytes = [ENTRY_BYTES * (piece.last - piece.first) for piece in self.slices]
        return Pieces(partial(read_slice, self.where, path=self.path), self.slices, n_bytes)

    @property
    def block_rows(self) -> list[int]:
        """Number of rows of each block."""
        return [piece.stop - piece.start for piece in self.slices]

    @cached_property
    def column_identity(self) -> Columns | None:
        """What the columns are: the names of the variables; read at the first time."""
        names = variable_names(self.where, self.path)
        return None if names is None or len(names) != self.n_columns else named_columns(VARIABLES, names)

    @property
    def provenance(self) -> dict[str, Any]:
        """Origin of the counts: the URL of the file, and the matrix in it."""
        return {"anndata": self.where.url, "matrix": self.path}


def open_anndata(
    where: Location, block_bytes: int = BLOCK_BYTES, *, layer: str | None = None
) -> AnnDataCounts:
    """Open a matrix of an AnnData file; its row pointers are read, which take 4 or 8 bytes a row."""
    with opened(where) as root:
        path = _path_of(root, where, layer)
        name = _named(where, path)
        n_rows, n_columns = map(int, _csr_attributes(root, path, name)["shape"])
        # Read here, because the pointers alone say how many rows fit a block; they also show a damaged file early.
        indptr = np.asarray(_part(root, path, "indptr", name)[:])
    if len(indptr) != n_rows + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise StoreError(f"{name}: indptr does not fit its {n_rows} rows; write it again")
    if not n_rows:
        raise StoreError(f"{name} has no rows")
    slices = tuple(
        RowSlice(start, stop, int(indptr[start]), int(indptr[stop]), n_columns)
        for start, stop in cut_runs(np.diff(indptr), block_bytes // ENTRY_BYTES)
    )
    return AnnDataCounts(where, slices, int(indptr[-1]), n_columns, path)


def read_slice(where: Location, piece: RowSlice, path: str = "X") -> CSRRows:
    """Read rows as float32, their columns sorted, duplicates summed and zeros dropped."""
    rows_of = f"{_named(where, path)}, rows {piece.start} to {piece.stop}"
    entries = slice(piece.first, piece.last)
    # The chunks that hold these entries are read and no others: a chunk that two blocks share is read twice.
    try:
        with opened(where) as root:
            indptr = np.asarray(_part(root, path, "indptr", rows_of)[piece.start : piece.stop + 1])
            indices = np.asarray(_part(root, path, "indices", rows_of)[entries])
            data = np.asarray(_part(root, path, "data", rows_of)[entries]).astype(np.float32)
    except StoreError:
        raise
    except (ValueError, RuntimeError, OSError) as error:
        raise StoreError(f"{rows_of}: {error}") from error
    # There are no checksums: an index beyond the columns would make SciPy read memory that is not the array's.
    fits = len(indices) == len(data) == piece.last - piece.first
    if not fits or (len(indices) and not 0 <= indices.min() <= indices.max() < piece.n_columns):
        raise StoreError(f"{rows_of}: indices and data do not fit its {piece.n_columns} columns")
    shape = (piece.stop - piece.start, piece.n_columns)
    pointers = (indptr - piece.first).astype(np.int32)
    rows = sparse.csr_array((data, indices.astype(np.int32), pointers), shape=shape)
    rows.sum_duplicates()  # sorts, too
    rows.eliminate_zeros()
    return rows


def _path_of(root: Any, where: Location, layer: str | None) -> str:
    """Return where a matrix lies in the file."""
    if layer is None:
        return "X"
    names = sorted(root["layers"].keys()) if "layers" in root else []
    if layer in names:
        return f"layers/{layer}"
    if layer == "raw" and "raw/X" in root:
        return "raw/X"
    there = f"its layers are {', '.join(map(repr, names))}" if names else "it has no layers"
    raise StoreError(f"there is no layer {layer!r} in {where.url}: {there}")


def _named(where: Location, path: str) -> str:
    """Name a matrix as its owner does."""
    layer = path.removeprefix("layers/")
    return f"{path.replace('/', '.') if layer == path else f'layer {layer!r}'} of {where.url}"


def _csr_attributes(root: Any, path: str, name: str) -> dict[str, Any]:
    """Return the attributes of a matrix, which must be CSR."""
    found = element(root, path)
    attributes = {} if found is None else dict(found.attrs)
    kind = attributes.get(
        "encoding-type", "not there" if found is None else "of no encoding that AnnData writes"
    )
    if kind != "csr_matrix":
        layer = path.removeprefix("layers/")
        place = f"adata.{path.replace('/', '.')}" if layer == path else f"adata.layers[{layer!r}]"
        raise StoreError(
            f"{name} is {kind}, but must be a csr_matrix: "
            f"set {place} = scipy.sparse.csr_matrix({place}) and write it again"
        )
    return attributes


def _part(root: Any, path: str, part: str, name: str) -> Any:
    """Return an array of the matrix, open."""
    found = element(root, f"{path}/{part}")
    if found is None:
        raise StoreError(f"{name}: {part} is missing; write it again")
    return found
