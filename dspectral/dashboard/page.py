"""The document behind ``/spectral``: cards of the fits that run, with pictures, and a table of those that are over."""

import math
import time
from collections.abc import Sequence
from typing import Any

from bokeh.document import Document
from bokeh.layouts import column, row
from bokeh.models import ColumnDataSource, PrintfTickFormatter, Range1d
from bokeh.models.widgets.markups import Div
from bokeh.plotting import figure
from distributed import Scheduler
from distributed.dashboard.components.scheduler import BOKEH_THEME, env

from dspectral.dashboard import cards
from dspectral.watch.record import FitState, Record

BLUE, ORANGE, GRAY = "#3b78c2", "#e07b00", "#57606a"
HEIGHT = 210
"""Pixels of a picture."""
MOST_CARDS = 4
"""Fits that are shown in full; the newest go first."""
INTERVAL = 700
"""Milliseconds between two updates of a page that somebody looks at."""


class Card:
    """One fit in full: text, and pictures side by side, or below each other where the window is narrow."""

    def __init__(self) -> None:
        self._sources = {
            "rates": ColumnDataSource({"x": [], "rate": [], "plan": []}),
            "bounds": ColumnDataSource({"x": [], "bound": []}),
            "held": ColumnDataSource({"x": [], "size": [], "law": []}),
        }
        self._seconds, self._decades = Range1d(start=0, end=1), Range1d(start=1e-3, end=1)
        self._plots = {"rates": self._rates(), "bounds": self._bounds(), "held": self._held()}
        self._text = _text()
        wrapped = {"flex-wrap": "wrap", "margin-top": "10px"}
        self.root = column(
            self._text,
            row(*self._plots.values(), sizing_mode="stretch_width", styles=wrapped),
            sizing_mode="stretch_width",
            styles={"border-bottom": "1px solid #d0d7de", "padding": "4px 14px 14px"},
        )

    def update(self, record: Record, root: FitState, now: float) -> None:
        """Show another fit, or what is new of the same."""
        _say(self._text, cards.card(record, root, now))
        self.root.visible = True
        until = (root.until or now) - root.since
        bounds = [point for point in root.bounds.points if point[1] > 0]
        if bounds and root.is_running:
            bounds.append((now, bounds[-1][1]))  # it holds until the next one
        if bounds:  # decades, for else the ticks of a logarithmic axis are crowded
            self._decades.start = min(bound for _at, bound in bounds) / 10
            self._decades.end = max(bound for _at, bound in bounds) * 10
        self._seconds.end = max(until, 1.0)
        held = [(at, size / 1e6, law / 1e6) for at, size, law in root.held.points]
        for name, points in (("rates", root.rates.points), ("bounds", bounds), ("held", held)):
            _fill(self._sources[name], [(at - root.since, *values) for at, *values in points])
            self._plots[name].visible = bool(points)

    def _rates(self) -> Any:
        plot, source = self._plot("Blocks a second"), self._sources["rates"]
        plot.line("x", "rate", source=source, color=BLUE, width=2, legend_label="lately")
        plan = {"color": GRAY, "line_dash": "dashed", "legend_label": "earlier passes, or median"}
        plot.line("x", "plan", source=source, **plan)
        plot.y_range.start = 0
        return _finished(plot)

    def _bounds(self) -> Any:
        options = {"y_axis_type": "log", "y_range": self._decades}
        plot = self._plot("Certificate, share of the energy", **options)
        source = self._sources["bounds"]
        label = "bound for what is summarized"
        plot.step("x", "bound", source=source, color=BLUE, width=2, mode="after", legend_label=label)
        plot.scatter("x", "bound", source=source, color=BLUE, size=4)
        plot.yaxis.formatter = PrintfTickFormatter(format="%.2g")
        return _finished(plot)

    def _held(self) -> Any:
        plot, source = self._plot("Summaries that workers hold, MB"), self._sources["held"]
        plot.varea("x", 0, "size", source=source, color=BLUE, alpha=0.35, legend_label="held, with copies")
        law = {"color": ORANGE, "line_dash": "dashed", "width": 2, "legend_label": "most, by the law"}
        plot.line("x", "law", source=source, **law)
        plot.y_range.start = 0
        return _finished(plot)

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


def _finished(plot: Any) -> Any:
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


def _fill(source: ColumnDataSource, points: Sequence[tuple[float, ...]]) -> None:
    """Send points if they are others than those that are there."""
    names = list(source.data)
    columns = list(zip(*points, strict=True)) or [()] * len(names)
    new = {name: list(column) for name, column in zip(names, columns, strict=True)}
    if any(not _same(source.data[name], new[name]) for name in names):
        source.data = new


def _same(old: Any, new: list[float]) -> bool:
    return len(old) == len(new) and all(
        a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(old, new, strict=True)
    )


class Page:
    """All cards, and what is over."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._empty, self._over = _text(), _text()
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
        shown = shown_fits(self._record)
        self._empty.visible = not any(root.is_running for root in shown)
        _say(self._empty, str(cards.MACROS.last() if shown else cards.MACROS.nothing()))
        if len(self._cards) < len(shown):
            self._cards += [Card() for _ in range(len(shown) - len(self._cards))]
            self._column.children = [card.root for card in self._cards]
        for card, root in zip(self._cards, shown, strict=False):
            card.update(self._record, root, now)
        for card in self._cards[len(shown) :]:
            card.root.visible = False
        _say(self._over, cards.finished(self._record))


def shown_fits(record: Record) -> list[FitState]:
    """Return the fits that are shown in full."""
    roots = record.roots()
    running = [root for root in roots if root.is_running][::-1]
    over = sorted((root for root in roots if root.until is not None), key=lambda root: root.until or 0.0)
    return running[:MOST_CARDS] or over[-1:]


def show(record: Record, _scheduler: Scheduler, extra: dict[str, Any], doc: Document) -> None:
    """Fill a document, as Bokeh's server asks for each visitor."""
    page = Page(record)
    page.update()
    doc.title = "Dask: spectral"
    doc.add_root(page.root)
    doc.template = env.get_template("simple.html")
    doc.template_variables.update(extra)
    doc.theme = BOKEH_THEME
    doc.add_periodic_callback(page.update, INTERVAL)


def _text() -> Div:
    return Div(sizing_mode="stretch_width", stylesheets=[str(cards.MACROS.style())])


def _say(text: Div, html: str) -> None:
    if text.text != html:
        text.text = html
