"""Plots in one style, without a display."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from .table import number

COLOURS = ("#2457a6", "#d1662b", "#3a8f5c", "#8a4fa3", "#b0892a", "#5c6670")
"""Distinguishable with color blindness, and in print."""


FEW_PERCENT = 0.05
"""Share below which bars have two decimals."""
NARROW = 0.7
"""An axis does not begin at zero if the smallest value is a larger share of the largest."""


def new_plot(title: str, *, x: str, y: str, log: str = "") -> tuple[Figure, Axes]:
    """Return a figure with one empty plot."""
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.set_prop_cycle(color=COLOURS)
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_axisbelow(True)
    axes.grid(visible=True, alpha=0.25, linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    return figure, axes


def new_lines(
    title: str,
    lines: Mapping[str, Sequence[tuple[float, float]]],
    levels: Mapping[str, float] | None = None,
    **axes_of: str,
) -> tuple[Figure, Axes]:
    """Return a figure with a line through the points of each name, and a dashed one at each level."""
    figure, axes = new_plot(title, **axes_of)
    for name, points in lines.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    for name, value in (levels or {}).items():
        axes.axhline(value, color="#999", linewidth=0.9, linestyle="--", label=name)
    axes.legend(frameon=False)
    return figure, axes


def at_integers(axes: Axes) -> None:
    """Put ticks of the x axis at integers."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def from_zero(axes: Axes, axis: str = "y", *, shares: bool = False, below: bool = False, zoom: bool = False) -> None:
    """Start an axis at zero."""
    data = axes.dataLim
    smallest, largest = (data.x0, data.x1) if axis == "x" else (data.y0, data.y1)
    if shares:
        {"x": axes.xaxis, "y": axes.yaxis}[axis].set_major_formatter(PercentFormatter(1.0, decimals=None))
    if zoom and smallest > NARROW * largest:
        label = axes.get_ylabel() if axis == "y" else axes.get_xlabel()
        {"x": axes.set_xlabel, "y": axes.set_ylabel}[axis](f"{label}\n(the axis does not begin at zero)")
        return
    limits = {"x": axes.set_xlim, "y": axes.set_ylim}[axis]
    low, top = {"x": axes.get_xlim, "y": axes.get_ylim}[axis]()
    least = low if low < 0 and below else 0.0
    limits(min(0.0, least), min(1.05 * top, max(1.03, largest)) if shares else top)


def new_bars(
    title: str, *, x: str, values: Mapping[str, float], errors: Mapping[str, float] | None = None
) -> tuple[Figure, Axes]:
    """Return a figure with a bar from zero for each name, the first on top, and the value beside it."""
    figure, axes = new_plot(title, x=x, y="")
    figure.set_figheight(1.3 + 0.38 * len(values))
    names, lengths = list(values), list(values.values())
    half = [errors.get(name, 0.0) for name in names] if errors else None
    bars = axes.barh(names, lengths, xerr=half, color=COLOURS[0], height=0.65, error_kw={"capsize": 3})
    are_shares = max(lengths, default=0.0) <= 1.0
    decimals = 1 if max(lengths, default=0.0) > FEW_PERCENT else 2
    said = [f"{length:.{decimals}%}" if are_shares else number(length) for length in lengths]
    axes.bar_label(bars, said, padding=4, fontsize=9)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.15)
    from_zero(axes, "x", shares=are_shares, below=min(lengths, default=0.0) < 0)
    return figure, axes


def png(figure: Any) -> bytes:
    """Return a Matplotlib figure as a PNG."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=144)
    return buffer.getvalue()
