"""Text files opened line by line; another encoding or a damaged file is named."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from typing import IO, Any

import fsspec

from dspectral.store.from_text.streams import name_damage, open_bytes

LONGEST_LINE = 16 << 20
"""Most characters of a line."""


@contextmanager
def open_text(path: str | PathLike[str], storage_options: dict[str, Any] | None) -> Iterator[Iterator[str]]:
    """Open a text file in UTF-8, with or without a byte order mark, and give its lines."""
    path = fspath(path)
    try:
        with (
            open_decompressed(path, storage_options) as raw,
            io.TextIOWrapper(raw, encoding="utf-8-sig", newline="\n") as file,
        ):
            yield _lines(file, path)
    except UnicodeDecodeError as error:
        line = _first_line_not_utf8(path, storage_options)
        raise ValueError(
            f"{path}, line {line}: not UTF-8 ({error.reason}); convert the file, for example with iconv -t UTF-8"
        ) from error


@contextmanager
def open_decompressed(path: str, storage_options: dict[str, Any] | None) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompressed by what its name ends in."""
    options = storage_options or {}
    if path.endswith(".zst"):  # the library's own reader takes a truncated file for a whole one
        with open_bytes(path, "zst", options) as file:
            yield file
        return
    with (
        name_damage(path, path.rsplit(".", 1)[-1]),
        fsspec.open(path, "rb", **{"compression": "infer", **options}) as file,
    ):
        yield file


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


def _first_line_not_utf8(path: str, storage_options: dict[str, Any] | None) -> int:
    """Return the number of the line that cannot be decoded: the reader is ahead of its lines and cannot tell."""
    with open_decompressed(path, storage_options) as file:
        number = 1
        while line := file.readline(LONGEST_LINE):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
            number += line.endswith(b"\n")
    return 1
