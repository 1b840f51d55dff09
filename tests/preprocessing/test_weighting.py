import re

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer

from dspectral import (
    HybridLSI,
    NgramHashing,
    SketchedPCA,
    TfidfWeighting,
    TruncatedSVD,
    Weighting,
    load,
    save,
    write_counts,
)
from dspectral.store.columns import get_weighting
from dspectral.text.weighting import DocumentFrequencies
from tests.strategies import n_tasks, zipf_counts

COUNTS = zipf_counts(90, 40, 8)
OTHER = zipf_counts(60, 40, 15)


@pytest.fixture
def store(tmp_path):
    return write_counts(COUNTS, str(tmp_path / "store"), block_rows=30)


@pytest.fixture
def other(tmp_path):
    return write_counts(OTHER, str(tmp_path / "other"), block_rows=30)


def lazy(X, rows=20):
    """Rows as a Dask array of CSR or dense blocks."""
    dense = da.from_array(X.toarray() if sparse.issparse(X) else X, chunks=(rows, -1))
    return dense.map_blocks(sparse.csr_array) if sparse.issparse(X) else dense


def as_array(X):
    X = X.compute() if isinstance(X, da.Array) else X
    assert isinstance(X, sparse.csr_array)
    return X.toarray()


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    norm=st.sampled_from(["l1", "l2", None]),
    use_idf=st.booleans(),
    sublinear_tf=st.booleans(),
    smooth_idf=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64, np.int64]),
)
def test_it_is_scikit_learns_transformer(seed, dtype, norm, use_idf, sublinear_tf, smooth_idf):
    rng = np.random.default_rng(seed)
    learned, new = (rng.poisson(0.6, size=(n, 6)).astype(dtype) for n in (12, 5))
    learned[0] = 1  # without smoothing, scikit-learn's weight of a column that no row holds is infinite
    idf = ("smooth" if smooth_idf else "plain") if use_idf else None
    tf = "sublinear" if sublinear_tf else "count"
    computed = TfidfWeighting(norm=norm, idf=idf, tf=tf).fit(learned)
    reference = TfidfTransformer(norm=norm, use_idf=use_idf, sublinear_tf=sublinear_tf, smooth_idf=smooth_idf)
    reference.fit(learned)
    actual, expected = computed.transform(new), reference.transform(sparse.csr_array(new))
    np.testing.assert_allclose(as_array(actual), expected.toarray(), rtol=2e-6, atol=1e-7)
    assert actual.dtype == (np.float32 if dtype == np.float32 else np.float64)
    if use_idf:
        np.testing.assert_allclose(computed.idf_, reference.idf_, rtol=1e-6)


def test_zeros_that_are_stored_count_as_zeros():
    stored = sparse.csr_array((np.array([0.0, 2.0]), np.array([0, 1]), np.array([0, 1, 2])), shape=(2, 2))
    weights = TfidfWeighting(tf="sublinear").fit(stored)
    np.testing.assert_array_equal(weights.document_frequency_, [0, 1])
    np.testing.assert_array_equal(as_array(weights.transform(stored)), [[0, 0], [0, 1]])


def test_a_column_that_no_row_held_has_no_weight_without_smoothing():
    weights = TfidfWeighting(idf="plain").fit([[1, 0], [2, 0]])
    np.testing.assert_array_equal(weights.idf_, [1, 0])
    np.testing.assert_array_equal(as_array(weights.transform([[0, 3], [4, 3]])), [[0, 0], [1, 0]])


TEXTS = ["Tea or no tea", "a pot of tea, or two", "no pot", "two of two"]
NEW = ["no tea but coffee", "coffee coffee", "two pots of tea"]


