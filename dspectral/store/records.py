"""A record in Zarr: JSON attributes beside arrays, replaced at once."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import zarr
import zarr.errors
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec

from dspectral.store.blocks import CHUNK, INTEGERS, VALUES, Location, StoreError


class Record(NamedTuple):
    """What a Zarr group holds.

    Attributes
    ----------
    where : Location
    attributes : dict
        As JSON gives them back.
    """

    where: Location
    attributes: dict[str, Any]

    def array(self, number: int) -> NDArray[Any]:
        """Read an array, its checksums verified.

        Raises
        ------
        StoreError
            If it is not there, fails its checksum, or lacks a chunk.
        """
        name = f"{_folder(self.attributes['generation'])}/{number}"
        damaged = f"{self.where.url}: array {name}"
        try:
            array = zarr.open_array(self.where.open(), path=name, mode="r", zarr_format=3)
            values, lacks = np.asarray(array[...]), array.nchunks - array.nchunks_initialized
        except (FileNotFoundError, zarr.errors.ArrayNotFoundError) as error:
            raise StoreError(f"{damaged} is missing; save it again") from error
        except (ValueError, RuntimeError) as error:
            raise StoreError(f"{damaged} is damaged ({error}); save it again") from error
        if lacks:  # Zarr fills a chunk that is not there with zeros
            raise StoreError(f"{damaged} lacks {lacks} chunk(s); save it again")
        return values


def read_record(where: Location) -> Record | None:
    """Return the attributes of the group at a place, or None where there is no group."""
    try:
        group = zarr.open_group(where.open(), mode="r", zarr_format=3)
    except (FileNotFoundError, zarr.errors.GroupNotFoundError):
        return None
    return Record(where, group.attrs.asdict())


def write_record(where: Location, attributes: dict[str, Any], arrays: Sequence[NDArray[Any]]) -> None:
    """Write arrays, then the attributes that make them count, then remove the arrays of an earlier record.

    Parameters
    ----------
    where : Location
    attributes : dict
        Of what JSON knows; ``generation`` is added.
    arrays : sequence of ndarray

    Notes
    -----
    Cut short at any point, what was there before is still there, whole.
    """
    earlier = read_record(where)
    generation = 0 if earlier is None else earlier.attributes.get("generation", -1) + 1
    store, folder = where.open(read_only=False), _folder(generation)
    for number, values in enumerate(arrays):
        _write(store, f"{folder}/{number}", values)
    group = zarr.open_group(store, mode="a", zarr_format=3)
    group.attrs.put({**attributes, "generation": generation})
    for name in list(group.group_keys()):
        if name != folder:
            del group[name]


def _folder(generation: int) -> str:
    return f"arrays-{generation:04d}"


def _write(store: Any, path: str, values: NDArray[Any]) -> None:
    of_row = max(1, values[:1].size)
    rows = max(1, min(len(values), CHUNK // of_row))
    zarr.create_array(
        store,
        name=path,
        shape=values.shape,
        dtype=values.dtype,
        chunks=(rows, *(max(1, size) for size in values.shape[1:])),
        compressors=[VALUES if values.dtype.kind == "f" else INTEGERS, Crc32cCodec()],
        config={"write_empty_chunks": True},
        overwrite=True,
    )[...] = values
