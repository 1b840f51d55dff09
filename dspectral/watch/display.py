"""Progress display: bars in a terminal or a notebook, or lines in a stream."""

import atexit
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, NamedTuple, Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from dspectral.engine.around.callbacks import LOGGER, TASK_SHARES, FitEnded
from dspectral.quantities import format_bytes
from dspectral.watch.history import FitHistory, PassState, format_clock, pluralize

QUIET_SECONDS = 0.5
"""Seconds before a fit is shown in a terminal or a stream."""
UPDATE_SECONDS = 0.5
"""Seconds between two updates."""
LINE_SECONDS = (10.0, 60.0)
"""Minimum and maximum seconds between two lines in a stream; between them, a tenth of the run time."""
N_ENDED = 8
"""Maximum number of finished fits that a notebook lists; earlier ones are counted."""
BAR_WIDTH = 20
_LOCK = threading.Lock()
_ACTIVE: "list[Progress]" = []
"""The progress display that is active. Nested ones show nothing."""


class Phase(NamedTuple):
    """Progress of the blocks or the merges of a pass.

    `done`: finished tasks, with the part of running ones that is done; `n_kept`: tasks whose summaries are read from
    checkpoints; `n_rows, n_bytes`: size of the data of all tasks.
    """

    name: str
    done: float
    total: int
    seconds: float = 0.0
    n_kept: int = 0
    n_rows: int | None = None
    n_bytes: int | None = None

    @property
    def share(self) -> float:
        """Share of finished tasks, in [0, 1]."""
        return self.done / max(self.total, 1)

    def get_speed(self, n: int | None) -> float:
        """Return the rows or bytes processed per second, of ``n`` in total; 0 if unknown."""
        return (n or 0) * max(0, self.done - self.n_kept) / max(self.total, 1) / max(self.seconds, 1e-9)


class View(NamedTuple):
    """Content of the display: heading and other lines, phases with bars, and seconds since the start."""

    headings: list[str]
    phases: list[Phase]
    seconds: float


EMPTY_VIEW = View([], [], 0.0)


def get_headings(history: FitHistory, now: float) -> list[str]:
    """Return the lines around the bars, with the names of the fits first."""
    fits = history.get_running()
    passes = [state for fit in fits for state in fit.running]
    newest = [fit.passes[-1].started for fit in fits]
    names = " > ".join(newest[0].fit_names) if newest else ""
    label = passes[0].started.number_label if passes else ""
    lines = [": ".join(filter(None, (names, label)))] if names else []
    for state in passes:
        lines += filter(None, [state.repeated, state.last_task and f"last task: {state.last_task}"])
    for work, seconds in (fit.get_client_work(now) for fit in fits):
        lines += [f"computing in the client {work}, {format_clock(seconds)}"] if work else []
    return lines + ([f"{history.n_retried} failed attempts were repeated"] if history.n_retried else [])


def get_phases(state: PassState, now: float, n_running: float = 0.0) -> list[Phase]:
    """Return the progress of blocks and merges of a pass; `n_running`: part of running blocks that is done."""
    started, done, seconds = state.started, state.done, max(now - state.since, 1e-9)
    name = re.sub(r"-[0-9a-f]{32}$", "", started.block_group)
    n_done = min(done.n_blocks + n_running, started.n_blocks)
    blocks = Phase(name, n_done, started.n_blocks, seconds, started.n_kept, started.n_rows, started.n_bytes)
    merges = Phase("merge", done.n_merges, started.n_merges, seconds, started.n_kept_merges)
    return [blocks, merges] if started.n_merges else [blocks]


def format_finished(fit: FitEnded) -> str:
    """Return one line about a finished fit."""
    parts = [pluralize(fit.n_passes, "pass", "es")] if fit.n_passes else []
    parts += [] if fit.certificate is None else [f"relative certificate {fit.certificate:.3g}"]
    parts += [f"ended by {fit.error}"] if fit.error else []
    return f"{': '.join(filter(None, (fit.name, ', '.join(parts))))}, {fit.seconds:.1f} s"


