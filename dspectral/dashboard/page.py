"""The document behind ``/spectral``: cards of the fits that run, with pictures, and a table of those that are over."""

import math
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from bokeh.document import Document
from bokeh.layouts import column, row
from bokeh.models import ColumnDataSource, PrintfTickFormatter, Range1d
from bokeh.models.widgets.markups import Div
from bokeh.plotting import figure
from distributed import Scheduler
from distributed.dashboard.components.scheduler import BOKEH_THEME, env
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from dspectral.engine.around.events import format_pass_number
from dspectral.html import format_bytes, number
from dspectral.watch.history import FitHistory, FitState, PassState

BLUE, ORANGE, GRAY = "#3b78c2", "#e07b00", "#57606a"
HEIGHT = 210
"""Pixels of a picture."""
MAX_CARDS = 4
"""Fits that are shown in full; the newest go first."""
INTERVAL = 700
"""Milliseconds between two updates of a page that somebody looks at."""
MAX_BARS = 16
"""Passes in a row; earlier ones are counted."""
MAX_ENDED = 12
"""Fits in the table of those that are over."""
_OPTIONS: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "undefined": StrictUndefined}
_TEMPLATES = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, **_OPTIONS)
MACROS: Any = _TEMPLATES.get_template("cards.html").module


def card(record: FitHistory, root: FitState, now: float) -> str:
    """Return the card of a fit: name, state and figures; its passes; the tasks of one of them as a tree."""
    members = record.get_family(root)
    inner = next((fit.name for fit in reversed(members[1:]) if fit.is_running), "")
    passes = [one for one in sort_passes(members) if one.started is not None]
    running = [one for one in passes if one.is_running]
    trees = [one for one in passes if one.started and one.started.n_levels]
    newest = next(reversed(running or trees or passes), None)
    bars = [_make_bar(one, members) for one in passes[-MAX_BARS:]]
    bars += [("to come", 0.0, "")] * min(sum(map(_count_remaining, members)), MAX_BARS)
    return str(
        MACROS.card(
            " > ".join(filter(None, (root.name, inner))),
            *_describe_state(root, now),
            [*_make_chips(members, root, newest), *_make_warnings(record, members, root)],
            max(0, len(passes) - MAX_BARS),
            bars,
            _make_tree(newest),
        )
    )


def render_finished(record: FitHistory) -> str:
    """Return a table of the fits that are over."""
    over = [root for root in record.get_roots() if root.until is not None]
    over = sorted(over, key=lambda root: root.until or 0.0, reverse=True)[:MAX_ENDED]
    return str(MACROS.finished([_make_row(record, root) for root in over])) if over else ""


def sort_passes(members: list[FitState]) -> list[PassState]:
    """Return the passes of some fits in the order in which they began."""
    return sorted((one for fit in members for one in fit.passes.values()), key=lambda one: one.order)


def _describe_state(root: FitState, now: float) -> tuple[str, str]:
    """Return what went wrong, and the state."""
    if root.is_running:
        return "", f"running, {timedelta(seconds=int(now - root.since))}"
    seconds = root.ended.seconds if root.ended else (root.until or now) - root.since
    if root.left:
        return "its client left", f"after {timedelta(seconds=int(seconds))}"
    if root.ended and root.ended.error:
        return root.ended.error, f"after {seconds:,.1f} s"
    return "", f"finished in {seconds:,.1f} s"


def _make_chips(members: list[FitState], root: FitState, one: PassState | None) -> list[tuple[str, str, str]]:
    chips = []
    if one is not None and one.started is not None and one.is_running:
        started = one.started
        n_passes = next((fit.n_passes for fit in members if one.run in fit.passes), None)
        chips.append(
            (format_pass_number(started.number, n_passes) or "step", f"{started.name}, {one.share:.0%}", "")
        )
        if root.rates.points and one.rates:
            rate = root.rates.points[-1][1]
            rows = rate * started.n_rows / started.n_blocks if started.n_rows and started.n_blocks else None
            text = f"{rate:,.3g} blocks/s" + ("" if rows is None else f", {number(round(rows))} rows/s")
            chips.append(("rate", text, ""))
    if root.bounds.points:
        chips.append(("certificate", f"{root.bounds.points[-1][1]:.3g} of the energy", ""))
    if root.is_running and root.memory is not None:
        processes, interpreters, memory_bound = root.memory
        text = format_bytes(processes)
        if interpreters is not None:
            text += f", {format_bytes(max(0, processes - interpreters))} beyond their interpreters"
            text += "" if memory_bound is None else f" (by the law up to {format_bytes(memory_bound)})"
        chips.append(("workers", text, ""))
    return chips


def _make_warnings(record: FitHistory, members: list[FitState], root: FitState) -> list[tuple[str, str, str]]:
    lost, loops = _format_lost(members, root), sorted(record.get_compiling_loops()) if root.is_running else []
    names = ", ".join(loops[:3]) + f" and {len(loops) - 3} more" * (len(loops) > 3)
    chips = [("lost", lost), ("compiling", f"{names} (once, kept for later runs)" if loops else "")]
    return [(name, text, "warm") for name, text in chips if text]


