"""Files as documents: those that paths, patterns and folders name, their formats, and the spans read in parallel."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby, pairwise
from os import PathLike
from typing import Any, NamedTuple

import fsspec

from dspectral.engine.fits import expand_path
from dspectral.engine.tasks import retried
from dspectral.store.draft import changed_text
from dspectral.store.from_text.lines import (
    DEFAULTS,
    PIECE_BYTES,
    RECORD_BYTES,
    Longest,
    Reading,
    as_utf8,
    split_lines,
    whole_lines,
)
from dspectral.store.from_text.parquet import row_groups
from dspectral.store.from_text.records import csv_records
from dspectral.store.from_text.streams import (
    fresh_stamp,
    in_utf8,
    is_wide,
    known_encoding,
    open_bytes,
    refuse_if_there,
    stamp_of,
)
from dspectral.store.location import Location, is_local, without_secrets

COMPRESSIONS = ("gz", "bz2", "zst")
FORMATS = {"txt": "line", "jsonl": "field", "csv": "field", "tsv": "field", "parquet": "field"}
"""Unit of text that is a document in each format, unless the caller says."""
_SHOWN = 5


def files_of(
    source: str, options: dict[str, Any], *, records: bool
) -> list[tuple[str, str, int | None, str]]:
    """Find the files that a source names: what opens each, its path, size and stamp."""
    system, path = fsspec.url_to_fs(source, **options)
    # A file whose own name has brackets is a file and no pattern.
    if not any(sign in path for sign in "*?[") or system.exists(path):
        if system.isfile(path):
            found = {path: system.info(path)}
        elif system.isdir(path):
            found = _in_folder(source, system.ls(path, detail=True), records=records)
        else:
            refuse_if_there(system, path)
            raise FileNotFoundError(f"no file {source!s:.300}")
    elif "::" in source:  # the names inside an archive do not say the archive
        raise ValueError(f"{source} is a pattern behind '::': name its files one by one")
    else:
        listed = system.glob(path, detail=True)
        found = {name: listed[name] for name in sorted(listed) if listed[name]["type"] == "file"}
        if not found:
            raise FileNotFoundError(f"no file matches {source!s:.300}")
    return [
        (_url(system, name, source), name, info["size"], stamp_of(system, name, info))
        for name, info in found.items()
    ]


def format_of(path: str) -> tuple[str | None, str | None]:
    """Return the format and compression that the ending of a name says.

    >>> format_of("a.b.jsonl.gz"), format_of("gz")
    (('jsonl', 'gz'), (None, None))
    """
    # "a.b.jsonl.gz": compression gz, format jsonl. "gz" alone is a name without an ending, as ".txt" has no name.
    *parts, ending = path.rsplit("/", 1)[-1].lower().split(".")
    compression = ending if parts and ending in COMPRESSIONS else None
    if compression:
        *parts, ending = parts
    return (ending if parts and ending in FORMATS else None), compression


def _in_folder(source: str, listed: Sequence[dict[str, Any]], *, records: bool) -> dict[str, Any]:
    """Return what is listed of the files of a folder that are read, in the order of their names."""
    files = {info["name"]: info for info in listed if info["type"] == "file"}
    names = sorted(name for name in files if not name.rsplit("/", 1)[-1].startswith((".", "_")))
    kinds = {name: FORMATS.get(format_of(name)[0] or "") for name in names}
    wanted = [name for name in names if kinds[name] == ("field" if records else "line")]
    if wanted:
        return {name: files[name] for name in wanted}
    shown = [name.rsplit("/", 1)[-1] for name in names[:_SHOWN]]
    if len(names) > _SHOWN:
        shown.append(f"{len(names) - _SHOWN} more files")
    if n_folders := sum(info["type"] == "directory" for info in listed):
        shown.append(f"{n_folders} folder(s)")
    inside = f"it holds {', '.join(shown)}" if shown else "it is empty"
    kind = "a file of records (.jsonl, .csv, .tsv, .parquet)" if records else "a file that ends in .txt"
    place = source.rstrip("/")
    raise FileNotFoundError(
        f"no file in the folder {source} is {kind}: {inside}; field= reads records, unit='line' with the pattern "
        f"{place}/* any text, and {place}/**/*.txt names files in its folders"
    )


def _url(system: fsspec.AbstractFileSystem, path: str, source: str) -> str:
    """Return what opens a file from any directory."""
    if "::" in source:
        return source
    return str(path if is_local(system) else system.unstrip_protocol(path))


DELIMITERS = (",", ";", "\t", "|")
"""Characters between the fields of csv files, in the order of trial."""
LONGEST_HEADER = Longest(RECORD_BYTES, remedy="is a line end missing in the header, or a quote?")


def size_of(spans: Sequence[object]) -> int | None:
    """Return the bytes of pieces of text as they are stored, or None where those of one are not known."""
    sizes = [getattr(span, "n_bytes", None) for span in spans]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


class Span(NamedTuple):
    """A piece of a file, or a few small files, that one task reads.

    `start, stop`: bytes between which its lines begin, ``start <= byte < stop``; `column, n_columns`: column of the
    text, from 0, and number of columns; `n_bytes`: size as it is stored; `also`: further whole files, which follow
    the first; `stamps`: stamp of each file when it was planned, which another content would change.
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
    stamps: tuple[str, ...] = ()

    def describe(self) -> dict[str, Any]:
        """Return the span as JSON takes it."""
        return {key: value for key, value in self._asdict().items() if key != "stamps"}

    def stamped(self) -> Iterator[tuple[str, str]]:
        """Yield each of its files with its stamp."""
        return zip((self.url, *self.also), self.stamps, strict=False)

    def files(self) -> "list[Span]":
        """Return a span for each of its files."""
        return [self._replace(url=url, also=(), stamps=()) for url in (self.url, *self.also)]


