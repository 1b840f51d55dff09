"""Files that paths, patterns and folders name."""

from collections.abc import Sequence
from typing import Any

import fsspec

from dspectral.store.from_text.stamps import refuse_if_there, stamp_of

COMPRESSIONS = ("gz", "bz2", "zst")
FORMATS = {"txt": "line", "jsonl": "field", "csv": "field", "tsv": "field", "parquet": "field"}
"""Unit of text that is a document in each format, unless the caller says."""
_SHOWN = 5


def files_of(
    source: str, options: dict[str, Any], *, records: bool
) -> list[tuple[str, str, int | None, str]]:
    """Find the files that a source names."""
    system, path = fsspec.url_to_fs(source, **options)
    # A file whose own name has brackets is a file and no pattern.
    if not any(sign in path for sign in "*?[") or system.exists(path):
        if system.isfile(path):
            info = system.info(path)
            return [(_url(system, path, source), path, info["size"], stamp_of(system, path, info))]
        if not system.isdir(path):
            refuse_if_there(system, path)
            raise FileNotFoundError(f"no file {source}")
        return [
            (
                _url(system, info["name"], source),
                info["name"],
                info["size"],
                stamp_of(system, info["name"], info),
            )
            for info in _in_folder(source, system.ls(path, detail=True), records=records)
        ]
    if "::" in source:  # the names inside an archive do not say the archive
        raise ValueError(f"{source} is a pattern behind '::': name its files one by one")
    found = {name: info for name, info in system.glob(path, detail=True).items() if info["type"] == "file"}
    if not found:
        raise FileNotFoundError(f"no file matches {source}")
    return [
        (_url(system, name, source), name, found[name]["size"], stamp_of(system, name, found[name]))
        for name in sorted(found)
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


def _in_folder(source: str, listed: Sequence[dict[str, Any]], *, records: bool) -> list[dict[str, Any]]:
    """Return what is listed of the files of a folder that are read, in the order of their names."""
    files = {info["name"]: info for info in listed if info["type"] == "file"}
    names = sorted(name for name in files if not name.rsplit("/", 1)[-1].startswith((".", "_")))
    kinds = {name: FORMATS.get(format_of(name)[0] or "") for name in names}
    wanted = [name for name in names if kinds[name] == ("field" if records else "line")]
    if wanted:
        return [files[name] for name in wanted]
    n_folders = sum(info["type"] == "directory" for info in listed)
    shown = [name.rsplit("/", 1)[-1] for name in names[:_SHOWN]]
    if len(names) > _SHOWN:
        shown.append(f"{len(names) - _SHOWN} more files")
    if n_folders:
        shown.append(
            f"{n_folders} folder(s), whose files a pattern such as {source.rstrip('/')}/**/*.txt names"
        )
    inside = f"it holds {', '.join(shown)}" if shown else "it is empty"
    if not records and "field" in kinds.values():
        raise FileNotFoundError(
            f"no file of plain text in the folder {source}: {inside}; field= reads its records"
        )
    kind = "a file of records (.jsonl, .csv, .tsv, .parquet)" if records else "a file that ends in .txt"
    raise FileNotFoundError(
        f"no file in the folder {source} is {kind}: {inside}"
        + (
            f"; unit='line' reads what the pattern {source.rstrip('/')}/* names as text"
            if names and not records
            else ""
        )
    )


def _url(system: fsspec.AbstractFileSystem, path: str, source: str) -> str:
    """Return what opens a file from any directory."""
    if "::" in source:
        return source
    local = "file" in ([system.protocol] if isinstance(system.protocol, str) else system.protocol)
    return str(path if local else system.unstrip_protocol(path))