def _format_lost(members: list[FitState], root: FitState) -> str:
    n_tasks = sum(one.n_redone for one in sort_passes(members))
    workers = f"{root.lost_workers} worker{'s' * (root.lost_workers != 1)}" if root.lost_workers else ""
    tasks = f"{n_tasks} task{'s' * (n_tasks != 1)} run again" if n_tasks else ""
    return ", ".join(filter(None, (workers, tasks)))


def _count_remaining(fit: FitState) -> int:
    if not fit.is_running or fit.n_passes is None:
        return 0
    started = [one.started.number or 0 for one in fit.passes.values() if one.started]
    return max(0, fit.n_passes - max(started, default=0))


def _make_bar(one: PassState, members: list[FitState]) -> tuple[str, float, str]:
    started = one.started
    number_of = "" if started is None or started.number is None else f"{started.number} "
    owner = next((f"{fit.name}: " for fit in members[1:] if one.run in fit.passes), "")
    state = f"{one.ended.seconds:,.1f} s" if one.ended else f"{one.share:.0%}"
    kind = "bad" if one.ended and one.ended.error else ("runs" if one.is_running else "")
    return f"{owner}{number_of}{started.name if started else ''}, {state}", one.share, kind


def _make_tree(one: PassState | None) -> dict[str, Any] | None:
    """Return title and bars of a pass, one for each level: the last merge on top, blocks at the bottom."""
    if one is None or one.started is None:
        return None
    started, levels = one.started, []
    again = one.counts.again if one.ended is None else [0] * len(one.totals)
    for level, (done, total, redone) in enumerate(zip(one.done, one.totals, again, strict=True)):
        parts = [(0, done - redone, "done"), (done - redone, done, "again"), (done, total, "todo")]
        bar = [(start / total, end / total, kind) for start, end, kind in parts if end > start]
        name = f"level {level}" if level else "blocks"
        levels.append((name, number(done), number(total), number(redone) if redone else "", bar))
    name = ", ".join(filter(None, (format_pass_number(started.number, None), started.name)))
    shape = f"{started.fan_in} summaries to a merge" if started.fan_in else "nothing is merged"
    return {"title": f"{name}: {number(started.n_blocks)} blocks, {shape}", "levels": levels[::-1]}


def _make_row(record: FitHistory, root: FitState) -> tuple[str, ...]:
    members = record.get_family(root)
    return (
        root.name,
        time.strftime("%H:%M:%S", time.localtime(root.until)),
        str(root.ended.n_passes if root.ended else len(sort_passes(members))),
        f"{root.ended.seconds:,.1f}" if root.ended else "",
        f"{root.bounds.points[-1][1]:.3g}" if root.bounds.points else "",
        _format_lost(members, root),
        "its client left" if root.left else (root.ended.error if root.ended else ""),
    )


class Card:
    """One fit in full: text, and pictures side by side, or below each other where the window is narrow."""

    def __init__(self) -> None:
        self._sources = {
            "rates": ColumnDataSource({"x": [], "rate": [], "plan": []}),
            "bounds": ColumnDataSource({"x": [], "bound": []}),
            "held": ColumnDataSource({"x": [], "size": [], "law": []}),
        }
        self._seconds, self._decades = Range1d(start=0, end=1), Range1d(start=1e-3, end=1)
        self._plots = {"rates": self._plot_rates(), "bounds": self._plot_bounds(), "held": self._plot_held()}
        self._text = _make_text()
        wrapped = {"flex-wrap": "wrap", "margin-top": "10px"}
        self.root = column(
            self._text,
            row(*self._plots.values(), sizing_mode="stretch_width", styles=wrapped),
            sizing_mode="stretch_width",
            styles={"border-bottom": "1px solid #d0d7de", "padding": "4px 14px 14px"},
        )

    def update(self, record: FitHistory, root: FitState, now: float) -> None:
        """Show another fit, or what is new of the same."""
        _set_text(self._text, card(record, root, now))
        self.root.visible = True
        until = (root.until or now) - root.since
        bounds = [point for point in root.bounds.points if point[1] > 0]
        if bounds and root.is_running:
            bounds.append((now, bounds[-1][1]))  # it holds until the next one
        if bounds:  # decades, for else the ticks of a logarithmic axis are crowded
            self._decades.start = min(bound for _at, bound in bounds) / 10
            self._decades.end = max(bound for _at, bound in bounds) * 10
        self._seconds.end = max(until, 1.0)
        held = [(at, size / 1e6, memory_bound / 1e6) for at, size, memory_bound in root.held.points]
        for name, points in (("rates", root.rates.points), ("bounds", bounds), ("held", held)):
            _update_source(self._sources[name], [(at - root.since, *values) for at, *values in points])
            self._plots[name].visible = bool(points)

    def _plot_rates(self) -> Any:
        plot, source = self._plot("Blocks a second"), self._sources["rates"]
        plot.line("x", "rate", source=source, color=BLUE, width=2, legend_label="lately")
        plan = {"color": GRAY, "line_dash": "dashed", "legend_label": "earlier passes, or median"}
        plot.line("x", "plan", source=source, **plan)
        plot.y_range.start = 0
        return _style_plot(plot)

    def _plot_bounds(self) -> Any:
        options = {"y_axis_type": "log", "y_range": self._decades}
        plot = self._plot("Certificate, share of the energy", **options)
        source = self._sources["bounds"]
        label = "bound for what is summarized"
        plot.step("x", "bound", source=source, color=BLUE, width=2, mode="after", legend_label=label)
        plot.scatter("x", "bound", source=source, color=BLUE, size=4)
        plot.yaxis.formatter = PrintfTickFormatter(format="%.2g")
        return _style_plot(plot)

    def _plot_held(self) -> Any:
        plot, source = self._plot("Summaries that workers hold, MB"), self._sources["held"]
        plot.varea("x", 0, "size", source=source, color=BLUE, alpha=0.35, legend_label="held, with copies")
        memory_bound = {
            "color": ORANGE,
            "line_dash": "dashed",
            "width": 2,
            "legend_label": "most, by the law",
        }
        plot.line("x", "law", source=source, **memory_bound)
        plot.y_range.start = 0
        return _style_plot(plot)

    def _plot(self, title: str, **options: Any) -> Any:
        return figure(
            title=title,
            height=HEIGHT,
            min_width=300,
            sizing_mode="stretch_width",
            styles={"flex": "1 1 300px"},
            x_range=self._seconds,
            x_axis_label="seconds since the fit began",
            tools="",
            toolbar_location=None,
            visible=False,
            **options,
        )


