"""Texts in memory or in Dask: read once and saved in the temporary group of the store."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, Self

import dask
import dask.array as da
import numpy as np
from scipy import sparse

from dspectral.engine import summarize, thread_pool_options
from dspectral.store.arrays import compute_digest
from dspectral.store.blocks import IDS, read_documents, write_documents
from dspectral.store.from_text.lines import LINE_CHUNK_BYTES, MISSING, DocumentSizeLimit, ReadCounts, ReadOptions
from dspectral.store.from_text.readers import pack_blocks
from dspectral.store.from_text.streams import import_extra
from dspectral.store.location import Location
from dspectral.store.writer import COUNTS, StoreWriter
from dspectral.text.packing import encode_texts, iterate_texts, pack_texts
from dspectral.types import Documents, is_missing


class Texts:
    """Wrapper that marks a list of strings as texts instead of paths.

    :func:`dspectral.build_store` and :func:`dspectral.build_corpus` accept other collections of texts directly.

    Parameters
    ----------
    texts : iterable of str
        A list, tuple, generator, array or column of pandas, polars, Arrow or Hugging Face Datasets; a Dask Bag or
        a column of a Dask DataFrame, read partition by partition; or a table or records with ``field``. Lazy frames of
        polars, data sets and record batch readers of Arrow and relations of DuckDB are read in batches.
    field : str, default=None
        Column of a table, or field of records, with the texts.

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
        field_argument = "" if self.field is None else f", field={self.field!r}"
        return f"Texts({type(self.texts).__name__}{field_argument})"

    def __iter__(self) -> Iterator[Any]:
        column = self.column
        if dask.is_dask_collection(column):
            raise TypeError(
                f"{self!r} is lazy and cannot be iterated: pass it to build_store, build_corpus or NgramHashing"
            )
        return (text.decode() for text in encode_texts(column))

    @property
    def column(self) -> Any:
        """The collection of texts, or the column of a table.

        Raises
        ------
        ValueError
            If the column or field is missing.
        TypeError
            If the texts are a table and ``field`` is None.
        """
        return self.texts if self.field is None else _select_column(self.texts, self.field)


def as_partitions(column: object) -> "da.Array | None":
    """Return the partitions of a Dask collection of texts as a stream of blocks; None for other collections."""
    if not dask.is_dask_collection(column):
        return None
    kind = type(column).__name__
    if getattr(column, "ndim", 1) == 2 and hasattr(column, "columns"):
        raise TypeError(f"the texts are a Dask {kind}: field= must name the column with the texts")
    if not hasattr(column, "to_delayed") or getattr(column, "ndim", 1) != 1:
        raise TypeError(
            f"the texts are a lazy {kind}, but must be a Dask Bag of strings or a column of a Dask DataFrame"
        )
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind not in "OSU":
        raise TypeError(f"X is a {kind} of {dtype}, but must hold strings")
    return enumerate_partitions(column)


def enumerate_partitions(collection: Any) -> da.Array:
    """Return the partitions of a Dask collection as a stream of blocks, pairs of partition number and texts."""
    # Impure, because Dask would hash the partition for the key of a pure call.
    number = dask.delayed(lambda number, texts: (number, texts), pure=False)
    parts = [number(i, part) for i, part in enumerate(np.ravel(np.asarray(collection.to_delayed(), dtype=object)))]
    meta = np.empty((0, 0), dtype=object)  # declares nothing about the blocks
    return da.concatenate([da.from_delayed(part, (1, 1), meta=meta) for part in parts])


class PartitionResults(NamedTuple):
    """Results of a function for each partition, in order."""

    results: tuple[Any, ...]

    def merge(self, *others: Self) -> Self:
        """Concatenate the results of all partitions."""
        return type(self)(tuple(value for results in (self, *others) for value in results.results))


def map_partitions(partitions: da.Array, function: Callable[[int, Any], Any], *, name: str) -> tuple[Any, ...]:
    """Call a function with the number and the texts of each partition, one task each; return all results."""
    return summarize(partitions, summarize_block=partial(_apply_to_partition, function=function), name=name).results


