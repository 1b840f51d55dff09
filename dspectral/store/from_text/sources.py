"""Find the files of paths, patterns and folders, detect their formats, and split them into byte ranges."""

import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fnmatch import fnmatch
from functools import partial
from glob import glob
from hashlib import sha256
from itertools import chain, groupby, pairwise
from os import PathLike
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec

from dspectral.engine.around.file_systems import open_file_system
from dspectral.engine.around.retries import retry
from dspectral.paths import expand_path
from dspectral.store.from_text.lines import (
    BYTE_ORDER_MARK,
    DEFAULTS,
    FORMATS,
    LINE_CHUNK_BYTES,
    RECORD_BYTES,
    DocumentSizeLimit,
    FileRange,
    ReadOptions,
    decode_to_utf8,
    read_line_chunks,
)
from dspectral.store.from_text.parquet import count_row_groups, read_column_names
from dspectral.store.from_text.records import iter_table_rows
from dspectral.store.from_text.streams import (
    detect_compression,
    get_current_fingerprint,
    get_fingerprint,
    get_zip_member,
    is_wide,
    normalize_encoding,
    open_as_utf8,
    open_decompressed,
    open_raw,
)
from dspectral.store.location import StoreError, is_local, redact_urls

COMPRESSIONS = ("gz", "bz2", "zst", "zip")
ENDINGS = {**{name: name for name in FORMATS}, "ndjson": "jsonl", "log": "txt", "text": "txt"}
"""Format of each name ending; for ``.json`` files the content decides."""
_SHOWN = 5


def find_files(
    source: str, options: dict[str, Any], *, has_records: bool, any_ending: bool = False
) -> list[tuple[str, str, int | None, str]]:
    """Find the files of a source; return URL, path, size and fingerprint of each.

    Links are followed. As in a shell, patterns match hidden files only if they contain the dot. A folder gives its
    files of the requested kind, or with `any_ending` all that are not hidden.
    """
    file_system, path = open_file_system(source, options)
    local, own_info = is_local(file_system), None
    if not local or file_system.exists(path):
        with suppress(FileNotFoundError):
            own_info = file_system.info(path)  # raises transient errors, which `exists` of remote systems hides
    # An existing file with brackets in its name is not a pattern.
    if own_info is not None and own_info["type"] == "file":
        files = {path: own_info}
    elif own_info is not None:
        infos = {info["name"]: _follow_link(file_system, info) for info in file_system.ls(path, detail=True)}
        files = _select_in_folder(source, infos, has_records=has_records, any_ending=any_ending)
    elif not any(sign in path for sign in "*?["):
        if local and (link := Path(path)).is_symlink():
            raise FileNotFoundError(f"{source!s:.300} is a link to {link.readlink()}, which must exist: fetch it")
        raise FileNotFoundError(f"no file {source!s:.300}: check the path")
    elif "::" in source:  # names inside an archive do not include the archive
        raise ValueError(f"{source} is a pattern after '::', which is not supported: name its files one by one")
    else:
        infos = {name: _follow_link(file_system, info) for name, info in _glob(file_system, path).items()}
        files = {name: infos[name] for name in sorted(infos) if infos[name]["type"] == "file"}
        if not files:
            raise FileNotFoundError(f"no file matches {source!s:.300}: check the pattern")
    # URLs are independent of the working directory.
    make_url = expand_path if local else file_system.unstrip_protocol
    urls = [source if "::" in source else str(make_url(name)) for name in files]
    found = zip(urls, files.items(), strict=True)
    return [(url, name, info["size"], get_fingerprint(file_system, name, info)) for url, (name, info) in found]


