"""Row blocks in Zarr: AnnData-compatible CSR groups whose attributes, written last, are the completion marker."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.linalg.block_sums import compute_energy, sum_rows
from dspectral.store.arrays import compute_digest, read_array, write_array
from dspectral.store.location import Location, StoreError, damage_error
from dspectral.types import CSRRows, Documents, FloatArray, IntArray

TEXTS, IDS = "texts", "ids"
"""Groups of a block with the texts and the ids of its rows."""


class BlockInfo(NamedTuple):
    """Content of the completion marker of a block."""

    name: str
    n_rows: int
    n_columns: int
    nnz: int
    n_bytes: int
    """Size of data, indices and indptr in memory, in bytes."""
    energy: float
    """Sum of squares of the entries."""
    last: bool
    """Whether it is the last block of its byte range of text."""
    n_labels: int | None
    """Number of label columns; None without labels."""
    label_nnz: int
    digest: int
    label_digest: int | None
    is_double: bool
    """Whether the data are float64, needed for integers from 16,777,217 on."""

    def content_token(self) -> object:
        """Return a token of the block's content, independent of its name."""
        return self[1:]


def write_block(
    location: Location, name: str, rows: CSRRows, *, labels: "CSRRows | None" = None, last: bool = True
) -> BlockInfo:
    """Write a block of rows (n, d), labels (n, L) and column sums; the completion marker is written last."""
    n_rows, n_columns = rows.shape
    # SciPy sometimes returns int64 indices; the stored type must not depend on how rows were computed.
    if rows.indices.dtype != np.int32 and max(rows.nnz, n_columns) < 2**31:
        rows = sparse.csr_array(
            (rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)), shape=rows.shape
        )
    n_bytes = rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes
    digest = compute_digest(rows.data, rows.indices, rows.indptr)
    is_double = rows.dtype == np.float64
    sizes = name, n_rows, n_columns, rows.nnz, n_bytes
    info = BlockInfo(*sizes, compute_energy(rows), last, None, 0, digest, None, is_double)
    parts = {
        "data": rows.data,
        "indices": rows.indices,
        "indptr": rows.indptr,
        "column_sums": sum_rows(rows),
        "document_frequency": np.bincount(
            rows.indices if rows.data.all() else rows.indices[rows.data != 0], minlength=n_columns
        ),
    }
    for part, values in parts.items():
        write_array(location, f"{name}/{part}", values)
    sums = compute_digest(parts["column_sums"], parts["document_frequency"])
    if labels is not None:
        # Written before the completion marker, so a block with a marker has all rows and labels.
        label_digest = _write_labels(location, info, labels)
        info = info._replace(n_labels=labels.shape[1], label_nnz=labels.nnz, label_digest=label_digest)
    # Opening a store reads no block, because the marker contains the sizes.
    marker = {**_get_csr_attributes(n_rows, n_columns), "block": list(info[1:]), "sums": sums}
    location.write_attributes(name, marker)
    return info


def to_stored_dtype(data: NDArray[Any], name: str) -> FloatArray:
    """Convert entries to float32, or to float64 if float32 would change an integer."""
    single = data.astype(np.float32, copy=False)
    if max(single.max(initial=0), -single.min(initial=0)) < 2**24 or data.dtype == np.float32:
        return single
    large = np.flatnonzero(np.abs(single) >= 2**24)
    exact, rounded = data[large].astype(np.longdouble), single[large].astype(np.longdouble)
    # Every float64 from 2^53 on is an integer, also if it is not a count.
    is_count = (np.trunc(exact) == exact) & ((data.dtype.kind in "iu") | (np.abs(exact) < 2**53))
    if not (is_count & (exact != rounded)).any():
        return single
    double = data.astype(np.float64)
    lost = large[is_count & (exact != double[large])]
    if len(lost):
        raise StoreError(
            f"{name}: {data[lost[0]]} must be at most {2**53}, the largest exact integer of float64: scale the matrix"
        )
    return double


def _write_labels(location: Location, info: BlockInfo, labels: CSRRows) -> int:
    """Write the labels of a block and return their digest."""
    if labels.shape[0] != info.n_rows:
        raise ValueError(f"labels have {labels.shape[0]} rows, but must have {info.n_rows}, one for each row of X")
    ones = np.ones(labels.nnz, dtype=np.float32)  # other programs expect the data of a CSR group
    parts = {"data": ones, "indices": labels.indices.astype(np.int32), "indptr": labels.indptr}
    for part, values in parts.items():
        write_array(location, f"{info.name}/labels/{part}", values)
    location.write_attributes(f"{info.name}/labels", _get_csr_attributes(*labels.shape))
    return compute_digest(*parts.values())


