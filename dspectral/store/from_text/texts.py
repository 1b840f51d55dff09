"""Texts that are no files: in memory or of Dask, kept in the scratch of the store built of them."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from os import PathLike
from typing import Any, NamedTuple, Self, TypeAlias

import dask
import dask.array as da
import numpy as np
from scipy import sparse

from dspectral.engine import summarize
from dspectral.store.arrays import digest_of
from dspectral.store.blocks import read_documents, write_documents
from dspectral.store.draft import Draft, as_json
from dspectral.store.from_text.lines import PIECE_BYTES, LongDocuments, Longest, Reading
from dspectral.store.from_text.readers import pack
from dspectral.store.location import Location, StoreError
from dspectral.text.packing import encoded_texts, text_blocks
from dspectral.types import Documents

TextSources: TypeAlias = "str | PathLike[str] | Iterable[Any]"
"""Files by their names, or texts: whatever :func:`texts_in` tells apart."""


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
    (2, 262144)
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
        return (text.decode() for text in encoded_texts(column))

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
        return self.texts if self.field is None else _column(self.texts, self.field)


def texts_in(sources: TextSources, field: str | None) -> "Texts | None":
    """Return the texts that sources are, or None where they name files.

    >>> texts_in(["a.txt", "b.txt"], None) is None
    True
    >>> texts_in((line for line in ["the cat", "the dog"]), None)
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


def named_files(sources: TextSources) -> Any:
    """Return sources with an iterator of paths, such as ``Path.glob`` gives, as the list of them."""
    if not isinstance(sources, Iterator) or hasattr(sources, "__arrow_c_stream__"):
        return sources
    # One element is taken to see its kind, and put back in front: no more of a generator may be read here.
    first = list(islice(sources, 1))
    if first and isinstance(first[0], PathLike):
        return [*first, *sources]
    return chain(first, sources)


def partitions_of(column: Any) -> "da.Array | None":
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
    # Impure: a pure call would hash the partition for its key. Each carries its number, since a block does not know
    # where it stands.
    number = dask.delayed(_numbered, pure=False)
    parts = [
        number(i, part) for i, part in enumerate(np.ravel(np.asarray(column.to_delayed(), dtype=object)))
    ]
    meta = np.empty((0, 0), dtype=object)  # of a stream of anything: nothing is promised about its blocks
    return da.concatenate([da.from_delayed(part, (1, 1), meta=meta) for part in parts])


class OfPartitions(NamedTuple):
    """Values that were found, one for each partition, in their order."""

    found: tuple[Any, ...]

    def merge(self, *others: Self) -> Self:
        """Return what was found of all partitions."""
        return type(self)(tuple(value for part in (self, *others) for value in part.found))


def each_partition(
    partitions: da.Array, function: Callable[[int, Any], Any], *, name: str
) -> tuple[Any, ...]:
    """Call a function of the number and texts of each partition, one task each."""
    return summarize(partitions, of=partial(_of_partition, function=function), name=name).found


def hashed_partitions(
    partitions: da.Array, hash_block: Callable[[Documents], Any], n_columns: int
) -> da.Array:
    """Return the rows of each partition, made as they are read. Shapes: returns (n_documents, n_columns)."""
    sizes = each_partition(partitions, _count, name="count-documents")
    if not sum(sizes):
        raise ValueError("no document at all in the texts given")
    rows_of = partial(_hash_partition, hash_block=hash_block)
    meta, chunks = sparse.csr_array((0, 0), dtype=np.float32), (sizes, (n_columns,))
    return da.map_blocks(rows_of, partitions, dtype=np.float32, chunks=chunks, meta=meta)


def _of_partition(block: tuple[int, Any], *, function: Callable[[int, Any], Any]) -> OfPartitions:
    return OfPartitions((function(*block),))


def _hash_partition(block: tuple[int, Any], *, hash_block: Callable[[Documents], Any]) -> Any:
    return hash_block(next(text_blocks(block[1], block_bytes=sys.maxsize), Documents.of([])))


def _count(_number: int, texts: Iterable[Any]) -> int:
    return sum(block.n_documents for block in text_blocks(texts))


def _numbered(number: int, texts: Iterable[Any]) -> tuple[int, Iterable[Any]]:
    return number, texts


def _column(table: Any, field: str) -> Any:
    """Return a column of a table, or a field of records, without reading what is lazy."""
    if hasattr(table, "pluck") and dask.is_dask_collection(table):  # a Dask Bag of records
        return table.pluck(field)
    if any(hasattr(table, name) for name in ("collect_batches", "scanner", "fetch_record_batch")) or (
        hasattr(table, "__arrow_c_stream__") and not hasattr(table, "__getitem__")
    ):
        return _streamed(table, field)
    names = getattr(table, "column_names", None) or getattr(table, "columns", None)
    if names is not None and hasattr(table, "__getitem__"):
        if field not in list(names):
            raise ValueError(f"the table has no column {field!r}, but {', '.join(map(str, names))}")
        return table[field]
    if hasattr(table, "shape") or isinstance(table, str | bytes | Mapping) or not isinstance(table, Iterable):
        raise TypeError(f"field is {field!r}, but the texts are a {type(table).__name__} without columns")
    return _fields(table, field)


