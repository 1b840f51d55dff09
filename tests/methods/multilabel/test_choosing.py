"""What is chosen on documents held out, and the linear correction that is made once for all candidates."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from dspectral import MomentMultiLabelClassifier
from dspectral.datasets import sample_labelled_documents
from dspectral.methods.multilabel import MultiLabelRecipe
from dspectral.methods.multilabel.classifier import add_gains, first_of_the_best, held_out_scores
from dspectral.methods.multilabel.documents import DocumentSample, SampleBounds, unit_rows, word_rows
from dspectral.methods.multilabel.latent_states import LabelModel, Simplex, residual_regression
from dspectral.methods.multilabel.passes import wider_directions
from dspectral.methods.multilabel.prediction import LabelScorer
from dspectral.methods.multilabel.summaries import StateStatistics, label_range
from dspectral.metrics import document_auc, precision_at
from dspectral.text.weighting import Weighting

K = 4
CHOSEN = ("n_states_", "smoothing_", "n_em_iter_", "alpha_", "n_held_out_")


@pytest.fixture(scope="module")
def dependent():
    """Words that come three at a time, so that a state's posterior is far too sure of itself, as on real text."""
    words, labels, _ = sample_labelled_documents(
        1200, n_words=60, n_labels=15, n_states=8, length=12.0, seed=3
    )
    return sparse.csr_array(sparse.hstack([words] * 3, format="csr")), labels


def facts(model):
    return {name: getattr(model, name) for name in CHOSEN}


def sampled(words, labels, order, borders, bounds):
    words, labels = words[order], labels[order]
    parts = [DocumentSample.of(words[a:b], labels[a:b], bounds=bounds) for a, b in pairwise(borders)]
    return parts[0].merge(*parts[1:])


def test_the_sample_is_the_same_in_every_order_and_whatever_the_cuts_and_counts(dependent):
    _, different = np.unique(dependent[0].toarray() > 0, axis=0, return_index=True)
    words, labels = (part[different] for part in dependent)
    n = len(different)
    bounds = SampleBounds(100, 2500, 0.5)
    expected = sampled(words, labels, np.arange(n), [0, n], bounds)
    found = sampled(2 * words, labels, np.random.default_rng(0).permutation(n), [0, 7, 7, 500, n], bounds)
    assert 20 < len(expected.hashes) <= 100
    assert expected.words.nnz + expected.labels.nnz <= 2500
    np.testing.assert_array_equal(found.hashes, expected.hashes)
    np.testing.assert_array_equal(found.words.toarray(), 2 * expected.words.toarray())
    np.testing.assert_array_equal(found.labels.toarray(), expected.labels.toarray())


def test_copies_of_a_document_are_in_one_quarter_and_the_quarters_hold_all(dependent):
    words, labels = (sparse.csr_array(sparse.vstack([part, part], format="csr")) for part in dependent)
    sample = DocumentSample.of(words, labels, bounds=SampleBounds(2400, 1 << 20, 1.0))
    quarters = sample.quarters()
    assert np.sum(quarters, axis=0).tolist() == [1] * 2400
    assert all(400 < quarter.sum() < 800 for quarter in quarters)
    for quarter in quarters:
        assert not set(sample.hashes[quarter]) & set(sample.hashes[~quarter])
    assert len(set(sample.hashes)) == len(np.unique((words.toarray() > 0), axis=0))


def test_the_default_is_near_the_best_of_a_grid_and_far_from_the_worst():
    words, labels, _ = sample_labelled_documents(
        1200, n_words=60, n_labels=60, n_states=20, length=12.0, seed=3
    )
    train, test = np.arange(900), np.arange(900, 1200)

    def reached(model):
        scores = model.fit(words[train], labels[train]).decision_function(words[test])
        area, first = document_auc(scores, labels[test]), precision_at(scores, labels[test], 1)
        return np.nanmean(area) + np.nanmean(first)

    grid = [
        reached(
            MomentMultiLabelClassifier(
                8, smoothing=smoothing, n_em_iter=0, recipe=MultiLabelRecipe(alpha=alpha)
            )
        )
        for smoothing in (0.01, 0.9)
        for alpha in (0.001, 0.1, 1.0)
    ]
    assert reached(MomentMultiLabelClassifier(8)) > 0.97 * max(grid)
    assert min(grid) < 0.9 * max(grid)


def test_what_is_given_is_kept_and_then_nothing_is_held_out(dependent):
    model = MomentMultiLabelClassifier(
        K, smoothing=0.2, n_em_iter=1, recipe=MultiLabelRecipe(alpha=0.05)
    ).fit(*dependent)
    assert facts(model) == {
        "n_states_": K,
        "smoothing_": 0.2,
        "n_em_iter_": 1,
        "alpha_": 0.05,
        "n_held_out_": 0,
    }
    published = MomentMultiLabelClassifier.as_published(K).fit(*dependent)
    assert (published.alpha_, published.n_held_out_, published.n_passes_) == (None, 0, 3)
    half = MomentMultiLabelClassifier(K, smoothing=0.2).fit(*dependent)
    assert half.smoothing_ == 0.2
    assert half.n_held_out_ > 1000


