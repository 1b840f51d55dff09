"""Metrics of rankings, sequences and word vectors, against scikit-learn, SciPy and counting."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import spearmanr
from sklearn.metrics import ndcg_score, roc_auc_score

from workflows._parts import scores as word_vectors
from workflows._parts.scores import (
    EPSILON,
    analogy_accuracy,
    document_auc,
    edit_distance,
    frame_accuracy,
    label_error_rate,
    label_propensities,
    many_to_one,
    ndcg_at,
    one_to_one,
    precision_at,
    propensity_precision_at,
    word_similarity,
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


def test_sparse_scores_rank_like_dense_ones_and_zeros_are_no_labels():
    scores = np.array([[0.5, 0.0, 0.9, 0.1], [0.0, 0.0, 0.3, 0.0]])
    truth = np.array([[1, 0, 1, 0], [1, 0, 0, 0]])
    csr = sparse.csr_array(scores)
    np.testing.assert_allclose(precision_at(csr, truth, 3), [2 / 3, 0.0])
    np.testing.assert_allclose(ndcg_at(csr[:1], truth[:1], 3), ndcg_at(scores[:1], truth[:1], 3))


def test_no_document_and_no_label_leave_nothing_to_score():
    assert document_auc(np.zeros((0, 3)), np.zeros((0, 3))).shape == (0,)
    assert np.isnan(precision_at(np.ones((2, 3)), sparse.csr_array((2, 3)), 1)).all()


pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=40)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(pairs=pairs)
def test_one_state_for_a_tag_is_at_most_as_good_as_several(pairs):
    true, actual = zip(*pairs, strict=True)
    assert one_to_one(true, actual) <= many_to_one(true, actual) <= 1.0
    assert many_to_one(true, true) == one_to_one(true, true) == 1.0


def slow_distance(a, b):
    if not a or not b:
        return len(a) + len(b)
    return min(slow_distance(a[1:], b) + 1, slow_distance(a, b[1:]) + 1, slow_distance(a[1:], b[1:]) + (a[0] != b[0]))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(a=st.text("ab", max_size=5), b=st.text("abc", max_size=5))
def test_edit_distance_is_that_of_the_definition(a, b):
    assert edit_distance(a, b) == slow_distance(a, b)


def test_one_to_one_leaves_states_over_if_there_are_more_than_tags():
    assert one_to_one(["N"] * 4, [0, 1, 1, 2]) == 0.5
    assert many_to_one(["N"] * 4, np.array([0, 1, 1, 2])) == 1.0


def test_runs_are_what_counts_for_label_errors():
    assert label_error_rate([[1, 1, 2]], [[1, 2, 2]]) == 0.0
    assert frame_accuracy([[1, 1, 2]], [[1, 2, 2]]) == pytest.approx(2 / 3)


RNG = np.random.default_rng(0)
WORDS = [f"w{i}" for i in range(30)]
VECTORS = RNG.standard_normal((30, 4))


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def test_similarity_is_the_rank_correlation_of_the_pairs_that_are_covered():
    draws = RNG.integers(40, size=(60, 2))
    pairs = [(f"w{a}", f"w{b}", float(k % 7)) for k, (a, b) in enumerate(draws)]
    known = [(a, b, s) for (a, b), (_, _, s) in zip(draws, pairs, strict=True) if max(a, b) < 30]
    actual = word_similarity(WORDS, VECTORS, pairs)
    expected = spearmanr([cosine(VECTORS[a], VECTORS[b]) for a, b, _ in known], [s for _, _, s in known])
    assert actual.spearman == pytest.approx(expected.statistic)
    assert actual.n_pairs == len(known)
    assert actual.coverage == len(known) / 60


@pytest.mark.parametrize("tile", [7, 4096])
@pytest.mark.parametrize("method", ["add", "mul"])
def test_analogies_are_answered_by_the_best_word_not_in_the_question(method, tile, monkeypatch):
    monkeypatch.setattr(word_vectors, "PANEL_WORDS", tile)
    right, questions = [], []
    unit = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    for a, b, c, d in RNG.permuted(np.tile(np.arange(30), (200, 1)), axis=1)[:, :4]:
        scores = np.full(30, -np.inf)
        for word in set(range(30)) - {a, b, c}:
            to = [(1 + unit[word] @ unit[given]) / 2 for given in (a, b, c)]
            added = unit[word] @ (unit[b] - unit[a] + unit[c])
            scores[word] = added if method == "add" else to[1] * to[2] / (to[0] + EPSILON)
        d = scores.argmax() if len(questions) % 2 else d  # noqa: PLW2901  every second one is answered rightly
        right.append(scores.argmax() == d)
        questions.append(tuple(f"w{i}" for i in (a, b, c, d)))
    actual = analogy_accuracy(WORDS, VECTORS, [*questions, ("w1", "w2", "w3", "w99")], method=method)
    assert actual.accuracy == pytest.approx(np.mean(right))
    assert (actual.n_questions, actual.coverage) == (200, 200 / 201)


def test_nothing_covered_is_not_a_number():
    assert math.isnan(word_similarity(WORDS, VECTORS, [("x", "y", 1)]).spearman)
    assert math.isnan(word_similarity(WORDS, VECTORS, [("w1", "w2", 1), ("w1", "w3", 1)]).spearman)
    assert math.isnan(analogy_accuracy(WORDS, VECTORS, [("x", "y", "z", "w1")]).accuracy)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((2, 3)), np.zeros((2, 4)), 1), "shape"),
        ((np.full((1, 3), np.nan), np.zeros((1, 3)), 1), "NaN"),
        ((np.zeros((1, 3)), np.zeros((1, 3)), 4), "k.*4"),
    ],
)
def test_scores_that_cannot_be_ranked_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        precision_at(*arguments)
