"""The tree up which the summaries of blocks are merged."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator
from matplotlib.typing import ColorType
from numpy.typing import NDArray

from dspectral.configuration import configured_fan_in
from dspectral.plotting.style import GRAY, axes_of

_MOST_DRAWN = 400
"""Blocks of which each line is drawn; of more there is the outline alone."""


def plot_merge_tree(
    blocks: Any,
    ax: Axes | None = None,
    *,
    fan_in: int | None = None,
    certificates: Sequence[float] | None = None,
) -> Axes:
    """Draw how the summaries of blocks are merged, level by level, until one is left.

    Parameters
    ----------
    blocks : int, store or corpus
        Number of blocks, or what has ``n_blocks``.
    ax : Axes, default=None
        Axes to draw on; by default those of a new figure.
    fan_in : int, default=None
        Number of neighbors that a merge takes; by default Dask's configuration says it (``dspectral.fan-in``).
    certificates : sequence of float, default=None
        Largest certificate on each level as a share of the energy, that of the blocks' own summaries first.

    Returns
    -------
    Axes
        Axes with the blocks at the bottom; the label of each level says how many summaries are on it.

    Raises
    ------
    ValueError
        If there is no block, or there are more certificates than levels.

    Examples
    --------
    >>> ax = plot_merge_tree(5, fan_in=2)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['5 blocks', 'level 1: 3', 'level 2: 2', 'level 3: 1']
    """
    n_blocks = int(getattr(blocks, "n_blocks", blocks))
    fan_in = configured_fan_in() if fan_in is None else fan_in
    if n_blocks < 1 or fan_in < 2:
        raise ValueError(
            f"there are {n_blocks} block(s) and a fan-in of {fan_in}, but must be 1 or more and 2 or more"
        )
    # Where blocks are too many to tell lines apart, levels are bars, and the tree is its outline.
    places = _places(n_blocks, fan_in)
    known = [] if certificates is None else list(certificates)
    if len(known) > len(places):
        raise ValueError(
            f"there are {len(known)} certificates, but {len(places)} levels with that of the blocks"
        )
    ax = axes_of(ax, height=min(1.2 + 0.42 * len(places), 5.5))
    shades = colormaps["viridis"](np.linspace(0.05, 0.85, len(places)))
    for level, (x, shade) in enumerate(zip(places, shades, strict=True)):
        if n_blocks > _MOST_DRAWN and len(x) > 1:
            ax.plot([x[0], x[-1]], [level, level], color=shade, linewidth=4, solid_capstyle="round", zorder=3)
            continue
        if n_blocks <= _MOST_DRAWN and level:
            _draw_merges(ax, level, places, fan_in, shade)
        size = float(np.clip(900 / len(x), 3, 50))
        ax.scatter(x, np.full(len(x), level), s=size, color=[shade], zorder=3, linewidths=0)
    if n_blocks > _MOST_DRAWN:
        left, right = [x[0] for x in places], [x[-1] for x in places]
        ax.fill_betweenx(np.arange(len(places)), left, right, color=GRAY, alpha=0.12, linewidth=0)
    _name_levels(ax, [len(x) for x in places])
    _add_certificates(ax, known, len(places))
    return ax


def _places(n_blocks: int, fan_in: int) -> list[NDArray[np.float64]]:
    """Return where the summaries of each level stand: above the middle of those that they merge."""
    places = [np.arange(1.0, n_blocks + 1)]
    # As merge_tree groups neighbors: the last group of a level may be smaller, down to one, which moves up as it is.
    while len(below := places[-1]) > 1:
        first = np.arange(0, len(below), fan_in)
        last = np.minimum(first + fan_in, len(below)) - 1
        places.append((below[first] + below[last]) / 2)
    return places


def _draw_merges(
    ax: Axes, level: int, places: list[NDArray[np.float64]], fan_in: int, shade: ColorType
) -> None:
    below, above = places[level - 1], places[level]
    lines = [[(x, level - 1.0), (above[i // fan_in], float(level))] for i, x in enumerate(below)]
    width = float(np.clip(90 / len(lines), 0.4, 1.5))
    ax.add_collection(LineCollection(lines, colors=[shade], linewidths=width))


def _name_levels(ax: Axes, sizes: list[int]) -> None:
    """Say at the left how many summaries each level has, the blocks first."""
    names = [f"{sizes[0]:,} block{'s' if sizes[0] > 1 else ''}"]
    names += [f"level {level}: {size:,}" for level, size in enumerate(sizes) if level]
    ax.set_yticks(range(len(sizes)), names)
    ax.set_ylim(-0.5, len(sizes) - 0.5)
    ax.set_xlabel("block")
    ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)


def _add_certificates(ax: Axes, known: list[float], n_levels: int) -> None:
    """Write the certificate of each level at the right, on an axis of its own."""
    if not known:
        return
    right = ax.twinx()
    right.set_ylim(-0.5, n_levels - 0.5)
    right.set_yticks(range(len(known)), [f"{100 * share:.2g} %" for share in known])
    right.set_ylabel("certificate, share of the energy")
    right.tick_params(axis="y", length=0)
    right.spines[["top", "right", "left"]].set_visible(False)
