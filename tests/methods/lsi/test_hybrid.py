import dask
import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from dspectral import HybridLSI, TruncatedSVD, VocabularySettings, build_store, load, save, term_similarity
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
@pytest.mark.parametrize("solver", ["auto", "gram", "krylov", "nystrom"])
def test_without_weights_it_is_lsi_to_the_bit(solver, dtype):
    rows = zipf_counts(200, 60, 10).astype(dtype)
    lsi = TruncatedSVD(5, solver=solver, random_state=3).fit(rows)
    hybrid = HybridLSI(5, solver=solver, random_state=3, term_similarity=np.zeros((60, 60)))
    hybrid.fit(rows, np.arange(200) % 3)
    np.testing.assert_array_equal(hybrid.components_, lsi.components_)
    np.testing.assert_array_equal(hybrid.singular_values_, lsi.singular_values_)
    np.testing.assert_array_equal(hybrid.transform(rows), lsi.transform(rows))
    assert hybrid.n_passes_ == lsi.n_passes_


@pytest.mark.parametrize("factor", ["dense", "sparse", "polynomial"])
@pytest.mark.parametrize("solver", ["gram", "krylov"])
def test_classes_and_terms_give_the_dense_formula_whatever_the_factor(factor, solver):
    hybrid = HybridLSI(K, alpha=0.6, beta=0.5, term_similarity=TERMS, factor=factor, solver=solver)
    assert_equals_dense(hybrid.fit(ROWS, CLASSES), dense(ROWS, K, SAME, 0.6, TERMS, 0.5))


@pytest.mark.parametrize("beta", [0.0, 0.4])
def test_any_similarity_of_documents_gives_the_dense_formula(beta):
    similarity = symmetric(N, 2, share=0.1)
    terms = TERMS if beta else None
    hybrid = HybridLSI(
        K, document_similarity=sparse.csr_array(similarity), alpha=0.1, term_similarity=terms, beta=beta
    )
    assert_equals_dense(hybrid.fit(ROWS), dense(ROWS, K, similarity, 0.1, TERMS, beta))
    assert hybrid.solver_ == "krylov"
    assert hybrid.n_passes_ == 10


def test_several_classes_are_alike_by_the_cosine_of_their_indicators():
    indicator = (RNG.random((N, 5)) < 0.3).astype(float)
    indicator[:3] = 0
    sizes = np.linalg.norm(indicator, axis=1, keepdims=True)
    unit = np.divide(indicator, sizes, out=np.zeros_like(indicator), where=sizes > 0)
    expected = dense(ROWS, K, unit @ unit.T, 0.7, TERMS, 0.0)
    for y in (indicator, sparse.csr_matrix(indicator), da.from_array(indicator, chunks=(7, -1))):
        assert_equals_dense(HybridLSI(K, alpha=0.7).fit(ROWS, y), expected)


def test_a_document_without_a_class_is_similar_to_none():
    labels = [None if i < 20 else f"class {c}" for i, c in enumerate(CLASSES)]
    same = SAME.copy()
    same[:20] = same[:, :20] = 0
    hybrid = HybridLSI(K, document_classes=labels, alpha=0.3).fit(ROWS)
    assert_equals_dense(hybrid, dense(ROWS, K, same, 0.3, TERMS, 0.0))
    assert hybrid.classes_.tolist() == ["class 0", "class 1", "class 2", "class 3"]


def test_classes_of_one_document_change_nothing():
    alone = HybridLSI(K, alpha=0.9, solver="krylov").fit(ROWS, np.arange(N))
    lsi = TruncatedSVD(K, solver="krylov").fit(ROWS)
    np.testing.assert_allclose(alone.singular_values_, lsi.singular_values_, rtol=1e-9)
    np.testing.assert_allclose(alone.components_, lsi.components_, atol=1e-6)


@pytest.mark.parametrize("solver", ["gram", "krylov"])
@pytest.mark.parametrize("block", [7, 60])
def test_cuts_schedulers_and_kinds_of_arrays_do_not_matter(solver, block):
    whole = HybridLSI(K, alpha=0.4, beta=0.2, term_similarity=TERMS, solver=solver).fit(ROWS, CLASSES)
    lazy = da.from_array(ROWS, chunks=(block, -1)).map_blocks(sparse.csr_array)
    found = []
    for scheduler in ("sync", "threads"):
        with dask.config.set(scheduler=scheduler):
            found.append(clone(whole).fit(lazy, CLASSES))
    np.testing.assert_array_equal(found[0].components_, found[1].components_)
    np.testing.assert_allclose(found[0].components_, whole.components_, atol=1e-9)
    folded = found[0].transform(lazy)
    assert isinstance(folded, da.Array)
    np.testing.assert_allclose(folded.compute(), whole.transform(ROWS), atol=1e-8)


@pytest.mark.parametrize(("solver", "passes"), [("gram", 1), ("krylov", 4)])
def test_each_block_is_read_once_a_pass(solver, passes):
    reads = []

    def read(block):
        reads.append(len(block))
        return block

    lazy = da.from_array(ROWS, chunks=(20, -1)).map_blocks(read, meta=np.empty((0, 0)))
    with dask.config.set(scheduler="sync"):
        hybrid = HybridLSI(K, alpha=0.5, solver=solver, n_passes=passes).fit(lazy, CLASSES)
    assert len(reads) == 3 * passes
    assert hybrid.n_passes_ == passes


