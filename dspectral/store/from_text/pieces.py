"""Whole lines of a file, piece by piece; a line that is too long is never held whole."""

from collections.abc import Iterator
from typing import IO, NamedTuple

import numpy as np

from dspectral.store.from_text.longest import LongDocuments, Longest

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
PIECE_BYTES = 1 << 20
"""Bytes that are read and checked at once."""
LONGEST_LINE = Longest(64 << 20, remedy="is a line end missing?")
"""How long a line may be of which the caller says nothing."""
_FEW = 1 << 14


class Piece(NamedTuple):
    """Some whole lines of a file, and where they begin in it.

    `data`: the lines, with their ends; `url`: name of the file; `byte`: place of the first byte in the
    (decompressed) file; `line`: number of the first line, from 1; `skipped`: whether it stands for one line
    that was too long.
    """

    data: bytes
    url: str
    byte: int
    line: int | None
    skipped: bool = False

    def place(self, offset: int) -> str:
        """Return where a byte is: the file, and the line, or else the byte of the file."""
        if self.line is None:
            return f"{self.url}, byte {self.byte + offset}"
        return f"{self.url}, line {self.line + self.data.count(10, 0, offset)}"

    def place_of_line(self, number: int) -> str:
        """Return where a line of the piece is."""
        ends = np.flatnonzero(np.frombuffer(self.data, dtype=np.uint8) == 10)
        return self.place(int(ends[number - 1]) + 1 if number else 0)

    def error(self, offset: int, what: str) -> ValueError:
        """Return an error that says what is wrong, and where: the line, or else the byte of the file."""
        return ValueError(f"{self.place(offset)}: {what}")


def whole_lines(
    file: IO[bytes],
    url: str,
    *,
    start: int = 0,
    stop: int = -1,
    piece_bytes: int = PIECE_BYTES,
    longest: Longest = LONGEST_LINE,
    found: LongDocuments | None = None,
    encoding: str | None = None,
) -> Iterator[Piece]:
    r"""Yield the lines that begin at the bytes ``start <= byte < stop`` of a file.

    Memory: ``piece_bytes``, or twice the longest line that is allowed.

    >>> import io
    >>> [piece.data for piece in whole_lines(io.BytesIO(b"ab\ncd\nef"), "a.txt", start=1, stop=4)]
    [b'cd\n']
    """
    begins, line = _first_line(file, start, stop), None if start else 1
    most = longest.n_bytes + 2  # one byte more than a line and its end of two bytes shows that it is too long
    # Invariant: `begins` is the byte of the file at which the next part begins, `line` the number of its first line.
    for data, size in _cut_at_lines(file, begins, stop, piece_bytes, most):
        text = data if begins else data.removeprefix(BYTE_ORDER_MARK)
        piece = Piece(text, url, begins + len(data) - len(text), line)
        if len(text) > longest.n_bytes:
            yield from _without_long_lines(piece, longest, found, encoding)
        elif text:
            yield piece
        begins += size
        line = None if line is None else line + data.count(10)


def whole_file(
    file: IO[bytes], url: str, longest: Longest, found: LongDocuments | None, encoding: str | None
) -> Piece:
    r"""Read a file as one document.

    >>> import io
    >>> whole_file(io.BytesIO(b"to be"), "a.txt", Longest(4, "truncate"), None, None).data
    b'to b'
    """
    most = len(BYTE_ORDER_MARK) + longest.n_bytes + 1
    parts: list[bytes] = []
    # A file may give less than it is asked for; its end is where it gives nothing.
    while most > 0 and (data := file.read(min(PIECE_BYTES, most))):
        parts.append(data)
        most -= len(data)
    text = b"".join(parts).removeprefix(BYTE_ORDER_MARK)
    if len(text) > longest.n_bytes:
        if longest.treatment == "error":
            raise longest.error(url, "a file")
        if found is not None:
            found.add(url)
        text = longest.cut(text, encoding) if longest.treatment == "truncate" else b""
    return Piece(text, url, 0, 1)


