"""Texts that are no files: in memory or of Dask, kept in the scratch of the store built of them."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from os import PathLike
from typing import Any, NamedTuple, Self, TypeAlias

import dask
import dask.array as da
import numpy as np
from scipy import sparse

from dspectral.engine import summarize
from dspectral.store.arrays import compute_digest
from dspectral.store.blocks import IDS, read_documents, write_documents
from dspectral.store.draft import StoreWriter, thread_pool_options, to_json
from dspectral.store.from_text.lines import (
    LINE_CHUNK_BYTES,
    MISSING,
    DocumentSizeLimit,
    ReadCounts,
    ReadOptions,
)
from dspectral.store.from_text.readers import pack_blocks
from dspectral.store.from_text.streams import import_extra
from dspectral.store.location import Location, StoreError
from dspectral.text.packing import encode_texts, iterate_texts, pack_texts
from dspectral.types import Documents, is_missing

TextSources: TypeAlias = "str | PathLike[str] | Iterable[Any]"
"""Files by their names, or texts: whatever :func:`as_texts` tells apart."""


COUNTS = "long"
"""Group in the scratch of a store with what was read on of each piece of text."""


class Texts:
    """Give texts in memory where a list of strings would name files.

    :func:`dspectral.build_store` and :func:`dspectral.build_corpus` take every other collection as texts.

    Parameters
    ----------
    texts : iterable of str
        A list, tuple, generator, array or column of pandas, polars, Arrow or Hugging Face Datasets; a Dask Bag or
        a column of a Dask DataFrame, which are read partition by partition; or a table or records with ``field``. Lazy
        frames of polars, data sets and record batch readers of Arrow and relations of DuckDB are read batch by batch.
    field : str, default=None
        Name of the column of a table, or of the field of records, that holds the texts.

    Examples
    --------
    >>> from dspectral import build_store
    >>> build_store(Texts(["the cat sat", "the dog"]), "memory://two-texts").shape
    (2, 131072)
    """

    def __init__(self, texts: Iterable[Any], field: str | None = None) -> None:
        self.texts = texts
        self.field = field

    def __repr__(self) -> str:
        named = "" if self.field is None else f", field={self.field!r}"
        return f"Texts({type(self.texts).__name__}{named})"

    def __iter__(self) -> Iterator[Any]:
        column = self.column
        if dask.is_dask_collection(column):
            raise TypeError(
                f"{self!r} is lazy: build_store, build_corpus and NgramHashing read it by partitions"
            )
        return (text.decode() for text in encode_texts(column))

    @property
    def column(self) -> Any:
        """The collection of texts itself: of a table the column.

        Raises
        ------
        ValueError
            If there is no such column or field.
        TypeError
            If it is a table and no field is named.
        """
        return self.texts if self.field is None else _select_column(self.texts, self.field)


def as_texts(sources: TextSources, field: str | None) -> "Texts | None":
    """Return the texts that sources are, or None where they name files.

    >>> as_texts(["a.txt", "b.txt"], None) is None
    True
    >>> as_texts((line for line in ["the cat", "the dog"]), None)
    Texts(generator)
    """
    if isinstance(sources, Texts):
        if field is not None and sources.field is not None:
            raise ValueError(
                f"field is {field!r}, but Texts(...) names {sources.field!r} already: name it once"
            )
        return sources if field is None else Texts(sources.texts, field)
    if isinstance(sources, str | PathLike):
        return None
    if isinstance(sources, list | tuple) and all(isinstance(source, str | PathLike) for source in sources):
        return None
    return Texts(sources, field)


def as_file_list(sources: TextSources) -> Any:
    """Return sources with an iterator of paths, such as ``Path.glob`` gives, as the list of them."""
    if not isinstance(sources, Iterator) or hasattr(sources, "__arrow_c_stream__"):
        return sources
    # One element is taken to see its kind, and put back in front: no more of a generator may be read here.
    first = list(islice(sources, 1))
    if first and isinstance(first[0], PathLike):
        return [*first, *sources]
    return chain(first, sources)


def as_partitions(column: Any) -> "da.Array | None":
    """Return the partitions of a Dask collection of texts as a stream of blocks, or None for all else."""
    if not dask.is_dask_collection(column):
        return None
    kind = type(column).__name__
    if getattr(column, "ndim", 1) == 2 and hasattr(column, "columns"):
        raise TypeError(f"the texts are a Dask {kind}, of which field= must name the column")
    if not hasattr(column, "to_delayed") or getattr(column, "ndim", 1) != 1:
        raise TypeError(
            f"the texts are a lazy {kind}, but a Dask Bag of strings or a column of a Dask DataFrame is needed"
        )
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind not in "OSU":
        raise TypeError(f"X is a {kind}, but it holds {dtype} and no texts")
    return number_partitions(column)


def number_partitions(collection: Any) -> da.Array:
    """Return the partitions of a Dask collection as a stream of blocks, each with its number."""
    # Impure: a pure call would hash the partition for its key. Each carries its number, since a block does not know
    # where it stands.
    number = dask.delayed(_number_partition, pure=False)
    parts = [
        number(i, part) for i, part in enumerate(np.ravel(np.asarray(collection.to_delayed(), dtype=object)))
    ]
    meta = np.empty((0, 0), dtype=object)  # of a stream of anything: nothing is promised about its blocks
    return da.concatenate([da.from_delayed(part, (1, 1), meta=meta) for part in parts])


class PartitionResults(NamedTuple):
    """Values that were found, one for each partition, in their order."""

    found: tuple[Any, ...]

    def merge(self, *others: Self) -> Self:
        """Return what was found of all partitions."""
        return type(self)(tuple(value for part in (self, *others) for value in part.found))


def map_partitions(
    partitions: da.Array, function: Callable[[int, Any], Any], *, name: str
) -> tuple[Any, ...]:
    """Call a function of the number and texts of each partition, one task each."""
    return summarize(partitions, of=partial(_apply_to_partition, function=function), name=name).found


def hash_partitions(partitions: da.Array, hash_block: Callable[[Documents], Any], n_columns: int) -> da.Array:
    """Return the rows of each partition, made as they are read. Shapes: returns (n_documents, n_columns)."""
    sizes = map_partitions(partitions, _count_documents, name="count-documents")
    if not sum(sizes):
        raise ValueError("no document at all in the texts given")
    rows_of = partial(_hash_partition, hash_block=hash_block)
    meta, chunks = sparse.csr_array((0, 0), dtype=np.float32), (sizes, (n_columns,))
    return da.map_blocks(rows_of, partitions, dtype=np.float32, chunks=chunks, meta=meta)


def _apply_to_partition(block: tuple[int, Any], *, function: Callable[[int, Any], Any]) -> PartitionResults:
    return PartitionResults((function(*block),))


def _hash_partition(block: tuple[int, Any], *, hash_block: Callable[[Documents], Any]) -> Any:
    return hash_block(next(pack_texts(block[1], block_bytes=sys.maxsize), Documents.from_strings([])))


def _count_documents(_number: int, texts: Iterable[Any]) -> int:
    return sum(block.n_documents for block in pack_texts(texts))


def _number_partition(number: int, texts: Iterable[Any]) -> tuple[int, Iterable[Any]]:
    return number, texts


def _select_column(table: Any, field: str) -> Any:
    """Return a column of a table, or a field of records, without reading what is lazy."""
    if hasattr(table, "pluck") and dask.is_dask_collection(table):  # a Dask Bag of records
        return table.pluck(field)
    if _is_table(table):
        return _get_column(table, field)
    return (row[0] for row in _iter_rows(table, (field,)))


def _is_table(table: Any) -> bool:
    """Report whether a collection has columns that it gives by their names."""
    if _is_stream(table) or not hasattr(table, "__getitem__"):
        return False
    return (getattr(table, "column_names", None) or getattr(table, "columns", None)) is not None


def _get_column(table: Any, field: str) -> Any:
    names = getattr(table, "column_names", None) or table.columns
    if field not in list(names):
        raise ValueError(f"the table has no column {field!r}, but {', '.join(map(str, names))}")
    return table[field]


def _is_stream(table: Any) -> bool:
    return any(hasattr(table, name) for name in ("collect_batches", "scanner", "fetch_record_batch")) or (
        hasattr(table, "__arrow_c_stream__") and not hasattr(table, "__getitem__")
    )


def _iter_rows(table: Any, fields: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield some fields of each row of a table or each record, which are read once."""
    if _is_stream(table):
        yield from _iter_stream_rows(table, fields)
        return
    if _is_table(table):
        yield from zip(*(iterate_texts(_get_column(table, field)) for field in fields), strict=True)
        return
    if hasattr(table, "shape") or isinstance(table, str | bytes | Mapping) or not isinstance(table, Iterable):
        raise TypeError(f"field is {fields[0]!r}, but the texts are a {type(table).__name__} without columns")
    for number, record in enumerate(table):
        if not isinstance(record, Mapping):
            raise TypeError(
                f"field is {fields[0]!r}, but record {number} is a {type(record).__name__} without fields"
            )
        if lacking := [field for field in fields if field not in record]:
            known = ", ".join(map(str, record))
            raise ValueError(f"record {number} has no field {lacking[0]!r}, but {known}")
        yield tuple(record[field] for field in fields)


