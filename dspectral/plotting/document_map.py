"""Map of documents, colored and labeled by topic."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dspectral.inputs.texts import TextsOrCounts
from dspectral.methods.topics.estimator import Topics
from dspectral.methods.topics.rotation import TopicAxes
from dspectral.parameters import check_integer
from dspectral.plotting.layout import compute_layout
from dspectral.plotting.style import GRAY, get_axes, get_colors
from dspectral.plotting.word_map import draw_labels

MIN_DOCUMENTS = 8


def plot_documents(
    model: Topics,
    X: TextsOrCounts,
    ax: Axes | None = None,
    *,
    n: int = 2000,
    n_topics: int = 12,
    random_state: int = 0,
) -> Axes:
    """Plot a sample of documents as a t-SNE map, colored and labeled by their largest topic.

    Parameters
    ----------
    model : Topics
        A fitted model.
    X : list of str, store, sparse matrix, Dask array or ndarray
        Texts or counts of the documents, as for ``model.transform``.
    ax : Axes, default=None
        Axes to draw on; by default those of a new figure.
    n : int, default=2000
        Number of documents in the sample, drawn at random. Documents without known words are not drawn.
    n_topics : int, default=12
        Number of topics with a color and a label, the most frequent ones of the sample. Other documents are gray.
    random_state : int, default=0
        Seed of the sample and the layout.

    Returns
    -------
    Axes
        Axes with a dot for each document. Near documents are similar; axes and large distances have no meaning.

    Raises
    ------
    ValueError
        If fewer than eight documents have known words.

    Notes
    -----
    One pass over X. The layout of 2,000 documents takes about 7 CPU seconds, independent of the size of X.

    Examples
    --------
    >>> from dspectral import Topics
    >>> texts = ["cats purr", "cats sleep and purr", "dogs bark", "dogs bark and run"] * 5
    >>> ax = plot_documents(Topics(2, max_df=0.9, stop_words=["and"]).fit(texts), texts)
    >>> ax.get_title()
    '20 documents'
    """
    n = check_integer("n", n, at_least=MIN_DOCUMENTS)
    n_topics = check_integer("n_topics", n_topics, at_least=1)
    coordinates: Any = model.coordinates(X)
    rows = np.sort(np.random.default_rng(random_state).permutation(coordinates.shape[0])[:n])
    sample = np.asarray(coordinates[rows])  # computes lazy coordinates
    sample = sample[sample.any(axis=1)]
    if len(sample) < MIN_DOCUMENTS:
        raise ValueError(
            f"X must have at least {MIN_DOCUMENTS} documents with known words, but the sample has {len(sample)}"
        )
    topic = TopicAxes(model.axes_, model.singular_values_, model.rotation_).cosines(sample).argmax(axis=1)
    points = compute_layout(sample / np.linalg.norm(sample, axis=1, keepdims=True), seed=random_state)
    counts = np.bincount(topic)
    largest = [i for i in np.argsort(-counts, kind="stable")[:n_topics].tolist() if counts[i]]
    ax = get_axes(ax, width=8.0, height=6.0)
    others = points[~np.isin(topic, largest)]
    ax.scatter(others[:, 0], others[:, 1], s=6, color=GRAY, alpha=0.3, linewidths=0)
    for i, color in zip(largest, get_colors(len(largest)), strict=True):
        ax.scatter(points[topic == i, 0], points[topic == i, 1], s=8, color=color, alpha=0.7, linewidths=0)
    ax.set(xticks=[], yticks=[], xlim=(-106, 106), ylim=(-106, 106), title=f"{len(sample):,} documents")
    ax.spines[:].set_color("0.8")
    words = [[]] * len(model.components_) if model.words_ is None else model.top_words(2)
    centers = np.array([np.median(points[topic == i], axis=0) for i in largest])
    draw_labels(ax, centers, [", ".join(words[i]) or f"topic {i}" for i in largest], size=10.0)
    return ax
