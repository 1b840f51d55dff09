"""Read labeled text files into stores, and write labeled rows as text."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from os import PathLike
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

import numpy as np
from scipy import sparse

from dspectral.engine import as_dask_rows, run_tasks
from dspectral.io.labeled_lines import MAX_COLUMNS, ParsedLines, parse_lines
from dspectral.io.line_files import open_atomic
from dspectral.linalg.sparse_products import to_canonical_csr
from dspectral.parameters import check_integer, check_option, check_size
from dspectral.store.blocks import BlockInfo, find_block, write_block
from dspectral.store.counts import CountStore
from dspectral.store.from_text.lines import (
    BLOCK_BYTES,
    LINE_CHUNK_BYTES,
    FileRange,
    LineChunk,
    ReadOptions,
    read_line_chunks,
)
from dspectral.store.from_text.sources import check_unchanged, hash_fingerprints, split_files
from dspectral.store.from_text.streams import open_decompressed
from dspectral.store.from_text.text_input import build_blocks
from dspectral.store.matrix import align_labels
from dspectral.store.writer import finish_store, open_writer
from dspectral.types import CSRRows, Rows, RowsLike, is_sparse

WIDTHS = ("n_columns", "n_labels")


class FileHeader(NamedTuple):
    """Header of an extreme-classification file: number of documents, columns and labels."""

    n_documents: int
    n_columns: int
    n_labels: int


def _read_header(file_range: FileRange, options: dict[str, Any]) -> FileHeader:
    """Read the header of an extreme-classification file."""
    with open_decompressed(file_range.url, file_range.compression, options) as file:
        first_chunk = next(read_line_chunks(file, file_range.url, chunk_bytes=LINE_CHUNK_BYTES >> 4), None)
    words = first_chunk.data.partition(b"\n")[0].split() if first_chunk else []
    if len(words) != 3 or not all(word.isdigit() for word in words):
        raise ValueError(f"{file_range.url}, line 1 must be 'documents columns labels', three integers: check format=")
    return FileHeader(*map(int, words))


def find_width(
    headers: list[FileHeader],
    ranges: list[FileRange],
    read: Callable[[FileRange], Iterator[LineChunk]],
    parse: Callable[[LineChunk], ParsedLines],
    declared_width: tuple[int | None, int | None],
) -> tuple[int, int]:
    """Return the numbers of columns and labels: requested ones, else those of the headers, else those of the text."""
    # Requested widths take precedence over headers, since files may be parts of a wider matrix.
    widths = {(header.n_columns, header.n_labels) for header in headers}
    if len(widths) > 1 and None in declared_width:
        raise ValueError(f"the headers have different columns and labels, {sorted(widths)}: set n_columns and n_labels")
    if None in declared_width and not widths:

        def measure(file_range: FileRange) -> list[tuple[int, int]]:
            """Return the numbers of columns and labels of the chunks of a byte range."""
            return [(parsed.rows.shape[1], parsed.labels.shape[1]) for parsed in map(parse, read(file_range))]

        shapes = chain([(0, 0)], *run_tasks(measure, ranges, name="measure"))
        widths = {tuple(map(max, zip(*shapes, strict=True)))}
    file_widths = max(widths, default=(0, 0))
    n_columns, n_labels = (
        check_integer(f"{ranges[0].url}: {name}", width if given is None else given, at_least=1, at_most=MAX_COLUMNS)
        for name, width, given in zip(WIDTHS, file_widths, declared_width, strict=True)
    )
    return n_columns, n_labels


def read_labeled_chunks(
    file_range: FileRange, *, has_header: bool, block_bytes: int, options: dict[str, Any]
) -> Iterator[LineChunk]:
    """Yield the lines of a byte range in chunks of about ``block_bytes``."""
    for file_part in file_range.files():
        with open_decompressed(file_part.url, file_part.compression, options) as file:
            # `pending` are the chunks of one file since the last yield; line numbers and offsets count from the first.
            pending: list[LineChunk] = []
            for chunk in read_line_chunks(file, file_part.url, start=file_part.start, stop=file_part.stop):
                if has_header and not pending and not file_part.start and chunk.line == 1:
                    head, _, rest = chunk.data.partition(b"\n")
                    chunk = chunk._replace(data=rest, byte=chunk.byte + len(head) + 1, line=2)  # noqa: PLW2901
                pending.append(chunk)
                if sum(len(parsed.data) for parsed in pending) >= block_bytes + LINE_CHUNK_BYTES:
                    yield _join_chunks(pending)
                    pending = []
            if any(parsed.data for parsed in pending):
                yield _join_chunks(pending)


def _join_chunks(chunks: list[LineChunk]) -> LineChunk:
    return chunks[0]._replace(data=b"".join(chunk.data for chunk in chunks))


Format: TypeAlias = Literal["extreme", "svmlight"]


def build_labeled_store(
    sources: str | Sequence[str],
    store: str | PathLike[str],
    *,
    format: Format = "extreme",  # noqa: A002  as fsspec, Dask and Pandas call it
    n_columns: int | None = None,
    n_labels: int | None = None,
    zero_based: bool = True,
    block_bytes: int = BLOCK_BYTES,
    append: bool = False,
    overwrite: bool = False,
    storage_options: dict[str, Any] | None = None,
    source_options: dict[str, Any] | None = None,
) -> CountStore:
    r"""Read labeled documents from text files into a store with rows and labels.

    Parameters
    ----------
    sources : str or sequence of str
        Paths, glob patterns or fsspec URLs, also .gz, .bz2 or .zst.
    store : str or path-like
        Local path or fsspec URL of the new store.
    format : {"extreme", "svmlight"}, default="extreme"
        Format of the text. ``"extreme"``: a header ``documents columns labels``, then one line per document,
        ``label,label,... column:value column:value ...``, possibly without labels or pairs. ``"svmlight"``: no header;
        empty lines and comments are skipped, and a document without entries and labels has its first column set to 0.
        Classes -1 and +1 become labels 0 and 1.
    n_columns, n_labels : int, optional
        Numbers of columns and labels; by default those of the headers, or of the text after an additional pass.
    zero_based : bool, default=True
        Whether columns in the text start at 0 instead of 1. Labels start at 0.
    block_bytes : int, default=16777216
        Bytes of text per block of rows.
    append : bool, default=False
        Whether to append to an existing store.
    overwrite : bool, default=False
        Whether to replace a finished store, which stays unchanged until the new one is complete.
    storage_options, source_options : dict, optional
        Options of the file systems of the store and of the sources.

    Returns
    -------
    CountStore
        Complete store, with rows and ``labels``.

    Raises
    ------
    ValueError
        If a line is invalid or exceeds the widths (the message names it), or the header has a wrong document count.
    StoreError
        If there is a finished store of other text or arguments, or with ``append`` does not exist or has another width.

    Notes
    -----
    Memory per task: about five times ``block_bytes``. Calling again after an interruption resumes the build.

    Examples
    --------
    >>> import fsspec
    >>> with fsspec.open("memory://labeled.txt", "w") as file:
    ...     _ = file.write("2 3 4\n0,3 0:1 2:2\n1 1:1\n")
    >>> store = build_labeled_store("memory://labeled.txt", "memory://labeled.zarr")
    >>> store.shape, store.labels.compute().toarray()
    ((2, 3), array([[1., 0., 0., 1.],
           [0., 1., 0., 0.]], dtype=float32))
    """
    check_option("format", format, get_args(Format))
    block_bytes, options = check_size("block_bytes", block_bytes), source_options or {}
    ranges = split_files(sources, ReadOptions("line", block_bytes=block_bytes, storage_options=options))
    read = partial(read_labeled_chunks, has_header=format == "extreme", block_bytes=block_bytes, options=options)
    # Without widths `parse` accepts any column, to measure the text; with widths it checks them.
    parse = partial(parse_lines, first_column=0 if zero_based else 1, skip_empty=format == "svmlight")
    files = [file for file_range in ranges for file in file_range.files() if not file.start]
    headers = [_read_header(file, options) for file in files] if format == "extreme" else []
    width = find_width(headers, ranges, read, parse, (n_columns, n_labels))
    parse = partial(parse, n_columns=width[0], n_labels=width[1])
    provenance = {
        "sources": [file_range.describe() for file_range in ranges],
        "block_bytes": block_bytes,
        "labeled_text": {"format": format, "zero_based": zero_based},
        "labels": width[1],
    }
    with open_writer(
        store,
        storage_options,
        provenance,
        append=append,
        overwrite=overwrite,
        n_columns=width[0],
        content=hash_fingerprints(ranges),
    ) as opened_writer:
        if opened_writer.finished is not None:
            return cast(CountStore, opened_writer.finished)
        writer = opened_writer._replace(n_columns=width[0])
        location = writer.location

        def write(name: str, chunk: LineChunk, *, is_last: bool) -> BlockInfo:
            parsed = parse(chunk)
            return write_block(location, name, parsed.rows, labels=parsed.labels, last=is_last)

        find = partial(find_block, location)
        blocks = build_blocks(ranges, writer, read, write, find, name="parse-block")
        check_unchanged(ranges, options)
        # The number of documents is checked last, since counting first would take an additional pass.
        n_rows = sum(block.n_rows for block in blocks)
        n_promised = sum(header.n_documents for header in headers)
        if not n_rows:
            raise ValueError(f"{sources} has no documents, but must have at least one")
        if headers and n_promised != n_rows:
            raise ValueError(
                f"the header(s) of {sources} declare {n_promised} documents, but {n_rows} follow: correct the header"
            )
        return finish_store(writer, blocks)


def write_labeled_text(
    X: RowsLike,
    path: str | PathLike[str],
    y: "RowsLike | None" = None,
    *,
    format: Format = "extreme",  # noqa: A002
    zero_based: bool = True,
    storage_options: dict[str, Any] | None = None,
) -> None:
    r"""Write labeled documents as text, block by block.

    Parameters
    ----------
    X : store, Dask array, SciPy sparse or ndarray, shape (n_documents, n_columns)
        Counts or features of the documents.
    path : str or path-like
        Local path or fsspec URL; compressed if it ends in .gz, .bz2 or .zst.
    y : Dask array, SciPy sparse or ndarray, shape (n_documents, n_labels), optional
        Indicator matrix, nonzero where a document has the label; by default the labels of the store X.
    format : {"extreme", "svmlight"}, default="extreme"
        Format of the text, as for :func:`build_labeled_store`.
    zero_based : bool, default=True
        Whether columns are written from 0 instead of 1. Labels start at 0.
    storage_options : dict, optional
        Options of the file system.

    Raises
    ------
    ValueError
        If there are no labels or another number of rows of labels, or the format is unknown.

    Notes
    -----
    One pass, with one block in memory; values have enough digits to restore every float32.

    Examples
    --------
    >>> write_labeled_text(np.array([[0.0, 2.0]]), "memory://one.txt", np.array([[1, 0, 1]]))
    >>> import fsspec
    >>> with fsspec.open("memory://one.txt", "r") as file:
    ...     file.read()
    '1 2 3\n0,2 1:2\n'
    """
    check_option("format", format, get_args(Format))
    y = getattr(X, "labels", None) if y is None else y
    if y is None:
        raise ValueError("y=None must be a label matrix, unless X is a store with labels")
    rows = as_dask_rows(X)
    labels = align_labels(rows, y)
    first = 0 if zero_based else 1
    with open_atomic(path, "w", newline="\n", **(storage_options or {})) as file:
        if format == "extreme":
            file.write(f"{rows.shape[0]} {rows.shape[1]} {labels.shape[1]}\n")
        for i in range(rows.numblocks[0]):
            block, names = rows.blocks[i].compute(), labels.blocks[i].compute()
            empty = f" {first}:0\n" if format == "svmlight" else " \n"
            file.writelines(_format_lines(_as_csr(block), _as_csr(names != 0), first, empty))


def _as_csr(block: Rows) -> CSRRows:
    """Return a block as CSR, with sorted columns and without duplicates."""
    return to_canonical_csr(block if is_sparse(block) else sparse.csr_array(np.asarray(block, np.float64)))


def _format_lines(rows: CSRRows, labels: CSRRows, first_index: int, empty_line: str) -> Iterator[str]:
    """Yield the lines of a block, and ``empty_line`` for a document without entries and labels."""
    # Each distinct value is formatted once: formatting is slower than sorting, and counts have few distinct values.
    # Nine digits restore every float32, sixteen every integer.
    unique_values, inverse = np.unique(rows.data, return_inverse=True)
    if not np.isfinite(unique_values).all():
        raise ValueError("an entry of X is NaN or infinite, but all must be finite: replace it")
    texts = [f"{value:.{16 if float(value).is_integer() else 9}g}" for value in unique_values.tolist()]
    columns, values = (rows.indices + first_index).tolist(), inverse.tolist()
    names = labels.indices.tolist()
    # A space separates labels and pairs, even if either is empty.
    for i in range(rows.shape[0]):
        entries = range(rows.indptr[i], rows.indptr[i + 1])
        pairs = "".join(f" {columns[j]}:{texts[values[j]]}" for j in entries)
        line = ",".join(map(str, names[labels.indptr[i] : labels.indptr[i + 1]])) + (pairs or " ") + "\n"
        yield line if line != " \n" else empty_line
