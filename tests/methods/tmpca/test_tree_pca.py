"""TMPCA against scikit-learn and a transcription, over texts, arrays and corpora, and what it refuses."""

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from dspectral import TreePCA
from dspectral.engine import Blocks
from dspectral.types import Sentences
from tests.reference import tree_pca

WORDS = ["<?>", "the", "cat", "sat", "on", "a", "mat", "not", "good", "bad"]


def vectors(d=4, seed=0):
    return WORDS, np.random.default_rng(seed).standard_normal((len(WORDS), d))


def texts(n=40, most=12, seed=1):
    rng = np.random.default_rng(seed)
    return [[WORDS[i] for i in rng.integers(1, len(WORDS), size=rng.integers(0, most))] for _ in range(n)]


def arrays(n=50, length=8, d=4, seed=2):
    """Correlated neighbours, a mean that is not zero, and variances that fall."""
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((n, 1, d))
    return (shared + rng.standard_normal((n, length, d))) * 0.7 ** np.arange(d) + 1.0


class Counted:
    """A corpus that counts how often each block is read."""

    def __init__(self, sentences, n_blocks):
        self.words = WORDS
        ids = [[WORDS.index(word) for word in sentence] for sentence in sentences]
        self.counts = np.bincount(Sentences.from_ids(ids).ids, minlength=len(WORDS))
        size = -(-len(ids) // n_blocks)
        self.parts = [Sentences.from_ids(ids[i : i + size]) for i in range(0, len(ids), size)]
        self.reads = [0] * len(self.parts)

    @property
    def sentences(self):
        return Blocks(self.read, list(range(len(self.parts))))

    def read(self, number):
        self.reads[number] += 1
        return self.parts[number]


def padded(sentences, length, pair):
    words, matrix = pair
    out = np.zeros((len(sentences), length, matrix.shape[1]))
    for i, sentence in enumerate(sentences):
        for j, word in enumerate(sentence[:length]):
            out[i, j] = matrix[words.index(word) if word in words else 0]
    return out


def assert_same_up_to_sign(ours, theirs, atol=1e-9):
    signs = np.sign(np.sum(ours * theirs, axis=0))
    np.testing.assert_allclose(ours * signs, theirs, atol=atol)


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("arity", [2, 3])
def test_one_level_is_the_pca_of_scikit_learn_but_for_a_constant(arity, whiten):
    X = arrays(length=arity)
    tree = TreePCA(length=arity, arity=arity, whiten=whiten).fit(X)
    flat = X.reshape(len(X), -1)
    pca = PCA(4, whiten=whiten, svd_solver="full").fit(flat)
    assert_same_up_to_sign(tree.components_[0].T, pca.components_.T)
    np.testing.assert_allclose(tree.explained_variance_[0], pca.explained_variance_)
    np.testing.assert_allclose(tree.explained_variance_ratio_[0], pca.explained_variance_ratio_)
    np.testing.assert_allclose(tree.means_[0], pca.mean_)
    actual = tree.transform(X)
    assert_same_up_to_sign(actual - actual.mean(axis=0), pca.transform(flat))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data())
def test_arrays_give_what_the_transcription_gives_however_they_are_cut(data):
    arity, length = data.draw(st.sampled_from([(2, 4), (2, 8), (3, 9), (4, 4)]))
    n, d = data.draw(st.integers(20, 40)), data.draw(st.integers(1, 4))
    k = data.draw(st.integers(1, arity * d))
    how = {"center": data.draw(st.booleans()), "whiten": data.draw(st.booleans())}
    X = arrays(n, length, d, seed=data.draw(st.integers(0, 1000)))
    inside = sorted(data.draw(st.lists(st.integers(0, n), max_size=4)))
    sizes = tuple(np.diff([0, *inside, n]).tolist())
    lazy = da.from_array(X, chunks=(sizes, -1, -1))
    limit = data.draw(st.sampled_from([0, 1 << 20]))
    with dask.config.set({"dspectral.memory-limit": limit}):
        tree = TreePCA(k, length=length, arity=arity, **how).fit(lazy)
    axes, expected = tree_pca(X, k, arity, **how)
    values = [np.diff(of_level) for of_level in tree.explained_variance_]
    if min((np.min(np.abs(gaps)) for gaps in values if len(gaps)), default=1.0) < 1e-3:
        return  # axes of nearly equal variance are anybody's choice
    for actual, reference in zip(tree.components_, axes, strict=True):
        assert_same_up_to_sign(actual.T, reference.T, atol=1e-6)
    assert_same_up_to_sign(tree.transform(lazy).compute(), expected, atol=1e-5)


@pytest.mark.parametrize("pairs_at_arity", [2, 0])
@pytest.mark.parametrize("length", [2, 8])
def test_texts_give_what_their_padded_vectors_give(pairs_at_arity, length, monkeypatch):
    monkeypatch.setattr("dspectral.methods.tmpca.levels.PAIR_ARITY", pairs_at_arity)
    pair, sentences = vectors(), texts()
    tree = TreePCA(length=length, vectors=pair).fit(sentences)
    dense = TreePCA(length=length).fit(padded(sentences, length, pair))
    for computed, reference in zip(tree.components_, dense.components_, strict=True):
        np.testing.assert_allclose(computed, reference, atol=1e-9)
    np.testing.assert_allclose(tree.explained_variance_, dense.explained_variance_, rtol=1e-9)
    expected = dense.transform(padded(sentences, length, pair))
    actual = tree.transform(sentences)
    np.testing.assert_allclose(actual, expected, atol=1e-9)
    assert (actual[[not sentence for sentence in sentences]] == 0).all()
    assert tree.n_sentences_ == len(sentences)


