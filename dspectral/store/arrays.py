"""Where a store is, and its arrays: compressed, each chunk with a checksum, damage named when they are read."""

from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import fsspec
import numpy as np
import zarr
import zarr.errors
from numpy.typing import NDArray
from zarr.abc.store import Store
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.storage import FsspecStore, LocalStore

from dspectral.engine.unseen import not_seen

CHUNK = 16 << 20
"""Number of entries of a chunk: an array is one chunk unless it is very large."""
# Measured on hashed n-grams of novels, one core (ratio, MB/s encoded, MB/s decoded): column indices, lz4 with
# bytes shuffled 1.9, 1540, 2990, zstd 1.9, 530, 1080; values, lz4 with bits shuffled 8.5, 660, 2670.
INTEGERS = BloscCodec(cname="lz4", clevel=5, shuffle="shuffle")
VALUES = BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle")


class StoreError(ValueError):
    """A store, or a block of one, is missing, unfinished or damaged; the message names it."""


class Location(NamedTuple):
    """The place of a Zarr store: all that a task needs to open it.

    Attributes
    ----------
    url : str
        A local path, or any URL that fsspec knows.
    options : tuple of (str, object), default=()
        Storage options of the file system, as pairs.
    """

    url: str
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, url: str, storage_options: dict[str, Any] | None = None) -> "Location":
        """Return the place that a user named.

        Parameters
        ----------
        url : str
            A local path, which is made absolute because workers have directories of their own, or a URL.
        storage_options : dict, optional
            Options of the file system.

        Returns
        -------
        Location
            The place, which pickles.
        """
        url = str(url)
        place = url if _is_url(url) else str(Path(url).absolute())
        # Sorted, so that the same options in another order make an equal place.
        return cls(place, tuple(sorted((storage_options or {}).items())))

    def open(self, *, read_only: bool = True) -> Store:
        """Open the Zarr store.

        Parameters
        ----------
        read_only : bool, default=True
            Whether writing is refused.

        Returns
        -------
        zarr.abc.store.Store
            The store; nothing is read yet.
        """
        # Zarr's own local store writes a file aside and renames it, so that a killed writer leaves no half file.
        if _is_url(self.url):
            return FsspecStore.from_url(self.url, storage_options=dict(self.options), read_only=read_only)
        return LocalStore(self.url, read_only=read_only)

    def attributes(self, path: str = "", *, zarr_format: Literal[2, 3] | None = 3) -> dict[str, Any] | None:
        """Return the attributes of a group.

        Parameters
        ----------
        path : str, default=""
            The group's path inside the store; the root by default.
        zarr_format : {2, 3, None}, default=3
            The format that the group must have; None takes both.

        Returns
        -------
        dict or None
            The attributes; None where there is no group.

        Raises
        ------
        StoreError
            If there is something else, or the group's metadata is damaged.
        """
        try:
            # Consolidated metadata is a copy of an earlier moment, in which a mark that was written since is missing.
            group = zarr.open_group(
                self.open(), path=path, mode="r", zarr_format=zarr_format, use_consolidated=False
            )
        except FileNotFoundError:
            return None
        except ValueError as error:  # of Zarr and of JSON
            at = f"{self.url}, {path}" if path else self.url
            raise StoreError(f"{at} is not a group of Zarr with readable metadata: {error}") from error
        return dict(group.attrs.asdict())

    def mark(self, path: str, attributes: dict[str, Any]) -> None:
        """Add attributes to a group in one write; the group is made if need be.

        Parameters
        ----------
        path : str
            The group's path inside the store.
        attributes : dict
            Names and values that JSON knows.
        """
        group = zarr.open_group(self.open(read_only=False), path=path, mode="a", zarr_format=3)
        group.update_attributes(attributes)  # one write, where attrs.update is one for each key

    def names(self, path: str = "") -> list[str]:
        """List what lies directly under a path, in alphabetical order.

        Zarr's own listing opens every member and warns of whatever is none, such as the ``.partial`` files that
        its writers leave when they are killed.

        Parameters
        ----------
        path : str, default=""
            The path inside the store; the root by default.

        Returns
        -------
        list of str
            Names of files and folders, metadata files among them; none if there is nothing at the path.
        """
        system, root = fsspec.url_to_fs(self.url, **dict(self.options))
        system.invalidate_cache()  # Zarr writes through another instance
        folder = f"{root.rstrip('/')}/{path}".rstrip("/")
        try:
            found = system.ls(folder, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(one.rstrip("/").rsplit("/", 1)[-1] for one in found)

    def remove(self, *paths: str) -> None:
        """Remove groups or arrays, one after the other, with all that is in them.

        Parameters
        ----------
        *paths : str
            Paths inside the store; where there is nothing, nothing is done.
        """
        root = zarr.open_group(self.open(read_only=False), mode="a", zarr_format=3)
        for path in paths:
            del root[path]


def _is_url(url: str) -> bool:
    return "://" in url or "::" in url


def compressors_of(dtype: np.dtype[Any]) -> list[Any]:
    """Return the codecs of an array: compression that suits its type, then a checksum of the compressed bytes."""
    return [VALUES if dtype.kind == "f" else INTEGERS, Crc32cCodec()]


def write_array(store: Store, path: str, values: NDArray[Any]) -> None:
    """Write a one-dimensional array, compressed, with a crc32c checksum for each chunk.

    Parameters
    ----------
    store : zarr.abc.store.Store
        An opened store that can be written to.
    path : str
        The array's path inside the store; what a write that was cut short left there is replaced.
    values : ndarray, shape (n,)
        Finite numbers; no entry is the largest value of an integer type.
    """
    create = partial(
        zarr.create_array,
        store,
        name=path,
        shape=values.shape,
        dtype=values.dtype,
        chunks=(max(1, min(len(values), CHUNK)),),
        compressors=compressors_of(values.dtype),
        fill_value=_absent(values.dtype),
    )
    try:
        array = create()
    except zarr.errors.ContainsArrayError:  # cut short before; looking first would list all files, each time
        array = create(overwrite=True)
    array[:] = values


def read_array(where: Location, store: Store, block: str, part: str) -> NDArray[Any]:
    """Read an array of :func:`write_array`, checksums verified.

    Parameters
    ----------
    where : Location
        The store's place, for the message.
    store : zarr.abc.store.Store
        The opened store.
    block, part : str
        Path of the group, and name of the array in it.

    Returns
    -------
    ndarray, shape (n,)
        The values.

    Raises
    ------
    StoreError
        If the array is not there, fails its checksum, or lacks a chunk.
    """
    name, remedy = f"store {where.url}, block {block}: {part}", "remove the block and build the store again"
    array, values = load_array(store, f"{block}/{part}", name, remedy)
    # Zarr fills a chunk that is not there with a value that no chunk begins with. One look at each chunk's first
    # entry costs nothing; asking the store which chunks it has would list files, for each array of each block.
    if _is_absent(values[:: array.chunks[0]]).any():
        raise StoreError(f"{name} lacks a chunk; {remedy}")
    return values


def load_array(store: Store, path: str, name: str, remedy: str) -> tuple["zarr.Array[Any]", NDArray[Any]]:
    """Read an array of any shape, and name what is missing or damaged.

    Parameters
    ----------
    store : zarr.abc.store.Store
        The opened store.
    path : str
        The array's path inside the store.
    name, remedy : str
        The array in the words of the message, and what mends it.

    Returns
    -------
    array : zarr.Array
        The array in the store.
    values : ndarray
        Its values; chunks that are not there have the fill value.

    Raises
    ------
    FileNotFoundError
        If the whole store is not there for this process.
    StoreError
        If the array is not there or fails a checksum.
    """
    try:
        array = zarr.open_array(store, path=path, mode="r", zarr_format=3)
        return array, np.asarray(array[...])
    except FileNotFoundError as error:
        if (root := getattr(store, "root", None)) is not None and not Path(root).exists():
            raise not_seen(str(root)) from error
        raise StoreError(f"{name} is missing; {remedy}") from error
    except (ValueError, RuntimeError) as error:
        raise StoreError(f"{name} is damaged ({error}); {remedy}") from error


def _absent(dtype: np.dtype[Any]) -> Any:
    """Return a value that no stored array begins a chunk with."""
    # Values of blocks are finite, and indices, offsets and sums stay below the largest integer of their type.
    return np.nan if dtype.kind == "f" else np.iinfo(dtype).max


def _is_absent(values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    return np.asarray(values == _absent(values.dtype))
