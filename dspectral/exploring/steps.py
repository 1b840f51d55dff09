"""The steps of an exploration, each from plain inputs to a finding."""

import re
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from dspectral.engine import map_rows
from dspectral.exploring.documents import Space, excerpt, nearest_documents, points_of, read_documents
from dspectral.exploring.findings import (
    Classes,
    Documents,
    Sizes,
    Topic,
    Vocabulary,
    WordSpace,
    class_tree,
    groups_of,
)
from dspectral.exploring.frequent_words import FrequentWords
from dspectral.methods.brown.clustering import SpectralBrownClustering
from dspectral.methods.embeddings.word_embedding import WordEmbedding
from dspectral.methods.topics.estimator import Topics
from dspectral.store.counts import CountStore
from dspectral.store.from_text.planned_text import PlannedText
from dspectral.store.matrix import write_counts
from dspectral.text.cutting import HIRAGANA, word_pattern
from dspectral.types import CSRRows, FloatArray

SLICE_ROWS = 512
PERPLEXITY = 30.0
LEAST_MAPPED = 8
"""Words below which there is no map."""


def nearest_words(
    vectors: NDArray[np.float32], n_listed: int, n: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the nearest of the most frequent words to each, ids and cosines (n_listed, n)."""
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
    """Lay word vectors (n, k) out in the plane by t-SNE, from the first two principal axes."""
    # scikit-learn's neighbors are three times the perplexity: there must be as many other words.
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    tsne = TSNE(init="pca", perplexity=perplexity, random_state=seed, method="barnes_hut")
    # One thread: sums of several threads are not the same from run to run, and a layout amplifies that.
    with threadpool_limits(1):
        points = tsne.fit_transform(np.asarray(vectors, dtype=np.float64))
    centered = points - points.mean(axis=0)
    return np.asarray(np.round(centered / np.abs(centered).max() * 100, 2))


N_RANKS = 300
SHARES = (0.1, 0.2, 0.5)
"""Shares of the documents: words in more of them say little about one."""
MOST_FEWEST = 5
"""Documents that a word of a topic must be in, in long text."""
N_TYPICAL = 3
N_NEAREST = 5
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


def describe_vocabulary(words: FrequentWords) -> Vocabulary:
    """Return the frequencies of words; nothing is read but sums."""
    types = np.flatnonzero((words.places.numbers >= 0) & (words.corpus.counts > 0))
    types = types[types > 0]
    # Evenly on a logarithmic scale, for the plot has one: rounding gives the first ranks several times, and one is
    # kept.
    last = np.geomspace(1, max(1, len(types)), N_RANKS)
    ranks = np.unique(np.round(last).astype(np.int64))[: len(types)]
    chosen = types[ranks - 1]
    tokens = words.corpus.words
    return Vocabulary(
        words.words, words.counts, ranks, words.corpus.counts[chosen], [tokens[i] for i in chosen.tolist()]
    )


def plan_topics(
    store: CountStore, words: list[str], most: int, *, pairs: bool = False, seed: int
) -> tuple[Topics, int]:
    """Return topics to fit, as many as a text has room for and at most some, and the number of words they may have."""
    # Numbers are marks of a list or table more often than they tell something.
    is_word = np.array([any(map(str.isalpha, word)) for word in words])
    if (
        pairs
    ):  # with hiragana they are particles and endings, and content words are Chinese characters or katakana
        is_word &= np.array([re.search(HIRAGANA, word) is None for word in words])
    numbers = [words[i] for i in np.flatnonzero(~is_word).tolist()]
    fewest = min(MOST_FEWEST, max(2, store.n_rows // 100))
    several = store.document_frequency[is_word & (store.document_frequency >= fewest)]
    fits = ((share, int((several <= share * store.n_rows).sum())) for share in SHARES)
    share, n = next(((share, n) for share, n in fits if 2 * n > len(several)), (SHARES[-1], 0))
    # A fourth of the words at most, or topics would be single words.
    k = min(most, n // 4)
    return Topics(k, min_df=fewest, max_df=share, stop_words=numbers, random_state=seed), n


def choose_documents(
    store: CountStore, topics: Topics, n_sample: int, *, seed: int
) -> tuple[NDArray[np.int64], dict[int, list[tuple[int, float]]]]:
    """Draw documents, and find the nearest to each of these and of the typical ones."""
    axes = np.ascontiguousarray(topics.axes_.T, dtype=np.float32)
    space = Space(store.where, topics.weighting, axes)
    typical = np.setdiff1d(topics.document_rows_[:, :N_TYPICAL], [-1])
    rng = np.random.default_rng(seed)
    drawn = rng.choice(store.n_rows, min(store.n_rows, 2 * n_sample), replace=False)
    # The points of all that are asked are in memory, some hundreds: each query is one of them.
    asked = np.union1d(typical, drawn)
    points = points_of(store, space, asked)
    filled = np.asarray(points.any(axis=1))
    # Of twice as many the first ones that hold enough words.
    sample = drawn[filled[np.searchsorted(asked, drawn)]][:n_sample]
    kept = filled & np.isin(asked, np.union1d(typical, sample))
    asked, points = asked[kept], points[kept]
    # Twice as many as are shown, and the document itself, because some of them will have the same text.
    near = nearest_documents(store, space, points, N_NEAREST * 2 + 1)
    nearest = {
        row: [
            (other, round(cosine, 3)) for other, cosine in zip(others, cosines, strict=True) if other != row
        ]
        for row, others, cosines in zip(
            asked.tolist(), near.rows.tolist(), near.cosines.tolist(), strict=True
        )
    }
    return sample, nearest


def read_texts(
    words: FrequentWords,
    topics: Topics,
    sample: NDArray[np.int64],
    nearest: dict[int, list[tuple[int, float]]],
    text: PlannedText,
) -> Documents:
    """Read the beginnings of all documents that are shown, in one pass; keep neighbors of different text."""
    rows = {row for row in topics.document_rows_.ravel().tolist() if row >= 0} | nearest.keys()
    rows |= {other for near in nearest.values() for other, _ in near}
    wanted = np.array(sorted(rows), dtype=np.int64)
    texts = dict(zip(wanted.tolist(), read_documents(words.corpus, wanted, text), strict=True))
    kept = {}
    for row, near in nearest.items():
        others = dict(near)
        kept[row] = [(i, others[i]) for i in _unlike([row, *others], texts, most=1.0)[1 : N_NEAREST + 1]]
    return Documents(texts, kept, sample.tolist())


def _unlike(
    rows: list[int], texts: dict[int, tuple[str, str]], words: Collection[str] = (), *, most: float
) -> list[int]:
    """Return the documents whose excerpts share less than some part of their words with those before."""
    kept: list[int] = []
    seen: list[set[str]] = []
    for row in rows:
        shown = set(word_pattern().findall(excerpt(texts[row][1], words).lower()))
        if all(len(shown & other) < most * len(shown | other) for other in seen):
            kept.append(row)
            seen.append(shown)
    return kept


def describe_topics(topics: Topics, documents: Documents) -> list[Topic]:
    """Return the topics that have words, that of the largest share first."""
    found = []
    parts = zip(topics.top_words(), topics.topic_shares_.tolist(), topics.top_documents(), strict=True)
    for words, share, typical in parts:
        rows = [document.row for document in typical]
        if words:
            found.append(
                Topic(words, share, rows, _unlike(rows, documents.texts, words, most=0.5)[:N_TYPICAL])
            )
    return found


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
