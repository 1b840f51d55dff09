"""What is made once for all candidates gives what each candidate would make for itself."""

import numpy as np
import pytest
from scipy import sparse

from dspectral.datasets import sample_labelled_documents
from dspectral.linalg.tensors import unfolded_symmetric
from dspectral.methods.multilabel.document_rows import lengths_of, linear_features, unit_rows, word_rows
from dspectral.methods.multilabel.held_out import HeldOutScores
from dspectral.methods.multilabel.latent_states import Simplex, smoothed_logarithms
from dspectral.methods.multilabel.moments import ThirdMoment
from dspectral.methods.multilabel.passes import linear_correction
from dspectral.methods.multilabel.ranking import LabelScorer
from dspectral.methods.multilabel.state_statistics import LabelModel, StateStatistics
from dspectral.text.weighting import Weighting

N_WORDS, N_LABELS, K, RANK = 30, 9, 4, 5


@pytest.fixture(scope="module")
def documents():
    words, labels, _ = sample_labelled_documents(120, n_words=N_WORDS, n_labels=N_LABELS, n_states=K, seed=2)
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
        linear = linear_correction(model, alpha) if alpha else None
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


def test_lengths_are_sums_of_counts_or_numbers_of_words():
    rows = sparse.csr_array([[2.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
    assert lengths_of(rows, counts=True).tolist() == [5.0, 0.0]
    assert lengths_of(word_rows(rows, counts=False), counts=False).tolist() == [2.0, 0.0]


def test_a_third_moment_of_single_words_is_that_of_double_ones_up_to_their_rounding():
    # More rows than are multiplied at a time: sums over these pieces are in double precision.
    rng = np.random.default_rng(4)
    rows, W = sparse.csr_array(rng.random((3000, 8)) < 0.4), rng.standard_normal((8, 3))
    wide = ThirdMoment.of(rows.astype(np.float64), whitening=W, counts=False, distinct=False)
    narrow = ThirdMoment.of(
        rows.astype(np.float32), whitening=W.astype(np.float32), counts=False, distinct=False
    )
    T = unfolded_symmetric(wide.third)
    assert narrow.third.dtype == np.float64
    np.testing.assert_allclose(unfolded_symmetric(narrow.third), T, atol=3e-6 * np.abs(T).max())


def test_logarithms_leave_the_distributions_as_they_are():
    columns = np.random.default_rng(5).dirichlet(np.ones(6), size=2).T
    before, background = columns.copy(), np.arange(6.0)
    found = smoothed_logarithms(columns, background, 0.3)
    np.testing.assert_array_equal(columns, before)
    np.testing.assert_allclose(found, np.log(0.7 * columns + 0.3 * background[:, None] / 15.0))