def _glob(file_system: fsspec.AbstractFileSystem, pattern: str) -> dict[str, Any]:
    """Return file system infos by path for a pattern; links to folders are followed locally."""
    if is_local(file_system):
        names = glob(pattern.replace("[^", "[!"), recursive=True)  # noqa: PTH207  Path.glob matches hidden files
        return {name: file_system.info(name) for name in names if file_system.exists(name)}
    dotted = [part for part in pattern.split("/") if part.startswith(".")]
    infos = file_system.glob(pattern, detail=True)
    parts = {name: [part for part in name.split("/") if part.startswith(".")] for name in infos}
    visible = {
        name for name, hidden_parts in parts.items() if all(any(fnmatch(p, d) for d in dotted) for p in hidden_parts)
    }
    return {name: info for name, info in infos.items() if name in visible}


def _follow_link(file_system: fsspec.AbstractFileSystem, info: dict[str, Any]) -> dict[str, Any]:
    """Return the info of a file, or of the target of a link."""
    if not info.get("islink"):
        return info
    with suppress(FileNotFoundError):  # a broken link
        return dict(file_system.info(info["name"]))
    return info


def get_format(path: str) -> tuple[str | None, str | None]:
    """Return format and compression by the ending of a name.

    >>> get_format("a.b.jsonl.gz"), get_format("gz")
    (('jsonl', 'gz'), (None, None))
    """
    # "gz" is a name without an ending, and ".txt" is an ending without a name.
    *parts, ending = path.rsplit("/", 1)[-1].lower().split(".")
    compression = ending if parts and ending in COMPRESSIONS else None
    if compression:
        *parts, ending = parts
    return (ENDINGS.get(ending) if parts else None), compression


def _select_in_folder(
    source: str, infos: dict[str, dict[str, Any]], *, has_records: bool, any_ending: bool
) -> dict[str, Any]:
    """Return the infos of the files of a folder to read, sorted by name."""
    files = {name: info for name, info in infos.items() if info["type"] == "file"}
    names = sorted(name for name in files if not name.rsplit("/", 1)[-1].startswith((".", "_")))
    kinds = {name: FORMATS.get(get_format(name)[0] or "") for name in names}
    selected_names = [name for name in names if any_ending or kinds[name] == ("field" if has_records else "line")]
    # .json files beside files of records are usually metadata.
    if selected_names := selected_names or [
        name for name in names if has_records and re.search(r"\.json(\.\w+)?$", name, re.IGNORECASE)
    ]:
        return {name: files[name] for name in selected_names}
    inside = ", ".join(name.rsplit("/", 1)[-1] for name in [*infos][:_SHOWN])
    kind = "a file of records (.jsonl, .csv, .tsv, .parquet)" if has_records else "a file that ends in .txt or .log"
    folder = source.rstrip("/")
    raise FileNotFoundError(
        f"no file in the folder {source} is {kind}, but it has {inside or 'none'}; use field= for records, unit='line' "
        f"with the pattern {folder}/* for any text, format= for files of one format, or {folder}/**/*.txt for files "
        "in its folders"
    )


PARQUET = b"PAR1"
TABLES = ("csv", "tsv")
"""Formats with a header of column names."""
DELIMITERS = (",", ";", "\t", "|")
"""Delimiters of csv files, in the order in which they are tried."""
HEADER_SIZE_LIMIT = DocumentSizeLimit(RECORD_BYTES, remedy="is a line end missing in the header, or a quote?")


def get_total_bytes(ranges: Sequence[object]) -> int | None:
    """Return the stored size of all parts of the text, in bytes; None if one is unknown."""
    sizes = [getattr(file_range, "n_bytes", None) for file_range in ranges]
    known_sizes = [size for size in sizes if size is not None]
    return sum(known_sizes) if len(known_sizes) == len(sizes) else None


def get_fingerprints(ranges: Sequence[FileRange]) -> dict[str, str]:
    """Return the fingerprint of each file by its URL."""
    files = (zip((part.url, *part.also), part.fingerprints, strict=False) for part in ranges)
    return dict(chain.from_iterable(files))


def hash_fingerprints(ranges: Sequence[FileRange]) -> str:
    """Return a hash of the fingerprints of all files; a new one if some are only sizes, which do not show changes."""
    fingerprints = redact_urls(get_fingerprints(ranges))
    if any(value.startswith("size") for value in fingerprints.values()):
        return uuid4().hex
    return sha256(json.dumps(fingerprints).encode()).hexdigest()


