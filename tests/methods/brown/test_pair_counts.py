"""Pairs in blocks of a store: the same clusters and states, bit for bit, as of pairs in memory."""

import dask
import numpy as np
import pytest

from dspectral import AnchorHMM, SpectralBrownClustering, build_corpus
from dspectral.methods.brown import adjacent_pairs
from dspectral.methods.brown.adjacent_pairs import count_adjacent_pairs
from dspectral.methods.brown.exchange import cluster_table, to_bigram_counts
from dspectral.methods.hmm.decoding import renumber_blocks


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Sentences of 60 words of falling counts; some of the rarest only ever stand alone."""
    rng = np.random.default_rng(0)
    lines = [" ".join(f"w{min(int(word), 59)}" for word in rng.zipf(1.4, rng.integers(2, 9))) for _ in range(600)]
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join([*lines, *["alone"] * 3, *["lonely"] * 2]) + "\n")
    return path


@pytest.fixture
def corpus(text, tmp_path):
    return build_corpus([str(text)], str(tmp_path / "corpus.zarr"), min_count=2, block_bytes=4000)


def limited(limit):
    return dask.config.set({"dspectral.memory-limit": limit, "scheduler": "sync"})


def stored(corpus, limit):
    with limited(limit):
        pairs = count_adjacent_pairs(corpus.sentences, np.asarray(corpus.counts), location=corpus.location)
    assert not pairs.in_memory
    return pairs


@pytest.mark.parametrize("limit", [1, 30_000])
def test_pairs_in_a_store_are_those_in_memory(corpus, limit):
    whole, pairs = count_adjacent_pairs(corpus.sentences, np.asarray(corpus.counts)), stored(corpus, limit)
    assert len(pairs.items) > 3
    counts = whole.concatenate()
    assert pairs.nnz == whole.nnz == counts.nnz
    np.testing.assert_array_equal(pairs.n_following, counts.sum(axis=1))
    np.testing.assert_array_equal(pairs.n_preceding, counts.sum(axis=0))
    np.testing.assert_array_equal(pairs.concatenate().toarray(), counts.toarray())
    factor = np.random.default_rng(1).standard_normal((len(corpus.words), 3))
    after, before = pairs.times(factor)
    np.testing.assert_array_equal(after, counts @ factor)
    np.testing.assert_array_equal(before, counts.T.tocsr() @ factor)
    labels = np.random.default_rng(2).integers(4, size=len(corpus.words), dtype=np.int32)
    table = cluster_table(to_bigram_counts(pairs), labels, 4)
    np.testing.assert_array_equal(table, np.eye(4)[labels].T @ counts @ np.eye(4)[labels])


@pytest.mark.parametrize("start", ["weighted", "published"])
def test_clusters_are_the_same_bits_whatever_the_memory(corpus, start, monkeypatch):
    def fitted(limit):
        with limited(limit):
            return SpectralBrownClustering(6, n_dimensions=8, start=start).fit(corpus)

    whole = fitted("1 GiB")
    monkeypatch.setattr(adjacent_pairs, "PAIR_BYTES", 10**6)
    for limit in (20_000, 10**7):
        actual = fitted(limit)
        np.testing.assert_array_equal(actual.labels_, whole.labels_)
        assert actual.history_ == whole.history_
        assert actual.codes() == whole.codes()
        assert actual.n_passes_ == whole.n_passes_ == 1
        with limited(limit):
            assert actual.score(corpus) == whole.score(corpus)
    # The limit leaves room for the pairs that there are, if not for as many as tokens: they are taken from the store.
    monkeypatch.setattr(adjacent_pairs, "PAIR_BYTES", 1)
    n_pairs = count_adjacent_pairs(corpus.sentences, np.asarray(corpus.counts)).nnz
    assert n_pairs < np.minimum(corpus.counts, len(corpus.words)).sum()
    actual = fitted(n_pairs)
    np.testing.assert_array_equal(actual.labels_, whole.labels_)
    assert actual.history_ == whole.history_


@pytest.mark.parametrize("spelling", [0.0, 0.3])
def test_states_are_the_same_bits_whatever_the_memory(corpus, spelling):
    def fitted(limit):
        with limited(limit):
            return AnchorHMM(3, spelling=spelling, min_count=4).fit(corpus)

    whole = fitted("1 GiB")
    actual = fitted(30_000)
    assert actual.anchors_ == whole.anchors_
    for one, other in zip(actual.model_, whole.model_, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(actual.membership_, whole.membership_)


def test_pairs_of_types_are_not_taken_for_those_of_as_many_words(corpus):
    words, counts = stored(corpus, 30_000), np.asarray(corpus.counts)
    numbers = np.random.default_rng(4).permutation(len(counts)).astype(np.int32)
    tokens = np.empty_like(counts)
    tokens[numbers] = counts
    with limited(30_000):
        sentences = renumber_blocks(corpus.sentences, numbers)
        types = count_adjacent_pairs(sentences, tokens, location=corpus.location, numbers=numbers)
    assert not types.in_memory
    expected = words.concatenate().toarray()
    np.testing.assert_array_equal(types.concatenate().toarray()[np.ix_(numbers, numbers)], expected)
    np.testing.assert_array_equal(stored(corpus, 30_000).concatenate().toarray(), expected)
