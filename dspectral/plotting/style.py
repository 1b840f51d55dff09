"""All pictures share axes, colors and the size that a notebook shows well."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter

BLUE, ORANGE, GREEN, GRAY = "#2457a6", "#d1662b", "#3a8f5c", "#5c6670"
_PALETTE = (BLUE, ORANGE, GREEN, "#8a4fa3", "#b0892a", "#2a9db0", "#c24a6b", GRAY)
"""Told apart by most eyes, on paper too."""


def axes_of(ax: Axes | None, *, width: float = 6.4, height: float = 3.6) -> Axes:
    """Return axes to draw on: those that are given, or those of a new figure of so many inches."""
    if ax is not None:
        return ax
    _, new = plt.subplots(figsize=(width, height), layout="constrained")
    return new


def colors_of(n: int) -> list[Any]:
    """Return as many colors as there are things to tell apart, however many."""
    if n <= len(_PALETTE):
        return list(_PALETTE[:n])
    return list(plt.get_cmap("turbo")(np.linspace(0.05, 0.95, n)))


def bare(ax: Axes) -> None:
    """Take away the two edges of a plot that carry no scale."""
    ax.spines[["top", "right"]].set_visible(False)


def plain_ticks(ax: Axes) -> None:
    """Write the numbers of a logarithmic scale as they are, without powers of ten between 0.001 and 100,000."""
    ax.yaxis.set_major_formatter(LogFormatter())
    ax.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.5)))
