"""Events in words, for the log."""

import re
from collections.abc import Callable
from typing import Any

from dspectral.engine.events import (
    BlocksDone,
    Certified,
    Compiled,
    Compiling,
    Event,
    FitBegan,
    FitEnded,
    Merged,
    PassBegan,
    PassEnded,
    Redone,
)
from dspectral.engine.fault_events import Retried, Waiting

BLOCK = re.compile(r"\('(?P<name>.*)-block-[0-9a-f]{32}', (?P<number>\d+)")
MERGE = re.compile(r"merge-level-(?P<level>\d+)-[0-9a-f]{32}")
TASK = re.compile(r"\('(?P<name>.*)-[0-9a-f]{32}', (?P<number>\d+)")


def sentence_of(event: Event) -> str:
    """Return an event in one line.

    >>> sentence_of(Certified("f1", "TruncatedSVD", 3.5, 0.0125))
    'TruncatedSVD: certificate 3.5 (relative 0.0125)'
    """
    return _SENTENCES[type(event)](event)


def place_of(number: int | None, n_passes: int | None) -> str:
    """Return which pass of how many, as far as that is known.

    >>> place_of(2, 4), place_of(2, None), place_of(None, 4)
    ('pass 2 of 4', 'pass 2', '')
    """
    if number is None:
        return ""
    return f"pass {number}" if n_passes is None else f"pass {number} of {n_passes}"


def place_of_task(key: str) -> str:
    """Return what a task does, from its key.

    >>> place_of_task("('sketch-block-0123456789abcdef0123456789abcdef', 3, 0)")
    'block 3 of sketch'
    >>> place_of_task("('merge-level-2-0123456789abcdef0123456789abcdef', 7)")
    'a merge on level 2'
    >>> place_of_task("('documents-0123456789abcdef0123456789abcdef', 7)")
    'task 7 of documents'
    """
    if found := MERGE.search(key):
        return f"a merge on level {found['level']}"
    if found := BLOCK.search(key):
        return f"block {found['number']} of {found['name']}"
    if found := TASK.search(key):
        return f"task {found['number']} of {found['name']}"
    return f"the task {key}"


def _fit_began(event: FitBegan) -> str:
    return f"{event.name} begins"


def _pass_began(event: PassBegan) -> str:
    place = place_of(event.number, event.n_passes)
    kept = f"{event.n_blocks} blocks" + (f" ({event.n_kept} kept)" if event.n_kept else "")
    words = ", ".join(part for part in (event.name, place, kept) if part)
    merges = f", {event.n_levels} levels of merges" if event.n_levels else ""
    rows = "" if event.n_rows is None else f", {event.n_rows} rows"
    return (f"{event.of}: " if event.of else "") + words + rows + merges


def _blocks_done(event: BlocksDone) -> str:
    return f"{event.n_blocks} blocks and {event.n_merges} merges are done"


def _merged(event: Merged) -> str:
    bound = "" if event.relative is None else f", relative certificate {event.relative:.3g}"
    return f"merged on level {event.level}: {event.summary_bytes} bytes{bound}"


def _redone(event: Redone) -> str:
    return f"{event.n_tasks} tasks were lost and run again; {event.lost_workers} workers are gone"


def _pass_ended(event: PassEnded) -> str:
    return f"{event.name} took {event.seconds:.2f} s" + _failure(event.error)


def _certified(event: Certified) -> str:
    return f"{event.name}: certificate {event.absolute:.4g} (relative {event.relative:.3g})"


def _fit_ended(event: FitEnded) -> str:
    passes = "1 pass" if event.n_passes == 1 else f"{event.n_passes} passes"
    return f"{event.name} took {event.seconds:.2f} s, {passes}" + _failure(event.error)


def _compiling(event: Compiling) -> str:
    return f"compiling {event.loop} (once, kept for later runs)"


def _compiled(event: Compiled) -> str:
    return f"compiled {event.loop} in {event.seconds:.2f} s"


def _retried(event: Retried) -> str:
    again = f"is tried again in {event.pause:g} s (attempt {event.attempt} failed: {event.error})"
    return f"{event.what} {again}"


def _waiting(event: Waiting) -> str:
    return event.sentence


def _failure(error: str) -> str:
    return f", ended by {error}" if error else ""


_SENTENCES: dict[type, Callable[[Any], str]] = {
    FitBegan: _fit_began,
    PassBegan: _pass_began,
    BlocksDone: _blocks_done,
    Merged: _merged,
    Redone: _redone,
    PassEnded: _pass_ended,
    Certified: _certified,
    FitEnded: _fit_ended,
    Compiling: _compiling,
    Compiled: _compiled,
    Retried: _retried,
    Waiting: _waiting,
}