def check_unchanged(ranges: Sequence[FileRange], options: dict[str, Any]) -> None:
    """Raise StoreError if a file has changed since its fingerprint was taken."""
    fingerprints = get_fingerprints(ranges)
    with ThreadPoolExecutor() as pool:
        current_fingerprints = pool.map(lambda url: get_current_fingerprint(url, options), fingerprints)
        current = dict(zip(fingerprints, current_fingerprints, strict=True))
    if changed := [url for url in current if current[url] != fingerprints[url]]:
        shown_urls = ", ".join(map(redact_urls, changed[:3])) + (", ..." if len(changed) > 3 else "")
        raise StoreError(f"{shown_urls} changed while they were read: call again, which builds from the start")


def split_files(
    sources: str | PathLike[str] | Sequence[str | PathLike[str]],
    read_options: ReadOptions = DEFAULTS,
    *,
    is_ids: bool = False,
) -> list[FileRange]:
    r"""Split files into byte ranges; only sizes, headers and the footers of Parquet files are read.

    >>> import fsspec
    >>> with fsspec.open("memory://lines.txt", "w") as file:
    ...     _ = file.write("a b\n" * 100)
    >>> [(span.start, span.stop) for span in split_files("memory://lines.txt", ReadOptions(block_bytes=300))]
    [(0, 300), (300, 400)]
    """
    read_options = read_options.validate()
    encoding, ranges = normalize_encoding(read_options.encoding), []
    for source in [sources] if isinstance(sources, str | PathLike) else sources:
        for url, path, size, fingerprint in _find_source_files(sources, expand_path(source), read_options):
            kind = "", None, "id" if is_ids else "", read_options.field
            file = FileRange(url, *kind, encoding=encoding, fingerprints=(fingerprint,))
            cut = partial(_split_file, file, path, size, read_options)
            ranges += retry(cut, description=f"reading the header of {redact_urls(url)}")
    return list(_coalesce_small_files(ranges, read_options.block_bytes))


def _find_source_files(sources: object, source: str, read_options: ReadOptions) -> list[Any]:
    """Find the files of a source; an error for a list of strings also mentions `Texts`."""
    try:
        records, any_ending = read_options.field is not None, read_options.format is not None
        find_source = partial(find_files, source, read_options.options, has_records=records, any_ending=any_ending)
        return retry(find_source, description=f"looking for {redact_urls(source)}")
    except FileNotFoundError as error:
        if isinstance(sources, str | PathLike):
            raise
        raise FileNotFoundError(
            f"{error}; strings in a list are paths: wrap a list of texts in dspectral.Texts([...])"
        ) from error


def _detect_format(file: FileRange, path: str, size: int | None, read_options: ReadOptions) -> FileRange:
    """Return the range of a whole file with its format; raise ValueError if unit or field do not fit the format."""
    url, unit, field = file.url, read_options.unit, read_options.field
    format_by_name, compression = get_format(path)
    # A small remote file would take a request: `open_decompressed` looks at its first bytes, as it is read whole.
    is_remote = "://" in url or "::" in url
    head = b"" if is_remote and (size or 0) <= read_options.block_bytes else _read_head(file, read_options)
    compression = detect_compression(head, compression)
    if compression == "zip" and format_by_name is None:
        format_by_name = get_format(get_zip_member(url, read_options.options))[0]
    if head.startswith(PARQUET) and unit is None:
        format_by_name = "parquet"
    file = file._replace(compression=compression)
    # If the ending does not decide, the content does; with a unit, any file is text.
    is_open = format_by_name is None and unit is None
    looked = is_open or (format_by_name in (None, "txt") and field is not None)
    file_format = (
        read_options.format or (_sniff_format(file, read_options, format_by_name) if looked else None) or format_by_name
    )
    file_format = file_format or ("txt" if unit in ("line", "file", "record") else None)
    if file_format is None:
        endings = ", ".join(f".{name}" for name in ENDINGS)
        raise ValueError(
            f"{url} must end in one of {endings} (with .gz, .bz2, .zst or .zip too): use format=, or unit='line' "
            "or 'file' to read it as text"
        )
    file, unit = file._replace(format=file_format), unit or FORMATS[file_format]
    if file_format == "txt" and (unit == "field" or field is not None):
        raise ValueError(f"{url} is text without fields: use unit='line' or 'file' without field=")
    if file_format != "txt" and (unit != "field" or field is None):
        more = "" if unit == "field" else ", and unit be 'field'"
        field_names = f" ({', '.join(map(str, names))})" if (names := _list_fields(file, read_options)) else ""
        raise ValueError(f"{url} has records: field= must name the field with the text{field_names}{more}")
    if read_options.delimiter is not None and file_format != "csv":
        raise ValueError(f"delimiter={read_options.delimiter!r} must be None, because {url} is not a csv file")
    if file_format == "parquet" and compression:
        raise ValueError(f"{url} is a compressed Parquet file, which cannot be read: decompress it")
    return file._replace(unit=file.unit or unit)


