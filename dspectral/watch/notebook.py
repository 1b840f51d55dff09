"""Progress in a notebook: a small table of HTML, which is replaced in place and stays as it was last."""

import sys
from html import escape
from typing import Any, Protocol

from rich.progress import Task

from dspectral.watch.bars import times
from dspectral.watch.passes import Ended

N_ENDED = 8
"""Fits that are listed once they are over; earlier ones are counted."""
_STYLE = "max-width:44em;font:13px/1.5 system-ui,sans-serif;overflow-wrap:anywhere"
_BAR = "display:inline-block;width:9em;max-width:30%;height:.7em;background:#8883;border-radius:.2em"


class Shell(Protocol):
    """The part of a notebook's shell that is used here.

    `execution_count`: number of the cell that runs.
    """

    execution_count: int


def notebook_shell() -> Shell | None:
    """Return the shell of the notebook in which this process runs."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return shell if getattr(shell, "kernel", None) is not None else None


class Notebook:
    """A display below the cell that runs."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._display = sys.modules["IPython"].display
        self._cell: int | None = None
        self._handle: Any = None
        self._shown = ""
        self._ended: list[Ended] = []

    def show(self, rows: list[Task], ended: list[Ended]) -> None:
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


def html_of(rows: list[Task], ended: list[Ended]) -> str:
    """Return what is shown in a notebook."""
    if not rows and not ended:
        return ""
    n_hidden = max(0, len(ended) - N_ENDED)
    lines = [f"and {n_hidden} earlier"] if n_hidden else []
    lines += [escape(f"\N{CHECK MARK} {one.text}, {one.seconds:.1f} s") for one in ended[n_hidden:]]
    lines += [_row(row, is_first=number == 0) for number, row in enumerate(rows)]
    return f'<div style="{_STYLE}">' + "".join(f"<div>{line}</div>" for line in lines) + "</div>"


def _row(row: Task, *, is_first: bool) -> str:
    text = escape(row.description.strip())
    if row.total is None:
        return f"<b>{text}</b> {times(row)}" if is_first else text
    share = f"{row.percentage:.0f}%"
    filled = f"display:block;width:{share};height:100%;background:#3b78c2;border-radius:.2em"
    bar = f'<span style="{_BAR}"><span style="{filled}"></span></span>'
    told = ", ".join(part for part in (row.fields["count"], times(row)) if part)
    return f"{bar} {share} {text} {escape(told)}"
