import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import f1_score

from dspectral.metrics.classification import f1_scores

AVERAGES = ("weighted", "micro", "macro")


def assert_as_scikit_learn(found, true, predicted):
    expected = [f1_score(true, predicted, average=average, zero_division=0) for average in AVERAGES]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@given(st.lists(st.tuples(st.integers(-2, 4), st.integers(-2, 4)), min_size=1))
def test_single_labels_score_as_in_scikit_learn(pairs):
    true, predicted = np.array(pairs).T
    assert_as_scikit_learn(f1_scores(true, predicted), true, predicted)
    names = np.array(["a", "b", "c", "d", "e", "f", "g"])
    assert f1_scores(names[true + 2].tolist(), names[predicted + 2]) == f1_scores(true, predicted)


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(2, 5))
def test_indicators_score_as_in_scikit_learn_dense_or_sparse(seed, n, n_labels):
    true, predicted = np.random.default_rng(seed).random((2, n, n_labels)) < 0.4
    found = f1_scores(true, predicted)
    assert_as_scikit_learn(found, true.astype(int), predicted.astype(int))
    assert f1_scores(sparse.csr_array(true * 2.0), predicted) == found
    assert f1_scores(true, sparse.csc_matrix(predicted.astype(np.float32))) == found


def test_an_explicit_zero_is_no_label():
    true = sparse.csr_array(np.array([[1, 0], [0, 1]]))
    predicted = sparse.csr_array((np.array([1.0, 0.0, 1.0]), ([0, 0, 1], [0, 1, 1])), shape=(2, 2))
    assert f1_scores(true, predicted) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("true", "predicted", "sentence"),
    [
        ([1, 2], [1], r"true has shape \(2,\) and predicted \(1,\)"),
        ([[1, 0]], [0], r"true has shape \(1, 2\) and predicted \(1,\)"),
        ([], [], "no document"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(true, predicted, sentence):
    with pytest.raises(ValueError, match=sentence):
        f1_scores(true, predicted)
