"""Scatter plot of words whose labels do not overlap."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation

from dspectral.plotting.style import get_axes, get_colors
from dspectral.types import Doubles

_N_RINGS = 36
"""Number of rings of label positions around a point."""
_ANGLES = np.array([0, 180, 45, 135, -45, -135, 90, -90, 22, -22, 158, -158])
"""Directions of label positions in degrees, in the order in which they are tried."""


def draw_labels(ax: Axes, points: Doubles, texts: Sequence[str], *, size: float = 8.0) -> list[Annotation]:
    """Draw a label at the first free position around each point (n, 2), with a thin line to distant points."""
    figure = ax.get_figure(root=True)
    if figure is None or not len(points):
        return []
    figure.draw_without_rendering()  # fixes the layout, and so the positions of points
    scale = figure.dpi / 72.0
    anchors = np.asarray(ax.transData.transform(points))
    frame = ax.get_window_extent()
    dot = 2.5 * scale
    boxes = np.column_stack([anchors - dot, anchors + dot])
    labels: list[Annotation] = []
    for i in range(len(points)):
        label = ax.annotate(
            texts[i].replace("$", r"\$"), (points[i, 0], points[i, 1]), (0, 0), textcoords="offset points",
            fontsize=size, ha="center", va="center", zorder=4,
        )  # fmt: skip
        box = label.get_window_extent()
        half = np.array([box.width, box.height]) / 2 + 0.8 * scale
        position = _find_free_position(anchors[i], half, boxes, (frame.x0, frame.y0, frame.x1, frame.y1), scale)
        if position is None:
            label.remove()
            continue
        offset = (position - anchors[i]) / scale
        label.set_position((float(offset[0]), float(offset[1])))
        if np.abs(position - anchors[i] - np.clip(position - anchors[i], -half, half)).max() > 5 * scale:
            ax.annotate(
                "", (points[i, 0], points[i, 1]), (float(offset[0]), float(offset[1])), textcoords="offset points",
                arrowprops={"arrowstyle": "-", "color": "0.6", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}, zorder=1,
            )  # fmt: skip
        # Invariant: `boxes` holds the boxes of all dots and of the labels so far; labels overlap no other box.
        boxes = np.vstack([boxes, [*(position - half), *(position + half)]])
        labels.append(label)
    return labels


def _find_free_position(
    anchor: Doubles,
    half: Doubles,
    boxes: Doubles,
    frame: tuple[float, float, float, float],
    scale: float,
) -> Doubles | None:
    """Return the center of the first free box around an anchor, or None if the frame has none."""
    for ring in range(_N_RINGS):
        for angle in np.deg2rad(_ANGLES):
            # Distances count from the edge of the box, so that wide labels are as near as narrow ones.
            direction = np.array([np.cos(angle), np.sin(angle)])
            position = anchor + direction * (half + (3.5 + 3.0 * ring) * scale)
            low, high = position - half, position + half
            if low[0] < frame[0] or low[1] < frame[1] or high[0] > frame[2] or high[1] > frame[3]:
                continue
            covered = (boxes[:, :2] < high).all(axis=1) & (boxes[:, 2:] > low).all(axis=1)
            if not covered.any():
                return position
    return None


_MAX_LEGEND_ENTRIES = 20


def plot_words(
    embedding: Any,
    words: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    ax: Axes | None = None,
    *,
    n: int = 80,
) -> Axes:
    """Plot words at the first two principal components of their vectors, with labels that do not overlap.

    Parameters
    ----------
    embedding : WordEmbedding
        A fitted embedding, or another object with ``words_`` and ``vectors_``.
    words : sequence of str, or dict of str to sequence of str, default=None
        Words to plot; each entry of a dictionary is a group with its own color. By default the ``n`` most
        frequent words.
    ax : Axes, default=None
        Axes to draw on; by default those of a new figure.
    n : int, default=80
        Number of words if ``words`` is None.

    Returns
    -------
    Axes
        Axes with a dot for each word. Words without a free position have no label.

    Raises
    ------
    KeyError
        If a word is not in the vocabulary.
    ValueError
        If there are fewer than two words.

    Examples
    --------
    >>> from dspectral import WordEmbedding
    >>> model = WordEmbedding(2).fit([["the", "cat", "sat"], ["the", "dog", "ran"]] * 9)
    >>> len(plot_words(model, ["cat", "dog", "sat"]).texts) >= 3
    True
    """
    groups = _group_words(embedding, words, n)
    all_words = [word for members in groups.values() for word in members]
    if len(all_words) < 2:
        raise ValueError(f"words={all_words} must hold at least 2 words")
    positions = _project_to_plane(np.asarray(embedding.vectors_, dtype=np.float64)[_get_word_ids(embedding, all_words)])
    ax = get_axes(ax, width=7.0, height=5.2)
    start = 0
    for color, (name, members) in zip(get_colors(len(groups)), groups.items(), strict=True):
        part = positions[start : start + len(members)]
        start += len(members)
        ax.scatter(part[:, 0], part[:, 1], s=14, color=color, label=name, zorder=3, linewidths=0)
    ax.margins(0.08)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_color("0.8")
    if 1 < len(groups) <= _MAX_LEGEND_ENTRIES:
        columns = min(len(groups), 5)
        ax.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.01), ncols=columns)
    ax.set_xlim(ax.get_xlim())
    ax.set_ylim(ax.get_ylim())
    draw_labels(ax, positions, all_words)
    return ax


def _group_words(
    embedding: Any, words: Sequence[str] | Mapping[str, Sequence[str]] | None, n: int
) -> dict[str, list[str]]:
    if words is None:
        return {"": [word for word in embedding.words_[: n + 1] if word != "<?>"][:n]}
    if isinstance(words, Mapping):
        return {str(name): list(members) for name, members in words.items() if len(members)}
    return {"": list(words)}


def _get_word_ids(embedding: Any, words: list[str]) -> list[int]:
    word_ids = {word: i for i, word in enumerate(embedding.words_)}
    for word in words:
        if word not in word_ids:
            raise KeyError(f"{word!r} is not one of the words of the embedding: pass words of words_")
    return [word_ids[word] for word in words]


def _project_to_plane(vectors: Doubles) -> Doubles:
    """Return the first two principal components, each with a positive largest entry."""
    centered = vectors - vectors.mean(axis=0)
    # Signs of singular vectors depend on the library; they are fixed below, so that plots are reproducible.
    left, values, _ = np.linalg.svd(centered, full_matrices=False)
    plane = np.zeros((len(vectors), 2))
    k = min(2, len(values))
    plane[:, :k] = left[:, :k] * values[:k]
    signs = np.sign(plane[np.abs(plane).argmax(axis=0), [0, 1]])
    return plane * np.where(signs == 0, 1.0, signs)
