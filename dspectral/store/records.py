"""A record in Zarr: JSON attributes beside arrays, replaced at once."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import zarr
from numpy.typing import NDArray
from zarr.abc.store import Store

from dspectral.engine.tasks import retried
from dspectral.store.array_files import CHUNK, compressors_of
from dspectral.store.arrays import digest_of, is_sealed, load_array, sealed
from dspectral.store.location import Location, StoreError, named_when_full

FOLDER = "arrays-"
"""Beginning of the name of the group with a record's arrays; its generation follows."""
UNFINISHED = "dspectral_unfinished"
"""Attribute of a group whose first record is being written: what lies in it is of this library."""


class Record(NamedTuple):
    """The content of a Zarr group: its place, and its attributes as JSON gives them back."""

    where: Location
    attributes: dict[str, Any]

    def array(self, number: int) -> NDArray[Any]:
        """Read an array, its checksums verified."""
        path = f"{_folder(self.attributes['generation'])}/{number}"
        name, remedy = f"{self.where.url}: array {path}", "save it again"
        array, values = load_array(self.where.open(), path, name, remedy)
        # Any number may stand in a record, NaN too: only the store knows which chunks are there.
        if lacks := array.nchunks - array.nchunks_initialized:
            raise StoreError(f"{name} lacks {lacks} chunk(s); {remedy}")
        if self.attributes["digests"][number] != digest_of(values):
            raise StoreError(f"{name} is not what was written; {remedy}")
        return values


def read_record(where: Location) -> Record | None:
    """Return the attributes of the group at a place, or None where there is no group."""
    attributes = where.attributes()
    if attributes is None:
        return None
    # A group of another library has neither of these, and no seal.
    if attributes.keys() & {"generation", UNFINISHED} and not is_sealed(attributes):
        raise StoreError(f"the attributes of {where.url} were changed after they were written; save it again")
    return Record(where, attributes)


def write_record(where: Location, attributes: dict[str, Any], arrays: Sequence[NDArray[Any]]) -> None:
    """Write arrays, then the attributes that make them count, then remove those of an earlier record."""
    earlier = read_record(where)
    generation = earlier.attributes.get("generation", -1) + 1 if earlier is not None else 0
    if earlier is None:
        where.mark("", sealed({UNFINISHED: True}))
    store, folder = where.open(read_only=False), _folder(generation)
    for number, values in enumerate(arrays):
        path = f"{folder}/{number}"
        with named_when_full(f"{where.url}/{path}"):
            retried(_write, store, path, values, what=f"writing {path} of {where.url}")
    # The attributes name the generation of the arrays that count: before this one write they are the old ones, after
    # it the new ones. Only then are the old ones in nobody's way.
    # Digests of the arrays and a seal of everything: a shape or a number that was edited makes another model.
    content = {**attributes, "generation": generation, "digests": [digest_of(values) for values in arrays]}

    def finish() -> None:
        zarr.open_group(store, mode="a", zarr_format=3).attrs.put(sealed(content))

    with named_when_full(where.url):
        retried(finish, what=f"writing the metadata of {where.url}")
    ours = (name for name in where.names() if name.startswith(FOLDER) and name.removeprefix(FOLDER).isdigit())
    where.clear(*(name for name in ours if name != folder))


def _folder(generation: int) -> str:
    return f"{FOLDER}{generation:04d}"


def _write(store: Store, path: str, values: NDArray[Any]) -> None:
    """Write an array of any shape in chunks of whole rows, chunks of zeros too."""
    # Zarr skips chunks of zeros unless told otherwise; then a missing chunk could not be told from them.
    of_row = max(1, values[:1].size)
    rows = max(1, min(len(values), CHUNK // of_row))
    zarr.create_array(
        store,
        name=path,
        shape=values.shape,
        dtype=values.dtype,
        chunks=(rows, *(max(1, size) for size in values.shape[1:])),
        compressors=compressors_of(values.dtype),
        config={"write_empty_chunks": True},
        overwrite=True,
    )[...] = values
