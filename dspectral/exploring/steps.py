"""Steps of an exploration; each computes one finding."""

import re
from collections.abc import Collection
from typing import Any

import dask.array as da
import numpy as np
from scipy import sparse
from sklearn.base import clone

from dspectral.engine import run_tasks
from dspectral.exploring.documents import cut_excerpt, read_documents
from dspectral.exploring.findings import (
    Classes,
    DocumentMap,
    ExploredDocuments,
    ExploredTopic,
    Sizes,
    WordFrequencies,
    WordSpace,
    build_class_tree,
    get_word_groups,
)
from dspectral.exploring.frequent_words import FrequentWords
from dspectral.exploring.function_words import shuffle_words
from dspectral.methods.brown.clustering import SpectralBrownClustering
from dspectral.methods.embeddings.word_embedding import WordEmbedding
from dspectral.methods.topics.estimator import Topics
from dspectral.plotting.layout import compute_layout
from dspectral.search import search_points, select_shared_words
from dspectral.store.blocks import BlockInfo, read_block
from dspectral.store.counts import CountStore
from dspectral.store.from_text.text_input import TextInput
from dspectral.store.matrix import write_counts
from dspectral.store.rows import dask_array_from_blocks
from dspectral.text.token_rules import HIRAGANA, word_pattern
from dspectral.text.weighting import select_columns
from dspectral.types import Bools, CSRRows, Doubles, Floats, Int64s

SLICE_ROWS = 512
MIN_MAPPED = 8
"""Minimum number of words or documents of a map."""


def find_nearest_words(vectors: Floats, n_listed: int, n: int) -> tuple[Int64s, Floats]:
    """Return the nearest words to each frequent word: word ids and cosines, shape (n_listed, n)."""
    word_vectors = vectors[1 : n_listed + 1]
    n = min(n, max(0, len(word_vectors) - 1))
    ids, cosines = np.zeros((len(word_vectors), n), np.int64), np.zeros((len(word_vectors), n), np.float32)
    for start in range(0, len(word_vectors), SLICE_ROWS):
        rows = slice(start, start + SLICE_ROWS)
        products = word_vectors[rows] @ word_vectors.T
        # -2 is below every cosine, so no word is its own neighbor.
        products[np.arange(len(products)), np.arange(start, start + len(products))] = -2
        order = np.argsort(-products, axis=1, kind="stable")[:, :n]
        ids[rows], cosines[rows] = order + 1, np.take_along_axis(products, order, axis=1)
    return ids, cosines


N_RANKS = 300
MAX_SAMPLE_ENTRIES = 1 << 20
"""About the maximum number of entries of a sample of documents."""
MAX_DF_CANDIDATES = (0.1, 0.2, 0.5)
"""Candidate values of max_df: the first one that keeps most words is used."""
MAX_MIN_DF = 5
"""Largest min_df, that of long texts."""
N_COHERENT, MIN_COHERENCE, N_LENGTHS = 5, 0.02, 10
"""Number of first words whose coherence orders topics, its minimum, and number of groups of documents by length."""
MIN_SUBJECTS = 0.1
"""Share of topics with a subject below which chance is likely."""
N_TYPICAL = 3
N_NEAREST = 5
N_NEAR_WORDS = 10


def count_documents(
    words: FrequentWords, is_repeated: dict[str, Bools], path: str, stem_length: int | None = None
) -> CountStore:
    """Write the counts of frequent words in each document to a store, in one pass over the corpus."""
    counts = words.get_document_counts(is_repeated, stem_length)
    sizes = [block.n_sentences for block in words.corpus.blocks]
    return write_counts(dask_array_from_blocks(counts.read, counts.items, sizes, len(words.words)), path)


