"""Reading one span of text into blocks of documents."""

from collections.abc import Iterator
from typing import Any

from dspectral.store.csv_records import csv_texts
from dspectral.store.fields import json_texts, tsv_texts
from dspectral.store.lines import PIECE_BYTES, Piece, checked, split_lines, whole_lines
from dspectral.store.packing import pack
from dspectral.store.parquet import read_row_group
from dspectral.store.sources import Span
from dspectral.store.streams import open_bytes
from dspectral.types import Documents


def read_span(
    span: Span,
    *,
    block_bytes: int,
    errors: str = "strict",
    storage_options: dict[str, Any] | None = None,
) -> Iterator[Documents]:
    r"""Yield the documents of a span, at most ``block_bytes`` of text at a time.

    Parameters
    ----------
    span : Span
    block_bytes : int
        Most bytes of text of a block, and of its offsets (8 a document); as many documents as fit make a
        block. A longer document is a block of its own.
    errors : {"strict", "replace"}
        What to do with bytes that are not UTF-8.
    storage_options : dict, optional
        Of the file system.

    Yields
    ------
    Documents
        In the order of the file; never none at a time. An empty line of text, or an empty field, is a
        document: row numbers are line numbers. So is what follows the last line end, and an empty file where
        a document is a file. Line ends (LF or CR LF) and a byte order mark are dropped.

    Raises
    ------
    ValueError
        If the file is damaged, is not UTF-8, or a record lacks the field: the file and line (or, inside a
        large file, the byte) are named.

    Notes
    -----
    One pass over the span. About twice ``block_bytes`` at once, and a few MiB, also of compressed files; of
    a Parquet file also the pages of the column that are open. The cut into blocks depends on the documents of
    the span and ``block_bytes`` alone.

    Examples
    --------
    >>> import fsspec
    >>> with fsspec.open("memory://two.txt", "w") as file:
    ...     _ = file.write("the cat\nsat\n")
    >>> blocks = read_span(Span("memory://two.txt", "txt", None, "line", None), block_bytes=8)
    >>> [block.data.tobytes() for block in blocks]
    [b'the cat', b'sat']
    """
    if errors not in ("strict", "replace"):
        raise ValueError(f"errors is {errors!r}, but it must be 'strict' or 'replace'")
    if block_bytes < 1:
        raise ValueError(f"block_bytes is {block_bytes}, but it must be 1 or more")
    piece_bytes, options = min(block_bytes, PIECE_BYTES), storage_options or {}
    parts = (part for file in span.files() for part in _parts(file, piece_bytes, errors, options))
    return pack(parts, block_bytes)


def _parts(span: Span, piece_bytes: int, errors: str, options: dict[str, Any]) -> Iterator[Documents]:
    """Yield the documents of a span, in parts of some size."""
    if span.format == "parquet":
        for group in range(span.start, span.stop):
            yield from read_row_group(span.url, options, group, str(span.field), errors)
        return
    with open_bytes(span.url, span.compression, options) as file:
        pieces = whole_lines(file, span.url, start=span.start, stop=span.stop, piece_bytes=piece_bytes)
        if span.format == "csv":
            yield from csv_texts(pieces, span.url, span.column, errors)
        elif span.unit == "file":
            yield Documents.of([b"".join(checked(piece, errors).data for piece in pieces)])
        else:
            for piece in pieces:
                yield _of_lines(checked(piece, errors), span, errors)


def _of_lines(piece: Piece, span: Span, errors: str) -> Documents:
    if span.format == "jsonl":
        return json_texts(piece, str(span.field), errors)
    if span.format == "tsv":
        return tsv_texts(piece, span.column, span.n_columns, with_header=piece.line == 1)
    return split_lines(piece.data)
