"""What is left to the classifier is chosen on documents held out, the same however the documents lie."""

from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
from scipy import sparse

from dspectral import MomentMultiLabelClassifier, write_counts
from dspectral.datasets import sample_labelled_documents
from dspectral.methods.multilabel import MultiLabelRecipe
from dspectral.methods.multilabel.choosing import first_of_the_best, gains_of
from dspectral.methods.multilabel.document_sample import DocumentSample, SampleBounds, hashes_of
from dspectral.metrics import document_auc, precision_at

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
    _, different = np.unique(hashes_of(dependent[0]), return_index=True)
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
    assert len(set(hashes_of(words))) == len(np.unique((words.toarray() > 0), axis=0))


def test_what_is_chosen_does_not_depend_on_how_the_documents_lie(dependent, tmp_path):
    words, labels = dependent
    expected = MomentMultiLabelClassifier(K).fit(words, labels)
    assert expected.n_held_out_ == np.sum(np.diff(labels.indptr) > 0)
    lazy = da.from_array(words.toarray(), chunks=(170, -1)).map_blocks(sparse.csr_array)
    store = write_counts(words, str(tmp_path / "a.zarr"), labels=labels, block_rows=230)
    for X, y in ((words.toarray(), labels.toarray()), (lazy, labels), (store, None)):
        assert facts(MomentMultiLabelClassifier(K).fit(X, y)) == pytest.approx(facts(expected))


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
    np.testing.assert_allclose(gains_of(scores, sparse.csr_array(truth.astype(float))), expected)


def test_a_candidate_must_win_by_more_than_chance():
    rng = np.random.default_rng(0)
    gains = np.repeat(rng.random((1, 400)), 3, axis=0)
    gains[1] += rng.standard_normal(400)
    gains[1] += 0.5 / 20 - np.mean(gains[1] - gains[0])  # half a standard error better
    assert first_of_the_best(gains) == 0
    gains[2] += 0.1 + 0.01 * rng.standard_normal(400)
    assert first_of_the_best(gains) == 2
