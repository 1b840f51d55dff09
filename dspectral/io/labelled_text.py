"""Labelled documents as text, to a store and back: the extreme-classification format, and svmlight."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import fsspec
import numpy as np
from scipy import sparse

from dspectral.engine import lazy_rows, run_tasks
from dspectral.io.labelled_lines import LineError, ParsedLines, parse_lines
from dspectral.store.blocks import BlockInfo, Location, finished, write_block
from dspectral.store.build import BLOCK_BYTES, build_span
from dspectral.store.counts import CountStore
from dspectral.store.draft import begin, finish
from dspectral.store.lines import PIECE_BYTES, Piece, whole_lines
from dspectral.store.sources import Span, plan_spans
from dspectral.store.streams import open_bytes

Format: TypeAlias = Literal["extreme", "svmlight"]


class Head(NamedTuple):
    """The first line of an extreme-classification file."""

    n_documents: int
    n_columns: int
    n_labels: int


def build_labelled_store(
    sources: str | Sequence[str],
    store: str,
    *,
    format: Format = "extreme",  # noqa: A002  as fsspec, Dask and Pandas call it
    n_columns: int | None = None,
    n_labels: int | None = None,
    zero_based: bool = True,
    block_bytes: int = BLOCK_BYTES,
    append: bool = False,
    storage_options: dict[str, Any] | None = None,
    source_options: dict[str, Any] | None = None,
) -> CountStore:
    r"""Read labelled documents from text into a store that holds rows and labels.

    Parameters
    ----------
    sources : str or sequence of str
        Paths, globs or fsspec URLs, also .gz, .bz2 or .zst.
    store : str
        Local path or fsspec URL of the store to make.
    format : {"extreme", "svmlight"}
        ``"extreme"``: a first line ``documents columns labels``, then a line a document,
        ``label,label,... column:value column:value ...``; a line may lack labels, columns or both.
        ``"svmlight"``: no first line; empty lines and comments are no documents.
    n_columns, n_labels : int, optional
        Width; by default what the first lines say (``"extreme"``) or what the text needs, for which it is read
        once more.
    zero_based : bool
        Whether the first column is 0 in the text, and not 1. Labels count from 0.
    block_bytes : int
        Bytes of text behind a block of rows.
    append : bool
        Whether to add the documents behind those of a finished store.
    storage_options, source_options : dict, optional
        Of the store's and the sources' file systems.

    Returns
    -------
    CountStore
        With ``labels``.

    Raises
    ------
    ValueError
        If a line cannot be read or names a column or label beyond the width (file and line are named), a first
        line is missing, or a file has more or fewer documents than its first line says.
    StoreError
        If the store exists already, or ``append`` finds none or one of another width.

    Notes
    -----
    One pass over the text (two where the width is looked for); a task holds about five times ``block_bytes``. A
    build that was stopped goes on where it was: call it again.

    Examples
    --------
    >>> with fsspec.open("memory://labelled.txt", "w") as file:
    ...     _ = file.write("2 3 4\n0,3 0:1 2:2\n1 1:1\n")
    >>> store = build_labelled_store("memory://labelled.txt", "memory://labelled.zarr")
    >>> store.shape, store.labels.compute().toarray()
    ((2, 3), array([[1., 0., 0., 1.],
           [0., 1., 0., 0.]], dtype=float32))
    """
    if format not in ("extreme", "svmlight"):
        raise ValueError(f"format is {format!r}, but it must be 'extreme' or 'svmlight'")
    options = source_options or {}
    spans = plan_spans(sources, unit="line", span_bytes=block_bytes, storage_options=source_options)
    read = partial(_read, headed=format == "extreme", block_bytes=block_bytes, options=options)
    parse = partial(_parse, first_column=0 if zero_based else 1, skip_empty=format == "svmlight")
    heads = _heads(spans, options) if format == "extreme" else []
    width = _width(heads, spans, read, parse, (n_columns, n_labels))
    parse = partial(parse, n_columns=width[0], n_labels=width[1])
    provenance = {
        "sources": [span.describe() for span in spans],
        "block_bytes": block_bytes,
        "labelled_text": {"format": format, "zero_based": zero_based},
        "labels": width[1],
    }
    draft = begin(store, storage_options, provenance, append=append, n_columns=width[0])
    draft = draft._replace(n_columns=width[0])
    write, find = partial(_write, draft.where, parse=parse), partial(finished, draft.where)
    work = partial(build_span, draft=draft.for_tasks(), read=read, write=write, find=find)
    blocks = [
        block for of_span in run_tasks(work, list(enumerate(spans)), name="parse-block") for block in of_span
    ]
    n_rows = sum(block.n_rows for block in blocks)
    if not n_rows:
        raise ValueError(f"no document at all in {sources}")
    promised = sum(head.n_documents for head in heads)
    if heads and promised != n_rows:
        raise ValueError(f"the first line(s) of {sources} promise {promised} documents, but {n_rows} follow")
    return finish(draft, blocks)


def write_labelled_text(
    X: Any,
    path: str,
    y: Any = None,
    *,
    format: Format = "extreme",  # noqa: A002
    zero_based: bool = True,
    storage_options: dict[str, Any] | None = None,
) -> None:
    r"""Write labelled documents as text, block by block.

    Parameters
    ----------
    X : store, Dask array, SciPy sparse or ndarray, shape (n_documents, n_columns)
    path : str
        Local path or fsspec URL; an ending .gz, .bz2 or .zst compresses.
    y : as X, shape (n_documents, n_labels), optional
        Not zero where a document has the label; by default the labels of the store X.
    format, zero_based
        As for :func:`build_labelled_store`.
    storage_options : dict, optional

    Raises
    ------
    ValueError
        If there are no labels, or labels of other documents.

    Notes
    -----
    One pass, one block in memory. Values are written with as many digits as float32 needs to come back as it
    was.

    Examples
    --------
    >>> write_labelled_text(np.array([[0.0, 2.0]]), "memory://one.txt", np.array([[1, 0, 1]]))
    >>> with fsspec.open("memory://one.txt", "r") as file:
    ...     file.read()
    '1 2 3\n0,2 1:2\n'
    """
    y = getattr(X, "labels", None) if y is None else y
    if y is None:
        raise ValueError("y is None, but there must be labels: a matrix, or a store that holds labels")
    rows, labels = lazy_rows(X), lazy_rows(y)
    if rows.shape[0] != labels.shape[0]:
        raise ValueError(f"there are {rows.shape[0]} rows, but labels of {labels.shape[0]}")
    if labels.chunks[0] != rows.chunks[0]:
        labels = labels.rechunk({0: rows.chunks[0]})
    first = 0 if zero_based else 1
    with fsspec.open(path, "w", compression="infer", newline="\n", **(storage_options or {})) as file:
        if format == "extreme":
            file.write(f"{rows.shape[0]} {rows.shape[1]} {labels.shape[1]}\n")
        for i in range(rows.numblocks[0]):
            block, names = rows.blocks[i].compute(), labels.blocks[i].compute()
            file.writelines(_lines(sparse.csr_array(block), sparse.csr_array(names), first))


def _lines(rows: sparse.csr_array, labels: sparse.csr_array, first: int) -> Iterator[str]:
    different, inverse = np.unique(rows.data, return_inverse=True)
    texts = [f"{value:.9g}" for value in different.tolist()]
    columns, values = (rows.indices + first).tolist(), inverse.tolist()
    names = labels.indices.tolist()
    for i in range(rows.shape[0]):
        mine = range(rows.indptr[i], rows.indptr[i + 1])
        pairs = "".join(f" {columns[j]}:{texts[values[j]]}" for j in mine)
        yield ",".join(map(str, names[labels.indptr[i] : labels.indptr[i + 1]])) + (pairs or " ") + "\n"


def _heads(spans: list[Span], options: dict[str, Any]) -> list[Head]:
    return [_head(span, options) for whole in spans for span in whole.files() if not span.start]


def _head(span: Span, options: dict[str, Any]) -> Head:
    with open_bytes(span.url, span.compression, options) as file:
        first = next(whole_lines(file, span.url, piece_bytes=PIECE_BYTES >> 4), None)
    words = first.data.partition(b"\n")[0].split() if first else []
    if len(words) != 3 or not all(word.isdigit() for word in words):
        raise ValueError(
            f"{span.url}, line 1: the first line of this format is 'documents columns labels', three whole numbers"
        )
    return Head(*map(int, words))


def _width(
    heads: list[Head],
    spans: list[Span],
    read: Callable[[Span], Iterator[Piece]],
    parse: Callable[[Piece], ParsedLines],
    wanted: tuple[int | None, int | None],
) -> tuple[int, int]:
    """Return columns and labels: what is asked for, what the first lines say, or what the text needs."""
    known = [wanted[0], wanted[1]]
    if heads:
        widths = {(head.n_columns, head.n_labels) for head in heads}
        if len(widths) > 1 and None in known:
            raise ValueError(f"the first lines differ in columns and labels, {sorted(widths)}: give both")
        columns, labels = max(widths)
        known = [columns if wanted[0] is None else wanted[0], labels if wanted[1] is None else wanted[1]]
    elif None in known:
        needed = run_tasks(partial(_needed, read=read, parse=parse), spans, name="measure")
        most = [max((pair[side] for pair in needed), default=0) for side in (0, 1)]
        known = [most[i] if known[i] is None else known[i] for i in (0, 1)]
    for name, width in zip(("n_columns", "n_labels"), known, strict=True):
        if not width or width < 1:
            raise ValueError(f"{name} is {width}, but must be at least 1")
    return int(known[0] or 0), int(known[1] or 0)


def _needed(
    span: Span, *, read: Callable[[Span], Iterator[Piece]], parse: Callable[[Piece], ParsedLines]
) -> tuple[int, int]:
    shapes = [(part.rows.shape[1], part.labels.shape[1]) for part in map(parse, read(span))]
    return max((a for a, _ in shapes), default=0), max((b for _, b in shapes), default=0)


def _read(span: Span, *, headed: bool, block_bytes: int, options: dict[str, Any]) -> Iterator[Piece]:
    """Yield the lines of a span, about ``block_bytes`` at a time, each file's first line left out if headed."""
    for whole in span.files():
        with open_bytes(whole.url, whole.compression, options) as file:
            pieces = whole_lines(file, whole.url, start=whole.start, stop=whole.stop)
            held: list[Piece] = []
            for piece in pieces:
                held.append(
                    _without_head(piece)
                    if headed and not held and not whole.start and piece.line == 1
                    else piece
                )
                if sum(len(part.data) for part in held) >= block_bytes + PIECE_BYTES:
                    yield _joined(held)
                    held = []
            if any(part.data for part in held):
                yield _joined(held)


def _without_head(piece: Piece) -> Piece:
    head, _, rest = piece.data.partition(b"\n")
    return piece._replace(data=rest, byte=piece.byte + len(head) + 1, line=2)


def _joined(pieces: list[Piece]) -> Piece:
    return pieces[0]._replace(data=b"".join(piece.data for piece in pieces))


def _parse(piece: Piece, **settings: Any) -> ParsedLines:
    try:
        return parse_lines(piece.data, **settings)
    except LineError as error:
        raise piece.line_error(error.line, str(error)) from error


def _write(
    where: Location, name: str, piece: Piece, *, last: bool, parse: Callable[[Piece], ParsedLines]
) -> BlockInfo:
    parsed = parse(piece)
    return write_block(where, name, parsed.rows, labels=parsed.labels, last=last)