def _without_long_lines(
    piece: Piece, longest: Longest, found: LongDocuments | None, encoding: str | None
) -> Iterator[Piece]:
    """Yield the lines of a piece, each that is too long as a piece of its own, skipped or truncated."""
    ends = np.flatnonzero(np.frombuffer(piece.data, dtype=np.uint8) == 10)
    stops = ends if piece.data.endswith(b"\n") else np.append(ends, len(piece.data))
    starts = np.concatenate([[0], stops[:-1] + 1])
    # Lines before `done` were yielded; a line end of two bytes is no part of its line either.
    done = 0
    for i in np.flatnonzero(stops - starts > longest.n_bytes).tolist():
        a, b = int(starts[i]), int(stops[i])
        text = piece.data[a:b].removesuffix(b"\r")
        if len(text) <= longest.n_bytes:
            continue
        if longest.treatment == "error":
            raise longest.error(piece.place(a), "a line")
        if found is not None:
            found.add(piece.place(a))
        if a > done:
            yield _part(piece, done, a)
        skipped = longest.treatment == "skip"
        data = b"" if skipped else longest.cut(text, encoding) + piece.data[b : b + 1]
        yield _part(piece, a, b)._replace(data=data, skipped=skipped)
        done = b + 1
    if done < len(piece.data):
        yield _part(piece, done, len(piece.data))


def _part(piece: Piece, a: int, b: int) -> Piece:
    line = None if piece.line is None else piece.line + piece.data.count(10, 0, a)
    return piece._replace(data=piece.data[a:b], byte=piece.byte + a, line=line)


def _first_line(file: IO[bytes], start: int, stop: int) -> int:
    """Go to the first line that begins at byte ``start`` or behind it, and return where that is."""
    if not start:
        return 0
    # Spans are cut at any byte: a line belongs to the span in which it begins. A line end at start - 1 means that one
    # begins at start. No further than `stop` is looked: else each span of a long line would read all of its rest.
    at = start - 1
    file.seek(at)
    while (stop < 0 or at < stop) and (data := file.read(_FEW)):
        if (found := data.find(b"\n")) >= 0:
            file.seek(at + found + 1)
            return at + found + 1
        at += len(data)
    return at


def _cut_at_lines(
    file: IO[bytes], at: int, stop: int, piece_bytes: int, most: int
) -> Iterator[tuple[bytes, int]]:
    """Yield whole lines from byte ``at`` on, in parts of about ``piece_bytes``, up to the line that ``stop`` is in.

    With each part goes the number of its bytes in the file, which are more where a line has over ``most``: of that
    its first bytes and its end are left.
    """
    # Invariant: `at` is the place of the next byte to read; `held` is the beginning of a line whose end is not read
    # yet, `n_held` its bytes and `n_read` how many of the line were read, more than are held where it is too long.
    # Behind `stop` small parts are read, as the span's last line is likely to end soon.
    held: list[bytes] = []
    n_held = n_read = 0
    while stop < 0 or at < stop or held:
        data = file.read(piece_bytes if stop < 0 else min(piece_bytes, max(_FEW, stop - at)))
        if not data:
            break
        # The line end that closes the span's last line is the first one at stop - 1 or behind it.
        end = data.find(b"\n", max(0, stop - 1 - at)) if stop >= 0 else -1
        cut = (end if end >= 0 else data.rfind(b"\n")) + 1
        at += len(data)
        if not cut:
            held.append(data[: max(0, most - n_held)])
            n_held, n_read = n_held + len(held[-1]), n_read + len(data)
            continue
        first = 0
        if n_held < n_read:  # of a line that is too long nothing is kept between what is held and its end
            first = data.find(b"\n") + 1
            yield b"".join((*held, b"\n")), n_read + first
            held, n_read = [], 0
        if first < cut:
            yield b"".join((*held, data[first:cut])), n_read + cut - first
        if end >= 0:
            return
        held = [data[cut:]] if cut < len(data) else []
        n_held = n_read = len(data) - cut
    if held:
        yield b"".join(held), n_read
