"""Compressed arrays of stores and models: checksums per chunk, digests and content hashes.

Chunk checksums do not detect a block that was replaced by another valid block; digests in its marker do.
"""

import json
import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import google_crc32c
import numpy as np
import zarr
from numcodecs import Blosc
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, Crc32cCodec

from dspectral.engine.around.retries import missing_on_worker_error, retry
from dspectral.store.location import INVALID_CONTENT_ERRORS, METADATA, Location, StoreError
from dspectral.types import JSON, AnyArray

CHUNK_ENTRIES = 16 << 20
"""Largest number of entries in a chunk; most arrays are one chunk."""
CHUNKS_PER_READ = 4
"""Number of chunks of a large array that are read concurrently."""
CODECS = ["bytes", "blosc", "crc32c"]
"""Names of the codecs of every array."""
CONTENT_HASH = "seal"
"""Attribute that holds the content hash of the other attributes."""
ARRAYS_FOLDER = re.compile("arrays-[0-9a-f]{32}")
"""Name of the group with a model's arrays."""
UNFINISHED = "dspectral_unfinished"
"""Attribute of a group whose first save is not complete."""


def get_array_codecs(dtype: np.dtype[Any]) -> list[Any]:
    """Return the codecs of an array: LZ4 with a shuffle for its type, then a CRC-32C checksum."""
    # On hashed n-grams LZ4 compresses as well as Zstandard and decodes about three times as fast.
    shuffle: Any = "bitshuffle" if dtype.kind == "f" else "shuffle"
    return [BloscCodec(cname="lz4", clevel=5, shuffle=shuffle), Crc32cCodec()]


