"""Interactive pictures for the page, made with Bokeh."""

from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, CustomJSTickFormatter, DataRange1d, HoverTool, TapTool
from bokeh.plotting import figure
from numpy.typing import NDArray

from dspectral.exploring.findings import Classes, Vocabulary, WordSpace
from dspectral.types import FloatArray

COLORS = (
    "#4e79a7",
    "#e1812c",
    "#3a923a",
    "#d4494b",
    "#8d69b8",
    "#9c755f",
    "#e377c2",
    "#7f8a93",
    "#a8a227",
    "#2fa3ad",
    "#8cc152",
    "#d9ab00",
)
"""One for each group of classes: readable on light and on dark."""
NO_GROUP = "#8a9199"
INK = "#80868c"
"""Axes and numbers: a gray that is read on white and on black, so that a page need not draw a plot twice."""
ACCENT = "#4e79a7"
N_LABELS = 90
"""Words written on the map; the others show their name under the pointer."""
TOOLTIP = '<div style="font:13px system-ui,sans-serif;color:#1c2024;max-width:16rem">{}</div>'


def quiet_figure(**settings: Any) -> figure:
    """Return a figure as wide as the page, without a frame and without a color of its own behind it."""
    plot = figure(
        sizing_mode="stretch_width",
        toolbar_location=settings.pop("toolbar_location", None),
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_alpha=0,
        min_border_right=12,
        **settings,
    )
    for axis in plot.axis:
        axis.axis_line_color = axis.major_tick_line_color = axis.major_label_text_color = INK
        axis.axis_label_text_color, axis.axis_label_text_font_style = INK, "normal"
        axis.minor_tick_line_alpha = 0
        axis.major_label_text_font_size = axis.axis_label_text_font_size = "12px"
    plot.grid.grid_line_color, plot.grid.grid_line_alpha = INK, 0.18
    return plot


def zipf_plot(vocabulary: Vocabulary) -> figure:
    """Draw the count of each type against its rank, both on logarithmic scales."""
    plot = quiet_figure(
        height=300,
        x_axis_type="log",
        y_axis_type="log",
        tools="",
        x_axis_label="rank of the word",
        y_axis_label="times it occurs",
    )
    ranks, counts = vocabulary.ranks, vocabulary.rank_counts
    source = ColumnDataSource({"rank": ranks, "count": counts, "word": vocabulary.rank_words})
    plot.line("rank", "count", source=source, color=ACCENT, line_width=1.5)
    points = plot.scatter("rank", "count", source=source, size=6, color=ACCENT, alpha=0.55)
    law = counts[0] / ranks
    plot.line(ranks[law >= 1], law[law >= 1], color=INK, line_dash="dashed", alpha=0.7)
    tip = TOOLTIP.format("<b>@word</b><br>@count{0,0} times, rank @rank{0,0}")
    plot.add_tools(HoverTool(renderers=[points], tooltips=tip))
    for axis in plot.axis:
        axis.formatter = CustomJSTickFormatter(code="return tick.toLocaleString('en')")
    return plot


def map_plot(vocabulary: Vocabulary, space: WordSpace, classes: Classes | None) -> figure:
    """Draw the map of words: a point for each frequent word, colored by its group of classes."""
    known = _map_columns(vocabulary, space, classes)
    source = ColumnDataSource(known, name="words")
    plot = quiet_figure(
        height=620,
        tools="pan,wheel_zoom,box_zoom,reset",
        toolbar_location="above",
        x_range=DataRange1d(range_padding=0.16),
        y_range=DataRange1d(range_padding=0.12),
    )
    plot.axis.visible, plot.grid.visible = False, False
    points = plot.scatter(
        "x", "y", source=source, size="size", color="color", alpha=0.7, line_width=0, nonselection_alpha=0.7
    )
    _label(plot, space.points, known["word"])
    found = ColumnDataSource({"x": [], "y": [], "word": []}, name="found")
    plot.scatter("x", "y", source=found, size=20, fill_alpha=0, line_width=3, line_color="#d4494b")
    named: dict[str, Any] = {"text_font_size": "15px", "text_font_style": "bold", "text_color": "#d4494b"}
    plot.text("x", "y", text="word", source=found, x_offset=13, y_offset=6, **named)
    tip = TOOLTIP.format("<b>@word</b> &middot; @count{0,0} times &middot; class @code<br>@near")
    plot.add_tools(HoverTool(renderers=[points], tooltips=tip), TapTool(renderers=[points]))
    plot.toolbar.autohide = False
    plot.toolbar.logo = None
    return plot


def _map_columns(vocabulary: Vocabulary, space: WordSpace, classes: Classes | None) -> dict[str, Any]:
    """Return what the map and its tooltips know of each word, by the names that the page's script reads."""
    # Type 0 stands for all rare words together, and has no point.
    n = len(space.points)
    counts, words = vocabulary.counts[1 : n + 1], vocabulary.words[1 : n + 1]
    groups = np.full(n, -1) if classes is None else classes.groups[1 : n + 1]
    color = [NO_GROUP if g < 0 else COLORS[g % len(COLORS)] for g in groups.tolist()]
    # Counts of words fall as 1 / rank: sizes as their logarithms, else a few words would cover all others. Adding 1
    # and 2 keeps both logarithms above zero where all counts are equal.
    size = np.round(
        4 + 9 * np.sqrt(np.log(counts / counts.min() + 1) / np.log(counts.max() / counts.min() + 2)), 1
    )
    code = [""] * n if classes is None else classes.codes[1 : n + 1]
    near = [", ".join(vocabulary.words[i] for i in row[:5].tolist()) for row in space.near[:n]]
    x, y = space.points.T
    known = {"x": x, "y": y, "word": words, "count": counts}
    return {**known, "color": color, "size": size, "code": code, "near": near}


def _label(plot: figure, points: FloatArray, words: list[str]) -> None:
    """Write the names of frequent words where there is room; the page's script keeps fewer on a narrow screen."""
    lengths = [len(word) for word in words]
    wide, narrow = roomy(points, lengths, width=650), roomy(points, lengths, width=340)
    chosen = np.union1d(wide, narrow)
    x, y = points[chosen].T
    names = [words[i] for i in chosen.tolist()]
    on = {"wide": np.isin(chosen, wide), "narrow": np.isin(chosen, narrow)}
    source = ColumnDataSource({"x": x, "y": y, "word": names, **on})
    style: dict[str, Any] = {"text_font_size": "12px", "text_color": INK, "text_align": "center"}
    plot.text("x", "y", text="word", source=source, y_offset=-4, name="labels", **style)


def roomy(points: FloatArray, lengths: list[int], *, width: int) -> NDArray[np.int64]:
    """Choose points, the first ones first, whose names do not overlap.

    Shapes: `points` (n, 2).
    """
    boxes: list[tuple[float, float, float]] = []
    chosen = []
    letter = 6 * 100 / width  # half of a letter of 6 pixels, in the points' unit
    # Invariant: no two of `boxes` overlap. Greedy in the order of the words' counts, at most N_LABELS comparisons a
    # point; 6.5 is the height of a line in the points' unit.
    for i, ((x, y), length) in enumerate(zip(points.tolist(), lengths, strict=True)):
        half = letter * (length + 1)
        if all(abs(x - a) > half + other or abs(y - b) > 6.5 for a, b, other in boxes):
            boxes.append((x, y, half))
            chosen.append(i)
        if len(chosen) == N_LABELS:
            break
    return np.array(chosen, dtype=np.int64)
