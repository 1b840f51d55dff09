"""Names for the columns that a component weighs."""

from itertools import pairwise

import fsspec
import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

import dspectral
from dspectral import NgramHashing, TfidfWeighting, TruncatedSVD, VocabularySettings, top_terms
from tests.contracts import CASES

TEXTS = ["cats purr softly", "cats purr", "dogs bark", "dogs bark loud", "dogs run"]
ROWS = np.diag([3.0, 2.0, 1.0])
NAMES = ["x", "y", "z"]


def words_of(found):
    return [[term for term, _ in component] for component in found]


@pytest.fixture(scope="module")
def text():
    with fsspec.open("memory://top-terms.txt", "w") as file:
        file.write("\n".join(TEXTS) + "\n")
    return "memory://top-terms.txt"


def test_names_come_from_a_frame_a_list_a_dictionary_or_a_vectorizer():
    model = TruncatedSVD(2).fit(pd.DataFrame(ROWS, columns=NAMES))
    assert words_of(model.top_terms(n=1)) == [["x"], ["y"]]
    plain = TruncatedSVD(2).fit(ROWS)
    assert plain.top_terms(terms=NAMES, n=1) == [[("x", pytest.approx(1.0))], [("y", pytest.approx(1.0))]]
    assert words_of(plain.top_terms(terms=np.array(NAMES), n=1)) == [["x"], ["y"]]
    assert words_of(plain.top_terms(terms={1: "only this"})) == [[], ["only this"]]
    assert plain.top_terms(1, component=1, terms=NAMES) == [("y", pytest.approx(1.0))]
    assert str(plain.top_terms(1, terms=NAMES)) == "0: x\n1: y"
    vectorizer = CountVectorizer().fit(["x1 y1 z1"])
    assert words_of(plain.top_terms(terms=vectorizer, n=1)) == [["x1"], ["y1"]]


def test_the_sign_says_to_which_end_a_term_pulls():
    rows = np.array([[2.0, -2.0, 0.0], [1.0, -1.0, 0.0]])
    (actual,) = TruncatedSVD(1).fit(rows).top_terms(terms=NAMES)
    assert [(term, round(weight, 3)) for term, weight in actual] in (
        [("x", 0.707), ("y", -0.707)],
        [("x", -0.707), ("y", 0.707)],
    )  # z weighs nothing


def test_a_vocabulary_a_store_and_the_terms_it_keeps_name_columns(text):
    known = dspectral.build_store(text, "memory://top-vocabulary.zarr", vocabulary=VocabularySettings())
    model = TruncatedSVD(2).fit(known.tfidf())
    actual = model.top_terms(terms=known, n=2)
    assert words_of(actual)[0] == ["dogs", "bark"]
    assert words_of(model.top_terms(terms=known.vocabulary, n=2)) == words_of(actual)
    hashing = NgramHashing(2**12, (1, 1))
    hashed = dspectral.build_store(text, "memory://top-hashed.zarr", hashing=hashing, keep_terms=100)
    again = TruncatedSVD(2).fit(hashed.tfidf())
    assert words_of(again.top_terms(terms=hashed, n=2))[0] == ["dogs", "bark"]
    for (term, weight), (same, other) in zip(
        again.top_terms(component=0, terms=hashed), model.top_terms(component=0, terms=known), strict=True
    ):
        assert term == same
        assert weight == pytest.approx(other, abs=1e-4)  # the hashed signs are taken out


def test_a_pipeline_from_texts_or_files_says_its_terms(text):
    model = make_pipeline(NgramHashing(2**12, (1, 1)), TfidfWeighting(), TruncatedSVD(2)).fit(TEXTS)
    expected = [["dogs", "bark"], ["cats", "purr"]]  # of equal weight the first name
    kept = model[0].kept_terms(TEXTS)
    assert words_of(top_terms(model, n=2, terms=kept)) == expected
    assert words_of(top_terms(model, n=2, terms=model[0].kept_terms(dspectral.TextFiles(text)))) == expected
    assert words_of(top_terms(model, n=2, terms=kept.names())) == expected
    counted = make_pipeline(CountVectorizer(), TfidfWeighting(), TruncatedSVD(2)).fit(TEXTS)
    assert words_of(top_terms(counted, n=2)) == expected


@pytest.mark.parametrize("name", ["AnchorHMM", "EMHMM", "RefinementHMM", "WordEmbedding"])
@pytest.mark.filterwarnings("ignore")
def test_models_of_words_know_their_terms(name):
    case = CASES[name]
    model = case.make()
    model.fit(*case.data())
    actual = model.top_terms(n=3)
    assert all(0 < len(component) <= 3 for component in actual)
    assert {term for component in actual for term, _ in component} <= set(model.words_) - {"<?>"}
    assert all(abs(a) >= abs(b) for component in actual for (_, a), (_, b) in pairwise(component))


@pytest.mark.parametrize("name", ["HybridLSI", "LocalLSI", "MomentMultiLabelClassifier", "SketchedPCA", "TruncatedSVD"])
@pytest.mark.filterwarnings("ignore")
def test_models_of_rows_are_given_the_names(name):
    case = CASES[name]
    model = case.make()
    model.fit(*case.data())
    actual = model.top_terms(n=4, terms=[f"word {i}" for i in range(24)])
    assert [len(component) for component in actual] == [4] * len(actual)
    with pytest.raises(ValueError, match=r"columns.*names"):
        model.top_terms()
    with pytest.raises(ValueError, match=r"3 columns.*24"):
        model.top_terms(terms=NAMES)


def test_a_sentence_representation_names_the_columns_that_have_vectors():
    case = CASES["SentenceRepresentation"]
    model, (X, _) = case.make(), case.data()
    model.fit(X)
    hashing = NgramHashing(256, (1, 3))
    actual = model.top_terms(n=3, terms=hashing.kept_terms(X))
    assert all(len(component) == 3 for component in actual)
    named = {column: name for column, name in hashing.kept_terms(X).names().items() if column in model.words_}
    assert {term for component in actual for term, _ in component} <= set(named.values())
