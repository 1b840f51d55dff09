"""Where data lies: local paths and URLs as users name them, and keys that must stay within a folder."""

import math
import re
import stat
from itertools import accumulate, islice
from os import PathLike, fspath
from os.path import expanduser
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

__all__ = ["expand_path"]

ResolvedURL: TypeAlias = tuple[str, tuple[tuple[str, Any], ...]]
"""The URL of a folder, of which a local path is absolute, and storage options as pairs."""


def expand_path(path: str | PathLike[str]) -> str:
    """Return a path or URL as text: the local path of a ``file://`` URL, with ``~`` and ``~user`` expanded.

    >>> expand_path(Path("a", "b c")), expand_path("file:///a/b%20c"), expand_path("s3://a/b%20c")
    ('a/b c', '/a/b c', 's3://a/b%20c')
    """
    if not isinstance(path, str | PathLike) or not isinstance(text := fspath(path), str) or not text:
        raise TypeError(
            f"the path is {path!r:.60}, but it must be a local path or a URL: give a str or a Path"
        )
    scheme, is_url, rest = text.partition("://")
    if is_url and scheme in ("file", "local") and "::" not in text:
        text, is_url = unquote(rest.removeprefix("localhost")), ""
    # A name like "~notes.txt", of no user, stays as it is, as at a shell.
    return text if is_url or "::" in text else expanduser(text)  # noqa: PTH111


def resolve_url(url: str | PathLike[str], storage_options: dict[str, Any] | None = None) -> ResolvedURL:
    """Return the folder that a user named; a local path is made absolute, as workers have folders of their own."""
    place = expand_path(url)
    is_url = "://" in place or "::" in place
    return place if is_url else str(Path(place).absolute()), tuple(sorted((storage_options or {}).items()))


def join_inside(system: Any, root: str, key: str) -> str:
    """Return the path of a key in a folder, and refuse one that leaves it; an empty key is the folder itself."""
    if key and is_outside(system, root, key):
        raise ValueError(
            f"{key!r:.80} leads out of {root}, but what a file names or links to must be within: remove it"
        )
    return f"{root}/{key}" if key else root


def is_outside(system: Any, root: str, key: str) -> bool:
    """Report whether a key is none of a file within a folder, or there is a link on its way to a place outside."""
    # Servers decode what is percent-encoded; a second colon begins a drive or an address.
    parts = [*key.split("/"), *unquote(key).split("/")]
    if not {"", ".", ".."}.isdisjoint(parts) or {"\\", "\0"} & {*key} or re.match(r"[A-Za-z]:|\w+::", key):
        return True
    while (inner := getattr(system, "sync_fs", getattr(system, "fs", None))) is not None:
        root, system = getattr(system, "_join", str)(root), inner
    if "file" not in getattr(system, "protocol", "file"):
        return False
    paths = accumulate(key.split("/"), "{}/{}".format, initial=root)
    linked = any(Path(path).is_symlink() for path in islice(paths, 1, None))
    return linked and not Path(f"{root}/{key}").resolve().is_relative_to(Path(root).resolve())


def check_regular_file(path: str, most: float = math.inf) -> None:
    """Refuse a pipe or a device, which would be read for ever, and a file of more bytes than it may have."""
    found = Path(path).stat()
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        raise ValueError(f"{path} is no regular file, but a pipe, a device or a link to one")
    if found.st_size > most:
        raise ValueError(f"{path} has {found.st_size} bytes, but must have at most {most:.0f}")
