"""Read byte ranges of text into blocks of documents."""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from dspectral.engine import report_share
from dspectral.paths import expand_path
from dspectral.store.from_text.lines import (
    DEFAULT_SIZE_LIMIT,
    DEFAULTS,
    LINE_CHUNK_BYTES,
    FileRange,
    LineChunk,
    ReadOptions,
    check_utf8,
    decode_to_utf8,
    join_records,
    read_line_chunks,
    read_whole_file,
    split_lines,
)
from dspectral.store.from_text.parquet import iter_parquet_records, read_row_group
from dspectral.store.from_text.records import iter_table_rows, parse_json, parse_json_lines, parse_table
from dspectral.store.from_text.sources import TABLES, get_format, split_files
from dspectral.store.from_text.streams import is_wide, open_as_utf8, open_decompressed
from dspectral.types import Documents

UNLIMITED_BYTES = 1 << 60
OFFSET_BYTES = 8
"""Size of a document's offset, in bytes."""


def read_file_range(file_range: FileRange, read_options: ReadOptions = DEFAULTS) -> Iterator[Documents]:
    """Yield the documents of a byte range in blocks of at most ``block_bytes``; memory is about two blocks."""
    parts = (part for file in file_range.files() for part in _read_documents(file, read_options))
    return pack_blocks(parts, read_options.block_bytes)


def _read_documents(file_range: FileRange, read_options: ReadOptions) -> Iterator[Documents]:
    """Yield the documents of a byte range in groups of any size."""
    size_limit, errors = read_options.size_limit, read_options.errors
    if file_range.format == "parquet":
        # `start` and `stop` are row groups of Parquet files, bytes of all others.
        for group in range(file_range.start, file_range.stop):
            yield from read_row_group(file_range.url, group, str(file_range.field), read_options)
        return
    with (
        open_decompressed(file_range.url, file_range.compression, read_options.options) as raw,
        open_as_utf8(raw, file_range.url, file_range.encoding, errors) as file,
    ):
        narrow_encoding = None if is_wide(file_range.encoding) else file_range.encoding
        if file_range.unit == "file":
            text = read_whole_file(file, file_range.url, size_limit, narrow_encoding)
            yield Documents.from_strings([decode_to_utf8(text, file_range.encoding, errors).data])
            return
        line_size_limit = size_limit if file_range.format == "txt" else size_limit.record_limit
        # The end of a csv record that is too long is unknown, and an empty line of one column is blank.
        if file_range.format == "csv" or file_range.n_columns == 1:
            line_size_limit = line_size_limit._replace(treatment="error")
        read_chunks = partial(
            read_line_chunks,
            file,
            file_range.url,
            chunk_bytes=min(read_options.block_bytes, LINE_CHUNK_BYTES),
            size_limit=line_size_limit,
            encoding=narrow_encoding,
            empty=_make_empty_record(file_range, narrow_encoding),
        )
        texts, following = (
            (decode_to_utf8(_report_read(chunk, file_range), file_range.encoding, errors) for chunk in chunks)
            for chunks in (
                read_chunks(start=file_range.start, stop=file_range.stop),
                read_chunks(start=file_range.stop) if file_range.stop >= 0 else (),
            )
        )
        if file_range.unit == "record":
            yield from join_records(texts, following, size_limit, is_first=not file_range.start)
        elif file_range.format in TABLES:
            yield from parse_table(texts, file_range, read_options)
        elif file_range.format == "txt":
            yield from (split_lines(chunk.data) for chunk in texts)
        else:
            for chunk in texts:
                yield parse_json_lines(chunk, str(file_range.field), read_options, are_ids=file_range.unit == "id")


def _report_read(chunk: LineChunk, file_range: FileRange) -> LineChunk:
    """Report the share of a byte range that is read; the size of compressed text is unknown."""
    if file_range.n_bytes and file_range.compression is None:
        report_share(min(1.0, (chunk.byte + len(chunk.data) - file_range.start) / file_range.n_bytes))
    return chunk


def _make_empty_record(file_range: FileRange, encoding: str | None) -> bytes:
    """Return a line with an empty text, which replaces a skipped one."""
    if file_range.format == "jsonl":
        return json.dumps({file_range.field: ""}).encode(encoding or "utf-8")
    return b"\t" * (file_range.n_columns - 1) if file_range.format == "tsv" else b""


def iter_numbered_lines(path: str | PathLike[str], storage_options: dict[str, Any] | None) -> Iterator[tuple[int, str]]:
    """Yield the line numbers and lines, without line ends, of a UTF-8 text file, possibly compressed."""
    path = expand_path(path)
    yield from _iter_lines(path, get_format(path)[1], storage_options or {})


