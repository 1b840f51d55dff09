"""Progress: one view of what runs, drawn in a terminal or a notebook, or written as a line now and then."""

import atexit
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from html import escape
from typing import Any, NamedTuple, Self, TextIO

from dask.callbacks import Callback
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dspectral.engine import event_listener
from dspectral.engine.around.context import current_client
from dspectral.engine.around.events import LOGGER, Client, Scheduler, format_pass_number
from dspectral.engine.around.progress import DONE_STATES
from dspectral.watch.history import FitHistory, FitState, Phase

QUIET_SECONDS = 0.5
"""Seconds for which a fit runs before it is shown, but in a notebook."""
INTERVAL = 0.5
"""Seconds between two looks."""
LINE_SECONDS = (10.0, 60.0)
"""Least and most time between two lines where the output is no terminal; between these, a tenth of the age."""
N_ENDED = 8
"""Fits that a notebook lists once they are over; earlier ones are counted."""
STYLE = "max-width:44em;font:13px/1.5 system-ui,sans-serif;overflow-wrap:anywhere"
BAR = "display:inline-block;width:9em;max-width:30%;height:.7em;background:#8883;border-radius:.2em"
_LOCK = threading.Lock()
_ACTIVE: "list[Progress]" = []
"""The one that shows; those within it leave that to it."""


class View(NamedTuple):
    """A moment of the display: the line of the fits, phases with bars, other lines, and seconds since the start."""

    headings: list[str]
    phases: list[Phase]
    seconds: float


EMPTY_VIEW = View([], [], 0.0)


class LocalTaskCounter(Callback):
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
    return sum(one.get(name, 0) for one in states for name in DONE_STATES), sum(
        sum(one.values()) for one in states
    )


def get_headings(record: FitHistory) -> tuple[list[str], float | None]:
    """Return the lines around the bars, that of the fits first, and since when there is something to say."""
    fits = [fit for fit in record.fits.values() if fit.started and fit.is_running]
    passes = [one for _root, one in record.get_running_passes()]
    labels = [
        format_pass_number(one.started.number, one.started.n_passes) for one in passes[:1] if one.started
    ]
    lines = [": ".join([" > ".join(fit.name for fit in fits), *filter(None, labels)])] if fits else []
    lines += [
        f"certificate {fit.certificate:.3g} of the energy" for fit in fits if fit.certificate is not None
    ]
    for one in passes:
        lost = f"{_pluralize(one.lost_workers, 'worker')} lost, " if one.lost_workers else ""
        lines += [f"{lost}{_pluralize(one.n_redone, 'task')} run again"] if one.n_redone else []
    lines += [f"waits: {one.waits}" for one in passes if one.waits]
    lines += [f"{record.n_retried} attempts failed and were repeated"] if record.n_retried else []
    loops = record.get_compiling_loops()
    lines += [f"compiling {loop} (once, kept for later runs)" for loop in loops]
    return lines, min([fit.since for fit in fits] or loops.values(), default=None)


def format_finished(fit: FitState) -> str:
    """Return one line about a fit that is over."""
    if fit.ended is None:
        return ""
    parts = [_pluralize(fit.ended.n_passes, "pass", "es")] if fit.ended.n_passes else []
    parts += [] if fit.certificate is None else [f"certificate {fit.certificate:.3g} of the energy"]
    parts += [f"ended by {fit.ended.error}"] if fit.ended.error else []
    return f"{': '.join(filter(None, (fit.name, ', '.join(parts))))}, {fit.ended.seconds:.1f} s"


def _pluralize(n: int, word: str, ending: str = "s") -> str:
    return f"{n} {word}{ending * (n != 1)}"


def format_counts(phase: Phase) -> str:
    """Return the tasks of a phase, and their speed, in few words.

    >>> format_counts(Phase("hash-block", 11, 245, again=6))
    '11/245, 6 of them again'
    >>> format_counts(Phase("sketch-block", 1, 2, 0, 2.0, n_rows=50_000, n_bytes=10_000_000))
    '1/2, 12,500 rows/s, 2.5 MB/s'
    """
    rows, rate = phase.get_speed(phase.n_rows), phase.get_speed(phase.n_bytes)
    units = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
    size = next((f"{rate / scale:.1f} {unit}/s" for unit, scale in units if rate >= scale), f"{rate:.0f} B/s")
    again = f"{phase.again} of them again" if phase.again else ""
    return _join_nonempty(
        f"{phase.done}/{phase.total}", again, f"{rows:,.0f} rows/s" if rows else "", size if rate else ""
    )


