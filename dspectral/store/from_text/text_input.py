"""Text input of stores and corpora, from files or memory, and the pass that writes its blocks."""

import ctypes
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from itertools import chain, islice
from os import PathLike
from typing import Any, NamedTuple, TypeAlias, TypeVar

from dspectral.engine import count_as_pass, expect_passes, is_dry_run, run_tasks
from dspectral.store.blocks import BlockInfo
from dspectral.store.corpus import SentenceBlock
from dspectral.store.from_text.lines import (
    DocumentSizeLimit,
    FileRange,
    ReadCounts,
    ReadOptions,
    split_documents,
    warn_long_documents,
)
from dspectral.store.from_text.readers import read_file_range
from dspectral.store.from_text.sources import (
    check_unchanged,
    get_total_bytes,
    hash_fingerprints,
    split_files,
)
from dspectral.store.from_text.texts import SavedTextBlock, Texts, read_saved_texts, save_texts
from dspectral.store.writer import COUNTS, StoreWriter
from dspectral.types import Documents

TextSources: TypeAlias = "str | PathLike[str] | Iterable[Any]"
"""Paths of files, or texts."""
Read = Callable[[Any], Iterable[Documents]]
S = TypeVar("S")
C = TypeVar("C")
B = TypeVar("B", bound=BlockInfo | SentenceBlock)


class TextInput(NamedTuple):
    """Text input of a build: byte ranges of files, or texts in memory; with ``by_lines`` each line is a text.

    `id_field`: field of the ids of texts in memory.
    """

    read_options: ReadOptions
    ranges: list[FileRange]
    texts: Texts | None
    by_lines: bool
    id_field: str | None = None

    def describe(self) -> list[dict[str, Any]]:
        """Return the sources as JSON values."""
        if self.texts is None:
            return [file_range.describe() for file_range in self.ranges]
        return [{"texts": "in memory"}]

    @property
    def source_names(self) -> str:
        """Names of the sources, for messages."""
        urls = ", ".join(file_range.url for file_range in self.ranges) or "[]"
        return urls if self.texts is None else "the texts given"

    def open_parts(self, writer: StoreWriter) -> tuple[StoreWriter, list[FileRange] | list[SavedTextBlock], Read]:
        """Return the writer of this text, the parts of the text that tasks read, and the function that reads one."""
        read_options, by_lines = self.read_options, self.by_lines
        # Texts in memory are saved first, because a generator can be read only once.
        if self.texts is not None:
            if is_dry_run():
                raise ValueError(
                    "a dry run cannot read texts in memory, because they are read only once: pass files as sources"
                )
            text_ranges: Any = save_texts(writer, self.texts, read_options, self.id_field)
            writer = writer.match_content(sha256(json.dumps(text_ranges).encode()).hexdigest())
            read_range: Any = partial(read_saved_texts, location=writer.location)
        else:
            text_ranges, read_range = self.ranges, read_file_range

        target = writer.drop_history()

        def read(text_range: Any) -> Iterator[Documents]:
            """Yield the documents of a part of the text, then write its read counts if there are any."""
            counts = ReadCounts()
            blocks = read_range(text_range, read_options._replace(counts=counts))
            yield from map(split_documents, blocks) if by_lines else blocks
            if counts.totals:
                name = sha256(repr(text_range).encode()).hexdigest()[:32]
                target.location.write_attributes(f"{target.scratch}/{COUNTS}/{name}", counts.record())

        return writer, text_ranges, read

    @property
    def content(self) -> str | None:
        """Hash of the fingerprints of all files; None for texts in memory, which are not read yet."""
        return hash_fingerprints(self.ranges) if self.texts is None else None

    def check_unchanged(self, writer: StoreWriter) -> StoreWriter:
        """Raise StoreError if a file has changed; return the writer with read counts in its provenance."""
        check_unchanged(self.ranges, self.read_options.options)
        return add_read_counts(writer, self.read_options.size_limit)


def as_texts(sources: TextSources, field: str | None) -> Texts | None:
    """Return sources as texts; None if they are paths of files.

    >>> as_texts(["a.txt", "b.txt"], None) is None
    True
    >>> as_texts((line for line in ["the cat", "the dog"]), None)
    Texts(generator)
    """
    if isinstance(sources, Texts):
        if field is not None and sources.field is not None:
            raise ValueError(f"field={field!r} must be None, because Texts(...) has field={sources.field!r} already")
        return sources if field is None else Texts(sources.texts, field)
    if isinstance(sources, str | PathLike):
        return None
    if isinstance(sources, list | tuple) and all(isinstance(source, str | PathLike) for source in sources):
        return None
    return Texts(sources, field)


