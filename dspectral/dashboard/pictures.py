"""Three pictures of a fit over time: its rate, its certificate, and the memory of the workers."""

import math
from collections.abc import Sequence
from typing import Any

from bokeh.layouts import row
from bokeh.models import ColumnDataSource, NumeralTickFormatter, PrintfTickFormatter
from bokeh.plotting import figure

from dspectral.dashboard.states import FitState

BLUE, ORANGE, GRAY = "#3b78c2", "#e07b00", "#57606a"
HEIGHT = 210
"""Pixels of a picture."""


class Pictures:
    """Pictures side by side, or below each other where the window is narrow."""

    def __init__(self) -> None:
        self._rate = ColumnDataSource({"x": [], "rate": [], "plan": []})
        self._bound = ColumnDataSource({"x": [], "bound": []})
        self._memory = ColumnDataSource({"x": [], "size": [], "held": [], "law": []})
        self.root = row(
            self._rates(),
            self._bounds(),
            self._memories(),
            sizing_mode="stretch_width",
            styles={"flex-wrap": "wrap"},
        )

    def update(self, root: FitState) -> None:
        """Show another fit, or what is new of the same.

        Parameters
        ----------
        root : FitState
            The fit.
        """
        since = root.since
        rates = [(at - since, *values) for at, *values in root.rates.points]
        bounds = [(at - since, bound) for at, bound in root.bounds.points if bound > 0]
        memory = [(at - since, *values) for at, *values in root.memory.points]
        if bounds and root.is_running and memory:
            bounds.append((memory[-1][0], bounds[-1][1]))  # it holds until the next one
        _fill(self._rate, rates)
        _fill(self._bound, bounds)
        _fill(self._memory, memory)

    def _rates(self) -> Any:
        plot = _plot("Blocks a second")
        plot.line("x", "rate", source=self._rate, color=BLUE, width=2, legend_label="lately")
        plot.line(
            "x",
            "plan",
            source=self._rate,
            color=GRAY,
            line_dash="dashed",
            legend_label="earlier passes, or median",
        )
        plot.y_range.start = 0
        return _finished(plot)

    def _bounds(self) -> Any:
        plot = _plot("Certificate, share of the energy", y_axis_type="log")
        plot.step("x", "bound", source=self._bound, color=BLUE, width=2, mode="after")
        plot.scatter("x", "bound", source=self._bound, color=BLUE, size=4)
        plot.yaxis.formatter = PrintfTickFormatter(format="%.2g")
        return _finished(plot)

    def _memories(self) -> Any:
        plot = _plot("Memory of all workers")
        plot.varea(
            "x", 0, "held", source=self._memory, color=BLUE, alpha=0.35, legend_label="results that are held"
        )
        plot.line("x", "size", source=self._memory, color=BLUE, width=2, legend_label="processes")
        plot.line(
            "x",
            "law",
            source=self._memory,
            color=ORANGE,
            line_dash="dashed",
            width=2,
            legend_label="at the start + law",
        )
        plot.y_range.start = 0
        plot.yaxis.formatter = NumeralTickFormatter(format="0.0 b")
        return _finished(plot)


def _plot(title: str, **options: Any) -> Any:
    return figure(
        title=title,
        height=HEIGHT,
        min_width=300,
        sizing_mode="stretch_width",
        styles={"flex": "1 1 300px"},
        x_axis_label="seconds since the fit began",
        tools="",
        toolbar_location=None,
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