def stamps_of(spans: Sequence[Span]) -> dict[str, str]:
    """Return the stamp of each file of some spans, by its address without secrets."""
    stamps = {url: stamp for span in spans for url, stamp in span.stamped()}
    return {without_secrets(url): stamp for url, stamp in stamps.items()}


def refuse_changed(where: Location, spans: Sequence[Span], options: dict[str, Any]) -> None:
    """Refuse to finish a store of files that have changed since they were planned."""
    stamps = {url: stamp for span in spans for url, stamp in span.stamped()}
    with ThreadPoolExecutor() as pool:
        now = pool.map(lambda url: fresh_stamp(url, options), stamps)
        changed = [url for (url, stamp), other in zip(stamps.items(), now, strict=True) if other != stamp]
    if changed:
        raise changed_text(where, changed)


def plan_spans(
    sources: str | PathLike[str] | Sequence[str | PathLike[str]],
    reading: Reading = DEFAULTS,
    *,
    ids: bool = False,
) -> list[Span]:
    r"""Cut files into spans; nothing is read but sizes, headers and the footers of Parquet files.

    >>> import fsspec
    >>> with fsspec.open("memory://lines.txt", "w") as file:
    ...     _ = file.write("a b\n" * 100)
    >>> [(span.start, span.stop) for span in plan_spans("memory://lines.txt", Reading(block_bytes=300))]
    [(0, 300), (300, 400)]
    """
    reading = reading.checked()
    encoding, spans = known_encoding(reading.encoding), []
    for source in [sources] if isinstance(sources, str | PathLike) else sources:
        for url, path, size, stamp in _found(sources, expand_path(source), reading):
            whole = _whole(url, path, reading)._replace(encoding=encoding, stamps=(stamp,))
            whole = whole._replace(unit="id") if ids else whole
            cut = partial(_spans, whole, size, reading)
            spans += retried(cut, what=f"reading the header of {without_secrets(url)}")
    return list(_together(spans, reading.block_bytes))


def _found(sources: Any, source: str, reading: Reading) -> list[Any]:
    """Return the files of a source; a list whose strings name none may be meant as texts."""
    try:
        look = partial(files_of, source, reading.options, records=reading.field is not None)
        return retried(look, what=f"looking for {without_secrets(source)}")
    except FileNotFoundError as error:
        if isinstance(sources, str | PathLike):
            raise
        raise FileNotFoundError(
            f"{error}; strings in a list name files, and dspectral.Texts([...]) around the list makes them texts"
        ) from error


