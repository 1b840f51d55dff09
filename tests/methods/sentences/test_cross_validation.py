"""Support vector machines on the columns that occur."""

import numpy as np
from scipy import sparse
from sklearn.svm import LinearSVC

from dspectral.methods.sentences.cross_validation import fit_svm, scores_of_classes, scores_of_others


def rows_and_labels():
    rng = np.random.default_rng(3)
    rows = sparse.random_array((60, 4096), density=0.004, rng=rng, format="csr")
    return sparse.csr_array(rows), rng.choice(["a", "b", "c"], 60)


def usual(rows, labels):
    return LinearSVC(multi_class="crammer_singer", tol=0.01, max_iter=5000, random_state=1).fit(rows, labels)


def test_a_machine_of_the_columns_that_occur_has_the_bits_of_one_of_all():
    rows, labels = rows_and_labels()
    ours, theirs = fit_svm(rows, labels, 1.0, 1), usual(rows, labels)
    assert ours.n_features_in_ == 4096
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)
    np.testing.assert_array_equal(ours.intercept_, theirs.intercept_)
    np.testing.assert_array_equal(ours.decision_function(rows), theirs.decision_function(rows))


def test_scores_of_rows_held_out_do_not_change_with_the_columns_that_they_alone_have():
    rows, labels = rows_and_labels()
    train, test = np.arange(40), np.arange(40, 60)
    assert not set(rows[test].indices) <= set(rows[train].indices)
    found = scores_of_others(rows, labels, 1.0, 1, (train, test))
    theirs = usual(rows[train], labels[train])
    np.testing.assert_allclose(
        found, scores_of_classes(theirs, rows[test], np.unique(labels)), rtol=1e-12, atol=1e-14
    )


def test_the_machine_sees_no_column_without_an_entry(monkeypatch):
    widths = []
    fit = LinearSVC.fit
    monkeypatch.setattr(
        LinearSVC, "fit", lambda self, rows, *more: widths.append(rows.shape[1]) or fit(self, rows, *more)
    )
    rows, labels = rows_and_labels()
    fit_svm(rows, labels, 1.0, 1)
    assert widths == [len(np.unique(rows.indices))]
