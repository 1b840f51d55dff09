"""The text in the records of jsonl, TSV and CSV files."""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from dspectral.store.from_text.lines import LONGEST, PIECE_BYTES, Longest, Piece, split_lines
from dspectral.types import Documents, IntArray

_SHOWN = 60
_SURROGATE = re.compile("[\ud800-\udfff]")
_RECORDS = 4096
_LONGEST_FIELD = 2**31 - 1


def json_texts(piece: Piece, field: str, errors: str, *, numbers: bool = False) -> Documents:
    """Return a field of the records in some lines of JSON; whole numbers are texts where they are ids."""
    lines = piece.data.decode().removesuffix("\n").split("\n")
    texts = []
    for number, line in enumerate(lines):
        try:  # json's parser recurses, and a line of brackets may be deeper than Python allows
            texts.append(_json_text(line, field, errors, numbers=numbers))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{piece.place_of_line(number)}: {error}") from error
    return Documents.of(texts)


def _json_text(line: str, field: str, errors: str, *, numbers: bool) -> bytes:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg}, column {error.colno})") from error
    if isinstance(record, dict) and isinstance(text := record.get(field), str):
        return _encode(text, errors)
    if numbers and isinstance(record, dict) and type(number := record.get(field)) is int:
        return str(number).encode()
    raise ValueError(_why_no_text(record, field))


def _why_no_text(record: object, field: str) -> str:
    if not isinstance(record, dict):
        return f"expected a JSON object with a string in {field!r}, not {_shown(record)}"
    if field not in record:
        return f"no field {field!r} in the record, but {_shown(list(record))}"
    return f"field {field!r} holds {_shown(record[field])}, not a string"


def _shown(value: object) -> str:
    """Return the beginning of a value as JSON."""
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _encode(text: str, errors: str) -> bytes:
    """Encode a text that may have half a surrogate pair, which JSON can escape and UTF-8 cannot hold."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        if errors == "replace":
            return _SURROGATE.sub("\ufffd", text).encode()
        raise ValueError("half a surrogate pair in the text; errors='replace' reads on") from error


def tsv_texts(piece: Piece, column: int, n_columns: int, *, with_header: bool) -> Documents:
    """Return a column of some lines of TSV, without a loop over lines."""
    lines = split_lines(piece.data)
    # A line of n columns has n - 1 tabs. Once all lines have, the tabs are a table: row i, column j is the tab
    # behind field j of line i, and a field goes from the tab before it (or the line's start) to the tab behind it.
    tabs = np.flatnonzero(lines.data == ord("\t"))
    found = np.diff(np.searchsorted(tabs, lines.offsets)) + 1
    if len(wrong := np.flatnonzero(found != n_columns)):
        what = f"{found[wrong[0]]} column(s), but the header has {n_columns}"
        raise ValueError(f"{piece.place_of_line(int(wrong[0]))}: {what}")
    between = tabs.reshape(lines.n_documents, n_columns - 1)
    starts = between[:, column - 1] + 1 if column else lines.offsets[:-1]
    stops = between[:, column] if column < n_columns - 1 else lines.offsets[1:]
    first = int(with_header)
    return _slices(lines.data, starts[first:], stops[first:])


def _slices(data: NDArray[np.uint8], starts: IntArray, stops: IntArray) -> Documents:
    """Return ``data[start:stop]`` of each pair; each begins where the one before stops, or behind it."""
    # The running sum of `steps` is 1 on the bytes to keep: +1 where a slice starts, -1 where one stops.
    # Empty slices are left out: one that starts where its neighbor does would repeat an index, and an array of indices
    # adds once to each place however often it is named.
    some = stops > starts
    steps = np.zeros(len(data) + 1, dtype=np.int8)
    steps[starts[some]] += 1
    steps[stops[some]] -= 1
    offsets = np.concatenate([[0], np.cumsum(stops - starts)]).astype(np.int64)
    return Documents(data[np.cumsum(steps[:-1], dtype=np.int8).view(bool)], offsets)


def csv_records(
    pieces: Iterable[Piece], url: str, delimiter: str, longest: Longest
) -> Iterator[tuple[int, list[str]]]:
    """Yield each record of a CSV file as RFC 4180 has it, its header too, and the line where it begins."""
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))  # 128 KiB until someone raises it
    # `strict` refuses what follows a closing quote; without it a broken quote would swallow the rest of the file.
    lines = _Lines(pieces, longest)
    records = csv.reader(lines, strict=True, delimiter=delimiter)
    while True:
        line = records.line_num + 1
        lines.begin_record(f"{url}, line {line}")
        try:
            record = next(records, None)
        except csv.Error as error:
            raise ValueError(f"{url}, line {line}: no CSV record ({error})") from error
        if record is None:
            return
        yield line, record


def csv_texts(
    pieces: Iterable[Piece], url: str, column: int, delimiter: str, longest: Longest = LONGEST
) -> Iterator[Documents]:
    """Yield a column of a CSV file, some records at a time."""
    # `texts` are the documents since the last yield, `lines` where they begin, `n_bytes` their size; 0 columns until
    # the header is read.
    n_columns, n_bytes = 0, 0
    texts: list[bytes] = []
    lines: list[int] = []

    def taken() -> Documents:
        return longest.apply(Documents.of(texts), lambda i: f"{url}, line {lines[i]}")

    for line, record in csv_records(pieces, url, delimiter, longest.of_records):
        if not n_columns:
            n_columns = len(record)
            continue
        if len(record) != n_columns:
            raise ValueError(f"{url}, line {line}: {len(record)} column(s), but the header has {n_columns}")
        texts.append(record[column].encode())
        lines.append(line)
        n_bytes += len(texts[-1])
        if n_bytes >= PIECE_BYTES or len(texts) == _RECORDS:
            yield taken()
            texts, lines, n_bytes = [], [], 0
    yield taken()


class _Lines:
    """Lines of pieces, as long as those of one record are not too many."""

    def __init__(self, pieces: Iterable[Piece], longest: Longest) -> None:
        self._lines = (line for piece in pieces for line in io.StringIO(piece.data.decode(), newline="\n"))
        self._longest = longest
        self._place = ""
        self._left = 0

    def begin_record(self, place: str) -> None:
        """Count from here; ``place`` is where the record begins."""
        self._place, self._left = place, self._longest.n_bytes

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self._left -= len(line)
        if self._left < 0:
            raise self._longest.error(self._place, "a record (is a quote never closed?)")
        return line