@pytest.mark.parametrize("alpha", [-0.1, 1.0, np.nan])
def test_alpha_out_of_range_names_the_largest_admissible(alpha):
    with pytest.raises(ValueError, match=r"alpha is .*, but K, of class similarities, .* just under 1"):
        HybridLSI(2, alpha=alpha).fit(ROWS, CLASSES)


def test_a_similarity_that_leaves_positive_definiteness_names_the_largest_weight():
    bad = np.zeros((N, N))
    bad[0, 1] = bad[1, 0] = 4.0
    with pytest.raises(ValueError, match=r"alpha is 0.3, .* admissible alpha is just under 0.25"):
        HybridLSI(2, document_similarity=bad, alpha=0.3).fit(ROWS)
    with pytest.raises(ValueError, match=r"beta is 0.25, .* admissible beta is just under 0.25"):
        HybridLSI(2, term_similarity=bad[:D, :D], beta=0.25).fit(ROWS)
    found = HybridLSI(2, term_similarity=bad[:D, :D], beta=0.2499).fit(ROWS)
    assert found.admissible_beta_ == pytest.approx(0.25)
    with pytest.raises(ValueError, match="too far for a polynomial"):
        HybridLSI(2, term_similarity=bad[:D, :D], beta=0.25 - 1e-9, factor="polynomial").fit(ROWS)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"alpha": 0.5}, "nothing says which documents are alike"),
        ({"beta": 0.5}, "no term_similarity"),
        ({"term_similarity": np.eye(3), "beta": 0.1}, "there are 25 terms: it must be 25 x 25"),
        ({"document_similarity": np.eye(3), "alpha": 0.1}, "there are 60 documents"),
        ({"term_similarity": np.triu(np.ones((D, D)))}, "term_similarity is not symmetric"),
        ({"term_similarity": np.full((D, D), np.nan)}, "NaN or infinity"),
        ({"document_classes": CLASSES, "document_similarity": SAME}, "give one"),
        ({"document_classes": CLASSES[:9], "alpha": 0.1}, "classes for 9 documents, but X has 60"),
        ({"document_classes": [None] * N, "alpha": 0.1}, "no document has a class"),
        ({"document_similarity": SAME, "alpha": 0.1, "solver": "gram"}, "does not take document_similarity"),
        ({"solver": "frequent_directions"}, "does not take similarities"),
        ({"term_similarity": TERMS, "beta": 0.1, "factor": "lu"}, "factor is 'lu'"),
        ({"n_components": 26}, "n_components is 26"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        HybridLSI(**{"n_components": 2, **settings}).fit(ROWS)


def test_similarity_for_other_terms_than_the_vocabulary_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("red cat\nblue cat\nred dog\n")
    store = build_store(str(tmp_path / "a.txt"), str(tmp_path / "a.zarr"), vocabulary=VocabularySettings())
    vectors = np.array([[1.0, 0.1], [0.9, 0.2], [0.1, 1.0], [0.2, 0.8]])
    words = ["red", "blue", "cat", "dog"]
    right = term_similarity(store.vocabulary.terms, words, vectors)
    hybrid = HybridLSI(1, term_similarity=right, beta=0.5).fit(store)
    assert hybrid.components_.shape == (1, 4)
    with pytest.raises(ValueError, match=r"is for 4 other terms than the 4 .* column 0"):
        HybridLSI(1, term_similarity=term_similarity(words, words, vectors), beta=0.5).fit(store)
    with pytest.raises(ValueError, match="none of the 4 terms has a vector"):
        term_similarity(store.vocabulary.terms, ["rot"], vectors[:1])


def test_similar_terms_bring_documents_without_a_common_term_together():
    counts = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]] * 3)
    similarity = np.zeros((4, 4))
    similarity[0, 1] = similarity[1, 0] = 0.9
    folded = HybridLSI(2, term_similarity=similarity, beta=0.9).fit(counts).transform(counts)
    cosine = folded[0] @ folded[1] / np.linalg.norm(folded[0]) / np.linalg.norm(folded[1])
    assert cosine > 0.8


def test_a_saved_model_folds_in_as_before(tmp_path):
    similarity = term_similarity([f"t{i}" for i in range(D)], [f"t{i}" for i in range(D)], RNG.random((D, 3)))
    model = HybridLSI(3, alpha=0.2, term_similarity=similarity, beta=0.01).fit(ROWS, CLASSES)
    save(model, str(tmp_path / "model"))
    loaded = load(str(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.transform(ROWS), model.transform(ROWS))
    np.testing.assert_array_equal(loaded.term_similarity.matrix.toarray(), similarity.matrix.toarray())
    np.testing.assert_array_equal(clone(loaded).fit(ROWS, CLASSES).components_, model.components_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_it_is_an_estimator_of_scikit_learn():
    check_estimator(HybridLSI(1))
