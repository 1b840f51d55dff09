"""Words as points: the nearest of each, and a map of the frequent ones."""

import numpy as np
from numpy.typing import NDArray
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from dspectral.types import FloatArray

SLICE_ROWS = 512
PERPLEXITY = 30.0
LEAST_MAPPED = 8
"""Words below which there is no map."""


def nearest_words(
    vectors: NDArray[np.float32], n_listed: int, n: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the words nearest to each of the most frequent words, among these, by the cosine.

    Shapes: `vectors` (n_words, k); returns `ids` (n_listed, n), `cosines` (n_listed, n).
    """
    listed = vectors[1 : n_listed + 1]
    n = min(n, max(0, len(listed) - 1))
    ids, cosines = np.zeros((len(listed), n), np.int64), np.zeros((len(listed), n), np.float32)
    for start in range(0, len(listed), SLICE_ROWS):
        some = slice(start, start + SLICE_ROWS)
        near = listed[some] @ listed.T
        # Below every cosine, so that no word is its own neighbor, not even where vectors are equal or zero.
        near[np.arange(len(near)), np.arange(start, start + len(near))] = -2
        order = np.argsort(-near, axis=1, kind="stable")[:, :n]
        ids[some], cosines[some] = order + 1, np.take_along_axis(near, order, axis=1)
    return ids, cosines


def word_map(vectors: NDArray[np.float32], *, seed: int) -> FloatArray:
    """Lay word vectors out in the plane so that near ones stay near: t-SNE, from the first two principal axes.

    Shapes: `vectors` (n, k); returns (n, 2).
    """
    # scikit-learn's neighbors are three times the perplexity: there must be as many other words.
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    tsne = TSNE(init="pca", perplexity=perplexity, random_state=seed, method="barnes_hut")
    # One thread: sums of several threads are not the same from run to run, and a layout amplifies that.
    with threadpool_limits(1):
        points = tsne.fit_transform(np.asarray(vectors, dtype=np.float64))
    centered = points - points.mean(axis=0)
    return np.asarray(np.round(centered / np.abs(centered).max() * 100, 2))
