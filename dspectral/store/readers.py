"""Reading one span of text into blocks of documents."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

import numpy as np

from dspectral.store.parquet import read_row_group
from dspectral.store.sources import Span
from dspectral.store.streams import open_bytes
from dspectral.types import Documents

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_span(
    span: Span,
    *,
    block_bytes: int,
    errors: str = "strict",
    storage_options: dict[str, Any] | None = None,
) -> Iterator[Documents]:
    """Yield the documents of a span, at most ``block_bytes`` of text at a time.

    Parameters
    ----------
    span : Span
    block_bytes : int
        A longer document is a block of its own.
    errors : {"strict", "replace"}
        What to do with bytes that are not UTF-8.
    storage_options : dict, optional

    Yields
    ------
    Documents
        In the order of the file. An empty line, or an empty field, is a document.

    Raises
    ------
    ValueError
        If the file is damaged, is not UTF-8, or a record lacks the field: the file and line (or, inside a
        large file, the byte) are named.

    Notes
    -----
    About twice ``block_bytes`` at once, also of compressed files.
    """
    if errors not in ("strict", "replace"):
        raise ValueError(f"errors is {errors!r}, but it must be 'strict' or 'replace'")
    options = storage_options or {}
    if span.format == "parquet":
        yield from read_row_group(span.url, options, span.start, str(span.field), block_bytes)
        return
    with open_bytes(span.url, span.compression, options) as file:
        if span.format == "csv":
            yield from _csv(file, span, block_bytes, errors)
        elif span.unit == "file":
            yield Documents.of([_utf8(_Chunk(file.read().removeprefix(BYTE_ORDER_MARK), 0, 1), span, errors)])
        else:
            take = _field_reader(span, options)
            for chunk in _whole_lines(file, span, block_bytes):
                text = _utf8(chunk, span, errors)
                yield _lines(text) if take is None else _fields(text, chunk, span, take)


class _Chunk(NamedTuple):
    """Whole lines of a file, and where they begin."""

    data: bytes
    byte: int
    line: int | None

    def place(self, offset: int, text: bytes) -> str:
        """Say where byte ``offset`` of ``text`` is: by line where lines were counted from the file's start."""
        if self.line is None:
            return f"byte {self.byte + offset}"
        return f"line {self.line + text[:offset].count(10)}"


def _whole_lines(file: IO[bytes], span: Span, block_bytes: int) -> Iterator[_Chunk]:
    """Yield the lines that begin in the span; the last may end behind it."""
    position, line = span.start, 1 if span.start == 0 else None
    if span.start:
        file.seek(span.start - 1)
        position = span.start - 1 + len(file.readline())
    rest = b""
    while span.stop < 0 or position + len(rest) < span.stop:
        size = block_bytes if span.stop < 0 else min(block_bytes, span.stop - position - len(rest))
        data = rest + file.read(max(1, size - len(rest)) if rest and size > len(rest) else size)
        ended = len(data) == len(rest)
        if not ended and span.stop >= 0 and position + len(data) >= span.stop and not data.endswith(b"\n"):
            data += file.readline()
        cut = len(data) if ended or (span.stop >= 0 and position + len(data) >= span.stop) else data.rfind(b"\n") + 1
        whole, rest = data[:cut], data[cut:]
        if whole:
            begins = whole.removeprefix(BYTE_ORDER_MARK) if position == 0 else whole
            yield _Chunk(begins, position, line)
            line = None if line is None else line + whole.count(10)
            position += len(whole)
        if ended:
            return


def _utf8(chunk: _Chunk, span: Span, errors: str) -> bytes:
    try:
        chunk.data.decode()
    except UnicodeDecodeError as error:
        if errors == "replace":
            return chunk.data.decode(errors="replace").encode()
        place = chunk.place(error.start, chunk.data)
        raise ValueError(
            f"{span.url}, {place}: not UTF-8 ({error.reason}); errors='replace' reads on"
        ) from error
    return chunk.data


