"""The linear part, and what is chosen for it on documents that are left out."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import f1_score

from dspectral import MomentMultiLabelClassifier
from dspectral.datasets import labeled_counts, sample_labeled_documents
from dspectral.methods.multilabel import MultiLabelRecipe, held_out, latent_states, passes
from dspectral.methods.multilabel.documents import (
    linear_features,
    unit_rows,
    word_rows,
)
from dspectral.methods.multilabel.held_out import (
    LeaveOneOutScores,
    add_gains,
    add_scales,
    select_near_best,
    select_threshold,
)
from dspectral.methods.multilabel.latent_states import EigenbasisRegression, ScoringWeights
from dspectral.methods.multilabel.passes import extend_directions
from dspectral.methods.multilabel.prediction import Threshold
from dspectral.methods.multilabel.summaries import RegressionSums, label_range
from workflows._parts.scores import document_auc, precision_at

K = 4


@pytest.fixture(scope="module")
def dependent():
    """Words that come three at a time, so that a state's posterior is far too sure of itself, as on real text."""
    words, labels, _ = sample_labeled_documents(1200, n_words=60, n_labels=15, n_states=8, length=12.0, seed=3)
    return sparse.csr_array(sparse.hstack([words] * 3, format="csr")), labels


def test_the_default_is_near_the_best_of_a_grid_and_above_the_states_alone():
    words, labels, _ = sample_labeled_documents(1200, n_words=60, n_labels=60, n_states=20, length=12.0, seed=3)
    train, test = np.arange(900), np.arange(900, 1200)

    def gram_directions(alpha, rank=None):
        model = MomentMultiLabelClassifier(8, correction_rank=rank, recipe=MultiLabelRecipe(alpha=alpha))
        scores = model.fit(words[train], labels[train]).decision_function(words[test])
        area, first = document_auc(scores, labels[test]), precision_at(scores, labels[test], 1)
        return np.nanmean(area) + np.nanmean(first)

    best = max(gram_directions(alpha) for alpha in (0.01, 0.1, 1.0, 1000.0))
    assert gram_directions("auto") > 0.98 * best
    assert gram_directions("auto", 0) < 0.9 * best


@pytest.mark.parametrize(("n_each", "alpha"), [(7, 0.2), (9, 0.8)])
def test_with_many_labels_of_a_document_the_first_candidate_is_another(monkeypatch, n_each, alpha):
    monkeypatch.setattr(held_out, "select_near_best", lambda gains: np.arange(len(gains)) == 0)
    rng = np.random.default_rng(0)
    words = (rng.random((400, 30)) < 0.2).astype(float)
    labels = np.argsort(rng.random((400, 40)), axis=1) < n_each
    assert MomentMultiLabelClassifier(K).fit(words, labels).alpha_ == alpha
    given = MultiLabelRecipe(alpha=0.1)
    assert MomentMultiLabelClassifier(K, recipe=given).fit(words, labels).alpha_ == 0.1


def test_penalties_that_chance_does_not_separate_are_averaged(monkeypatch, dependent):
    monkeypatch.setattr(held_out, "select_near_best", lambda gains: np.arange(len(gains)) < 7)
    # The last three of them add another multiple of the ridge regression.
    assert MomentMultiLabelClassifier(K).fit(*dependent).alpha_ == pytest.approx((0.2 * 0.07 * 0.4 * 0.02) ** 0.25)


def test_few_documents_get_the_settings_that_win_elsewhere(dependent):
    words, labels = (part[:25] for part in dependent)
    model = MomentMultiLabelClassifier().fit(words, labels)
    assert 1 < model.n_states_ <= 25
    assert (model.alpha_, model.n_held_out_) == (0.2, 0)
    shares = MomentMultiLabelClassifier().fit(words[:25], labels[:25, :3]).predict_proba(words[:50])
    assert ((shares > 0) & (shares < 1)).all()