def _iter_stream_rows(table: Any, fields: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield some columns of a table that is read in batches, through the stream interface of Arrow."""
    pa = import_extra("pyarrow", f"a {type(table).__name__} needs")
    # A lazy frame of polars gives a frame for each batch, a data set of Arrow a scanner: of both the columns alone are
    # read. Relations of DuckDB, record batch readers and whatever else is such a stream is one as it stands.
    if hasattr(table, "collect_batches"):
        known = set(fields) <= set(table.collect_schema())
        streams = (table.select(fields) if known else table).collect_batches()
    else:
        streams = [table.scanner(columns=list(fields)).to_reader() if hasattr(table, "scanner") else table]
    for stream in streams:
        reader = pa.RecordBatchReader.from_stream(stream)
        names = reader.schema.names
        if lacking := [field for field in fields if field not in names]:
            raise ValueError(f"the table has no column {lacking[0]!r}, but {', '.join(names)}")
        for batch in reader:
            yield from zip(*(batch.column(field).to_pylist() for field in fields), strict=True)


class SavedTextBlock(NamedTuple):
    """A block of texts in the scratch of a store: group, digest, number of long texts, and the first of these."""

    name: str
    digest: int
    n_long: int = 0
    long_at: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """Name of the texts, for messages."""
        return "the texts given"


def save_texts(
    writer: StoreWriter, texts: Texts, read_options: ReadOptions, id_field: str | None
) -> list[SavedTextBlock]:
    """Write texts and ids into the scratch of a store, block by block; a later call compares digests."""
    where, path = writer.where, f"{writer.scratch}/texts"
    known = where.attributes(path)
    place = None if known else where
    try:
        save = partial(
            _save_partition,
            where=place,
            path=path,
            read_options=read_options,
            fields=_get_fields(texts, id_field),
        )
        # Threads that write have ended before an error goes on, as what they write into is removed.
        with thread_pool_options() as threads, dask.config.set(threads):
            blocks = _save_all(texts, save, id_field)
    except Exception:
        if not known:  # nothing that is of use to a later call: the next one may be of other text
            with suppress(OSError):  # workers of a cluster may still write; the reason is what counts
                writer.abort()
        raise
    # As JSON gives them back, for the comparison.
    listed = to_json(blocks)
    if not known:
        where.mark(path, {"blocks": listed})
    elif known["blocks"] != listed:
        raise StoreError(
            f"an unfinished build at {where.url} was begun with other texts than these: finish it with the same texts, "
            "or remove it with dspectral.store.discard_unfinished"
        )
    return blocks


def _get_fields(texts: Texts, id_field: str | None) -> tuple[str, ...]:
    """Return the fields of the text and of the id, none where there are no ids."""
    if id_field is None:
        return ()
    if texts.field is None:
        kind = type(texts.texts).__name__
        raise TypeError(
            f"id_field is {id_field!r}, but a {kind} without field= has no ids: give a table or records"
        )
    return texts.field, id_field


def _save_all(
    texts: Texts, save: Callable[[int, Any], list[SavedTextBlock]], id_field: str | None
) -> list[SavedTextBlock]:
    column: Any = texts.column
    partitions = as_partitions(column)
    if id_field is not None:
        column = texts.texts
        if partitions is not None:
            if _is_table(column):
                _get_column(column, id_field)
                column = column[[texts.field, id_field]]
            partitions = number_partitions(column)
    if partitions is None:
        blocks = save(0, column)
    else:
        blocks = [block for found in map_partitions(partitions, save, name="keep-texts") for block in found]
    if not blocks:
        raise ValueError(f"no document at all in {texts!r}")
    return blocks


def read_saved_texts(
    block: SavedTextBlock, read_options: ReadOptions, *, where: Location
) -> Iterator[Documents]:
    """Yield the documents of a block that was kept."""
    if (found := read_options.size_limit.found) is not None:
        found.count += block.n_long
        found.places += block.long_at
    yield read_documents(where, block.name)


def read_saved_ids(block: SavedTextBlock, *, where: Location) -> Iterator[Documents]:
    """Yield the ids of a block that was kept."""
    yield read_documents(where, f"{block.name}/{IDS}")


def _save_partition(
    number: int,
    texts: Iterable[Any],
    *,
    where: Location | None,
    path: str,
    read_options: ReadOptions,
    fields: tuple[str, ...],
) -> list[SavedTextBlock]:
    """Pack and write the texts of a partition; without a place they are packed alone, for their digests."""
    blocks = []
    # Packed as pieces of files are: the cuts follow from the texts alone, so that a build that goes on finds the
    # blocks that it began with.
    found = ReadCounts()
    read_options = read_options.counting(found)
    named = f"partition {number}, document" if number else "document"
    # `ids` are those of the texts that were read and are in no block yet.
    ids: list[str] = []
    rows = _collect_ids(_iter_rows(texts, fields), ids, read_options) if fields else texts
    replace_missing = partial(_replace_missing, read_options=read_options)
    chunk_bytes = min(read_options.block_bytes, LINE_CHUNK_BYTES)
    whole = pack_texts(rows, block_bytes=chunk_bytes, item_name=named, replace_missing=replace_missing)
    n_before = 0
    for part, documents in enumerate(
        pack_blocks(_limit_sizes(whole, named, read_options.size_limit), read_options.block_bytes)
    ):
        name = f"{path}/{number:06d}-{part:06d}"
        own = Documents.from_strings(ids[: documents.n_documents])
        del ids[: documents.n_documents]
        digest = compute_digest(*documents, *own) if fields else compute_digest(*documents)
        # What was found since the block before: perhaps in this one, perhaps a few documents ahead.
        blocks.append(SavedTextBlock(name, digest, found.count - n_before, tuple(found.places)))
        n_before, found.places = found.count, []
        if where is not None:
            write_documents(where, name, documents)
            if fields:
                write_documents(where, f"{name}/{IDS}", own)
    if where is not None and found.others:
        mark = {"count": 0, "places": [], "others": found.others}
        where.mark(f"{path.rpartition('/')[0]}/{COUNTS}/texts-{number:06d}", mark)
    return blocks


def _replace_missing(place: str, *, read_options: ReadOptions) -> bytes | None:
    """Return what a missing text is read as, None where it is left out."""
    if read_options.if_missing == "error":
        raise TypeError(f"{place}, but it must be a string; {MISSING}")
    return read_options.count_missing()


def _collect_ids(rows: Iterable[tuple[Any, ...]], ids: list[str], read_options: ReadOptions) -> Iterator[Any]:
    """Yield the text of each row, and note the id of each that is not left out."""
    for number, (text, own) in enumerate(rows):
        if read_options.if_missing != "skip" or not is_missing(text):
            if is_missing(own):
                raise ValueError(
                    f"the id of row {number} is missing, but it must be a string or a whole number"
                )
            ids.append(own if isinstance(own, str) else str(own))
        yield text


def _limit_sizes(
    parts: Iterable[Documents], named: str, size_limit: DocumentSizeLimit
) -> Iterator[Documents]:
    first = 0

    def describe_position(i: int) -> str:
        return f"{named} {first + i}"

    for part in parts:
        yield size_limit.apply(part, describe_position)
        first += part.n_documents
