"""Recovery of sampled models, the same answer however the data lies, and every bad input."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone

from dspectral import MomentMultiLabelClassifier, write_counts
from dspectral.datasets import sample_labeled_documents, state_parameters
from dspectral.methods.multilabel import MultiLabelRecipe, passes
from workflows._parts.scores import document_auc

K, D, L = 4, 40, 12
TRUTH = state_parameters(D, L, K, concentration=0.3, seed=5)


def sampled(n, seed=0, length=30.0):
    words, labels, _ = sample_labeled_documents(n, parameters=TRUTH, length=length, n_labels_each=1, seed=seed)
    return words, labels


@pytest.fixture(scope="module")
def small():
    return sampled(600)


def test_states_predict_the_labels_that_they_were_drawn_with(small):
    words, labels = sampled(4000, seed=1)
    for moments in ("paper", "unbiased"):
        model = MomentMultiLabelClassifier(K, correction_rank=0, recipe=MultiLabelRecipe(moments, counts=True))
        scores = model.fit(words, labels).decision_function(small[0])
        np.testing.assert_allclose(scores.sum(axis=1), 1.0, rtol=1e-5)
        knowing = model.state_probabilities(small[0]) @ model.label_distributions_.T
        np.testing.assert_allclose(scores, knowing, rtol=1e-5)
        assert np.nanmean(document_auc(scores, small[1])) > 0.85


@pytest.mark.parametrize("label_weight", [0.0, 1.0, 16.0])
def test_steps_of_em_are_those_of_the_formula(small, label_weight):
    words, labels = (part.toarray().astype(np.float64) for part in small)
    words = (words > 0).astype(np.float64)
    start = MomentMultiLabelClassifier(K, smoothing=0.2, n_em_iter=0, correction_rank=0).fit(words, labels)
    actual = clone(start).set_params(n_em_iter=2, label_weight=label_weight).fit(words, labels)
    mu, gamma, pi = start.word_distributions_, start.label_distributions_, start.state_weights_
    for _ in range(2):
        of_words = 0.8 * mu + 0.2 * words.sum(axis=0)[:, None] / words.sum()
        of_labels = 0.8 * gamma + 0.2 * labels.sum(axis=0)[:, None] / labels.sum()
        joint = np.log(pi) + words @ np.log(of_words) + label_weight * (labels @ np.log(of_labels))
        P = np.exp(joint - joint.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        mu, gamma, pi = words.T @ P, labels.T @ P + 0.5, P.mean(axis=0)
        mu, gamma = mu / mu.sum(axis=0), gamma / gamma.sum(axis=0)
    order = np.argsort(-pi)
    np.testing.assert_allclose(actual.state_weights_, pi[order], rtol=1e-4)
    np.testing.assert_allclose(actual.word_distributions_, mu[:, order], rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(actual.label_distributions_, gamma[:, order], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("n_columns", [D, 0])
def test_unbiased_moments_or_their_sketch_recover_the_states(n_columns, monkeypatch):
    monkeypatch.setattr(passes, "GRAM_COLUMNS", n_columns)
    model = MomentMultiLabelClassifier.as_published(K, recipe=MultiLabelRecipe("unbiased", counts=True))
    model.fit(*sampled(8000))
    assert model.solver_ == ("gram" if n_columns else "frequent_directions")
    distance = np.abs(model.word_distributions_[:, :, None] - TRUTH.words[:, None, :]).sum(axis=0)
    order = linear_sum_assignment(distance.T)[1]
    assert distance[order, range(K)].max() < 0.15
    assert np.abs(model.label_distributions_[:, order] - TRUTH.labels).sum(axis=0).max() < 0.3
    assert np.abs(model.state_weights_[order] - TRUTH.weights).max() < 0.03
    assert [int(model.topics_[state].words[0]) for state in order] == TRUTH.words.argmax(axis=0).tolist()


def test_the_best_labels_are_sparse_and_their_shares_are_of_all_scores(small):
    model = MomentMultiLabelClassifier(K).fit(*small)
    scores = np.log1p(np.exp(model.decision_function(small[0]).astype(np.float64)))
    best = model.top_labels(small[0], 3)
    assert best.shape == (600, L)
    assert (np.diff(best.indptr) == 3).all()
    shares = scores / scores.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        best.data.reshape(-1, 3).sum(axis=1), np.sort(shares, axis=1)[:, -3:].sum(axis=1), rtol=1e-5
    )
    np.testing.assert_allclose(model.top_labels(small[0], L + 1).toarray(), shares, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(model.predict_proba(small[0]), shares, rtol=1e-6, atol=1e-12)
    assert (np.diff(model.top_labels(small[0]).indptr) == 10).all()
    predicted = clone(model).set_params(predict_for="mean_number").fit(*small).predict(small[0])
    assert set(np.diff(predicted.indptr)) == {round(small[1].nnz / 600)}
    assert set(predicted.data) == {1.0}


def test_documents_without_words_or_labels_have_their_documented_result(small):
    words, labels = (part.toarray() for part in small)
    words[:10], labels[5:20], labels[:, 3] = 0, 0, 0
    model = MomentMultiLabelClassifier(K, n_em_iter=0, correction_rank=0).fit(words, labels)
    assert (model.label_distributions_[3] == 0).all()  # a label that is never seen
    prior = model.label_distributions_ @ model.state_weights_
    np.testing.assert_allclose(model.decision_function(np.zeros((1, D)))[0], prior, rtol=1e-5)
    polished = MomentMultiLabelClassifier(K, n_em_iter=1, correction_rank=0).fit(words, labels)
    assert (polished.label_distributions_[3] > 0).all()


@pytest.mark.parametrize(("moments", "n_columns"), [("paper", 12), ("unbiased", 12), ("unbiased", 0)])
def test_states_are_at_most_the_directions_of_the_words(moments, n_columns, monkeypatch):
    monkeypatch.setattr(passes, "GRAM_COLUMNS", n_columns)
    rng = np.random.default_rng(0)
    words = np.repeat(np.eye(3), 4, axis=1)[rng.integers(3, size=200)]  # three kinds of document
    labels = np.ones((200, 2))
    model = MomentMultiLabelClassifier(5, recipe=MultiLabelRecipe(moments))
    with pytest.raises(ValueError, match=r"n_states=5.*3"):
        model.fit(words, labels)
    assert model.set_params(n_states=3).fit(words, labels).n_passes_ == 3
    assert model.set_params(n_states="auto").fit(words, labels).n_states_ == 3


ONES, LABELS = np.ones((6, 4)), np.ones((6, 2))


@pytest.mark.parametrize(
    ("words", "labels", "given", "message"),
    [
        (ONES, LABELS / 2, {}, r"row 0, column 0.*0\.5"),
        (ONES, 0 * LABELS, {}, "label.*6 documents"),
        (np.eye(6), LABELS, {}, "two words"),
        (np.eye(6) + np.eye(6, k=1), LABELS, {}, "three words"),
        (ONES - 2, LABELS, {}, "row block 0.*row 0, column 0.*-1.0"),
        (ONES, LABELS, {"recipe": MultiLabelRecipe(alpha=0.0)}, "alpha.*0.0"),
        (ONES, LABELS, {"n_states": 5}, "n_states.*5.*1 to 4"),
    ],
)
def test_what_cannot_be_learned_is_named(words, labels, given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        MomentMultiLabelClassifier(**{"n_states": 1, "recipe": MultiLabelRecipe("unbiased"), **given}).fit(
            words, labels
        )


def test_labels_have_column_names_and_predictions_the_type_of_y(small):
    words, labels = small[0], small[1].toarray().astype(np.int64)
    names = [f"label {j}" for j in range(L)]
    model = MomentMultiLabelClassifier(K).fit(words, pd.DataFrame(labels, columns=names))
    assert model.classes_.tolist() == names
    actual = model.predict(words)
    assert (type(actual), actual.dtype) == (np.ndarray, np.int64)
    by_matrix = MomentMultiLabelClassifier(K).fit(words, small[1])
    assert by_matrix.classes_.tolist() == list(range(L))
    assert (by_matrix.predict(words).toarray() == actual).all()
    assert by_matrix.score(words, small[1]) == model.score(words, labels) == np.mean((actual == labels).all(axis=1))
    weights = np.arange(600.0)
    assert model.score(words, labels, weights) == pytest.approx(
        np.average((actual == labels).all(axis=1), weights=weights)
    )


def test_a_store_scores_itself_and_its_shares_stay_lazy(small, tmp_path):
    store = write_counts(small[0], str(tmp_path / "a.zarr"), labels=small[1], block_rows=200)
    model = MomentMultiLabelClassifier(K).fit(store)
    whole = MomentMultiLabelClassifier(K).fit(*small)
    assert model.score(store) == pytest.approx(whole.score(*small), abs=0.01)
    for lazy in (model.predict_proba(store), model.top_labels(store), model.predict(store)):
        assert isinstance(lazy, da.Array)


def test_values_that_are_no_counts_weigh_words(small):
    words, labels = (sparse.csr_array(each) for each in small)
    model = MomentMultiLabelClassifier(K).fit(words, labels)
    weighted = words.astype(bool) * model._scorer.column_weights
    # Inverse document frequencies of one's own are those that counts get.
    same = clone(model).fit(weighted, labels)
    assert same.alpha_ == model.alpha_
    np.testing.assert_allclose(same.predict_proba(weighted), model.predict_proba(words), atol=1e-5)
    others = clone(model).fit(np.sqrt(words), labels).predict_proba(np.sqrt(words))
    assert np.abs(others - model.predict_proba(words)).max() > 1e-3
