"""The text that stores and corpora are built of, files or texts, and their blocks, written span by span."""

import ctypes
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

from dspectral.engine import count_as_pass, expect_passes, is_dry_run, run_tasks
from dspectral.store.blocks import BlockInfo
from dspectral.store.corpus import SentenceBlock
from dspectral.store.draft import StoreWriter, thread_pool_options
from dspectral.store.from_text.lines import (
    MAX_POSITIONS,
    DocumentSizeLimit,
    ReadCounts,
    ReadOptions,
    split_documents,
    warn_long_documents,
)
from dspectral.store.from_text.readers import read_file_range
from dspectral.store.from_text.sources import (
    FileRange,
    check_unchanged,
    get_fingerprints,
    get_total_bytes,
    split_files,
)
from dspectral.store.from_text.texts import (
    COUNTS,
    SavedTextBlock,
    Texts,
    TextSources,
    as_file_list,
    as_texts,
    read_saved_texts,
    save_texts,
)
from dspectral.types import Documents

Read = Callable[[Any], Iterable[Documents]]
S = TypeVar("S")
C = TypeVar("C")
B = TypeVar("B", bound=BlockInfo | SentenceBlock)


class TextInput(NamedTuple):
    """Text that is to be read: pieces of files and texts that are no files; each line is a text where ``by_lines``.

    `id_field`: field of the ids of texts that are no files.
    """

    read_options: ReadOptions
    ranges: list[FileRange]
    texts: Texts | None
    by_lines: bool
    id_field: str | None = None

    def describe(self) -> list[dict[str, Any]]:
        """Return where the text is from, as JSON takes it."""
        if self.texts is None:
            return [file_range.describe() for file_range in self.ranges]
        return [{"texts": "in memory"}]

    @property
    def named(self) -> str:
        """The sources of the text, for messages."""
        urls = ", ".join(file_range.url for file_range in self.ranges) or "[]"
        return urls if self.texts is None else "the texts given"

    def opened(self, writer: StoreWriter) -> tuple[list[FileRange] | list[SavedTextBlock], Read]:
        """Return pieces of text that are read in parallel, and the function that reads one."""
        read_options = self.read_options
        # Texts are kept before the first pass, because a generator cannot be read for a second one.
        if self.texts is not None:
            if is_dry_run():
                raise ValueError(
                    "the sources are texts in memory, which are read once: only files can be planned"
                )
            pieces: Any = save_texts(writer, self.texts, read_options, self.id_field)
            of_piece: Any = partial(read_saved_texts, where=writer.where)
        else:
            pieces, of_piece = self.ranges, read_file_range
        read: Any = partial(of_piece, read_options=read_options)
        if self.counts:
            read = partial(
                _read_counted, read=of_piece, read_options=read_options, writer=writer.without_history()
            )
        return pieces, partial(_read_lines, read=read) if self.by_lines else read

    @property
    def counts(self) -> bool:
        """Whether long documents, blank lines or missing texts may be read on."""
        records = any(file_range.format not in ("txt", "parquet") for file_range in self.ranges)
        return records or {self.read_options.size_limit.treatment, self.read_options.if_missing} != {"error"}

    @property
    def fingerprints(self) -> dict[str, str]:
        """Stamp of each file."""
        return get_fingerprints(self.ranges)

    def check_unchanged(self, writer: StoreWriter) -> StoreWriter:
        """Refuse files that have changed meanwhile; return the draft with what was read on, and warn of long ones."""
        check_unchanged(writer.where, self.ranges, self.read_options.options)
        return add_read_counts(writer, self.read_options.size_limit) if self.counts else writer


def open_text(
    sources: TextSources,
    read_options: ReadOptions,
    *,
    sentences: bool = False,
    ids: bool = False,
    id_field: str | None = None,
) -> TextInput:
    """Tell files from texts, sentences by lines unless the unit says otherwise; only sizes and headers are read."""
    read_options = read_options.checked()
    unit = read_options.unit
    by_lines = sentences and unit in (None, "line")
    sources = as_file_list(sources)
    texts = as_texts(sources, read_options.field)
    if texts is None:
        if sentences and unit != "file":
            unit = "line" if read_options.field is None and unit != "field" else "field"
        ranges = split_files(sources, read_options._replace(unit=unit), ids=ids)  # type: ignore[arg-type]
        return TextInput(read_options, ranges, None, by_lines)
    unit = None if sentences and unit != "file" else unit
    for name in ("unit", "encoding", "delimiter", "format"):
        value = unit if name == "unit" else getattr(read_options, name)
        if value is not None:
            raise ValueError(
                f"{name} is {value!r}, but it is for files: texts in memory are documents already"
            )
    return TextInput(read_options, [], texts, by_lines, id_field)


