import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer

from dspectral import Weighting
from tests.strategies import zipf_counts


@st.composite
def counts(draw):
    """Counts with empty rows and columns."""
    shape = draw(st.integers(1, 12)), draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.poisson(draw(st.sampled_from([0.0, 0.3, 2.0])), size=shape).astype(np.float32)
    return sparse.csr_array(X)


def frequency(X):
    return np.bincount(X.indices, minlength=X.shape[1])


@settings(derandomize=True, deadline=None, max_examples=50)
@given(X=counts(), norm=st.sampled_from(["l1", "l2", None]))
def test_tf_idf_is_scikit_learns(X, norm):
    expected = TfidfTransformer(norm=norm, smooth_idf=True).fit_transform(sparse.csr_matrix(X))
    actual = Weighting.tfidf(frequency(X), X.shape[0], norm=norm).apply(X)
    np.testing.assert_allclose(actual.toarray(), expected.toarray(), rtol=1e-5, atol=1e-7)
    assert actual.dtype == np.float32


@pytest.mark.parametrize(
    ("tf", "of"),
    [
        ("count", lambda c: c),
        ("binary", lambda c: (c != 0).astype(float)),
        ("sqrt", lambda c: np.sign(c) * np.sqrt(np.abs(c))),
        ("log", lambda c: np.sign(c) * np.log1p(np.abs(c))),
    ],
)
def test_entries_are_transformed_and_keep_their_signs_but_for_binary(tf, of):
    dense = np.array([[4.0, -9.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, -1.0]])
    np.testing.assert_allclose(Weighting(tf).apply(sparse.csr_array(dense)).toarray(), of(dense))


def test_columns_are_kept_in_the_given_order_with_their_own_weights():
    X = zipf_counts(40, 20, 6)
    columns, weights = np.array([7, 0, 3]), np.array([1.0, 0.5, 0.0])
    actual = Weighting(columns=columns, column_weights=weights).apply(X).toarray()
    np.testing.assert_allclose(actual, X.toarray()[:, columns] * weights)
