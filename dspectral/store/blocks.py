"""One row block in Zarr: an AnnData-compatible CSR group that counts once its mark, its attributes, is written last."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.linalg.block_sums import energy_of, total_of
from dspectral.linalg.sparse_products import csr_fault
from dspectral.store.arrays import digest_of, read_array, write_array
from dspectral.store.location import Files, Location, StoreError
from dspectral.types import CSRRows, Documents, FloatArray, IntArray

TEXTS, IDS = "texts", "ids"
"""Groups in a block that hold the texts and the ids of its rows."""


class BlockInfo(NamedTuple):
    """The content of a block's finished mark; names sort in the order of the rows."""

    name: str
    n_rows: int
    n_columns: int
    nnz: int
    n_bytes: int
    """Bytes of its data, indices and indptr in memory."""
    energy: float
    """Sum of squares of its entries."""
    last: bool
    """Whether it is the last block of its span of text."""
    n_labels: int | None
    """Columns of the labels beside the rows; None where there are none."""
    label_nnz: int
    digest: int
    label_digest: int | None
    is_double: bool = False
    """Whether its data are of float64, as integers from 16,777,217 on."""

    def as_list(self) -> list[Any]:
        """Return it for the root of a store: what blocks of single precision have always had there."""
        return list(self if self.is_double else self[:-1])

    def known_content(self) -> object:
        """Return what stands for the content of the block, whatever its name and place."""
        return self[1:]


def write_block(
    where: Location, name: str, rows: CSRRows, *, labels: "CSRRows | None" = None, last: bool = True
) -> BlockInfo:
    """Write rows (n, d) with labels (n, L) and sums by column as a block, its finished mark last."""
    store = where.open(read_only=False)
    n_rows, n_columns = rows.shape
    # SciPy makes indices int64 at times; a store's files must not depend on how its rows were made.
    if rows.indices.dtype != np.int32 and max(rows.nnz, n_columns) < 2**31:
        rows = sparse.csr_array(
            (rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)), shape=rows.shape
        )
    n_bytes = rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes
    digest = digest_of(rows.data, rows.indices, rows.indptr)
    is_double = rows.dtype == np.float64
    sizes = name, n_rows, n_columns, rows.nnz, n_bytes
    info = BlockInfo(*sizes, energy_of(rows), last, None, 0, digest, None, is_double)
    parts = {
        "data": rows.data,
        "indices": rows.indices,
        "indptr": rows.indptr,
        "column_sums": total_of(rows),
        "document_frequency": np.bincount(
            rows.indices if rows.data.all() else rows.indices[rows.data != 0], minlength=n_columns
        ),
    }
    for part, values in parts.items():
        write_array(store, f"{name}/{part}", values)
    sums = digest_of(parts["column_sums"], parts["document_frequency"])
    # The mark repeats the sizes: an opened store knows its shape without looking at any block.
    attributes = {
        **_get_csr_attributes(n_rows, n_columns),
        "nnz": info.nnz,
        "bytes": info.n_bytes,
        "energy": info.energy,
        "last": last,
        "digests": [digest, sums],
        **({"double": True} if is_double else {}),
    }
    if labels is not None:
        # Before the mark: whoever finds the mark finds rows and labels, all of them.
        of_labels = labels.shape[1], labels.nnz, _write_labels(where, store, info, labels)
        info = info._replace(n_labels=of_labels[0], label_nnz=of_labels[1], label_digest=of_labels[2])
        attributes["labels"] = list(of_labels)
    where.mark(name, attributes)
    return info


def stored_entries(data: NDArray[Any], name: str) -> FloatArray:
    """Return entries as stores hold them: in single precision, or in double where that would change a whole number."""
    single = data.astype(np.float32, copy=False)
    if max(single.max(initial=0), -single.min(initial=0)) < 2**24 or data.dtype == np.float32:
        return single
    large = np.flatnonzero(np.abs(single) >= 2**24)
    known, of_single = data[large].astype(np.longdouble), single[large].astype(np.longdouble)
    # Every float64 from 2^53 on is a whole number, and counts nothing.
    whole = (np.trunc(known) == known) & ((data.dtype.kind in "iu") | (np.abs(known) < 2**53))
    if not (whole & (known != of_single)).any():
        return single
    double = data.astype(np.float64)
    lost = large[whole & (known != double[large])]
    if len(lost):
        raise StoreError(
            f"{name}: {data[lost[0]]} does not fit double precision, in which integers are exact up to {2**53}: scale "
            "the matrix"
        )
    return double


def _write_labels(where: Location, store: Files, info: BlockInfo, labels: CSRRows) -> int:
    """Write labels beside the rows of a block; return their digest."""
    if labels.shape[0] != info.n_rows:
        raise ValueError(f"there are {labels.shape[0]} rows of labels for {info.n_rows} rows")
    ones = np.ones(labels.nnz, dtype=np.float32)  # for other readers of the encoding
    parts = {"data": ones, "indices": labels.indices.astype(np.int32), "indptr": labels.indptr}
    for part, values in parts.items():
        write_array(store, f"{info.name}/labels/{part}", values)
    where.mark(f"{info.name}/labels", _get_csr_attributes(*labels.shape))
    return digest_of(*parts.values())