def _read_counted(
    piece: FileRange | SavedTextBlock,
    *,
    read: Callable[..., Iterable[Documents]],
    read_options: ReadOptions,
    writer: StoreWriter,
) -> Iterator[Documents]:
    """Yield the documents of a piece, and write down what was read on before the last block is known."""
    found = ReadCounts()
    yield from read(piece, read_options.counting(found))
    write_read_counts(writer, piece, found)


def _read_lines(piece: FileRange | SavedTextBlock, *, read: Read) -> Iterator[Documents]:
    for documents in read(piece):
        yield split_documents(documents)


def write_read_counts(writer: StoreWriter, piece: object, found: ReadCounts) -> None:
    """Write into the scratch of a store what of a piece of text was read on: long documents, blank lines."""
    if found.count or found.others:
        name = sha256(repr(piece).encode()).hexdigest()[:32]
        mark = {"count": found.count, "places": found.places, "others": found.others}
        writer.where.mark(f"{writer.scratch}/{COUNTS}/{name}", mark)


def add_read_counts(writer: StoreWriter, size_limit: DocumentSizeLimit) -> StoreWriter:
    """Return the draft with the numbers of what was read on in its provenance, and warn of long documents."""
    path = f"{writer.scratch}/{COUNTS}"
    marks = [writer.where.attributes(f"{path}/{name}") for name in writer.where.names(path)]
    count = sum(mark["count"] for mark in marks if mark)
    totals = Counter[str]()
    for mark in marks:
        totals.update((mark or {}).get("others", {}))
    if not count and not totals:
        return writer
    of_call: dict[str, Any] = dict(sorted(totals.items()))
    if count:
        positions = sorted(position for mark in marks if mark for position in mark["places"])[:MAX_POSITIONS]
        warn_long_documents(size_limit, count, positions, stacklevel=4)
        of_call |= {"n_long_documents": count, "long_documents_at": positions}
    # What an append skipped belongs to that append, and not to the store as it was.
    if writer.generation:
        *earlier, made = writer.provenance["appended"]
        return writer._replace(provenance={**writer.provenance, "appended": [*earlier, {**made, **of_call}]})
    return writer._replace(provenance={**writer.provenance, **of_call})


def build_blocks(
    ranges: Sequence[S],
    writer: StoreWriter,
    read: Callable[[S], Iterable[C]],
    write: Callable[..., B],
    find: Callable[[str], B | None],
    *,
    name: str,
) -> list[B]:
    """Write the blocks of all spans of text, one task a span, but for those that are finished."""
    work = partial(_build_range, writer=writer.without_history(), read=read, write=write, find=find)
    expect_passes(1)
    with count_as_pass(is_pass=True), thread_pool_options() as threads:
        done = run_tasks(work, list(enumerate(ranges)), name=name, n_bytes=get_total_bytes(ranges), **threads)
    return [block for of_span in done for block in of_span]


def _build_range(
    item: tuple[int, S],
    *,
    writer: StoreWriter,
    read: Callable[[S], Iterable[C]],
    write: Callable[..., B],
    find: Callable[[str], B | None],
) -> list[B]:
    """Write the blocks of one numbered span that are not finished; return the marks of all."""
    number, file_range = item
    # Blocks of a span are written in order, so that the finished ones are the first ones.
    done: list[B] = []
    while (block := find(writer.name(number, len(done)))) is not None:
        done.append(block)
    if done and done[-1].last:
        return done
    blocks: list[B] = []
    # Invariant: `blocks` holds the marks of parts 0 to len(blocks) - 1, whoever wrote them.
    for content, last in _mark_last(read(file_range)):
        part = len(blocks)  # finished blocks are read again, as text has no index, but not written again
        known = done[part] if part < len(done) else None
        if known is None:
            trim_malloc()
            known = write(writer.name(number, part), content, last=last)
        blocks.append(known)
    return blocks


def _mark_last(contents: Iterable[C]) -> Iterator[tuple[C, bool]]:
    """Yield contents one behind, and whether each is the last."""
    waiting: list[C] = []
    for content in contents:
        if waiting:
            yield waiting.pop(), False
        waiting.append(content)
    if waiting:
        yield waiting.pop(), True


def trim_malloc() -> None:
    """Give memory that was freed back to the system, where the C library can and would keep it.

    Reading frees many small pieces, whose room the large arrays of what follows cannot use.
    """
    if sys.platform.startswith("linux") and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)