def format_counts(phase: Phase) -> str:
    """Return the tasks of a phase and their speed as text."""
    rows, rate = phase.get_speed(phase.n_rows), phase.get_speed(phase.n_bytes)
    speeds = f"{rows:,.0f} rows/s" if rows else "", f"{format_bytes(rate)}/s" if rate else ""
    return _join_nonempty(f"{int(phase.done)}/{phase.total}", *speeds)


def format_times(phase: Phase) -> str:
    """Return the elapsed and remaining time of a phase as text; empty before its first task is done."""
    speed, n_remaining = phase.get_speed(phase.total), phase.total - phase.done
    to_come = f"{format_clock(n_remaining / speed)} left" if speed and n_remaining else ""
    return _join_nonempty(format_clock(phase.seconds), to_come) if phase.done else ""


def _join_nonempty(*parts: str, separator: str = ", ") -> str:
    return separator.join(filter(None, parts))


def _format_phase(phase: Phase) -> str:
    counts = f"{phase.name} {format_counts(phase)}"
    return _join_nonempty(counts, f"{100 * phase.share:.0f} %", format_times(phase))


def format_line(view: View) -> str:
    """Return a view as one line: time, first heading, phases, other headings."""
    first, *others = view.headings
    phases = " · ".join([*map(_format_phase, view.phases), *others])
    return f"[{format_clock(view.seconds)}] " + _join_nonempty(first, phases, separator=": ")


def format_lines(view: View) -> list[str]:
    """Return a view as lines: a bar for each phase, between headings."""
    lines = [_join_nonempty(text, format_clock(view.seconds), separator=" ") for text in view.headings[:1]]
    bars = (("█" * int(BAR_WIDTH * phase.share)).ljust(BAR_WIDTH, "░") for phase in view.phases)
    lines += [f"  {bar} {_format_phase(phase)}" for bar, phase in zip(bars, view.phases, strict=True)]
    return lines + [f"  {text}" for text in view.headings[1:]]


def render_html(view: View, ended: list[str]) -> str:
    """Return finished fits and a view as HTML for a notebook."""
    n_hidden = max(0, len(ended) - N_ENDED)
    lines = [f"and {n_hidden} earlier"] if n_hidden else []
    lines += [*(f"\N{CHECK MARK} {line}" for line in ended[n_hidden:]), *format_lines(view)]
    return f"<pre>{escape(chr(10).join(lines))}</pre>" if lines else ""


class Output:
    """Display in a text stream: live bars and lines in a terminal, only lines in other streams."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream)
        self._is_live = self._console.is_terminal and not self._console.is_dumb_terminal
        self._live: Live | None = None
        self._next_line = 0.0

    def show(self, view: View, ended: list[str]) -> None:
        """Show a view, and add lines about finished fits."""
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
            # Printed text goes above the bars, unless standard output is a file.
            redirect = sys.stdout.isatty()
            self._live = Live(console=self._console, auto_refresh=False, transient=True, redirect_stdout=redirect)
            self._live.start()
        if self._live is not None and not view.headings:
            self._live.stop()
            self._live = None
        for line in ended:
            self._console.print(line, markup=False, highlight=False)
        if self._live is not None:
            self._live.update(Text("\n".join(format_lines(view))), refresh=True)


def get_notebook_shell() -> Any:
    """Return the IPython shell if this process is the kernel of a notebook, else None."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return shell if getattr(shell, "kernel", None) is not None else None


