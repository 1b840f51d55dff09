import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from dspectral import (
    NgramHashing,
    TextFiles,
    TfidfWeighting,
)
from dspectral.text.hashing import HashingSettings
from tests.preprocessing.texts import HASHING, TEXTS, pipeline, same


class Column:
    """A column as data sets have them: a length, items and an iterator, but no shape."""

    def __len__(self):
        return len(TEXTS)

    def __getitem__(self, i):
        return TEXTS[i]

    def __iter__(self):
        return iter(TEXTS)


class Sequence:
    """The oldest way to be iterated over."""

    def __getitem__(self, i):
        return TEXTS[i]


@pytest.mark.parametrize("alternate_sign", [True, False])
def test_rows_are_those_of_scikit_learn(alternate_sign):
    ours = NgramHashing(256, (1, 2), alternate_sign=alternate_sign).fit_transform(TEXTS)
    theirs = HashingVectorizer(n_features=256, ngram_range=(1, 2), norm=None, alternate_sign=alternate_sign)
    np.testing.assert_array_equal(ours.toarray(), theirs.transform(TEXTS).toarray())


@pytest.mark.parametrize(
    "make",
    [
        tuple,
        iter,
        lambda texts: (text for text in texts),
        lambda texts: [text.encode() for text in texts],
        np.array,
        lambda texts: np.array(texts, dtype=object),
        pd.Series,
        lambda texts: pd.Series(texts, dtype="category"),
        lambda texts: pd.Series(texts, index=range(60, 0, -1)),
        pa.array,
        lambda texts: pa.chunked_array([texts[:10], texts[10:]]),
        lambda _: Column(),
        lambda _: Sequence(),
    ],
)
def test_every_collection_of_texts_gives_the_same_rows(make):
    same(HASHING.fit_transform(make(TEXTS)), HASHING.transform(TEXTS))


def test_many_texts_are_hashed_block_by_block(monkeypatch):
    expected = HASHING.transform(TEXTS)
    monkeypatch.setattr("dspectral.text.packing.text_blocks.__kwdefaults__", {"block_bytes": 200})
    same(HASHING.transform(TEXTS), expected)
    assert HASHING.transform(TEXTS).indices.dtype == np.int32
    assert HASHING.transform([]).shape == (0, 256)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            "a text",
            r"X is one string: \['a text'\] is a list of one text, and TextFiles\('a text'\) names files",
        ),
        (b"a text", r"X is one string: \[b'a text'\]"),
        ({"text": TEXTS}, "X is a dict, but texts are a list"),
        ({"a", "b"}, "X is a set, but"),
        (
            pd.DataFrame({"text": TEXTS}),
            "X is a DataFrame of 2 dimensions, but texts are .* one column of strings",
        ),
        (np.zeros((2, 3)), "X is a ndarray of 2 dimensions"),
        (sparse.eye_array(3, format="csr"), "X is a dia_array|csr_array of 2 dimensions"),
        (da.zeros(3), "X is a Array, but"),
        (None, "X is a NoneType, but"),
        (7, "X is a int, but"),
        ([["a", "b"]], r"document 0 is \['a', 'b'\], but it must be a string"),
        (["a", None], "document 1 is None, but it must be a string"),
        (pd.Series(["a", np.nan]), "document 1 is nan, but"),
    ],
)
def test_what_is_no_collection_of_texts_is_refused_with_a_sentence(wrong, message):
    with pytest.raises(TypeError, match=message):
        HASHING.transform(wrong)


@pytest.mark.parametrize("wrong", [["a", "\ud800"], ["a", b"\xff"]])
def test_a_text_that_is_not_utf_8_is_named(wrong):
    with pytest.raises(ValueError, match="document 1 is not text in UTF-8"):
        HASHING.transform(wrong)


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"n_features": 100}, ValueError),
        ({"n_features": "ten"}, TypeError),
        ({"ngram_range": (2, 1)}, ValueError),
    ],
)
def test_parameters_are_checked_in_fit_and_not_before(parameters, error):
    hashing = NgramHashing(**parameters)
    with pytest.raises(error, match=next(iter(parameters))):
        hashing.fit(TEXTS)


def test_settings_of_a_store_and_the_transformer_are_compared_by_value():
    assert HashingSettings(256, (1, 2)) == NgramHashing(256, (1, 2)) == clone(HASHING)
    assert HashingSettings(256) != HASHING != NgramHashing(128, (1, 2))
    assert HASHING != (256, (1, 2), True, True)
    assert len({HASHING, clone(HASHING)}) == 1
    assert NgramHashing(**HASHING.settings._asdict()) == HASHING


def test_a_list_gives_the_bits_of_a_store_of_one_block(tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    files = TextFiles(tmp_path / "a.txt")
    assert len(files.blocks) == 1
    of_list, of_files = pipeline().fit(TEXTS), pipeline().fit(files)
    assert of_list[-1].components_.tobytes() == of_files[-1].components_.tobytes()


def test_parameters_are_searched_with_lists_of_texts():
    labels = ["the" in text for text in TEXTS]
    model = make_pipeline(NgramHashing(64), TfidfWeighting(), LinearSVC())
    grid = {"ngramhashing__ngram_range": [(1, 1), (1, 2)], "tfidfweighting__tf": ["binary", "log"]}
    search = GridSearchCV(model, grid, cv=3, scoring="f1_macro").fit(TEXTS, labels)
    assert search.best_score_ > 0.9
    assert search.predict(["the question", "to be"]).tolist() == [True, False]


def test_a_pipeline_names_its_columns_and_makes_frames_of_dense_rows():
    model = pipeline().set_output(transform="pandas").fit(TEXTS)
    assert model.transform(TEXTS).columns.tolist() == ["truncatedsvd0", "truncatedsvd1", "truncatedsvd2"]
    assert model[:-1].get_feature_names_out()[:2].tolist() == ["ngramhashing0", "ngramhashing1"]
    assert sparse.issparse(model[:-1].transform(TEXTS))
