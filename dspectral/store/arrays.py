"""Compressed arrays of stores and models: checksums per chunk, digests and content hashes.

Chunk checksums do not detect a block that was replaced by another valid block; digests in its marker do.
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

from dspectral.engine.around.retries import missing_on_worker_error, retry
from dspectral.store.array_files import (
    CHUNK_ENTRIES,
    MAX_CHUNK_BYTES,
    METADATA,
    ArrayMetadata,
    encode_array,
    get_array_codecs,
    get_fill_value,
)
from dspectral.store.location import INVALID_CONTENT_ERRORS, Files, LocalFiles, Location, StoreError, annotate_disk_full
from dspectral.types import JSON

R = TypeVar("R")
BLOSC_THREAD_BYTES = 256 << 10
"""Smallest array, in bytes, for which Blosc starts threads."""
CHUNKS_PER_READ = 4
"""Number of chunks of a large array that are read concurrently."""

CONTENT_HASH = "seal"
"""Attribute that holds the content hash of the other attributes."""
ARRAYS_PREFIX = "arrays-"
"""Prefix of the name of the group with a model's arrays; the generation follows."""
UNFINISHED = "dspectral_unfinished"
"""Attribute of a group, and of its array folders, whose save is not complete."""


def write_array(store: Files, path: str, values: NDArray[Any]) -> None:
    """Write a one-dimensional array, compressed, with a CRC-32C checksum per chunk. Shapes: `values` (n,)."""

    def write() -> None:
        files = _call_off_main_thread(encode_array, values, n_bytes=values.nbytes)
        store.make_groups(path)
        if store.has_key(f"{path}/{METADATA}"):  # left by an interrupted write
            sync(store.delete_dir(path))
        store.write_files({f"{path}/{name}": content for name, content in files.items()})

    with annotate_disk_full(f"{store}/{path}"):
        retry(write, description=f"writing {path} of {store}")


def _call_off_main_thread(function: Callable[..., R], *arguments: Any, n_bytes: int) -> R:
    """Call a compression function; outside the main thread for large arrays, so that Blosc starts no threads."""
    if n_bytes < BLOSC_THREAD_BYTES or threading.current_thread() is not threading.main_thread():
        return function(*arguments)
    return sync(asyncio.to_thread(function, *arguments))


def read_array(location: Location, path: str) -> NDArray[Any]:
    """Read an array of :func:`write_array` and verify its checksums. Shapes: returns (n,)."""
    block, _, part = path.rpartition("/")
    name, remedy = f"store {location.url}, block {block}: {part}", "remove the store and build it again"
    return retry(_read_array, location.open(), path, name, remedy, description=f"reading {name}")


def _read_array(store: Files, path: str, name: str, remedy: str) -> NDArray[Any]:
    if (written := _read_directly(store, path)) is not None:
        return written
    # Zarr reads arrays of other programs and raises specific errors.
    array, values = _read_with_zarr(store, path, name, remedy)
    # Zarr reads a missing chunk as fill values, and no written chunk starts with the fill value. Checking the first
    # entry of each chunk avoids listing the files of each array.
    first = values[:: array.chunks[0]]
    if (np.isnan(first) if first.dtype.kind == "f" else first == get_fill_value(first.dtype)).any():
        raise StoreError(f"{name} lacks a chunk; {remedy}")
    return values


def _read_directly(store: Files, path: str) -> NDArray[Any] | None:
    """Return a complete array in the form of :func:`write_array`; None for every other array."""
    try:
        metadata, first = store.read_files(f"{path}/{METADATA}", f"{path}/c/0")
        if metadata is None or (form := ArrayMetadata.from_metadata(metadata.tobytes())) is None:
            return None
        chunks = _read_chunks(store, path, first, form.n_chunks)
        return _call_off_main_thread(form.values, chunks, n_bytes=form.length * form.dtype.itemsize)
    except (FileNotFoundError, ValueError, RuntimeError):  # a missing file or a wrong checksum
        return None


def _read_chunks(
    store: Files, path: str, first: NDArray[np.uint8] | None, n_chunks: int
) -> Iterator[NDArray[np.uint8] | None]:
    """Yield the chunks of an array, a few in memory at a time; the first one is given."""
    yield from [first][:n_chunks]
    for start in range(1, n_chunks, CHUNKS_PER_READ):
        numbers = range(start, min(start + CHUNKS_PER_READ, n_chunks))
        yield from store.read_files(*(f"{path}/c/{number}" for number in numbers))


def _read_with_zarr(store: Store, path: str, name: str, remedy: str) -> tuple["zarr.Array[Any]", NDArray[Any]]:
    """Read an array of any shape; raise StoreError if it is missing or damaged."""
    try:
        array = zarr.open_array(store, path=path, mode="r", zarr_format=3)
        if isinstance(store, LocalFiles):
            store.max_bytes = MAX_CHUNK_BYTES + 2 * math.prod(array.shards or array.chunks) * array.dtype.itemsize
        return array, np.asarray(array[...])
    except FileNotFoundError as error:
        if isinstance(store, LocalFiles) and not store.root.exists():
            raise missing_on_worker_error(str(store.root)) from error
        raise StoreError(f"{name} is missing; {remedy}") from error
    except INVALID_CONTENT_ERRORS as error:
        raise StoreError(f"{name} is damaged ({error}); {remedy}") from error


