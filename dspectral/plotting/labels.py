"""Labels beside points that cover neither each other nor a point."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation
from numpy.typing import NDArray

_STEPS = 36
"""Rings around a point on which a place is looked for, each a few points wider."""
_ANGLES = np.array([0, 180, 45, 135, -45, -135, 90, -90, 22, -22, 158, -158])
"""Directions in which a label may stand, in degrees, in the order in which they are tried."""


def place_labels(
    ax: Axes,
    points: NDArray[np.float64],
    texts: Sequence[str],
    *,
    size: float = 8.0,
) -> list[Annotation]:
    """Write a label beside each point, as near as there is room.

    Shapes: `points` (n, 2).

    Greedy: a label takes the first free place on rings around its point, and stays. A label that stands away from its
    point has a thin line to it. The cost is that of comparing each place with all boxes that stand already.
    """
    figure = ax.get_figure(root=True)
    if figure is None or not len(points):
        return []
    figure.draw_without_rendering()  # settles the layout, and so where points are
    scale = figure.dpi / 72.0
    spots = np.asarray(ax.transData.transform(points))
    frame = ax.get_window_extent()
    dot = 2.5 * scale
    taken = np.column_stack([spots - dot, spots + dot])
    written: list[Annotation] = []
    for i in range(len(points)):
        label = ax.annotate(
            texts[i].replace("$", r"\$"), (points[i, 0], points[i, 1]), (0, 0), textcoords="offset points",
            fontsize=size, ha="center", va="center", zorder=4,
        )  # fmt: skip
        box = label.get_window_extent()
        half = np.array([box.width, box.height]) / 2 + 0.8 * scale
        place = _free_place(spots[i], half, taken, (frame.x0, frame.y0, frame.x1, frame.y1), scale)
        if place is None:
            label.remove()
            continue
        offset = (place - spots[i]) / scale
        label.set_position((float(offset[0]), float(offset[1])))
        if np.abs(place - spots[i] - np.clip(place - spots[i], -half, half)).max() > 5 * scale:
            ax.annotate(
                "", (points[i, 0], points[i, 1]), (float(offset[0]), float(offset[1])), textcoords="offset points",
                arrowprops={"arrowstyle": "-", "color": "0.6", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}, zorder=1,
            )  # fmt: skip
        # Invariant: `taken` holds the box of every dot and of every label that was written; none of the labels covers
        # another box.
        taken = np.vstack([taken, [*(place - half), *(place + half)]])
        written.append(label)
    return written


def _free_place(
    spot: NDArray[np.float64],
    half: NDArray[np.float64],
    taken: NDArray[np.float64],
    frame: tuple[float, float, float, float],
    scale: float,
) -> NDArray[np.float64] | None:
    """Return the middle of the first free box around a spot, None if there is none within the frame."""
    for ring in range(_STEPS):
        for angle in np.deg2rad(_ANGLES):
            # From the edge of the box and not from its middle, so that wide labels stand as near as narrow ones.
            way = np.array([np.cos(angle), np.sin(angle)])
            place = spot + way * (half + (3.5 + 3.0 * ring) * scale)
            low, high = place - half, place + half
            if low[0] < frame[0] or low[1] < frame[1] or high[0] > frame[2] or high[1] > frame[3]:
                continue
            covered = (taken[:, :2] < high).all(axis=1) & (taken[:, 2:] > low).all(axis=1)
            if not covered.any():
                return place
    return None
