"""What the documents are: files, their formats, and the spans that are read in parallel."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import fsspec

COMPRESSIONS = ("gz", "bz2", "zst")
FORMATS = {"txt": "line", "jsonl": "field", "csv": "field", "tsv": "field", "parquet": "field"}
"""What a document is in each format, unless the caller says."""
SPLITTABLE = ("txt", "jsonl", "tsv")


class Span(NamedTuple):
    """A piece of a file that one task reads.

    Attributes
    ----------
    url : str
    format : str
        ``"txt"``, ``"jsonl"``, ``"csv"``, ``"tsv"`` or ``"parquet"``.
    compression : str or None
        ``"gz"``, ``"bz2"`` or ``"zst"``: then the file is one span.
    unit : str
        ``"line"``, ``"file"`` or ``"field"``.
    field : str or None
        The record's field that holds the text.
    start, stop : int
        The span has the lines that begin at these bytes, ``start <= byte < stop``; of a Parquet file the row
        groups; a ``stop`` of -1 is the end.
    """

    url: str
    format: str
    compression: str | None
    unit: str
    field: str | None
    start: int = 0
    stop: int = -1

    def describe(self) -> dict[str, Any]:
        """Return the span as JSON takes it."""
        return dict(self._asdict())


def plan_spans(
    sources: str | Sequence[str],
    *,
    unit: str | None = None,
    field: str | None = None,
    span_bytes: int = 16 << 20,
    storage_options: dict[str, Any] | None = None,
) -> list[Span]:
    """Cut files into spans; nothing is read but sizes, and the footers of Parquet files.

    Parameters
    ----------
    sources : str or sequence of str
        Paths, globs or fsspec URLs.
    unit : {"line", "file", "field"}, optional
        What a document is: by default a line of txt, a field of a record elsewhere.
    field : str, optional
        Of the records.
    span_bytes : int
        Bytes of a span of an uncompressed file of lines.
    storage_options : dict, optional

    Returns
    -------
    list of Span
        In the order of the sources, those of a glob by name.

    Raises
    ------
    FileNotFoundError
        If a file is missing or a glob matches none.
    ValueError
        If an ending is unknown, or unit and field do not fit the format.

    Examples
    --------
    >>> with fsspec.open("memory://lines.txt", "w") as file:
    ...     _ = file.write("a b\\n" * 100)
    >>> [(span.start, span.stop) for span in plan_spans("memory://lines.txt", span_bytes=300)]
    [(0, 300), (300, 400)]
    """
    spans: list[Span] = []
    for source in [sources] if isinstance(sources, str) else sources:
        for url, size in _files(str(source), storage_options or {}):
            spans += _spans_of(url, size, unit, field, span_bytes, storage_options or {})
    return spans


def _files(source: str, options: dict[str, Any]) -> list[tuple[str, int]]:
    system, path = fsspec.url_to_fs(source, **options)
    paths = sorted(system.glob(path)) if any(sign in path for sign in "*?[") else [path]
    paths = [found for found in paths if not system.isdir(found)]
    if not paths or not system.exists(paths[0]):
        raise FileNotFoundError(f"no file matches {source}")
    local = "file" in ([system.protocol] if isinstance(system.protocol, str) else system.protocol)
    return [(found if local else system.unstrip_protocol(found), system.size(found)) for found in paths]


def _spans_of(
    url: str, size: int, unit: str | None, field: str | None, span_bytes: int, options: dict[str, Any]
) -> list[Span]:
    file_format, compression = _format_of(url, unit)
    unit = unit or FORMATS[file_format]
    if unit not in ("line", "file", "field"):
        raise ValueError(f"unit is {unit!r}, but it must be 'line', 'file' or 'field'")
    if unit == "field" and field is None:
        raise ValueError(f"{url} holds records: field= must name the one with the text")
    if unit == "field" and file_format == "txt":
        raise ValueError(f"{url} is plain text without fields: unit must be 'line' or 'file'")
    if unit != "field" and file_format == "parquet":
        raise ValueError(f"{url} holds records: unit must be 'field'")
    file_format = file_format if unit == "field" else "txt"
    whole = Span(url, file_format, compression, unit, field)
    if file_format == "parquet":
        return [whole._replace(start=i, stop=i + 1) for i in range(_row_groups(url, options))]
    if unit == "file" or compression or file_format not in SPLITTABLE or size <= span_bytes:
        return [whole]
    starts = range(0, size, span_bytes)
    return [whole._replace(start=start, stop=min(start + span_bytes, size)) for start in starts]


def _format_of(url: str, unit: str | None) -> tuple[str, str | None]:
    endings = url.rsplit("/", 1)[-1].lower().split(".")
    compression = endings.pop() if endings[-1] in COMPRESSIONS else None
    ending = endings[-1] if len(endings) > 1 else ""
    if ending in FORMATS:
        return ending, compression
    if unit in ("line", "file"):
        return "txt", compression
    raise ValueError(
        f"{url} ends in none of {', '.join('.' + known for known in FORMATS)} (and .gz, .bz2 or .zst): "
        "unit='line' or unit='file' reads it as plain text"
    )


def _row_groups(url: str, options: dict[str, Any]) -> int:
    from dspectral.store.parquet import row_groups  # noqa: PLC0415  pyarrow is an optional extra

    return row_groups(url, options)
