"""Character n-grams within words are those of scikit-learn, by the compiled loop and in a store."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import HashingVectorizer

from dspectral import NgramHashing, Texts, build_store

TEXTS = ["It's  a\ttést", "", "a", "Straße İstanbul 東京タワー", "x \u00a0 yz\u2003ab", " of of of "]


@pytest.mark.parametrize("ngram_range", [(1, 1), (2, 4), (3, 5), (5, 6)])
@pytest.mark.parametrize("lowercase", [True, False])
def test_columns_and_counts_are_those_of_scikit_learn(ngram_range, lowercase):
    actual = NgramHashing(2**10, ngram_range, lowercase, analyzer="char_wb")
    reference = HashingVectorizer(
        n_features=2**10, ngram_range=ngram_range, lowercase=lowercase, analyzer="char_wb", norm=None
    )
    np.testing.assert_array_equal(actual.transform(TEXTS).toarray(), reference.transform(TEXTS).toarray())


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=30), min_size=1, max_size=5))
def test_any_text_is_cut_as_scikit_learn_cuts_it(texts):
    actual = NgramHashing(2**10, (2, 3), alternate_sign=False, analyzer="char_wb").transform(texts)
    reference = HashingVectorizer(
        n_features=2**10, ngram_range=(2, 3), alternate_sign=False, analyzer="char_wb", norm=None
    )
    np.testing.assert_array_equal(actual.toarray(), reference.transform(texts).toarray())


def test_a_store_of_character_ngrams_holds_the_same_rows(tmp_path):
    hashing = NgramHashing(2**10, (2, 4), analyzer="char_wb")
    store = build_store(Texts(TEXTS), str(tmp_path / "s.zarr"), hashing=hashing)
    np.testing.assert_array_equal(store.counts.compute().toarray(), hashing.transform(TEXTS).toarray())
