"""The blocks of a store, written span by span of its text: one task a span, but for what is finished."""

import ctypes
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol, TypeVar

from dspectral.engine import expect_passes, numbered, run_tasks
from dspectral.store.draft import Draft
from dspectral.store.from_text.sources import size_of

S = TypeVar("S")
C = TypeVar("C")
B = TypeVar("B", bound="Marked")


class Marked(Protocol):
    """The content of a block's finished mark."""

    @property
    def last(self) -> bool:
        """Whether it is the last block of its span of text."""
        ...


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
    work = partial(_build_span, draft=draft.for_tasks(), read=read, write=write, find=find)
    expect_passes(1)
    with numbered(is_pass=True):
        done = run_tasks(work, list(enumerate(spans)), name=name, n_bytes=size_of(spans))
    return [block for of_span in done for block in of_span]


def _build_span(
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
    done = _finished_parts(draft, number, find)
    if done and done[-1].last:
        return done
    blocks: list[B] = []
    # Invariant: `blocks` holds the marks of parts 0 to len(blocks) - 1, whoever wrote them.
    for content, last in _with_last(read(span)):
        part = len(blocks)  # finished blocks are read again, as text has no index, but not written again
        known = done[part] if part < len(done) else None
        if known is None:
            # Reading has freed many small pieces, and so have earlier tasks. The large arrays of what follows do not
            # fit in their room, which would be resident beside them, and grow from block to block.
            give_back()
            known = write(draft.name(number, part), content, last=last)
        blocks.append(known)
    return blocks


def _with_last(contents: Iterable[C]) -> Iterator[tuple[C, bool]]:
    """Yield contents one behind, and whether each is the last."""
    waiting: list[C] = []
    for content in contents:
        if waiting:
            yield waiting.pop(), False
        waiting.append(content)
    if waiting:
        yield waiting.pop(), True


def _finished_parts(draft: Draft, number: int, find: Callable[[str], B | None]) -> list[B]:
    parts: list[B] = []
    while (block := find(draft.name(number, len(parts)))) is not None:
        parts.append(block)
    return parts


def give_back() -> None:
    """Give memory that was freed back to the system, where the C library can.

    Otherwise it is kept as it was cut: it would hide what grows next, and add to arrays too large for what is kept.
    """
    if sys.platform.startswith("linux") and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)