def _streamed(table: Any, field: str) -> Iterator[Any]:
    """Yield the texts of a table that is read in batches, through the stream interface of Arrow."""
    try:
        import pyarrow as pa  # noqa: PLC0415  an optional extra
    except ImportError as error:
        raise ImportError(f"a {type(table).__name__} needs pyarrow: pip install 'dspectral[text]'") from error
    # A lazy frame of polars gives a frame for each batch, a data set of Arrow a scanner: of both the column alone is
    # read. Relations of DuckDB, record batch readers and whatever else is such a stream is one as it stands.
    if hasattr(table, "collect_batches"):
        streams = (table.select(field) if field in table.collect_schema() else table).collect_batches()
    else:
        streams = [table.scanner(columns=[field]).to_reader() if hasattr(table, "scanner") else table]
    for stream in streams:
        reader = pa.RecordBatchReader.from_stream(stream)
        if field not in reader.schema.names:
            raise ValueError(f"the table has no column {field!r}, but {', '.join(reader.schema.names)}")
        for batch in reader:
            yield from batch.column(field).to_pylist()


def _fields(records: Iterable[Any], field: str) -> Iterator[Any]:
    for number, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise TypeError(
                f"field is {field!r}, but record {number} is a {type(record).__name__} without fields"
            )
        if field not in record:
            raise ValueError(f"record {number} has no field {field!r}, but {', '.join(map(str, record))}")
        yield record[field]


class KeptBlock(NamedTuple):
    """A block of texts in the scratch of a store: group, digest, number of long texts, and the first of these."""

    name: str
    digest: int
    n_long: int = 0
    long_at: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """Name of the texts, for messages."""
        return "the texts given"


def keep_texts(draft: Draft, texts: Texts, reading: Reading) -> list[KeptBlock]:
    """Write texts into the scratch of a store in one pass, block by block; a generator is never held whole.

    A call that goes on after one that was stopped here begins anew; later it reads the texts again and compares
    digests.
    """
    where, path = draft.where, f"{draft.scratch}/texts"
    known = where.attributes(path)
    try:
        blocks = _keep_all(texts, partial(_keep, where=None if known else where, path=path, reading=reading))
    except Exception:
        if not known:  # nothing that is of use to a later call: the next one may be of other text
            draft.forget()
        raise
    # As JSON gives them back, for the comparison.
    listed = as_json(blocks)
    if not known:
        where.mark(path, {"blocks": listed})
    elif known["blocks"] != listed:
        raise StoreError(
            f"an unfinished build at {where.url} was begun with other texts than these: finish it with the same texts, "
            "or remove it with dspectral.store.discard_unfinished"
        )
    return blocks


def _keep_all(texts: Texts, keep: Callable[[int, Any], list[KeptBlock]]) -> list[KeptBlock]:
    column = texts.column
    partitions = partitions_of(column)
    if partitions is None:
        blocks = keep(0, column)
    else:
        blocks = [block for found in each_partition(partitions, keep, name="keep-texts") for block in found]
    if not blocks:
        raise ValueError(f"no document at all in {texts!r}")
    return blocks


def read_kept(block: KeptBlock, reading: Reading, *, where: Location) -> Iterator[Documents]:
    """Yield the documents of a block that was kept."""
    if (found := reading.longest.found) is not None:
        found.count += block.n_long
        found.places += block.long_at
    yield read_documents(where, block.name)


def _keep(
    number: int, texts: Iterable[Any], *, where: Location | None, path: str, reading: Reading
) -> list[KeptBlock]:
    """Pack and write the texts of a partition; without a place they are packed alone, for their digests."""
    blocks = []
    # Packed as pieces of files are: the cuts follow from the texts alone, so that a build that goes on finds the
    # blocks that it began with.
    found = LongDocuments()
    whole = text_blocks(texts, block_bytes=min(reading.block_bytes, PIECE_BYTES))
    named = f"partition {number}, document" if number else "document"
    parts = _not_too_long(whole, named, reading.counting(found).longest)
    n_before = 0
    for part, documents in enumerate(pack(parts, reading.block_bytes)):
        name = f"{path}/{number:06d}-{part:06d}"
        # What was found since the block before: perhaps in this one, perhaps a few documents ahead.
        block = KeptBlock(name, digest_of(*documents), found.count - n_before, tuple(found.places))
        n_before, found.places = found.count, []
        if where is not None:
            write_documents(where, block.name, documents)
        blocks.append(block)
    return blocks


def _not_too_long(parts: Iterable[Documents], named: str, longest: Longest) -> Iterator[Documents]:
    first = 0

    def place_of(i: int) -> str:
        return f"{named} {first + i}"

    for part in parts:
        yield longest.apply(part, place_of)
        first += part.n_documents
