import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import ndcg_score, roc_auc_score

from dspectral.metrics.ranking import (
    document_auc,
    label_propensities,
    ndcg_at,
    precision_at,
    propensity_precision_at,
)


@st.composite
def rankings(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, n_labels = draw(st.integers(1, 8)), draw(st.integers(2, 12))
    scores = rng.standard_normal((n, n_labels))
    if draw(st.booleans()):
        scores = scores.round()  # with ties
    return scores, (rng.random((n, n_labels)) < 0.3).astype(float)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(ranking=rankings())
def test_the_area_is_scikit_learns_where_it_is_defined(ranking):
    scores, truth = ranking
    for area, score, true in zip(document_auc(scores, sparse.csr_array(truth)), scores, truth, strict=True):
        if 0 < true.sum() < len(true):
            assert area == pytest.approx(roc_auc_score(true, score))
        else:
            assert np.isnan(area)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(ranking=rankings(), data=st.data())
def test_gains_and_precisions_are_what_counting_gives(ranking, data):
    scores, truth = ranking
    scores += 1e-6 * np.arange(scores.shape[1])[::-1]  # the lower column wins a tie
    k = data.draw(st.integers(1, scores.shape[1]))
    gains, precisions = ndcg_at(scores, truth, k), precision_at(scores, sparse.csr_array(truth), k)
    weights = label_propensities(np.arange(scores.shape[1]), 50)
    gained, possible = propensity_precision_at(scores, truth, k, weights)
    for i, (score, true) in enumerate(zip(scores, truth, strict=True)):
        if not true.any():
            assert np.isnan([gains[i], precisions[i], gained[i], possible[i]]).all()
            continue
        best = np.argsort(-score)[:k]
        assert precisions[i] == pytest.approx(true[best].mean())
        assert gains[i] == pytest.approx(ndcg_score(true[None], score[None], k=k))
        assert gained[i] == pytest.approx((true / weights)[best].sum() / k)
        assert possible[i] == pytest.approx(np.sort(true / weights)[::-1][:k].sum() / k)


def test_sparse_scores_rank_as_dense_ones_do_and_what_is_not_stored_is_not_predicted():
    scores = np.array([[0.5, 0.0, 0.9, 0.1], [0.0, 0.0, 0.3, 0.0]])
    truth = np.array([[1, 0, 1, 0], [1, 0, 0, 0]])
    csr = sparse.csr_array(scores)
    np.testing.assert_allclose(precision_at(csr, truth, 3), [2 / 3, 0.0])
    np.testing.assert_allclose(ndcg_at(csr[:1], truth[:1], 3), ndcg_at(scores[:1], truth[:1], 3))


def test_no_document_and_no_label_leave_nothing_to_score():
    assert document_auc(np.zeros((0, 3)), np.zeros((0, 3))).shape == (0,)
    assert np.isnan(precision_at(np.ones((2, 3)), sparse.csr_array((2, 3)), 1)).all()


def test_a_rarer_label_is_less_likely_to_be_noted_down():
    propensities = label_propensities(np.array([0, 1, 10, 1000]), 5000)
    assert (np.diff(propensities) > 0).all()
    assert ((propensities > 0) & (propensities < 1)).all()


@pytest.mark.parametrize(
    ("scores", "truth", "k", "message"),
    [
        (np.zeros((2, 3)), np.zeros((2, 4)), 1, "shape"),
        (np.full((1, 3), np.nan), np.zeros((1, 3)), 1, "NaN"),
        (np.zeros((1, 3)), np.zeros((1, 3)), 4, "k is 4, but must be from 1 to the number of labels, 3"),
    ],
)
def test_what_cannot_be_scored_is_an_error(scores, truth, k, message):
    with pytest.raises(ValueError, match=message):
        precision_at(scores, truth, k)