def sample_rows(store: CountStore) -> CSRRows:
    """Return evenly spaced documents of a store, in one pass, shape (n, n_words)."""
    step, location = -(-store.nnz // MAX_SAMPLE_ENTRIES) or 1, store.location
    firsts = np.cumsum([0, *store.block_rows])[:-1].tolist()

    def read(item: tuple[BlockInfo, int]) -> CSRRows:
        block, first = item
        return read_block(location, block)[-first % step :: step]

    rows = run_tasks(read, list(zip(store.blocks, firsts, strict=True)), name="sample")
    return sparse.csr_array(sparse.vstack(rows, format="csr"))


def describe_vocabulary(words: FrequentWords) -> WordFrequencies:
    """Return the frequencies of words, without a pass."""
    types = np.flatnonzero((words.kinds.word_ids >= 0) & (words.corpus.counts > 0))
    types = types[types > 0]
    # Ranks are evenly spaced on the logarithmic axis of the plot; unique drops ranks that rounding repeats.
    last = np.geomspace(1, max(1, len(types)), N_RANKS)
    ranks = np.unique(np.round(last).astype(np.int64))[: len(types)]
    sampled_types = types[ranks - 1]
    tokens = words.corpus.words
    sample = words.corpus.counts[sampled_types], [tokens[i] for i in sampled_types.tolist()]
    return WordFrequencies(words.words, words.counts, ranks, *sample)


def can_be_topic_words(words: list[str], *, are_pairs: bool) -> Bools:
    """Return which words have a letter, and among pairs of letters no hiragana; shape (n_words,)."""
    # Numbers are rarely words of a topic; pairs with hiragana are particles and endings in most cases.
    return np.array([any(map(str.isalpha, word)) and not (are_pairs and re.search(HIRAGANA, word)) for word in words])


def fit_topics(
    topics: Topics, store: CountStore, words: list[str], sample: CSRRows, vectors: Any
) -> tuple[int, tuple[Topics, Doubles, Bools]]:
    """Return the number of passes, fitted topics, their coherence and which have a subject. Shapes: `sample` (n, d).

    Where hardly more topics have a subject than by chance, fewer are tried: little text has few.
    """
    fits = []
    for n_topics in (topics.n_topics, topics.n_topics * 2 // 5):
        model = clone(topics).set_params(n_topics=max(1, n_topics)).fit(store, terms=words, vectors=vectors)
        fits.append((model, *find_subjects(model, sample)))
        if np.mean(fits[0][2]) > MIN_SUBJECTS:
            break
    best = max(fits, key=lambda fit: fit[0].topic_shares_[fit[2]].sum())
    return sum(model.n_passes_ for model, *_ in fits), best


def find_subjects(topics: Topics, sample: CSRRows) -> tuple[Doubles, Bools]:
    """Return the coherence of topics in a sample of documents, and which topics have a subject.

    Their coherence is two standard deviations above the mean of topics of shuffled documents, or three if hardly more
    topics than by chance pass. Shapes: `sample` (n, d).
    """
    rows, names = select_columns(sample, topics.columns_), topics.words_ or []
    shuffled = shuffle_words(rows)
    chance = Topics(topics.n_topics, min_df=1, max_df=1.0, random_state=topics.random_state).fit(shuffled, terms=names)
    coherence = measure_coherence(rows, topics.top_words(), names)
    by_chance = measure_coherence(shuffled, chance.top_words(), names)
    deviations = (coherence - by_chance.mean()) / max(by_chance.std(), np.finfo(np.float64).tiny)
    return coherence, deviations > (2 if np.mean(deviations > 2) > MIN_SUBJECTS else 3)


def make_topic_model(
    store: CountStore,
    words: list[str],
    max_topics: int,
    is_stop_word: Bools,
    *,
    n_distinct: int,
    seed: int,
) -> tuple[Topics, int]:
    """Return a model with as many topics as the text supports, and the number of words it can use.

    `n_distinct`: number of documents that do not repeat an earlier one, which limits document frequencies.
    """
    stop_words = [words[i] for i in np.flatnonzero(is_stop_word).tolist()]
    min_df = min(MAX_MIN_DF, max(2, n_distinct // 100))
    frequency = store.document_frequency[~is_stop_word & (store.document_frequency >= min_df)]
    counts = ((max_df, int((frequency <= max_df * n_distinct).sum())) for max_df in MAX_DF_CANDIDATES)
    max_df, n_words = next(((max_df, n) for max_df, n in counts if 2 * n > len(frequency)), (MAX_DF_CANDIDATES[-1], 0))
    # At least four words a topic.
    n_topics = min(max_topics, n_words // 4)
    max_share = max_df * n_distinct / store.n_rows
    return Topics(n_topics, min_df=min_df, max_df=max_share, stop_words=stop_words, random_state=seed), n_words


def make_document_map(projected: da.Array, topics: Topics, n_documents: int, *, seed: int) -> DocumentMap | None:
    """Return the map of a random sample of documents, in one pass; None if too few have words of topics."""
    n_rows = len(projected)
    rows = np.random.default_rng(seed).choice(n_rows, min(n_rows, n_documents), replace=False)
    rows.sort()
    points = projected[rows].compute()
    is_nonzero = np.asarray(points.any(axis=1))
    rows, points = rows[is_nonzero], points[is_nonzero]
    if len(rows) < MIN_MAPPED or not np.ptp(points, axis=0).any():
        return None
    return DocumentMap(rows, compute_layout(points, seed=seed), np.argmax(points @ topics.rotation_, axis=1))


def choose_documents(
    store: CountStore, projected: da.Array, topics: Topics, n_sample: int, *, seed: int
) -> tuple[Int64s, dict[int, list[tuple[int, float]]]]:
    """Return a random sample of documents, and the nearest documents to it and to typical documents."""
    typical = np.setdiff1d(topics.document_rows_[:, :N_TYPICAL], [-1])
    rng = np.random.default_rng(seed)
    drawn = rng.choice(store.n_rows, min(store.n_rows, 2 * n_sample), replace=False)
    queries = np.union1d(typical, drawn)
    points = projected[queries].compute()
    is_nonzero = np.asarray(points.any(axis=1))
    sample = drawn[is_nonzero[np.searchsorted(queries, drawn)]][:n_sample]
    is_shown = is_nonzero & np.isin(queries, np.union1d(typical, sample))
    queries, points = queries[is_shown], points[is_shown]
    # More than are shown: duplicates are dropped later.
    rows = queries.tolist()
    if not rows:
        return sample, {}
    lists = search_points(store, projected, points, rows, N_NEAREST * 2, select_shared_words(store, rows, None))
    nearest = {row: [(n.row, round(n.score, 3)) for n in near] for row, near in zip(rows, lists, strict=True)}
    return sample, nearest


def read_texts(
    words: FrequentWords,
    topics: Topics,
    sample: Int64s,
    nearest: dict[int, list[tuple[int, float]]],
    text: TextInput,
    map_rows: Int64s,
) -> ExploredDocuments:
    """Read the beginnings of all documents of the page in one pass, and drop duplicates among neighbors."""
    rows = {row for row in topics.document_rows_.ravel().tolist() if row >= 0} | nearest.keys() | set(map_rows.tolist())
    rows |= {other for neighbor_list in nearest.values() for other, _ in neighbor_list}
    sorted_rows = np.array(sorted(rows), dtype=np.int64)
    texts = dict(zip(sorted_rows.tolist(), read_documents(words.corpus, sorted_rows, text), strict=True))
    neighbors = {}
    for row, neighbor_list in nearest.items():
        scores = dict(neighbor_list)
        distinct = _select_distinct([row, *scores], texts, max_overlap=1.0)
        neighbors[row] = [(i, scores[i]) for i in distinct[1 : N_NEAREST + 1]]
    return ExploredDocuments(texts, neighbors, sample.tolist())


def _select_distinct(
    rows: list[int], texts: dict[int, tuple[str, str]], words: Collection[str] = (), *, max_overlap: float
) -> list[int]:
    """Return the rows whose excerpts have a Jaccard overlap below the maximum with all earlier ones."""
    distinct: list[int] = []
    selected_words: list[set[str]] = []
    for row in rows:
        excerpt = set(word_pattern().findall(cut_excerpt(texts[row][1], words).lower()))
        if all(len(excerpt & other) < max_overlap * len(excerpt | other) for other in selected_words):
            distinct.append(row)
            selected_words.append(excerpt)
    return distinct


def describe_topics(
    topics: Topics,
    documents: ExploredDocuments,
    coherence: Doubles,
    has_subject: Bools,
    scale: float,
) -> list[ExploredTopic]:
    """Return the topics with words, those with a subject first; `scale`: factor of their shares.

    Topics are in descending order of share times coherence, so that vague topics come last.
    """
    descriptions = []
    fitted = zip(topics.top_words(), topics.topic_shares_.tolist(), topics.top_documents(), strict=True)
    for number, (words, share, typical) in enumerate(fitted):
        rows = [document.row for document in typical]
        if words:
            excerpts = _select_distinct(rows, documents.texts, words, max_overlap=0.5)[:N_TYPICAL]
            description = number, words, share * scale, rows, excerpts, bool(has_subject[number])
            descriptions.append(ExploredTopic(*description))
    weights = np.maximum(MIN_COHERENCE, coherence)
    return sorted(descriptions, key=lambda topic: (not topic.has_subject, -topic.share * weights[topic.number]))


def measure_coherence(rows: CSRRows, top_words: list[list[str]], words: list[str]) -> Doubles:
    """Return the mean NPMI of the first words of each topic in documents (n, n_words), given the lengths of these.

    Words are compared with words at random in N_LENGTHS groups of documents by length, as words at random are often
    together in long documents.
    """
    columns, present = {word: column for column, word in enumerate(words)}, sparse.csc_array(rows > 0, dtype=np.float64)
    n, order = rows.shape[0], np.argsort(np.diff(rows.indptr), kind="stable")
    values = np.zeros(len(top_words))
    for number, topic in enumerate(top_words):
        own = present[:, [columns[word] for word in topic[:N_COHERENT]]].tocsr()
        joint = np.maximum((own.T @ own).toarray() / n, 1 / n)
        groups = [own[members] for members in np.array_split(order, min(1 + n // 500, N_LENGTHS))]
        shares = np.array([group.sum(axis=0) / np.sqrt(n * group.shape[0]) for group in groups])
        expected = shares.T @ shares
        npmi = np.log(joint / np.maximum(expected, 1 / n**2)) / -np.log(np.minimum(joint, 0.99))
        if len(npmi) > 1:
            values[number] = npmi[np.triu_indices(len(npmi), 1)].mean()
    return values


def make_word_space(embedding: WordEmbedding, sizes: Sizes, *, seed: int) -> WordSpace:
    """Return nearest words and the map of words."""
    neighbor_ids, cosines = find_nearest_words(embedding.vectors_, sizes.n_listed, N_NEAR_WORDS)
    mapped = embedding.vectors_[1 : sizes.n_mapped + 1]
    has_map = len(mapped) >= MIN_MAPPED and np.ptp(mapped, axis=0).any()
    return WordSpace(neighbor_ids, cosines, compute_layout(mapped, seed=seed) if has_map else np.zeros((0, 2)))


def find_classes(words: FrequentWords, n_clusters: int, *, seed: int) -> Classes:
    """Return the Brown classes of the words."""
    brown = SpectralBrownClustering(n_clusters, min_count=1, random_state=seed).fit(words.get_sentences())
    tree = build_class_tree(brown)
    return Classes(tree, get_word_groups(tree, len(brown.words_)), brown.codes(), brown.history_[-1])