@pytest.mark.parametrize(
    ("theirs", "chosen"),
    [
        ({}, {}),
        ({"sublinear_tf": True}, {"tf": "sublinear"}),
        ({"smooth_idf": False}, {"idf": "plain"}),
        ({"norm": None}, {"norm": None}),
    ],
)
def test_unseen_words_count_nothing_as_in_scikit_learn(theirs, chosen):
    reference = TfidfVectorizer(**theirs).fit(TEXTS)
    hashing = NgramHashing(2**16, (1, 1), alternate_sign=False)
    computed = TfidfWeighting(**chosen).fit(hashing.transform(TEXTS))
    words = reference.get_feature_names_out().tolist()
    columns = [hashing.transform([word]).indices[0] for word in words]
    actual = as_array(computed.transform(hashing.transform(NEW)))
    np.testing.assert_allclose(actual[:, columns], reference.transform(NEW).toarray(), rtol=1e-6)
    assert np.count_nonzero(actual) == reference.transform(NEW).nnz
    assert not computed.idf_[computed.document_frequency_ == 0].any()


def test_unseen_columns_have_the_largest_weight_on_request(store):
    kept = TfidfWeighting(unseen="keep").fit([[1, 0], [2, 0]])
    np.testing.assert_allclose(kept.idf_, [1, np.log(3) + 1])
    grown = TfidfWeighting().partial_fit([[1, 0], [2, 0]])
    np.testing.assert_array_equal(grown.idf_, [1, 0])
    np.testing.assert_allclose(grown.partial_fit([[0, 1]]).idf_, np.log([4 / 3, 4 / 2]) + 1)
    half = COUNTS.copy()
    half.data[half.indices % 2 == 1] = 0
    known = TfidfWeighting().fit(half).weighting
    assert known.digest == Weighting.tfidf(DocumentFrequencies.from_block(half).document_frequency, 90).digest
    actual = as_array(store.weighted(known))
    assert not actual[:, 1::2].any()


def test_unseen_columns_cannot_be_kept_without_smoothing():
    with pytest.raises(ValueError, match=r"unseen='keep'.*'drop'"):
        TfidfWeighting(unseen="keep", idf="plain").fit(COUNTS)


def test_rows_that_cannot_be_added_leave_the_frequencies_as_they_were():
    bad, weights = COUNTS.toarray().astype(float), TfidfWeighting()
    bad[3, 3] = np.nan
    for rows in (bad, lazy(bad)):
        with pytest.raises(ValueError, match=r"NaN|nan"):
            weights.partial_fit(rows)
    weights.partial_fit(COUNTS)
    before = vars(weights).copy()
    for rows in (bad, lazy(bad), bad[:, :39]):
        with pytest.raises(ValueError, match=r"NaN|nan|39"):
            weights.partial_fit(rows)
    assert vars(weights) == before
    assert weights.partial_fit(OTHER).n_documents_ == 150


def test_further_rows_are_added(store):
    whole = TfidfWeighting().fit(sparse.vstack([COUNTS, OTHER], format="csr"))
    for first, second in ((COUNTS, OTHER), (store, lazy(OTHER)), (lazy(COUNTS), OTHER.toarray())):
        weights = TfidfWeighting().partial_fit(first).partial_fit(second)
        np.testing.assert_array_equal(weights.idf_, whole.idf_)
        assert weights.n_documents_ == 150
    with pytest.raises(ValueError, match="39"):
        weights.partial_fit(OTHER[:, :39])


def test_a_store_is_not_read_to_learn_and_is_weighted_as_by_itself(store):
    weights = TfidfWeighting().fit(store)
    assert weights.n_passes_ == 0
    actual = weights.transform(store)
    assert n_tasks(actual) == store.n_blocks
    np.testing.assert_array_equal(as_array(actual), as_array(store.tfidf()))
    assert get_weighting(actual) == get_weighting(store.tfidf()) == weights.weighting.digest
    np.testing.assert_array_equal(as_array(store.weighted(weights)), as_array(actual))
    np.testing.assert_array_equal(weights.idf_, TfidfWeighting().fit(COUNTS).idf_)


