"""Rows of progress: bars of a terminal, lines of a log, a table of a notebook."""

import sys
import time
from collections.abc import Iterable
from datetime import timedelta
from html import escape
from typing import Any, TextIO

from rich import progress as bars
from rich.console import Console, RenderableType
from rich.progress import Task
from rich.table import Column
from rich.text import Text

from dspectral.engine.events import pass_label
from dspectral.watch.record import FitState, Phase, Record


class Rows:
    """The rows of what runs: headings without a bar, and phases with one."""

    def __init__(self, stream: TextIO) -> None:
        self._bars = _bars(stream)
        console = self._bars.console
        self.is_live = console.is_terminal and not console.is_dumb_terminal
        self._ids: dict[tuple[str, float], bars.TaskID] = {}
        self._is_drawn = False

    @property
    def tasks(self) -> list[bars.Task]:
        """All rows, from top to bottom."""
        return self._bars.tasks

    def keep(self, headings: list[str], phases: list[Phase], since: float) -> None:
        """Let there be these rows, and draw them in a terminal."""
        # Keys hold the time of the beginning: a phase of the next fit is another row, with a clock of its own,
        # even if it has the same name. The order of the dict is that of the rows.
        wanted: dict[tuple[str, float], str | Phase] = {("", since): headings[0]} if headings else {}
        wanted |= {(phase.name, since): phase for phase in phases}
        wanted |= {(text, since): text for text in headings[1:]}
        for key in self._ids.keys() - wanted.keys():
            self._bars.remove_task(self._ids.pop(key))
        for key, one in wanted.items():
            if key not in self._ids:
                self._ids[key] = self._bars.add_task("", total=None, count="")
                self._bars.tasks[-1].start_time = key[1]
            if isinstance(one, Phase):
                self._fill(self._ids[key], one)
            else:
                self._bars.update(self._ids[key], description="  " * bool(key[0]) + one)
        if self.is_live and bool(wanted) != self._is_drawn:
            (self._bars.start if wanted else self._bars.stop)()
            self._is_drawn = bool(wanted)

    def say(self, text: str) -> None:
        """Write a line that stays, above the bars of a terminal."""
        if self.is_live:
            self._bars.console.print(text, markup=False, highlight=False)
        else:
            self._bars.console.file.write(text + "\n")
            self._bars.console.file.flush()

    def _fill(self, row: bars.TaskID, phase: Phase) -> None:
        task = self._bars.tasks[self._bars.task_ids.index(row)]
        # Work that is done never falls within a pass, so fewer tasks done can only be another pass of the same name.
        if task.total is None or phase.done < task.completed:
            self._bars.reset(row)  # another pass
        self._bars.update(
            row, description=f"  {phase.name}", total=phase.total, completed=phase.done, count=count_of(phase)
        )


class Times(bars.ProgressColumn):
    """A column of the time that a row took so far, and of the time left."""

    def render(self, task: bars.Task) -> Text:
        """Return the times of one row."""
        return Text(times(task), style="progress.elapsed")


