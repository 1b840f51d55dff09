"""A map of words on a plane, whose labels cover neither each other nor a point."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation
from numpy.typing import NDArray

from dspectral.plotting.style import axes_of, colors_of

_STEPS = 36
"""Rings around a point on which a place is looked for, each a few points wider."""
_ANGLES = np.array([0, 180, 45, 135, -45, -135, 90, -90, 22, -22, 158, -158])
"""Directions in which a label may stand, in degrees, in the order in which they are tried."""


def place_labels(
    ax: Axes, points: NDArray[np.float64], texts: Sequence[str], *, size: float = 8.0
) -> list[Annotation]:
    """Write a label at the first free place on rings around each point (n, 2), with a thin line where it is far."""
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


_MOST_IN_LEGEND = 20


class HasWordVectors(Protocol):
    """A fitted :class:`~dspectral.WordEmbedding`, or whatever else has words with vectors."""

    words_: Sequence[str]
    vectors_: NDArray[Any]


def plot_words(
    embedding: HasWordVectors,
    words: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    ax: Axes | None = None,
    *,
    n: int = 80,
) -> Axes:
    """Draw words on the plane on which their vectors differ most, with labels that do not cover each other.

    Parameters
    ----------
    embedding : WordEmbedding
        A fitted embedding, or what has ``words_`` and ``vectors_``.
    words : sequence of str, or dict of str to sequence of str, default=None
        Words to draw; of a dictionary each entry is a group with its own color. By default the ``n`` most frequent.
    ax : Axes, default=None
        Axes to draw on; by default those of a new figure.
    n : int, default=80
        Number of words where none are given.

    Returns
    -------
    Axes
        Axes with a dot for each word. A word around whose dot there is no room has no label.

    Raises
    ------
    TypeError
        If the embedding has no words with vectors.
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
    if not hasattr(embedding, "vectors_") or not hasattr(embedding, "words_"):
        raise TypeError(f"{type(embedding).__name__} has no words with vectors: give a fitted WordEmbedding")
    groups = _groups(embedding, words, n)
    every = [word for of_group in groups.values() for word in of_group]
    if len(every) < 2:
        raise ValueError(f"there must be two words at least to draw, not {len(every)}")
    places = _on_a_plane(np.asarray(embedding.vectors_, dtype=np.float64)[_numbers(embedding, every)])
    ax = axes_of(ax, width=7.0, height=5.2)
    start = 0
    for color, (name, of_group) in zip(colors_of(len(groups)), groups.items(), strict=True):
        part = places[start : start + len(of_group)]
        start += len(of_group)
        ax.scatter(part[:, 0], part[:, 1], s=14, color=color, label=name, zorder=3, linewidths=0)
    ax.margins(0.08)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_color("0.8")
    if 1 < len(groups) <= _MOST_IN_LEGEND:
        columns = min(len(groups), 5)
        ax.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.01), ncols=columns)
    ax.set_xlim(ax.get_xlim())
    ax.set_ylim(ax.get_ylim())
    place_labels(ax, places, every)
    return ax


def _groups(
    embedding: HasWordVectors, words: Sequence[str] | Mapping[str, Sequence[str]] | None, n: int
) -> dict[str, list[str]]:
    if words is None:
        return {"": [word for word in embedding.words_[: n + 1] if word != "<?>"][:n]}
    if isinstance(words, str):
        raise TypeError(f"words is {words!r}, but it must be a list of words")
    if isinstance(words, Mapping):
        return {str(name): list(of_group) for name, of_group in words.items() if len(of_group)}
    return {"": list(words)}


def _numbers(embedding: HasWordVectors, words: list[str]) -> list[int]:
    known = {word: i for i, word in enumerate(embedding.words_)}
    for word in words:
        if word not in known:
            raise KeyError(f"{word!r} is not in the vocabulary")
    return [known[word] for word in words]


def _on_a_plane(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the first two principal components, each turned so that its largest entry is positive."""
    centered = vectors - vectors.mean(axis=0)
    # The sign of a singular vector is arbitrary, and changes with the library that computes it: it is fixed below so
    # that one map is drawn everywhere.
    left, values, _ = np.linalg.svd(centered, full_matrices=False)
    plane = np.zeros((len(vectors), 2))
    k = min(2, len(values))
    plane[:, :k] = left[:, :k] * values[:k]
    signs = np.sign(plane[np.abs(plane).argmax(axis=0), [0, 1]])
    return plane * np.where(signs == 0, 1.0, signs)
