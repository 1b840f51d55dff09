"""Two-dimensional layout of vectors by t-SNE."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

PERPLEXITY = 30.0
MAX_ITERATIONS = 500


def compute_layout(vectors: NDArray[Any], *, seed: int) -> NDArray[np.float64]:
    """Return t-SNE coordinates of vectors (n, k), shape (n, 2), within -100 and 100."""
    # TSNE uses three times the perplexity as neighbors, so it needs as many other vectors.
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    tsne = TSNE(init="pca", perplexity=perplexity, random_state=seed, max_iter=MAX_ITERATIONS)
    # Sums of several threads differ from run to run, and t-SNE amplifies the difference.
    with threadpool_limits(1):
        points = tsne.fit_transform(np.asarray(vectors, dtype=np.float64))
    centered = points - points.mean(axis=0)
    return np.asarray(np.round(centered / np.abs(centered).max() * 100, 2))
