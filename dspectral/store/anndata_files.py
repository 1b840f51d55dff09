"""AnnData files in Zarr or HDF5: open and write files, read and update single elements, and build AnnData objects."""

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import zarr
from dask.system import CPU_COUNT
from scipy import sparse

from dspectral.store.location import Location, StoreError, is_local

if TYPE_CHECKING:
    from anndata import AnnData

HDF5_ENDINGS = (".h5ad", ".h5", ".hdf5")
"""Name endings of HDF5 files; all other paths are Zarr groups."""
CHUNK_BYTES = 4 << 20
"""Bytes of a chunk of coordinates in Zarr, and of a block of dense rows."""


def import_optional(name: str) -> Any:
    """Import a module of the optional extra ``anndata``; raise ImportError with the command that installs it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"AnnData needs {name}: pip install 'dspectral[anndata]'") from error


def is_hdf5(location: Location) -> bool:
    """Report whether a location is an HDF5 file, by the ending of its name."""
    return location.url.lower().endswith(HDF5_ENDINGS)


@contextmanager
def open_anndata_root(location: Location, *, writable: bool = False) -> Iterator[Any]:
    """Open an AnnData file and yield its root group."""
    if is_hdf5(location):
        with _open_hdf5(location, writable=writable) as root:
            yield root
        return
    try:
        # Consolidated metadata may be outdated.
        root = zarr.open_group(
            location.open(read_only=not writable),
            mode="r+" if writable else "r",
            zarr_format=None,
            use_consolidated=False,
        )
    except FileNotFoundError as error:
        raise StoreError(f"no AnnData file at {location.url}: check the path") from error
    yield root


def get_element(root: Any, path: str) -> Any:
    """Return a group or array of a file; None if missing. Raise StoreError if HDF5 stores it in another file."""
    element = root[path] if path in root else None  # noqa: SIM401  groups of Zarr have another get
    if isinstance(root, zarr.Group) or element is None:
        return element
    inside = {path: element}
    if not is_array(element):
        element.visititems(inside.__setitem__)
    for name, part in inside.items():
        if is_array(part) and (part.external or part.is_virtual):
            raise StoreError(
                f"{name} of {root.file.filename} is stored in another file: write its values into this file"
            )
    return element


def is_array(element: object) -> bool:
    """Report whether an element of a file is an array, and not a group or missing."""
    return hasattr(element, "dtype")


@dataclass(frozen=True)
class DenseMatrix:
    """Dense matrix of an AnnData file, for ``dask.array.from_array``; the file is opened for each block."""

    location: Location
    path: str
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    ndim = 2

    def __getitem__(self, index: object) -> Any:
        """Read rows into memory."""
        with open_anndata_root(self.location) as root:
            return np.asarray(root[self.path][index])


def dense_matrix(location: Location, layer: str | None, *, path: str | None = None) -> da.Array | None:
    """Return a dense matrix, by default X, as a Dask array of shape (n_obs, n_vars); None if it is not dense."""
    with open_anndata_root(location) as root:
        path = path or matrix_path(root, layer)
        element = None if path is None else get_element(root, path)
        if path is None or element is None or not is_array(element):
            return None
        matrix = DenseMatrix(location, path, element.shape, np.dtype(element.dtype))
    tall = min(matrix.shape[0], max(1, CHUNK_BYTES // max(1, matrix.shape[1] * matrix.dtype.itemsize)))
    rows: da.Array = da.from_array(matrix, chunks=(max(1, tall), -1), asarray=False)
    return rows


def matrix_path(root: Any, layer: str | None) -> str | None:
    """Return the path of a matrix in a file, None if there is no such layer."""
    if layer is None:
        return "X"
    paths = (f"layers/{layer}", *(("raw/X",) if layer == "raw" else ()))
    return next((path for path in paths if path in root), None)


@contextmanager
def _open_hdf5(location: Location, *, writable: bool) -> Iterator[Any]:
    h5py = import_optional("h5py")
    file_system, path = location.open_file_system()
    local = is_local(file_system)
    if not file_system.isfile(path):
        raise StoreError(f"no AnnData file at {location.url}: check the path")
    if writable and not local:
        raise StoreError(
            f"{location.url} is remote, but HDF5 files can be changed on a local disk only: copy the file first"
        )
    try:
        file = h5py.File(path if local else file_system.open(path, "rb"), "r+" if writable else "r")
    except OSError as error:
        remedy = ", or is open elsewhere: close it there (adata.file.close())" if writable else ""
        raise StoreError(f"{location.url} is not a readable HDF5 file{remedy}: {error}") from error
    with file:
        # External links would open arbitrary files. Link types 0 and 1 are internal.
        if other := file.id.links.visit(lambda name, link: name if link.type > 1 else None, info=True):
            raise StoreError(f"{location.url}: {other.decode()} links to another file: write its values into this file")
        yield file


def write_anndata_file(location: Location, adata: "AnnData") -> None:
    """Write an AnnData object; its Dask arrays are computed block by block."""
    file_system, path = location.open_file_system()
    if file_system.exists(path):
        raise StoreError(f"{location.url} exists already: choose another path, or remove it first")
    hdf5, local = is_hdf5(location), is_local(file_system)
    if hdf5 and not local:
        raise StoreError(
            f"{location.url} is remote, but HDF5 is written to local disks only: choose a local path, or .zarr"
        )
    # A local file is written to a temporary name and renamed, so that a killed writer leaves no partial file.
    aside = Location(f"{path}.partial") if local else location
    if local and file_system.exists(aside.url):
        file_system.rm(aside.url, recursive=True)
    with _use_zarr_settings():
        if hdf5:
            adata.write_h5ad(aside.url)
        else:
            adata.write_zarr(aside.open(read_only=False))
    if local:
        Path(aside.url).rename(path)


def read_anndata_shape(location: Location) -> tuple[int, int]:
    """Return the numbers of observations and of variables of an AnnData file."""
    with open_anndata_root(location) as root:
        if "dspectral" in root.attrs:
            raise StoreError(
                f"{location.url} is a store of dspectral, not an AnnData file: write one with "
                "dspectral.io.write_anndata(store, path)"
            )
        if "obs" not in root or "var" not in root:
            raise StoreError(f"{location.url} has no obs and var: pass a file written by AnnData")
        n_obs, n_vars = (_count_rows(root[axis]) for axis in ("obs", "var"))
        return n_obs, n_vars


def read_variable_names(location: Location, matrix: str = "X") -> Any:
    """Return the names of the variables of a matrix; None if it has none."""
    with open_anndata_root(location) as root:
        table = None if matrix.startswith("obsm/") else get_element(root, "raw/var" if matrix == "raw/X" else "var")
        return None if table is None else import_optional("anndata").io.read_elem(table[table.attrs["_index"]])


def read_element(location: Location, path: str) -> Any:
    """Read an element of an AnnData file into memory; None if it is missing."""
    with open_anndata_root(location) as root:
        element = get_element(root, path)
        return None if element is None else import_optional("anndata").io.read_elem(element)


def create_groups(location: Location, groups: Iterable[str]) -> None:
    """Create the parent groups of elements; raises an error before their computation if the file is not writable."""
    with open_anndata_root(location, writable=True) as root:
        for name in groups:
            group = _require_group(root, name)
            if not is_hdf5(location):
                group.update_attributes({})  # checks that the file is writable


def write_elements(location: Location, elements: Mapping[str, Any]) -> None:
    """Write elements into an AnnData file; replace existing ones."""
    for path, value in elements.items():
        if isinstance(value, da.Array):
            _write_blocks(location, path, value)
        else:
            with open_anndata_root(location, writable=True) as root:
                write_into(root, {path: value})
    if is_hdf5(location):
        return
    root = zarr.open_group(location.open(), mode="r", zarr_format=None)
    if root.metadata.consolidated_metadata is not None:
        with _use_zarr_settings():
            zarr.consolidate_metadata(location.open(read_only=False), zarr_format=root.metadata.zarr_format)


def write_into(root: object, elements: Mapping[str, Any]) -> None:
    """Write in-memory elements into an open AnnData file."""
    for path, value in elements.items():
        group, _, name = path.rpartition("/")
        parent = _require_group(root, group)
        with _use_zarr_settings():
            import_optional("anndata").io.write_elem(parent, name, value)
        if "column-order" in parent.attrs and name not in parent.attrs["column-order"]:
            parent.attrs["column-order"] = [*parent.attrs["column-order"], name]


@contextmanager
def _use_zarr_settings() -> Iterator[None]:
    """Context for AnnData's writers: Zarr format 3 without shards, without their warnings."""
    settings = import_optional("anndata").settings
    with warnings.catch_warnings():
        for message in ("Consolidated metadata is currently not part", "This setting will be removed in 0.14"):
            warnings.filterwarnings("ignore", message=message)
        with settings.override(zarr_write_format=3, auto_shard_zarr_v3=False):
            yield


