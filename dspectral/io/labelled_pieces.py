"""Labeled text read piece by piece: first lines, the width of the matrices, and parsed pieces."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from dspectral.engine import run_tasks
from dspectral.inputs.parameters import check_integer
from dspectral.io.labelled_lines import MOST_COLUMNS, LineError, ParsedLines, parse_lines
from dspectral.store.from_text.pieces import PIECE_BYTES, Piece, whole_lines
from dspectral.store.from_text.sources import Span
from dspectral.store.from_text.streams import open_bytes

WIDTHS = ("n_columns", "n_labels")


class Head(NamedTuple):
    """The first line of an extreme-classification file.

    `n_documents, n_columns, n_labels`: number of documents that follow, and widths of the two matrices.
    """

    n_documents: int
    n_columns: int
    n_labels: int


def read_heads(spans: list[Span], options: dict[str, Any]) -> list[Head]:
    """Read the first line of each extreme-classification file."""
    return [_read_head(span, options) for whole in spans for span in whole.files() if not span.start]


def _read_head(span: Span, options: dict[str, Any]) -> Head:
    with open_bytes(span.url, span.compression, options) as file:
        first = next(whole_lines(file, span.url, piece_bytes=PIECE_BYTES >> 4), None)
    words = first.data.partition(b"\n")[0].split() if first else []
    if len(words) != 3 or not all(word.isdigit() for word in words):
        raise ValueError(
            f"{span.url}, line 1: the first line of this format is 'documents columns labels', three whole numbers"
        )
    return Head(*map(int, words))


def find_width(
    heads: list[Head],
    spans: list[Span],
    read: Callable[[Span], Iterator[Piece]],
    parse: Callable[[Piece], ParsedLines],
    wanted: tuple[int | None, int | None],
) -> tuple[int, int]:
    """Return numbers of columns and labels: those asked for, those of the first lines, or those the text needs."""
    # What the caller asks for goes before the first lines: several files may have been cut from a wider matrix.
    known = [
        None if width is None else check_integer(name, width)
        for name, width in zip(WIDTHS, wanted, strict=True)
    ]
    if heads:
        widths = {(head.n_columns, head.n_labels) for head in heads}
        if len(widths) > 1 and None in known:
            raise ValueError(f"the first lines differ in columns and labels, {sorted(widths)}: give both")
        columns, labels = max(widths)
        known = [columns if known[0] is None else known[0], labels if known[1] is None else known[1]]
    elif None in known:
        needed = run_tasks(partial(_measure, read=read, parse=parse), spans, name="measure")
        most = [max((pair[side] for pair in needed), default=0) for side in (0, 1)]
        known = [most[i] if known[i] is None else known[i] for i in (0, 1)]
    measured = not heads and None in wanted
    for name, width in zip(WIDTHS, known, strict=True):
        if not width and measured:
            urls = ", ".join(span.url for span in spans)
            raise ValueError(f"{urls}: {name} is 0, but must be at least 1: the text holds no {name[2:-1]}")
        if not width or width < 1:
            raise ValueError(f"{name} is {width}, but must be at least 1")
        if width > MOST_COLUMNS:
            raise ValueError(f"{name} is {width}, but a matrix has at most {MOST_COLUMNS} columns")
    return int(known[0] or 0), int(known[1] or 0)


def _measure(
    span: Span, *, read: Callable[[Span], Iterator[Piece]], parse: Callable[[Piece], ParsedLines]
) -> tuple[int, int]:
    """Return the numbers of columns and labels that a span needs."""
    shapes = [(part.rows.shape[1], part.labels.shape[1]) for part in map(parse, read(span))]
    return max((a for a, _ in shapes), default=0), max((b for _, b in shapes), default=0)


def read_pieces(span: Span, *, headed: bool, block_bytes: int, options: dict[str, Any]) -> Iterator[Piece]:
    """Yield the lines of a span, about ``block_bytes`` at a time."""
    for whole in span.files():
        with open_bytes(whole.url, whole.compression, options) as file:
            # `held` are the pieces since the last yield. They are of one file, so that a line's number or byte can be
            # counted from the first of them.
            held: list[Piece] = []
            for piece in whole_lines(file, whole.url, start=whole.start, stop=whole.stop):
                first = headed and not held and not whole.start and piece.line == 1
                held.append(_without_head(piece) if first else piece)
                if sum(len(part.data) for part in held) >= block_bytes + PIECE_BYTES:
                    yield _join(held)
                    held = []
            if any(part.data for part in held):
                yield _join(held)


def _without_head(piece: Piece) -> Piece:
    head, _, rest = piece.data.partition(b"\n")
    return piece._replace(data=rest, byte=piece.byte + len(head) + 1, line=2)


def _join(pieces: list[Piece]) -> Piece:
    return pieces[0]._replace(data=b"".join(piece.data for piece in pieces))


def parse_piece(
    piece: Piece, *, n_columns: int = 0, n_labels: int = 0, first_column: int = 0, skip_empty: bool = False
) -> ParsedLines:
    """Parse a piece, and name the file and line that cannot be read."""
    try:
        return parse_lines(
            piece.data,
            n_columns=n_columns,
            n_labels=n_labels,
            first_column=first_column,
            skip_empty=skip_empty,
        )
    except LineError as error:
        raise ValueError(f"{piece.place_of_line(error.line)}: {error}") from error