def test_gains_are_the_area_and_the_precision_of_the_first_label():
    rng = np.random.default_rng(0)
    scores, truth = rng.integers(5, size=(50, 7)) / 4.0, rng.random((50, 7)) < 0.3
    scores[np.arange(50), rng.integers(7, size=50)] = 2.0  # one label is first
    area = np.nan_to_num(document_auc(scores, truth), nan=0.5)
    expected = area + np.nan_to_num(precision_at(scores, truth, 1))  # NaN where there is no label
    gains, labels = np.zeros(50), sparse.csr_array(truth.astype(float))
    add_gains(scores, labels.indices, labels.indptr, gains)
    np.testing.assert_allclose(gains, expected)


def test_a_candidate_must_win_by_more_than_chance():
    rng = np.random.default_rng(0)
    gains = np.repeat(rng.random((1, 400)), 3, axis=0)
    gains[2] -= 0.5
    gains[1] += rng.standard_normal(400)
    gains[1] += 0.5 / 20 - np.mean(gains[1] - gains[0])  # half a standard error better
    assert select_near_best(gains).tolist() == [True, True, False]
    gains[2] += 0.6 + 0.01 * rng.standard_normal(400)
    assert select_near_best(gains).tolist() == [False, False, True]


@pytest.mark.parametrize("predict_for", ["f1", "subset"])
def test_threshold_is_the_best_of_all(predict_for):
    rng = np.random.default_rng(0)
    truth = rng.random((40, 5)) < 0.3
    scores = (truth + rng.standard_normal(truth.shape)).round(1)

    def measure(predicted):
        f1 = 2 * (predicted & truth).sum() / (predicted.sum() + truth.sum())
        return f1 if predict_for == "f1" else (predicted == truth).all(axis=1).mean()

    best = max(
        measure(Threshold(level, weight).is_above(scores))
        for weight in held_out.ROW_WEIGHTS
        for level in np.arange(-4, 4, 0.005)
    )
    assert measure(select_threshold(scores, truth, predict_for).is_above(scores)) == best


def test_predict_is_best_for_what_it_is_for():
    words, labels, _ = sample_labeled_documents(1500, n_words=60, n_labels=20, n_states=8, seed=3)
    models = {
        name: MomentMultiLabelClassifier(K, predict_for=name).fit(words[:1000], labels[:1000])
        for name in ("f1", "subset", "mean_number")
    }
    predicted = {name: model.predict(words[1000:]).toarray() for name, model in models.items()}
    truth = labels[1000:].toarray() > 0
    f1 = {name: f1_score(truth, actual > 0, average="micro") for name, actual in predicted.items()}
    assert f1["f1"] > f1["mean_number"] + 0.02
    assert models["subset"].score(words[1000:], labels[1000:]) > models["f1"].score(words[1000:], labels[1000:])
    assert (models["f1"].labels_each_, models["mean_number"].threshold_) == (None, None)


N_WORDS, N_LABELS, MAX_CALIBRATED_LABELS = 50, 6, 12


@pytest.fixture(scope="module")
def documents():
    words, labels, _ = sample_labeled_documents(400, n_words=N_WORDS, n_labels=N_LABELS, n_states=8, seed=4)
    return word_rows(words, keep_counts=False, dtype=np.float64), sparse.csr_array(labels)


@pytest.fixture(scope="module")
def part(documents):
    """Features of a quarter of the words and of directions; sums of all documents, all but the first, and twelve."""
    rng = np.random.default_rng(0)
    directions, own = np.linalg.qr(rng.standard_normal((N_WORDS, 5)))[0], np.arange(0, N_WORDS, 4)
    words, Y = documents
    wide, single = linear_features(words, 1.0 + rng.random(N_WORDS), own, directions, np.float64)
    cuts = (slice(None), slice(1, None), slice(MAX_CALIBRATED_LABELS))
    sums = [RegressionSums.from_block(wide[cut], single[cut], Y[cut].astype(np.float64)) for cut in cuts]
    return np.column_stack([wide.toarray(), single[:, :-1]]), Y.toarray().astype(np.float64), sums


