"""The thread that shows progress: in a terminal, a notebook, or as lines now and then."""

import atexit
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Self, TextIO

from dask.callbacks import Callback

from dspectral.engine import listening
from dspectral.engine.cluster_pass import DONE
from dspectral.engine.events import LOGGER, Client, Scheduler, client_in_force
from dspectral.watch.bars import Notebook, Rows, headings_of, line_of, line_of_end, notebook_shell
from dspectral.watch.record import Phase, Record

QUIET_SECONDS = 0.5
"""Seconds for which a fit runs before it is shown, but in a notebook."""
INTERVAL = 0.5
"""Seconds between two looks."""
LINE_SECONDS = (10.0, 60.0)
"""Least and most time between two lines where the output is no terminal; between these, a tenth of the age."""
_LOCK = threading.Lock()
_SHOWN: "list[Progress]" = []
"""The one that shows; those within it leave that to it."""


class LocalTasks(Callback):
    """Counts the tasks of Dask's schedulers within this process, of one computation at a time as they do."""

    def __init__(self) -> None:
        self.done = self.total = 0
        super().__init__()

    def _start_state(self, _graph: object, state: dict[str, Any]) -> None:
        # After optimization: tasks that were fused are one here, and end as one.
        self.done, self.total = 0, len(state["ready"]) + len(state["waiting"])

    def _posttask(self, *_facts: object) -> None:
        self.done += 1

    def _finish(self, *_facts: object) -> None:
        self.done = self.total = 0


def scheduler_counts(dask_scheduler: Scheduler) -> tuple[int, int]:
    """Return how many tasks of a scheduler are done, and how many there are."""
    states = [group.states for group in dask_scheduler.task_groups.values()]
    return sum(one.get(name, 0) for one in states for name in DONE), sum(sum(one.values()) for one in states)


class Progress:
    """A context in which fits, builds and everything else that Dask computes are shown while they run.

    Parameters
    ----------
    client : distributed.Client, optional
        Client whose scheduler is asked, besides Dask's schedulers within this process; by default the one in force.
    stream : text stream, optional
        Standard error by default. A terminal gets bars that change, anything else a line now and then; a notebook gets
        a display below the cell unless a stream is given.
    quiet_seconds : float, optional
        Seconds for which a fit runs before it is shown; by default half a second.
    summaries : bool, default=True
        Whether a line about each fit stays when it is over.
    """

    def __init__(
        self,
        client: Client | None = None,
        stream: TextIO | None = None,
        *,
        quiet_seconds: float | None = None,
        summaries: bool = True,
    ) -> None:
        self._client, self._stream = client, stream
        self._quiet_seconds = QUIET_SECONDS if quiet_seconds is None else quiet_seconds
        self._summaries = summaries
        self._steps: list[tuple[str, float]] = []
        self._stack: ExitStack | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Show from now on; nothing happens within another one that shows."""
        with _LOCK:
            # Two that draw would write over each other's lines.
            if _SHOWN:
                return
            _SHOWN.append(self)
        self._record, self._local = Record(), LocalTasks()
        shell = notebook_shell() if self._stream is None else None
        self._notebook = Notebook(shell) if shell is not None else None
        self._rows = Rows(self._stream or sys.stderr)
        self._next_line = 0.0
        self._busy_since: float | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
        self._stack = ExitStack()
        self._stack.enter_context(listening(self._record.hear, everywhere=True))
        self._stack.enter_context(self._local)
        self._thread.start()

    def stop(self) -> None:
        """Show nothing any more; what is drawn in a terminal is cleared, what is in a notebook stays."""
        with _LOCK:
            stack, self._stack = self._stack, None
            if self in _SHOWN:
                _SHOWN.remove(self)
        # Called a second time, or it never showed: another one did.
        if stack is None:
            return
        self._ended.set()
        self._thread.join(timeout=10.0)  # a scheduler that is gone answers late
        stack.close()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Name what the body of a ``with`` does.

        Parameters
        ----------
        name : str
            Words for a person.
        """
        self._steps.append((name, time.monotonic()))
        try:
            yield
        finally:
            self._steps.pop()

    def _watch(self) -> None:
        try:
            while not self._ended.wait(INTERVAL):
                self._look()
            self._show([], [], 0.0, 0.0)
        except (OSError, ValueError):
            # The terminal is gone or the stream is closed: what is computed does not end with it.
            LOGGER.debug("progress can no longer be shown", exc_info=True)

    def _look(self) -> None:
        """Look once at all that runs, and show it."""
        now = time.monotonic()
        with self._record.lock:
            headings, since = headings_of(self._record)
            phases = [phase for _root, one in self._record.running_passes() for phase in one.phases(now)]
        phases = phases or self._other_tasks()
        for name, begun in self._steps[-1:]:
            headings, since = [name, *headings], begun
        # Tasks without a fit, such as a user's own `compute`, have no event of their beginning: it is when they were
        # first seen.
        self._busy_since = (self._busy_since or now) if since is None and (headings or phases) else None
        since = self._busy_since if since is None else since
        if since is None or (self._notebook is None and now - since < self._quiet_seconds):
            self._show([], [], now, now)
        else:
            self._show(headings or [""], phases, since, now)

    def _show(self, headings: list[str], phases: list[Phase], since: float, now: float) -> None:
        with self._record.lock:
            ended = [(line_of_end(fit), fit.ended.seconds) for fit in self._record.ended if fit.ended]
            self._record.ended.clear()
        self._rows.keep(headings, phases, since)
        if self._notebook is not None:
            self._notebook.show(self._rows.tasks, [line for line, _seconds in ended])
            return
        for line, seconds in ended:
            if self._summaries and seconds >= self._quiet_seconds:
                self._rows.say(line)
        if headings and not self._rows.is_live and now >= self._next_line:
            self._rows.say(line_of(self._rows.tasks))
            self._next_line = now + min(max(LINE_SECONDS[0], (now - since) / 10), LINE_SECONDS[1])

    def _other_tasks(self) -> list[Phase]:
        """Return what runs outside of fits and passes: in this process, or on the cluster of the client."""
        done, total = self._local.done, self._local.total
        # Asked for by name: a process that has not loaded it has no client.
        client = self._client or (client_in_force() if "distributed" in sys.modules else None)
        if not total and client is not None:
            with suppress(OSError, RuntimeError):  # the computation itself says what is wrong
                done, total = client.run_on_scheduler(scheduler_counts)
        return [Phase("tasks", done, total)] if done < total else []


def progress(on: bool | None = None, *, stream: TextIO | None = None) -> Progress:
    """Show the progress of fits, builds and everything else that Dask computes; without it, nothing is shown.

    Parameters
    ----------
    on : bool, optional
        None, the default, is for use in a ``with``. True shows from now on, False ends that.
    stream : text stream, optional
        Standard error by default, of which a terminal gets bars, or a display below the cell in a notebook.

    Returns
    -------
    Progress
        A context manager.

    Notes
    -----
    Shown are passes, blocks and merges of all fits of the process, speed, the time left, the certificate so far,
    loops that are compiled, and what was lost and runs again. Python's ``logging`` has the same under the name
    ``dspectral``.

    Examples
    --------
    >>> import numpy as np
    >>> from dspectral import TruncatedSVD
    >>> with progress():
    ...     model = TruncatedSVD(2).fit(np.eye(4))
    """
    if on is None:
        return Progress(stream=stream)
    for one in tuple(_SHOWN):
        one.stop()
    shown = Progress(stream=stream)
    if on:
        shown.start()
        atexit.register(shown.stop)
    return shown
