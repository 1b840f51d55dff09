"""The text that stores and corpora are built of: files or texts, in the same words for both."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from dspectral.engine import scratch_of_plan
from dspectral.store.checks import ERRORS, check_name, check_size
from dspectral.store.draft import Draft
from dspectral.store.from_text.lines import lines_of
from dspectral.store.from_text.long_documents import (
    LONGEST,
    LongDocuments,
    Longest,
    note,
    with_long_documents,
)
from dspectral.store.from_text.readers import read_span
from dspectral.store.from_text.sources import (
    UNITS,
    Span,
    plan_spans,
    read_steady,
    refuse_changed,
    stamps_of,
)
from dspectral.store.from_text.texts import (
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


class Reading(NamedTuple):
    """How text is read: the words that all builders share.

    `unit, field, encoding, delimiter`: as for :func:`dspectral.build_store`; `block_bytes`: most bytes of
    text behind a block; `errors`: treatment of bytes that cannot be decoded; `options`: options of the files'
    file systems; `longest`: how long a document may be, and what becomes of a longer one.
    """

    unit: str | None
    field: str | None
    encoding: str | None
    delimiter: str | None
    block_bytes: int
    errors: str
    options: dict[str, Any] | None
    longest: Longest = LONGEST

    def checked(self) -> "Reading":
        """Return it with its block size as a plain number."""
        check_name("errors", self.errors, ERRORS)
        return self._replace(block_bytes=check_size("block_bytes", self.block_bytes))


class PlannedText(NamedTuple):
    """Text that is to be read.

    `reading`: how it is read; `spans`: pieces of files; `texts`: texts that are no files; `by_lines`: whether
    each line of a document is one by itself.
    """

    reading: Reading
    spans: list[Span]
    texts: Texts | None
    by_lines: bool

    def describe(self) -> list[dict[str, Any]]:
        """Return where the text is from, as JSON takes it."""
        if self.texts is None:
            return [span.describe() for span in self.spans]
        return [{"texts": "in memory"}]

    @property
    def named(self) -> str:
        """Where the text is from, for messages."""
        urls = ", ".join(span.url for span in self.spans) or "[]"
        return urls if self.texts is None else "the texts given"

    def opened(self, draft: Draft) -> tuple[list[Span] | list[KeptBlock], Read]:
        """Return pieces of text that are read in parallel, and the function that reads one."""
        reading = self.reading
        counted = reading.longest.treatment != "error"
        # Texts are kept before the first pass, because a generator cannot be read for a second one.
        if self.texts is not None:
            if scratch_of_plan():
                raise ValueError(
                    "the sources are texts in memory, which are read once: only files can be planned"
                )
            pieces: Any = keep_texts(draft, self.texts, reading.block_bytes, reading.longest)
            read: Any = partial(read_kept, where=draft.where)
            read = partial(_read_counted, read=read, draft=draft.for_tasks()) if counted else read
        else:
            pieces = self.spans
            read = partial(
                read_span,
                block_bytes=reading.block_bytes,
                errors=reading.errors,
                storage_options=reading.options,
                longest=reading.longest,
            )
            read = partial(_read_counted, read=read, draft=draft.for_tasks()) if counted else read
            read = partial(read_steady, read=read, options=reading.options or {})
        return pieces, partial(_read_lines, read=read) if self.by_lines else read

    @property
    def stamps(self) -> dict[str, str]:
        """Stamp of each file."""
        return stamps_of(self.spans)

    def read_whole(self, draft: Draft) -> Draft:
        """Refuse files that have changed meanwhile; return the draft with its too long documents, and warn of them."""
        refuse_changed(draft.where, self.spans, self.reading.options or {})
        return with_long_documents(draft, self.reading.longest)


def plan_text(sources: TextSources, reading: Reading, *, sentences: bool = False) -> PlannedText:
    """Tell files from texts; nothing is read but sizes, headers and the footers of Parquet files.

    Of sentences each line is one, of a file as of a field or a text, unless the unit says that files or fields are.
    """
    reading, unit = reading.checked(), reading.unit
    if unit is not None:
        check_name("unit", unit, UNITS)
    by_lines = sentences and unit in (None, "line")
    sources = named_files(sources)
    texts = texts_in(sources, reading.field)
    if texts is None:
        if sentences and unit != "file":
            unit = "line" if reading.field is None and unit != "field" else "field"
        spans = plan_spans(
            sources,  # type: ignore[arg-type]
            unit=unit,
            field=reading.field,
            encoding=reading.encoding,
            delimiter=reading.delimiter,
            span_bytes=reading.block_bytes,
            storage_options=reading.options,
        )
        return PlannedText(reading, spans, None, by_lines)
    unit = None if sentences and unit != "file" else unit
    for name, value in (("unit", unit), ("encoding", reading.encoding), ("delimiter", reading.delimiter)):
        if value is not None:
            raise ValueError(
                f"{name} is {value!r}, but it is for files: texts in memory are documents already"
            )
    return PlannedText(reading, [], texts, by_lines)


def _read_counted(
    piece: Span | KeptBlock, *, read: Callable[..., Iterable[Documents]], draft: Draft
) -> Iterator[Documents]:
    """Yield the documents of a piece, and write down how many of them were too long before the last block is known."""
    found = LongDocuments()
    yield from read(piece, found=found)
    note(draft, piece, found)


def _read_lines(piece: Span | KeptBlock, *, read: Read) -> Iterator[Documents]:
    for documents in read(piece):
        yield lines_of(documents)