@pytest.mark.parametrize(
    "n", [None, MAX_CALIBRATED_LABELS]
)  # with fewer documents than features these are turned otherwise
def test_linear_part_is_ridge_regression_and_a_logistic_newton_step(part, n):
    F, Y, (sums, _, few) = part
    F, Y, sums = F[:n], Y[:n], few if n else sums
    centered, p = F - F.mean(axis=0), (Y.sum(axis=0) + 0.5) / (len(Y) + 1)
    scales = np.column_stack([np.linspace(-1, 1, N_LABELS), np.linspace(0.5, 2, N_LABELS)])
    gram = centered.T @ centered
    actual = EigenbasisRegression.from_sums(sums).coefficients(ScoringWeights(0.3, 4.0, 2.0), scales)
    ridge = Y.mean(axis=0) + centered @ np.linalg.solve(gram + 2 * np.eye(len(gram)), centered.T @ Y)
    for label, (shift, scale) in enumerate(scales):
        v = p[label] * (1 - p[label])
        step = np.linalg.solve(v * gram + 0.3 * np.eye(len(gram)), centered.T @ (Y[:, label] - p[label]))
        odds = np.log(p[label] / (1 - p[label])) + centered @ step
        expected = shift + scale * odds + 4.0 * ridge[:, label]
        np.testing.assert_allclose(F @ actual[label, :-1] + actual[label, -1], expected, atol=1e-8)


def test_held_out_document_is_scored_by_ridge_regression_of_others(part):
    F, Y, sums = part
    turned, without = (EigenbasisRegression.from_sums(each) for each in sums[:2])
    Z = (F - turned.mean) @ turned.eigenvectors
    out = LeaveOneOutScores(Z, Z * Z, np.zeros_like(Y), np.zeros((len(Y), 1)), Y, None, None, turned)
    actual = without.coefficients(ScoringWeights(1.0, 1.0, 2.0), np.zeros((N_LABELS, 2)))
    np.testing.assert_allclose(out.ridge(2.0)[0], actual[:, :-1] @ F[0] + actual[:, -1], atol=1e-8)
    # Log-odds without a document lie further from what it says of its labels.
    with_it = turned.coefficients(ScoringWeights(0.3, 0.0, 1.0), np.tile([0.0, 1.0], (N_LABELS, 1)))
    seen, alone = F @ with_it[:, :-1].T + with_it[:, -1], out.odds(0.3)
    assert (alone[Y > 0] < seen[Y > 0]).mean() > 0.9
    assert np.corrcoef(seen.ravel(), alone.ravel())[0, 1] > 0.9


@pytest.mark.parametrize(("n", "tolerance"), [(400, 2e-2), (15, 1e-9)])  # few documents: all of the range
def test_leading_eigenvectors_and_gradients_approximate_coefficients(monkeypatch, n, tolerance):
    rng = np.random.default_rng(0)
    F = sparse.csr_array(sparse.random_array((n, 80), density=0.1, rng=rng))
    Y = (rng.random((n, 5)) < 0.3).astype(float)
    sums = RegressionSums.from_block(F, np.ones((n, 1)), sparse.csr_array(Y))
    scales, weights = np.tile([0.1, 1.5], (5, 1)), ScoringWeights(0.2, 5.0, 3.0)
    exact = EigenbasisRegression.from_sums(sums)
    monkeypatch.setattr(latent_states, "MAX_EXACT_FEATURES", 40)
    leading = EigenbasisRegression.from_sums(sums)
    assert len(leading.values) == min(n, 16) < len(exact.values) == 80
    expected, actual = (model.coefficients(weights, scales) for model in (exact, leading))
    assert np.linalg.norm(actual - expected) < tolerance * np.linalg.norm(expected)
    if n == 400:
        monkeypatch.setattr(latent_states, "N_STEPS", 0)
        assert np.linalg.norm(leading.coefficients(weights, scales) - expected) > 1e-2 * np.linalg.norm(expected)


