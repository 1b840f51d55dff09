"""Draw the pictures of the pages on methods: ``python tools/draw_figures.py`` writes ``docs/images/method-*.svg``.

The colors stand on light and on dark pages alike, and the same data and seeds give the same files.
"""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from dspectral import HybridLSI, SketchedPCA, SpectralBrownClustering, TruncatedSVD, WordEmbedding
from dspectral.datasets import low_rank_counts, standard_library_documents

IMAGES = Path(__file__).parent.parent / "docs" / "images"
INK, BLUE, ORANGE, GREEN, PURPLE = "#818a94", "#2f78c4", "#d0702f", "#2b9a70", "#8c62bd"
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dspectral",
    "font.family": "sans-serif",
    "font.size": 10,
    "figure.figsize": (7, 2.9),
    "figure.constrained_layout.use": True,
    "savefig.transparent": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.prop_cycle": plt.cycler(color=[BLUE, ORANGE, GREEN, PURPLE]),
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color", "ytick.color"),
        INK,
    ),
}


def main() -> None:
    """Write all pictures."""
    with plt.rc_context(STYLE):
        for draw in (svd, sentences, hashing, embeddings, brown, anchors, refinement, labels, tree, lsi):
            plt.close("all")
            draw()
            path = IMAGES / f"method-{draw.__name__}.svg"
            plt.savefig(path, metadata={"Date": None})
            print(path)


def blank(width: float, height: float) -> Axes:
    """Return axes without frame, one unit of which is as high as it is wide."""
    _, ax = plt.subplots(figsize=(7, 7 * height / width))
    ax.set(xlim=(0, width), ylim=(0, height), aspect="equal")
    ax.axis("off")
    return ax


def box(ax: Axes, place: tuple[float, float], size: tuple[float, float], text: str, color: str) -> None:
    """Draw a filled box around its center, with white text."""
    corner = (place[0] - size[0] / 2, place[1] - size[1] / 2)
    style = "round,pad=0,rounding_size=0.08"
    ax.add_patch(FancyBboxPatch(corner, *size, boxstyle=style, facecolor=color, edgecolor="none"))
    ax.text(*place, text, ha="center", va="center", color="white", fontsize=9)


def arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], **style: Any) -> None:
    """Draw an arrow."""
    ax.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": INK, "lw": 1.2, **style})


def svd() -> None:
    """Squared singular values above and below the certificates of two sketches."""
    rows = low_rank_counts(2000, 3000, 12, block_rows=500, seed=1)
    _, ax = plt.subplots()
    exact = TruncatedSVD(30, n_passes=6).fit(rows).singular_values_ ** 2
    ax.semilogy(np.arange(1, 31), exact, "o-", ms=4, label="squared singular values")
    for size, color in ((40, ORANGE), (70, GREEN)):
        sketch = SketchedPCA(30, center=False, solver="frequent_directions", sketch_size=size).fit(rows)
        bound = sketch.certificate_.absolute
        ax.axhline(bound, color=color, ls="--", label=f"certificate, {size} rows")
    ax.set(xlabel="direction", ylabel="energy")
    ax.legend(frameon=False)


def sentences() -> None:
    """Show the two halves of a sentence's representation."""
    ax = blank(10, 3.2)
    ax.text(0.1, 1.6, "“play some\n  jazz music”", fontsize=10, va="center")
    box(ax, (4.1, 2.4), (2.9, 0.7), "n-gram counts  x", BLUE)
    box(ax, (3.5, 0.8), (1.7, 0.7), "words  b", BLUE)
    box(ax, (5.9, 0.8), (2.2, 0.7), "vectors  P", GREEN)
    box(ax, (8.8, 2.4), (2.1, 0.7), "x / ‖x‖", PURPLE)
    box(ax, (8.8, 0.8), (2.1, 0.7), "bP / ‖bP‖", PURPLE)
    for start, end in (
        ((1.9, 1.8), (2.6, 2.3)),
        ((1.9, 1.4), (2.6, 0.9)),
        ((5.6, 2.4), (7.7, 2.4)),
        ((4.4, 0.8), (4.75, 0.8)),
        ((7.05, 0.8), (7.7, 0.8)),
    ):
        arrow(ax, start, end)
    ax.text(5.9, 0.15, "from unlabeled text", ha="center", fontsize=9)
    ax.text(8.8, 1.6, "side by side", ha="center", va="center", fontsize=9)


