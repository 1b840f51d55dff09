"""Options for reading text, and reading of files in chunks of whole UTF-8 lines with bounded memory."""

import codecs
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import IO, Any, NamedTuple, Self

import numpy as np

from dspectral.parameters import check_option, check_size
from dspectral.store.from_text.streams import decode_error_message, is_wide
from dspectral.store.location import ERRORS
from dspectral.types import Documents

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BLOCK_BYTES = 16 << 20
"""Default number of bytes of text in a block."""
LINE_CHUNK_BYTES = 1 << 20
"""Number of bytes that are read and decoded at once."""
TAIL_READ_BYTES = 1 << 14
MAX_DOCUMENT_BYTES = 16 << 20
"""Default limit of the size of a document, in bytes."""
RECORD_BYTES = 4 << 20
"""Smallest limit of the size of a whole record, in bytes."""
UNITS = ("line", "file", "field", "record")
FORMATS = {"txt": "line", "jsonl": "field", "csv": "field", "tsv": "field", "parquet": "field"}
"""Default document unit of each format."""
RECORD_START = re.compile(
    rb"^(?=\S)[^\n]{0,32}?\b(?:\d\d:\d\d:\d\d|\d{6} \d{6}|(?:19|20)\d\d[-/.]\d\d[-/.]\d\d)", re.MULTILINE
)
"""Beginning of a line of a log with a date or a time."""
MISSING = "missing='empty' reads a missing text as an empty one, 'skip' leaves it out"
N_LONG = "n_long_documents"
MAX_POSITIONS = 3
"""Number of positions of long documents in a warning."""