def compute_digest(*arrays: NDArray[Any]) -> int:
    """Return the CRC-32C of arrays, their types and shapes; it detects damage, not forgery."""
    crc = 0
    for array in arrays:
        # Type and shape are part of the content: the same bytes can be other numbers.
        crc = google_crc32c.extend(crc, f"{array.dtype.str}{array.shape}".encode())
        crc = google_crc32c.extend(crc, np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return int(crc)


def compute_content_hash(content: JSON) -> str:
    """Return the BLAKE2b hash of a JSON value."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def has_valid_content_hash(content: dict[str, Any]) -> bool:
    """Report whether attributes match their content hash."""
    return content.get(CONTENT_HASH) == compute_content_hash(
        {key: value for key, value in content.items() if key != CONTENT_HASH}
    )


def add_content_hash(content: dict[str, Any]) -> dict[str, Any]:
    """Return attributes with their content hash added."""
    return {**content, CONTENT_HASH: compute_content_hash(content)}


class StoredGroup(NamedTuple):
    """A Zarr group: its location and its attributes."""

    location: Location
    attributes: dict[str, Any]

    def array(self, index: int) -> NDArray[Any]:
        """Read an array by its index and verify its checksums and digest."""
        path = f"{_get_arrays_path(self.attributes['generation'])}/{index}"
        name, remedy = f"{self.location.url}: array {path}", "save it again"
        read = _read_with_zarr, self.location.open(), path, name, remedy
        array, values = retry(*read, description=f"reading {name}")
        # Models may hold any number, NaN included, so missing chunks are found by listing them.
        try:
            lacks = array.nchunks - array.nchunks_initialized
        except FileNotFoundError as error:  # the folder was removed during the read
            raise StoreError(f"{name} is missing; {remedy}") from error
        if lacks:
            raise StoreError(f"{name} lacks {lacks} chunk(s); {remedy}")
        if self.attributes["digests"][index] != compute_digest(values):
            raise StoreError(f"{name} does not match its digest; {remedy}")
        return values


def read_stored_group(location: Location) -> StoredGroup | None:
    """Return the group at a location; None if there is no group."""
    attributes = location.read_attributes()
    if attributes is None:
        return None
    # Groups of other libraries have neither key and no content hash.
    if attributes.keys() & {"generation", UNFINISHED} and not has_valid_content_hash(attributes):
        raise StoreError(f"the attributes of {location.url} do not match their content hash; save the model again")
    return StoredGroup(location, attributes)


def write_stored_group(location: Location, attributes: dict[str, Any], arrays: Sequence[NDArray[Any]]) -> None:
    """Write arrays, then the attributes that refer to them; then remove the arrays of the previous generation."""
    existing_group = read_stored_group(location)
    replaced = -1 if existing_group is None else existing_group.attributes.get("generation", -1)
    generation = _find_free_generation(location, replaced + 1)
    if existing_group is None:
        location.write_attributes("", add_content_hash({UNFINISHED: True}))
    store, folder = location.open(read_only=False), _get_arrays_path(generation)
    location.write_attributes(folder, add_content_hash({UNFINISHED: True}))
    for number, values in enumerate(arrays):
        path = f"{folder}/{number}"
        with annotate_disk_full(f"{location.url}/{path}"):
            retry(_write_row_chunks, store, path, values, description=f"writing {path} of {location.url}")
    # The attributes name the generation of the valid arrays, so this single write switches from old to new arrays.
    # Digests and the content hash detect edited shapes and numbers.
    content = {**attributes, "generation": generation, "digests": [compute_digest(values) for values in arrays]}

    def finish() -> None:
        zarr.open_group(store, mode="a", zarr_format=3).attrs.put(add_content_hash(content))

    with annotate_disk_full(location.url):
        retry(finish, description=f"writing the metadata of {location.url}")
    if replaced >= 0:
        location.try_remove(_get_arrays_path(replaced))


def _find_free_generation(location: Location, generation: int) -> int:
    """Return the first unused generation from this one on; remove folders of an interrupted save."""
    names = location.list_names()
    while (folder := _get_arrays_path(generation)) in names:
        with suppress(StoreError):  # for example, an array of another program
            attributes = location.read_attributes(folder) or {}
            if UNFINISHED in attributes and has_valid_content_hash(attributes):
                location.remove(folder)
                break
        generation += 1
    return generation


def _get_arrays_path(generation: int) -> str:
    return f"{ARRAYS_PREFIX}{generation:04d}"


def _write_row_chunks(store: Store, path: str, values: NDArray[Any]) -> None:
    """Write an array of any shape in chunks of whole rows."""
    # By default Zarr skips chunks of zeros; these could not be distinguished from missing chunks.
    row_size = max(1, values[:1].size)
    rows = max(1, min(len(values), CHUNK_ENTRIES // row_size))
    zarr.create_array(
        store,
        name=path,
        shape=values.shape,
        dtype=values.dtype,
        chunks=(rows, *(max(1, size) for size in values.shape[1:])),
        compressors=get_array_codecs(values.dtype),
        config={"write_empty_chunks": True},
        overwrite=True,
    )[...] = values