def _write_blocks(location: Location, path: str, rows: da.Array) -> None:
    """Write a Dask array of dense blocks, shape (n, k)."""
    group, _, name = path.rpartition("/")
    n_rows, width = rows.shape
    with open_anndata_root(location, writable=True) as root:
        parent = _require_group(root, group)
        if name in parent:
            del parent[name]
        if is_hdf5(location):
            array = parent.create_dataset(name, shape=rows.shape, dtype=rows.dtype)
        else:
            tall = max(1, CHUNK_BYTES // (width * rows.dtype.itemsize))
            array = parent.create_array(name, shape=rows.shape, dtype=rows.dtype, chunks=(min(tall, n_rows), width))
        array.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
    starts = [0, *accumulate(rows.chunks[0])]
    # Two blocks per core keep all cores busy and bound memory. The rows may be read from the same file. HDF5 cannot
    # write a file that is open for reading, so it is reopened for each write.
    for first, last in pairwise([*range(0, rows.numblocks[0], 2 * CPU_COUNT), rows.numblocks[0]]):
        computed = np.asarray(rows.blocks[first:last].compute())
        with open_anndata_root(location, writable=True) as root:
            root[path][starts[first] : starts[last]] = computed


def _require_group(root: Any, path: str) -> Any:
    """Return a group of elements; create it if it is missing."""
    for name in path.split("/"):
        if get_element(root, name) is None:
            root.create_group(name).attrs.update({"encoding-type": "dict", "encoding-version": "0.1.0"})
        root = root[name]
    return root


def _count_rows(frame: Any) -> int:
    """Return the number of rows of a data frame in a file."""
    index = frame[frame.attrs["_index"]]
    # Nullable strings are a group of values and mask.
    return int((index if is_array(index) else index["values"]).shape[0])


def as_anndata(
    rows: da.Array,
    *,
    labels: da.Array | None,
    terms: Sequence[str] | None,
    provenance: dict[str, Any],
    lazy: bool,
) -> Any:
    """Return rows as an AnnData object. Shapes: `rows` (n_rows, n_columns), `labels` (n_rows, n_labels)."""
    matrices = {"X": as_csr_matrix_blocks(rows)}
    if labels is not None:
        matrices["labels"] = as_csr_matrix_blocks(labels)
    if not lazy:
        matrices = dict(zip(matrices, da.compute(*matrices.values()), strict=True))
    return import_optional("anndata").AnnData(
        X=matrices.pop("X"),
        var=None if terms is None else {"var_names": list(terms)},
        obsm=matrices,
        uns={"dspectral": {"provenance": json.dumps(provenance, default=str)}},
    )


def as_csr_matrix_blocks(rows: da.Array) -> da.Array:
    """Convert the blocks of a Dask array to ``csr_matrix``, because scanpy does not accept ``csr_array``."""
    meta = sparse.csr_matrix((0, 0), dtype=rows.dtype)
    return rows.map_blocks(sparse.csr_matrix, dtype=rows.dtype, meta=meta)
