import dask
import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from dspectral import HybridLSI, TruncatedSVD
from dspectral.methods.lsi import hybrid as module
from dspectral.methods.lsi.similarities import checked_similarity, eigenvalue_range, factor, root_series
from tests.methods.lsi.hybrid_rows import CLASSES, ROWS, SAME, TERMS, K, N, symmetric
from tests.strategies import zipf_counts


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


def test_both_factors_are_roots_of_the_same_matrix():
    similarity = checked_similarity(TERMS, len(TERMS), "terms", "terms")
    lowest, highest = eigenvalue_range(similarity)
    exact = np.eye(len(TERMS)) + 0.5 * off_diagonal(TERMS)
    series = root_series(sparse.csr_array(exact), 1 + 0.5 * lowest, 1 + 0.5 * highest)
    for found in (factor(similarity, 0.5, (lowest, highest)), series):
        np.testing.assert_allclose(found.times(found.transpose_times(np.eye(len(TERMS)))), exact, atol=1e-8)


@pytest.mark.parametrize("beta", [0.0, 0.4])
def test_any_similarity_of_documents_gives_the_dense_formula(beta):
    similarity = symmetric(N, 2, share=0.1)
    terms = TERMS if beta else None
    hybrid = HybridLSI(K, alpha=0.1, beta=beta)
    hybrid.fit(ROWS, document_similarity=sparse.csr_array(similarity), term_similarity=terms)
    assert_equals_dense(hybrid, dense(ROWS, K, similarity, 0.1, TERMS, beta))
    assert hybrid.solver_ == "krylov"
    assert hybrid.n_passes_ == 10


def test_several_classes_are_alike_by_the_cosine_of_their_indicators():
    indicator = (np.random.default_rng(5).random((N, 5)) < 0.3).astype(float)
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
    hybrid = HybridLSI(K, alpha=0.3).fit(ROWS, labels)
    assert_equals_dense(hybrid, dense(ROWS, K, same, 0.3, TERMS, 0.0))
    assert hybrid.classes_.tolist() == ["class 0", "class 1", "class 2", "class 3"]


def test_classes_of_one_document_change_nothing():
    alone = HybridLSI(K, alpha=0.9).fit(ROWS, np.arange(N))
    lsi = TruncatedSVD(K).fit(ROWS)
    np.testing.assert_allclose(alone.singular_values_, lsi.singular_values_, rtol=1e-9)
    np.testing.assert_allclose(alone.components_, lsi.components_, atol=1e-6)


@pytest.mark.usefixtures("solver")
@pytest.mark.parametrize("block", [7, 60])
def test_cuts_schedulers_and_kinds_of_arrays_do_not_matter(solver, block):
    whole = HybridLSI(K, alpha=0.4, beta=0.2).fit(ROWS, CLASSES, term_similarity=TERMS)
    lazy = da.from_array(ROWS, chunks=(block, -1)).map_blocks(sparse.csr_array)
    found = []
    for scheduler in ("sync", "threads"):
        with dask.config.set(scheduler=scheduler):
            found.append(clone(whole).fit(lazy, CLASSES, term_similarity=TERMS))
    np.testing.assert_array_equal(found[0].components_, found[1].components_)
    np.testing.assert_allclose(found[0].components_, whole.components_, atol=1e-9)
    folded = found[0].transform(lazy)
    assert isinstance(folded, da.Array)
    np.testing.assert_allclose(folded.compute(), whole.transform(ROWS), atol=1e-8)


def test_each_block_is_read_once_a_pass(solver):
    reads, passes = [], {"gram": 1, "krylov": 5}[solver]

    def read(block):
        reads.append(len(block))
        return block

    lazy = da.from_array(ROWS, chunks=(20, -1)).map_blocks(read, meta=np.empty((0, 0)))
    with dask.config.set(scheduler="sync"):
        hybrid = HybridLSI(K, alpha=0.5).fit(lazy, CLASSES)
    assert len(reads) == 3 * passes
    assert hybrid.n_passes_ == passes


def test_similar_terms_bring_documents_without_a_common_term_together():
    counts = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]] * 3)
    similarity = np.zeros((4, 4))
    similarity[0, 1] = similarity[1, 0] = 0.9
    folded = HybridLSI(2, beta=0.9).fit(counts, term_similarity=similarity).transform(counts)
    cosine = folded[0] @ folded[1] / np.linalg.norm(folded[0]) / np.linalg.norm(folded[1])
    assert cosine > 0.8


@pytest.mark.parametrize(
    "dtype", [np.int8, np.int64, np.uint8, np.uint64, np.bool_, np.float16, np.float32, np.float64]
)
@pytest.mark.usefixtures("solver")
def test_rows_of_any_numbers_give_the_answer_of_their_values(dtype):
    rows = ROWS.astype(dtype)
    expected = dense(rows.astype(np.float64), K, SAME, 0.5, TERMS, 0.0)[0]
    kinds = [rows, da.from_array(rows, chunks=(20, -1))]
    if dtype is not np.float16:  # SciPy has no sparse half precision
        kinds += [sparse.csr_array(rows), kinds[1].map_blocks(sparse.csr_array)]
    for X in kinds:
        found = HybridLSI(K, alpha=0.5).fit(X, CLASSES)
        np.testing.assert_allclose(found.singular_values_, expected, rtol=1e-5)
    similarity = symmetric(N, 2, 0.1)
    expected = dense(rows.astype(np.float64), 1, similarity, 0.05, TERMS, 0.0)[0][0]
    for X in kinds:
        found = HybridLSI(K, alpha=0.05).fit(X, document_similarity=similarity)
        assert found.singular_values_[0] == pytest.approx(expected, rel=1e-5)
