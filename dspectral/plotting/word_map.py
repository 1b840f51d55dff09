"""A map of words on a plane."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from dspectral.plotting.labels import place_labels
from dspectral.plotting.style import axes_of, colors_of

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

    Notes
    -----
    The plane is that of the first two principal components of these words' vectors.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
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
