"""Progress on standard error: which step runs, its phases, their share done, and the time they take."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Self, TextIO

from distributed import Client
from rich import progress as bars
from rich.console import Console
from rich.table import Column
from rich.text import Text

from .tasks import ClusterTasks, LocalTasks, Phase

QUIET_SECONDS = 3.0
"""A step that ends sooner says nothing."""
LINE_SECONDS = (10.0, 60.0)
"""Least and most time between two lines where the output is no terminal; between these, a tenth of the step's age."""
FIRST_RUN = "loops compile on a first run"
"""Stands where the time left would, while no task is done yet."""


class Progress:
    """A thread that shows the running step and its phases.

    Parameters
    ----------
    client : distributed.Client or None
        Client whose scheduler is asked, besides Dask's schedulers within this process.
    stream : text stream, optional
        Standard error by default. A terminal gets bars that change, anything else a line now and then.
    """

    def __init__(self, client: Client | None, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._local = LocalTasks()
        self._cluster = ClusterTasks(client) if client else None
        self._interval = 0.5 if client is None else 2.0
        self._steps: list[tuple[str, float]] = []
        self._bars = _bars(self._stream)
        self._is_live = self._bars.console.is_terminal and not self._bars.console.is_dumb_terminal
        self._rows: dict[tuple[str, float], bars.TaskID] = {}
        self._next_line = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._local.__enter__()
        if self._is_live:
            self._bars.start()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        if self._is_live:
            self._bars.stop()
        self._local.__exit__(*error)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Name what the body of a ``with`` does."""
        self._steps.append((name, time.monotonic()))
        try:
            yield
        finally:
            self._steps.pop()

    def _watch(self) -> None:
        busy_since = None
        while not self._ended.wait(self._interval):
            phases = [*self._local.phases(), *(self._cluster.phases() if self._cluster else [])]
            steps = list(self._steps)
            now = time.monotonic()
            busy_since = (busy_since or now) if phases else None
            name, since = steps[-1] if steps else ("", busy_since)
            if since is None or now - since < QUIET_SECONDS:
                self._keep({})
                continue
            self._keep({(name, since): None, **{(phase.name, since): phase for phase in phases}})
            if not self._is_live and now >= self._next_line:
                self._stream.write(line_of(self._bars.tasks) + "\n")
                self._stream.flush()
                self._next_line = now + min(max(LINE_SECONDS[0], (now - since) / 10), LINE_SECONDS[1])

    def _keep(self, wanted: dict[tuple[str, float], Phase | None]) -> None:
        """Let there be these rows: the step's, which has no total, and below it the phases'."""
        for key in self._rows.keys() - wanted.keys():
            self._bars.remove_task(self._rows.pop(key))
        begun = any(phase.done for phase in wanted.values() if phase)
        for key, phase in wanted.items():
            if key not in self._rows:
                self._rows[key] = self._bars.add_task(
                    "  " * bool(phase) + key[0], total=None, count="", note=""
                )
                if phase is None:
                    self._bars.tasks[-1].start_time = key[1]
            if phase is not None:
                self._fill(self._rows[key], phase, "" if begun else FIRST_RUN)
                begun = True

    def _fill(self, row: bars.TaskID, phase: Phase, note: str) -> None:
        if phase.done < self._bars.tasks[self._bars.task_ids.index(row)].completed:
            self._bars.reset(row)  # another pass
        self._bars.update(row, total=phase.total, completed=phase.done, count=count_of(phase), note=note)


class Times(bars.ProgressColumn):
    """A column of the time that a row took so far, and of the time left."""

    def render(self, task: bars.Task) -> Text:
        """Return the times of one row."""
        return Text(times(task), style="progress.elapsed")


def _bars(stream: TextIO) -> bars.Progress:
    """Return the rows of step and phases; where there is no terminal they are never started, and only counted."""
    return bars.Progress(
        bars.TextColumn("{task.description}", table_column=Column(overflow="fold"), markup=False),
        bars.BarColumn(bar_width=20),
        bars.TaskProgressColumn(),
        bars.TextColumn("{task.fields[count]}", justify="right", markup=False),
        Times(table_column=Column(overflow="fold")),
        console=Console(file=stream),
        get_time=time.monotonic,
        refresh_per_second=2,
        speed_estimate_period=3600.0,  # a block may take minutes
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # what is printed goes above the bars, but never from a file to them
    )


def count_of(phase: Phase) -> str:
    """Return the tasks of a phase in few words.

    Examples
    --------
    >>> count_of(Phase("hash-block", 11, 245)), count_of(Phase("hash-block", 11, 245, again=6))
    ('11/245', '11/245, 6 of them again')
    """
    again = f", {phase.again} of them again" if phase.again else ""
    return f"{phase.done}/{phase.total}{again}"


def times(task: bars.Task) -> str:
    """Return how long a row has taken and how long it will yet, as far as that is known; nothing before it begins."""
    elapsed = str(timedelta(seconds=int((task.finished_time if task.finished else task.elapsed) or 0)))
    note, left = task.fields["note"], task.time_remaining
    if task.total is None or task.finished:
        return elapsed
    if not task.completed:
        return f"{elapsed}, {note}" if note else ""
    return elapsed if left is None else f"{elapsed}, {timedelta(seconds=int(left))} left"


def line_of(rows: list[bars.Task]) -> str:
    """Return one line: the step's time and name, and each phase with its tasks done, their share and its time."""
    step, *phases = rows
    parts = [
        ", ".join(part for part in (f"{row.fields['count']}, {row.percentage:.0f} %", times(row)) if part)
        for row in phases
    ]
    named = [f"{row.description.strip()} {part}" for row, part in zip(phases, parts, strict=True)]
    return f"[{times(step)}] " + ": ".join(part for part in (step.description, " · ".join(named)) if part)
