"""Directions and scores of the linear correction, which are made once for all candidates."""

import numpy as np
import pytest
from scipy import sparse

from dspectral import MomentMultiLabelClassifier
from dspectral.datasets import sample_labelled_documents
from dspectral.methods.multilabel.choosing import HeldOutScores
from dspectral.methods.multilabel.document_rows import linear_features, unit_rows, word_rows
from dspectral.methods.multilabel.latent_states import Simplex, residual_regression
from dspectral.methods.multilabel.moments import label_range, reached_from
from dspectral.methods.multilabel.passes import directions_of, wider_directions
from dspectral.methods.multilabel.ranking import LabelScorer
from dspectral.methods.multilabel.state_statistics import LabelModel, StateStatistics
from dspectral.text.weighting import Weighting

N_WORDS, N_LABELS, K, RANK = 50, 6, 4, 5


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
    found = HeldOutScores.of(model, held_out, linear_features(held_out, weights, directions))
    for alpha in (0.001, 0.1, None):
        linear = residual_regression(*sums, gamma, alpha) if alpha else None
        scorer = LabelScorer(np.log(mu), np.log(pi), gamma, weights, directions, linear, counts=False)
        np.testing.assert_allclose(found.with_penalty(alpha), scorer.scores(held_out), atol=1e-10)


def test_features_that_are_known_are_not_made_again_and_change_nothing(documents):
    words, labels = documents
    mu, _, pi, directions, weights = parts(np.random.default_rng(1))
    given = {"log_words": np.log(mu), "log_weights": np.log(pi), "column_weights": weights, "counts": False}
    made = StateStatistics.of(words, labels, directions=directions, **given)
    features = linear_features(words, weights, directions)
    # Directions that would give other features are not looked at.
    known = StateStatistics.of(words, labels, directions=0.0 * directions, features=features, **given)
    for ours, expected in zip(known.regression, made.regression, strict=True):
        np.testing.assert_array_equal(ours, expected)


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
    first = directions_of(label_range(words, labels, N_LABELS, seed=0), weights, np.float64)
    both = wider_directions(first, reached_from(words, weights, first))
    np.testing.assert_allclose(both.T @ both, np.eye(2 * N_LABELS), atol=1e-5)
    rows = unit_rows(words, weights)
    features = rows @ first
    left = labels - features @ np.linalg.solve(features.T @ features + np.eye(N_LABELS), features.T @ labels)
    gradient = rows.T @ left
    outside = gradient - both @ (both.T @ gradient)
    assert np.linalg.norm(outside) < 1e-4 * np.linalg.norm(gradient)
    assert np.linalg.norm(gradient - first @ (first.T @ gradient)) > 0.1 * np.linalg.norm(gradient)


def test_directions_that_hold_all_words_get_none_of_rounding_beside_them(documents):
    words, _ = documents
    every = np.linalg.qr(np.random.default_rng(0).standard_normal((N_WORDS, N_WORDS)))[0].astype(np.float32)
    reached = reached_from(words, np.ones(N_WORDS), every)
    np.testing.assert_array_equal(wider_directions(every, reached), every)


def test_a_rank_gives_twice_as_many_directions_and_none_gives_none(documents):
    words, labels = documents
    for rank, expected in ((0, 0), (2, 4), (N_LABELS, 2 * N_LABELS), (N_WORDS, 2 * N_LABELS)):
        model = MomentMultiLabelClassifier(3, smoothing=0.5, n_em_iter=0, correction_rank=rank)
        assert model.fit(words, labels).directions_.shape == (N_WORDS, expected)