class Drawn(bars.Progress):
    """Bars for phases, below each other, between headings that may be as wide as the terminal."""

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the first heading, a table of phases, and the other headings."""
        headings = [row for row in self.tasks if row.total is None]
        for row in headings[:1]:
            yield Text(" ".join(part for part in (row.description, times(row)) if part))
        yield self.make_tasks_table([row for row in self.tasks if row.total is not None])
        for row in headings[1:]:
            yield Text(row.description)


def _bars(stream: TextIO) -> Drawn:
    return Drawn(
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


def headings_of(record: Record) -> tuple[list[str], float | None]:
    """Return the lines around the bars, that of the fits first, and since when there is something to say."""
    fits = [fit for fit in record.fits.values() if fit.begun and fit.is_running]
    passes = [one for _root, one in record.running_passes()]
    labels = [pass_label(one.begun.number, one.begun.n_passes) for one in passes[:1] if one.begun]
    lines = [": ".join(filter(None, (" > ".join(fit.name for fit in fits), *labels)))] if fits else []
    lines += [
        f"certificate {fit.certificate:.3g} of the energy" for fit in fits if fit.certificate is not None
    ]
    for one in passes:
        lost = f"{_plural(one.lost_workers, 'worker')} lost, " if one.lost_workers else ""
        lines += [f"{lost}{_plural(one.n_redone, 'task')} run again"] if one.n_redone else []
    lines += [f"waits: {one.waits}" for one in passes if one.waits]
    lines += [f"{record.n_retried} attempts failed and were repeated"] if record.n_retried else []
    loops = record.compiling()
    lines += [f"compiling {loop} (once, kept for later runs)" for loop in loops]
    return lines, min([fit.since for fit in fits] or loops.values(), default=None)


def line_of_end(fit: FitState) -> str:
    """Return one line about a fit that is over."""
    if fit.ended is None:
        return ""
    parts = [_plural(fit.ended.n_passes, "pass", "es")] if fit.ended.n_passes else []
    parts += [] if fit.certificate is None else [f"certificate {fit.certificate:.3g} of the energy"]
    parts += [f"ended by {fit.ended.error}"] if fit.ended.error else []
    return f"{': '.join(filter(None, (fit.name, ', '.join(parts))))}, {fit.ended.seconds:.1f} s"


def _plural(n: int, word: str, ending: str = "s") -> str:
    return f"{n} {word}{ending * (n != 1)}"


def count_of(phase: Phase) -> str:
    """Return the tasks of a phase, and their speed, in few words.

    >>> count_of(Phase("hash-block", 11, 245, again=6))
    '11/245, 6 of them again'
    >>> count_of(Phase("sketch-block", 1, 2, 0, 12345.6, 2.5e6))
    '1/2, 12,346 rows/s, 2.5 MB/s'
    """
    again = f"{phase.again} of them again" if phase.again else ""
    rows = f"{phase.rows_per_second:,.0f} rows/s" if phase.rows_per_second else ""
    rate = phase.bytes_per_second or 0
    units = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
    size = next((f"{rate / scale:.1f} {unit}/s" for unit, scale in units if rate >= scale), f"{rate:.0f} B/s")
    return ", ".join(filter(None, (f"{phase.done}/{phase.total}", again, rows, size if rate else "")))


def times(task: bars.Task) -> str:
    """Return how long a row has taken and how long it will yet, as far as that is known; nothing before it begins."""
    elapsed = str(timedelta(seconds=int((task.finished_time if task.finished else task.elapsed) or 0)))
    left = task.time_remaining
    if task.total is None or task.finished:
        return elapsed
    if not task.completed:
        return ""
    return elapsed if left is None else f"{elapsed}, {timedelta(seconds=int(left))} left"


def line_of(rows: list[bars.Task]) -> str:
    """Return one line: time and first heading; each phase with its tasks done, share and time; other headings."""
    first, *rest = rows
    parts = []
    for row in rest:
        counts = (
            (f" {row.fields['count']}, {row.percentage:.0f} %", times(row)) if row.total is not None else ()
        )
        parts.append(row.description.strip() + ", ".join(filter(None, counts)))
    return f"[{times(first)}] " + ": ".join(filter(None, (first.description, " · ".join(parts))))


N_ENDED = 8
"""Fits that are listed once they are over; earlier ones are counted."""
_STYLE = "max-width:44em;font:13px/1.5 system-ui,sans-serif;overflow-wrap:anywhere"
_BAR = "display:inline-block;width:9em;max-width:30%;height:.7em;background:#8883;border-radius:.2em"


def notebook_shell() -> Any:
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

    def show(self, rows: list[Task], ended: list[str]) -> None:
        """Show rows, and add fits that ended."""
        if (rows or ended) and self._shell.execution_count != self._cell:
            # Another cell has an output of its own; that of the last one stays.
            self._cell, self._handle, self._ended, self._shown = self._shell.execution_count, None, [], ""
        self._ended += ended
        html = html_of(rows, self._ended)
        if html == self._shown:  # what does not change does not flicker
            return
        self._shown = html
        if self._handle is None:
            self._handle = self._display.display(self._display.HTML(html), display_id=True)
        else:
            self._handle.update(self._display.HTML(html))


def html_of(rows: list[Task], ended: list[str]) -> str:
    """Return what is shown in a notebook."""
    if not rows and not ended:
        return ""
    n_hidden = max(0, len(ended) - N_ENDED)
    lines = [f"and {n_hidden} earlier"] if n_hidden else []
    lines += [escape(f"\N{CHECK MARK} {line}") for line in ended[n_hidden:]]
    lines += [_row(row, is_first=number == 0) for number, row in enumerate(rows)]
    return f'<div style="{_STYLE}">' + "".join(f"<div>{line}</div>" for line in lines) + "</div>"


def _row(row: Task, *, is_first: bool) -> str:
    text = escape(row.description.strip())
    if row.total is None:
        return f"<b>{text}</b> {times(row)}" if is_first else text
    share = f"{row.percentage:.0f}%"
    filled = f"display:block;width:{share};height:100%;background:#3b78c2;border-radius:.2em"
    bar = f'<span style="{_BAR}"><span style="{filled}"></span></span>'
    counts = ", ".join(filter(None, (row.fields["count"], times(row))))
    return f"{bar} {share} {text} {escape(counts)}"
