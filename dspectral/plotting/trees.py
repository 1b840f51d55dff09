"""Plots of the tree of a Brown clustering, and of the tree by which summaries of blocks are merged."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator
from matplotlib.typing import ColorType
from numpy.typing import NDArray

from dspectral.configuration import get_fan_in
from dspectral.plotting.style import BLUE, GRAY, get_axes
from dspectral.types import Int32s, IntArray

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
    labels = [f"{_format_words(words, counts, classes == number, n_words)}   {bits[number]}" for number in order]
    ax = get_axes(ax, width=7.0, height=max(2.0, 0.2 * len(order) + 0.5))
    _draw_tree(ax, tree.merges, n_clusters)
    ax.yaxis.tick_right()
    ax.set_yticks(range(len(order)), labels, fontsize=_font_size(ax, len(order)))
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.set_xticks([])
    ax.spines[:].set_visible(False)
    return ax


def _draw_tree(ax: Axes, merges: Int32s, n_clusters: int) -> None:
    """Draw the last merges of a tree from the root at the left, with the classes at y = 0, 1, ... by bit string."""
    n_leaves, kept = len(merges) + 1, merges[len(merges) + 1 - n_clusters :]
    # Nodes from this number on are those of the merges that are drawn; the others are classes.
    first = 2 * n_leaves - n_clusters
    classes = np.sort(kept[kept < first])
    nodes = np.where(kept < first, np.searchsorted(classes, kept), kept - first + n_clusters).tolist()
    # Without recursion, which a tree of a thousand nested classes would exceed: leaves in depth-first order, then
    # merges from the leaves to the root, each at the mean of its two children.
    leaves, stack = [], [2 * n_clusters - 2]
    while stack:
        node = stack.pop()
        if node < n_clusters:
            leaves.append(node)
        else:
            stack += nodes[node - n_clusters][::-1]
    x = np.concatenate([np.zeros(n_clusters), -np.arange(1.0, n_clusters)])
    y = np.zeros(2 * n_clusters - 1)
    y[leaves] = np.arange(n_clusters)
    lines = []
    for node, (a, b) in enumerate(nodes, start=n_clusters):
        y[node] = (y[a] + y[b]) / 2
        lines.append([(x[a], y[a]), (x[node], y[a]), (x[node], y[b]), (x[b], y[b])])
    ax.add_collection(LineCollection(lines, colors=[BLUE], linewidths=1.2))
    ax.set_xlim(-1.02 * n_clusters, 0.0)


def _format_words(words: NDArray[Any], counts: IntArray, is_in_cluster: NDArray[np.bool_], n_words: int) -> str:
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


_MAX_DRAWN = 400
"""Maximum number of blocks with one line each; larger trees are drawn as an outline."""


def plot_merge_tree(
    blocks: Any,
    ax: Axes | None = None,
    *,
    fan_in: int | None = None,
    certificates: Sequence[float] | None = None,
) -> Axes:
    """Plot how the summaries of blocks are merged, level by level, into one.

    Parameters
    ----------
    blocks : int, store or corpus
        Number of blocks, or an object with ``n_blocks``.
    ax : Axes, default=None
        Axes to draw on; by default those of a new figure.
    fan_in : int, default=None
        Number of summaries that one merge reads; by default ``dspectral.fan-in`` of Dask's configuration.
    certificates : sequence of float, default=None
        Largest certificate of each level as a share of the energy, first that of the summaries of blocks.

    Returns
    -------
    Axes
        Axes with the blocks at the bottom; labels count the summaries of each level.

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
    fan_in = get_fan_in() if fan_in is None else fan_in
    if n_blocks < 1 or fan_in < 2:
        raise ValueError(f"blocks={n_blocks} must be at least 1, and fan_in={fan_in} at least 2")
    positions = _compute_positions(n_blocks, fan_in)
    shares = [] if certificates is None else list(certificates)
    if len(shares) > len(positions):
        raise ValueError(
            f"certificates holds {len(shares)} values, but must hold at most {len(positions)}, one for each level"
        )
    ax = get_axes(ax, height=min(1.2 + 0.42 * len(positions), 5.5))
    shades = colormaps["viridis"](np.linspace(0.05, 0.85, len(positions)))
    for level, (x, shade) in enumerate(zip(positions, shades, strict=True)):
        if n_blocks > _MAX_DRAWN and len(x) > 1:
            ax.plot([x[0], x[-1]], [level, level], color=shade, linewidth=4, solid_capstyle="round", zorder=3)
            continue
        if n_blocks <= _MAX_DRAWN and level:
            _draw_merges(ax, level, positions, fan_in, shade)
        size = float(np.clip(900 / len(x), 3, 50))
        ax.scatter(x, np.full(len(x), level), s=size, color=[shade], zorder=3, linewidths=0)
    if n_blocks > _MAX_DRAWN:
        left, right = [x[0] for x in positions], [x[-1] for x in positions]
        ax.fill_betweenx(np.arange(len(positions)), left, right, color=GRAY, alpha=0.12, linewidth=0)
    _name_levels(ax, [len(x) for x in positions])
    _add_certificates(ax, shares, len(positions))
    return ax


def _compute_positions(n_blocks: int, fan_in: int) -> list[NDArray[np.float64]]:
    """Return the x positions of summaries by level: each is centered above those that it merges."""
    positions = [np.arange(1.0, n_blocks + 1)]
    # Groups are those of merge_tree: the last one of a level may be smaller.
    while len(below := positions[-1]) > 1:
        first = np.arange(0, len(below), fan_in)
        last = np.minimum(first + fan_in, len(below)) - 1
        positions.append((below[first] + below[last]) / 2)
    return positions


def _draw_merges(ax: Axes, level: int, positions: list[NDArray[np.float64]], fan_in: int, shade: ColorType) -> None:
    below, above = positions[level - 1], positions[level]
    lines = [[(x, level - 1.0), (above[i // fan_in], float(level))] for i, x in enumerate(below)]
    width = float(np.clip(90 / len(lines), 0.4, 1.5))
    ax.add_collection(LineCollection(lines, colors=[shade], linewidths=width))


def _name_levels(ax: Axes, sizes: list[int]) -> None:
    """Label each level with its number of summaries."""
    names = [f"{sizes[0]:,} block{'s' if sizes[0] > 1 else ''}"]
    names += [f"level {level}: {size:,}" for level, size in enumerate(sizes) if level]
    ax.set_yticks(range(len(sizes)), names)
    ax.set_ylim(-0.5, len(sizes) - 0.5)
    ax.set_xlabel("block")
    ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)


def _add_certificates(ax: Axes, shares: list[float], n_levels: int) -> None:
    """Label each level with its certificate, on an axis at the right."""
    if not shares:
        return
    right = ax.twinx()
    right.set_ylim(-0.5, n_levels - 0.5)
    right.set_yticks(range(len(shares)), [f"{100 * share:.2g} %" for share in shares])
    right.set_ylabel("certificate, share of the energy")
    right.tick_params(axis="y", length=0)
    right.spines[["top", "right", "left"]].set_visible(False)
