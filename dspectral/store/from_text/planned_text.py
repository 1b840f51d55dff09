"""The text that stores and corpora are built of, files or texts, and their blocks, written span by span."""

import ctypes
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

from dspectral.engine import expect_passes, is_dry_run, numbered, run_tasks
from dspectral.store.blocks import BlockInfo
from dspectral.store.corpus import SentenceBlock
from dspectral.store.draft import Draft, waiting_threads
from dspectral.store.from_text.lines import SHOWN, Longest, ReadCounts, Reading, lines_of, warn_of
from dspectral.store.from_text.readers import read_span
from dspectral.store.from_text.sources import Span, plan_spans, refuse_changed, size_of, stamps_of
from dspectral.store.from_text.texts import (
    COUNTS,
    KeptBlock,
    Texts,
    TextSources,
    keep_texts,
    named_files,
    read_kept,
    texts_in,
)
from dspectral.types import Documents

Read = Callable[[Any], Iterable[Documents]]
S = TypeVar("S")
C = TypeVar("C")
B = TypeVar("B", bound=BlockInfo | SentenceBlock)


class PlannedText(NamedTuple):
    """Text that is to be read: pieces of files and texts that are no files; each line is a text where ``by_lines``.

    `id_field`: field of the ids of texts that are no files.
    """

    reading: Reading
    spans: list[Span]
    texts: Texts | None
    by_lines: bool
    id_field: str | None = None

    def describe(self) -> list[dict[str, Any]]:
        """Return where the text is from, as JSON takes it."""
        if self.texts is None:
            return [span.describe() for span in self.spans]
        return [{"texts": "in memory"}]

    @property
    def named(self) -> str:
        """The sources of the text, for messages."""
        urls = ", ".join(span.url for span in self.spans) or "[]"
        return urls if self.texts is None else "the texts given"

    def opened(self, draft: Draft) -> tuple[list[Span] | list[KeptBlock], Read]:
        """Return pieces of text that are read in parallel, and the function that reads one."""
        reading = self.reading
        # Texts are kept before the first pass, because a generator cannot be read for a second one.
        if self.texts is not None:
            if is_dry_run():
                raise ValueError(
                    "the sources are texts in memory, which are read once: only files can be planned"
                )
            pieces: Any = keep_texts(draft, self.texts, reading, self.id_field)
            of_piece: Any = partial(read_kept, where=draft.where)
        else:
            pieces, of_piece = self.spans, read_span
        read: Any = partial(of_piece, reading=reading)
        if self.counts:
            read = partial(_read_counted, read=of_piece, reading=reading, draft=draft.for_tasks())
        return pieces, partial(_read_lines, read=read) if self.by_lines else read

    @property
    def counts(self) -> bool:
        """Whether long documents, blank lines or missing texts may be read on."""
        records = any(span.format not in ("txt", "parquet") for span in self.spans)
        return records or {self.reading.longest.treatment, self.reading.if_missing} != {"error"}

    @property
    def stamps(self) -> dict[str, str]:
        """Stamp of each file."""
        return stamps_of(self.spans)

    def read_whole(self, draft: Draft) -> Draft:
        """Refuse files that have changed meanwhile; return the draft with what was read on, and warn of long ones."""
        refuse_changed(draft.where, self.spans, self.reading.options)
        return with_counts(draft, self.reading.longest) if self.counts else draft


def plan_text(
    sources: TextSources,
    reading: Reading,
    *,
    sentences: bool = False,
    ids: bool = False,
    id_field: str | None = None,
) -> PlannedText:
    """Tell files from texts, sentences by lines unless the unit says otherwise; only sizes and headers are read."""
    reading = reading.checked()
    unit = reading.unit
    by_lines = sentences and unit in (None, "line")
    sources = named_files(sources)
    texts = texts_in(sources, reading.field)
    if texts is None:
        if sentences and unit != "file":
            unit = "line" if reading.field is None and unit != "field" else "field"
        spans = plan_spans(sources, reading._replace(unit=unit), ids=ids)  # type: ignore[arg-type]
        return PlannedText(reading, spans, None, by_lines)
    unit = None if sentences and unit != "file" else unit
    for name in ("unit", "encoding", "delimiter", "format"):
        value = unit if name == "unit" else getattr(reading, name)
        if value is not None:
            raise ValueError(
                f"{name} is {value!r}, but it is for files: texts in memory are documents already"
            )
    return PlannedText(reading, [], texts, by_lines, id_field)


