"""Parse the records of JSON lines, TSV and CSV files."""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspectral.store.from_text.lines import (
    DEFAULTS,
    LINE_CHUNK_BYTES,
    MISSING,
    DocumentSizeLimit,
    LineChunk,
    ReadOptions,
    count_lone_returns,
    split_lines,
)
from dspectral.types import Documents, IntArray, is_missing

_SHOWN = 60
_SURROGATE = re.compile("[\ud800-\udfff]")
_RECORDS = 4096
_LONGEST_FIELD = 2**31 - 1


def parse_json_lines(
    chunk: LineChunk, field: str, read_options: ReadOptions, *, allow_numbers: bool = False
) -> tuple[Documents, Sequence[int]]:
    """Return a field of JSON lines and the line of each record; with ``numbers`` integers are ids."""
    lines = chunk.data.decode().removesuffix("\n").split("\n")
    texts: list[bytes | None] = []
    for number, line in enumerate(lines):
        try:  # the JSON parser raises RecursionError for deeply nested lines
            texts.append(_extract_json_text(line, field, read_options, allow_numbers=allow_numbers))
        except (ValueError, RecursionError) as error:
            if line.strip():
                raise ValueError(f"{chunk.describe_line(number)}: {error}") from error
            read_options.count_blank(1)
            texts.append(None)
    if None not in texts:
        return Documents.from_strings(texts), range(len(texts))  # type: ignore[arg-type]
    positions = [number for number, text in enumerate(texts) if text is not None]
    return Documents.from_strings([text for text in texts if text is not None]), positions


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


def parse_tsv_lines(
    chunk: LineChunk, column: int, n_columns: int, read_options: ReadOptions, text_column: int
) -> tuple[Documents, IntArray]:
    """Return a column of TSV lines and the line of each record; an empty cell of `text_column` is a missing text."""
    lines = split_lines(chunk.data)
    # A line of n columns has n - 1 tabs. If all lines have that many fields, the tab positions form a table: entry
    # (i, j) is the tab after field j of line i. A field extends from the previous tab, or the line start, to the next
    # one.
    tabs = np.flatnonzero(lines.data == ord("\t"))
    widths = np.diff(np.searchsorted(tabs, lines.offsets)) + 1
    single = widths == 1 if n_columns > 1 else np.diff(lines.offsets) == 0
    blank = [] if chunk.replaced else [i for i in np.flatnonzero(single).tolist() if not lines.text(i).strip()]
    read_options.count_blank(len(blank))
    line_numbers = np.delete(np.arange(lines.n_documents), np.array(blank, dtype=np.intp))
    if len(wrong := line_numbers[widths[line_numbers] != n_columns]):
        fault = f"{widths[wrong[0]]} column(s), but must have {n_columns}, as the header"
        raise ValueError(f"{chunk.describe_line(int(wrong[0]))}: {fault}")
    between = tabs.reshape(len(line_numbers), n_columns - 1)

    def cell_bounds(j: int) -> tuple[IntArray, IntArray]:
        starts = between[:, j - 1] + 1 if j else lines.offsets[line_numbers]
        return starts, between[:, j] if j < n_columns - 1 else lines.offsets[line_numbers + 1]

    starts, stops = cell_bounds(column)
    if read_options.missing_treatment == "skip":
        is_given = np.less(*cell_bounds(text_column))
        read_options.count_missing(int(np.sum(~is_given)))
        starts, stops, line_numbers = starts[is_given], stops[is_given], line_numbers[is_given]
    return _take_slices(lines.data, starts, stops), line_numbers


def skip_header(chunks: Iterable[LineChunk], read_options: ReadOptions) -> Iterator[LineChunk]:
    """Yield the lines after the header, the first line that is not blank."""
    is_past = False
    for chunk in chunks:
        data, n_lines = chunk.data, 0
        while data and not is_past:
            line, _, data = data.partition(b"\n")
            is_past, n_lines = bool(line.strip(b" \r")), n_lines + 1
            read_options.count_blank(not is_past)
        if data:
            n_bytes = len(chunk.data) - len(data)
            yield chunk._replace(data=data, byte=chunk.byte + n_bytes, line=(chunk.line or 0) + n_lines)


