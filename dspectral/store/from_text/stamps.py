"""A stamp tells a file from itself after a change, without reading it: an ETag, or its size and times."""

import os
from contextlib import suppress
from typing import Any

import fsspec

from dspectral.engine.retrying import retried
from dspectral.store.secrets import without_secrets

# The first that is there: what follows may change without the content, as the ETag of Google's storage does.
_ETAGS = ("generation", "ETag", "etag", "md5Hash", "Content-MD5", "CRC")
_TIMES = (
    "LastModified",
    "last_modified",
    "Last-Modified",
    "mtime",
    "modified",
    "updated",
    "created",
    "date_time",
)


def stamp_of(system: fsspec.AbstractFileSystem, path: str, info: dict[str, Any] | None = None) -> str:
    """Return the stamp of a file.

    >>> with fsspec.open("memory://stamped.txt", "w") as file:
    ...     _ = file.write("abc")
    >>> stamp_of(*fsspec.url_to_fs("memory://stamped.txt")).split()[:2]
    ['time', '3']
    """
    protocols = (system.protocol,) if isinstance(system.protocol, str) else tuple(system.protocol)
    if "file" in protocols:
        # The time of any change (ctime) cannot be set by programs: tools that keep the time of the content (mtime)
        # are seen. Listings have it on some systems only, and of a link they say what the link is.
        found = os.stat(path)  # noqa: PTH116  a path of fsspec
        return f"file {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}"
    info = system.info(path) if info is None else info
    size = info.get("size")
    etag = next((str(info[key]).strip('"') for key in _ETAGS if info.get(key)), None)
    if etag is not None:
        return f"etag {size} {etag}"
    times = [str(info[key]).replace(" ", "T") for key in _TIMES if info.get(key)]
    if "memory" in protocols:  # its listing knows when a file was made, and not when it was written in place
        times.append(str(system.modified(path)).replace(" ", "T"))
    return f"time {size} {' '.join(times)}" if times else f"size {size}"


def fresh_stamp(url: str, options: dict[str, Any]) -> str:
    """Return the stamp that a file has now, whatever was listed before."""
    return retried(_fresh_stamp, url, options, what=f"looking at {without_secrets(url)}")


def _fresh_stamp(url: str, options: dict[str, Any]) -> str:
    system, path = fsspec.url_to_fs(url, **options)
    system.invalidate_cache()
    try:
        return stamp_of(system, path)
    except FileNotFoundError as error:
        refuse_if_there(system, path, error)
        raise


def refuse_if_there(system: fsspec.AbstractFileSystem, path: str, error: Exception | None = None) -> None:
    """Raise an error that may pass if a file is there after all, which was not found when it was asked for."""
    system.invalidate_cache()
    listed: set[str] = set()
    with suppress(Exception):  # a server without listings has errors of its own
        listed.update(str(name).rstrip("/") for name in system.ls(path.rpartition("/")[0], detail=False))
    if path in listed or system.exists(path):
        raise OSError(f"{path} is there, but was not found") from error
