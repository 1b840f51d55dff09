"""Spans of text read into blocks of documents: as many as fit, in order."""

import json
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import Any

import numpy as np

from dspectral.paths import expand_path
from dspectral.store.from_text.lines import (
    DEFAULTS,
    PIECE_BYTES,
    Longest,
    Piece,
    Reading,
    as_utf8,
    split_lines,
    whole_file,
    whole_lines,
)
from dspectral.store.from_text.parquet import parquet_records, read_row_group
from dspectral.store.from_text.records import (
    csv_records,
    csv_texts,
    is_blank,
    json_texts,
    parse_json,
    past_header,
    tsv_texts,
)
from dspectral.store.from_text.sources import Span, format_of, plan_spans
from dspectral.store.from_text.streams import in_utf8, is_wide, open_bytes
from dspectral.types import Documents, IntArray

UNLIMITED_BYTES = 1 << 60
OFFSET_BYTES = 8
"""Bytes of the offset of a document."""


def read_span(span: Span, reading: Reading = DEFAULTS) -> Iterator[Documents]:
    r"""Yield the documents of a span in blocks of bytes of text, cut by the span and that size alone.

    One pass; memory is about twice a block, and at most 8 times the longest document (16 times for csv records).

    >>> import fsspec
    >>> with fsspec.open("memory://two.txt", "w") as file:
    ...     _ = file.write("the cat\nsat\n")
    >>> blocks = read_span(Span("memory://two.txt", "txt", None, "line", None), Reading(block_bytes=8))
    >>> [block.data.tobytes() for block in blocks]
    [b'the cat', b'sat']
    """
    return pack(
        (part for file in span.files() for part in _read_documents(file, reading)), reading.block_bytes
    )


def _read_documents(span: Span, reading: Reading) -> Iterator[Documents]:
    """Yield the documents of a span, in parts of some size."""
    longest, errors = reading.longest, reading.errors
    if span.format == "parquet":
        # Of a Parquet file, start and stop are numbers of row groups; of all others they are bytes.
        for group in range(span.start, span.stop):
            yield from read_row_group(span.url, group, str(span.field), reading)
        return
    with (
        open_bytes(span.url, span.compression, reading.options) as raw,
        in_utf8(raw, span.url, span.encoding, errors) as file,
    ):
        coded = None if is_wide(span.encoding) else span.encoding
        if span.unit == "file":
            whole = whole_file(file, span.url, longest, coded)
            yield Documents.of([as_utf8(whole, span.encoding, errors).data])
            return
        # How a csv record that is too long would end is not known: for csv_texts it is an error.
        of_lines = longest if span.format == "txt" else longest.of_records
        pieces = whole_lines(
            file,
            span.url,
            start=span.start,
            stop=span.stop,
            piece_bytes=min(reading.block_bytes, PIECE_BYTES),
            longest=of_lines._replace(treatment="error") if span.format == "csv" else of_lines,
            encoding=coded,
            empty=_empty_record(span, coded),
            keep_returns=span.format == "csv",
        )
        texts: Iterator[Piece] = (as_utf8(piece, span.encoding, errors) for piece in pieces)
        text_column = span.column if span.text_column is None else span.text_column
        if span.format == "csv":
            yield from csv_texts(texts, span.url, span.column, span.delimiter, reading, text_column)
            return
        for piece in past_header(texts, reading) if span.format == "tsv" and not span.start else texts:
            yield _parse_lines(piece, span, reading, text_column)


def _empty_record(span: Span, encoding: str | None) -> bytes:
    """Return a line without text, for one that is skipped."""
    if span.format == "jsonl":
        return json.dumps({span.field: ""}).encode(encoding or "utf-8")
    return b"\t" * (span.n_columns - 1) if span.format == "tsv" else b""


def _parse_lines(piece: Piece, span: Span, reading: Reading, text_column: int) -> Documents:
    if span.format == "txt":
        return split_lines(piece.data)
    numbers: Sequence[int] | IntArray
    if span.format == "jsonl":
        texts, numbers = json_texts(piece, str(span.field), reading, numbers=span.unit == "id")
    else:
        texts, numbers = tsv_texts(piece, span.column, span.n_columns, reading, text_column)
    return reading.longest.apply(texts, lambda i: piece.place_of_line(int(numbers[i])))


def numbered_lines(
    path: str | PathLike[str], storage_options: dict[str, Any] | None
) -> Iterator[tuple[int, str]]:
    """Yield numbers and lines, without their ends, of a text file in UTF-8 that may be compressed."""
    path = expand_path(path)
    yield from _iter_lines(path, format_of(path)[1], storage_options or {})


def _iter_lines(url: str, compression: str | None, options: dict[str, Any]) -> Iterator[tuple[int, str]]:
    with open_bytes(url, compression, options) as file:
        number = 1
        for piece in whole_lines(file, url):
            for line in _decode(piece).removesuffix("\n").split("\n"):
                yield number, line.rstrip("\r")
                number += 1