def _read_head(file: FileRange, read_options: ReadOptions) -> bytes:
    with open_raw(file.url, read_options.options) as raw:
        return raw.read(16)


def _sniff_format(file: FileRange, read_options: ReadOptions, format_by_name: str | None) -> str | None:
    """Detect the format of a file from its first bytes; None if it has no records."""
    with (
        open_decompressed(file.url, file.compression, read_options.options) as raw,
        open_as_utf8(raw, file.url, file.encoding, "replace") as opened,
    ):
        head = opened.read(LINE_CHUNK_BYTES).removeprefix(BYTE_ORDER_MARK).lstrip()
    line = re.split(rb"[\r\n]", head, maxsplit=1)[0]
    if not head:
        return "txt" if read_options.field is None else "jsonl"  # an empty file is valid in both formats
    if head.startswith(PARQUET):
        return "parquet"
    if head.startswith((b"{", b"[")):
        with suppress(ValueError, RecursionError):
            if isinstance(json.loads(line), dict):
                return "jsonl"
        if re.match(rb"\[\s*([{\]]|$)|\{\s*(\"|$)", head):
            raise ValueError(
                f"{file.url} is JSON, but must have one record per line: convert it, for example with `jq -c .[]`"
            )
    if read_options.field is None:
        return None
    # TSV has no quoting, so a file with tabs and quotes is CSV with tab as delimiter.
    file_format = "tsv" if b"\t" in line and b'"' not in head and read_options.delimiter is None else "csv"
    try:
        _locate_columns(file._replace(format=file_format), read_options)
    except ValueError:
        if format_by_name is None:
            raise
        return None
    return file_format


def _list_fields(file: FileRange, read_options: ReadOptions) -> list[Any]:
    """Return the field names of a file for a message; empty if they cannot be read."""
    with suppress(Exception):
        if file.format == "parquet":
            return read_column_names(file.url, read_options.options)
        if file.format != "jsonl":
            return _read_header(file, read_options.options)[1]
        with open_decompressed(file.url, file.compression, read_options.options) as raw:
            first = next(
                read_line_chunks(raw, file.url, chunk_bytes=LINE_CHUNK_BYTES >> 4, size_limit=HEADER_SIZE_LIMIT)
            )
            return list(json.loads(first.data.lstrip().partition(b"\n")[0]))
    return []