def test_scales_are_those_of_a_shrunk_logistic_regression():
    rng = np.random.default_rng(0)
    odds = 3.0 * rng.standard_normal((300, 3))
    truth = (rng.random((300, 3)) < 1 / (1 + np.exp(1.0 - 0.5 * odds))).astype(float)
    truth[:, 2] = odds[:, 2] > 0  # told apart without an error
    start = np.tile([-0.5, 0.8], (3, 1))
    actual = start.copy()
    add_scales(odds, truth, actual)
    left = truth - 1 / (1 + np.exp(-actual[:, 0] - actual[:, 1] * odds))
    gradient = np.column_stack([left.sum(axis=0), (left * odds).sum(axis=0)])
    np.testing.assert_allclose(gradient, actual - start, atol=0.02)
    assert actual[2, 1] > 2 * actual[0, 1]


def test_residual_gradient_of_a_linear_model_is_among_the_directions(documents):
    words, labels = documents
    weights = np.ones(N_WORDS)  # others make directions of labels those of rows of nearly the same length
    first = np.linalg.qr(label_range(words, labels, N_LABELS, seed=0).astype(np.float64))[0]
    rows = unit_rows(words, weights)
    both = extend_directions(first, rows.T @ (rows @ first))
    np.testing.assert_allclose(both.T @ both, np.eye(2 * N_LABELS), atol=1e-5)
    features = rows @ first
    left = labels - features @ np.linalg.solve(features.T @ features + np.eye(N_LABELS), features.T @ labels)
    gradient = rows.T @ left
    outside = gradient - both @ (both.T @ gradient)
    assert np.linalg.norm(outside) < 1e-4 * np.linalg.norm(gradient)
    assert np.linalg.norm(gradient - first @ (first.T @ gradient)) > 0.1 * np.linalg.norm(gradient)


def test_all_words_are_features_or_the_most_telling_ones_beside_directions(documents, monkeypatch):
    words, labels = documents
    absent = sparse.csr_array(words.toarray() * (np.arange(N_WORDS) != 7))
    assert MomentMultiLabelClassifier(3).fit(absent, labels).own_words_.tolist() == [*range(7), *range(8, 50)]
    monkeypatch.setattr(passes, "MAX_OWN_WORDS", 20)
    every = labels.toarray()
    every[:, 0] = words.toarray()[:, 11] > 0  # a label that hangs on one word
    for rank, n_words, n_directions in (
        (0, 0, 0),
        (2, 16, 4),
        (N_LABELS, 8, 2 * N_LABELS),
        (50, 8, 2 * N_LABELS),
    ):
        model = MomentMultiLabelClassifier(3, correction_rank=rank).fit(words, every)
        assert model.directions_.shape == (N_WORDS, n_directions)
        assert len(model.own_words_) == n_words
        assert (11 in model.own_words_) == (rank > 0)
    actual = model.decision_function(words)
    assert np.nanmean(document_auc(actual, every)) > 0.75


def test_states_score_the_labels_of_documents_that_were_drawn_from_states(dependent):
    words, labels = (part.compute() for part in labeled_counts(1500, 300, 60, 6, noise=0.3, seed=2))
    model = MomentMultiLabelClassifier(6).fit(words[:1000], labels[:1000])
    scores, P = model.decision_function(words[1000:]), model.state_probabilities(words[1000:])
    assert model.state_share_ == 1.0
    np.testing.assert_allclose(scores, np.log(P @ model.state_labels_.T), rtol=1e-3)
    linear = model._scorer._replace(state_share=0.0).scores(words[1000:])
    assert np.nanmean(document_auc(scores, labels[1000:])) > 0.01 + np.nanmean(document_auc(linear, labels[1000:]))
    other = MomentMultiLabelClassifier(K).fit(*dependent)
    assert (other.state_share_, other.state_labels_) == (0.0, None)
