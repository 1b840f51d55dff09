"""Parse the records of JSON lines, TSV and CSV files."""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from dspectral.store.from_text.lines import (
    LINE_CHUNK_BYTES,
    MISSING,
    DocumentSizeLimit,
    FileRange,
    LineChunk,
    ReadOptions,
)
from dspectral.types import Documents, is_missing

_SHOWN = 60
_SURROGATE = re.compile("[\ud800-\udfff]")
_RECORDS = 4096
_LONGEST_FIELD = 2**31 - 1


def parse_json_lines(chunk: LineChunk, field: str, read_options: ReadOptions, *, are_ids: bool = False) -> Documents:
    """Return a field of JSON lines; ids may be integers."""
    texts: list[bytes] = []
    numbers: list[int] = []
    for number, line in enumerate(chunk.data.decode().removesuffix("\n").split("\n")):
        try:  # the JSON parser raises RecursionError for deeply nested lines
            text = _extract_json_text(line, field, read_options, allow_numbers=are_ids)
        except (ValueError, RecursionError) as error:
            if line.strip():
                raise ValueError(f"{chunk.describe_line(number)}: {error}") from error
            read_options.size_limit.add_count("n_blank_lines")
            continue
        if text is not None:
            texts.append(text)
            numbers.append(number)
    return read_options.size_limit.apply(Documents.from_strings(texts), lambda i: chunk.describe_line(numbers[i]))


def parse_json(line: str) -> Any:
    """Parse a line of JSON; raise ValueError with the column of an error."""
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"invalid JSON ({error.msg}, column {error.colno})") from error


def _extract_json_text(line: str, field: str, read_options: ReadOptions, *, allow_numbers: bool) -> bytes | None:
    record = parse_json(line)
    if isinstance(record, dict):
        text, text_field = record.get(field), read_options.text_field
        if text_field is not None and read_options.missing_treatment == "skip" and is_missing(record.get(text_field)):
            return None
        if isinstance(text, str):
            return _encode_text(text, read_options.errors)
        if allow_numbers and type(text) is int:
            return str(text).encode()
        if is_missing(text) and text_field is None and read_options.missing_treatment != "error":
            return read_options.count_missing()
    raise ValueError(_no_text_message(record, field, allow_numbers=allow_numbers))


def _no_text_message(record: object, field: str, *, allow_numbers: bool) -> str:
    if not isinstance(record, dict):
        return f"expected a JSON object with a string in {field!r}, not {_abbreviate(record)}"
    remedy = f"; {MISSING}" if is_missing(record.get(field)) and not allow_numbers else ""
    if field not in record:
        return f"no field {field!r} in the record, but {_abbreviate(list(record))}{remedy}"
    return f"field {field!r} is {_abbreviate(record[field])}, but must be a string{remedy}"


def _abbreviate(value: object) -> str:
    """Return a value as JSON, truncated for messages."""
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _encode_text(text: str, errors: str) -> bytes:
    """Encode a text as UTF-8; JSON escapes can contain lone surrogates, which UTF-8 cannot represent."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        if errors == "replace":
            return _SURROGATE.sub("\ufffd", text).encode()
        raise ValueError("a lone surrogate in the text is not valid UTF-8; use errors='replace'") from error


def iter_table_rows(
    chunks: Iterable[LineChunk], file_range: FileRange, size_limit: DocumentSizeLimit
) -> Iterator[tuple[int, list[str]]]:
    """Yield each record of a CSV (RFC 4180) or TSV file that is not blank, with its line; first the header."""
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))  # the default is 128 KiB
    n_left, number = 0, 1  # bytes that the record may still have, and its line

    def read_lines() -> Iterator[str]:
        nonlocal n_left
        for chunk in chunks:
            if n_left < 0:
                raise size_limit.error(file_range.describe_line(number), "a record (is a quote never closed?)")
            n_left -= len(chunk.data)
            yield from io.StringIO(chunk.data.decode(), newline="\n")

    # `strict` rejects text after a closing quote; otherwise a broken quote would consume the rest of the file.
    unquoted: dict[str, Any] = {"quoting": csv.QUOTE_NONE} if file_range.format == "tsv" else {}
    records = csv.reader(read_lines(), strict=True, delimiter=file_range.delimiter, **unquoted)
    n_columns = file_range.n_columns if file_range.start else 0
    try:
        for record in records:
            line, number, n_left = number, records.line_num + 1, size_limit.n_bytes
            # A blank line of several columns may have spaces.
            if not record or (n_columns != 1 and len(record) == 1 and not record[0].strip()):
                size_limit.add_count("n_blank_lines")
                continue
            n_columns = n_columns or len(record)
            if len(record) != n_columns:
                fault = f"{len(record)} column(s), but must have {n_columns}, as the header"
                raise ValueError(f"{file_range.describe_line(line)}: {fault}")
            yield line, record
    except csv.Error as error:
        fault = f"invalid CSV record ({error}); check its quotes"
        raise ValueError(f"{file_range.describe_line(number)}: {fault}") from error


def parse_table(chunks: Iterable[LineChunk], file_range: FileRange, read_options: ReadOptions) -> Iterator[Documents]:
    """Yield a column of a CSV or TSV file in groups of records; an empty cell of its text column is a missing text."""
    # `texts` are the documents since the last yield, `lines` their line numbers, `n_bytes` about their size.
    n_bytes, size_limit, column = 0, read_options.size_limit, file_range.column
    text_column = column if file_range.text_column is None else file_range.text_column
    skips = read_options.missing_treatment == "skip"
    texts: list[str] = []
    lines: list[int] = []

    def concatenate_texts() -> Documents:
        return size_limit.apply(Documents.from_strings(texts), lambda i: file_range.describe_line(lines[i]))

    rows = iter_table_rows(chunks, file_range, size_limit.record_limit)
    for line, record in rows if file_range.start else islice(rows, 1, None):
        if skips and not record[text_column]:
            read_options.count_missing()
            continue
        texts.append(record[column])
        lines.append(line)
        n_bytes += len(record[column])
        if n_bytes >= LINE_CHUNK_BYTES or len(texts) == _RECORDS:
            yield concatenate_texts()
            texts, lines, n_bytes = [], [], 0
    yield concatenate_texts()