def write_array(location: Location, path: str, values: AnyArray) -> None:
    """Write an array in compressed chunks of whole rows, with a CRC-32C checksum per chunk."""
    rows = max(1, min(len(values), CHUNK_ENTRIES // max(1, values[:1].size)))

    def write() -> None:
        zarr.create_array(
            location.open(read_only=False),
            name=path,
            shape=values.shape,
            dtype=values.dtype,
            chunks=(rows, *(max(1, size) for size in values.shape[1:])),
            compressors=get_array_codecs(values.dtype),
            config={"write_empty_chunks": True},
            overwrite=location.has_file(f"{path}/{METADATA}"),  # left by an interrupted write
        )[...] = values

    location.path(path)
    retry(write, description=f"writing {path} of {location.url}")


def read_array(location: Location, path: str) -> AnyArray:
    """Read an array of :func:`write_array` and verify its checksums."""
    block, _, part = path.rpartition("/")
    name, remedy = f"store {location.url}, block {block}: {part}", "remove the store and build it again"
    return _read_array(location, path, name, remedy)


def _read_array(location: Location, path: str, name: str, remedy: str) -> AnyArray:
    try:
        return retry(_decode_array, location, path, description=f"reading {name}")
    except FileNotFoundError as error:
        if "://" not in location.url and not Path(location.url).exists():
            raise missing_on_worker_error(location.url) from error
        raise StoreError(f"{name} lacks {error}; {remedy}") from error
    except INVALID_CONTENT_ERRORS as error:
        raise StoreError(f"{name} is damaged ({error}); {remedy}") from error


def _decode_array(location: Location, path: str) -> AnyArray:
    # Zarr's own reader takes up to three times as long.
    metadata, first = location.read_files(f"{path}/{METADATA}", f"{path}/c/0")
    if metadata is None:
        raise FileNotFoundError("its metadata")
    form = json.loads(metadata.tobytes())
    dtype, shape = np.dtype(form["data_type"]).newbyteorder("<"), tuple(form["shape"])
    if dtype.kind not in "biufc" or [codec["name"] for codec in form["codecs"]] != CODECS:
        raise ValueError("its metadata are those of another array")
    if 0 in shape:
        return np.empty(shape, dtype)
    rows = form["chunk_grid"]["configuration"]["chunk_shape"][0]
    n_chunks = -(-shape[0] // rows)
    values = np.empty((n_chunks * rows, *shape[1:]), dtype)
    for i, chunk in enumerate(_read_chunks(location, path, first, n_chunks, len(shape))):
        if chunk is None:
            raise FileNotFoundError(f"chunk {i}")
        decode_chunk(chunk, values[i * rows : (i + 1) * rows])
    return values[: shape[0]]


def _read_chunks(
    location: Location, path: str, first: NDArray[np.uint8] | None, n_chunks: int, n_dimensions: int
) -> Iterator[NDArray[np.uint8] | None]:
    """Yield the chunks of an array, a few in memory at a time; the first one of a vector is given."""
    n_given = int(n_dimensions == 1)
    yield from [first][: n_given * n_chunks]
    for start in range(n_given, n_chunks, CHUNKS_PER_READ):
        numbers = range(start, min(start + CHUNKS_PER_READ, n_chunks))
        yield from location.read_files(*(f"{path}/c/{i}" + "/0" * (n_dimensions - 1) for i in numbers))


def encode_chunk(values: AnyArray) -> bytes:
    """Return compressed values with a CRC-32C checksum, as Zarr writes a chunk."""
    packed: bytes = Blosc("lz4", 5, Blosc.SHUFFLE).encode(values)
    return packed + int(google_crc32c.extend(0, packed)).to_bytes(4, "little")


def decode_chunk(chunk: NDArray[np.uint8], values: AnyArray) -> None:
    """Verify the checksum of a chunk and decompress it into ``values``."""
    packed, checksum = chunk[:-4], int.from_bytes(chunk[-4:].tobytes(), "little")
    if (computed := google_crc32c.extend(0, packed)) != checksum:
        raise ValueError(f"its checksum is {computed:08x}, but {checksum:08x} was written")
    # Blosc trusts the length in the header, so a wrong one would access memory out of bounds.
    if int.from_bytes(packed[4:8].tobytes(), "little") != values.nbytes:
        raise ValueError(f"a chunk of {len(packed)} bytes does not decompress to {values.nbytes} bytes")
    Blosc().decode(packed, out=values)


def compute_digest(*arrays: AnyArray) -> int:
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

    def array(self, index: int) -> AnyArray:
        """Read an array by its index and verify its checksums and digest."""
        path = f"{self.attributes['folder']}/{index}"
        name, remedy = f"{self.location.url}: array {path}", "save it again"
        values = _read_array(self.location, path, name, remedy)
        if self.attributes["digests"][index] != compute_digest(values):
            raise StoreError(f"{name} does not match its digest; {remedy}")
        return values


def read_stored_group(location: Location) -> StoredGroup | None:
    """Return the group at a location; None if there is no group."""
    attributes = location.read_attributes()
    if attributes is None:
        return None
    # Groups of other libraries have neither key and no content hash.
    if attributes.keys() & {"folder", UNFINISHED} and not has_valid_content_hash(attributes):
        raise StoreError(f"the attributes of {location.url} do not match their content hash; save the model again")
    return StoredGroup(location, attributes)


def write_stored_group(location: Location, attributes: dict[str, Any], arrays: Sequence[AnyArray]) -> None:
    """Write arrays, then the attributes that refer to them; then remove other arrays of models."""
    if read_stored_group(location) is None:
        location.write_attributes("", add_content_hash({UNFINISHED: True}))
    folder = f"arrays-{uuid4().hex}"
    for number, values in enumerate(arrays):
        write_array(location, f"{folder}/{number}", values)
    # The attributes name the folder of the valid arrays, so this single write switches from old to new arrays.
    # Digests and the content hash detect edited shapes and numbers.
    content = {**attributes, "folder": folder, "digests": [compute_digest(values) for values in arrays]}

    def finish() -> None:
        zarr.open_group(location.open(read_only=False), mode="a", zarr_format=3).attrs.put(add_content_hash(content))

    retry(finish, description=f"writing the metadata of {location.url}")
    location.try_remove(*(name for name in location.list_names() if ARRAYS_FOLDER.fullmatch(name) and name != folder))
