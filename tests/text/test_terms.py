"""Exact n-grams: counted, merged and looked up as scikit-learn's CountVectorizer does."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

from dspectral.text import term_bytes
from dspectral.text.term_index import TermIndex, encode_documents
from dspectral.text.terms import TermTable
from dspectral.types import Documents
from tests.text import texts


def terms_of(table):
    return [table.term(i) for i in range(len(table.counts))]


def by_scikit_learn(documents, ngram_range, lowercase):
    """Sorted terms, their document frequency and counts."""
    analyze = CountVectorizer(ngram_range=ngram_range, lowercase=lowercase).build_analyzer()
    analyzed = [analyze(text) for text in documents]
    terms = sorted({term for words in analyzed for term in words}, key=str.encode)
    if not terms:
        return [], [], []
    vectorizer = CountVectorizer(ngram_range=ngram_range, lowercase=lowercase, vocabulary=terms)
    rows = vectorizer.transform(documents)
    return terms, *(np.ravel(counted.sum(axis=0)).tolist() for counted in (rows > 0, rows))


@settings(deadline=None, derandomize=True, max_examples=60)
@given(texts.documents(), texts.ngram_ranges(), st.booleans())
def test_a_table_has_the_counts_and_document_frequencies_of_scikit_learn(documents, ngram_range, lowercase):
    table = TermTable.from_block(Documents.from_strings(documents), ngram_range, lowercase)
    actual = (terms_of(table), table.document_frequency.tolist(), table.counts.tolist())
    assert actual == by_scikit_learn(documents, ngram_range, lowercase)


def test_a_large_vocabulary_is_counted_as_by_scikit_learn():
    rng = np.random.default_rng(0)
    documents = [" ".join(f"x{n}" for n in rng.zipf(1.3, size=40) % 10**7) for _ in range(400)]
    table = TermTable.from_block(Documents.from_strings(documents), (1, 3))
    assert len(table.counts) > 20_000
    actual = (terms_of(table), table.document_frequency.tolist(), table.counts.tolist())
    assert actual == by_scikit_learn(documents, (1, 3), lowercase=True)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(texts.documents(), texts.documents().filter(len), texts.ngram_ranges(), st.booleans(), st.data())
def test_documents_are_encoded_as_by_scikit_learn(known, documents, ngram_range, lowercase, data):
    table = TermTable.from_block(Documents.from_strings(known + documents[::2]), ngram_range, lowercase)
    terms = data.draw(st.permutations(terms_of(table)).map(lambda order: [*order[::2], "never seen"]))
    index = TermIndex.from_terms(Documents.from_strings(terms))
    rows = encode_documents(Documents.from_strings(documents), index, ngram_range, lowercase)
    expected = CountVectorizer(ngram_range=ngram_range, lowercase=lowercase, vocabulary=terms).transform(documents)
    expected.sort_indices()
    assert rows.shape == expected.shape
    assert (rows.data.dtype, rows.indices.dtype) == (np.float32, np.int32)
    np.testing.assert_array_equal(rows.indptr, expected.indptr)
    np.testing.assert_array_equal(rows.indices, expected.indices)
    np.testing.assert_array_equal(rows.data, expected.data)


def test_terms_with_equal_hashes_are_told_apart():
    first_of, twins = {}, []
    terms = Documents.from_strings([f"t{i}" for i in range(200_000)])
    for i, code in enumerate(term_bytes.hash_terms(terms).tolist()):
        if code in first_of:
            twins.append((terms.text(first_of[code]).decode(), terms.text(i).decode()))
        first_of[code] = i
    assert twins
    for a, b in twins:
        documents = Documents.from_strings([f"{a} {b} {b}"])
        assert dict(
            zip(terms_of(TermTable.from_block(documents)), TermTable.from_block(documents).counts, strict=True)
        ) == {
            a: 1,
            b: 2,
        }
        assert encode_documents(documents, TermIndex.from_terms(Documents.from_strings([b, a]))).toarray().tolist() == [
            [2, 1]
        ]
        assert encode_documents(documents, TermIndex.from_terms(Documents.from_strings([a]))).toarray().tolist() == [
            [1]
        ]
