"""Events of fits, builds and passes: what they hold, their lines in the log, and who gets them.

An event is a named tuple of plain values, and ``str(event)`` is its line in the log. It goes to every listener of the
thread in which it happens (:func:`listening`) and of all threads; to Python's ``logging``, under ``dspectral`` (DEBUG
for blocks and merges, else INFO); and, if somebody listens or ``dspectral.dashboard`` is true, but for blocks to the
event log of the scheduler of a ``dask.distributed`` client, without waiting: sort those of a ``sender`` by ``order``.

A fit emits, in this order: :class:`FitBegan`; for each pass :class:`PassBegan`, any number of :class:`BlocksDone`,
:class:`Merged` and :class:`Redone`, and :class:`PassEnded`; then :class:`Certified` if it has a certificate; and
:class:`FitEnded`, also after an error. The others may stand anywhere between them.
"""

import itertools
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeAlias

Client: TypeAlias = Any
"""A client of ``dask.distributed``; what it returns is to be awaited where it is called in its own loop."""
Scheduler: TypeAlias = Any
"""The scheduler of a cluster, in whose process a function asks it."""
TOPIC = "dspectral"
"""Topic of the messages in the event log of a scheduler."""
LOGGER = logging.getLogger("dspectral")
LOGGER.addHandler(logging.NullHandler())


class FitBegan(NamedTuple):
    """A fit or a build, called ``name``, begins; ``parent`` is the token of the fit that called this one."""

    fit: str
    name: str
    parent: str
    n_passes: int | None

    def __str__(self) -> str:
        return f"{self.name} begins"


class PassBegan(NamedTuple):
    """Pass ``number`` of the fit ``of`` begins, None for what reads no data.

    `block_group, merge_groups`: task groups of the scheduler, of merges one a level; `n_kept, n_kept_merges`: tasks
    that need not run; `n_joined`: number of blocks of the data, where tasks read several.
    """

    run: str
    name: str
    block_group: str
    n_blocks: int
    merge_groups: tuple[str, ...] = ()
    n_merges: int = 0
    fan_in: int = 0
    n_rows: int | None = None
    n_bytes: int | None = None
    n_kept: int = 0
    n_kept_merges: int = 0
    n_joined: int = 0
    fit: str = ""
    of: str = ""
    number: int | None = None
    n_passes: int | None = None

    @property
    def n_levels(self) -> int:
        """Depth of the tree of merges."""
        return len(self.merge_groups)

    def __str__(self) -> str:
        kept = f"{self.n_blocks} blocks" + (f" ({self.n_kept} kept)" if self.n_kept else "")
        parts = [self.name, pass_label(self.number, self.n_passes), kept]
        parts += [] if self.n_rows is None else [f"{self.n_rows} rows"]
        parts += [f"{self.n_levels} levels of merges"] if self.n_levels else []
        return (f"{self.of}: " if self.of else "") + ", ".join(filter(None, parts))


class BlocksDone(NamedTuple):
    """So many blocks and merges of a pass are done."""

    fit: str
    run: str
    n_blocks: int
    n_merges: int

    def __str__(self) -> str:
        return f"{self.n_blocks} blocks and {self.n_merges} merges are done"


class Merged(NamedTuple):
    """A merge on a level from 1 is done, with the bound on the error of this summary where it has one."""

    fit: str
    run: str
    level: int
    summary_bytes: int
    n_rows: int | None
    absolute: float | None
    relative: float | None

    def __str__(self) -> str:
        bound = "" if self.relative is None else f", relative certificate {self.relative:.3g}"
        return f"merged on level {self.level}: {self.summary_bytes} bytes{bound}"


class Redone(NamedTuple):
    """Tasks that were done before must run again; ``lost_workers`` have left since the pass began."""

    fit: str
    run: str
    n_tasks: int
    lost_workers: int

    def __str__(self) -> str:
        return f"{self.n_tasks} tasks were lost and run again; {self.lost_workers} workers are gone"


class PassEnded(NamedTuple):
    """A pass is over after so many seconds; ``error`` is the name of the exception that ended it, or empty."""

    fit: str
    run: str
    name: str
    seconds: float
    error: str

    def __str__(self) -> str:
        return f"{self.name} took {self.seconds:.2f} s" + _failure(self.error)


class Certified(NamedTuple):
    """The certificate is known: a bound on the norm of ``A'A - B'B``, and its share of A's squared norm."""

    fit: str
    name: str
    absolute: float
    relative: float

    def __str__(self) -> str:
        return f"{self.name}: certificate {self.absolute:.4g} (relative {self.relative:.3g})"


class FitEnded(NamedTuple):
    """A fit or a build is over; ``error`` is the name of the exception that ended it, or empty."""

    fit: str
    name: str
    n_passes: int
    seconds: float
    error: str

    def __str__(self) -> str:
        passes = "1 pass" if self.n_passes == 1 else f"{self.n_passes} passes"
        return f"{self.name} took {self.seconds:.2f} s, {passes}" + _failure(self.error)