def test_unknown_words_have_the_vector_of_rare_ones_or_zeros():
    words, matrix = vectors()
    tree = TreePCA(length=4, vectors=(words, matrix)).fit(texts())
    np.testing.assert_array_equal(tree.transform([["zebra", "cat"]]), tree.transform([["<?>", "cat"]]))
    tree = TreePCA(length=4, vectors=(words[1:], matrix[1:])).fit([*texts(), ["zebra"]])
    assert (tree.transform([["zebra", "unseen"]]) == 0).all()
    assert (tree.transform([["cat", "zebra"]]) != 0).any()


def test_without_vectors_words_are_one_hot_by_hashing_seen_or_not():
    tree = TreePCA(8, length=4).fit(texts(n=200))
    again = TreePCA(8, length=4).fit(texts(n=200))
    np.testing.assert_array_equal(tree.transform([["never", "seen"]]), again.transform([["never", "seen"]]))
    assert (tree.transform([["never", "seen"]]) != 0).any()
    assert tree.n_dimensions_ == 8


def test_level_with_few_directions_gives_zeros_and_a_warning():
    for X, ranks in ((arrays(n=1), "3, 1, 0"), (arrays(n=3), "4, 4, 2")):
        with pytest.warns(UserWarning, match=f"n_components=4.*{ranks}"):
            tree = TreePCA(length=8, whiten=True).fit(X)
        assert [level.shape for level in tree.components_] == [(4, 8)] * 3
        assert np.isfinite(tree.transform(X)).all()
        assert np.isfinite(tree.explained_variance_ratio_).all()
        assert not tree.transform(X)[:, int(ranks[-1]) :].any()


LEVEL_2 = 8 * 4 * (100 + 600 // 4)
"""Bytes that the second level takes of 100 texts of 6 tokens, 4 components and length 16, at most."""


@pytest.mark.parametrize(
    ("length", "limit", "n_passes"),
    [(2, 0, 1), (16, 0, 4), (16, LEVEL_2 - 1, 4), (16, LEVEL_2, 3), (16, 1 << 20, 2), (4, 1 << 20, 2)],
)
@pytest.mark.parametrize("whiten", [False, True])
def test_each_block_is_read_once_for_each_level_that_is_not_kept(length, limit, n_passes, whiten):
    counted = Counted([sentence[:6] for sentence in texts(300, seed=3) if len(sentence) >= 6][:100], 5)
    assert len(counted.counts) == len(WORDS)
    how = {"length": length, "vectors": vectors(), "whiten": whiten}
    with dask.config.set({"scheduler": "sync", "dspectral.memory-limit": limit}):
        tree = TreePCA(**how).fit(counted)
    assert counted.reads == [n_passes] * 5
    assert tree.n_passes_ == n_passes
    with dask.config.set({"dspectral.memory-limit": 0}):
        other = TreePCA(**how).fit(counted)
    for actual, reference in zip(tree.components_, other.components_, strict=True):
        np.testing.assert_allclose(actual, reference, atol=1e-9)


def with_nan():
    X = arrays()
    X[3, 2, 1] = np.nan
    return X


@pytest.mark.parametrize(
    ("tree", "X", "sentence"),
    [
        (TreePCA(length=48), texts(), "length.*48.*arity=2.*32 or 64"),
        (TreePCA(9, length=8), arrays(), "n_components.*9.*1 to 8.*arity=2"),
        (TreePCA(length=8), da.ones((5, 8, 2))[da.ones(5) > 0], "unknown size"),
        (TreePCA(length=8), with_nan(), "row block 0: sentence 3, position 2, dimension 1.*nan"),
        (TreePCA(length=8), arrays(length=7), r"X.*\(50, 7, 4\)"),
        (TreePCA(length=8), da.from_array(arrays(), chunks=(-1, 4, -1)), "rechunk"),
        (TreePCA(length=8), texts(), "n_components.*None.*vectors"),
        (TreePCA(length=8, vectors=(["a"], np.ones((2, 2)))), texts(), "vectors.*1 words"),
    ],
)
def test_what_cannot_be_fitted_is_said_in_a_sentence(tree, X, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        tree.fit(X)


@pytest.mark.parametrize("dtype", ["int8", "bool", "float16"])
def test_numbers_of_any_type_and_container_give_the_same(dtype):
    X = np.random.default_rng(0).integers(0, 2, size=(40, 4, 3)).astype(dtype)
    expected = TreePCA(length=4).fit_transform(X.astype(float))
    np.testing.assert_allclose(TreePCA(length=4).fit_transform(X), expected)
    flat = X.reshape(40, 12)
    for rows in (flat, pd.DataFrame(flat)):
        np.testing.assert_allclose(TreePCA(length=4).fit_transform(rows), expected)
    for rows in (da.from_array(X, chunks=(15, -1, -1)), da.from_array(flat, chunks=(15, -1))):
        tree = TreePCA(length=4).fit(rows)
        np.testing.assert_allclose(np.abs(tree.transform(rows).compute()), np.abs(expected), atol=1e-9)
