"""The steps of an exploration, each from plain inputs to a finding."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from dspectral.decomposition.estimators import TruncatedSVD
from dspectral.engine import map_rows
from dspectral.exploring.documents import (
    WORD,
    Space,
    excerpt,
    nearest_documents,
    points_of,
    read_documents,
    typical_documents,
)
from dspectral.exploring.findings import (
    Classes,
    Directions,
    Documents,
    End,
    Sizes,
    Vocabulary,
    WordSpace,
    class_tree,
    groups_of,
)
from dspectral.exploring.frequent_words import FrequentWords
from dspectral.methods.brown.clustering import SpectralBrownClustering
from dspectral.methods.embeddings.word_embedding import WordEmbedding
from dspectral.store.counts import CountStore
from dspectral.store.from_text.planned_text import PlannedText
from dspectral.store.matrix import write_counts
from dspectral.text.weighting import Weighting
from dspectral.types import CSRRows, FloatArray


def telling(
    counts: NDArray[np.int64], document_frequency: NDArray[np.int64], n_documents: int
) -> NDArray[np.float64]:
    """Return how telling each word is: the root of its count times its residual inverse document frequency.

    Shapes: `counts` (n_words,), `document_frequency` (n_words,); returns (n_words,).

    Church and Gale 1995, "Inverse document frequency (IDF): a measure of deviations from Poisson".

    >>> telling(np.array([50, 50]), np.array([10, 40]), 100).round(1)
    array([14.,  0.])
    """
    n = max(1, n_documents)
    seen = document_frequency > 0
    df = np.where(seen, document_frequency, 1)
    # Were the c tokens of a word thrown on n documents at random, a share 1 - exp(-c / n) of these would have it
    # (Poisson). expm1 keeps its digits where c is far below n.
    expected = -np.expm1(-counts / n)
    residual = np.log2(n / df) + np.log2(np.where(counts > 0, expected, 1.0))
    return np.asarray(np.where(seen, np.sqrt(counts) * np.maximum(0.0, residual), 0.0))


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


N_RANKS = 300
N_TELLING = 40
LEAST_LETTERS = 3
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Shares of the documents: words in more of them say little about one."""
N_SHOWN = 24
"""Directions with words and documents."""
N_END_WORDS = 10
LEAST_WEIGHT = 0.2
"""Share of a direction's largest weight below which a word does not stand for an end."""
N_TYPICAL = 3
N_NEAREST = 5
SPARE = 4
"""Documents found for each that is shown, as many have the same text."""
N_NEAR_WORDS = 10


def count_documents(words: FrequentWords, path: str) -> CountStore:
    """Write the counts of frequent words in each document, in one pass over the corpus."""
    rows = map_rows(
        words.documents(),
        _same,
        n_columns=len(words.words),
        dtype=np.float32,
        sparse_output=True,
        name="count-words",
        n_rows=[block.n_sentences for block in words.corpus.blocks],
    )
    return write_counts(rows, path)


def _same(rows: CSRRows) -> CSRRows:
    return rows


def no_words() -> Vocabulary:
    """Return an empty vocabulary."""
    none = np.zeros(0, dtype=np.int64)
    return Vocabulary([], none, none, none, none, none, [])


def describe_vocabulary(words: FrequentWords, store: CountStore) -> Vocabulary:
    """Return frequencies and telling words; nothing is read but sums."""
    types = np.flatnonzero((words.places.numbers >= 0) & (words.corpus.counts > 0))
    types = types[types > 0]
    # Evenly on a logarithmic scale, for the plot has one: rounding gives the first ranks several times, and one is
    # kept.
    last = np.geomspace(1, max(1, len(types)), N_RANKS)
    ranks = np.unique(np.round(last).astype(np.int64))[: len(types)]
    chosen = types[ranks - 1]
    tokens = words.corpus.words
    frequency = store.document_frequency
    scores = telling(words.counts, frequency, store.n_rows)
    # Short words and numbers are marks of a list or table more often than they tell something.
    scores[[sum(map(str.isalpha, word)) < LEAST_LETTERS for word in words.words]] = 0.0
    scores[~words_for_directions(store)] = 0.0
    best = np.argsort(-scores, kind="stable")[:N_TELLING]
    return Vocabulary(
        words.words,
        words.counts,
        frequency,
        best[scores[best] > 0],
        ranks,
        words.corpus.counts[chosen],
        [tokens[i] for i in chosen.tolist()],
    )