def hashing() -> None:
    """N-grams find their column and sign by a hash."""
    ax = blank(10, 3.2)
    terms = ["the", "cat", "sat", "the cat", "cat sat"]
    columns = [6, 1, 9, 4, 1]
    signs = [1, 1, -1, 1, -1]
    for i, (term, column, sign) in enumerate(zip(terms, columns, signs, strict=True)):
        x = 1 + 2 * i
        box(ax, (x, 2.75), (1.5, 0.5), term, BLUE)
        arrow(ax, (x, 2.45), (0.75 + 0.85 * column, 1.05), color=GREEN if sign > 0 else ORANGE)
    for column in range(11):
        ax.add_patch(plt.Rectangle((0.35 + 0.85 * column, 0.5), 0.8, 0.5, facecolor="none", edgecolor=INK))
    for column, value in ((6, "+1"), (9, "\u22121"), (4, "+1"), (1, "+1\u22121")):
        ax.text(0.75 + 0.85 * column, 0.75, value, ha="center", va="center", fontsize=9)
    ax.text(
        5,
        0.1,
        "262,144 columns: no vocabulary, so that blocks need not talk to each other",
        ha="center",
        fontsize=9,
    )


def corpus_sentences() -> list[list[str]]:
    """Return the words of the standard library's docstrings."""
    return [
        text.lower().replace(".", " ").replace(",", " ").split()
        for text in standard_library_documents().texts
    ]


def embeddings() -> None:
    """Words of the standard library on the leading directions of their vectors."""
    groups = (
        (["file", "path", "directory", "filename", "folder"], BLUE),
        (["thread", "process", "lock", "queue", "wait"], ORANGE),
        (["string", "bytes", "text", "characters", "encoding"], GREEN),
        (["float", "integer", "number", "decimal", "digits"], PURPLE),
    )
    found = WordEmbedding(50, min_count=5).fit(corpus_sentences())
    words = [(word, color) for names, color in groups for word in names if word in found]
    vectors = np.array([found[word] for word, _ in words])
    left, values, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    flat = left[:, :2] * values[:2]
    _, ax = plt.subplots(figsize=(7, 3.6))
    label = np.ptp(flat, axis=0) * [0.14, 0.06]
    placed: list[np.ndarray] = []
    for (word, color), at in zip(words, flat, strict=True):
        if all((np.abs(at - other) > label).any() for other in placed):
            placed.append(at)
            ax.scatter(*at, color=color, s=22)
            ax.annotate(word, at, (4, 3), textcoords="offset points", color=color, fontsize=9)
    ax.margins(0.12)
    ax.axis("off")


def brown() -> None:
    """Draw the upper levels of a tree of clusters, with frequent words of each."""
    found = SpectralBrownClustering(8, min_count=20).fit(corpus_sentences())
    codes = found.codes()
    leaves: dict[str, list[str]] = {}
    for word, code in zip(found.words_[1:], codes[1:], strict=True):
        leaves.setdefault(code, []).append(word)
    order = sorted(leaves)
    height = {code: len(order) - 1.0 - i for i, code in enumerate(order)}
    deepest = max(map(len, order))
    _, ax = plt.subplots(figsize=(7, 3.2))
    inner = sorted({code[:n] for code in order for n in range(len(code))}, key=len, reverse=True)
    for node in inner:
        below = [height[node + bit] for bit in "01"]
        height[node] = sum(below) / 2
        ax.plot([len(node)] * 2, below, color=INK, lw=1.3)
        for bit, y in zip("01", below, strict=True):
            end = deepest if node + bit in leaves else len(node) + 1
            ax.plot([len(node), end], [y, y], color=INK, lw=1.3)
    for i, code in enumerate(order):
        color = (BLUE, ORANGE, GREEN, PURPLE)[i % 4]
        ax.text(
            deepest + 0.1,
            height[code],
            f"{code:<6}",
            va="center",
            family="monospace",
            color=color,
            fontsize=9,
        )
        ax.text(deepest + 1.0, height[code], " ".join(leaves[code][:7]), va="center", color=color, fontsize=9)
    ax.set_xlim(-0.1, deepest + 6)
    ax.axis("off")


def anchors() -> None:
    """Words as mixtures of the contexts of three anchors."""
    rng = np.random.default_rng(3)
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.85]])
    weights = rng.dirichlet([0.5, 0.5, 0.5], size=70)
    _, ax = plt.subplots(figsize=(7, 3.1))
    ax.plot(*np.vstack([corners, corners[:1]]).T, color=INK, lw=1)
    closest = weights.argmax(axis=1)
    ax.scatter(*(weights @ corners).T, c=np.array([BLUE, ORANGE, GREEN])[closest], s=14, alpha=0.8)
    ax.scatter(*corners.T, c=[BLUE, ORANGE, GREEN], s=90, marker="D", zorder=3)
    for name, at, side in (
        ("the", corners[0], "right"),
        ("is", corners[1], "left"),
        ("file", corners[2], "left"),
    ):
        shift = (-10, -4) if side == "right" else (10, -4)
        ax.annotate(f"anchor “{name}”", at, shift, textcoords="offset points", ha=side)
    ax.set(aspect="equal", xlim=(-0.75, 1.75))
    ax.axis("off")


