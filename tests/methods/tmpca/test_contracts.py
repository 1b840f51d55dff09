"""What users rely on: kinds of input, sentences of errors, clones, searches, saved models."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from dspectral import TreePCA, WordEmbedding
from tests.methods.tmpca.sentences import Counted, arrays, texts, vectors


def test_single_precision_and_integers_are_taken_as_they_are():
    X = arrays()
    expected = TreePCA(length=8).fit_transform(X)
    np.testing.assert_allclose(TreePCA(length=8).fit_transform(X.astype(np.float32)), expected, atol=1e-4)
    counts = np.random.default_rng(0).integers(0, 9, size=(40, 4, 3))
    found = TreePCA(length=4).fit_transform(counts)
    np.testing.assert_array_equal(found, TreePCA(length=4).fit_transform(counts.astype(float)))


def with_nan():
    X = arrays()
    X[3, 2, 1] = np.nan
    return X


@pytest.mark.parametrize(
    ("tree", "X", "sentence"),
    [
        (TreePCA(length=48), texts(), "length is 48, but it must be a power of arity = 2: 32 or 64"),
        (TreePCA(length=1), texts(), "length is 1, but it must be a power of arity = 2: 2, for"),
        (TreePCA(length=2, arity=3), texts(), "length is 2, but it must be a power of arity = 3: 3, for"),
        (TreePCA(arity=1), texts(), "arity is 1, but it must be an integer of at least 2"),
        (TreePCA(9, length=8), arrays(), "n_components is 9, but it must be from 1 to 8: arity = 2"),
        (TreePCA(0, length=8), arrays(), "n_components is 0"),
        (TreePCA(length=8), arrays(n=0), "there is no sentence"),
        (TreePCA(length=8), with_nan(), "row block 0: sentence 3, position 2, dimension 1 is nan"),
        (
            TreePCA(length=8),
            arrays(length=7),
            r"X has shape \(50, 7, 4\), but it must be \(sentences, length = 8",
        ),
        (TreePCA(length=8), arrays()[0], r"X has shape \(8, 4\)"),
        (TreePCA(length=8), da.from_array(arrays(), chunks=(-1, 4, -1)), "cut within sentences"),
        (TreePCA(length=8), arrays().astype(str), "it must be one of numbers"),
        (TreePCA(length=8), texts(), "n_components is None and there are no vectors"),
        (TreePCA(4, length=8), [], "no word in the 0 sentence"),
        (TreePCA(4, length=8), [[], []], "no word in the 2 sentence"),
        (TreePCA(4, length=8), ["the cat"], "sentence 0 is 'the cat', but it must be a list of"),
        (TreePCA(length=8, vectors=3), texts(), "vectors is a int"),
        (TreePCA(length=8, vectors=(["a"], np.ones((2, 2)))), texts(), "vectors has 1 words, but a matrix"),
        (TreePCA(length=8, vectors=(["cat"], [[np.nan]])), texts(), "the vector of 'cat' has NaN"),
    ],
)
def test_what_cannot_be_fitted_is_said_in_a_sentence(tree, X, sentence):
    with pytest.raises(ValueError, match=sentence):
        tree.fit(X)


def test_what_cannot_be_transformed_is_said_in_a_sentence():
    tree = TreePCA(length=8).fit(arrays())
    with pytest.raises(ValueError, match="vectors have 3 dimensions, but TreePCA was fitted on 4"):
        tree.transform(arrays(d=3))
    with pytest.raises(ValueError, match="sentence 3, position 2"):
        tree.transform(with_nan())
    tree = TreePCA(length=8, vectors=vectors()).fit(texts())
    with pytest.raises(ValueError, match="sentence 1 is 'cat'"):
        tree.transform([["a"], "cat"])
    with pytest.raises(ValueError, match="n_rows must say of each of the 5 blocks"):
        tree.transform(Counted(texts(), 5))
    assert tree.transform([]).shape == (0, 4)
    assert tree.transform(np.array([["the", "cat"]], dtype=object)).shape == (1, 4)


def test_names_of_features_and_the_tags_say_what_comes_out_and_goes_in():
    tree = TreePCA(3, length=8).fit(arrays())
    assert tree.get_feature_names_out().tolist() == ["treepca0", "treepca1", "treepca2"]
    tags = tree.__sklearn_tags__().input_tags
    assert (tags.three_d_array, tags.two_d_array) == (True, False)


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16", "bool", "float16", "float64"])
def test_numbers_of_any_type_give_the_same_in_memory_and_lazily_in_two_axes_or_three(dtype):
    X = np.random.default_rng(0).integers(0, 2, size=(40, 4, 3)).astype(dtype)
    expected = TreePCA(length=4).fit_transform(X.astype(float))
    np.testing.assert_allclose(TreePCA(length=4).fit_transform(X), expected)
    flat = X.reshape(40, 12)
    for rows in (flat, pd.DataFrame(flat)):
        np.testing.assert_allclose(TreePCA(length=4).fit_transform(rows), expected)
    for rows in (da.from_array(X, chunks=(15, -1, -1)), da.from_array(flat, chunks=(15, -1))):
        tree = TreePCA(length=4).fit(rows)
        np.testing.assert_allclose(np.abs(tree.transform(rows).compute()), np.abs(expected), atol=1e-9)


class Column:
    """What a data set gives for one of its columns."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, i):
        return self.values[i]


@pytest.mark.parametrize(
    ("X", "sentence"),
    [
        ("the cat", "X is of type str"),
        (sparse.eye_array(4), "X is a dia_array, but it must be a corpus"),
        (arrays()[:, :, 0], r"X has shape \(50, 8\)"),
        (da.ones((5, 8, 2))[da.ones(5) > 0], "blocks of unknown size"),
    ],
)
def test_other_containers_are_refused_in_one_sentence(X, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        TreePCA(length=16 if getattr(X, "shape", None) == (50, 8) else 8, vectors=vectors()).fit(X)


def test_a_clone_keeps_a_fitted_embedding_and_shares_a_table():
    embedding = WordEmbedding(4, window=2).fit(texts(300))
    tree = clone(TreePCA(length=4, vectors=embedding))
    assert tree.vectors.vectors_ is embedding.vectors_
    pair = vectors()
    assert clone(TreePCA(vectors=pair)).vectors is pair