def _take_slices(data: NDArray[np.uint8], starts: IntArray, stops: IntArray) -> Documents:
    """Return ``data[start:stop]`` of each pair as documents; slices are sorted and disjoint."""
    # The cumulative sum of `steps` is 1 on the bytes to keep: +1 at each start, -1 at each stop. Empty slices are
    # dropped, because indexed addition ignores repeated indices.
    is_nonempty = stops > starts
    steps = np.zeros(len(data) + 1, dtype=np.int8)
    steps[starts[is_nonempty]] += 1
    steps[stops[is_nonempty]] -= 1
    offsets = np.concatenate([[0], np.cumsum(stops - starts)]).astype(np.int64)
    return Documents(data[np.cumsum(steps[:-1], dtype=np.int8).view(bool)], offsets)


def iter_csv_records(
    chunks: Iterable[LineChunk], url: str, delimiter: str, size_limit: DocumentSizeLimit
) -> Iterator[tuple[int, list[str]]]:
    """Yield each record of a CSV file (RFC 4180), including the header, with its first line number."""
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))  # the default is 128 KiB
    # `strict` rejects text after a closing quote; otherwise a broken quote would consume the rest of the file.
    lines = _RecordLines(chunks, size_limit)
    records = csv.reader(lines, strict=True, delimiter=delimiter)
    while True:
        line = records.line_num + 1
        lines.begin_record(f"{url}, line {line}")
        try:
            record = next(records, None)
        except csv.Error as error:
            raise ValueError(f"{url}, line {line}: invalid CSV record ({error}); check its quotes") from error
        if record is None:
            return
        yield line, record


def parse_csv(
    chunks: Iterable[LineChunk],
    url: str,
    column: int,
    delimiter: str,
    read_options: ReadOptions = DEFAULTS,
    text_column: int = 0,
) -> Iterator[Documents]:
    """Yield a column of a CSV file in groups of records; an empty cell of `text_column` is a missing text."""
    # `texts` are the documents since the last yield, `lines` their line numbers, `n_bytes` their size. `n_columns` is
    # 0 until the header is read.
    n_columns, n_bytes, size_limit = 0, 0, read_options.size_limit
    skips = read_options.missing_treatment == "skip"
    texts: list[bytes] = []
    lines: list[int] = []

    def concatenate_texts() -> Documents:
        return size_limit.apply(Documents.from_strings(texts), lambda i: f"{url}, line {lines[i]}")

    for line, record in iter_csv_records(chunks, url, delimiter, size_limit.record_limit):
        if not record or len(record) != n_columns:
            if is_blank(record, n_columns):
                read_options.count_blank(1)
            elif n_columns:
                raise ValueError(
                    f"{url}, line {line}: {len(record)} column(s), but must have {n_columns}, as the header"
                )
            else:
                n_columns = len(record)
            continue
        if skips and not record[text_column]:
            read_options.count_missing()
            continue
        texts.append(record[column].encode())
        lines.append(line)
        n_bytes += len(texts[-1])
        if n_bytes >= LINE_CHUNK_BYTES or len(texts) == _RECORDS:
            yield concatenate_texts()
            texts, lines, n_bytes = [], [], 0
    yield concatenate_texts()


def is_blank(record: list[str], n_columns: int) -> bool:
    """Report whether a CSV record is a blank line; with several columns it may contain spaces."""
    return not record or (n_columns != 1 and len(record) == 1 and not record[0].strip())


class _RecordLines:
    """Iterator over lines that raises an error if one record exceeds the size limit."""

    def __init__(self, chunks: Iterable[LineChunk], size_limit: DocumentSizeLimit) -> None:
        # Lone CR are line ends only if there are any.
        newlines = ((chunk.data.decode(), "" if count_lone_returns(chunk.data) else "\n") for chunk in chunks)
        self._lines = (line for text, newline in newlines for line in io.StringIO(text, newline=newline))
        self._longest = size_limit
        self._position = ""
        self._left = 0

    def begin_record(self, position: str) -> None:
        """Reset the size of the current record; it starts at a position."""
        self._position, self._left = position, self._longest.n_bytes

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self._left -= len(line)
        if self._left < 0:
            raise self._longest.error(self._position, "a record (is a quote never closed?)")
        return line