def format_times(phase: Phase) -> str:
    """Return how long a phase has taken and how long it will yet, as far as that is known; nothing before it begins."""
    speed, left = phase.get_speed(phase.total), phase.total - phase.done
    to_come = f"{_format_clock(left / speed)} left" if speed and left else ""
    return _join_nonempty(_format_clock(phase.seconds), to_come) if phase.done else ""


def _join_nonempty(*parts: str, by: str = ", ") -> str:
    return by.join(filter(None, parts))


def _format_clock(seconds: float) -> str:
    return str(timedelta(seconds=int(seconds)))


def format_line(view: View) -> str:
    """Return one line: time and first heading; each phase with its tasks done, share and time; other headings."""
    first, *others = view.headings
    phases = [
        _join_nonempty(f"{one.name} {format_counts(one)}", f"{100 * one.share:.0f} %", format_times(one))
        for one in view.phases
    ]
    return f"[{_format_clock(view.seconds)}] " + _join_nonempty(
        first, " · ".join([*phases, *others]), by=": "
    )


def render_terminal(view: View) -> Group:
    """Return what a terminal shows: a bar for each phase, between headings that may be as wide as the terminal."""
    first, *others = view.headings
    table = Table.grid("", "", "", "", "", padding=(0, 1))
    for column in (table.columns[0], table.columns[-1]):
        column.overflow = "fold"
    for one in view.phases:
        bar = ProgressBar(one.total, one.done, width=20)
        words = (f"{one.share:4.0%}", format_counts(one), format_times(one))
        table.add_row(Text(f"  {one.name}"), bar, *map(Text, words))
    return Group(
        Text(_join_nonempty(first, _format_clock(view.seconds), by=" ")),
        table,
        *(Text(f"  {text}") for text in others),
    )


def render_html(view: View, ended: list[str]) -> str:
    """Return what a notebook shows: lines of fits that are over, and the view."""
    n_hidden = max(0, len(ended) - N_ENDED)
    lines = [f"and {n_hidden} earlier"] if n_hidden else []
    lines += [escape(f"\N{CHECK MARK} {line}") for line in ended[n_hidden:]]
    lines += [f"<b>{escape(text)}</b> {_format_clock(view.seconds)}" for text in view.headings[:1]]
    for one in view.phases:
        filled = f"display:block;width:{one.share:.0%};height:100%;background:#3b78c2;border-radius:.2em"
        bar = f'<span style="{BAR}"><span style="{filled}"></span></span>'
        lines.append(
            f"{bar} {one.share:.0%} {escape(f'{one.name} {_join_nonempty(format_counts(one), format_times(one))}')}"
        )
    lines += map(escape, view.headings[1:])
    body = "".join(f"<div>{line}</div>" for line in lines)
    return f'<div style="{STYLE}">{body}</div>' if lines else ""


class Output:
    """A text stream: a terminal gets bars that change, and lines that stay above them; any other stream gets lines."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream)
        self._is_live = self._console.is_terminal and not self._console.is_dumb_terminal
        self._live: Live | None = None
        self._next_line = 0.0

    def show(self, view: View, ended: list[str]) -> None:
        """Show a view, and add lines about fits that ended."""
        if self._is_live:
            self._draw(view, ended)
            return
        now = time.monotonic()
        if view.headings and now >= self._next_line:
            ended = [*ended, format_line(view)]
            self._next_line = now + min(max(LINE_SECONDS[0], view.seconds / 10), LINE_SECONDS[1])
        for line in ended:
            self._console.file.write(line + "\n")
            self._console.file.flush()

    def _draw(self, view: View, ended: list[str]) -> None:
        if self._live is None and view.headings:
            # What is printed goes above the bars, but never from a file to them.
            is_here = sys.stdout.isatty()
            self._live = Live(
                console=self._console, auto_refresh=False, transient=True, redirect_stdout=is_here
            )
            self._live.start()
        if self._live is not None and not view.headings:
            self._live.stop()
            self._live = None
        for line in ended:
            self._console.print(line, markup=False, highlight=False)
        if self._live is not None:
            self._live.update(render_terminal(view), refresh=True)


def get_notebook_shell() -> Any:
    """Return the shell of the notebook in which this process runs, or None."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return shell if getattr(shell, "kernel", None) is not None else None