def hash_partitions(partitions: da.Array, hash_block: Callable[[Documents], Any], n_columns: int) -> da.Array:
    """Return a lazy array of the hashed rows of all partitions. Shapes: returns (n_documents, n_columns)."""
    sizes = map_partitions(partitions, _count_documents, name="count-documents")
    if not sum(sizes):
        raise ValueError("the texts have 0 documents, but need at least one")
    hash_partition = partial(_hash_partition, hash_block=hash_block)
    meta, chunks = sparse.csr_array((0, 0), dtype=np.float32), (sizes, (n_columns,))
    return da.map_blocks(hash_partition, partitions, dtype=np.float32, chunks=chunks, meta=meta)


def _apply_to_partition(block: tuple[int, Any], *, function: Callable[[int, Any], Any]) -> PartitionResults:
    return PartitionResults((function(*block),))


def _hash_partition(block: tuple[int, Any], *, hash_block: Callable[[Documents], Any]) -> Any:
    return hash_block(next(pack_texts(block[1], block_bytes=sys.maxsize), Documents.from_strings([])))


def _count_documents(_number: int, texts: Iterable[Any]) -> int:
    return sum(block.n_documents for block in pack_texts(texts))


def _select_column(table: object, field: str) -> Any:
    """Return a column of a table, or an iterator over a field of records; lazy tables are not read."""
    if hasattr(table, "pluck") and dask.is_dask_collection(table):  # a Dask Bag of records
        return table.pluck(field)
    if _is_table(table):
        return _get_column(table, field)
    return (row[0] for row in _iter_rows(table, (field,)))


def _is_table(table: object) -> bool:
    """Report whether a collection has named columns."""
    if _is_stream(table) or not hasattr(table, "__getitem__"):
        return False
    return (getattr(table, "column_names", None) or getattr(table, "columns", None)) is not None


def _get_column(table: Any, field: str) -> Any:
    names = getattr(table, "column_names", None) or table.columns
    if field not in list(names):
        raise ValueError(f"the table has no column {field!r}: its columns are {', '.join(map(str, names))}")
    return table[field]


def _is_stream(table: object) -> bool:
    return any(hasattr(table, name) for name in ("collect_batches", "scanner", "fetch_record_batch")) or (
        hasattr(table, "__arrow_c_stream__") and not hasattr(table, "__getitem__")
    )


