"""AnnData files written: whole, block by block, or some elements where the file lies."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.array as da
import fsspec
import numpy as np
from dask.system import CPU_COUNT
from numpy.typing import NDArray

from dspectral.store.anndata_files import Elements, element, is_hdf5, is_local, opened, reconsolidate
from dspectral.store.anndata_objects import anndata_module
from dspectral.store.arrays import Location, StoreError

if TYPE_CHECKING:
    from anndata import AnnData

CHUNK_BYTES = 4 << 20
"""Bytes of a chunk of coordinates in Zarr."""


def write_whole(where: Location, adata: "AnnData") -> None:
    """Write an AnnData object, whose Dask arrays are computed block by block."""
    system, path = fsspec.url_to_fs(where.url, **dict(where.options))
    if system.exists(path):
        raise StoreError(f"{where.url} is there already: choose another name, or remove it first")
    hdf5, local = is_hdf5(where), is_local(system)
    if hdf5 and not local:
        raise StoreError(
            f"{where.url} is not on this machine's disks: HDF5 is written there alone, Zarr anywhere"
        )
    # A local file is written aside and renamed, so that a killed writer leaves no half file under the name.
    aside = Location(f"{path}.partial") if local else where
    if local and system.exists(aside.url):
        system.rm(aside.url, recursive=True)
    if hdf5:
        adata.write_h5ad(aside.url)
    else:
        with _zarr_settings():
            adata.write_zarr(aside.open(read_only=False))
    if local:
        Path(aside.url).rename(path)


def shape_of_anndata(where: Location) -> tuple[int, int]:
    """Return the numbers of observations and of variables of an AnnData file."""
    with opened(where) as root:
        if "dspectral" in root.attrs:
            raise StoreError(
                f"{where.url} is a store of dspectral and no file of AnnData: dspectral.io.write_anndata(store, path) "
                "writes one"
            )
        if "obs" not in root or "var" not in root:
            raise StoreError(f"{where.url} has no obs and var: it is not a file that AnnData wrote")
        n_obs, n_vars = (_length(root[axis]) for axis in ("obs", "var"))
        return n_obs, n_vars


def read_element(where: Location, path: str) -> Any:
    """Read an element of an AnnData file into memory."""
    with opened(where) as root:
        found = element(root, path)
        return None if found is None else anndata_module().io.read_elem(found)


def write_elements(where: Location, elements: Mapping[str, Any]) -> None:
    """Write elements into an AnnData file, one after the other; those of the same names are replaced."""
    for path, value in elements.items():
        if isinstance(value, da.Array):
            _write_blocks(where, path, value)
        else:
            group, _, name = path.partition("/")
            with opened(where, write=True) as root, _zarr_settings():
                anndata_module().io.write_elem(_group(root, group), name, value)
    with _zarr_settings():
        reconsolidate(where)


@contextmanager
def _zarr_settings() -> Iterator[None]:
    """Choose Zarr's format 3 without shards, as AnnData reads it; it warns of what will be its own choice."""
    chosen = anndata_module().settings.override(zarr_write_format=3, auto_shard_zarr_v3=False)
    with chosen, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Consolidated metadata is currently not part")
        yield


def _write_blocks(where: Location, path: str, rows: da.Array) -> None:
    """Write a Dask array of dense blocks, shape (n, k)."""
    group, _, name = path.partition("/")
    n_rows, width = rows.shape
    with opened(where, write=True) as root:
        parent = _group(root, group)
        if name in parent:
            del parent[name]
        if is_hdf5(where):
            array = parent.create_dataset(name, shape=rows.shape, dtype=rows.dtype)
        else:
            tall = max(1, CHUNK_BYTES // (width * rows.dtype.itemsize))
            array = parent.create_array(
                name, shape=rows.shape, dtype=rows.dtype, chunks=(min(tall, n_rows), width)
            )
        array.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
    # The rows may be read from this very file, and HDF5 does not write what is open for reading: it is open between
    # computations alone.
    for start, stop, computed in _computed(rows):
        with opened(where, write=True) as root:
            root[path][start:stop] = computed


def _computed(rows: da.Array) -> Iterator[tuple[int, int, NDArray[Any]]]:
    """Yield first row, the one behind the last, and values of some blocks at a time."""
    starts = [0, *accumulate(rows.chunks[0])]
    # Two blocks for each core: enough to keep all of them busy, few enough for memory.
    for first, last in pairwise([*range(0, rows.numblocks[0], 2 * CPU_COUNT), rows.numblocks[0]]):
        yield starts[first], starts[last], np.asarray(rows.blocks[first:last].compute())


def _group(root: Elements, name: str) -> Any:
    """Return a group of elements, made if the file has none."""
    if name not in root:
        root.create_group(name).attrs.update({"encoding-type": "dict", "encoding-version": "0.1.0"})
    return root[name]


def _length(frame: Elements) -> int:
    """Return the number of rows of a data frame in a file."""
    if not hasattr(frame, "keys") or "_index" not in frame.attrs:  # a table of AnnData 0.6 and older
        return len(frame)
    index = frame[frame.attrs["_index"]]
    # Strings that may be missing are a group of values and mask.
    return int((index if hasattr(index, "shape") else index["values"]).shape[0])