class Notebook:
    """A display below the cell that runs."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._display = sys.modules["IPython"].display
        self._cell: int | None = None
        self._handle: Any = None
        self._shown = ""
        self._ended: list[str] = []

    def show(self, view: View, ended: list[str]) -> None:
        """Show a view, and add fits that ended."""
        if (view.headings or ended) and self._shell.execution_count != self._cell:
            # Another cell has an output of its own; that of the last one stays.
            self._cell, self._handle, self._ended, self._shown = self._shell.execution_count, None, [], ""
        self._ended += ended
        html = render_html(view, self._ended)
        if html == self._shown:  # what does not change does not flicker
            return
        self._shown = html
        if self._handle is None:
            self._handle = self._display.display(self._display.HTML(html), display_id=True)
        else:
            self._handle.update(self._display.HTML(html))


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
            if _ACTIVE:
                return
            _ACTIVE.append(self)
        self._record, self._local = FitHistory(), LocalTaskCounter()
        shell = get_notebook_shell() if self._stream is None else None
        self._out = Notebook(shell) if shell is not None else Output(self._stream or sys.stderr)
        self._busy_since: float | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
        self._stack = ExitStack()
        self._stack.enter_context(event_listener(self._record.on_event, everywhere=True))
        self._stack.enter_context(self._local)
        self._thread.start()

    def stop(self) -> None:
        """Show nothing any more; what is drawn in a terminal is cleared, what is in a notebook stays."""
        with _LOCK:
            stack, self._stack = self._stack, None
            if self in _ACTIVE:
                _ACTIVE.remove(self)
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
                self._show(self._view())
            self._show(EMPTY_VIEW)
        except (OSError, ValueError):
            # The terminal is gone or the stream is closed: what is computed does not end with it.
            LOGGER.debug("progress can no longer be shown", exc_info=True)

    def _view(self) -> View:
        """Return what runs now."""
        now = time.monotonic()
        with self._record.lock:
            headings, since = get_headings(self._record)
            phases = [
                phase for _root, one in self._record.get_running_passes() for phase in one.get_phases(now)
            ]
        phases = phases or self._other_tasks()
        for name, started in self._steps[-1:]:
            headings, since = [name, *headings], started
        # Tasks without a fit, such as a user's own `compute`, have no event of their beginning: it is when they were
        # first seen.
        self._busy_since = (self._busy_since or now) if since is None and (headings or phases) else None
        since = self._busy_since if since is None else since
        if since is None or (isinstance(self._out, Output) and now - since < self._quiet_seconds):
            return EMPTY_VIEW
        phases = [one._replace(seconds=one.seconds or now - since) for one in phases]
        return View(headings or [""], phases, now - since)

    def _show(self, view: View) -> None:
        with self._record.lock:
            ended = [fit for fit in self._record.ended if fit.ended]
            self._record.ended.clear()
        least = 0.0 if isinstance(self._out, Notebook) else self._quiet_seconds
        if isinstance(self._out, Output) and not self._summaries:
            ended = []
        self._out.show(
            view, [format_finished(fit) for fit in ended if fit.ended and fit.ended.seconds >= least]
        )

    def _other_tasks(self) -> list[Phase]:
        """Return what runs outside of fits and passes: in this process, or on the cluster of the client."""
        done, total = self._local.done, self._local.total
        # Asked for by name: a process that has not loaded it has no client.
        client = self._client or (current_client() if "distributed" in sys.modules else None)
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
    for one in tuple(_ACTIVE):
        one.stop()
    shown = Progress(stream=stream)
    if on:
        shown.start()
        atexit.register(shown.stop)
    return shown
