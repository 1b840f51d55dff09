"""Least squares as a classifier: against a transcription, and how much it computes."""

import numpy as np
import pytest
from sklearn.preprocessing import normalize

from workflows._parts import text_classifiers
from workflows._parts.text_classifiers import INNER_FOLDS, PENALTIES, LeastSquares


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