def as_file_list(sources: TextSources) -> Any:
    """Return an iterator of paths, as from ``Path.glob``, as a list; return other sources unchanged."""
    if not isinstance(sources, Iterator) or hasattr(sources, "__arrow_c_stream__"):
        return sources
    # Only the first element of a generator is read, to find its type, and put back.
    first = list(islice(sources, 1))
    if first and isinstance(first[0], PathLike):
        return [*first, *sources]
    return chain(first, sources)


def open_text(
    sources: TextSources,
    read_options: ReadOptions,
    *,
    as_sentences: bool = False,
    is_ids: bool = False,
    id_field: str | None = None,
) -> TextInput:
    """Return the text input of sources, which are files or texts in memory; only sizes and headers are read."""
    read_options = read_options.validate()
    unit = read_options.unit
    by_lines = as_sentences and unit in (None, "line")
    sources = as_file_list(sources)
    texts = as_texts(sources, read_options.field)
    if texts is None:
        if as_sentences and unit not in ("file", "record"):
            unit = "line" if read_options.field is None and unit != "field" else "field"
        ranges = split_files(sources, read_options._replace(unit=unit), is_ids=is_ids)  # type: ignore[arg-type]
        return TextInput(read_options, ranges, None, by_lines)
    unit = None if as_sentences and unit != "file" else unit
    for name in ("unit", "encoding", "delimiter", "format"):
        value = unit if name == "unit" else getattr(read_options, name)
        if value is not None:
            raise ValueError(f"{name}={value!r} must be None for texts in memory: it is an option of files")
    return TextInput(read_options, [], texts, by_lines, id_field)


def add_read_counts(writer: StoreWriter, size_limit: DocumentSizeLimit) -> StoreWriter:
    """Return the writer with all read counts in its provenance; warn about long documents."""
    path = f"{writer.scratch}/{COUNTS}"
    records = [writer.location.read_attributes(f"{path}/{name}") for name in writer.location.list_names(path)]
    counts = ReadCounts.merge(filter(None, records))
    if not counts.totals:
        return writer
    call_record: dict[str, Any] = dict(sorted(counts.totals.items()))
    if counts.n_long:
        warn_long_documents(size_limit, counts, stacklevel=4)
        call_record["long_documents_at"] = counts.positions
    # The counts of an append belong to its own record.
    if writer.existing_blocks:
        *earlier_appends, last_append = writer.provenance["appended"]
        return writer._replace(
            provenance={**writer.provenance, "appended": [*earlier_appends, {**last_append, **call_record}]}
        )
    return writer._replace(provenance={**writer.provenance, **call_record})


def build_blocks(
    ranges: Sequence[S],
    writer: StoreWriter,
    read: Callable[[S], Iterable[C]],
    write: Callable[..., B],
    find: Callable[[str], B | None],
    *,
    name: str,
) -> list[B]:
    """Write the incomplete blocks of all byte ranges, one task per range; return the infos of all blocks."""
    target = writer.drop_history()

    def build_range(item: tuple[int, S]) -> list[B]:
        """Write the incomplete blocks of one byte range; return the infos of all its blocks."""
        number, file_range = item
        # Blocks are written in order, so the complete ones are first.
        complete_blocks: list[B] = []
        while (block := find(target.name(number, len(complete_blocks)))) is not None:
            complete_blocks.append(block)
        if complete_blocks and complete_blocks[-1].last:
            return complete_blocks
        blocks: list[B] = []
        # Invariant: `blocks` has the infos of blocks 0 to len(blocks) - 1 of this range.
        for content, is_last in _mark_last(read(file_range)):
            block_number = len(blocks)  # text has no index, so complete blocks are read again, but not written
            if block_number < len(complete_blocks):
                blocks.append(complete_blocks[block_number])
            else:
                trim_malloc()
                blocks.append(write(target.name(number, block_number), content, is_last=is_last))
        return blocks

    expect_passes(1)
    with count_as_pass(is_pass=True):
        n_bytes = get_total_bytes(ranges)
        block_lists = run_tasks(build_range, list(enumerate(ranges)), name=name, n_bytes=n_bytes)
    return [block for range_blocks in block_lists for block in range_blocks]


def _mark_last(contents: Iterable[C]) -> Iterator[tuple[C, bool]]:
    """Yield each item and whether it is the last one."""
    pending: list[C] = []  # emptied before the next item is made, so that only one is in memory
    for content in contents:
        if pending:
            yield pending.pop(), False
        pending.append(content)
    if pending:
        yield pending.pop(), True


def trim_malloc() -> None:
    """Return memory of freed small allocations to the operating system with glibc's ``malloc_trim``."""
    if sys.platform.startswith("linux") and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)
