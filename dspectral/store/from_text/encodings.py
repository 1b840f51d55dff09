"""Encodings of text files: everything behind this module is UTF-8."""

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from dspectral.store.from_text.lines import check_utf8
from dspectral.store.from_text.pieces import Piece

_WIDE = ("utf-16", "utf-32")
"""Beginnings of the names of encodings in which a line end is more than one byte."""
_READ = 1 << 18


def known_encoding(encoding: str | None) -> str | None:
    """Return the name of an encoding, None for UTF-8.

    >>> known_encoding("latin1"), known_encoding("UTF8")
    ('iso8859-1', None)
    """
    if encoding is None:
        return None
    try:
        name = codecs.lookup(encoding).name
        line_end = "\n".encode(name)
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"encoding is {encoding!r:.60}, but it must be one that Python knows, such as 'utf-8', 'latin-1', 'cp1252' "
            "or 'utf-16'"
        ) from error
    if name in ("utf-8", "utf-8-sig"):
        return None
    if line_end != b"\n" and not name.startswith(_WIDE):
        raise ValueError(
            f"encoding is {encoding!r}, but its lines do not end in one known way: convert the files"
        )
    return name


def is_wide(encoding: str | None) -> bool:
    """Report whether files of an encoding cannot be cut at bytes that are line ends."""
    return encoding is not None and encoding.startswith(_WIDE)


def as_utf8(piece: Piece, encoding: str | None, errors: str) -> Piece:
    r"""Return whole lines in UTF-8, checked.

    >>> as_utf8(Piece(b"caf\xe9", "a.txt", 0, 1), "iso8859-1", "strict").data.decode()
    'café'
    """
    # Lines of wide encodings became UTF-8 when the file was opened.
    if encoding is None or is_wide(encoding):
        return check_utf8(piece, errors)
    try:
        return piece._replace(data=piece.data.decode(encoding, errors).encode())
    except UnicodeDecodeError as error:
        raise piece.error(error.start, not_decoded(encoding, error)) from error


def not_decoded(encoding: str, error: UnicodeDecodeError) -> str:
    """Return the sentence of an undecodable byte, and which options help."""
    byte = error.object[error.start : error.start + 1].hex()
    return (
        f"byte 0x{byte} is not {encoding} ({error.reason}); errors='replace' reads on, and encoding= names another "
        "encoding"
    )


@contextmanager
def in_utf8(file: IO[bytes], url: str, encoding: str | None, errors: str) -> Iterator[IO[bytes]]:
    """Turn a file of a wide encoding into one of UTF-8 as it is read; others stay."""
    if encoding is None or not is_wide(encoding):
        yield file
    else:
        yield io.BufferedReader(_Transcoded(file, url, encoding, errors))


class _Transcoded(io.RawIOBase):
    """A file of another encoding as UTF-8: `_text` is decoded and not handed out yet, `_at` the bytes read before."""

    def __init__(self, file: IO[bytes], url: str, encoding: str, errors: str) -> None:
        self._file, self._url, self._encoding = file, url, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)(errors)
        self._text = memoryview(b"")
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # A read may end within a letter, which leaves no text: the decoder keeps its bytes for the next one. Only
        # where nothing is read and nothing decoded is the end of the file.
        while not self._text:
            data = self._file.read(_READ)
            waiting = len(self._decoder.getstate()[0])  # bytes of a letter that is cut
            try:
                self._text = memoryview(self._decoder.decode(data, final=not data).encode("utf-8", "replace"))
            except UnicodeDecodeError as error:
                place = self._at - waiting + error.start
                raise ValueError(
                    f"{self._url}, byte {place}: {not_decoded(self._encoding, error)}"
                ) from error
            except UnicodeError as error:  # UTF-16 without a byte order mark, as some Pythons say it
                raise ValueError(f"{self._url} is not {self._encoding}: {error}") from error
            self._at += len(data)
            if not data and not self._text:
                return 0
        size = min(len(buffer), len(self._text))
        buffer[:size] = self._text[:size]
        self._text = self._text[size:]
        return size
