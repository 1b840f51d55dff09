"""Arrays of a store and of models, compressed, each chunk with a checksum; and digests of their content.

A block that was exchanged for another one has right checksums everywhere: its mark repeats a digest of its arrays.
"""

import asyncio
import json
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

import google_crc32c
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.abc.store import Store
from zarr.core.sync import sync

from dspectral.engine.around.retries import not_seen, retried
from dspectral.store.array_files import CHUNK, LARGEST, METADATA, Form, absent, compressors_of, files_of
from dspectral.store.location import Files, LocalFiles, Location, StoreError, named_when_full
from dspectral.types import JSON

R = TypeVar("R")
BLOSC_THREAD_BYTES = 256 << 10
"""Bytes that Blosc packs in one piece, without threads."""
CHUNKS_PER_READ = 4
"""Chunks of a large array that are asked for at once."""

SEAL = "seal"
"""Attribute beside sealed content."""
ARRAYS_PREFIX = "arrays-"
"""Beginning of the name of the group with a record's arrays; its generation follows."""
UNFINISHED = "dspectral_unfinished"
"""Attribute of a group that a save has begun, and of its folders of arrays: they are of this library."""


def write_array(store: Files, path: str, values: NDArray[Any]) -> None:
    """Write a one-dimensional array, compressed, with a crc32c checksum for each chunk. Shapes: `values` (n,)."""
    with named_when_full(f"{store}/{path}"):
        retried(_write_array, store, path, values, what=f"writing {path} of {store}")


def _write_array(store: Files, path: str, values: NDArray[Any]) -> None:
    files = _call_off_main_thread(files_of, values, n_bytes=values.nbytes)
    store.make_groups(path)
    if store.is_there(f"{path}/{METADATA}"):  # a write was cut short
        sync(store.delete_dir(path))
    store.write_files({f"{path}/{name}": content for name, content in files.items()})


def _call_off_main_thread(function: Callable[..., R], *arguments: Any, n_bytes: int) -> R:
    """Call a function that packs or unpacks: in the main thread Blosc would start threads of its own for many bytes."""
    if n_bytes < BLOSC_THREAD_BYTES or threading.current_thread() is not threading.main_thread():
        return function(*arguments)
    return sync(asyncio.to_thread(function, *arguments))


def read_array(where: Location, store: Files, block: str, part: str) -> NDArray[Any]:
    """Read an array of :func:`write_array`, checksums verified. Shapes: returns (n,)."""
    name, remedy = f"store {where.url}, block {block}: {part}", "remove the block and build the store again"
    return retried(_read_array, store, f"{block}/{part}", name, remedy, what=f"reading {name}")


def _read_array(store: Files, path: str, name: str, remedy: str) -> NDArray[Any]:
    if (written := _read_directly(store, path)) is not None:
        return written
    # Zarr says what is wrong, and reads what other programs have written.
    array, values = _read_with_zarr(store, path, name, remedy)
    # Zarr fills a chunk that is not there with a value that no chunk begins with. One look at each chunk's first entry
    # costs nothing; asking the store which chunks it has would list files, for each array of each block.
    first = values[:: array.chunks[0]]
    if (np.isnan(first) if first.dtype.kind == "f" else first == absent(first.dtype)).any():
        raise StoreError(f"{name} lacks a chunk; {remedy}")
    return values


def _read_directly(store: Files, path: str) -> NDArray[Any] | None:
    """Return an array that is there, whole and as :func:`write_array` writes it; None for every other one."""
    try:
        metadata, first = store.read_files(f"{path}/{METADATA}", f"{path}/c/0")
        if metadata is None or (form := Form.of(metadata.tobytes())) is None:
            return None
        chunks = _read_chunks(store, path, first, form.n_chunks)
        return _call_off_main_thread(form.values, chunks, n_bytes=form.length * form.dtype.itemsize)
    except (
        FileNotFoundError,
        ValueError,
        RuntimeError,
    ):  # a store, a chunk or a checksum is missing or wrong
        return None


def _read_chunks(
    store: Files, path: str, first: NDArray[np.uint8] | None, n_chunks: int
) -> Iterator[NDArray[np.uint8] | None]:
    """Read the chunks of an array, the first of which is known, a few at a time: all of them may be large."""
    yield from [first][:n_chunks]
    for start in range(1, n_chunks, CHUNKS_PER_READ):
        numbers = range(start, min(start + CHUNKS_PER_READ, n_chunks))
        yield from store.read_files(*(f"{path}/c/{number}" for number in numbers))


def load_array(store: Store, path: str, name: str, remedy: str) -> tuple["zarr.Array[Any]", NDArray[Any]]:
    """Read an array of any shape, and name what is missing or damaged."""
    return retried(_read_with_zarr, store, path, name, remedy, what=f"reading {name}")