def refinement() -> None:
    """Draw the chain of labels, each with its hidden kinds."""
    ax = blank(10, 3.4)
    kinds = [0, 2, 1, 1]
    for i, (label, kind) in enumerate(zip(("noun", "verb", "noun", "verb"), kinds, strict=True)):
        x = 1.4 + 2.4 * i
        ax.add_patch(FancyBboxPatch((x - 0.75, 1.25), 1.5, 1.25, boxstyle="round,pad=0", fc="none", ec=INK))
        ax.text(x, 2.2, label, ha="center", va="center")
        for j in range(3):
            at = (x - 0.45 + 0.45 * j, 1.6)
            filled = (BLUE, GREEN)[i % 2] if j == kind else "none"
            ax.add_patch(plt.Circle(at, 0.16, facecolor=filled, edgecolor=INK))
        box(ax, (x, 0.4), (1.2, 0.5), f"x{'₁₂₃₄'[i]}", ORANGE)
        arrow(ax, (x, 1.2), (x, 0.7))
        if i:
            arrow(ax, (x - 1.62, 1.87), (x - 0.78, 1.87))
    ax.text(
        5,
        3.0,
        "labels are known in training; which kind of its label a token is, is hidden",
        ha="center",
        fontsize=9,
    )


def labels() -> None:
    """Draw one hidden state, which words and labels are drawn from."""
    ax = blank(10, 3.4)
    ax.add_patch(plt.Circle((5, 2.75), 0.45, facecolor=PURPLE, edgecolor="none"))
    ax.text(5, 2.75, "h", color="white", ha="center", va="center", fontsize=11)
    for i, word in enumerate(("rates", "bank", "rise")):
        box(ax, (1.2 + 1.6 * i, 0.9), (1.3, 0.55), word, BLUE)
        arrow(ax, (4.7, 2.4), (1.2 + 1.6 * i, 1.25))
    for i, word in enumerate(("finance", "economy")):
        box(ax, (6.7 + 1.9 * i, 0.9), (1.6, 0.55), word, GREEN)
        arrow(ax, (5.3, 2.4), (6.7 + 1.9 * i, 1.25))
    ax.text(2.8, 0.25, "words of a document", ha="center", fontsize=9)
    ax.text(7.6, 0.25, "its labels", ha="center", fontsize=9)
    ax.text(5.65, 2.75, "hidden state", va="center", fontsize=9)


def tree() -> None:
    """Show neighbors joined and projected, level by level."""
    ax = blank(10, 4.0)
    words = ["the", "file", "is", "open", "for", "reading", "only", "now"]
    at = [0.75 + 1.21 * i for i in range(8)]
    for x, word in zip(at, words, strict=True):
        box(ax, (x, 0.4), (1.05, 0.5), word, BLUE)
    for level, color in ((1, GREEN), (2, ORANGE), (3, PURPLE)):
        y = 0.4 + 1.05 * level
        above = [(at[i] + at[i + 1]) / 2 for i in range(0, len(at), 2)]
        for i, x in enumerate(above):
            for child in at[2 * i : 2 * i + 2]:
                ax.plot([child, x], [y - 0.8, y - 0.25], color=INK, lw=1.1)
            box(ax, (x, y), (1.05, 0.5), "PCA", color)
        at = above
    ax.text(at[0] + 0.7, 3.55, "one vector of a sentence", va="center", fontsize=9)


def lsi() -> None:
    """Test documents in a plain space and in one that knows the classes."""
    rng = np.random.default_rng(1)
    styles, subjects = rng.integers(6, size=900), rng.integers(4, size=900)
    counts = np.zeros((900, 108))
    for i, (style, subject) in enumerate(zip(styles, subjects, strict=True)):
        np.add.at(counts[i], 8 * style + rng.integers(8, size=12), 1)
        np.add.at(counts[i], 48 + 15 * subject + rng.integers(15, size=5), 1)
    models = (
        TruncatedSVD(6, solver="gram").fit(counts[:600]),
        HybridLSI(6, alpha=0.5).fit(counts[:600], subjects[:600]),
    )
    colors = np.array([BLUE, ORANGE, GREEN, PURPLE])[subjects[600:]]
    _, panels = plt.subplots(1, 2, figsize=(7, 3))
    for ax, model, title in zip(panels, models, ("LSI", "Hybrid LSI"), strict=True):
        ax.scatter(*model.transform(counts[600:])[:, 1:3].T, c=colors, s=9)
        ax.set(title=title, xlabel="second axis", ylabel="third axis", xticks=[], yticks=[])


if __name__ == "__main__":
    main()