class Compiling(NamedTuple):
    """Numba begins to compile a loop, for which no machine code was on disk."""

    loop: str
    module: str

    def __str__(self) -> str:
        return f"compiling {self.loop} (once, kept for later runs)"


class Compiled(NamedTuple):
    """A loop is compiled, with all that it calls."""

    loop: str
    module: str
    seconds: float

    def __str__(self) -> str:
        return f"compiled {self.loop} in {self.seconds:.2f} s"


class Retried(NamedTuple):
    """A read, a write or a task failed in a way that may pass, and is tried again after a pause in seconds."""

    what: str
    attempt: int
    pause: float
    error: str

    def __str__(self) -> str:
        again = f"is tried again in {self.pause:g} s (attempt {self.attempt} failed: {self.error})"
        return f"{self.what} {again}"


class Waiting(NamedTuple):
    """A pass on a cluster has waited for so many seconds, for a ``why`` that ``Reason`` names."""

    fit: str
    run: str
    why: str
    seconds: float
    sentence: str

    def __str__(self) -> str:
        return self.sentence


Event: TypeAlias = (
    FitBegan
    | PassBegan
    | BlocksDone
    | Merged
    | Redone
    | PassEnded
    | Certified
    | FitEnded
    | Compiling
    | Compiled
    | Retried
    | Waiting
)
Listener: TypeAlias = Callable[[Event], object]
EVERYWHERE: list[Listener] = []
"""Listeners to what all threads emit; those to one thread are in its context."""
_ALL: list[Listener] = []
"""Those to one thread, too: everybody gets compilation, which happens once for all threads."""
_NUMBERS = itertools.count()
SENDER = f"{socket.gethostname()}:{os.getpid()}"
"""This process, whose listeners have had an event themselves when its message comes back."""


@contextmanager
def registered(listener: Listener, *, everywhere: bool) -> Iterator[None]:
    """Register a listener of this process in the body."""
    lists = (_ALL, EVERYWHERE) if everywhere else (_ALL,)
    for one in lists:
        one.append(listener)
    try:
        yield
    finally:
        for one in lists:
            one.remove(listener)


def worker_of_task() -> Any:
    """Return the worker whose task runs in this thread, or None."""
    # Looked up by name: a process that has not loaded it is no worker, and need not load it for this.
    module = sys.modules.get("distributed.worker")
    with suppress(ValueError):  # it is raised where no task of a worker runs
        return None if module is None else module.get_worker()
    return None


def emit_from_worker(event: Event) -> None:
    """Send an event from a task of a cluster to its scheduler, without waiting."""
    worker = worker_of_task()
    if worker is not None:
        worker.log_event(TOPIC, as_message(event))


def emit_to_all(event: Event) -> None:
    """Give an event to all listeners of this process, and from a task of a cluster to its scheduler.

    A thread that runs a task knows nothing of the thread that waits for it.
    """
    log_and_call(event, tuple(_ALL))
    emit_from_worker(event)


def emit_compiling(loop: str, module: str, seconds: float | None) -> None:
    """Emit that a loop is compiled (``seconds`` is None), or was."""
    emit_to_all(Compiling(loop, module) if seconds is None else Compiled(loop, module, seconds))


def as_message(event: Event) -> dict[str, Any]:
    """Return an event as a dict that can be written as JSON, and sent."""
    fields = {
        key: list(value) if isinstance(value, tuple) else value for key, value in event._asdict().items()
    }
    kind = type(event).__name__
    return {"event": kind, **fields, "time": time.time(), "sender": SENDER, "order": next(_NUMBERS)}


def pass_label(number: int | None, n_passes: int | None) -> str:
    """Return which pass of how many, as far as that is known."""
    if number is None:
        return ""
    return f"pass {number}" if n_passes is None else f"pass {number} of {n_passes}"


def _failure(error: str) -> str:
    return f", ended by {error}" if error else ""


def log_and_call(event: Event, listeners: tuple[Listener, ...]) -> None:
    """Give an event to the log and to listeners."""
    level = logging.DEBUG if isinstance(event, BlocksDone | Merged) else logging.INFO
    LOGGER.log(level, "%s", event)
    # Once each, in order: a listener may be there for its thread and for all.
    for listener in dict.fromkeys(listeners):
        try:
            listener(event)
        except Exception:
            LOGGER.exception("a listener failed at %s", type(event).__name__)


def send(client: Client, message: dict[str, Any]) -> None:
    """Hand a message to the client's own loop."""

    # The loop runs in a thread of its own: `add_callback` is the one call into it that other threads may make, and it
    # does not wait.
    async def hand_over() -> None:
        try:
            await client.scheduler.log_event(topic=TOPIC, msg=message)
        except Exception:  # a fit does not fail because nobody can be told of it
            LOGGER.debug("the scheduler did not take the event %s", message["event"], exc_info=True)

    with suppress(RuntimeError):  # the loop is closed
        client.loop.add_callback(hand_over)