class Fitted(NamedTuple):
    """Directions before documents are known.

    `svd`: the fitted decomposition; `space`: where documents are points; `most_documents`: words in more
    documents were left out.
    """

    svd: TruncatedSVD
    space: Space
    most_documents: int


def words_for_directions(store: CountStore) -> NDArray[np.bool_]:
    """Return which words are in several documents, but in few enough to tell them apart."""
    frequency = store.document_frequency
    return np.asarray((frequency >= 2) & (frequency <= most_documents(frequency, store.n_rows)))


def most_documents(frequency: NDArray[np.int64], n_documents: int) -> int:
    """Return in how many documents a word may be: the smallest of some shares that keeps half of the words."""
    several = np.sort(frequency[frequency >= 2])
    limits = [int(share * n_documents) for share in SHARES]
    return next((limit for limit in limits if 2 * np.searchsorted(several, limit, "right") > len(several)), 0)


def find_directions(store: CountStore, used: NDArray[np.bool_], k: int, *, seed: int) -> Fitted:
    """Fit directions to the documents, each word present in a document weighing the root of its idf."""
    # Words that are not used get log(1) = 0, a weight that takes them out without another set of columns.
    idf = np.log(store.n_rows / np.where(used, store.document_frequency, store.n_rows))
    weighting = Weighting("binary", np.sqrt(idf), None, None)
    svd = TruncatedSVD(k, random_state=seed).fit(store.weighted(weighting))
    axes = np.ascontiguousarray(svd.components_.T, dtype=np.float32)
    most = most_documents(store.document_frequency, store.n_rows)
    return Fitted(svd, Space(store.where, weighting, axes), most)


def choose_documents(
    store: CountStore, space: Space, n_sample: int, *, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[int, list[tuple[int, float]]]]:
    """Find typical documents of both ends of the directions shown, draw others, and find the nearest to each.

    Shapes: returns `typical` (2 k, n), `sample` (n_sample,).
    """
    shown = space._replace(axes=space.axes[:, :N_SHOWN])
    # Only the directions that are shown are asked for their ends; neighbors are looked for among all of them.
    best = typical_documents(store, shown, N_TYPICAL * SPARE)
    typical = np.where(best.scores > 0, best.rows, -1)
    rng = np.random.default_rng(seed)
    drawn = np.sort(rng.choice(store.n_rows, min(store.n_rows, 2 * n_sample), replace=False))
    asked = np.union1d(typical[:, :N_TYPICAL][typical[:, :N_TYPICAL] >= 0], drawn)
    # The points of all that are asked are in memory, some hundreds: each query is one of them.
    points, held = points_of(store, space, asked)
    has_words = held > 0
    drawn = drawn[has_words[np.searchsorted(asked, drawn)]]
    # Of twice as many those of which the directions hold most; in random order, for the first are seen first.
    most = np.argsort(-held[np.searchsorted(asked, drawn)], kind="stable")[:n_sample]
    sample = rng.permutation(drawn[most])
    kept = has_words & ~np.isin(asked, np.setdiff1d(drawn, sample))
    asked, points = asked[kept], points[kept]
    # Twice as many as are shown, and the document itself, because some of them will have the same text.
    near = nearest_documents(store, space, points, N_NEAREST * 2 + 1)
    nearest = {
        row: [
            (other, round(cosine, 3)) for other, cosine in zip(others, cosines, strict=True) if other != row
        ]
        for row, others, cosines in zip(asked.tolist(), near.rows.tolist(), near.scores.tolist(), strict=True)
    }
    return typical, sample, nearest


