"""Events of fits, builds and passes: their fields, their log lines and their delivery to listeners.

An event is a named tuple of plain values, and ``str(event)`` is its log line. Each event goes to

- the listeners of its thread (:func:`event_listener`) and the listeners of all threads;
- Python's ``logging`` under the name ``dspectral``: DEBUG for blocks and merges, INFO for the others;
- the event log of the Dask scheduler, if there is a listener or ``dspectral.dashboard`` is true. :class:`BlocksDone`
  is not sent. Sending does not wait, so messages of one ``sender`` must be sorted by ``order``.

A fit emits :class:`FitStarted`; for each pass :class:`PassStarted`, any number of :class:`BlocksDone`,
:class:`SummariesMerged` and :class:`TasksRecomputed`, then :class:`PassEnded`; :class:`CertificateComputed` if it has
a certificate; and :class:`FitEnded`, also after an error. Other events may occur at any time.
"""

import itertools
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NamedTuple, TypeAlias

Client: TypeAlias = Any
"""A client of ``dask.distributed``, typed as Any because its methods return awaitables inside its own loop."""
Scheduler: TypeAlias = Any
"""The scheduler object that ``Client.run_on_scheduler`` passes to a function."""
TOPIC = "dspectral"
"""Topic of the events in the event log of a Dask scheduler."""
LOGGER = logging.getLogger("dspectral")
LOGGER.addHandler(logging.NullHandler())


class FitStarted(NamedTuple):
    """A fit or build started. `fit`: its token; `parent`: token of the enclosing fit, or empty."""

    fit: str
    name: str
    parent: str
    n_passes: int | None

    def __str__(self) -> str:
        return f"{self.name} started"


class PassStarted(NamedTuple):
    """A pass, or other work of a fit, started.

    `run`: token of the pass; `block_group, merge_groups`: Dask task groups of the blocks and of each level of merges;
    `n_blocks`: number of block tasks; `n_kept, n_kept_merges`: block and merge tasks whose summaries are read from
    checkpoints; `n_joined`: number of blocks if a task reads several, else 0; `fit, fit_name`: token and name of the
    fit; `number`: number of the pass in the fit, None for work that is not a pass; `finish`: name of the task of the
    summary of all rows, or empty.
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
    fit_name: str = ""
    number: int | None = None
    n_passes: int | None = None
    finish: str = ""

    @property
    def label(self) -> str:
        """Name of the pass with its number, if it has one."""
        return ", ".join(filter(None, (format_pass_number(self.number, self.n_passes), self.name)))

    @property
    def n_levels(self) -> int:
        """Number of levels of merges."""
        return len(self.merge_groups)

    def __str__(self) -> str:
        blocks = f"{self.n_blocks} blocks" + (f" ({self.n_kept} from checkpoints)" if self.n_kept else "")
        parts = [self.name, format_pass_number(self.number, self.n_passes), blocks]
        parts += [] if self.n_rows is None else [f"{self.n_rows} rows"]
        parts += [f"{self.n_levels} levels of merges"] if self.n_levels else []
        return (f"{self.fit_name}: " if self.fit_name else "") + ", ".join(filter(None, parts))


class BlocksDone(NamedTuple):
    """Numbers of block and merge tasks of a pass that are done."""

    fit: str
    run: str
    n_blocks: int
    n_merges: int

    def __str__(self) -> str:
        return f"{self.n_blocks} blocks and {self.n_merges} merges are done"


class SummariesMerged(NamedTuple):
    """A merge on `level` (1 is the lowest) is done; `absolute, relative`: error bound of its result, if it has one."""

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


class TasksRecomputed(NamedTuple):
    """Finished tasks must run again; `lost_workers`: number of workers that left since the pass started."""

    fit: str
    run: str
    n_tasks: int
    lost_workers: int

    def __str__(self) -> str:
        return f"{self.n_tasks} tasks were lost and run again; {self.lost_workers} workers left"


class PassEnded(NamedTuple):
    """A pass ended; `error`: name of the exception that ended it, or empty."""

    fit: str
    run: str
    name: str
    seconds: float
    error: str

    def __str__(self) -> str:
        return f"{self.name} took {self.seconds:.2f} s" + _format_failure(self.error)


class CertificateComputed(NamedTuple):
    """The certificate of a fit: a bound on the norm of ``A'A - B'B``, absolute and relative to A's squared norm."""

    fit: str
    name: str
    absolute: float
    relative: float

    def __str__(self) -> str:
        return f"{self.name}: certificate {self.absolute:.4g} (relative {self.relative:.3g})"


class FitEnded(NamedTuple):
    """A fit or build ended; `error`: name of the exception that ended it, or empty."""

    fit: str
    name: str
    n_passes: int
    seconds: float
    error: str

    def __str__(self) -> str:
        passes = "1 pass" if self.n_passes == 1 else f"{self.n_passes} passes"
        return f"{self.name} took {self.seconds:.2f} s, {passes}" + _format_failure(self.error)


class CompilationStarted(NamedTuple):
    """Numba starts to compile a loop that is not in its disk cache."""

    loop: str
    module: str

    def __str__(self) -> str:
        return f"compiling {self.loop} (once, then cached on disk)"