class Notebook:
    """Display below the running cell of a notebook."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._display = sys.modules["IPython"].display
        self._cell: int | None = None
        self._handle: Any = None
        self._shown = ""
        self._ended: list[str] = []

    def show(self, view: View, ended: list[str]) -> None:
        """Show a view, and add finished fits."""
        if (view.headings or ended) and self._shell.execution_count != self._cell:
            # Each cell has its own output.
            self._cell, self._handle, self._ended, self._shown = self._shell.execution_count, None, [], ""
        self._ended += ended
        html = render_html(view, self._ended)
        if html == self._shown:  # avoids flicker
            return
        self._shown = html
        if self._handle is None:
            self._handle = self._display.display(self._display.HTML(html), display_id=True)
        else:
            self._handle.update(self._display.HTML(html))


class Progress:
    """Context manager that shows the progress of fits, builds and other passes.

    Parameters
    ----------
    stream : text stream, optional
        Standard error by default. A terminal gets live bars, other streams get occasional lines. A notebook gets a
        display below the cell unless a stream is passed.
    quiet_seconds : float, optional
        Seconds before a fit is shown; by default half a second.
    keep_summaries : bool, default=True
        Whether a line about each finished fit stays.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        quiet_seconds: float | None = None,
        keep_summaries: bool = True,
    ) -> None:
        self._stream = stream
        self._quiet_seconds = QUIET_SECONDS if quiet_seconds is None else quiet_seconds
        self._summaries = keep_summaries
        self._steps: list[tuple[str, float]] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start showing progress, unless another display is active."""
        with _LOCK:
            # Two displays would overwrite each other's lines.
            if _ACTIVE:
                return
            _ACTIVE.append(self)
        self._history = FitHistory()
        shell = get_notebook_shell() if self._stream is None else None
        self._out = Notebook(shell) if shell is not None else Output(self._stream or sys.stderr)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
        self._history.__enter__()
        self._thread.start()

    def stop(self) -> None:
        """Stop showing progress; the terminal is cleared, the output of a notebook stays."""
        with _LOCK:
            if self not in _ACTIVE:  # it was stopped before, or never started
                return
            _ACTIVE.remove(self)
        self._ended.set()
        self._thread.join(timeout=10.0)  # a lost scheduler answers late
        self._history.__exit__()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Show a name for the work in a ``with`` block.

        Parameters
        ----------
        name : str
            Name to show.
        """
        self._steps.append((name, time.time()))
        try:
            yield
        finally:
            self._steps.pop()

    def _watch(self) -> None:
        try:
            while not self._ended.wait(UPDATE_SECONDS):
                self._show(self._view())
            self._show(EMPTY_VIEW)
        except (OSError, ValueError):
            # A closed terminal or stream must not end the computation.
            LOGGER.debug("progress can no longer be shown", exc_info=True)

    def _view(self) -> View:
        """Return the current view."""
        now = time.time()
        with self._history.lock:
            fits = self._history.get_running()
            headings, starts = get_headings(self._history, now), [fit.since for fit in fits]
            passes = [state for fit in fits for state in fit.running]
            # The shares have no pass, so they are those of the only one.
            n_running = sum(TASK_SHARES.copy().values()) if len(passes) == 1 else 0.0
            phases = [phase for state in passes for phase in get_phases(state, now, n_running)]
        for name, started in self._steps[-1:]:
            headings, starts = [name, *headings], [started]
        if not starts or (isinstance(self._out, Output) and now - min(starts) < self._quiet_seconds):
            return EMPTY_VIEW
        return View(headings or [""], phases, now - min(starts))

    def _show(self, view: View) -> None:
        with self._history.lock:
            ended = list(self._history.ended)
            self._history.ended.clear()
        quiet_seconds = 0.0 if isinstance(self._out, Notebook) else self._quiet_seconds
        if isinstance(self._out, Output) and not self._summaries:
            ended = []
        self._out.show(view, [format_finished(fit) for fit in ended if fit.seconds >= quiet_seconds])


def progress(on: bool | None = None, *, stream: TextIO | None = None) -> Progress:
    """Show the progress of fits, builds and other passes.

    Parameters
    ----------
    on : bool, optional
        None, the default, returns a context manager. True starts the display, False stops it.
    stream : text stream, optional
        Standard error by default; a notebook gets a display below the cell.

    Returns
    -------
    Progress
        A context manager.

    Notes
    -----
    The display shows passes, blocks and merges of all fits of the process, speed, remaining time and repeated tasks.
    Python's ``logging`` has the same information, and the loops that are compiled, under the name ``dspectral``.

    Examples
    --------
    >>> import numpy as np
    >>> from dspectral import TruncatedSVD
    >>> with progress():
    ...     model = TruncatedSVD(2).fit(np.eye(4))
    """
    if on is None:
        return Progress(stream=stream)
    for active in tuple(_ACTIVE):
        active.stop()
    display = Progress(stream=stream)
    if on:
        display.start()
        atexit.register(display.stop)
    return display
