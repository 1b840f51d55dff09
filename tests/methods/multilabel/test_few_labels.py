"""Probabilities of one label or few, which are no shares of a row."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, f1_score, roc_auc_score

from dspectral import MomentMultiLabelClassifier
from dspectral.methods.multilabel.held_out import MAX_CALIBRATED_LABELS


def documents(n_labels, n=700, seed=3, rate=0.25):
    """Words of which each label has five of its own, and labels that are drawn one by one."""
    rng = np.random.default_rng(seed)
    y = (rng.random((n, n_labels)) < rate).astype(int)
    X = rng.poisson(0.3, (n, 5 * n_labels + 20)).astype(float)
    X[:, : 5 * n_labels] += rng.poisson(0.6, (n, 5 * n_labels)) * np.repeat(y, 5, axis=1)
    return X[: n // 2], y[: n // 2], X[n // 2 :], y[n // 2 :]


@pytest.mark.parametrize("n_labels", [1, 2, 3, MAX_CALIBRATED_LABELS])
def test_each_of_few_labels_has_a_probability_of_its_own(n_labels):
    X, y, new, truth = documents(n_labels)
    model = MomentMultiLabelClassifier().fit(X, y)
    actual = model.predict_proba(new)
    assert actual.shape == truth.shape
    for label in range(n_labels):
        reference = LogisticRegression().fit(X, y[:, label]).predict_proba(new)[:, 1]
        assert roc_auc_score(truth[:, label], actual[:, label]) > roc_auc_score(truth[:, label], reference) - 0.1
        assert brier_score_loss(truth[:, label], actual[:, label]) < 0.9 * truth[:, label].var()
        order = np.argsort(model.decision_function(new)[:, label])
        assert (np.diff(actual[order, label]) >= 0).all()
    assert abs(actual.mean() - truth.mean()) < 0.04
    assert np.ptp(actual.sum(axis=1)) > 0.1
    assert f1_score(truth, model.predict(new), average="micro") > f1_score(truth, actual > 0.5, average="micro")


def test_classes_that_exclude_each_other_are_predicted_one_a_document():
    X, y, new, truth = documents(3, rate=0.6)
    y, truth = (np.eye(3, dtype=int)[(one * [3, 2, 1]).argmax(axis=1)] for one in (y, truth))
    model = MomentMultiLabelClassifier().fit(X, y)
    assert model.labels_each_ == 1
    assert (model.predict(new).sum(axis=1) == 1).all()
    assert model.score(new, truth) > 0.5


@pytest.mark.parametrize("constant", [0, 1])
def test_label_of_no_or_each_document_is_predicted_for_none_or_each(constant):
    X, y, new, _ = documents(2)
    y[:, 1] = constant
    assert (MomentMultiLabelClassifier().fit(X, y).predict(new)[:, 1] == constant).all()


def test_one_label_that_states_alone_would_score_is_refused():
    X, y, *_ = documents(1)
    with pytest.raises(ValueError, match=r"1 label.*correction_rank=0.*2"):
        MomentMultiLabelClassifier.as_published(3).fit(X, y)
