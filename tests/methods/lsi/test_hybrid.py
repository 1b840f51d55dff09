"""Hybrid LSI against the dense formula, and what it asks of weights and similarities."""

import dask.array as da
import numpy as np
import pytest
from scipy import sparse

from dspectral import HybridLSI, TruncatedSVD, VocabularySettings, build_store, term_similarity
from dspectral.methods.lsi import hybrid as module
from dspectral.methods.lsi import similarities
from dspectral.methods.lsi.similarities import as_similarity_matrix, eigenvalue_range, factor
from tests.strategies import zipf_counts

N, D, K = 60, 25, 4
RNG = np.random.default_rng(0)
ROWS = RNG.poisson(0.7, (N, D)).astype(float)
CLASSES = RNG.integers(4, size=N)
SAME = (CLASSES[:, None] == CLASSES[None, :]).astype(float)


def symmetric(n, seed, share=0.3):
    upper = np.triu(np.random.default_rng(seed).random((n, n)), 1)
    upper[upper > share] = 0
    return upper + upper.T


TERMS = symmetric(D, 1) / 3.0


@pytest.fixture(params=["gram", "krylov"])
def solver(request, monkeypatch):
    """The solver of narrow documents, and that of wide ones in its place."""
    monkeypatch.setattr(module, "SOLVER", request.param)
    return request.param


def off_diagonal(matrix):
    return matrix - np.diag(np.diag(matrix))


def dense(rows, k, similarity, alpha, terms, beta):
    """Equations 5 to 7, as they stand: singular values, and documents folded in."""
    documents = np.eye(len(rows)) + alpha * off_diagonal(similarity)
    lower = np.linalg.cholesky(np.eye(rows.shape[1]) + beta * off_diagonal(terms))
    _, s, v = np.linalg.svd(np.linalg.cholesky(documents).T @ rows @ lower)
    return s[:k], rows @ lower @ v[:k].T


def assert_equals_dense(hybrid, expected, rows=ROWS):
    s, folded = expected
    np.testing.assert_allclose(hybrid.singular_values_, s, rtol=1e-8)
    np.testing.assert_allclose(np.abs(hybrid.transform(rows)), np.abs(folded), atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_without_weights_it_is_lsi_to_the_bit(solver, dtype):
    rows = zipf_counts(200, 60, 10).astype(dtype)
    lsi = TruncatedSVD(5, solver=solver, random_state=3).fit(rows)
    hybrid = HybridLSI(5, alpha=0.0, random_state=3)
    hybrid.fit(rows, np.arange(200) % 3, term_similarity=np.zeros((60, 60)))
    np.testing.assert_array_equal(hybrid.components_, lsi.components_)
    np.testing.assert_array_equal(hybrid.singular_values_, lsi.singular_values_)
    np.testing.assert_array_equal(hybrid.transform(rows), lsi.transform(rows))
    assert hybrid.n_passes_ == lsi.n_passes_


@pytest.mark.usefixtures("solver")
def test_classes_and_terms_give_the_dense_formula():
    hybrid = HybridLSI(K, alpha=0.6, beta=0.5).fit(ROWS, CLASSES, term_similarity=TERMS)
    assert_equals_dense(hybrid, dense(ROWS, K, SAME, 0.6, TERMS, 0.5))


def test_both_factors_are_roots_of_the_same_matrix(monkeypatch):
    n = 80  # more than the vectors that ARPACK keeps
    terms = symmetric(n, 1, share=0.1) / 3.0
    similarity, exact = (
        as_similarity_matrix(terms, n),
        np.eye(n) + 0.5 * off_diagonal(terms),
    )
    ends = []
    for most in (n, 0):
        monkeypatch.setattr(similarities, "DENSE_COLUMNS", most)
        ends.append(eigenvalue_range(similarity))
        root = factor(similarity, 0.5, ends[-1])
        np.testing.assert_allclose(root.times(root.transpose_times(np.eye(n))), exact, atol=1e-8)
    np.testing.assert_allclose(*ends, rtol=1e-10)


def test_several_classes_are_alike_by_the_cosine_of_their_indicators():
    indicator = (np.random.default_rng(5).random((N, 5)) < 0.3).astype(float)
    indicator[:3] = 0
    sizes = np.linalg.norm(indicator, axis=1, keepdims=True)
    unit = np.divide(indicator, sizes, out=np.zeros_like(indicator), where=sizes > 0)
    expected = dense(ROWS, K, unit @ unit.T, 0.7, TERMS, 0.0)
    for y in (indicator, sparse.csr_matrix(indicator), da.from_array(indicator, chunks=(7, -1))):
        assert_equals_dense(HybridLSI(K, alpha=0.7).fit(ROWS, y), expected)


def test_indefinite_similarity_names_the_largest_weight():
    bad = np.zeros((D, D))
    bad[0, 1] = bad[1, 0] = 4.0
    with pytest.raises(ValueError, match=r"beta.*0.25.*0.25"):
        HybridLSI(2, beta=0.25).fit(ROWS, term_similarity=bad)
    actual = HybridLSI(2, beta=0.2499).fit(ROWS, term_similarity=bad)
    assert actual.admissible_beta_ == pytest.approx(0.25)


def test_defaults_are_half_the_admissible_weight_and_all_components():
    of_classes = HybridLSI().fit(ROWS, CLASSES)
    assert of_classes.alpha_ == 0.5
    assert of_classes.components_.shape == (D, D)
    np.testing.assert_array_equal(of_classes.components_, HybridLSI(D, alpha=0.5).fit(ROWS, CLASSES).components_)
    assert HybridLSI(2).fit(ROWS).alpha_ == 0.0
    assert len(HybridLSI().fit(ROWS[:7], CLASSES[:7]).components_) == 7
    wide = sparse.random_array((400, 350), density=0.1, rng=np.random.default_rng(0), format="csr")
    assert len(HybridLSI().fit(wide).components_) == 300


@pytest.mark.parametrize(
    ("settings", "data", "sentence"),
    [
        ({"alpha": 0.5}, {}, "alpha=0.5"),
        ({"beta": 0.5}, {}, "term_similarity"),
        ({"beta": 0.1}, {"term_similarity": np.eye(3)}, r"\(3, 3\).*\(25, 25\)"),
        ({}, {"term_similarity": np.triu(np.ones((D, D)))}, "term_similarity.*symmetric"),
        ({"alpha": 1.0}, {"y": CLASSES}, "alpha=1.0.*1"),
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
    with pytest.raises(ValueError, match="4 other terms"):
        HybridLSI(1, beta=0.5).fit(store, term_similarity=term_similarity(words, words, vectors))
    with pytest.raises(ValueError, match="4 terms"):
        term_similarity(store.vocabulary.terms, ["rot"], vectors[:1])


@pytest.mark.usefixtures("solver")
def test_folds_of_few_documents_are_padded_with_zeros_and_said_once():
    hybrid = HybridLSI(5, alpha=0.5, beta=0.3)
    with pytest.warns(UserWarning, match=r"n_components.*rank.*3") as messages:
        hybrid.fit(ROWS[:3], CLASSES[:3], term_similarity=TERMS)
    assert len(messages) == 1
    assert (hybrid.singular_values_ > 0).tolist() == [True] * 3 + [False] * 2
    assert not hybrid.components_[3:].any()
    assert hybrid.transform(ROWS).shape == (N, 5)
