"""Axes, colors and sizes shared by all plots."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter, MaxNLocator

BLUE, ORANGE, GREEN, GRAY = "#2457a6", "#d1662b", "#3a8f5c", "#5c6670"
_PALETTE = (BLUE, ORANGE, GREEN, "#8a4fa3", "#b0892a", "#2a9db0", "#c24a6b", GRAY)
"""Distinguishable with color blindness, and in print."""


def get_axes(ax: Axes | None, *, width: float = 6.4, height: float = 3.6) -> Axes:
    """Return the given axes, or those of a new figure; sizes are in inches."""
    if ax is not None:
        return ax
    _, new = plt.subplots(figsize=(width, height), layout="constrained")
    return new


def get_colors(n: int) -> list[Any]:
    """Return n distinct colors."""
    if n <= len(_PALETTE):
        return list(_PALETTE[:n])
    return list(plt.get_cmap("turbo")(np.linspace(0.05, 0.95, n)))


def finish_axes(ax: Axes, *, ylabel: str) -> None:
    """Label components and a logarithmic y axis, without powers of ten between 0.001 and 100,000."""
    ax.set(xlabel="component", ylabel=ylabel)
    ax.yaxis.set_major_formatter(LogFormatter())
    ax.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.5)))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.spines[["top", "right"]].set_visible(False)