def _split_file(file: FileRange, path: str, size: int | None, read_options: ReadOptions) -> list[FileRange]:
    file_range = _detect_format(file, path, size, read_options)
    # A row group is the smallest unit that can be decoded separately.
    if file_range.format == "parquet":
        source = file_range.url, read_options.options, str(file_range.field)
        groups = range(count_row_groups(*source, allow_numbers=file_range.unit == "id"))
        return [file_range._replace(start=group, stop=group + 1) for group in groups]
    line = 1
    if file_range.format in TABLES:
        file_range, line = _locate_columns(file_range, read_options)
    # A range starts with a seek to the next line end. This needs a seekable file and records without line ends, which
    # excludes CSV.
    wide = is_wide(file_range.encoding)
    streamed = file_range.unit == "file" or file_range.compression or file_range.format == "csv" or wide or line > 1
    if streamed or size is None or size <= read_options.block_bytes:
        return [file_range._replace(n_bytes=size)]
    borders = pairwise([*range(0, size, read_options.block_bytes), size])
    return [file_range._replace(start=start, stop=stop, n_bytes=stop - start) for start, stop in borders]


def _coalesce_small_files(ranges: list[FileRange], span_bytes: int) -> Iterator[FileRange]:
    """Yield ranges, with small neighboring files of one format in one range."""
    # `current` is the current range; the next whole file is added to it if it fits.
    for _, group in groupby(ranges, key=lambda file_range: file_range._replace(url="", n_bytes=None, fingerprints=())):
        current, *others = group
        for file_range in others:
            n_bytes = get_total_bytes((current, file_range)) if current.stop < 0 else None
            if n_bytes is not None and n_bytes <= span_bytes:
                current = current._replace(
                    n_bytes=n_bytes,
                    also=(*current.also, file_range.url),
                    fingerprints=(*current.fingerprints, *file_range.fingerprints),
                )
            else:
                yield current
                current = file_range
        yield current


def _locate_columns(file_range: FileRange, read_options: ReadOptions) -> tuple[FileRange, int]:
    """Return the range with its delimiter and column indices from the header, and the header's line number."""
    column_names = [str(file_range.field), *([] if read_options.text_field is None else [read_options.text_field])]
    tried = DELIMITERS if read_options.delimiter is None else (read_options.delimiter,)
    if file_range.format == "tsv":
        tried = ("\t",)
    headers: list[list[str]] = []
    errors: list[ValueError] = []
    for cut in tried:
        try:
            line, names = _read_header(file_range._replace(delimiter=cut), read_options.options)
        except ValueError as error:  # quotes that are invalid with this delimiter
            errors.append(error)
            continue
        if not names:
            return file_range, line
        if all(names.count(name) == 1 for name in column_names):
            column, text_column = names.index(column_names[0]), names.index(column_names[-1])
            file_range = file_range._replace(column=column, n_columns=len(names), delimiter=cut)
            return file_range._replace(text_column=None if len(column_names) == 1 else text_column), line
        headers.append(names)
    if not headers:
        raise errors[0]
    # The header with the most columns probably has the right delimiter.
    names = max(headers, key=len)
    remedy = "; use delimiter= for another delimiter" if len(tried) > 1 and len(names) == 1 else ""
    if any(sign in "".join(names) for sign in "\ufffd\0"):
        raise ValueError(f"{file_range.url}, line {line} cannot be decoded: use another encoding=, such as 'utf-16'")
    lacking = next((name for name in column_names if names.count(name) != 1), file_range.field)
    raise ValueError(
        f"{file_range.url} must have one column {lacking!r}, but its columns are {', '.join(names)}{remedy}"
    )


def _read_header(file_range: FileRange, options: dict[str, Any]) -> tuple[int, list[str]]:
    """Return the line number of the header of a CSV or TSV file, and the column names, empty for an empty file."""
    # Undecodable bytes raise an error later, in the reader.
    with (
        open_decompressed(file_range.url, file_range.compression, options) as raw,
        open_as_utf8(raw, file_range.url, file_range.encoding, "replace") as file,
    ):
        chunks = read_line_chunks(file, file_range.url, chunk_bytes=LINE_CHUNK_BYTES >> 4, size_limit=HEADER_SIZE_LIMIT)
        texts = (decode_to_utf8(chunk, file_range.encoding, "replace") for chunk in chunks)
        return next(iter_table_rows(texts, file_range, HEADER_SIZE_LIMIT), (1, []))