def test_texts_and_weighted_rows_are_refused(store):
    with pytest.raises(TypeError, match=r"X.*NgramHashing\(\)"):
        TfidfWeighting().fit(["a text"])
    with pytest.raises(ValueError, match=r"X.*TfidfWeighting"):
        TfidfWeighting().fit(store.tfidf())
    with pytest.raises(NotFittedError):
        store.weighted(TfidfWeighting())
    with pytest.raises(ValueError, match=r"40 column.*3"):
        write_counts(np.eye(3), "memory://three").weighted(TfidfWeighting().fit(store))


ESTIMATORS = [TruncatedSVD(2, n_passes=2), SketchedPCA(2, solver="frequent_directions"), HybridLSI(2)]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_rows_weighted_by_another_store_are_refused(estimator, store, other, tmp_path):
    y = (np.arange(90) % 3,) if isinstance(estimator, HybridLSI) else ()
    model = estimator.fit(store.tfidf(), *y)
    save(model, str(tmp_path / "model"))
    weights = TfidfWeighting().fit(store)
    for fitted in (model, load(str(tmp_path / "model"))):
        for wrong in (other.tfidf(), other):
            with pytest.raises(ValueError, match=f"{type(fitted).__name__}.*X has"):
                fitted.transform(wrong)
        expected = fitted.transform(weights.transform(OTHER))
        for right in (
            other.weighted(weights),
            other.weighted(weights.weighting),
            weights.transform(lazy(OTHER)),
        ):
            np.testing.assert_allclose(fitted.transform(right).compute(), expected, atol=1e-6)
        assert fitted.transform(store.tfidf()).shape == (90, 2)


def test_partial_fit_mixes_no_weightings(store, other):
    svd = TruncatedSVD(2, solver="frequent_directions").fit(store.tfidf())
    before = svd.components_.copy()
    for wrong in (other.tfidf(), other):
        with pytest.raises(ValueError, match=r"X has.*TfidfWeighting"):
            svd.partial_fit(wrong)
    np.testing.assert_array_equal(svd.components_, before)
    svd.partial_fit(other.weighted(TfidfWeighting().fit(store)))
    assert svd.n_samples_seen_ == 150


def test_the_weighting_of_the_last_fit_is_kept(store, other):
    svd = TruncatedSVD(2).fit(store.tfidf())
    assert svd.weighting_ == Weighting.tfidf(store.document_frequency, 90).digest
    assert svd.fit(other.tfidf()).weighting_ == Weighting.tfidf(other.document_frequency, 60).digest
    for plain in (store, COUNTS, lazy(COUNTS)):
        assert not hasattr(svd.fit(store.tfidf()).fit(plain), "weighting_")
    assert svd.transform(store.tfidf()).shape == (90, 2)  # of arrays in memory nothing is known


def test_weighted_rows_in_a_store_are_known_as_such(store, other, tmp_path):
    kept = write_counts(store.tfidf(), str(tmp_path / "kept"))
    assert get_weighting(kept) == get_weighting(store.tfidf())
    svd = TruncatedSVD(2).fit(kept)
    assert svd.transform(store.tfidf()).shape == (90, 2)
    with pytest.raises(ValueError, match=r"TruncatedSVD.*X has"):
        svd.transform(other.tfidf())
    with pytest.raises(ValueError, match=f"weighting.*{re.escape(str(tmp_path))}"):
        write_counts(other.tfidf(), str(tmp_path / "kept"), append=True)
    with pytest.raises(ValueError, match=r"X.*TfidfWeighting"):
        TfidfWeighting().fit(kept)


def test_digests_tell_weightings_from_each_other():
    weights, columns = np.arange(4.0), np.arange(4)
    several = [
        Weighting(),
        Weighting("binary"),
        Weighting(norm="l1"),
        Weighting(column_weights=weights),
        Weighting(column_weights=weights + 1e-12),
        Weighting(columns=columns),
        Weighting(column_weights=weights, columns=columns),
        Weighting(column_weights=weights, columns=columns[::-1].copy()),
    ]
    assert len({weighting.digest for weighting in several}) == len(several)
    assert Weighting(column_weights=weights.copy()).digest == several[3].digest