class CompilationEnded(NamedTuple):
    """A loop and the loops that it calls are compiled."""

    loop: str
    module: str
    seconds: float

    def __str__(self) -> str:
        return f"compiled {self.loop} in {self.seconds:.2f} s"


class TaskRetried(NamedTuple):
    """A read, write or task failed with a transient error and runs again after `pause` seconds."""

    what: str
    attempt: int
    pause: float
    error: str

    def __str__(self) -> str:
        return f"{self.what}: attempt {self.attempt} failed, next in {self.pause:g} s ({self.error})"


class PassStalled(NamedTuple):
    """No task of a pass on a cluster ended for `seconds`; `why`: short name of the reason (``StallReason``)."""

    fit: str
    run: str
    why: str
    seconds: float
    sentence: str

    def __str__(self) -> str:
        return self.sentence


Event: TypeAlias = (
    FitStarted
    | PassStarted
    | BlocksDone
    | SummariesMerged
    | TasksRecomputed
    | PassEnded
    | CertificateComputed
    | FitEnded
    | CompilationStarted
    | CompilationEnded
    | TaskRetried
    | PassStalled
)
Listener: TypeAlias = Callable[[Event], object]
GLOBAL_LISTENERS: list[Listener] = []
"""Listeners to the events of all threads. Listeners to one thread are in its context."""
_ALL_LISTENERS: list[Listener] = []
"""All listeners of the process: they get events that concern every thread, such as compilation."""
_NUMBERS = itertools.count()
SENDER = f"{socket.gethostname()}:{os.getpid()}"
"""Name of this process in messages. Its own messages come back from the scheduler and are skipped."""


@contextmanager
def register_listener(listener: Listener, *, everywhere: bool) -> Iterator[None]:
    """Register a listener for the duration of a ``with`` block."""
    lists = (_ALL_LISTENERS, GLOBAL_LISTENERS) if everywhere else (_ALL_LISTENERS,)
    for listeners in lists:
        listeners.append(listener)
    try:
        yield
    finally:
        for listeners in lists:
            listeners.remove(listener)


def get_current_worker() -> Any:
    """Return the Dask worker whose task runs in this thread, or None."""
    # Look up the module without importing it: a process that has not imported distributed is not a worker.
    module = sys.modules.get("distributed.worker")
    with suppress(ValueError):  # raised outside of a task
        return None if module is None else module.get_worker()
    return None


def emit_from_worker(event: Event) -> None:
    """Send an event from a task to the Dask scheduler, without waiting."""
    worker = get_current_worker()
    if worker is not None:
        worker.log_event(TOPIC, to_message(event))


def emit_to_all(event: Event) -> None:
    """Pass an event to all listeners of this process, in any thread, and from a Dask task also to the scheduler."""
    log_and_notify(event, tuple(_ALL_LISTENERS))
    emit_from_worker(event)


def emit_compilation(loop: str, module: str, seconds: float | None) -> None:
    """Emit :class:`CompilationStarted` if `seconds` is None, else :class:`CompilationEnded`."""
    _announce_compilation()
    emit_to_all(CompilationStarted(loop, module) if seconds is None else CompilationEnded(loop, module, seconds))


@cache
def _announce_compilation() -> None:
    """Write one line at the first compilation of an interactive process, to explain the wait."""
    if sys.stderr and (hasattr(sys, "ps1") or sys.stderr.isatty()):
        line = "dspectral: compiling loops once, about 20 s; `dspectral warm` compiles those of all main methods\n"
        sys.stderr.write(line)


def to_message(event: Event) -> dict[str, Any]:
    """Return an event as a dict that can be encoded as JSON."""
    fields = {key: list(value) if isinstance(value, tuple) else value for key, value in event._asdict().items()}
    kind = type(event).__name__
    return {"event": kind, **fields, "time": time.time(), "sender": SENDER, "order": next(_NUMBERS)}


def format_pass_number(number: int | None, n_passes: int | None) -> str:
    """Return ``pass 2 of 4``, without the total if it is None; an empty text without a number."""
    if number is None:
        return ""
    return f"pass {number}" if n_passes is None else f"pass {number} of {n_passes}"


def _format_failure(error: str) -> str:
    return f", ended by {error}" if error else ""


def log_and_notify(event: Event, listeners: tuple[Listener, ...]) -> None:
    """Log an event and call the listeners."""
    level = logging.DEBUG if isinstance(event, BlocksDone | SummariesMerged) else logging.INFO
    LOGGER.log(level, "%s", event)
    # dict.fromkeys: a listener may be registered for its thread and for all threads.
    for listener in dict.fromkeys(listeners):
        try:
            listener(event)
        except Exception:
            LOGGER.exception("a listener raised an error on %s", type(event).__name__)


def send_message(client: Client, message: dict[str, Any]) -> None:
    """Send a message to the scheduler from the event loop of the client, without waiting."""

    # `add_callback` is the only thread-safe call into the loop, which runs in another thread.
    async def log_event_later() -> None:
        try:
            await client.scheduler.log_event(topic=TOPIC, msg=message)
        except Exception:  # an event that cannot be sent must not end the fit
            LOGGER.debug("the scheduler did not accept the event %s", message["event"], exc_info=True)

    with suppress(RuntimeError):  # the loop is closed
        client.loop.add_callback(log_event_later)
