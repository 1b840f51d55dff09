"""A Brown clustering as a dendrogram."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from numpy.typing import NDArray

from dspectral.plotting.style import BLUE, axes_of
from dspectral.types import IntArray

if TYPE_CHECKING:
    from dspectral.methods.brown.clustering import SpectralBrownClustering

_LONGEST = 16
"""Most letters that are shown of a word."""
_LINE_POINTS = 13.0
"""Height of a line of text, in points."""


def plot_brown_tree(
    clustering: "SpectralBrownClustering",
    ax: Axes | None = None,
    *,
    n_clusters: int | None = None,
    n_words: int = 5,
) -> Axes:
    """Draw the tree of a Brown clustering; each class is named by its bit string and its most frequent words.

    Parameters
    ----------
    clustering : SpectralBrownClustering
        A fitted clustering.
    ax : Axes, default=None
        Axes to draw on; by default those of a new figure that is high enough for all labels.
    n_clusters : int, default=None
        Number of classes that the tree is cut to; by default all, at most 40.
    n_words : int, default=5
        Number of words of each class that are shown.

    Returns
    -------
    Axes
        Axes with the root at the left and the classes at the right, in the order of their bit strings.

    Raises
    ------
    TypeError
        If the clustering has no tree.
    ValueError
        If the tree has fewer classes.

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
        raise TypeError(f"{type(clustering).__name__} has no tree: give a fitted SpectralBrownClustering")
    n_clusters = min(40, tree.n_leaves) if n_clusters is None else n_clusters
    classes = np.asarray(clustering.cut(n_clusters))
    words = np.asarray(clustering.words_, dtype=object)
    counts = np.asarray(clustering.word_counts_)
    bits = dict(zip(classes.tolist(), clustering.codes(n_clusters), strict=True))
    order = sorted(bits, key=lambda number: bits[number])
    labels = [f"{_words_of(words, counts, classes == number, n_words)}   {bits[number]}" for number in order]
    ax = axes_of(ax, width=7.0, height=max(2.0, 0.2 * len(order) + 0.5))
    _draw(ax, [bits[number] for number in order])
    ax.yaxis.tick_right()
    ax.set_yticks(range(len(order)), labels, fontsize=_font_size(ax, len(order)))
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.set_xticks([])
    ax.spines[:].set_visible(False)
    return ax


def _draw(ax: Axes, codes: list[str]) -> None:
    """Draw the tree that a sorted list of bit strings says, leaves at whole numbers from above."""
    deepest = max(map(len, codes))
    lines: list[list[tuple[float, float]]] = []

    # (first leaf, leaf behind the last, length of the common prefix): a node, whose children share one more bit. The
    # recursion is as deep as the longest bit string, a stack here.
    middle: dict[tuple[int, int], float] = {}
    nodes = [(0, len(codes), 0)]
    # The list grows while it is read: children are put behind all nodes that are known, and each is read once.
    for first, last, depth in nodes:
        if last - first > 1:
            cut = next(i for i in range(first, last + 1) if i == last or codes[i][depth] == "1")
            nodes += [(a, b, depth + 1) for a, b in ((first, cut), (cut, last)) if b > a]
    for first, last, depth in reversed(nodes):  # children come behind their parents
        if last - first == 1:
            middle[first, last] = float(first)
            lines.append([(depth, first), (deepest, first)])
            continue
        cut = next(i for i in range(first, last + 1) if i == last or codes[i][depth] == "1")
        ends = [middle[part] for part in ((first, cut), (cut, last))]
        middle[first, last] = sum(ends) / 2
        lines.append([(depth, ends[0]), (depth, ends[1])])
        lines += [[(depth, end), (depth + 1, end)] for end in ends]
    ax.add_collection(LineCollection(lines, colors=[BLUE], linewidths=1.2))
    ax.set_xlim(-0.3, deepest + 0.1)


def _words_of(words: NDArray[Any], counts: IntArray, inside: NDArray[np.bool_], n_words: int) -> str:
    """Return the most frequent words of a class; the type of rare words stands last."""
    members = np.flatnonzero(inside)
    falling = members[np.argsort(-counts[members], kind="stable")]
    known = [str(words[i]) for i in falling if words[i] != "<?>"] or ["<?>"]
    shown = [word if len(word) <= _LONGEST else f"{word[: _LONGEST - 1]}…" for word in known[:n_words]]
    return " ".join(shown).replace("$", r"\$") + (" …" if len(known) > n_words else "")


def _font_size(ax: Axes, n_lines: int) -> float:
    """Return the largest size at which so many lines have room, 9 points at most."""
    figure = ax.get_figure(root=True)
    if figure is None:
        return 9.0
    points = ax.get_window_extent().height * 72 / figure.dpi
    return float(np.clip(9.0 * points / (n_lines * _LINE_POINTS), 3.0, 9.0))
