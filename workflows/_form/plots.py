"""Plots in one style, without a display."""

from io import BytesIO
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = ("#2457a6", "#d1662b", "#3a8f5c", "#8a4fa3", "#b0892a", "#5c6670")
"""Told apart by most eyes, on paper too."""


def new_plot(title: str, *, x: str, y: str, log: str = "") -> tuple[Figure, Axes]:
    """Return a figure with one empty plot.

    Parameters
    ----------
    title, x, y : str
        What stands above, under and beside it; the axes with their units.
    log : str
        Which axes are logarithmic: ``""``, ``"x"``, ``"y"`` or ``"xy"``.

    Returns
    -------
    figure : matplotlib.figure.Figure
    axes : matplotlib.axes.Axes
    """
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


def png(figure: Any) -> bytes:
    """Return a Matplotlib figure as a PNG."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=144)
    return buffer.getvalue()
