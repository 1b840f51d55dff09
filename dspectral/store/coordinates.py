"""Coordinates of rows with row ids on disk, in chunks of a Zarr array or in a folder of Parquet files."""

import io
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from os import PathLike
from typing import Any, cast
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
import zarr
from numpy.typing import DTypeLike

from dspectral.engine import as_dask_rows, collect_rows, map_rows, run_tasks, thread_pool_options, tracked_fit
from dspectral.engine.around.checkpoints import UnknownContentError, digest
from dspectral.engine.around.retries import retry
from dspectral.engine.blocks import STORE_ANNOTATION, get_annotation
from dspectral.engine.graph import GraphTokenizer, get_array_nodes, get_pass_name
from dspectral.store.anndata_files import import_optional
from dspectral.store.arrays import (
    CONTENT_HASH,
    add_content_hash,
    compute_content_hash,
    compute_digest,
    get_array_codecs,
    has_valid_content_hash,
)
from dspectral.store.blocks import IDS, TEXTS
from dspectral.store.counts import open_store
from dspectral.store.location import NAMED_LOCATIONS, Location, StoreError, redact_urls
from dspectral.store.lock import hold_write_lock
from dspectral.store.rows import CountMatrix
from dspectral.types import FloatArray, RowsLike

KEY = "dspectral-coordinates"
"""Attribute of the Zarr root, and metadata key of each Parquet file, with the header of the coordinates."""
CHUNK_BYTES = 64 << 20
"""Largest chunk, in bytes."""