def _read_counted(
    piece: Span | KeptBlock, *, read: Callable[..., Iterable[Documents]], reading: Reading, draft: Draft
) -> Iterator[Documents]:
    """Yield the documents of a piece, and write down what was read on before the last block is known."""
    found = ReadCounts()
    yield from read(piece, reading.counting(found))
    note(draft, piece, found)


def _read_lines(piece: Span | KeptBlock, *, read: Read) -> Iterator[Documents]:
    for documents in read(piece):
        yield lines_of(documents)


def note(draft: Draft, piece: object, found: ReadCounts) -> None:
    """Write into the scratch of a store what of a piece of text was read on: long documents, blank lines."""
    if found.count or found.others:
        name = sha256(repr(piece).encode()).hexdigest()[:32]
        mark = {"count": found.count, "places": found.places, "others": found.others}
        draft.where.mark(f"{draft.scratch}/{COUNTS}/{name}", mark)


def with_counts(draft: Draft, longest: Longest) -> Draft:
    """Return the draft with the numbers of what was read on in its provenance, and warn of long documents."""
    path = f"{draft.scratch}/{COUNTS}"
    marks = [draft.where.attributes(f"{path}/{name}") for name in draft.where.names(path)]
    count = sum(mark["count"] for mark in marks if mark)
    totals = Counter[str]()
    for mark in marks:
        totals.update((mark or {}).get("others", {}))
    if not count and not totals:
        return draft
    of_call: dict[str, Any] = dict(sorted(totals.items()))
    if count:
        positions = sorted(position for mark in marks if mark for position in mark["places"])[:SHOWN]
        warn_of(longest, count, positions, stacklevel=4)
        of_call |= {"n_long_documents": count, "long_documents_at": positions}
    # What an append skipped belongs to that append, and not to the store as it was.
    if draft.generation:
        *earlier, made = draft.provenance["appended"]
        return draft._replace(provenance={**draft.provenance, "appended": [*earlier, {**made, **of_call}]})
    return draft._replace(provenance={**draft.provenance, **of_call})


def build_spans(
    spans: Sequence[S],
    draft: Draft,
    read: Callable[[S], Iterable[C]],
    write: Callable[..., B],
    find: Callable[[str], B | None],
    *,
    name: str,
) -> list[B]:
    """Write the blocks of all spans of text, one task a span, but for those that are finished."""
    work = partial(_build_range, draft=draft.for_tasks(), read=read, write=write, find=find)
    expect_passes(1)
    with numbered(is_pass=True), waiting_threads() as threads:
        done = run_tasks(work, list(enumerate(spans)), name=name, n_bytes=size_of(spans), **threads)
    return [block for of_span in done for block in of_span]


def _build_range(
    item: tuple[int, S],
    *,
    draft: Draft,
    read: Callable[[S], Iterable[C]],
    write: Callable[..., B],
    find: Callable[[str], B | None],
) -> list[B]:
    """Write the blocks of one numbered span that are not finished; return the marks of all."""
    number, span = item
    # Blocks of a span are written in order, so that the finished ones are the first ones.
    done: list[B] = []
    while (block := find(draft.name(number, len(done)))) is not None:
        done.append(block)
    if done and done[-1].last:
        return done
    blocks: list[B] = []
    # Invariant: `blocks` holds the marks of parts 0 to len(blocks) - 1, whoever wrote them.
    for content, last in _mark_last(read(span)):
        part = len(blocks)  # finished blocks are read again, as text has no index, but not written again
        known = done[part] if part < len(done) else None
        if known is None:
            give_back()
            known = write(draft.name(number, part), content, last=last)
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


def give_back() -> None:
    """Give memory that was freed back to the system, where the C library can and would keep it.

    Reading frees many small pieces, whose room the large arrays of what follows cannot use.
    """
    if sys.platform.startswith("linux") and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)