def _get_csr_attributes(n_rows: int, n_columns: int) -> dict[str, Any]:
    return {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [n_rows, n_columns]}


def find_block(location: Location, name: str) -> BlockInfo | None:
    """Read the completion marker of a block; None if the block is not complete."""
    marker = location.read_attributes(name)
    # The group exists from its first array on, but the marker is written last.
    return BlockInfo(name, *marker["block"]) if marker else None


def check_sums(location: Location, info: BlockInfo) -> None:
    """Verify the column sums of a block, which are not read with its rows."""
    sums = [read_array(location, f"{info.name}/{part}") for part in ("column_sums", "document_frequency")]
    if compute_digest(*sums) != (location.read_attributes(info.name) or {}).get("sums"):
        raise damage_error(location, info.name, "its column sums do not match their digest")


def read_block(location: Location, info: BlockInfo) -> CSRRows:
    """Read a block and verify its checksums. Shapes: returns (n_rows, n_columns)."""
    return _read_csr(location, info.name, (info.n_rows, info.n_columns), info.nnz, info.digest)


def read_block_as_float64(location: Location, info: BlockInfo) -> CSRRows:
    """Read a block as float64, because another block of the store needs it."""
    rows = read_block(location, info)
    rows.data = rows.data.astype(np.float64, copy=False)
    return rows


def read_labels(location: Location, info: BlockInfo) -> CSRRows:
    """Read the labels of a block as ones and verify their checksums. Shapes: returns (n_rows, n_labels)."""
    shape = info.n_rows, info.n_labels or 0
    return _read_csr(location, f"{info.name}/labels", shape, info.label_nnz, info.label_digest)


def _read_csr(location: Location, name: str, shape: tuple[int, int], nnz: int, digest: int | None) -> CSRRows:
    # Each array has its own checksums; sizes and digest show that the arrays belong to one block.
    data, indices, indptr = (read_array(location, f"{name}/{part}") for part in ("data", "indices", "indptr"))
    if len(indptr) != shape[0] + 1 or indptr[-1] != nnz or not len(data) == len(indices) == nnz:
        raise damage_error(location, name, "the sizes of its arrays do not match")
    if compute_digest(data, indices, indptr) != digest:
        raise damage_error(location, name, "its content does not match its digest")
    rows = sparse.csr_array((data, indices, indptr), shape=shape)
    rows.has_sorted_indices = True  # SciPy skips its own check
    rows.has_canonical_format = True
    return rows


def write_documents(location: Location, path: str, documents: Documents) -> None:
    """Write texts or ids with their digest into a group of a block."""
    offsets = np.ascontiguousarray(documents.offsets, dtype=np.int64)
    write_array(location, f"{path}/data", documents.data)
    write_array(location, f"{path}/offsets", offsets)
    location.write_attributes(path, {"digest": compute_digest(documents.data, offsets)})


def read_documents(location: Location, path: str) -> Documents:
    """Read the texts or ids of a block and verify checksums and digest."""
    data, offsets = (read_array(location, f"{path}/{part}") for part in ("data", "offsets"))
    if (location.read_attributes(path) or {}).get("digest") != compute_digest(data, offsets):
        raise damage_error(location, path, "its content does not match its digest")
    return Documents(data, offsets)


def read_row_documents(location: Location, blocks: Sequence[BlockInfo], rows: Iterable[int], kind: str) -> list[str]:
    """Return the texts or ids of some rows in the given order; each block is read at most once."""
    row_numbers: IntArray = np.asarray(list(rows), dtype=np.int64)
    starts = np.cumsum([0, *(block.n_rows for block in blocks)])
    if len(wrong := row_numbers[(row_numbers < 0) | (row_numbers >= starts[-1])]):
        raise IndexError(f"row {wrong[0]} must be one of the {starts[-1]} rows of store {location.url}, counted from 0")
    selected_documents = [""] * len(row_numbers)
    numbers = np.searchsorted(starts, row_numbers, side="right") - 1
    order = np.argsort(numbers, kind="stable")
    for positions in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1) if len(order) else ():
        number = numbers[positions[0]]
        documents = read_documents(location, f"{blocks[number].name}/{kind}")
        for position in positions.tolist():
            selected_documents[position] = documents.text(int(row_numbers[position] - starts[number])).decode()
    return selected_documents
