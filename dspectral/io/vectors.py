"""Dense vectors of any number, from Parquet, .npy files or arrays, as lazy blocks of rows."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from os import PathLike
from typing import IO, Any, NamedTuple

import numpy as np

from dspectral import engine
from dspectral.engine.blocks import BLOCK_BYTES
from dspectral.paths import expand_path
from dspectral.store.coordinates import convert_rows
from dspectral.store.from_text.parquet import import_arrow, open_parquet
from dspectral.store.from_text.sources import find_files
from dspectral.store.from_text.streams import open_raw
from dspectral.store.rows import dask_array_from_blocks
from dspectral.types import AnyArray, FloatArray

MAX_BLOCK_BYTES = 4 * BLOCK_BYTES
"""A row group of more bytes is split, although each part decodes the rows before it."""
BATCH_BYTES = 4 << 20
"""Bytes of the rows that Parquet decodes at a time."""


class VectorRange(NamedTuple):
    """Rows of a row group of a Parquet file, or of a .npy file, whose `group` is -1."""

    url: str
    fingerprint: str
    group: int
    start: int
    stop: int


class VectorFile(NamedTuple):
    """Column, number of dimensions, type and row groups of a file."""

    column: str | None
    width: int
    dtype: np.dtype[Any]
    ranges: list[VectorRange]


def read_vectors(source: Any, *, column: str | None = None, storage_options: dict[str, Any] | None = None) -> Any:
    """Return dense vectors as a lazy Dask array in blocks of rows, for estimators, search and coordinates.

    Parameters
    ----------
    source : str, path-like, list of these, or array
        Path, URL, pattern or folder of Parquet files, or of .npy files, in the order of their names. Or an array of
        shape (n_rows, n_dimensions): NumPy, a memory map, Zarr, HDF5 or Dask.
    column : str, optional
        Column of the Parquet files, of lists of equal length; by default the only column of lists.
    storage_options : dict, optional
        Options of the file system.

    Returns
    -------
    dask.array.Array of shape (n_rows, n_dimensions)
        The vectors. Types that float32 holds exactly, such as float16, become float32, and others float64.

    Raises
    ------
    ValueError
        If a file has no such column, or a vector is missing or has another length; blocks are checked when read.

    Notes
    -----
    Only headers and footers are read. A block is several row groups of together up to 64 MiB, or one larger one. Row
    groups of more than 256 MiB are split, and each part decodes the rows before it: write them with fewer rows.

    Examples
    --------
    >>> from dspectral import PCA, write_coordinates
    >>> saved = write_coordinates(None, np.eye(4), "memory://vectors.parquet", dtype="float16")
    >>> vectors = read_vectors("memory://vectors.parquet")
    >>> vectors.shape, vectors.dtype.name, PCA(2).fit(vectors).transform(vectors).shape
    ((4, 4), 'float32', (4, 2))
    """
    paths = [source] if isinstance(source, str | PathLike) else source
    if not (isinstance(paths, Sequence) and all(isinstance(path, str | PathLike) for path in paths)):
        return convert_rows(engine.as_dask_rows(source), np.promote_types(source.dtype, np.float32))
    options, files = dict(storage_options or {}), []
    for path in paths:
        found = find_files(expand_path(path), options, has_records=True, any_ending=True)
        files += [_open_file(url, fingerprint, column, options) for url, _, _, fingerprint in found]
    columns, widths, dtypes, ranges = zip(*files, strict=True)
    if len(set(widths)) > 1 or len(set(columns)) > 1:
        raise ValueError(
            f"the files have vectors of {' and '.join(map(str, sorted(set(widths))))} dimensions in the column(s) "
            f"{', '.join(sorted(set(map(str, columns))))}, but all must be alike: pass those of one kind"
        )
    dtype = np.result_type(np.float32, *dtypes)
    row_bytes = widths[0] * dtype.itemsize
    blocks = _join_ranges([part for file_ranges in ranges for part in file_ranges], row_bytes)
    read = partial(read_block, column=columns[0], width=widths[0], dtype=dtype, options=options)
    sizes = [sum(part.stop - part.start for part in block) for block in blocks]
    n_bytes = [size * row_bytes for size in sizes]
    return dask_array_from_blocks(read, blocks, sizes, widths[0], n_bytes, dtype=dtype, is_dense=True)


def read_block(
    ranges: Sequence[VectorRange],
    *,
    column: str | None,
    width: int,
    dtype: np.dtype[Any],
    options: dict[str, Any],
) -> FloatArray:
    """Read the rows of several ranges. Shapes: returns (n_rows, width)."""
    rows = np.empty((sum(part.stop - part.start for part in ranges), width), dtype)
    row = 0
    for part in ranges:
        parts = _read_npy(part, options) if column is None else _read_group(part, column, width, dtype, options)
        for vectors in parts:
            rows[row : row + len(vectors)] = vectors
            row += len(vectors)
    return rows


def _open_file(url: str, fingerprint: str, column: str | None, options: dict[str, Any]) -> VectorFile:
    """Read the header of a .npy file, or the footer of a Parquet file, and split its rows."""
    if url.lower().endswith(".npy"):
        with open_raw(url, options) as raw:
            n_rows, width, dtype = _read_npy_header(raw, url)
        ranges = _split_rows(n_rows, width * dtype.itemsize, BLOCK_BYTES, url, fingerprint)
        return VectorFile(None, width, dtype, ranges)
    types = import_arrow().types
    with open_parquet(url, options) as file:
        lists = [
            field.name
            for field in file.schema_arrow
            if types.is_fixed_size_list(field.type) or types.is_list(field.type) or types.is_large_list(field.type)
        ]
        name = lists[0] if column is None and len(lists) == 1 else str(column)
        if name not in lists:
            raise ValueError(
                f"{url}: column={column!r} must be a column of lists; these are {', '.join(map(repr, lists)) or 'none'}"
            )
        kind = file.schema_arrow.field(name).type
        dtype = np.dtype(kind.value_type.to_pandas_dtype())
        _check_kind(dtype, url)
        width = kind.list_size if types.is_fixed_size_list(kind) else _read_width(file, name, url)
        ranges = []
        for group in range(file.num_row_groups):
            n_rows = file.metadata.row_group(group).num_rows
            ranges += _split_rows(n_rows, width * max(4, dtype.itemsize), MAX_BLOCK_BYTES, url, fingerprint, group)
    return VectorFile(name, width, dtype, ranges)


def _read_width(file: Any, column: str, url: str) -> int:
    """Return the length of the first list of a column."""
    batch = next(file.iter_batches(columns=[column], batch_size=1), None)
    width = 0 if batch is None else len(batch.column(0).flatten())
    if batch is not None and not width:
        raise ValueError(f"{url}: column {column!r} has a null or empty vector in row 0: fill or drop it")
    return width


def _check_kind(dtype: np.dtype[Any], url: str) -> None:
    if dtype.kind not in "fiu":
        raise ValueError(f"{url} has vectors of {dtype}, but they must be of numbers: convert them")


def _read_npy_header(raw: IO[bytes], url: str) -> tuple[int, int, np.dtype[Any]]:
    """Return rows, columns and type of a .npy file, and move to its first row."""
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, by_columns, dtype = read_header[np.lib.format.read_magic(raw)](raw)
    if len(shape) != 2 or by_columns:
        order = "columns" if by_columns else "rows"
        raise ValueError(f"{url} has shape {shape} by {order}, but must have two axes by rows: write it so")
    _check_kind(dtype, url)
    return shape[0], shape[1], dtype


def _read_npy(part: VectorRange, options: dict[str, Any]) -> Iterator[AnyArray]:
    """Yield the rows of a range of a .npy file."""
    with open_raw(part.url, options) as raw:
        _, width, dtype = _read_npy_header(raw, part.url)
        raw.seek(part.start * width * dtype.itemsize, 1)
        content = raw.read((part.stop - part.start) * width * dtype.itemsize)
    yield np.frombuffer(content, dtype).reshape(-1, width)


def _read_group(
    part: VectorRange, column: str, width: int, dtype: np.dtype[Any], options: dict[str, Any]
) -> Iterator[AnyArray]:
    """Yield the rows of a range of a row group in batches; rows before it are decoded and dropped."""
    batch_size, row = max(1, BATCH_BYTES // (width * dtype.itemsize)), 0
    with open_parquet(part.url, options) as file:
        for batch in file.iter_batches(row_groups=[part.group], columns=[column], batch_size=batch_size):
            start, stop = max(part.start - row, 0), min(part.stop - row, batch.num_rows)
            if start < stop:
                position = f"{part.url}, row group {part.group}, row"
                yield _as_matrix(batch.column(0).slice(start, stop - start), width, row + start, position)
            row += batch.num_rows
            if row >= part.stop:
                return


def _as_matrix(lists: Any, width: int, row: int, position: str) -> AnyArray:
    """Return lists of one length as rows. Shapes: returns (n_rows, width)."""
    lengths = lists.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False)
    values = lists.flatten()
    if (lengths != width).any():
        wrong = int(np.argmax(lengths != width))
        raise ValueError(f"{position} {row + wrong}: a vector of {lengths[wrong]} numbers, but {width} are expected")
    if values.null_count:
        wrong = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise ValueError(f"{position} {row + wrong // width}: a vector has a null: fill or drop it")
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(-1, width)


def _split_rows(
    n_rows: int, row_bytes: int, max_bytes: int, url: str, fingerprint: str, group: int = -1
) -> list[VectorRange]:
    """Return ranges of rows of at most some bytes."""
    n_parts = max(1, -(-n_rows * row_bytes // max_bytes))
    ends = np.linspace(0, n_rows, n_parts + 1).astype(np.int64).tolist()
    return [VectorRange(url, fingerprint, group, start, stop) for start, stop in pairwise(ends) if start < stop]


def _join_ranges(ranges: list[VectorRange], row_bytes: int) -> list[tuple[VectorRange, ...]]:
    """Return blocks of consecutive ranges of together up to 64 MiB, or of one range."""
    blocks: list[list[VectorRange]] = []
    filled = 0
    for part in ranges:
        n_bytes = (part.stop - part.start) * row_bytes
        if not blocks or filled + n_bytes > BLOCK_BYTES:
            blocks.append([])
            filled = 0
        blocks[-1].append(part)
        filled += n_bytes
    if not blocks:
        raise ValueError("the files have no rows, but at least one is needed: check the path")
    return list(map(tuple, blocks))
