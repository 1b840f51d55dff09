import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dspectral import (
    HybridLSI,
    LocalLSI,
    VocabularySettings,
    build_store,
    term_similarity,
)
from dspectral.methods.lsi import hybrid as module
from dspectral.methods.lsi.similarities import root_series
from tests.methods.lsi.hybrid_rows import CLASSES, ROWS, TERMS, D, K, N


@pytest.mark.parametrize("alpha", [-0.1, 1.0])
def test_alpha_out_of_range_names_the_largest_admissible(alpha):
    with pytest.raises(ValueError, match=r"alpha is .*, but K, of class similarities, .* just under 1"):
        HybridLSI(2, alpha=alpha).fit(ROWS, CLASSES)


def test_a_similarity_that_leaves_positive_definiteness_names_the_largest_weight():
    bad = np.zeros((N, N))
    bad[0, 1] = bad[1, 0] = 4.0
    with pytest.raises(ValueError, match=r"alpha is 0.3, .* admissible alpha is just under 0.25"):
        HybridLSI(2, alpha=0.3).fit(ROWS, document_similarity=bad)
    with pytest.raises(ValueError, match=r"beta is 0.25, .* admissible beta is just under 0.25"):
        HybridLSI(2, beta=0.25).fit(ROWS, term_similarity=bad[:D, :D])
    found = HybridLSI(2, beta=0.2499).fit(ROWS, term_similarity=bad[:D, :D])
    assert found.admissible_beta_ == pytest.approx(0.25)
    with pytest.raises(ValueError, match="too far for a polynomial"):
        root_series(sparse.eye_array(3, format="csr"), 1e-9, 2.0)


def test_by_itself_it_takes_half_of_the_admissible_weight_and_as_many_components_as_there_can_be():
    of_classes = HybridLSI().fit(ROWS, CLASSES)
    assert of_classes.alpha_ == 0.5
    assert of_classes.components_.shape == (D, D)
    np.testing.assert_array_equal(
        of_classes.components_, HybridLSI(D, alpha=0.5).fit(ROWS, CLASSES).components_
    )
    strong = np.zeros((N, N))
    strong[0, 1] = strong[1, 0] = 4.0
    assert HybridLSI(2).fit(ROWS, document_similarity=strong).alpha_ == pytest.approx(0.125)
    assert HybridLSI(2).fit(ROWS).alpha_ == 0.0
    assert len(HybridLSI().fit(ROWS[:7], CLASSES[:7]).components_) == 7
    wide = sparse.random_array((400, 350), density=0.1, rng=np.random.default_rng(0), format="csr")
    assert len(HybridLSI().fit(wide).components_) == 300


@pytest.mark.parametrize(
    ("settings", "data", "sentence"),
    [
        ({"alpha": 0.5}, {}, "nothing says which documents are alike"),
        ({"alpha": np.nan}, {}, "alpha is nan, but it must be a finite number"),
        ({"beta": 0.5}, {}, "no term_similarity"),
        ({"beta": 0.1}, {"term_similarity": np.eye(3)}, "there are 25 terms: it must be 25 x 25"),
        ({"alpha": 0.1}, {"document_similarity": np.eye(3)}, "there are 60 documents"),
        ({}, {"term_similarity": np.triu(np.ones((D, D)))}, "term_similarity is not symmetric"),
        ({}, {"term_similarity": np.full((D, D), np.nan)}, "NaN or infinity"),
        ({"alpha": 0.1}, {"y": CLASSES[:9]}, "classes for 9 documents, but X has 60"),
        ({"alpha": 0.1}, {"y": [None] * N}, "no document has a class"),
        ({"n_components": 26}, {}, "n_components is 26"),
        ({"alpha": 1.5}, {"y": CLASSES}, "alpha is 1.5"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(settings, data, sentence):
    with pytest.raises(ValueError, match=sentence):
        HybridLSI(**{"n_components": 2, **settings}).fit(ROWS, **data)


def test_similarity_for_other_terms_than_the_vocabulary_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("red cat\nblue cat\nred dog\n")
    store = build_store(str(tmp_path / "a.txt"), str(tmp_path / "a.zarr"), vocabulary=VocabularySettings())
    vectors = np.array([[1.0, 0.1], [0.9, 0.2], [0.1, 1.0], [0.2, 0.8]])
    words = ["red", "blue", "cat", "dog"]
    right = term_similarity(store.vocabulary.terms, words, vectors)
    hybrid = HybridLSI(1, beta=0.5).fit(store, term_similarity=right)
    assert hybrid.components_.shape == (1, 4)
    with pytest.raises(ValueError, match=r"is for 4 other terms than the 4 .* column 0"):
        HybridLSI(1, beta=0.5).fit(store, term_similarity=term_similarity(words, words, vectors))
    with pytest.raises(ValueError, match="none of the 4 terms has a vector"):
        term_similarity(store.vocabulary.terms, ["rot"], vectors[:1])


def test_similarities_reach_it_through_pipelines_by_name_and_by_routing():
    expected = HybridLSI(K, beta=0.3).fit(ROWS, term_similarity=TERMS).transform(ROWS)
    plain = make_pipeline(HybridLSI(K, beta=0.3), StandardScaler(with_mean=False, with_std=False))
    found = plain.fit_transform(ROWS, hybridlsi__term_similarity=TERMS)
    np.testing.assert_array_equal(found, expected)
    with config_context(enable_metadata_routing=True):
        hybrid = HybridLSI(K, beta=0.3).set_fit_request(term_similarity=True)
        routed = make_pipeline(hybrid, StandardScaler(with_mean=False, with_std=False))
        np.testing.assert_array_equal(routed.fit_transform(ROWS, term_similarity=TERMS), expected)


@pytest.mark.parametrize("solver", ["gram", "krylov"])
def test_folds_of_few_documents_are_padded_with_zeros_and_said_once(solver, monkeypatch):
    monkeypatch.setattr(module, "SOLVER", solver)
    hybrid = HybridLSI(5, alpha=0.5, beta=0.3)
    with pytest.warns(UserWarning, match="have only 3 independent") as told:
        hybrid.fit(ROWS[:3], CLASSES[:3], term_similarity=TERMS)
    assert len(told) == 1
    assert (hybrid.singular_values_ > 0).tolist() == [True] * 3 + [False] * 2
    assert not hybrid.components_[3:].any()
    assert hybrid.transform(ROWS).shape == (N, 5)


@pytest.mark.parametrize("make", [HybridLSI, LocalLSI])
def test_lazy_documents_stay_lazy_whatever_output_is_set(make):
    lazy = da.from_array(ROWS, chunks=(20, -1))
    model = make(2).set_output(transform="pandas").fit(lazy, CLASSES)
    assert isinstance(model.transform(lazy), da.Array)
    assert type(model.transform(ROWS)).__name__ == "DataFrame"