class ReadCounts:
    """Numbers of long documents, blank lines and missing texts, and the first positions of long documents."""

    def __init__(self) -> None:
        self.totals = Counter[str]()
        self.positions: list[str] = []

    @property
    def n_long(self) -> int:
        """Number of long documents."""
        return self.totals[N_LONG]

    def record(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        return {"totals": dict(self.totals), "positions": self.positions}

    @classmethod
    def merge(cls, records: Iterable[dict[str, Any]]) -> Self:
        """Return the sums of records, and the first positions."""
        merged = cls()
        for record in records:
            merged.totals.update(record["totals"])
            merged.positions = sorted([*merged.positions, *record["positions"]])[:MAX_POSITIONS]
        return merged


class DocumentSizeLimit(NamedTuple):
    """Size limit of documents: bytes, treatment of longer ones, advice of the error, and their counter."""

    n_bytes: int = MAX_DOCUMENT_BYTES
    treatment: str = "error"
    remedy: str = "max_document_bytes allows more, and long_documents='skip' or 'truncate' reads on"
    counts: ReadCounts | None = None

    @property
    def record_limit(self) -> Self:
        """Limit of whole records, which are larger than their text and cannot be truncated."""
        n_bytes = max(2 * self.n_bytes, RECORD_BYTES)
        if self.treatment != "truncate":
            return self._replace(n_bytes=n_bytes)
        remedy = "max_document_bytes allows more, and long_documents='skip' reads on"
        return self._replace(n_bytes=n_bytes, treatment="error", remedy=remedy)

    def add_count(self, name: str, n: int = 1, position: str | None = None) -> None:
        """Add to a count, and note the position of a long document."""
        if n and self.counts is not None:
            self.counts.totals[name] += n
            self.counts.positions += [position] if position and len(self.counts.positions) < MAX_POSITIONS else []

    def error(self, position: str, item_name: str) -> ValueError:
        """Return the error for a document that is too long."""
        return ValueError(f"{position}: {item_name} must have at most {self.n_bytes:,} bytes; {self.remedy}")

    def shorten(
        self, text: bytes, position: str, item_name: str, encoding: str | None = None, empty: bytes = b""
    ) -> bytes:
        """Return the replacement of a text that is too long: a prefix of whole characters, or ``empty``."""
        if self.treatment == "error":
            raise self.error(position, item_name)
        self.add_count(N_LONG, position=position)
        if self.treatment == "skip":
            return empty
        head = text[: self.n_bytes]
        decoder = codecs.getincrementaldecoder(encoding or "utf-8")("replace")
        decoder.decode(head)
        return head[: len(head) - len(decoder.getstate()[0])]  # without the bytes of an incomplete character

    def apply(self, documents: Documents, position: Callable[[int], str]) -> Documents:
        """Return documents with long ones shortened."""
        long = np.flatnonzero(np.diff(documents.offsets) > self.n_bytes).tolist()
        if not long:
            return documents
        texts = [documents.text(i) for i in range(documents.n_documents)]
        for i in long:
            texts[i] = self.shorten(texts[i], position(i), "a text")
        return Documents.from_strings(texts)


def warn_long_documents(size_limit: DocumentSizeLimit, counts: ReadCounts, *, stacklevel: int) -> None:
    """Warn about documents that were skipped or truncated."""
    action = "read as empty" if size_limit.treatment == "skip" else "truncated"
    shown_positions = "; ".join(counts.positions) + ("; ..." if counts.n_long > len(counts.positions) else "")
    warnings.warn(
        f"{counts.n_long} document(s) of more than {size_limit.n_bytes:,} bytes were {action}: {shown_positions}; "
        "raise max_document_bytes to read them whole",
        stacklevel=stacklevel,
    )


DEFAULT_SIZE_LIMIT = DocumentSizeLimit()
"""Default limit of documents."""
LINE_SIZE_LIMIT = DocumentSizeLimit(64 << 20, remedy="is a line end missing?")
"""Default limit of lines."""


class ReadOptions(NamedTuple):
    """Options for reading text that all builders share, as for :func:`dspectral.build_store`."""

    unit: str | None = None
    field: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    block_bytes: int = BLOCK_BYTES
    errors: str = "strict"
    storage_options: dict[str, Any] | None = None
    max_document_bytes: int = MAX_DOCUMENT_BYTES
    long_documents: str = "error"
    missing: str | None = None
    format: str | None = None
    text_field: str | None = None
    counts: ReadCounts | None = None

    @property
    def size_limit(self) -> DocumentSizeLimit:
        """Size limit of documents."""
        return DocumentSizeLimit(self.max_document_bytes, self.long_documents, counts=self.counts)

    @property
    def options(self) -> dict[str, Any]:
        """Options of the sources' file system."""
        return self.storage_options or {}

    def validate(self) -> Self:
        """Return validated options; raise ValueError for an unknown value."""
        check_option("errors", self.errors, ERRORS)
        check_option("long_documents", self.long_documents, ("error", "skip", "truncate"))
        check_option("unit", self.unit, (None, *UNITS))
        check_option("format", self.format, (None, *FORMATS))
        check_option("missing", self.missing, (None, "error", "empty", "skip"))
        if self.delimiter is not None and not (isinstance(self.delimiter, str) and len(self.delimiter) == 1):
            raise ValueError(f"delimiter={self.delimiter!r} must be one character, such as ';'")
        sizes: dict[str, Any] = {
            name: check_size(name, getattr(self, name)) for name in ("block_bytes", "max_document_bytes")
        }
        return self._replace(**sizes)

    @property
    def missing_treatment(self) -> str:
        """Treatment of missing texts; by default an error, or an empty text with ``errors="replace"``."""
        return self.missing or ("empty" if self.errors == "replace" else "error")

    def count_missing(self, n_texts: int = 1) -> bytes | None:
        """Add to the count of missing texts; return their replacement, None if they are skipped."""
        self.size_limit.add_count("n_missing_texts", n_texts)
        return b"" if self.missing_treatment == "empty" else None

    def record(self) -> dict[str, Any]:
        """Return the entries for the provenance, without defaults."""
        names = "max_document_bytes", "long_documents", "missing", "format"
        return {name: getattr(self, name) for name in names if getattr(self, name) != getattr(DEFAULTS, name)}


DEFAULTS = ReadOptions()


class FileRange(NamedTuple):
    """A byte range of a file, or several small files, read by one task.

    `start, stop`: first bytes of its lines are in ``start <= byte < stop``; row groups of Parquet files. `column,
    n_columns, text_column`: column to read, their number, and the text column if it differs. `n_bytes`: stored size.
    `also`: further whole files. `fingerprints`: fingerprint of each file at planning time.
    """

    url: str
    format: str
    compression: str | None
    unit: str
    field: str | None
    start: int = 0
    stop: int = -1
    column: int = 0
    n_columns: int = 0
    n_bytes: int | None = None
    also: tuple[str, ...] = ()
    encoding: str | None = None
    delimiter: str = ","
    fingerprints: tuple[str, ...] = ()
    text_column: int | None = None

    def describe(self) -> dict[str, Any]:
        """Return the range as JSON values, without fingerprints."""
        return {key: value for key, value in self._asdict().items() if key not in ("fingerprints", "text_column")}

    def describe_line(self, number: int) -> str:
        """Return the position of a line, from 1 in the range, for messages."""
        return f"{self.url}, line {number}" + (f" after byte {self.start}" if self.start else "")

    def files(self) -> list[Self]:
        """Return one range per file."""
        return [self._replace(url=url, also=(), fingerprints=()) for url in (self.url, *self.also)]


class LineChunk(NamedTuple):
    """Whole lines of a file with their line ends, and their first byte and first line (from 1)."""

    data: bytes
    url: str
    byte: int
    line: int | None

    def describe_position(self, offset: int) -> str:
        """Return the position of a byte of the chunk in the file, for messages."""
        if self.line is None:
            return f"{self.url}, byte {self.byte + offset}"
        return f"{self.url}, line {self.line + self.data.count(10, 0, offset)}"

    def describe_line(self, number: int) -> str:
        """Return the position of a line of the chunk in the file, for messages."""
        ends = np.flatnonzero(np.frombuffer(self.data, dtype=np.uint8) == 10)
        return self.describe_position(int(ends[number - 1]) + 1 if number else 0)

    def error(self, offset: int, message: str) -> ValueError:
        """Return an error with the position of a byte."""
        return ValueError(f"{self.describe_position(offset)}: {message}")


def read_line_chunks(
    file: IO[bytes],
    url: str,
    *,
    start: int = 0,
    stop: int = -1,
    chunk_bytes: int = LINE_CHUNK_BYTES,
    size_limit: DocumentSizeLimit = LINE_SIZE_LIMIT,
    encoding: str | None = None,
    empty: bytes = b"",
) -> Iterator[LineChunk]:
    """Yield the lines whose first byte is in ``start <= byte < stop``, with LF for CR; replace or refuse long ones."""
    lines = _LineEndReader(file)
    begins, line = _seek_first_line(lines, start, stop), None if start else 1
    # One byte more detects a line that is too long, also with a CR LF end.
    max_line_bytes = size_limit.n_bytes + 2
    # Invariant: `begins` is the position of the next lines in the file, `line` the number of the first one.
    for data, size in _split_at_lines(lines, begins, stop, chunk_bytes, max_line_bytes):
        text = data if begins else data.removeprefix(BYTE_ORDER_MARK)
        chunk = LineChunk(text, url, begins + len(data) - len(text), line)
        if max(map(len, text.split(b"\n"))) > size_limit.n_bytes:
            chunk = _limit_line_sizes(chunk, size_limit, encoding, empty)
        if chunk.data:
            yield chunk
        begins += size
        line = None if line is None else line + data.count(10)


class _LineEndReader:
    """File wrapper that converts CR to LF and never splits CR LF between two reads."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek = file.seek

    def read(self, size: int) -> bytes:
        """Read at least one byte unless at EOF; conversion does not change the number of bytes."""
        data = self._file.read(size)
        while data.endswith(b"\r") and (more := self._file.read(1)):
            data += more
        return re.sub(rb"\r(?!\n)", b"\n", data)


def read_whole_file(file: IO[bytes], url: str, size_limit: DocumentSizeLimit, encoding: str | None) -> LineChunk:
    """Read a file as one document."""
    max_bytes = len(BYTE_ORDER_MARK) + size_limit.n_bytes + 1
    parts: list[bytes] = []
    # `read()` may return fewer bytes than requested; an empty result is EOF.
    while max_bytes > 0 and (data := file.read(min(LINE_CHUNK_BYTES, max_bytes))):
        parts.append(data)
        max_bytes -= len(data)
    text = b"".join(parts).removeprefix(BYTE_ORDER_MARK)
    if len(text) > size_limit.n_bytes:
        text = size_limit.shorten(text, url, "a file", encoding)
    return LineChunk(text, url, 0, 1)


def _limit_line_sizes(chunk: LineChunk, size_limit: DocumentSizeLimit, encoding: str | None, empty: bytes) -> LineChunk:
    """Return a chunk whose long lines are skipped or truncated; CR of a CR LF end does not count."""
    lines, offset = [], 0
    for line in re.findall(rb"[^\n]*\n|[^\n]+", chunk.data):
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        is_long = len(text) > size_limit.n_bytes
        position = chunk.describe_position(offset) if is_long else ""
        lines.append(size_limit.shorten(text, position, "a line", encoding, empty) + b"\n" if is_long else line)
        offset += len(line)
    return chunk._replace(data=b"".join(lines))


def _seek_first_line(file: _LineEndReader, start: int, stop: int) -> int:
    """Seek the first line that starts at byte ``start`` or later; return its position."""
    if not start:
        return 0
    # Ranges start at any byte, and a line belongs to the range of its first byte. A line end at start - 1 means that a
    # line starts at `start`. The search ends at `stop`, so that ranges inside a long line do not read its rest.
    position = start - 1
    file.seek(position)
    while (stop < 0 or position < stop) and (data := file.read(TAIL_READ_BYTES)):
        if (end := data.find(b"\n")) >= 0:
            file.seek(position + end + 1)
            return position + end + 1
        position += len(data)
    return position


def _split_at_lines(
    file: _LineEndReader, position: int, stop: int, chunk_bytes: int, max_line_bytes: int
) -> Iterator[tuple[bytes, int]]:
    """Yield groups of whole lines from ``position`` to ``stop`` with their size in the file; long lines are cut."""
    # Invariant: `position` is the position of the next byte to read; `pending` is the prefix of a line whose end is not
    # read yet, `n_held` its size, and `n_read` the bytes read of the line, more than `n_held` if it is too long.
    # After `stop`, reads are small, because the last line usually ends soon.
    pending: list[bytes] = []
    n_held = n_read = 0
    while stop < 0 or position < stop or pending:
        data = file.read(chunk_bytes if stop < 0 else min(chunk_bytes, max(TAIL_READ_BYTES, stop - position)))
        if not data:
            break
        # The first line end at stop - 1 or later ends the last line of the range.
        end = data.find(b"\n", max(0, stop - 1 - position)) if stop >= 0 else -1
        cut = end + 1 if end >= 0 else data.rfind(b"\n") + 1
        position += len(data)
        if not cut:
            pending.append(data[: max(0, max_line_bytes - n_held)])
            n_held, n_read = n_held + len(pending[-1]), n_read + len(data)
            continue
        first = 0
        if n_held < n_read:  # drop the middle of a line that is too long
            first = data.find(b"\n") + 1
            yield b"".join((*pending, b"\n")), n_read + first
            pending, n_read = [], 0
        if first < cut:
            yield b"".join((*pending, data[first:cut])), n_read + cut - first
        if end >= 0:
            return
        pending = [data[cut:]] if cut < len(data) else []
        n_held = n_read = len(data) - cut
    if pending:
        yield b"".join(pending), n_read


def check_utf8(chunk: LineChunk, errors: str = "strict") -> LineChunk:
    """Return a chunk in valid UTF-8: raise ValueError for invalid bytes, or replace them with U+FFFD."""
    if chunk.data.isascii():  # cheaper than decoding
        return chunk
    try:
        chunk.data.decode()
    except UnicodeDecodeError as error:
        if errors == "replace":
            return chunk._replace(data=chunk.data.decode(errors="replace").encode())
        other = "utf-16" if not chunk.byte and chunk.data[:2] in (b"\xff\xfe", b"\xfe\xff") else "cp1252"
        advice = f"use errors='replace', or another encoding=, such as {other!r}, or convert the file"
        fault = f"invalid UTF-8 ({error.reason}); {advice}"
        raise chunk.error(error.start, fault) from error
    return chunk


def split_lines(data: bytes) -> Documents:
    r"""Return each line as a document, without its line end (LF or CR LF)."""
    data = data.replace(b"\r\n", b"\n") if b"\r" in data else data
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == 10)
    # Offsets shrink by one byte for each removed line end before them.
    text = data.replace(b"\n", b"")
    last = [] if data.endswith(b"\n") or not data else [len(text)]
    offsets = np.concatenate([[0], ends - np.arange(len(ends)), last]).astype(np.int64)
    return Documents(np.frombuffer(text, dtype=np.uint8), offsets)


def join_records(
    chunks: Iterable[LineChunk],
    following: Iterable[LineChunk],
    size_limit: DocumentSizeLimit,
    *,
    is_first: bool,
) -> Iterator[Documents]:
    r"""Yield the records that start in a byte range: a line with a timestamp, and the lines after it without one.

    `following`: the lines after the range, which may continue its last record. Lines before the first timestamp of a
    file are one record; those of later ranges belong to the range before.

    >>> chunks = [LineChunk(b"10:00:01 failed\n  at f\n", "a.log", 0, 1), LineChunk(b"  at g\n10:00:02 ok\n", "", 0, 1)]
    >>> [records.text(i) for records in join_records(chunks, [], DEFAULT_SIZE_LIMIT, is_first=True)
    ...  for i in range(records.n_documents)]
    [b'10:00:01 failed\n  at f\n  at g', b'10:00:02 ok']
    """
    # Invariant: `pending` is the last record as far as it was read, at most a byte longer than the limit; `position` is
    # that of its first line. Each byte is searched once for timestamps and copied twice.
    pending, position, is_open = b"", "", is_first
    for chunk in chunks:
        starts = [match.start() for match in RECORD_START.finditer(chunk.data)]
        first = starts[0] if starts else len(chunk.data)
        if is_open:
            position = position or chunk.describe_position(0)
            pending += chunk.data[: min(first, size_limit.n_bytes + 1 - len(pending))]
        if starts:
            texts = [pending] if pending.strip() else []
            positions = [position] * len(texts) + [chunk.describe_position(start) for start in starts[:-1]]
            texts += [chunk.data[a:b] for a, b in pairwise(starts)]
            records = Documents.from_strings([text.rstrip() for text in texts])
            yield size_limit.apply(records, positions.__getitem__)
            pending, position, is_open = chunk.data[starts[-1] :], chunk.describe_position(starts[-1]), True
    for chunk in following if is_open else ():
        match = RECORD_START.search(chunk.data)
        stop = match.start() if match else len(chunk.data)
        pending += chunk.data[: min(stop, size_limit.n_bytes + 1 - len(pending))]
        if match:
            break
    if pending.strip():
        yield size_limit.apply(Documents.from_strings([pending.rstrip()]), lambda _: position)


def split_documents(documents: Documents) -> Documents:
    """Split documents into one document per line; lines end in LF, CR LF or CR."""
    if not np.any((documents.data == ord("\n")) | (documents.data == ord("\r"))):
        return documents
    every = (documents.text(i) for i in range(documents.n_documents))
    texts = (text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") for text in every)
    return Documents.from_strings([line for text in texts for line in text.removesuffix(b"\n").split(b"\n")])


def decode_to_utf8(chunk: LineChunk, encoding: str | None, errors: str) -> LineChunk:
    r"""Convert whole lines to valid UTF-8.

    >>> decode_to_utf8(LineChunk(b"caf\xe9", "a.txt", 0, 1), "iso8859-1", "strict").data.decode()
    'café'
    """
    # Files of wide encodings are transcoded when they are opened.
    if encoding is None or is_wide(encoding):
        return check_utf8(chunk, errors)
    try:
        return chunk._replace(data=chunk.data.decode(encoding, errors).encode())
    except UnicodeDecodeError as error:
        raise chunk.error(error.start, decode_error_message(encoding, error)) from error