def _whole(url: str, path: str, reading: Reading) -> Span:
    """Return the whole of a file as a span, if unit and field fit its format."""
    unit, field, delimiter = reading.unit, reading.field, reading.delimiter
    file_format, compression = format_of(path)
    file_format = file_format or ("txt" if unit in ("line", "file") else None)
    if file_format is None:
        known = ", ".join(f".{name}" for name in FORMATS)
        raise ValueError(
            f"{url} ends in none of {known} (and .gz, .bz2 or .zst): unit='line' or 'file' reads it as text"
        )
    unit = unit or FORMATS[file_format]
    if file_format == "txt" and (unit == "field" or field is not None):
        raise ValueError(f"{url} is text without fields: unit must be 'line' or 'file', without field=")
    if file_format != "txt" and (unit != "field" or field is None):
        more = "" if unit == "field" else ", and unit be 'field'"
        raise ValueError(f"{url} holds records: field= must name the one with the text{more}")
    if delimiter is not None and file_format != "csv":
        raise ValueError(f"delimiter is {delimiter!r}, but {url} is no csv file")
    if file_format == "parquet" and compression:
        raise ValueError(f"{url} is compressed from outside: Parquet files are read as they are")
    return Span(url, file_format, compression, unit, field)


def _spans(whole: Span, size: int | None, reading: Reading) -> list[Span]:
    # A row group is the least that a reader of Parquet can decode: it is a span, however large.
    if whole.format == "parquet":
        groups = range(row_groups(whole.url, reading.options, str(whole.field), numbers=whole.unit == "id"))
        return [whole._replace(start=group, stop=group + 1) for group in groups]
    if whole.format in ("csv", "tsv"):
        whole = _with_column(whole, reading)
    # A span starts with a seek, and its first line is found by a line end: that needs a file that seeks, and records
    # that do not hold line ends, as those of CSV may.
    wide = is_wide(whole.encoding)
    streamed = whole.unit == "file" or whole.compression or whole.format == "csv" or wide
    if streamed or size is None or size <= reading.block_bytes:
        return [whole._replace(n_bytes=size)]
    borders = pairwise([*range(0, size, reading.block_bytes), size])
    return [whole._replace(start=start, stop=stop, n_bytes=stop - start) for start, stop in borders]


def _together(spans: list[Span], span_bytes: int) -> Iterator[Span]:
    """Yield spans, small files together: each would be a task and a block, however small."""
    # Neighbors of one format, unit and column, whole files of known sizes: `held` is the span so far, which the next
    # file joins if it fits.
    for _, group in groupby(spans, key=lambda span: span._replace(url="", n_bytes=None, stamps=())):
        held, *others = group
        for span in others:
            n_bytes = size_of((held, span)) if held.stop < 0 else None
            if n_bytes is not None and n_bytes <= span_bytes:
                held = held._replace(
                    n_bytes=n_bytes, also=(*held.also, span.url), stamps=(*held.stamps, *span.stamps)
                )
            else:
                yield held
                held = span
        yield held


def _with_column(whole: Span, reading: Reading) -> Span:
    """Return the span with the number of its column, cut by the delimiter under which the header has that column."""
    given = reading.delimiter
    tried = DELIMITERS if given is None and whole.format == "csv" else (given or whole.delimiter,)
    headers: list[list[str]] = []
    errors: list[ValueError] = []
    for cut in tried:
        try:
            names = _header(whole._replace(delimiter=cut), reading.options)
        except ValueError as error:  # quotes that stand where they may not under another delimiter
            errors.append(error)
            continue
        if names is None:
            return whole
        if names.count(str(whole.field)) == 1:
            column = names.index(str(whole.field))
            return whole._replace(column=column, n_columns=len(names), delimiter=cut)
        headers.append(names)
    if not headers:
        raise errors[0]
    # The sentence shows the header cut in the most pieces: that is likely to be the right way.
    names = max(headers, key=len)
    remedy = "; delimiter= says what its fields are cut by" if len(tried) > 1 and len(names) == 1 else ""
    raise ValueError(f"{whole.url} has no column {whole.field!r}, or several, but {', '.join(names)}{remedy}")


def _header(whole: Span, options: dict[str, Any]) -> list[str] | None:
    """Return the names of the columns of a CSV or TSV file, or None if it is empty."""
    # Bytes that cannot be decoded are for the reader to refuse.
    with (
        open_bytes(whole.url, whole.compression, options) as raw,
        in_utf8(raw, whole.url, whole.encoding, "replace") as file,
    ):
        pieces = whole_lines(file, whole.url, piece_bytes=PIECE_BYTES >> 4, longest=LONGEST_HEADER)
        texts = (as_utf8(piece, whole.encoding, "replace") for piece in pieces)
        if whole.format == "csv":
            return next(
                (record for _, record in csv_records(texts, whole.url, whole.delimiter, LONGEST_HEADER)), None
            )
        first = next(texts, None)
        return first and split_lines(first.data).text(0).decode().split("\t")
