"""Clusters of words: by their name alone, tuned, as published, and beside two peers."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD

from dspectral import SpectralBrownClustering
from dspectral.metrics import average_mutual_information, many_to_one

from ..._form import form
from .family import Family, Found
from .greedy_classes import greedy_classes
from .tagged_sets import NAMES, read_tagged

N_CLUSTERS = 50
"""Clusters, of all ways."""
GRID: dict[str, tuple[Any, ...]] = {
    "n_dimensions": (32, 64),
    "count_transform": ("sqrt", "log"),
    "min_count": (1, 2, 4),
}
"""What a person would try."""
KNOWN = 2000
"""Most frequent words that the peers know; the others are one type, which the greedy search has time for."""
PARTS = 4
"""Of so many sentences the last is scored, and the one before it is held out for the choice."""

Sentences = Sequence[Sequence[str]]
Clusters = Callable[[list[str]], NDArray[Any]]
"""The cluster of each word."""


def found(run: form.Run, data: Path, name: str, _scratch: str) -> Iterator[Found]:
    """Learn from a data set in each way, and score sentences that were not learned from."""
    tagged, seed = read_tagged(data, name), run.arguments.seed
    parts = [tagged.words[part::PARTS] for part in range(PARTS)]
    train, test = list(chain(*parts[:-1])), parts[-1]
    tags = list(chain.from_iterable(tagged.tags[PARTS - 1 :: PARTS]))

    def scored(way: str, learn: Callable[[], Clusters], settings: str = "") -> Found:
        with run.measure(f"{name}: {way}") as used:
            clusters = learn()
        many = many_to_one(tags, clusters(list(chain.from_iterable(test))))
        scores = {"average_mutual_information_bits": information(clusters, test), "many_to_one": many}
        return Found(way, settings, used.cpu_seconds, scores)

    spectral(SpectralBrownClustering(2), [["a", "b", "a", "c"]] * 9)()  # compiles, which no way shall pay for
    yield scored("default", spectral(SpectralBrownClustering(N_CLUSTERS, random_state=seed), train))
    best, said = (-1.0, SpectralBrownClustering()), ""
    for values in product(*GRID.values()):
        settings = dict(zip(GRID, values, strict=True))
        model = SpectralBrownClustering(N_CLUSTERS, random_state=seed, **settings)
        reached = information(spectral(model, list(chain(*parts[:-2])))(), parts[-2])
        if reached > best[0]:
            best, said = (reached, model), ", ".join(f"{key} {value}" for key, value in settings.items())
    yield scored("tuned", spectral(best[1], train), said)
    published = SpectralBrownClustering.as_published(N_CLUSTERS, random_state=seed)
    yield scored("as published", spectral(published, train))
    yield scored("greedy search", lambda: of_counts(train, greedy))
    yield scored("k-means", lambda: of_counts(train, lambda counts: means(counts, seed)))


def spectral(model: SpectralBrownClustering, sentences: Sentences) -> Callable[[], Clusters]:
    """Return what fits the model."""
    return lambda: model.fit(sentences).predict


def information(clusters: Clusters, sentences: Sentences) -> float:
    """Return the mutual information of adjacent clusters, in bits."""
    sizes = [len(sentence) for sentence in sentences]
    found = clusters(list(chain.from_iterable(sentences)))
    starts = np.cumsum(sizes)[:-1]
    inside = np.ones(max(0, len(found) - 1), dtype=bool)
    inside[starts[(starts > 0) & (starts < len(found))] - 1] = False
    pairs = (found[:-1][inside], found[1:][inside])
    n = int(found.max()) + 1
    return average_mutual_information(sparse.csr_array((np.ones(len(pairs[0])), pairs), shape=(n, n)))


def of_counts(sentences: Sentences, learn: Callable[[sparse.csr_array], NDArray[Any]]) -> Clusters:
    """Count adjacent types, cluster them, and return the cluster of any word, that of rare ones if it is unknown."""
    totals = Counter(chain.from_iterable(sentences))
    known = [word for word, _ in totals.most_common(KNOWN)]
    numbers = {word: number for number, word in enumerate(known, start=1)}
    lines = [[numbers.get(word, 0) for word in sentence] for sentence in sentences]
    pairs = np.array([pair for line in lines for pair in pairwise(line)]).T
    n = len(known) + 1
    counts = sparse.csr_array((np.ones(pairs.shape[1]), tuple(pairs)), shape=(n, n))
    counts.sum_duplicates()
    labels = learn(counts)
    return lambda words: np.array([labels[numbers.get(word, 0)] for word in words])


def greedy(counts: sparse.csr_array) -> NDArray[Any]:
    """Search as Brown et al. did."""
    return greedy_classes(counts, N_CLUSTERS)


def means(counts: sparse.csr_array, seed: int) -> NDArray[Any]:
    """Take scikit-learn's k-means of singular vectors of the roots of both neighbours' counts."""
    rows = sparse.hstack([counts, counts.T], format="csr").sqrt()
    svd = TruncatedSVD(min(N_CLUSTERS, min(rows.shape) - 1), random_state=seed)
    points = svd.fit_transform(rows)
    points /= np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
    return KMeans(min(N_CLUSTERS, len(points)), n_init=1, random_state=seed).fit(points).labels_


FAMILY = Family(NAMES, found)
"""What the table asks for."""
