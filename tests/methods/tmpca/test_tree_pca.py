"""TMPCA: against scikit-learn at one level and a transcription at many, over texts, arrays, cuts and schedulers."""

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA, TruncatedSVD

from dspectral import TreePCA, WordEmbedding, read_word2vec, write_word2vec
from tests.methods.tmpca.sentences import arrays, texts, vectors
from tests.reference import tree_pca


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
    ours = tree.transform(X)
    assert_same_up_to_sign(ours - ours.mean(axis=0), pca.transform(flat))


def test_one_level_not_centered_is_the_truncated_svd_of_scikit_learn():
    X = arrays(length=2)
    tree = TreePCA(3, length=2, center=False)
    svd = TruncatedSVD(3, algorithm="arpack", random_state=0)
    assert_same_up_to_sign(tree.fit_transform(X), svd.fit_transform(X.reshape(len(X), -1)))


@pytest.mark.parametrize("k", [None, 2, 6])
def test_every_level_has_an_orthonormal_basis(k):
    tree = TreePCA(k, length=16).fit(arrays(length=16))
    k = k or 4
    assert [level.shape for level in tree.components_] == [(k, 8), *[(k, 2 * k)] * 3]
    for level in tree.components_:
        np.testing.assert_allclose(level @ level.T, np.eye(k), atol=1e-12)


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
    for ours, theirs in zip(tree.components_, axes, strict=True):
        assert_same_up_to_sign(ours.T, theirs.T, atol=1e-6)
    assert_same_up_to_sign(tree.transform(lazy).compute(), expected, atol=1e-5)


@pytest.mark.parametrize("pairs_at_arity", [2, 0])
@pytest.mark.parametrize("length", [2, 8])
def test_texts_give_what_their_padded_vectors_give(pairs_at_arity, length, monkeypatch):
    monkeypatch.setattr("dspectral.methods.tmpca.levels.PAIR", pairs_at_arity)
    pair, sentences = vectors(), texts()
    tree = TreePCA(length=length, vectors=pair).fit(sentences)
    dense = TreePCA(length=length).fit(padded(sentences, length, pair))
    for ours, theirs in zip(tree.components_, dense.components_, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
    np.testing.assert_allclose(tree.explained_variance_, dense.explained_variance_, rtol=1e-9)
    expected = dense.transform(padded(sentences, length, pair))
    found = tree.transform(sentences)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert (found[[not sentence for sentence in sentences]] == 0).all()
    assert tree.n_sentences_ == len(sentences)


def test_what_is_after_the_length_does_not_matter():
    tree = TreePCA(length=4, vectors=vectors()).fit(texts())
    np.testing.assert_array_equal(
        tree.transform([["the", "cat", "sat", "on", "a", "mat"]]),
        tree.transform([["the", "cat", "sat", "on"]]),
    )


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


def test_a_fitted_embedding_and_a_word2vec_file_are_the_same_vectors(tmp_path):
    sentences = texts(300)
    embedding = WordEmbedding(4, window=2).fit(sentences)
    write_word2vec(str(tmp_path / "v.bin"), embedding.words_, embedding.vectors_)
    tree = TreePCA(length=8, vectors=embedding).fit(sentences)
    other = TreePCA(length=8, vectors=read_word2vec(str(tmp_path / "v.bin"))).fit(sentences)
    np.testing.assert_array_equal(tree.transform(sentences), other.transform(sentences))


def test_a_level_with_few_directions_gives_zeros_and_says_how_many_there_are():
    for X, ranks in ((arrays(n=1), "3, 1, 0"), (arrays(n=3), "4, 4, 2")):
        with pytest.warns(
            UserWarning, match=f"n_components is 4, but the levels have only {ranks} independent"
        ):
            tree = TreePCA(length=8, whiten=True).fit(X)
        assert [level.shape for level in tree.components_] == [(4, 8)] * 3
        assert np.isfinite(tree.transform(X)).all()
        assert np.isfinite(tree.explained_variance_ratio_).all()
        assert not tree.transform(X)[:, int(ranks[-1]) :].any()