def _read_with_zarr(
    store: Store, path: str, name: str, remedy: str
) -> tuple["zarr.Array[Any]", NDArray[Any]]:
    try:
        array = zarr.open_array(store, path=path, mode="r", zarr_format=3)
        if isinstance(store, LocalFiles):
            store.most = LARGEST + 2 * math.prod(array.shards or array.chunks) * array.dtype.itemsize
        return array, np.asarray(array[...])
    except FileNotFoundError as error:
        if isinstance(store, LocalFiles) and not store.root.exists():
            raise not_seen(str(store.root)) from error
        raise StoreError(f"{name} is missing; {remedy}") from error
    except (
        ValueError,
        RuntimeError,
        TypeError,
        AttributeError,
        LookupError,
        ArithmeticError,
        MemoryError,
    ) as error:
        # Zarr raises the last five for metadata that are JSON, but of no array. RecursionError is a RuntimeError.
        raise StoreError(f"{name} is damaged ({error}); {remedy}") from error


def digest_of(*arrays: NDArray[Any]) -> int:
    """Return the CRC-32C of arrays, their types and lengths, at 9 GB a second; it is no protection against deceit."""
    crc = 0
    for array in arrays:
        # Type and shape first: the same bytes as another type, or cut otherwise, are other content.
        crc = google_crc32c.extend(crc, f"{array.dtype.str}{array.shape}".encode())
        crc = google_crc32c.extend(crc, np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return int(crc)


def seal_of(content: JSON) -> str:
    """Return a digest of content that JSON knows."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def is_sealed(content: dict[str, Any]) -> bool:
    """Report whether content is as it was sealed."""
    return content.get(SEAL) == seal_of({key: value for key, value in content.items() if key != SEAL})


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """Return content with its seal."""
    return {**content, SEAL: seal_of(content)}


class Record(NamedTuple):
    """The content of a Zarr group: its place, and its attributes as JSON gives them back."""

    where: Location
    attributes: dict[str, Any]

    def array(self, number: int) -> NDArray[Any]:
        """Read an array, its checksums verified."""
        path = f"{_get_arrays_path(self.attributes['generation'])}/{number}"
        name, remedy = f"{self.where.url}: array {path}", "save it again"
        array, values = load_array(self.where.open(), path, name, remedy)
        # Any number may stand in a record, NaN too: only the store knows which chunks are there.
        try:
            lacks = array.nchunks - array.nchunks_initialized
        except FileNotFoundError as error:  # the folder is gone between two files
            raise StoreError(f"{name} is missing; {remedy}") from error
        if lacks:
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
    """Write arrays, then the attributes that make them count, then remove the arrays of the record that was read."""
    earlier = read_record(where)
    replaced = -1 if earlier is None else earlier.attributes.get("generation", -1)
    generation = _find_free_generation(where, replaced + 1)
    if earlier is None:
        where.mark("", sealed({UNFINISHED: True}))
    store, folder = where.open(read_only=False), _get_arrays_path(generation)
    where.mark(folder, sealed({UNFINISHED: True}))
    for number, values in enumerate(arrays):
        path = f"{folder}/{number}"
        with named_when_full(f"{where.url}/{path}"):
            retried(_write_row_chunks, store, path, values, what=f"writing {path} of {where.url}")
    # The attributes name the generation of the arrays that count: before this one write they are the old ones, after
    # it the new ones. Only then are the old ones in nobody's way.
    # Digests of the arrays and a seal of everything: a shape or a number that was edited makes another model.
    content = {**attributes, "generation": generation, "digests": [digest_of(values) for values in arrays]}

    def finish() -> None:
        zarr.open_group(store, mode="a", zarr_format=3).attrs.put(sealed(content))

    with named_when_full(where.url):
        retried(finish, what=f"writing the metadata of {where.url}")
    if replaced >= 0:
        where.clear(_get_arrays_path(replaced))


def _find_free_generation(where: Location, generation: int) -> int:
    """Return the first generation from this one on without a folder of others; remove what a killed save left."""
    names = where.names()
    while (folder := _get_arrays_path(generation)) in names:
        with suppress(StoreError):  # an array of another program, for example
            attributes = where.attributes(folder) or {}
            if UNFINISHED in attributes and is_sealed(attributes):
                where.remove(folder)
                break
        generation += 1
    return generation


def _get_arrays_path(generation: int) -> str:
    return f"{ARRAYS_PREFIX}{generation:04d}"


def _write_row_chunks(store: Store, path: str, values: NDArray[Any]) -> None:
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