def _style_plot(plot: Any) -> Any:
    """Leave out what says nothing, and put the legend below the picture."""
    plot.outline_line_color = None
    plot.xgrid.grid_line_color = None
    plot.axis.minor_tick_line_color = None
    plot.axis.axis_label_text_font_style = "normal"
    plot.axis.axis_label_text_color = plot.axis.major_label_text_color = plot.title.text_color = GRAY
    if plot.legend:
        plot.legend.orientation = "horizontal"
        plot.legend.border_line_color = None
        plot.legend.label_text_font_size = "11px"
        plot.legend.padding = plot.legend.margin = 0
        plot.add_layout(plot.legend[0], "below")
    return plot


def _update_source(source: ColumnDataSource, points: Sequence[tuple[float, ...]]) -> None:
    """Send points if they are others than those that are there."""
    names = list(source.data)
    columns = list(zip(*points, strict=True)) or [()] * len(names)
    new = {name: list(column) for name, column in zip(names, columns, strict=True)}
    if any(not _has_same_values(source.data[name], new[name]) for name in names):
        source.data = new


def _has_same_values(old: Any, new: list[float]) -> bool:
    return len(old) == len(new) and all(
        a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(old, new, strict=True)
    )


class Page:
    """All cards, and what is over."""

    def __init__(self, record: FitHistory) -> None:
        self._record = record
        self._empty, self._over = _make_text(), _make_text()
        self._cards: list[Card] = []
        self._column = column(sizing_mode="stretch_width")
        self.root = column(
            column(self._empty, sizing_mode="stretch_width", styles={"padding": "4px 14px"}),
            self._column,
            column(self._over, sizing_mode="stretch_width", styles={"padding": "4px 14px"}),
            sizing_mode="stretch_width",
        )

    def update(self) -> None:
        """Show what is new."""
        now = time.time()
        shown = select_fits(self._record)
        self._empty.visible = not any(root.is_running for root in shown)
        _set_text(self._empty, str(MACROS.last() if shown else MACROS.nothing()))
        if len(self._cards) < len(shown):
            self._cards += [Card() for _ in range(len(shown) - len(self._cards))]
            self._column.children = [one.root for one in self._cards]
        for one, root in zip(self._cards, shown, strict=False):
            one.update(self._record, root, now)
        for one in self._cards[len(shown) :]:
            one.root.visible = False
        _set_text(self._over, render_finished(self._record))


def select_fits(record: FitHistory) -> list[FitState]:
    """Return the fits that are shown in full."""
    roots = record.get_roots()
    running = [root for root in roots if root.is_running][::-1]
    over = sorted((root for root in roots if root.until is not None), key=lambda root: root.until or 0.0)
    return running[:MAX_CARDS] or over[-1:]


def show(record: FitHistory, _scheduler: Scheduler, extra: dict[str, Any], doc: Document) -> None:
    """Fill a document, as Bokeh's server asks for each visitor."""
    page = Page(record)
    page.update()
    doc.title = "Dask: spectral"
    doc.add_root(page.root)
    doc.template = env.get_template("simple.html")
    doc.template_variables.update(extra)
    doc.theme = BOKEH_THEME
    doc.add_periodic_callback(page.update, INTERVAL)


def _make_text() -> Div:
    return Div(sizing_mode="stretch_width", stylesheets=[str(MACROS.style())])


def _set_text(text: Div, html: str) -> None:
    if text.text != html:
        text.text = html