def _decode(piece: Piece) -> str:
    try:
        return piece.data.decode()
    except UnicodeDecodeError as error:
        what = f"not UTF-8 ({error.reason}); convert the file, for example with iconv -t UTF-8"
        raise piece.error(error.start, what) from error


def read_records(
    path: str | PathLike[str], fields: Sequence[str], options: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place and some fields of each record of files of any format, in their order."""
    reading = Reading(
        field=fields[0], text_field=fields[-1], storage_options=options, block_bytes=UNLIMITED_BYTES
    )
    for span in (file for whole in plan_spans(path, reading) for file in whole.files()):
        if span.format == "parquet":
            records = parquet_records(span.url, span.start, fields, options)
        else:
            records = _iter_text_records(span, options)
        for position, record in records:
            if lacking := [field for field in fields if field not in record]:
                raise ValueError(f"{position}: no field {lacking[0]!r}, but {', '.join(map(str, record))}")
            yield position, record


def _iter_text_records(span: Span, options: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if span.format == "csv":
        with open_bytes(span.url, span.compression, options) as file:
            pieces = whole_lines(file, span.url, keep_returns=True)
            rows = csv_records(pieces, span.url, span.delimiter, Longest().of_records)
            yield from _rows_to_dicts(
                (f"{span.url}, line {line}", row) for line, row in rows if not is_blank(row, 0)
            )
        return
    lines = (
        (f"{span.url}, line {number}", line)
        for number, line in _iter_lines(span.url, span.compression, options)
        if line.strip(" ")
    )
    if span.format == "tsv":
        yield from _rows_to_dicts((position, line.split("\t")) for position, line in lines)
        return
    for position, line in lines:
        try:
            record = parse_json(line)
            if not isinstance(record, dict):
                raise ValueError(f"expected a JSON object, not {line[:60]}")  # noqa: TRY004, TRY301
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{position}: {error}") from error
        yield position, record


def _rows_to_dicts(rows: Iterable[tuple[str, list[str]]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield rows behind the header by its names."""
    header: list[str] = []
    for position, row in rows:
        if not header:
            header = row
        elif len(row) != len(header):
            raise ValueError(f"{position}: {len(row)} column(s), but the header has {len(header)}")
        else:
            yield position, dict(zip(header, row, strict=True))


def pack(parts: Iterable[Documents], block_bytes: int) -> Iterator[Documents]:
    """Yield blocks of as many documents as fit, wherever the parts were cut; holds a block while it is joined."""
    # `held` is the block so far, `n_bytes` and `n_documents` its size; every document before `first` is in it or
    # was yielded. Each turn of the inner loop takes all documents that still fit, by one search in the offsets, so
    # the cost grows with parts and blocks, not with documents.
    most = max(1, block_bytes // OFFSET_BYTES)
    held: list[Documents] = []
    n_bytes = n_documents = 0
    for part in parts:
        first = 0
        while first < part.n_documents:
            stop = _find_fitting_stop(part, first, block_bytes - n_bytes, most - n_documents)
            if stop == first and not held:
                stop = first + 1  # too long for any block
            if stop > first:
                held.append(slice_documents(part, first, stop))
                n_bytes += int(part.offsets[stop] - part.offsets[first])
                n_documents += stop - first
            else:
                held = [join_documents(held)]
                yield held.pop()  # whoever takes the block is the only one to hold it
                n_bytes = n_documents = 0
            first = stop
    if held:
        yield join_documents(held)


def _find_fitting_stop(part: Documents, first: int, n_bytes: int, n_documents: int) -> int:
    """Return where the documents from ``first`` on stop to fit."""
    # Offsets are sorted: the last one within the limit is the end of the last document that fits.
    limit = part.offsets[first] + n_bytes
    stop = int(np.searchsorted(part.offsets, limit, side="right")) - 1
    return max(first, min(stop, first + n_documents, part.n_documents))


def slice_documents(part: Documents, first: int, stop: int) -> Documents:
    """Return documents ``first`` to ``stop``, their bytes shared."""
    if stop - first == part.n_documents:
        return part
    a, b = part.offsets[first], part.offsets[stop]
    return Documents(part.data[a:b], part.offsets[first : stop + 1] - a)


def join_documents(parts: list[Documents]) -> Documents:
    """Return the documents of all parts, at least one."""
    if len(parts) == 1:
        return parts[0]
    # Each part's offsets begin at 0; they are moved by the bytes of all parts before.
    begins = np.cumsum([0, *(len(part.data) for part in parts)])
    offsets = [part.offsets[1:] + begin for part, begin in zip(parts, begins, strict=False)]
    data = np.concatenate([part.data for part in parts])
    return Documents(data, np.concatenate([np.zeros(1, dtype=np.int64), *offsets]))
