"""Coordinates of rows on disk with the ids of the rows: one array of Zarr, or a folder of Parquet files, in chunks."""

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

from dspectral.engine import collect_rows, emits_events, lazy_rows, run_tasks
from dspectral.engine.around.checkpoints import UnknownContentError, digest
from dspectral.engine.around.retries import retried
from dspectral.engine.blocks import ROWS_OF, get_annotation
from dspectral.engine.graph import GraphTokenizer, get_array_nodes, pass_of_layer
from dspectral.store.anndata_files import optional_module
from dspectral.store.array_files import compressors_of
from dspectral.store.arrays import SEAL, digest_of, is_sealed, seal_of, sealed
from dspectral.store.blocks import IDS, TEXTS
from dspectral.store.counts import open_store
from dspectral.store.draft import waiting_threads
from dspectral.store.location import GIVEN, Location, StoreError, named_when_full, without_secrets
from dspectral.store.lock import locked
from dspectral.store.rows import OpenedCounts
from dspectral.types import FloatArray

KEY = "dspectral-coordinates"
"""Attribute of the root, and metadata of each Parquet file, that says what is written there."""
CHUNK_BYTES = 64 << 20
"""Most bytes of a chunk."""


@dataclass(frozen=True, eq=False, repr=False)
class Coordinates:
    """Coordinates that were written with ``transform(X, out=...)``, opened; :func:`dspectral.nearest` searches them.

    Attributes
    ----------
    where : Location
        Their place: a group of Zarr with the arrays ``coordinates`` and ``ids``, or a folder of Parquet files with the
        columns ``row``, ``id`` and ``coordinates``.
    head : dict
        Attribute of its root, or metadata of each file: shape and type of the rows, rows of a chunk, whether there are
        ids, the model and the store that made them, and a token of their content.
    digests : list of list
        A digest of the coordinates and one of the ids of each chunk of Zarr; a Parquet file holds its own.

    Examples
    --------
    >>> from dspectral import Texts, TruncatedSVD, build_store
    >>> store = build_store(Texts(["a cat", "a dog", "the dog"]), "memory://saved-texts")
    >>> saved = TruncatedSVD(2).fit(store).transform(store, out="memory://saved.zarr")
    >>> saved.shape, saved.array.chunks
    ((3, 2), ((3,), (2,)))
    """

    where: Location
    head: dict[str, Any]
    digests: list[list[Any]] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"Coordinates({self.where.url!r}: {self.shape[0]} x {self.shape[1]})"

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of coordinates."""
        return self.head["shape"][0], self.head["shape"][1]

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return int(-(-len(self) // self.head["chunk_rows"]))

    def rows(self, chunk: int) -> range:
        """Return the numbers of the rows of a chunk."""
        size = self.head["chunk_rows"]
        return range(chunk * size, min(len(self), (chunk + 1) * size))

    @property
    def array(self) -> da.Array:
        """Dask array of the coordinates, shape (n_rows, n_coordinates), nothing read yet."""
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
        """The id of each row, read at each call; None where the rows had none."""
        return self.documents(range(len(self)), IDS)

    @cached_property
    def store(self) -> OpenedCounts | None:
        """The store that the rows are from; None where there is none, or no caller of this process has named it."""
        coordinates = GIVEN.get(str(self.head["store"]))
        return (
            None
            if coordinates is None
            else open_store(coordinates.url, storage_options=dict(coordinates.options))
        )

    def documents(self, rows: Iterable[int], part: str) -> list[str] | None:
        """Return the ids or texts of some rows, None where none were kept."""
        if part == TEXTS:
            return self.store.documents(rows, part) if self.store is not None else None
        if not self.head["ids"]:
            return None
        places = [divmod(row, self.head["chunk_rows"]) for row in rows]
        chunks = {chunk: self.read(chunk, ids=True) for chunk in {chunk for chunk, _ in places}}
        return [str(chunks[chunk][i]) for chunk, i in places]

    @property
    def is_parquet(self) -> bool:
        """Whether it is a folder of Parquet files."""
        return self.where.url.rstrip("/").endswith(".parquet")

    def read(self, chunk: int, *, ids: bool = False) -> Any:
        """Read the coordinates, or the ids, of a chunk. Shapes: returns (n_rows, n_coordinates), or (n_rows,)."""
        name = f"{self.where.url}, rows {self.rows(chunk).start} to {self.rows(chunk).stop - 1}"
        try:
            return retried(self._read, chunk, ids, what=f"reading {name}")
        except (OSError, ValueError, RuntimeError, TypeError, AttributeError, LookupError) as error:
            said = " ".join(str(error).split())
            raise StoreError(f"{name}: missing or damaged ({said}); remove it and write it again") from error

    def _read(self, chunk: int, ids: bool) -> Any:
        if self.is_parquet:
            (content,) = self.where.open().read_files(_get_file_name(chunk))
            if content is None:
                raise FileNotFoundError(_get_file_name(chunk))
            table = optional_module("pyarrow.parquet").read_table(io.BytesIO(content.tobytes()))
            head = _verify_header(json.loads((table.schema.metadata or {})[KEY.encode()]))
            (known,) = head.pop("digests")
            if head != {**self.head, "chunk": chunk, "finished": False}:
                raise ValueError("it is the file of other rows")
            column = table.column("id" if ids else "coordinates").combine_chunks()
            values = column.to_pylist() if ids else column.flatten().to_numpy().reshape(-1, self.shape[1])
            return _check_digest(values, known)
        rows = self.rows(chunk)
        found = zarr.open_array(
            self.where.open(), path=IDS if ids else "coordinates", mode="r", zarr_format=3
        )
        values = np.asarray(found[rows.start : rows.stop])
        if not ids and np.isnan(values[0]).any():  # what Zarr fills up with
            raise ValueError("the chunk is not there")
        values = list(map(str, values)) if ids else values
        return _check_digest(values, self.digests[chunk]) if self.digests else values

    def digests_of(self, chunk: int) -> list[Any]:
        """Return the digests of a chunk of Zarr that an earlier call has written."""
        return [
            _compute_content_digest(self.read(chunk)),
            _compute_content_digest(self.read(chunk, ids=True)) if self.head["ids"] else None,
        ]

    def write(self, chunk: int, values: FloatArray, ids: list[str] | None) -> list[Any]:
        """Write a chunk, its coordinates last: where they are, the chunk is whole. Return its digests."""
        rows, digests = (
            self.rows(chunk),
            [_compute_content_digest(values), None if ids is None else _compute_content_digest(ids)],
        )
        if self.is_parquet:
            head = sealed({**self.head, "chunk": chunk, "digests": [digests]})
            self.where.open(read_only=False).write_files(
                {_get_file_name(chunk): _encode_parquet(head, rows, values, ids)}
            )
            return digests
        for path, content in ((IDS, ids), ("coordinates", values)):
            if content is not None:
                array = zarr.open_array(self.where.open(read_only=False), path=path, mode="r+", zarr_format=3)
                array[rows.start : rows.stop] = np.asarray(content, dtype=array.dtype)
        return digests

    def has_chunk(self, chunk: int) -> bool:
        """Report whether a chunk was written."""
        key = _get_file_name(chunk) if self.is_parquet else f"coordinates/c/{chunk}/0"
        return self.where.open().is_there(key)

    def begin(self) -> None:
        """Write what is there before the first chunk: of Zarr the root and the metadata of the arrays."""
        if self.is_parquet:
            return
        self.where.mark("", {KEY: sealed(self.head)})
        store, dtype, size = self.where.open(read_only=False), self.head["dtype"], self.head["chunk_rows"]
        packed = {"compressors": compressors_of(np.dtype(dtype)), "fill_value": np.nan}
        forms: dict[str, Any] = {"coordinates": (self.shape, (size, self.shape[1]), dtype, packed)}
        if self.head["ids"]:
            forms[IDS] = self.shape[:1], (size,), str, {}
        for name, (shape, chunks, kind, more) in forms.items():
            if not store.is_there(f"{name}/zarr.json"):
                zarr.create_array(store, name=name, shape=shape, chunks=chunks, dtype=kind, **more)


@emits_events
def write_rows(
    Z: Any, out: str | PathLike[str], *, storage_options: dict[str, Any] | None = None
) -> Coordinates:
    """Write dense rows, lazy or in memory, chunk by chunk, with the ids of the store that they are of.

    The same call goes on where one was stopped: chunks that are there are neither read nor made again.
    """
    if not str(out).rstrip("/").endswith((".zarr", ".parquet")):
        raise ValueError(f"out is {str(out)!r}, but it must end in .zarr or .parquet")
    rows, where = lazy_rows(Z), Location.of(out, storage_options)
    saved = Coordinates(where, _make_header(rows))
    with locked(where):
        found = _open_if_exists(where)
        if found is not None and {**found.head, "finished": False} != saved.head:
            raise StoreError(
                f"there are coordinates of other rows or of another model at {out}: remove them, or choose another "
                "place"
            )
        if found is not None and found.head["finished"]:
            return found
        saved.begin()
        # Only where an earlier call was stopped: to look for what it has written takes a request for each chunk.
        numbers = range(saved.n_chunks)
        there = run_tasks(saved.has_chunk, numbers, name="find-block") if found else [False] * len(numbers)
        digests = _write_missing_chunks(saved, rows, [number for number in numbers if not there[number]])
        done = replace(saved, head={**saved.head, "finished": True})
        if saved.is_parquet:
            return done
        earlier = [number for number in numbers if there[number]]
        digests.update(zip(earlier, run_tasks(saved.digests_of, earlier, name="verify"), strict=True))
        done = replace(done, digests=[digests[number] for number in numbers])
        where.mark("", {KEY: sealed({**done.head, "digests": done.digests})})
    return done


def _make_header(rows: da.Array) -> dict[str, Any]:
    """Return the head of coordinates of which nothing is written yet."""
    (n, k), dtype, known = rows.shape, rows.dtype, get_annotation(rows, ROWS_OF)
    return {
        "token": _compute_token(rows),
        "shape": [n, k],
        "dtype": dtype.str,
        "chunk_rows": max(1, min(max(rows.chunks[0]), CHUNK_BYTES // (k * dtype.itemsize))),
        "ids": known is not None and known.documents([0], IDS) is not None,
        "made_by": pass_of_layer(str(rows.name)),
        "store": without_secrets(coordinates.url) if (coordinates := getattr(known, "where", None)) else None,
        "finished": False,
    }


def _write_missing_chunks(coordinates: Coordinates, rows: da.Array, left: list[int]) -> dict[int, list[Any]]:
    """Write some chunks, and return the digests of each."""
    if not left:
        return {}
    written = da.map_blocks(
        partial(
            _write_block,
            coordinates=coordinates,
            of=get_annotation(rows, ROWS_OF) if coordinates.head["ids"] else None,
        ),
        rows.rechunk({0: coordinates.head["chunk_rows"]}, method="tasks"),
        chunks=((1,) * coordinates.n_chunks, (1,)),
        dtype=object,
        meta=np.empty((0, 0), dtype=object),
        name=f"write-coordinates-{uuid4().hex}",
    )
    with waiting_threads() as threads, dask.config.set(threads):
        made = collect_rows(written if len(left) == coordinates.n_chunks else written.blocks[left])
    return dict(zip(left, made[:, 0], strict=True))


def open_coordinates(
    url: str | PathLike[str], *, storage_options: dict[str, Any] | None = None
) -> Coordinates:
    """Open coordinates that ``transform(X, out=...)`` has written: metadata alone is read.

    Parameters
    ----------
    url : str or path-like
        Local path or fsspec URL, which ends in .zarr or .parquet.
    storage_options : dict, optional
        Options of the file system.

    Returns
    -------
    Coordinates
        The coordinates; ``array`` is a Dask array of them, ``ids`` a list.

    Raises
    ------
    StoreError
        If there are none, or not all were written.

    Examples
    --------
    >>> from dspectral import TruncatedSVD
    >>> saved = TruncatedSVD(2).fit(np.eye(3)).transform(np.eye(3), out="memory://opened-again.zarr")
    >>> np.array_equal(open_coordinates("memory://opened-again.zarr").array.compute(), saved.array.compute())
    True
    """
    found = _open_if_exists(Location.of(url, storage_options))
    if found is None:
        raise StoreError(f"there are no coordinates at {url}: transform(X, out=...) writes them")
    if not found.head["finished"]:
        raise StoreError(f"the coordinates at {url} are not finished: the call that began them goes on")
    return found


def _open_if_exists(where: Location) -> Coordinates | None:
    """Return the coordinates at a place, finished or not; refuse a place where something else is."""
    coordinates = Coordinates(where, {})
    if not coordinates.is_parquet:
        attributes = where.attributes(zarr_format=None)
        if attributes and KEY not in attributes:
            raise StoreError(f"there is something else at {where.url}: choose another place, or remove it")
        if not attributes:
            return None
        head = _verify_header(attributes[KEY], where)
        digests = head.pop("digests", [])
        return Coordinates(where, head, digests)
    names = [name for name in where.names() if name.endswith(".parquet")]
    if not names:
        return None
    try:
        system, path = where.path(names[0])
        with system.open(path) as file:
            metadata = (optional_module("pyarrow.parquet").read_schema(file).metadata or {}).get(KEY.encode())
        said = json.loads(metadata or "null")
    except (OSError, ValueError, RuntimeError) as error:
        raise StoreError(f"{where.url}: {names[0]} is damaged; remove it and write it again") from error
    if metadata is None:
        raise StoreError(f"there is something else at {where.url}: choose another place, or remove it")
    head = _verify_header(said, where)
    found = Coordinates(where, {name: head[name] for name in head.keys() - {"chunk", "digests"}})
    return replace(found, head={**found.head, "finished": len(names) == found.n_chunks})


def _compute_token(rows: da.Array) -> str:
    """Return a digest of what rows are made of; where that is not known, a name of its own."""
    recipes = GraphTokenizer(get_array_nodes(rows), digest)
    try:
        return digest([recipes.tokenize((rows.name, i, 0)) for i in range(rows.numblocks[0])])
    except UnknownContentError:
        return uuid4().hex


def _verify_header(head: dict[str, Any], where: Location | None = None) -> dict[str, Any]:
    """Return what was sealed, without its seal."""
    if not isinstance(head, dict) or not is_sealed(head):
        what = "its metadata" if where is None else f"the attributes of {where.url}"
        raise StoreError(f"{what} were changed after they were written; remove them and write them again")
    return {name: value for name, value in head.items() if name != SEAL}


def _compute_content_digest(values: FloatArray | list[str]) -> Any:
    return seal_of(values) if isinstance(values, list) else digest_of(values)


def _check_digest(values: Any, known: list[Any]) -> Any:
    """Return coordinates or ids of a chunk, which must be those that were written."""
    if _compute_content_digest(values) != known[isinstance(values, list)]:
        raise ValueError("it is not what was written")
    return values


def _read_block(*, coordinates: Coordinates, block_id: tuple[int, int]) -> FloatArray:
    return cast(FloatArray, coordinates.read(block_id[0]))


def _write_block(
    block: FloatArray, *, coordinates: Coordinates, of: OpenedCounts | None, block_id: tuple[int, int]
) -> Any:
    rows = coordinates.rows(block_id[0])
    ids = None if of is None else of.documents(rows, IDS)
    name = f"{coordinates.where.url}, rows {rows.start} to {rows.stop - 1}"
    digests = np.empty((1, 1), dtype=object)
    with named_when_full(name):
        digests[0, 0] = retried(coordinates.write, block_id[0], block, ids, what=f"writing {name}")
    return digests


def _get_file_name(chunk: int) -> str:
    return f"part-{chunk:06d}.parquet"


def _encode_parquet(head: dict[str, Any], rows: range, values: FloatArray, ids: list[str] | None) -> bytes:
    """Return the file of a chunk: a file is whole or not there, which one file for all rows would not be."""
    arrow, file = optional_module("pyarrow"), io.BytesIO()
    flat = arrow.array(np.ascontiguousarray(values).reshape(-1))
    columns = {"row": np.arange(rows.start, rows.stop), "id": ids}
    table = {name: arrow.array(column) for name, column in columns.items() if column is not None}
    table["coordinates"] = arrow.FixedSizeListArray.from_arrays(flat, values.shape[1])
    metadata = {KEY: json.dumps(head)}
    optional_module("pyarrow.parquet").write_table(arrow.table(table).replace_schema_metadata(metadata), file)
    return file.getvalue()
