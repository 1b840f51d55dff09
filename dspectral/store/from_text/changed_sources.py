"""Files that change while a store is built of them, or before a build that was stopped goes on.

Each block's mark keeps a digest of the text behind it. A file whose stamp is another one than when the build began is
read again as far as it was read: if its text is the same, the build goes on; if not, it is refused. So no store is
half of the old text and half of the new one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, Protocol

import numpy as np

from dspectral.engine import run_tasks
from dspectral.store.arrays import Location, StoreError
from dspectral.store.digests import digest_of
from dspectral.store.draft import Draft
from dspectral.store.from_text.sources import Span, stamps_of
from dspectral.store.from_text.stamps import fresh_stamp, same_for_now, tells_content
from dspectral.store.plans import STAMPS, changed_text
from dspectral.store.secrets import without_secrets

TEXT = "text"
"""Attribute of a mark: digest of the text behind a block, or list of those behind the blocks of a span."""
Read = Callable[[Any], Iterable[Any]]


class Text(Protocol):
    """Text behind a block: lines, or documents with their offsets."""

    @property
    def data(self) -> Any:
        """Return its bytes."""
        ...


def text_digest(content: Text) -> int:
    """Return a digest of the text behind a block."""
    data, offsets = np.frombuffer(content.data, dtype=np.uint8), getattr(content, "offsets", None)
    return digest_of(data) if offsets is None else digest_of(data, offsets)


def read_steady(span: Span, *, read: Read, options: dict[str, Any]) -> Iterator[Any]:
    """Yield what is read of a span, and refuse it if one of its files changes meanwhile."""
    # A local file is compared with itself on this machine, which may have a copy of its own.
    urls = (span.url, *span.also)
    begun = {
        url: fresh_stamp(url, options) if stamp.startswith("file") else stamp
        for url, stamp in zip(urls, span.stamps, strict=False)
    }
    yield from read(span)
    # Whoever takes a block one behind, to know the last one, has not written that when this is asked.
    for url, stamp in begun.items():
        if not same_for_now(stamp, fresh_stamp(url, options)):
            raise StoreError(
                f"{url} has changed while it was read: call again when nothing writes to it any more"
            )


def hold_to_earlier(draft: Draft, spans: Sequence[Span], read: Read) -> None:
    """Refuse files that are no longer what an earlier call has read, and keep the stamps of those that are."""
    if not spans:
        return  # texts that are no files have digests of their own
    stamps, path = stamps_of(spans), f"{draft.scratch}/{STAMPS}"
    known = (draft.where.attributes(path) or {}).get("stamps") if draft.resumed else None
    if known is not None:  # an older version kept none
        _compare(
            draft, spans, read, {url for url, stamp in stamps.items() if not _trusted(known, url, stamp)}
        )
    if known != stamps:
        draft.where.mark(path, {"stamps": stamps})


def hold_to_plan(draft: Draft, spans: Sequence[Span], read: Read, options: dict[str, Any]) -> None:
    """Refuse to finish a store of local files that have changed since they were planned."""
    # Files elsewhere have been compared with the plan by the tasks that read them.
    local = {url: stamp for url, stamp in stamps_of(spans).items() if stamp.startswith("file")}
    _compare(draft, spans, read, {url for url, stamp in local.items() if fresh_stamp(url, options) != stamp})


def _names(span: Span) -> list[str]:
    names: list[str] = without_secrets([span.url, *span.also])
    return names


def _trusted(known: dict[str, str], url: str, stamp: str) -> bool:
    return tells_content(stamp) and known.get(url) == stamp


def _compare(draft: Draft, spans: Sequence[Span], read: Read, suspects: set[str]) -> None:
    """Read again what was read of some files."""
    if not suspects:
        return
    again = [(i, span) for i, span in enumerate(spans) if not suspects.isdisjoint(_names(span))]
    compare = partial(_is_as_read, where=draft.where, draft=draft.for_tasks(), read=read)
    same = run_tasks(compare, again, name="compare-text")
    changed = [span for (_, span), is_same in zip(again, same, strict=True) if not is_same]
    named = {url: None for span in changed for url in _names(span) if url in suspects}
    if named:
        raise changed_text(draft.where, list(named))


def _is_as_read(item: tuple[int, Span], *, where: Location, draft: Draft, read: Read) -> bool:
    """Report whether the text of a span is the one that marks were made of."""
    number, span = item
    counted = (where.attributes(f"{draft.scratch}/{number:06d}") or {}).get(TEXT, [])
    blocks, is_whole = _of_blocks(where, draft, number)
    if not counted and not blocks:
        return True  # nothing was read
    if counted and counted[: len(blocks)] != blocks:
        return False  # it changed between the two passes
    expected, is_whole = (counted, True) if counted else (blocks, is_whole)
    found = (text_digest(content) for content in read(span))
    try:
        if is_whole:
            return all(one == other for one, other in zip_longest(expected, found))
        # In this order: nothing is read behind the last block that is known.
        return all(one == next(found, None) for one in expected)
    except ValueError:  # what was read before cannot be read now
        return False


def _of_blocks(where: Location, draft: Draft, number: int) -> tuple[list[int | None], bool]:
    """Return the digests behind the finished blocks of a span, and whether these are all of its blocks."""
    digests: list[int | None] = []
    while mark := where.attributes(draft.name(number, len(digests))):
        digests.append(mark.get(TEXT, -1))  # an older version kept none: no text is known to be the same
        if mark.get("last"):
            return digests, True
    return digests, False
