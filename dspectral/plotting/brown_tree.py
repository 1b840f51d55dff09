"""Dendrogram of a Brown clustering."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from numpy.typing import NDArray

from dspectral.plotting.style import BLUE, get_axes
from dspectral.types import IntArray

if TYPE_CHECKING:
    from dspectral.methods.brown.clustering import SpectralBrownClustering

_MAX_LETTERS = 16
"""Maximum letters of a word in a label."""
_LINE_HEIGHT = 13.0
"""Height of a line of text, in points."""


def plot_brown_tree(
    clustering: "SpectralBrownClustering",
    ax: Axes | None = None,
    *,
    n_clusters: int | None = None,
    n_words: int = 5,
) -> Axes:
    """Plot the tree of a Brown clustering; classes are labeled by bit strings and most frequent words.

    Parameters
    ----------
    clustering : SpectralBrownClustering
        A fitted clustering.
    ax : Axes, default=None
        Axes to draw on; by default those of a new figure, high enough for all labels.
    n_clusters : int, default=None
        Number of classes to cut the tree to; by default all, at most 40.
    n_words : int, default=5
        Number of words per label.

    Returns
    -------
    Axes
        Axes with the root at the left and the classes at the right, ordered by bit string.

    Raises
    ------
    TypeError
        If the clustering has no tree or is not fitted.
    ValueError
        If the tree has fewer classes than ``n_clusters``.

    Examples
    --------
    >>> from dspectral import SpectralBrownClustering
    >>> texts = [["the", "cat", "sat"], ["the", "dog", "ran"]] * 9
    >>> model = SpectralBrownClustering(2, n_dimensions=2).fit(texts)
    >>> len(plot_brown_tree(model).get_yticklabels())
    2
    """
    tree = getattr(clustering, "tree_", None)
    if tree is None:
        raise TypeError(f"{type(clustering).__name__} has no tree_: pass a fitted SpectralBrownClustering")
    n_clusters = min(40, tree.n_leaves) if n_clusters is None else n_clusters
    classes = np.asarray(clustering.cut(n_clusters))
    words = np.asarray(clustering.words_, dtype=object)
    counts = np.asarray(clustering.word_counts_)
    bits = dict(zip(classes.tolist(), clustering.codes(n_clusters), strict=True))
    order = sorted(bits, key=lambda number: bits[number])
    labels = [
        f"{_format_words(words, counts, classes == number, n_words)}   {bits[number]}" for number in order
    ]
    ax = get_axes(ax, width=7.0, height=max(2.0, 0.2 * len(order) + 0.5))
    _draw_tree(ax, [bits[number] for number in order])
    ax.yaxis.tick_right()
    ax.set_yticks(range(len(order)), labels, fontsize=_font_size(ax, len(order)))
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.set_xticks([])
    ax.spines[:].set_visible(False)
    return ax


def _draw_tree(ax: Axes, codes: list[str]) -> None:
    """Draw the tree of sorted bit strings, with leaf i at y = i."""
    max_depth = max(map(len, codes))
    lines: list[list[tuple[float, float]]] = []
    # A node is (first leaf, end of its leaves, length of the common prefix).
    middle: dict[tuple[int, int], float] = {}
    nodes = [(0, len(codes), 0)]
    # Breadth first: the loop appends children to the list that it iterates over.
    for first, last, depth in nodes:
        if last - first > 1:
            cut = next(i for i in range(first, last + 1) if i == last or codes[i][depth] == "1")
            nodes += [(a, b, depth + 1) for a, b in ((first, cut), (cut, last)) if b > a]
    for first, last, depth in reversed(nodes):  # children before parents
        if last - first == 1:
            middle[first, last] = float(first)
            lines.append([(depth, first), (max_depth, first)])
            continue
        cut = next(i for i in range(first, last + 1) if i == last or codes[i][depth] == "1")
        ends = [middle[part] for part in ((first, cut), (cut, last))]
        middle[first, last] = sum(ends) / 2
        lines.append([(depth, ends[0]), (depth, ends[1])])
        lines += [[(depth, end), (depth + 1, end)] for end in ends]
    ax.add_collection(LineCollection(lines, colors=[BLUE], linewidths=1.2))
    ax.set_xlim(-0.3, max_depth + 0.1)


def _format_words(words: NDArray[Any], counts: IntArray, inside: NDArray[np.bool_], n_words: int) -> str:
    """Return the label of a class: its most frequent words; `<?>` only if there is no other."""
    members = np.flatnonzero(inside)
    by_count = members[np.argsort(-counts[members], kind="stable")]
    names = [str(words[i]) for i in by_count if words[i] != "<?>"] or ["<?>"]
    short = [
        name if len(name) <= _MAX_LETTERS else f"{name[: _MAX_LETTERS - 1]}…" for name in names[:n_words]
    ]
    return " ".join(short).replace("$", r"\$") + (" …" if len(names) > n_words else "")


def _font_size(ax: Axes, n_lines: int) -> float:
    """Return the largest font size at which n lines fit, at most 9 points."""
    figure = ax.get_figure(root=True)
    if figure is None:
        return 9.0
    points = ax.get_window_extent().height * 72 / figure.dpi
    return float(np.clip(9.0 * points / (n_lines * _LINE_HEIGHT), 3.0, 9.0))
