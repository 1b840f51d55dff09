"""Directions of the linear correction: words that go with labels, and the words that these lead to."""

import numpy as np
import pytest
from scipy import sparse

from dspectral import MomentMultiLabelClassifier
from dspectral.datasets import sample_labelled_documents
from dspectral.methods.multilabel.document_rows import unit_rows, word_rows
from dspectral.methods.multilabel.leading_directions import directions_of, wider_directions
from dspectral.methods.multilabel.moments import label_range
from dspectral.methods.multilabel.second_moments import reached_from

N_WORDS, N_LABELS = 50, 6


@pytest.fixture(scope="module")
def documents():
    words, labels, _ = sample_labelled_documents(400, n_words=N_WORDS, n_labels=N_LABELS, n_states=8, seed=4)
    return word_rows(words, counts=False, dtype=np.float64), sparse.csr_array(labels)


def test_what_a_linear_model_leaves_of_the_labels_has_its_gradient_among_the_directions(documents):
    words, labels = documents
    weights = np.ones(
        N_WORDS
    )  # with others, directions of labels are those of rows of nearly the same length
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
