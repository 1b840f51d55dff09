"""One row block in Zarr: an AnnData-compatible CSR group that counts once its finished mark is written.

The mark is the group's attributes, written last and at once: a block whose writing was cut short has arrays
but none, and is written again.
"""

from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import zarr
import zarr.errors
from numpy.typing import NDArray
from scipy import sparse
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.storage import FsspecStore, LocalStore

from dspectral.linalg.block_sums import energy_of, total_of

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

    def attributes(self, path: str = "", *, zarr_format: Literal[2, 3] | None = 3) -> dict[str, Any] | None:
        """Return the attributes of a group, or None where there is no group.

        Raises
        ------
        StoreError
            If there is something else, or its metadata is damaged.
        """
        try:
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
        """Add attributes to a group, all at once; it is made if need be."""
        group = zarr.open_group(self.open(read_only=False), path=path, mode="a", zarr_format=3)
        group.update_attributes(attributes)  # one write, where attrs.update is one for each key


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
    n_labels : int or None
        Columns of the labels beside the rows; None where there are none.
    label_nnz : int
        Labels of all rows.
    """

    name: str
    n_rows: int
    n_columns: int
    nnz: int
    n_bytes: int
    energy: float
    last: bool
    n_labels: int | None = None
    label_nnz: int = 0


def write_block(
    where: Location,
    name: str,
    rows: sparse.csr_array,
    *,
    labels: sparse.csr_array | None = None,
    last: bool = True,
) -> BlockInfo:
    """Write rows as a block, its finished mark last.

    Parameters
    ----------
    where : Location
    name : str
    rows : csr_array, shape (n, d)
        Columns sorted, without duplicates.
    labels : csr_array, shape (n, L), optional
        Of the same rows, columns sorted, without duplicates; which are stored counts, not their values.
    last : bool
        Recorded in the mark.

    Returns
    -------
    BlockInfo

    Raises
    ------
    ValueError
        If an entry is NaN or infinite, or there are labels of other rows.
    """
    store = where.open(read_only=False)
    n_rows, n_columns = rows.shape
    if rows.indices.dtype != np.int32 and max(rows.nnz, n_columns) < 2**31:
        rows = sparse.csr_array(
            (rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)), shape=rows.shape
        )
    n_bytes = rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes
    info = BlockInfo(name, n_rows, n_columns, rows.nnz, n_bytes, energy_of(rows), last)
    parts = {
        "data": rows.data,
        "indices": rows.indices,
        "indptr": rows.indptr,
        "column_sums": total_of(rows),
        "document_frequency": np.bincount(rows.indices[rows.data != 0], minlength=n_columns),
    }
    for part, values in parts.items():
        write_array(store, f"{name}/{part}", values)
    attributes = {
        **_encoding(n_rows, n_columns),
        "nnz": info.nnz,
        "bytes": info.n_bytes,
        "energy": info.energy,
        "last": last,
    }
    if labels is not None:
        info = info._replace(n_labels=labels.shape[1], label_nnz=labels.nnz)
        attributes["labels"] = [info.n_labels, info.label_nnz]
        _write_labels(where, store, info, labels)
    where.mark(name, attributes)
    return info


def _write_labels(where: Location, store: Any, info: BlockInfo, labels: sparse.csr_array) -> None:
    if labels.shape[0] != info.n_rows:
        raise ValueError(f"there are {labels.shape[0]} rows of labels for {info.n_rows} rows")
    ones = np.ones(labels.nnz, dtype=np.float32)  # for other readers of the encoding
    parts = {"data": ones, "indices": labels.indices.astype(np.int32), "indptr": labels.indptr}
    for part, values in parts.items():
        write_array(store, f"{info.name}/labels/{part}", values)
    where.mark(f"{info.name}/labels", _encoding(*labels.shape))


def _encoding(n_rows: int, n_columns: int) -> dict[str, Any]:
    return {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [n_rows, n_columns]}


def finished(where: Location, name: str) -> BlockInfo | None:
    """Return what a block's mark says, or None if it has none."""
    of = where.attributes(name)
    if not of:  # Zarr makes the group with its first array; the mark comes last
        return None
    n_rows, n_columns = of["shape"]
    n_labels, label_nnz = of.get("labels", (None, 0))
    return BlockInfo(
        name, n_rows, n_columns, of["nnz"], of["bytes"], of["energy"], of["last"], n_labels, label_nnz
    )


def read_block(where: Location, info: BlockInfo) -> sparse.csr_array:
    """Read a block, its checksums verified.

    Raises
    ------
    StoreError
        If a part is missing or damaged; the message names the store and the block.
    """
    return _read_csr(where, info.name, (info.n_rows, info.n_columns), info.nnz)


def read_labels(where: Location, info: BlockInfo) -> sparse.csr_array:
    """Read the labels of a block as ones, checksums verified.

    Raises
    ------
    StoreError
        If a part is missing or damaged; the message names the store and the block.
    """
    return _read_csr(where, f"{info.name}/labels", (info.n_rows, info.n_labels or 0), info.label_nnz)


def _read_csr(where: Location, name: str, shape: tuple[int, int], nnz: int) -> sparse.csr_array:
    store = where.open()
    data, indices, indptr = (read_array(where, store, name, part) for part in ("data", "indices", "indptr"))
    if len(indptr) != shape[0] + 1 or indptr[-1] != nnz or not len(data) == len(indices) == nnz:
        raise StoreError(
            f"store {where.url}, block {name}: its parts do not fit together; "
            "remove the block and build the store again"
        )
    rows = sparse.csr_array((data, indices, indptr), shape=shape)
    rows.has_sorted_indices = True  # as they were written: SciPy need not look
    return rows


def write_array(store: Any, path: str, values: NDArray[Any]) -> None:
    """Write an array, compressed, with a crc32c checksum a chunk."""
    create = partial(
        zarr.create_array,
        store,
        name=path,
        shape=values.shape,
        dtype=values.dtype,
        chunks=(max(1, min(len(values), CHUNK)),),
        compressors=[VALUES if values.dtype.kind == "f" else INTEGERS, Crc32cCodec()],
        fill_value=_absent(values.dtype),
    )
    try:
        array = create()
    except zarr.errors.ContainsArrayError:  # cut short before; looking first would list all files, each time
        array = create(overwrite=True)
    array[:] = values


def read_array(where: Location, store: Any, block: str, part: str) -> NDArray[Any]:
    """Read an array of a group.

    Raises
    ------
    StoreError
        If it is not there, fails its checksum, or lacks a chunk.
    """
    damaged = f"store {where.url}, block {block}: {part}"
    again = "remove the block and build the store again"
    try:
        array = zarr.open_array(store, path=f"{block}/{part}", mode="r", zarr_format=3)
        values = np.asarray(array[:])
    except FileNotFoundError as error:
        raise StoreError(f"{damaged} is missing; {again}") from error
    except (ValueError, RuntimeError) as error:
        raise StoreError(f"{damaged} is damaged ({error}); {again}") from error
    if _is_absent(values[:: array.chunks[0]]).any():  # Zarr fills a chunk that is not there
        raise StoreError(f"{damaged} lacks a chunk; {again}")
    return values


def _absent(dtype: np.dtype[Any]) -> Any:
    """Return a value that no stored array begins a chunk with."""
    return np.nan if dtype.kind == "f" else np.iinfo(dtype).max


def _is_absent(values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    return np.asarray(values == _absent(values.dtype))
