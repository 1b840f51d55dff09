"""Hashed n-grams: the same columns and signs as scikit-learn's, entry by entry."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.utils import murmurhash3_32

from dspectral.text.csr_buffers import GROUP_NGRAMS
from dspectral.text.hashing import HashingSettings, hash_documents
from dspectral.text.term_bytes import hash_terms
from dspectral.types import Documents
from tests.text import texts


def by_scikit_learn(documents, hashing):
    settings = {name: value for name, value in hashing._asdict().items() if name != "normalize"}
    vectorizer = HashingVectorizer(norm=None, dtype=np.float32, **settings)
    rows = vectorizer.transform(documents)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows


def assert_same_rows(rows, expected):
    assert rows.shape == expected.shape
    np.testing.assert_array_equal(rows.indptr, expected.indptr)
    np.testing.assert_array_equal(rows.indices, expected.indices)
    np.testing.assert_array_equal(rows.data, expected.data)


hashings = st.builds(
    HashingSettings,
    n_features=st.sampled_from([2, 4, 1024, 2**18, 2**20, 2**30]),
    ngram_range=texts.ngram_ranges(),
    lowercase=st.booleans(),
    alternate_sign=st.booleans(),
    tokenizer=st.none(),
    normalize=st.none(),
)


@settings(deadline=None, derandomize=True, max_examples=80)
@given(texts.documents().filter(len), hashings)
def test_rows_are_those_of_scikit_learn(documents, hashing):
    assert_same_rows(hash_documents(Documents.from_strings(documents), hashing), by_scikit_learn(documents, hashing))


@pytest.mark.parametrize("n_features", [2, 2**18, 2**30])
@pytest.mark.parametrize("lowercase", [True, False])
def test_hard_texts_are_hashed_as_by_scikit_learn(n_features, lowercase):
    hashing = HashingSettings(n_features=n_features, lowercase=lowercase)
    rows = hash_documents(Documents.from_strings(texts.NASTY), hashing)
    assert_same_rows(rows, by_scikit_learn(texts.NASTY, hashing))


def test_groups_of_many_short_and_few_long_documents_keep_their_rows():
    rng = np.random.default_rng(0)
    words = np.array([f"w{i}" for i in range(500)])
    lengths = np.concatenate(
        [
            rng.integers(0, 4, size=2 * GROUP_NGRAMS),
            [3 * GROUP_NGRAMS, 0, GROUP_NGRAMS // 3, 1, 2 * GROUP_NGRAMS],
        ]
    )
    documents = [" ".join(rng.choice(words, size=n)) for n in [*([0] * (GROUP_NGRAMS + 5)), *lengths, 0, 0]]
    for n_features in (2**12, 2**30):  # so many columns that a key has room for two documents
        hashing = HashingSettings(n_features=n_features)
        assert_same_rows(
            hash_documents(Documents.from_strings(documents), hashing), by_scikit_learn(documents, hashing)
        )


def test_ngrams_of_every_length_are_hashed():
    documents = [" ".join("x" * n for n in (a, a + b, 2)) for a in range(2, 36) for b in range(4)]
    for ngram_range in ((1, 1), (2, 3)):
        hashing = HashingSettings(ngram_range=ngram_range)
        assert_same_rows(
            hash_documents(Documents.from_strings(documents), hashing), by_scikit_learn(documents, hashing)
        )


@settings(deadline=None, derandomize=True)
@given(st.lists(st.binary(max_size=20), max_size=8))
def test_hashes_of_bytes_are_those_of_scikit_learn(terms):
    expected = [murmurhash3_32(term, positive=True) for term in terms]
    assert hash_terms(Documents.from_strings(terms)).tolist() == expected
