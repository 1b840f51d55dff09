"""Text files opened line by line; another encoding or a damaged file is named."""

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from typing import IO, Any

import fsspec

from dspectral.store.streams import name_damage


@contextmanager
def open_text(path: str | PathLike[str], storage_options: dict[str, Any] | None) -> Iterator[IO[str]]:
    """Open a text file in UTF-8, with or without a byte order mark, for iteration over its lines.

    Parameters
    ----------
    path : str or path-like
        Local path or fsspec URL; an ending such as .gz decompresses.
    storage_options : dict or None
        Options of the file system.

    Yields
    ------
    file of str
        Lines end at LF.

    Raises
    ------
    ValueError
        If the file is not UTF-8 or its compressed data are damaged; file and line are named.
    """
    path, options = fspath(path), {"compression": "infer", **(storage_options or {})}
    try:
        with (
            name_damage(path, path.rsplit(".", 1)[-1]),
            fsspec.open(path, "rt", encoding="utf-8-sig", newline="\n", **options) as file,
        ):
            yield file
    except UnicodeDecodeError as error:
        with name_damage(path, path.rsplit(".", 1)[-1]):
            line = _first_line_not_utf8(path, options)
        raise ValueError(
            f"{path}, line {line}: not UTF-8 ({error.reason}); convert the file, for example with iconv -t UTF-8"
        ) from error


def _first_line_not_utf8(path: str, options: dict[str, Any]) -> int:
    """Return the number of the line that cannot be decoded: the reader is ahead of its lines and cannot tell."""
    with fsspec.open(path, "rb", **options) as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return 1