def _lines(text: bytes) -> Documents:
    """Cut text at its line ends, without a loop over lines."""
    data = np.frombuffer(text, dtype=np.uint8)
    ends = np.flatnonzero(data == 10)
    returns = (ends > 0) & (data[ends - 1] == 13)
    stops = np.append(ends - returns, len(data)) if not text.endswith(b"\n") else ends - returns
    starts = np.concatenate([[0], ends + 1])[: len(stops)]
    offsets = np.concatenate([[0], np.cumsum(stops - starts)]).astype(np.int64)
    keep = np.ones(len(data), dtype=bool)
    keep[ends] = False
    keep[ends[returns] - 1] = False
    return Documents(data[keep], offsets)


def _fields(text: bytes, chunk: _Chunk, span: Span, take: Callable[[str], str | None]) -> Documents:
    texts, offset = [], 0
    for raw in text.splitlines(keepends=True) if b"\r" not in text else io.BytesIO(text):
        line = raw.decode().rstrip("\r\n")
        try:
            found = take(line)
        except ValueError as error:
            raise ValueError(f"{span.url}, {chunk.place(offset, text)}: {error}") from error
        offset += len(raw)
        if found is not None:
            texts.append(found)
    return Documents.of(texts)


def _field_reader(span: Span, options: dict[str, Any]) -> Callable[[str], str | None] | None:
    """Return what takes the text from a line, or None where the line is the text."""
    if span.unit == "line":
        return None
    field = str(span.field)
    if span.format == "jsonl":
        return lambda line: _json_field(line, field)
    with open_bytes(span.url, span.compression, options) as file:
        first = file.readline().removeprefix(BYTE_ORDER_MARK)
    names = first.decode(errors="replace").rstrip("\r\n").split("\t")
    if field not in names:
        raise ValueError(f"{span.url} has no column {field!r}, but {', '.join(names)}")
    header = iter([span.start == 0])
    return lambda line: None if next(header, False) else _column(line, names.index(field), len(names))


def _json_field(line: str, field: str) -> str | None:
    if not line.strip():
        return None  # a blank line between records is no record
    record = json.loads(line)  # its error is a ValueError that says what is wrong
    if not isinstance(record, dict) or not isinstance(record.get(field), str):
        raise ValueError(f"expected a JSON object with a text in {field!r}")
    return str(record[field])


def _column(line: str, column: int, n_columns: int) -> str:
    fields = line.split("\t")
    if len(fields) <= column:
        raise ValueError(f"{len(fields)} column(s), but the header has {n_columns}")
    return fields[column]


def _csv(file: IO[bytes], span: Span, block_bytes: int, errors: str) -> Iterator[Documents]:
    """Records as RFC 4180 has them: a quoted field may hold line ends."""
    text = io.TextIOWrapper(file, encoding="utf-8-sig", errors=errors, newline="")
    records = csv.reader(text, strict=True)
    texts: list[str] = []
    n_bytes = 0
    try:
        names = next(records, [])
        if names and span.field not in names:
            raise ValueError(f"{span.url} has no column {span.field!r}, but {', '.join(names)}")
        for record in records:
            if len(record) != len(names):
                raise ValueError(
                    f"{span.url}, line {records.line_num}: {len(record)} column(s), but the header has {len(names)}"
                )
            found = record[names.index(str(span.field))]
            size = len(found.encode())
            if texts and n_bytes + size > block_bytes:
                yield Documents.of(texts)
                texts, n_bytes = [], 0
            texts.append(found)
            n_bytes += size
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{span.url}, after line {records.line_num}: not UTF-8 ({error.reason}); errors='replace' reads on"
        ) from error
    except csv.Error as error:
        raise ValueError(f"{span.url}, line {records.line_num}: {error}") from error
    if texts:
        yield Documents.of(texts)
    text.detach()
