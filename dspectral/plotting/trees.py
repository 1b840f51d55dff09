"""Plot of the tree of a Brown clustering."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from scipy.cluster.hierarchy import dendrogram

from dspectral.plotting.style import BLUE, get_axes
from dspectral.types import AnyArray, Bools, Doubles, Int32s, IntArray

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
    tree = clustering.tree_
    n_clusters = min(40, tree.n_leaves) if n_clusters is None else n_clusters
    classes = np.asarray(clustering.cut(n_clusters))
    words = np.asarray(clustering.words_, dtype=object)
    counts = np.asarray(clustering.word_counts_)
    bits = dict(zip(classes.tolist(), clustering.codes(n_clusters), strict=True))
    order = sorted(bits, key=lambda number: bits[number])
    labels = [f"{_format_words(words, counts, classes == number, n_words)}   {bits[number]}" for number in order]
    ax = get_axes(ax, width=7.0, height=max(2.0, 0.2 * len(order) + 0.5))
    # The first child has the smaller bit string, so SciPy's leaves, 10 apart, are in the order of bit strings.
    linkage = _cut_linkage(tree.merges, n_clusters)
    dendrogram(linkage, orientation="left", ax=ax, color_threshold=0, above_threshold_color=BLUE, no_labels=True)
    ax.yaxis.tick_right()
    ax.set_yticks(5 + 10 * np.arange(len(order)), labels, fontsize=_font_size(ax, len(order)))
    ax.set_ylim(10 * len(order), 0)
    ax.tick_params(axis="y", length=0, pad=2)
    ax.set_xticks([])
    ax.spines[:].set_visible(False)
    return ax


def _cut_linkage(merges: Int32s, n_clusters: int) -> Doubles:
    """Return the last merges as SciPy's linkage, shape (n_clusters - 1, 4); heights are numbers of merges."""
    kept = merges[len(merges) + 1 - n_clusters :]
    # Nodes from this number on are those of the merges that are kept; the others are classes.
    first = 2 * len(merges) + 2 - n_clusters
    classes = np.sort(kept[kept < first])
    nodes = np.where(kept < first, np.searchsorted(classes, kept), kept - first + n_clusters)
    return np.column_stack([nodes, np.arange(1.0, n_clusters), np.full(n_clusters - 1, 2.0)])


def _format_words(words: AnyArray, counts: IntArray, is_in_cluster: Bools, n_words: int) -> str:
    """Return the label of a class: its most frequent words; `<?>` only if there is no other."""
    members = np.flatnonzero(is_in_cluster)
    by_count = members[np.argsort(-counts[members], kind="stable")]
    names = [str(words[i]) for i in by_count if words[i] != "<?>"] or ["<?>"]
    short = [name if len(name) <= _MAX_LETTERS else f"{name[: _MAX_LETTERS - 1]}…" for name in names[:n_words]]
    return " ".join(short).replace("$", r"\$") + (" …" if len(names) > n_words else "")


def _font_size(ax: Axes, n_lines: int) -> float:
    """Return the largest font size at which n lines fit, at most 9 points."""
    figure = ax.get_figure(root=True)
    if figure is None:
        return 9.0
    points = ax.get_window_extent().height * 72 / figure.dpi
    return float(np.clip(9.0 * points / (n_lines * _LINE_HEIGHT), 3.0, 9.0))
