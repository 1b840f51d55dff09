"""One row block in Zarr: an AnnData-compatible CSR group that counts once its finished mark is written.

The mark is the group's attributes, written last and at once: a block whose writing was cut short has arrays
but none, and is written again.
"""

from typing import Any, NamedTuple

import numcodecs.blosc
import numpy as np
import zarr
import zarr.errors
from numpy.typing import NDArray
from scipy import sparse
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.storage import FsspecStore, LocalStore

from dspectral.summaries.moments import energy_of, total_of

CHUNK = 16 << 20
"""Entries of a chunk: a block is one chunk an array unless it is very large."""
# Measured on hashed n-grams of novels, one core (ratio, MB/s encoded, MB/s decoded): column indices, lz4 with
# bytes shuffled 1.9, 1540, 2990, zstd 1.9, 530, 1080; values, lz4 with bits shuffled 8.5, 660, 2670.
INTEGERS = BloscCodec(cname="lz4", clevel=5, shuffle="shuffle")
VALUES = BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle")


class StoreError(ValueError):
    """A store, or a block of one, is missing, unfinished or damaged; the message names it."""


class Location(NamedTuple):
    """Where a store is: what a task needs to open it.

    Attributes
    ----------
    url : str
        A local path, or any URL that fsspec knows.
    options : tuple of (str, object)
        Its storage options.
    """

    url: str
    options: tuple[tuple[str, Any], ...] = ()

    def open(self, *, read_only: bool = True) -> Any:
        """Open the Zarr store."""
        if "://" in self.url or "::" in self.url:
            return FsspecStore.from_url(self.url, storage_options=dict(self.options), read_only=read_only)
        return LocalStore(self.url, read_only=read_only)


class BlockInfo(NamedTuple):
    """What the finished mark of a block says.

    Attributes
    ----------
    name : str
        Path of the group in the store; names sort in the order of the rows.
    n_rows, n_columns, nnz : int
    n_bytes : int
        Of data, indices and indptr in memory.
    energy : float
        Sum of squares.
    last : bool
        Whether it is the last block of its span of text.
    """

    name: str
    n_rows: int
    n_columns: int
    nnz: int
    n_bytes: int
    energy: float
    last: bool


def write_block(where: Location, name: str, rows: sparse.csr_array, *, last: bool = True) -> BlockInfo:
    """Write rows as a block, its finished mark last.

    Parameters
    ----------
    where : Location
    name : str
    rows : csr_array, shape (n, d)
    last : bool
        Recorded in the mark.

    Returns
    -------
    BlockInfo

    Raises
    ------
    ValueError
        If an entry is NaN or infinite.
    """
    store = where.open(read_only=False)
    energy = energy_of(rows)
    n_bytes = rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes
    info = BlockInfo(name, *rows.shape, rows.nnz, n_bytes, energy, last)
    frequency = np.bincount(rows.indices[rows.data != 0], minlength=rows.shape[1])
    write_array(store, f"{name}/data", rows.data)
    write_array(store, f"{name}/indices", rows.indices)
    write_array(store, f"{name}/indptr", rows.indptr)
    write_array(store, f"{name}/column_sums", total_of(rows))
    write_array(store, f"{name}/document_frequency", frequency)
    attributes = {
        "encoding-type": "csr_matrix",
        "encoding-version": "0.1.0",
        "shape": list(rows.shape),
        "nnz": info.nnz,
        "bytes": info.n_bytes,
        "energy": info.energy,
        "last": last,
    }
    zarr.open_group(store, path=name, mode="a", zarr_format=3).attrs.update(attributes)
    return info


def finished(where: Location, name: str) -> BlockInfo | None:
    """Return what a block's mark says, or None if it has none."""
    try:
        group = zarr.open_group(where.open(), path=name, mode="r", zarr_format=3)
    except (FileNotFoundError, zarr.errors.GroupNotFoundError):
        return None
    of = group.attrs.asdict()
    if not of:  # Zarr makes the group with its first array; the mark comes last
        return None
    n_rows, n_columns = of["shape"]
    return BlockInfo(name, n_rows, n_columns, of["nnz"], of["bytes"], of["energy"], of["last"])


def read_block(where: Location, info: BlockInfo) -> sparse.csr_array:
    """Read a block, its checksums verified.

    Raises
    ------
    StoreError
        If a part is missing or damaged; the message names the store and the block.
    """
    # Each task decodes in its own thread: Blosc's would come on top of them.
    numcodecs.blosc.use_threads = False
    store = where.open()
    data, indices, indptr = (read_array(where, store, info.name, part) for part in ("data", "indices", "indptr"))
    if len(indptr) != info.n_rows + 1 or indptr[-1] != info.nnz or not len(data) == len(indices) == info.nnz:
        raise StoreError(f"store {where.url}, block {info.name}: its parts do not fit together; build it again")
    rows = sparse.csr_array((data, indices, indptr), shape=(info.n_rows, info.n_columns))
    rows.has_sorted_indices = True
    return rows


def write_array(store: Any, path: str, values: NDArray[Any]) -> None:
    """Write an array, compressed, with a crc32c checksum a chunk."""
    zarr.create_array(
        store,
        name=path,
        shape=values.shape,
        dtype=values.dtype,
        chunks=(max(1, min(len(values), CHUNK)),),
        compressors=[VALUES if values.dtype.kind == "f" else INTEGERS, Crc32cCodec()],
        fill_value=_absent(values.dtype),
        overwrite=True,
    )[:] = values


def read_array(where: Location, store: Any, block: str, part: str) -> NDArray[Any]:
    """Read an array of a group.

    Raises
    ------
    StoreError
        If it is not there, fails its checksum, or lacks a chunk.
    """
    damaged = f"store {where.url}, block {block}: {part}"
    try:
        array = zarr.open_array(store, path=f"{block}/{part}", mode="r", zarr_format=3)
        values = np.asarray(array[:])
    except (FileNotFoundError, zarr.errors.ArrayNotFoundError) as error:
        raise StoreError(f"{damaged} is missing; remove the block and build the store again") from error
    except (ValueError, RuntimeError) as error:
        raise StoreError(f"{damaged} is damaged ({error}); remove the block and build the store again") from error
    first_of_chunks = values[:: array.chunks[0]]
    if _is_absent(first_of_chunks).any():  # Zarr fills a chunk that is not there
        raise StoreError(f"{damaged} lacks a chunk; remove the block and build the store again")
    return values


def _absent(dtype: np.dtype[Any]) -> Any:
    """Return a value that no stored array begins a chunk with."""
    return np.nan if dtype.kind == "f" else np.iinfo(dtype).max


def _is_absent(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.isnan(values) if values.dtype.kind == "f" else values == np.iinfo(values.dtype).max