def test_few_documents_get_the_settings_that_win_elsewhere(dependent):
    words, labels = (part[:40] for part in dependent)
    model = MomentMultiLabelClassifier().fit(words, labels)
    assert 1 < model.n_states_ <= 40
    assert (model.smoothing_, model.n_em_iter_, model.alpha_, model.n_held_out_) == (0.9, 0, 0.01, 0)
    scores = MomentMultiLabelClassifier().fit(words[:2], labels[:2]).decision_function(words[:2])
    assert np.isfinite(scores).all()


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
    gains[1] += rng.standard_normal(400)
    gains[1] += 0.5 / 20 - np.mean(gains[1] - gains[0])  # half a standard error better
    assert first_of_the_best(gains) == 0
    gains[2] += 0.1 + 0.01 * rng.standard_normal(400)
    assert first_of_the_best(gains) == 2


N_WORDS, N_LABELS, RANK = 50, 6, 5


@pytest.fixture(scope="module")
def documents():
    words, labels, _ = sample_labelled_documents(400, n_words=N_WORDS, n_labels=N_LABELS, n_states=8, seed=4)
    return word_rows(words, counts=False, dtype=np.float64), sparse.csr_array(labels)


def parts(rng):
    """Parameters of a model that nobody fitted."""
    words, labels = (rng.dirichlet(np.ones(size), size=K).T for size in (N_WORDS, N_LABELS))
    directions = np.linalg.qr(rng.standard_normal((N_WORDS, RANK)))[0]
    return words, labels, rng.dirichlet(np.ones(K)), directions, 1.0 + rng.random(N_WORDS)


def test_scores_for_a_penalty_are_those_of_the_fitted_classifier_with_it(documents):
    words, labels = documents
    mu, gamma, pi, directions, weights = parts(np.random.default_rng(0))
    given = {"log_words": np.log(mu), "log_weights": np.log(pi), "directions": directions}
    sums = StateStatistics.of(words, labels, column_weights=weights, counts=False, **given).regression
    model = LabelModel(np.log(mu), pi, Simplex(mu, 0, 0.0), Simplex(gamma, 0, 0.0), sums, 0.0)
    held_out = words[:40]
    features = np.column_stack([unit_rows(held_out, weights) @ directions, np.ones(40)])
    for alpha in (0.001, 0.1, None):
        linear = residual_regression(sums, gamma, alpha) if alpha else None
        scorer = LabelScorer(np.log(mu), np.log(pi), gamma, weights, directions, linear, counts=False)
        found = held_out_scores(model, scorer.states(held_out), features, alpha)
        np.testing.assert_allclose(found, scorer.scores(held_out), atol=1e-10)


def test_rows_of_weights_have_length_one_whatever_the_counts_are_and_empty_ones_stay():
    rng = np.random.default_rng(3)
    counts = sparse.csr_array(rng.poisson(0.3, size=(50, N_WORDS)).astype(float))
    weights = rng.random(N_WORDS)
    weights[3] = 0.0
    expected = Weighting("binary", weights, norm="l2").apply(counts)
    np.testing.assert_allclose(unit_rows(counts, weights).toarray(), expected.toarray(), rtol=1e-12)
    alone = sparse.csr_array(np.eye(N_WORDS)[[3, 4]])
    np.testing.assert_allclose(
        unit_rows(alone, weights).toarray()[:, 3:5], [[0.0, 0.0], [0.0, 1.0]], rtol=1e-15
    )


def test_what_a_linear_model_leaves_of_the_labels_has_its_gradient_among_the_directions(documents):
    words, labels = documents
    weights = np.ones(N_WORDS)  # others make directions of labels those of rows of nearly the same length
    first = np.linalg.qr(label_range(words, labels, N_LABELS, seed=0).astype(np.float64))[0]
    rows = unit_rows(words, weights)
    both = wider_directions(first, rows.T @ (rows @ first))
    np.testing.assert_allclose(both.T @ both, np.eye(2 * N_LABELS), atol=1e-5)
    features = rows @ first
    left = labels - features @ np.linalg.solve(features.T @ features + np.eye(N_LABELS), features.T @ labels)
    gradient = rows.T @ left
    outside = gradient - both @ (both.T @ gradient)
    assert np.linalg.norm(outside) < 1e-4 * np.linalg.norm(gradient)
    assert np.linalg.norm(gradient - first @ (first.T @ gradient)) > 0.1 * np.linalg.norm(gradient)


def test_directions_that_hold_all_words_get_none_of_rounding_beside_them(documents):
    words, _ = documents
    every = np.linalg.qr(np.random.default_rng(0).standard_normal((N_WORDS, N_WORDS)))[0].astype(np.float32)
    rows = unit_rows(words, np.ones(N_WORDS)).astype(np.float32)
    reached = rows.T @ (rows @ every)
    np.testing.assert_array_equal(wider_directions(every, reached), every)


def test_a_rank_gives_twice_as_many_directions_and_none_gives_none(documents):
    words, labels = documents
    for rank, expected in ((0, 0), (2, 4), (N_LABELS, 2 * N_LABELS), (N_WORDS, 2 * N_LABELS)):
        model = MomentMultiLabelClassifier(3, smoothing=0.5, n_em_iter=0, correction_rank=rank)
        assert model.fit(words, labels).directions_.shape == (N_WORDS, expected)
