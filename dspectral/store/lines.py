"""Whole lines of a file, piece by piece, and how they become documents without a loop over lines."""

from collections.abc import Iterator
from typing import IO, NamedTuple

import numpy as np

from dspectral.types import Documents

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
PIECE_BYTES = 1 << 20
"""Bytes that are read and checked at once."""
_FEW = 1 << 14


class Piece(NamedTuple):
    """Some whole lines of a file, and where they begin in it.

    Attributes
    ----------
    data : bytes
        The lines, with their ends.
    url : str
        Name of the file.
    byte : int
        Place of the first byte in the (decompressed) file.
    line : int or None
        Number of the first line, from 1; None where the lines before were not counted.
    """

    data: bytes
    url: str
    byte: int
    line: int | None

    def error(self, offset: int, what: str) -> ValueError:
        """Return an error that says what is wrong, and where: the line, or else the byte of the file.

        Parameters
        ----------
        offset : int
            Place in ``data``.
        what : str
            Message: the fault at that place.

        Returns
        -------
        ValueError
            The error, to be raised.
        """
        if self.line is None:
            return ValueError(f"{self.url}, byte {self.byte + offset}: {what}")
        return ValueError(f"{self.url}, line {self.line + self.data.count(10, 0, offset)}: {what}")

    def line_error(self, number: int, what: str) -> ValueError:
        """Return an error about one line of the piece.

        Parameters
        ----------
        number : int
            Number of the line in the piece, from 0.
        what : str
            Message: the fault of the line.

        Returns
        -------
        ValueError
            The error, to be raised.
        """
        ends = np.flatnonzero(np.frombuffer(self.data, dtype=np.uint8) == 10)
        return self.error(int(ends[number - 1]) + 1 if number else 0, what)


def whole_lines(
    file: IO[bytes], url: str, *, start: int = 0, stop: int = -1, piece_bytes: int = PIECE_BYTES
) -> Iterator[Piece]:
    r"""Yield the lines that begin at the bytes ``start <= byte < stop`` of a file.

    Parameters
    ----------
    file : file of bytes
        The file, at its beginning; it must be able to seek if ``start`` is above 0.
    url : str
        Name of the file, for the errors.
    start, stop : int, default=0 and -1
        First byte of the range, and the byte behind its last; a ``stop`` of -1 is the end of the file. The last
        line may end behind ``stop``.
    piece_bytes : int, default=1048576
        Number of bytes that are read at once. A piece is longer only where one line is.

    Yields
    ------
    Piece
        Some lines, never none. A byte order mark at the beginning of the file is dropped.

    Examples
    --------
    >>> import io
    >>> [piece.data for piece in whole_lines(io.BytesIO(b"ab\ncd\nef"), "a.txt", start=1, stop=4)]
    [b'cd\n']
    """
    begins, line = _first_line(file, start), None if start else 1
    for data in _cut_at_lines(file, begins, stop, piece_bytes):
        text = data if begins else data.removeprefix(BYTE_ORDER_MARK)
        if text:
            yield Piece(text, url, begins + len(data) - len(text), line)
        begins += len(data)
        line = None if line is None else line + data.count(10)


def _first_line(file: IO[bytes], start: int) -> int:
    """Go to the first line that begins at byte ``start`` or behind it, and return where that is."""
    if not start:
        return 0
    # Spans are cut at any byte: a line belongs to the span in which it begins. A line end at start - 1 means that one
    # begins at start.
    at = start - 1
    file.seek(at)
    while data := file.read(_FEW):
        if (found := data.find(b"\n")) >= 0:
            file.seek(at + found + 1)
            return at + found + 1
        at += len(data)
    return at


def _cut_at_lines(file: IO[bytes], at: int, stop: int, piece_bytes: int) -> Iterator[bytes]:
    """Yield whole lines from byte ``at`` on, in parts of about ``piece_bytes``, up to the line that ``stop`` is in.

    ``held`` is the beginning of a line whose end is not read yet; ``at`` is the place of the next byte to read.
    Behind ``stop`` small parts are read, as the span's last line is likely to end soon.
    """
    held: list[bytes] = []
    while stop < 0 or at < stop or held:
        data = file.read(piece_bytes if stop < 0 else min(piece_bytes, max(_FEW, stop - at)))
        if not data:
            break
        # the line end that closes the span's last line is the first one at stop - 1 or behind it
        end = data.find(b"\n", max(0, stop - 1 - at)) if stop >= 0 else -1
        cut = (end if end >= 0 else data.rfind(b"\n")) + 1
        at += len(data)
        if not cut:
            held.append(data)
            continue
        yield b"".join((*held, data[:cut]))
        if end >= 0:
            return
        held = [data[cut:]] if cut < len(data) else []
    if held:
        yield b"".join(held)


def check_utf8(piece: Piece, errors: str) -> Piece:
    """Return the piece if it is UTF-8, or mended with U+FFFD where ``errors`` is "replace".

    Parameters
    ----------
    piece : Piece
        Whole lines.
    errors : {"strict", "replace"}
        Whether bytes that are not UTF-8 are an error, or become U+FFFD.

    Returns
    -------
    Piece
        Lines in UTF-8.

    Raises
    ------
    ValueError
        If it is not UTF-8 and ``errors`` is "strict".
    """
    if piece.data.isascii():  # cheaper than decoding, and true of most text
        return piece
    try:
        piece.data.decode()
    except UnicodeDecodeError as error:
        if errors == "replace":
            return piece._replace(data=piece.data.decode(errors="replace").encode())
        other = "utf-16" if not piece.byte and piece.data[:2] in (b"\xff\xfe", b"\xfe\xff") else "cp1252"
        what = (
            f"not UTF-8 ({error.reason}); errors='replace' reads on, and encoding= names another encoding, such as "
            f"{other!r}"
        )
        raise piece.error(error.start, what) from error
    return piece


def split_lines(data: bytes) -> Documents:
    r"""Make each line a document, without its line end (LF or CR LF); the last one may lack it.

    Parameters
    ----------
    data : bytes
        Whole lines.

    Returns
    -------
    Documents
        One document for each line.

    Examples
    --------
    >>> lines = split_lines(b"the cat\r\n\nsat")
    >>> [lines.text(i) for i in range(lines.n_documents)]
    [b'the cat', b'', b'sat']
    """
    data = data.replace(b"\r\n", b"\n") if b"\r" in data else data
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == 10)
    # A document begins where its line does, less one byte for each line end that was taken out before it.
    text = data.replace(b"\n", b"")
    last = [] if data.endswith(b"\n") or not data else [len(text)]
    offsets = np.concatenate([[0], ends - np.arange(len(ends)), last]).astype(np.int64)
    return Documents(np.frombuffer(text, dtype=np.uint8), offsets)


def lines_of(documents: Documents) -> Documents:
    r"""Make each line of each document a document, as :func:`split_lines` does for a file.

    Parameters
    ----------
    documents : Documents
        Texts that may hold line ends.

    Returns
    -------
    Documents
        One document for each line; an empty text is one empty line. Texts without a line end stay as they are.

    Examples
    --------
    >>> lines = lines_of(Documents.of(["the cat\nsat\n", "", "a dog"]))
    >>> [lines.text(i) for i in range(lines.n_documents)]
    [b'the cat', b'sat', b'', b'a dog']
    """
    if not np.any(documents.data == ord("\n")):
        return documents
    texts = (documents.text(i).replace(b"\r\n", b"\n") for i in range(documents.n_documents))
    return Documents.of([line for text in texts for line in text.removesuffix(b"\n").split(b"\n")])
