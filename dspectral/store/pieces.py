"""Many pieces of scratch in one file, each compressed, with a checksum, and read by itself.

An array of Zarr for each piece would be two files and a folder: a quarter of a million for counts that a large corpus
leaves in scratch. A file holds an index of ``(begin, length as numbers of 8 bytes, CRC-32C)`` for each piece, then the
pieces. It is written at once or not at all, so a file that is there is whole, and needs no mark.
"""

import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fsspec
import google_crc32c
import numpy as np
from numcodecs import Zstd
from numpy.typing import NDArray

from dspectral.engine.retrying import retried
from dspectral.store.arrays import Location, StoreError
from dspectral.store.full_disk import named_when_full
from dspectral.store.lock import is_local

# Measured on counts of contexts (bytes an entry, ns an entry written and read): lz4 1.8, 2, 1.3; zstd 1.5, 3, 2.
CODEC = Zstd(1)
FIELDS = 3
"""Numbers of the index for each piece: the end of a piece is the beginning of the next one."""


def write_pieces(where: Location, path: str, pieces: Iterable[NDArray[np.uint8]]) -> NDArray[np.int64]:
    """Write pieces as one file.

    Shapes: returns (n_pieces + 1, 3).

    Memory: two times the compressed pieces.
    """
    index, bodies = [], []
    for piece in pieces:
        body = CODEC.encode(piece)
        index.append((len(body), len(piece) // 8, _checksum(body)))
        bodies.append(body)
    lengths = [8 * FIELDS * (len(index) + 1), *(length for length, _, _ in index)]
    table = np.zeros((len(index) + 1, FIELDS), dtype=np.int64)
    table[:-1] = np.reshape(index, (-1, FIELDS))
    table[:, 0] = np.cumsum(lengths)
    # The end has no piece to sum up: its checksum is that of the index.
    table[-1, 2] = _checksum(table.reshape(-1)[:-1].tobytes())
    content = b"".join([table.tobytes(), *bodies])
    what = f"writing {path} of {where.url}"
    with named_when_full(f"{where.url}/{path}"):
        retried(_write, where, path, content, what=what)
    return table


def find_pieces(where: Location, path: str, n_pieces: int) -> NDArray[np.int64] | None:
    """Return the index of a file, or None if it is not there.

    Shapes: returns (n_pieces + 1, 3).
    """
    n_bytes = 8 * FIELDS * (n_pieces + 1)
    try:
        head = retried(_read, where, path, 0, n_bytes, what=f"reading {path} of {where.url}")
    except FileNotFoundError:
        return None
    if len(head) < n_bytes:
        return None
    index = np.frombuffer(head, dtype=np.int64).reshape(-1, FIELDS)
    return index if index[-1, 2] == _checksum(head[:-8]) else None


def read_piece(
    where: Location, path: str, begin: int, end: int, checksum: int, out: NDArray[np.uint8]
) -> None:
    """Read one piece, its checksum verified."""
    name = f"store {where.url}: the scratch {path}"
    try:
        body = retried(_read, where, path, begin, end, what=f"reading {path} of {where.url}")
    except FileNotFoundError as error:
        raise StoreError(f"{name} is missing; call it again, and it is made again") from error
    if len(body) != end - begin or _checksum(body) != checksum:
        raise StoreError(f"{name} is damaged; remove this file and call it again")
    if len(out):
        CODEC.decode(body, out=out)


def _checksum(content: bytes) -> int:
    return int(google_crc32c.extend(0, np.frombuffer(content, np.uint8))) if content else 0


def _write(where: Location, path: str, content: bytes) -> None:
    system, place = _place(where, path)
    if not is_local(system):
        system.makedirs(place.rpartition("/")[0], exist_ok=True)
        system.pipe_file(place, content)  # one put is whole or nothing in a store of objects
        return
    file = Path(place)
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f"{file.name}.{uuid.uuid4().hex}.partial")
    try:
        aside.write_bytes(content)
        aside.replace(file)
    finally:
        aside.unlink(missing_ok=True)


def _read(where: Location, path: str, begin: int, end: int) -> bytes:
    system, place = _place(where, path)
    return bytes(system.cat_file(place, start=begin, end=end))


def _place(where: Location, path: str) -> tuple[Any, str]:
    system, root = fsspec.url_to_fs(where.url, **dict(where.options))
    return system, f"{root.rstrip('/')}/{path}"
