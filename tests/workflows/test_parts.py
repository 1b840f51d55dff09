"""Words of labelled texts, their forms and vectors, and least squares as a classifier."""

import numpy as np
import pytest
from sklearn.preprocessing import normalize

from workflows import tmpca_classification
from workflows._parts import text_classifiers
from workflows._parts.labeled_texts import content, gram_form, words_of
from workflows._parts.text_classifiers import (
    INNER_FOLDS,
    PENALTIES,
    Average,
    LeastSquares,
    Settings,
    concatenated,
)


def test_words_stop_words_and_forms():
    assert words_of("He wo n't, they 're") == ["he", "won't", ",", "they're"]
    assert words_of("at 10:30", zero_digits=True) == ["at", "00", ":", "00"]
    said = [["this", "is", "not", "good", "."]]
    assert content(said, "none") == said
    assert content(said, "english") == [["good"]]
    assert content(said, "weak") == [["not", "good"]]
    assert gram_form(list("abcd"), 3) == list("abcbcd")
    assert gram_form(list("ab"), 4) == ["a", "b"]


def test_the_mean_vector_is_that_of_the_tokens_that_have_one():
    matrix = np.array([[1.0, 0.0], [0.0, 3.0]], dtype=np.float32)
    texts = [["good", "bad", "odd"], ["good"], []]
    found = tmpca_classification.mean_vector(["good", "bad"], matrix, texts)
    np.testing.assert_allclose(found, [2 / 3, 1.0])
    np.testing.assert_array_equal(tmpca_classification.mean_vector(["good", "bad"], matrix, []), [0, 0])


def test_averages_and_concatenations_are_of_the_words_that_have_a_vector():
    vectors = (["good", "bad"], np.array([[1.0, 0.0], [0.0, 2.0]], dtype=np.float32))
    settings = Settings(vectors, 2, 3, "weak", 0)
    texts = [["the", "good", "bad"], [], ["bad", "bad", "unknown", "good"]]
    np.testing.assert_allclose(Average(settings).transform(texts), [[0.5, 1.0], [0, 0], [0.25, 1.0]])
    expected = [[1, 0, 0, 2, 0, 0], [0] * 6, [0, 2, 0, 2, 0, 0]]
    np.testing.assert_array_equal(concatenated(texts, settings), expected)


def labelled(n, d, seed):
    """Three labels, told by the first two features."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    labels = np.array(["a", "b", "c"])[np.argmax(X[:, [0, 1, 2]], axis=1)]
    return X, labels


def test_rows_are_scaled_to_unit_length_and_features_to_unit_variance():
    X, labels = labelled(60, 5, 0)
    before = X.copy()
    machine = LeastSquares(0).fit(X, labels)
    np.testing.assert_array_equal(X, before)
    unit = normalize(X)
    A = (unit - unit.mean(axis=0)) / unit.std(axis=0)
    Y = np.where(labels[:, None] == ["a", "b", "c"], 1.0, -1.0)
    W = np.linalg.inv(A.T @ A + machine.penalty * A.size * np.eye(5)) @ A.T @ (Y - Y.mean(axis=0))
    Z, _ = labelled(30, 5, 1)
    scores = (normalize(Z) - unit.mean(axis=0)) / unit.std(axis=0) @ W + Y.mean(axis=0)
    np.testing.assert_array_equal(machine.predict(Z), np.array(["a", "b", "c"])[scores.argmax(axis=1)])


def test_a_second_degree_tells_labels_by_products_of_features():
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((2, 300, 3))
    labels, theirs = (np.where(rows[:, 0] * rows[:, 1] > 0, "same", "other") for rows in (X, Z))
    plain = LeastSquares(0).fit(X, labels)
    machine = LeastSquares(0, degree=2).fit(X, labels)
    assert np.mean(plain.predict(Z) != theirs) > 0.3
    assert np.mean(machine.predict(Z) != theirs) < 0.1
    assert machine.inner_error < 0.1 < plain.inner_error


@pytest.mark.parametrize("n_labels", [2, 12])
def test_the_number_of_factorizations_and_their_size_do_not_grow_with_the_labels(n_labels, monkeypatch):
    sizes = []

    def counted(matrix, **options):
        sizes.append(len(matrix))
        return cho_factor(matrix, **options)

    cho_factor = text_classifiers.cho_factor
    monkeypatch.setattr(text_classifiers, "cho_factor", counted)
    X = np.random.default_rng(0).standard_normal((120, 300))
    LeastSquares(0).fit(X, np.arange(120) % n_labels)
    assert sizes == [80] * (INNER_FOLDS * len(PENALTIES)) + [120]