def read_texts(
    words: FrequentWords,
    typical: NDArray[np.int64],
    sample: NDArray[np.int64],
    nearest: dict[int, list[tuple[int, float]]],
    text: PlannedText,
) -> Documents:
    """Read the beginnings of all documents that are shown, in one pass; keep neighbors of different text."""
    rows = {row for row in typical.ravel().tolist() if row >= 0} | nearest.keys()
    rows |= {other for near in nearest.values() for other, _ in near}
    wanted = np.array(sorted(rows), dtype=np.int64)
    texts = dict(zip(wanted.tolist(), read_documents(words.corpus, wanted, text), strict=True))
    kept = {row: _unlike(row, near, texts)[:N_NEAREST] for row, near in nearest.items()}
    return Documents(texts, kept, sample.tolist())


def _unlike(
    row: int, near: list[tuple[int, float]], texts: dict[int, tuple[str, str]]
) -> list[tuple[int, float]]:
    """Return the documents that read otherwise than the first, and than each other."""
    seen = {excerpt(texts[row][1]).lower()}
    kept = []
    for other, cosine in near:
        text = excerpt(texts[other][1]).lower()
        if text not in seen:
            seen.add(text)
            kept.append((other, cosine))
    return kept


def describe_directions(
    fitted: Fitted, words: list[str], typical: NDArray[np.int64], documents: Documents
) -> Directions:
    """Return the words and typical documents of both ends of each direction that is shown."""
    svd = fitted.svd
    n = len(typical) // 2
    ends = []
    for j in range(min(n, int((svd.singular_values_ > 0).sum()))):
        weights = svd.components_[j] / np.abs(svd.components_[j]).max()
        pair = [
            _end(_end_words(sign * weights, words), rows, documents)
            for sign, rows in ((1, typical[j]), (-1, typical[n + j]))
        ]
        # The sign of a direction is arbitrary: the end that has words comes first.
        ends.append((pair[0], pair[1]) if pair[0].words else (pair[1], pair[0]))
    return Directions(ends, svd.singular_values_, float(svd.energy_), svd.certificate_, fitted.most_documents)


def _end_words(weights: NDArray[np.float64], words: list[str]) -> list[tuple[str, float]]:
    order = np.argsort(-weights, kind="stable")[:N_END_WORDS]
    return [(words[i], float(weights[i])) for i in order.tolist() if weights[i] >= LEAST_WEIGHT]


def _end(words: list[tuple[str, float]], rows: NDArray[np.int64], documents: Documents) -> End:
    """Return an end with its first documents whose excerpts share less than half of their words."""
    known = {word for word, _ in words}
    kept: list[int] = []
    seen: list[set[str]] = []
    for row in rows[rows >= 0].tolist():
        shown = set(WORD.findall(excerpt(documents.texts[row][1], known).lower()))
        if all(2 * len(shown & other) < len(shown | other) for other in seen):
            kept.append(row)
            seen.append(shown)
    return End(words, kept[:N_TYPICAL])


def learn_vectors(words: FrequentWords, n_dimensions: int, *, seed: int) -> WordEmbedding:
    """Learn the vectors of the frequent words from their neighbors within sentences."""
    return WordEmbedding(n_dimensions, window=5, random_state=seed).fit(words.sentences())


def place_words(embedding: WordEmbedding, sizes: Sizes, *, seed: int) -> WordSpace:
    """Find the nearest words, and lay the map out."""
    near, cosines = nearest_words(embedding.vectors_, sizes.n_listed, N_NEAR_WORDS)
    mapped = embedding.vectors_[1 : sizes.n_mapped + 1]
    drawn = len(mapped) >= LEAST_MAPPED and np.ptp(mapped, axis=0).any()
    return WordSpace(near, cosines, word_map(mapped, seed=seed) if drawn else np.zeros((0, 2)))


def find_classes(words: FrequentWords, n_clusters: int, *, seed: int) -> Classes:
    """Cluster the words, and return the tree."""
    brown = SpectralBrownClustering(n_clusters, min_count=1, random_state=seed).fit(words.sentences())
    tree = class_tree(brown)
    return Classes(tree, groups_of(tree, len(brown.words_)), brown.codes(), brown.history_[-1])