def _iter_rows(table: object, fields: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield some fields of each row of a table or of each record."""
    if _is_stream(table):
        yield from _iter_stream_rows(table, fields)
        return
    if _is_table(table):
        yield from zip(*(iterate_texts(_get_column(table, field)) for field in fields), strict=True)
        return
    if hasattr(table, "shape") or isinstance(table, str | bytes | Mapping) or not isinstance(table, Iterable):
        raise TypeError(
            f"field={fields[0]!r} must be None, because the texts are a {type(table).__name__}, not a table"
        )
    for number, record in enumerate(table):
        if not isinstance(record, Mapping):
            raise TypeError(
                f"record {number} is a {type(record).__name__}, but must be a mapping with field={fields[0]!r}"
            )
        if lacking := [field for field in fields if field not in record]:
            field_names = ", ".join(map(str, record))
            raise ValueError(f"record {number} has no field {lacking[0]!r}: its fields are {field_names}")
        yield tuple(record[field] for field in fields)


def _iter_stream_rows(table: Any, fields: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield some columns of each row of a table that is read in batches through Arrow's stream interface."""
    pa = import_extra("pyarrow", f"a {type(table).__name__} needs")
    # Lazy frames of polars and data sets of Arrow read only the needed columns. Relations of DuckDB, record batch
    # readers and other tables are already Arrow streams.
    if hasattr(table, "collect_batches"):
        has_fields = set(fields) <= set(table.collect_schema())
        streams = (table.select(fields) if has_fields else table).collect_batches()
    else:
        streams = [table.scanner(columns=list(fields)).to_reader() if hasattr(table, "scanner") else table]
    for stream in streams:
        reader = pa.RecordBatchReader.from_stream(stream)
        names = reader.schema.names
        if lacking := [field for field in fields if field not in names]:
            raise ValueError(f"the table has no column {lacking[0]!r}: its columns are {', '.join(names)}")
        for batch in reader:
            yield from zip(*(batch.column(field).to_pylist() for field in fields), strict=True)


class SavedTextBlock(NamedTuple):
    """A saved block of texts: group name and digest."""

    name: str
    digest: int

    @property
    def url(self) -> str:
        """Name of the texts, for messages."""
        return "the texts given"


def save_texts(
    writer: StoreWriter, texts: Texts, read_options: ReadOptions, id_field: str | None
) -> list[SavedTextBlock]:
    """Save texts and ids in the temporary group of a store, unless it is finished."""
    target, path = None if writer.finished else writer.location, f"{writer.scratch}/texts"
    fields = _get_fields(texts, id_field)
    if target is not None:  # counts of other texts
        target.remove(f"{writer.scratch}/{COUNTS}")
    save = partial(_save_partition, location=target, path=path, read_options=read_options, fields=fields)
    with thread_pool_options() as threads, dask.config.set(threads):
        return _save_all(texts, save, id_field)


def _get_fields(texts: Texts, id_field: str | None) -> tuple[str, ...]:
    """Return the names of the text and id fields; empty without ids."""
    if id_field is None:
        return ()
    if texts.field is None:
        kind = type(texts.texts).__name__
        raise TypeError(
            f"id_field={id_field!r} needs field=, but the texts are a {kind} without it: pass a table or records"
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
            partitions = enumerate_partitions(column)
    if partitions is None:
        blocks = save(0, column)
    else:
        blocks = list(chain.from_iterable(map_partitions(partitions, save, name="keep-texts")))
    if not blocks:
        raise ValueError(f"{texts!r} has 0 documents, but needs at least one")
    return blocks


def read_saved_texts(
    block: SavedTextBlock, _read_options: ReadOptions | None = None, *, location: Location, part: str = ""
) -> list[Documents]:
    """Return the documents of a saved block, or a part, as their ids."""
    return [read_documents(location, block.name + part)]


def _save_partition(
    number: int,
    texts: Iterable[Any],
    *,
    location: Location | None,
    path: str,
    read_options: ReadOptions,
    fields: tuple[str, ...],
) -> list[SavedTextBlock]:
    """Pack the texts of a partition into blocks and write them; with ``location=None`` only compute their digests."""
    blocks = []
    # Block boundaries depend only on the texts, so a resumed build has the same blocks.
    counts = ReadCounts()
    read_options = read_options._replace(counts=counts)
    item_label = f"partition {number}, document" if number else "document"
    # `ids` are the ids of texts that are not in a block yet.
    ids: list[str] = []
    rows = _collect_ids(_iter_rows(texts, fields), ids, read_options) if fields else texts

    def replace_missing(position: str) -> bytes | None:
        if read_options.missing_treatment == "error":
            raise TypeError(f"{position}, but it must be a string; {MISSING}")
        return read_options.count_missing()

    chunk_bytes = min(read_options.block_bytes, LINE_CHUNK_BYTES)
    whole = pack_texts(rows, block_bytes=chunk_bytes, item_name=item_label, replace_missing=replace_missing)
    for part, documents in enumerate(
        pack_blocks(_limit_sizes(whole, item_label, read_options.size_limit), read_options.block_bytes)
    ):
        name = f"{path}/{number:06d}-{part:06d}"
        block_ids = Documents.from_strings(ids[: documents.n_documents])
        del ids[: documents.n_documents]
        digest = compute_digest(*documents, *block_ids) if fields else compute_digest(*documents)
        blocks.append(SavedTextBlock(name, digest))
        if location is not None:
            write_documents(location, name, documents)
            if fields:
                write_documents(location, f"{name}/{IDS}", block_ids)
    if location is not None and counts.totals:
        location.write_attributes(f"{path.rpartition('/')[0]}/{COUNTS}/texts-{number:06d}", counts.record())
    return blocks


def _collect_ids(rows: Iterable[tuple[Any, ...]], ids: list[str], read_options: ReadOptions) -> Iterator[Any]:
    """Yield the text of each row and append its id to ``ids``, unless the row is skipped."""
    for number, (text, row_id) in enumerate(rows):
        if read_options.missing_treatment != "skip" or not is_missing(text):
            if is_missing(row_id):
                raise ValueError(f"the id of row {number} is missing, but must be a string or an integer")
            ids.append(row_id if isinstance(row_id, str) else str(row_id))
        yield text


def _limit_sizes(parts: Iterable[Documents], item_name: str, size_limit: DocumentSizeLimit) -> Iterator[Documents]:
    first = 0

    def describe_position(i: int) -> str:
        return f"{item_name} {first + i}"

    for part in parts:
        yield size_limit.apply(part, describe_position)
        first += part.n_documents
