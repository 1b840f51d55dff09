"""Text files opened line by line; another encoding or a damaged file is named."""

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from typing import IO, Any

import fsspec

from dspectral.store.streams import name_damage

LONGEST_LINE = 16 << 20
"""Most characters of a line."""


@contextmanager
def open_text(path: str | PathLike[str], storage_options: dict[str, Any] | None) -> Iterator[Iterator[str]]:
    """Open a text file in UTF-8, with or without a byte order mark, and give its lines.

    Parameters
    ----------
    path : str or path-like
        Local path or fsspec URL; an ending such as .gz decompresses.
    storage_options : dict or None
        Options of the file system.

    Yields
    ------
    iterator of str
        The lines, which end at LF.

    Raises
    ------
    ValueError
        If the file is not UTF-8, its compressed data are damaged, or a line has over 16 Mi characters; file and line
        are named.
    """
    path, options = fspath(path), {"compression": "infer", **(storage_options or {})}
    try:
        with (
            name_damage(path, path.rsplit(".", 1)[-1]),
            fsspec.open(path, "rt", encoding="utf-8-sig", newline="\n", **options) as file,
        ):
            yield _lines(file, path)
    except UnicodeDecodeError as error:
        with name_damage(path, path.rsplit(".", 1)[-1]):
            line = _first_line_not_utf8(path, options)
        raise ValueError(
            f"{path}, line {line}: not UTF-8 ({error.reason}); convert the file, for example with iconv -t UTF-8"
        ) from error


def _lines(file: IO[str], path: str) -> Iterator[str]:
    """Yield lines, none of which is held if it is too long: a file without line ends would be one."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise ValueError(
                f"{path}, line {number}: a line of more than {LONGEST_LINE:,} characters, the longest that is read"
            )
        yield line


def _first_line_not_utf8(path: str, options: dict[str, Any]) -> int:
    """Return the number of the line that cannot be decoded: the reader is ahead of its lines and cannot tell."""
    with fsspec.open(path, "rb", **options) as file:
        number = 1
        while line := file.readline(LONGEST_LINE):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
            number += line.endswith(b"\n")
    return 1