def _iter_lines(url: str, compression: str | None, options: dict[str, Any]) -> Iterator[tuple[int, str]]:
    with open_decompressed(url, compression, options) as file:
        number = 1
        for chunk in read_line_chunks(file, url):
            for line in check_utf8(chunk).data.decode().removesuffix("\n").split("\n"):
                yield number, line.rstrip("\r")
                number += 1


def read_records(
    path: str | PathLike[str], fields: Sequence[str], options: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the position and some fields of each record of files in any format."""
    read_options = ReadOptions(
        field=fields[0], text_field=fields[-1], storage_options=options, block_bytes=UNLIMITED_BYTES
    )
    for file_range in (file for whole in split_files(path, read_options) for file in whole.files()):
        if file_range.format == "parquet":
            records = iter_parquet_records(file_range.url, file_range.start, fields, options)
        else:
            records = _iter_text_records(file_range, options)
        for position, record in records:
            if lacking := [field for field in fields if field not in record]:
                raise ValueError(f"{position}: no field {lacking[0]!r}, but {', '.join(map(str, record))}")
            yield position, record


def _iter_text_records(file_range: FileRange, options: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if file_range.format in TABLES:
        with open_decompressed(file_range.url, file_range.compression, options) as file:
            chunks = map(check_utf8, read_line_chunks(file, file_range.url))
            rows = iter_table_rows(chunks, file_range, DEFAULT_SIZE_LIMIT.record_limit)
            _, header = next(rows, (0, []))
            for number, row in rows:
                yield file_range.describe_line(number), dict(zip(header, row, strict=True))
        return
    for number, line in _iter_lines(file_range.url, file_range.compression, options):
        if not line.strip(" "):
            continue
        position = file_range.describe_line(number)
        try:
            record = parse_json(line)
            if not isinstance(record, dict):
                raise ValueError(f"expected a JSON object, not {line[:60]}")  # noqa: TRY004, TRY301
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{position}: {error}") from error
        yield position, record


def pack_blocks(batches: Iterable[Documents], block_bytes: int) -> Iterator[Documents]:
    """Yield blocks of as many documents as fit, independent of the boundaries of the batches."""
    # Invariant: `pending` is the current block, of `n_bytes` and `n_documents`; all documents before `first` are in
    # it or were yielded. Each inner step takes all documents that still fit, by binary search in the offsets, so the
    # cost grows with the number of batches and blocks, not of documents.
    max_documents = max(1, block_bytes // OFFSET_BYTES)
    pending: list[Documents] = []
    n_bytes = n_documents = 0
    for batch in batches:
        first = 0
        while first < batch.n_documents:
            stop = _find_fitting_stop(batch, first, block_bytes - n_bytes, max_documents - n_documents)
            if stop == first and not pending:
                stop = first + 1  # a document larger than a block
            if stop > first:
                pending.append(slice_documents(batch, first, stop))
                n_bytes += int(batch.offsets[stop] - batch.offsets[first])
                n_documents += stop - first
            else:
                pending = [concatenate_documents(pending)]
                yield pending.pop()  # no reference remains here
                n_bytes = n_documents = 0
            first = stop
    if pending:
        yield concatenate_documents(pending)


def _find_fitting_stop(documents: Documents, first: int, n_bytes: int, n_documents: int) -> int:
    """Return the stop index of the documents from ``first`` on that fit."""
    limit = documents.offsets[first] + n_bytes
    stop = int(np.searchsorted(documents.offsets, limit, side="right")) - 1
    return max(first, min(stop, first + n_documents, documents.n_documents))


def slice_documents(documents: Documents, first: int, stop: int) -> Documents:
    """Return documents ``first`` to ``stop - 1`` without a copy of their bytes."""
    if stop - first == documents.n_documents:
        return documents
    a, b = documents.offsets[first], documents.offsets[stop]
    return Documents(documents.data[a:b], documents.offsets[first : stop + 1] - a)


def concatenate_documents(batches: list[Documents]) -> Documents:
    """Concatenate the documents of at least one batch."""
    if len(batches) == 1:
        return batches[0]
    begins = np.cumsum([0, *(len(batch.data) for batch in batches)])
    offsets = [batch.offsets[1:] + begin for batch, begin in zip(batches, begins, strict=False)]
    data = np.concatenate([batch.data for batch in batches])
    return Documents(data, np.concatenate([np.zeros(1, dtype=np.int64), *offsets]))