def _get_csr_attributes(n_rows: int, n_columns: int) -> dict[str, Any]:
    return {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [n_rows, n_columns]}


def find_block(where: Location, name: str) -> BlockInfo | None:
    """Return the content of a block's mark, or None if the block is not finished."""
    mark = where.attributes(name)
    if not mark:  # Zarr makes the group with its first array; the mark comes last
        return None
    n_rows, n_columns = mark["shape"]
    sizes = mark["nnz"], mark["bytes"], mark["energy"]
    n_labels, label_nnz, label_digest = mark.get("labels", (None, 0, None))
    digest = mark.get("digests", [None])[0]
    of_labels, last = (n_labels, label_nnz, digest, label_digest), mark["last"]
    return BlockInfo(name, n_rows, n_columns, *sizes, last, *of_labels, bool(mark.get("double")))


def check_sums(where: Location, info: BlockInfo) -> None:
    """Read the sums that lie beside the rows of a block, which readers of rows do not read."""
    store = where.open()
    sums = [read_array(where, store, info.name, part) for part in ("column_sums", "document_frequency")]
    mark = where.attributes(info.name) or {}
    if digest_of(*sums) != mark.get("digests", [None, None])[1]:
        raise StoreError(_damage_message(where, info.name, "its sums are not those that were written"))


def read_block(where: Location, info: BlockInfo) -> CSRRows:
    """Read a block, its checksums verified. Shapes: returns (n_rows, n_columns)."""
    return _read_csr(where, info.name, (info.n_rows, info.n_columns), info.nnz, info.digest)


def read_double(where: Location, info: BlockInfo) -> CSRRows:
    """Read a block in double precision, as one among others that need it."""
    rows = read_block(where, info)
    rows.data = rows.data.astype(np.float64, copy=False)
    return rows


def read_labels(where: Location, info: BlockInfo) -> CSRRows:
    """Read the labels of a block as ones, checksums verified. Shapes: returns (n_rows, n_labels)."""
    shape = info.n_rows, info.n_labels or 0
    return _read_csr(where, f"{info.name}/labels", shape, info.label_nnz, info.label_digest)


def _read_csr(where: Location, name: str, shape: tuple[int, int], nnz: int, digest: int | None) -> CSRRows:
    store = where.open()
    # Each part has its checksums; that they are parts of one block is what the sizes in the mark tell.
    data, indices, indptr = (read_array(where, store, name, part) for part in ("data", "indices", "indptr"))
    if len(indptr) != shape[0] + 1 or indptr[-1] != nnz or not len(data) == len(indices) == nnz:
        raise StoreError(_damage_message(where, name, "its parts do not fit together"))
    if digest_of(data, indices, indptr) != digest:
        raise StoreError(_damage_message(where, name, "its content is not what was written here"))
    # A digest can be edited, and compiled loops need right indices. That they were written in order is not looked at
    # again: it would cost as much as all else together.
    if fault := csr_fault(indices, indptr, shape[1]):
        raise StoreError(_damage_message(where, name, fault))
    rows = sparse.csr_array((data, indices, indptr), shape=shape)
    rows.has_sorted_indices = True  # seen above: SciPy need not look
    rows.has_canonical_format = True
    return rows


def _damage_message(where: Location, name: str, why: str) -> str:
    return f"store {where.url}, block {name}: {why}; remove the block and build the store again"


def write_documents(where: Location, path: str, documents: Documents) -> None:
    """Write texts or ids into a group of a block, and their digest."""
    store, offsets = where.open(read_only=False), np.ascontiguousarray(documents.offsets, dtype=np.int64)
    write_array(store, f"{path}/data", documents.data)
    write_array(store, f"{path}/offsets", offsets)
    where.mark(path, {"digest": digest_of(documents.data, offsets)})


def read_documents(where: Location, path: str) -> Documents:
    """Read the texts or ids of a block, checksums and digest verified."""
    store = where.open()
    data, offsets = (read_array(where, store, path, part) for part in ("data", "offsets"))
    if (where.attributes(path) or {}).get("digest") != digest_of(data, offsets):
        raise StoreError(f"store {where.url}, block {path} is not what was written; build the store again")
    return Documents(data, offsets)


def documents_at(where: Location, blocks: Sequence[BlockInfo], rows: Iterable[int], part: str) -> list[str]:
    """Return the texts or ids of some rows, in their order; each block that holds one is read once."""
    wanted: IntArray = np.asarray(list(rows), dtype=np.int64)
    starts = np.cumsum([0, *(block.n_rows for block in blocks)])
    if len(wrong := wanted[(wanted < 0) | (wanted >= starts[-1])]):
        raise IndexError(f"row {wrong[0]} is not among the {starts[-1]} rows of store {where.url}")
    documents_of_rows = [""] * len(wanted)
    numbers = np.searchsorted(starts, wanted, side="right") - 1
    order = np.argsort(numbers, kind="stable")
    for positions in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1) if len(order) else ():
        number = numbers[positions[0]]
        documents = read_documents(where, f"{blocks[number].name}/{part}")
        for position in positions.tolist():
            documents_of_rows[position] = documents.text(int(wanted[position] - starts[number])).decode()
    return documents_of_rows
