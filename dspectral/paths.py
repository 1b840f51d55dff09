"""Local paths and URLs of users, and paths that must stay inside a folder."""

import math
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate, islice
from os import PathLike, fspath
from os.path import expanduser
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

__all__ = ["expand_path"]

ResolvedURL: TypeAlias = tuple[str, tuple[tuple[str, Any], ...]]
"""URL or absolute path of a folder, and fsspec storage options as pairs."""


def expand_path(path: str | PathLike[str]) -> str:
    """Return a path or URL as text: the local path of a ``file://`` URL, with ``~`` and ``~user`` expanded."""
    if not isinstance(path, str | PathLike) or not isinstance(text := fspath(path), str) or not text:
        raise TypeError(f"the path {path!r:.60} must be a local path or a URL, as str or Path")
    scheme, is_url, rest = text.partition("://")
    if "::" in text and ("/" in (first := text.partition("::")[0]) or Path(text).exists()) and "://" not in first:
        raise ValueError(f"the path {text!r:.200} has '::', which joins file systems in a URL: rename the file")
    if is_url and scheme in ("file", "local") and "::" not in text:
        text, is_url = unquote(rest.removeprefix("localhost")), ""
    # Like a shell, expanduser does not change a name such as "~notes.txt" that is not a user.
    return text if is_url or "::" in text else expanduser(text)  # noqa: PTH111


def resolve_url(url: str | PathLike[str], storage_options: dict[str, Any] | None = None) -> ResolvedURL:
    """Return the URL or absolute path of a folder, and its storage options. Workers have other working folders."""
    path = expand_path(url)
    is_url = "://" in path or "::" in path
    return path if is_url else str(Path(path).absolute()), tuple(sorted((storage_options or {}).items()))


def join_inside(file_system: object, root: str, key: str) -> str:
    """Return the path of `key` in a folder; raise ValueError if it is outside. An empty key is the folder itself."""
    if key and is_outside(file_system, root, key):
        raise ValueError(
            f"{key!r:.80} is outside of {root}, but names and links in a folder must stay inside: remove it"
        )
    return f"{root}/{key}" if key else root


def is_outside(file_system: object, root: str, key: str) -> bool:
    """Report whether a key is not the path of a file inside a folder, also because of symbolic links."""
    # Servers decode percent-encoding. `C:` is a drive and `name::` a chained URL.
    parts = [*key.split("/"), *unquote(key).split("/")]
    if not {"", ".", ".."}.isdisjoint(parts) or {"\\", "\0"} & {*key} or re.match(r"[A-Za-z]:|\w+::", key):
        return True
    while (inner := getattr(file_system, "sync_fs", getattr(file_system, "fs", None))) is not None:
        root, file_system = getattr(file_system, "_join", str)(root), inner
    if "file" not in getattr(file_system, "protocol", "file"):
        return False
    paths = accumulate(key.split("/"), "{}/{}".format, initial=root)
    linked = any(Path(path).is_symlink() for path in islice(paths, 1, None))
    return linked and not Path(f"{root}/{key}").resolve().is_relative_to(Path(root).resolve())


@contextmanager
def name_file_in_errors(path: str | PathLike[str]) -> Iterator[None]:
    """Context in which an error of the system without a file name, such as that of a full disk, gets this one."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def check_regular_file(path: str, max_bytes: float = math.inf) -> None:
    """Raise ValueError for a pipe or device, which has no end, and for a file of more than `max_bytes`."""
    status = Path(path).stat()
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise ValueError(f"{path} is a pipe or a device, but must be a regular file: replace it")
    if status.st_size > max_bytes:
        raise ValueError(f"{path} has {status.st_size} bytes, but must have at most {max_bytes:.0f}")