@dataclass(frozen=True, eq=False, repr=False)
class Coordinates:
    """Coordinates on disk, written by ``transform(X, out=...)``; :func:`dspectral.nearest` searches them.

    Attributes
    ----------
    location : Location
        Path or URL of a Zarr group with the arrays ``coordinates`` and ``ids``, or of a folder of Parquet files with
        the columns ``row``, ``id`` and ``coordinates``.
    head : dict
        Header: shape and dtype of the rows, rows per chunk, whether there are ids, model and store of the rows, and a
        token of their content.
    digests : list of list
        Digests of the coordinates and the ids of each Zarr chunk; Parquet files contain their own.

    Examples
    --------
    >>> from dspectral import Texts, TruncatedSVD, build_store
    >>> store = build_store(Texts(["a cat", "a dog", "the dog"]), "memory://saved-texts")
    >>> saved = TruncatedSVD(2).fit(store).transform(store, out="memory://saved.zarr")
    >>> saved.shape, saved.array.chunks
    ((3, 2), ((3,), (2,)))
    """

    location: Location
    head: dict[str, Any]
    digests: list[list[Any]] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"Coordinates({self.location.url!r}: {self.shape[0]} x {self.shape[1]})"

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of coordinates."""
        return self.head["shape"][0], self.head["shape"][1]

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return int(-(-len(self) // self.head["chunk_rows"]))

    def rows(self, chunk: int) -> range:
        """Return the row indices of a chunk."""
        size = self.head["chunk_rows"]
        return range(chunk * size, min(len(self), (chunk + 1) * size))

    @property
    def array(self) -> da.Array:
        """Lazy Dask array of the coordinates, shape (n_rows, n_coordinates)."""
        sizes = tuple(len(self.rows(chunk)) for chunk in range(self.n_chunks))
        read: da.Array = da.map_blocks(
            partial(_read_block, coordinates=self),
            chunks=(sizes, self.shape[1:]),
            dtype=self.head["dtype"],
            meta=np.empty((0, 0), dtype=self.head["dtype"]),
            name=f"read-coordinates-{uuid4().hex}",
        )
        return read

    @property
    def ids(self) -> list[str] | None:
        """Ids of the rows, read on each access; None if the rows had none."""
        return self.documents(range(len(self)), IDS)

    @cached_property
    def store(self) -> CountMatrix | None:
        """Store of the rows; None if there is none, or if this process has not opened it before."""
        location = NAMED_LOCATIONS.get(str(self.head["store"]))
        if location is None:
            return None
        opened: CountMatrix = open_store(location.url, storage_options=dict(location.options))
        return opened

    def documents(self, rows: Iterable[int], kind: str) -> list[str] | None:
        """Return the ids or texts of some rows; None if there are none."""
        if kind == TEXTS:
            return self.store.documents(rows, kind) if self.store is not None else None
        if not self.head["ids"]:
            return None
        positions = [divmod(row, self.head["chunk_rows"]) for row in rows]
        chunks = {chunk: self.read(chunk, read_ids=True) for chunk in {chunk for chunk, _ in positions}}
        return [str(chunks[chunk][i]) for chunk, i in positions]

    @property
    def is_parquet(self) -> bool:
        """Whether the coordinates are in Parquet files."""
        return self.location.url.rstrip("/").endswith(".parquet")

    def read(self, chunk: int, *, read_ids: bool = False) -> Any:
        """Read the coordinates, or the ids, of a chunk. Shapes: returns (n_rows, n_coordinates), or (n_rows,)."""
        name = f"{self.location.url}, rows {self.rows(chunk).start} to {self.rows(chunk).stop - 1}"
        try:
            return retry(self._read, chunk, read_ids, description=f"reading {name}")
        except (OSError, ValueError, RuntimeError, TypeError, AttributeError, LookupError) as error:
            reason = " ".join(str(error).split())
            raise StoreError(f"{name}: missing or damaged ({reason}); remove it and write it again") from error

    def _read(self, chunk: int, read_ids: bool) -> Any:
        if self.is_parquet:
            (content,) = self.location.read_files(_get_file_name(chunk))
            if content is None:
                raise FileNotFoundError(_get_file_name(chunk))
            table = import_optional("pyarrow.parquet").read_table(io.BytesIO(content.tobytes()))
            head = _verify_header(json.loads((table.schema.metadata or {})[KEY.encode()]))
            (digests,) = head.pop("digests")
            if head != {**self.head, "chunk": chunk, "finished": False}:
                raise ValueError("the file belongs to other coordinates")
            column = table.column("id" if read_ids else "coordinates").combine_chunks()
            values = column.to_pylist() if read_ids else column.flatten().to_numpy().reshape(-1, self.shape[1])
            return _check_digest(values, digests)
        rows = self.rows(chunk)
        coordinates = zarr.open_array(
            self.location.open(), path=IDS if read_ids else "coordinates", mode="r", zarr_format=3
        )
        values = np.asarray(coordinates[rows.start : rows.stop])
        if not read_ids and np.isnan(values[0]).any():  # the fill value
            raise ValueError("the chunk is missing")
        values = list(map(str, values)) if read_ids else values
        return _check_digest(values, self.digests[chunk]) if self.digests else values

    def read_digests(self, chunk: int) -> list[Any]:
        """Read an existing Zarr chunk and return its digests."""
        return [
            _compute_chunk_digest(self.read(chunk)),
            _compute_chunk_digest(self.read(chunk, read_ids=True)) if self.head["ids"] else None,
        ]

    def write(self, chunk: int, values: FloatArray, ids: list[str] | None) -> list[Any]:
        """Write a chunk, its coordinates last as the completion marker; return its digests."""
        rows = self.rows(chunk)
        digests = [_compute_chunk_digest(values), None if ids is None else _compute_chunk_digest(ids)]
        if self.is_parquet:
            head = add_content_hash({**self.head, "chunk": chunk, "digests": [digests]})
            self.location.write_file(_get_file_name(chunk), _encode_parquet(head, rows, values, ids))
            return digests
        for path, content in ((IDS, ids), ("coordinates", values)):
            if content is not None:
                array = zarr.open_array(self.location.open(read_only=False), path=path, mode="r+", zarr_format=3)
                array[rows.start : rows.stop] = np.asarray(content, dtype=array.dtype)
        return digests

    def has_chunk(self, chunk: int) -> bool:
        """Report whether a chunk was written."""
        key = _get_file_name(chunk) if self.is_parquet else f"coordinates/c/{chunk}/0"
        return self.location.has_file(key)

    def create_arrays(self) -> None:
        """Write the root and the array metadata of Zarr coordinates."""
        if self.is_parquet:
            return
        self.location.write_attributes("", {KEY: add_content_hash(self.head)})
        store, dtype, size = self.location.open(read_only=False), self.head["dtype"], self.head["chunk_rows"]
        packed = {"compressors": get_array_codecs(np.dtype(dtype)), "fill_value": np.nan}
        forms: dict[str, Any] = {"coordinates": (self.shape, (size, self.shape[1]), dtype, packed)}
        if self.head["ids"]:
            forms[IDS] = self.shape[:1], (size,), str, {}
        for name, (shape, chunks, kind, more) in forms.items():
            if not self.location.has_file(f"{name}/zarr.json"):
                zarr.create_array(store, name=name, shape=shape, chunks=chunks, dtype=kind, **more)


@tracked_fit
def write_rows(
    Z: RowsLike,
    out: str | PathLike[str],
    *,
    storage_options: dict[str, Any] | None = None,
    dtype: DTypeLike | None = None,
) -> Coordinates:
    """Write dense rows in chunks with the ids of their store; resumes an interrupted call."""
    if not str(out).rstrip("/").endswith((".zarr", ".parquet")):
        raise ValueError(f"out={str(out)!r} must end in .zarr or .parquet")
    rows, location = convert_rows(as_dask_rows(Z), dtype), Location.from_url(out, storage_options)
    saved = Coordinates(location, _make_header(rows))
    with hold_write_lock(location):
        existing = _open_if_exists(location)
        if existing is not None and {**existing.head, "finished": False} != saved.head:
            raise StoreError(
                f"{out} has coordinates of other rows or of another model: remove them, or choose another path"
            )
        if existing is not None and existing.head["finished"]:
            return existing
        saved.create_arrays()
        # Looking for existing chunks takes one request per chunk, so only after an interrupted call.
        numbers = range(saved.n_chunks)
        has_chunk = run_tasks(saved.has_chunk, numbers, name="find-block") if existing else [False] * len(numbers)
        digests = _write_missing_chunks(saved, rows, [number for number in numbers if not has_chunk[number]])
        coordinates = replace(saved, head={**saved.head, "finished": True})
        if saved.is_parquet:
            return coordinates
        existing_chunks = [number for number in numbers if has_chunk[number]]
        digests.update(zip(existing_chunks, run_tasks(saved.read_digests, existing_chunks, name="verify"), strict=True))
        coordinates = replace(coordinates, digests=[digests[number] for number in numbers])
        location.write_attributes("", {KEY: add_content_hash({**coordinates.head, "digests": coordinates.digests})})
    return coordinates


def convert_rows(rows: Any, dtype: DTypeLike | None) -> Any:
    """Return a Dask array of another type, or as it is for None; the name of its pass stays."""
    if dtype is None or rows.dtype == dtype:
        return rows
    dtype = np.dtype(dtype)
    name = get_pass_name(str(rows.name)) or "vectors"
    return map_rows(rows, partial(_convert, dtype=dtype), n_columns=rows.shape[1], dtype=dtype, name=name)


def _convert(block: FloatArray, *, dtype: np.dtype[Any]) -> FloatArray:
    """Return a block in another type; raise ValueError for values beyond its range."""
    with np.errstate(over="ignore"):
        converted = block.astype(dtype)
    if not np.array_equal(np.isfinite(converted), np.isfinite(block)):
        raise ValueError(f"values up to {np.abs(block).max():.3g} are beyond the range of {dtype}: use a wider dtype")
    return converted


def _make_header(rows: da.Array) -> dict[str, Any]:
    """Return the header of new coordinates."""
    (n, k), dtype, source_store = rows.shape, rows.dtype, get_annotation(rows, STORE_ANNOTATION)
    return {
        "token": _compute_token(rows),
        "shape": [n, k],
        "dtype": dtype.str,
        "chunk_rows": max(1, min(max(rows.chunks[0]), CHUNK_BYTES // (k * dtype.itemsize))),
        "ids": source_store is not None and source_store.documents([0], IDS) is not None,
        "made_by": get_pass_name(str(rows.name)),
        "store": redact_urls(coordinates.url) if (coordinates := getattr(source_store, "location", None)) else None,
        "finished": False,
    }


def _write_missing_chunks(coordinates: Coordinates, rows: da.Array, missing_chunks: list[int]) -> dict[int, list[Any]]:
    """Write some chunks and return their digests by chunk number."""
    if not missing_chunks:
        return {}
    source_store = get_annotation(rows, STORE_ANNOTATION) if coordinates.head["ids"] else None

    def write(block: FloatArray, *, block_id: tuple[int, int]) -> Any:
        chunk_rows, digests = coordinates.rows(block_id[0]), np.empty((1, 1), dtype=object)
        ids = None if source_store is None else source_store.documents(chunk_rows, IDS)
        name = f"{coordinates.location.url}, rows {chunk_rows.start} to {chunk_rows.stop - 1}"
        digests[0, 0] = retry(coordinates.write, block_id[0], block, ids, description=f"writing {name}")
        return digests

    written = da.map_blocks(
        write,
        rows.rechunk({0: coordinates.head["chunk_rows"]}, method="tasks"),
        chunks=((1,) * coordinates.n_chunks, (1,)),
        dtype=object,
        meta=np.empty((0, 0), dtype=object),
        name=f"write-coordinates-{uuid4().hex}",
    )
    with thread_pool_options() as threads, dask.config.set(threads):
        new_digests = collect_rows(
            written if len(missing_chunks) == coordinates.n_chunks else written.blocks[missing_chunks]
        )
    return dict(zip(missing_chunks, new_digests[:, 0], strict=True))


def open_coordinates(url: str | PathLike[str], *, storage_options: dict[str, Any] | None = None) -> Coordinates:
    """Open coordinates that ``transform(X, out=...)`` has written; only metadata is read.

    Parameters
    ----------
    url : str or path-like
        Local path or fsspec URL that ends in .zarr or .parquet.
    storage_options : dict, optional
        Options of the file system.

    Returns
    -------
    Coordinates
        The coordinates; ``array`` is a lazy Dask array, ``ids`` a list.

    Raises
    ------
    StoreError
        If there are none, or they are not complete.

    Examples
    --------
    >>> from dspectral import TruncatedSVD
    >>> saved = TruncatedSVD(2).fit(np.eye(3)).transform(np.eye(3), out="memory://opened-again.zarr")
    >>> np.array_equal(open_coordinates("memory://opened-again.zarr").array.compute(), saved.array.compute())
    True
    """
    coordinates = _open_if_exists(Location.from_url(url, storage_options))
    if coordinates is None:
        raise StoreError(f"no coordinates at {url}: write them with transform(X, out=...)")
    if not coordinates.head["finished"]:
        raise StoreError(f"the coordinates at {url} are not complete: repeat the call that writes them")
    return coordinates


def _open_if_exists(location: Location) -> Coordinates | None:
    """Open coordinates, complete or not; return None if the location is empty, raise StoreError for other content."""
    coordinates = Coordinates(location, {})
    if not coordinates.is_parquet:
        attributes = location.read_attributes(zarr_format=None)
        if attributes and KEY not in attributes:
            raise StoreError(f"{location.url} does not contain coordinates: choose another path, or remove it")
        if not attributes:
            return None
        head = _verify_header(attributes[KEY], location)
        digests = head.pop("digests", [])
        return Coordinates(location, head, digests)
    names = [name for name in location.list_names() if name.endswith(".parquet")]
    if not names:
        return None
    try:
        file_system, path = location.path(names[0])
        with file_system.open(path) as file:
            metadata = (import_optional("pyarrow.parquet").read_schema(file).metadata or {}).get(KEY.encode())
        written = json.loads(metadata or "null")
    except (OSError, ValueError, RuntimeError) as error:
        raise StoreError(f"{location.url}: {names[0]} is damaged; remove it and write it again") from error
    if metadata is None:
        raise StoreError(f"{location.url} does not contain coordinates: choose another path, or remove it")
    head = _verify_header(written, location)
    saved = Coordinates(location, {name: head[name] for name in head.keys() - {"chunk", "digests"}})
    return replace(saved, head={**saved.head, "finished": len(names) == saved.n_chunks})


def _compute_token(rows: da.Array) -> str:
    """Return a token of the content of rows; a random one if the content is unknown."""
    recipes = GraphTokenizer(get_array_nodes(rows), digest)
    try:
        return digest([recipes.tokenize((rows.name, i, 0)) for i in range(rows.numblocks[0])])
    except UnknownContentError:
        return uuid4().hex


def _verify_header(head: dict[str, Any], location: Location | None = None) -> dict[str, Any]:
    """Verify the content hash of a header and return it without the hash."""
    if not isinstance(head, dict) or not has_valid_content_hash(head):
        source_name = "its metadata" if location is None else f"the attributes of {location.url}"
        raise StoreError(f"{source_name} do not match their content hash; remove the coordinates and write them again")
    return {name: value for name, value in head.items() if name != CONTENT_HASH}


def _compute_chunk_digest(values: FloatArray | list[str]) -> Any:
    return compute_content_hash(values) if isinstance(values, list) else compute_digest(values)


def _check_digest(values: Any, digests: list[Any]) -> Any:
    """Return the coordinates or ids of a chunk; raise ValueError if they do not match their digest."""
    if _compute_chunk_digest(values) != digests[isinstance(values, list)]:
        raise ValueError("it does not match its digest")
    return values


def _read_block(*, coordinates: Coordinates, block_id: tuple[int, int]) -> FloatArray:
    return cast(FloatArray, coordinates.read(block_id[0]))


def _get_file_name(chunk: int) -> str:
    return f"part-{chunk:06d}.parquet"


def _encode_parquet(head: dict[str, Any], rows: range, values: FloatArray, ids: list[str] | None) -> bytes:
    """Return the Parquet file of a chunk; each chunk has its own file, so that a file is complete or missing."""
    arrow, file = import_optional("pyarrow"), io.BytesIO()
    flat = arrow.array(np.ascontiguousarray(values).reshape(-1))
    columns = {"row": np.arange(rows.start, rows.stop), "id": ids}
    table = {name: arrow.array(column) for name, column in columns.items() if column is not None}
    table["coordinates"] = arrow.FixedSizeListArray.from_arrays(flat, values.shape[1])
    metadata = {KEY: json.dumps(head)}
    write_table = import_optional("pyarrow.parquet").write_table
    write_table(arrow.table(table).replace_schema_metadata(metadata), file, use_dictionary=False)
    return file.getvalue()
