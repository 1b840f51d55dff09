"""Files of AnnData, in Zarr or HDF5, under one roof: groups, arrays and attributes are asked for alike."""

from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import fsspec
import zarr

from dspectral.store.arrays import Location, StoreError

HDF5_ENDINGS = (".h5ad", ".h5", ".hdf5")
"""Endings of HDF5 files; everything else is a folder of Zarr."""


class Elements(Protocol):
    """A group of a file: what those of h5py and of Zarr have in common.

    `attrs`: attributes of the group.
    """

    attrs: MutableMapping[str, Any]

    def __contains__(self, path: str, /) -> bool: ...

    def __getitem__(self, path: str, /) -> Any: ...

    def __len__(self) -> int: ...

    def keys(self) -> Iterable[str]:
        """Return the names of what lies in the group."""
        ...

    def create_group(self, name: str) -> "Elements":
        """Make a group within this one."""
        ...


def is_hdf5(where: Location) -> bool:
    """Report whether a place is an HDF5 file, by the ending of its name."""
    return where.url.lower().endswith(HDF5_ENDINGS)


def is_local(system: fsspec.AbstractFileSystem) -> bool:
    """Report whether a file system is this machine's own."""
    return "file" in ([system.protocol] if isinstance(system.protocol, str) else system.protocol)


@contextmanager
def opened(where: Location, *, write: bool = False) -> Iterator[Any]:
    """Open the root of a file of AnnData."""
    with ExitStack() as stack:
        if is_hdf5(where):
            yield stack.enter_context(_opened_hdf5(where, write=write))
        else:
            yield _opened_zarr(where, write=write)


def element(root: Elements, path: str) -> Any:
    """Return a group or array of a file, or None if it is not there."""
    return root[path] if path in root else None  # noqa: SIM401  groups of Zarr have another get


def reconsolidate(where: Location) -> None:
    """Bring the copy of a Zarr file's metadata up to date, if it has one: readers trust it."""
    if not is_hdf5(where):
        root = zarr.open_group(where.open(), mode="r", zarr_format=None)
        if root.metadata.consolidated_metadata is not None:
            zarr.consolidate_metadata(where.open(read_only=False), zarr_format=root.metadata.zarr_format)


def _opened_zarr(where: Location, *, write: bool) -> Any:
    try:
        # Consolidated metadata are a copy that other programs may not have brought up to date.
        return zarr.open_group(
            where.open(read_only=not write),
            mode="r+" if write else "r",
            zarr_format=None,
            use_consolidated=False,
        )
    except FileNotFoundError as error:
        raise StoreError(f"no AnnData file at {where.url}") from error


@contextmanager
def _opened_hdf5(where: Location, *, write: bool) -> Iterator[Any]:
    h5py = _h5py()
    system, path = fsspec.url_to_fs(where.url, **dict(where.options))
    local = is_local(system)
    if not system.isfile(path):
        raise StoreError(f"no AnnData file at {where.url}")
    if write and not local:
        raise StoreError(
            f"{where.url} is not on this machine's disks, and HDF5 files are changed there alone"
        )
    with ExitStack() as stack:
        try:
            held = path if local else stack.enter_context(system.open(path, "rb"))
            file = stack.enter_context(h5py.File(held, "r+" if write else "r"))
        except OSError as error:
            remedy = ", or is open elsewhere: close it there (adata.file.close())" if write else ""
            raise StoreError(f"{where.url} is no readable HDF5 file{remedy}: {error}") from error
        yield file


def _h5py() -> Any:
    try:
        import h5py  # noqa: PLC0415  an optional extra
    except ImportError as error:
        raise ImportError("HDF5 files of AnnData need h5py: pip install 'dspectral[anndata]'") from error
    return h5py
