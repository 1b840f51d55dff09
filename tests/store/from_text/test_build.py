"""Text becomes a store: the same matrix that scikit-learn counts, wherever the blocks are cut."""

import time

import dask
import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

from dspectral.store.from_text import build, counting
from dspectral.store.from_text.build import build_store
from dspectral.store.location import StoreError
from dspectral.store.vocabulary import VocabularySettings
from dspectral.text.hashing import HashingSettings
from tests.store.contents import contents

HASHING = HashingSettings(n_features=256, ngram_range=(1, 2))
LINES = [f"The cat word{i % 7} sat on mat {i}" if i % 10 else "" for i in range(90)]


@pytest.fixture
def text(tmp_path):
    (tmp_path / "first.txt").write_text("\n".join(LINES[:60]) + "\n", encoding="utf-8")
    (tmp_path / "second.txt").write_text("\n".join(LINES[60:]) + "\n", encoding="utf-8")
    return [str(tmp_path / "first.txt"), str(tmp_path / "second.txt")]


@pytest.fixture
def url(tmp_path):
    return str(tmp_path / "counts.zarr")


def hashed(lines, settings=HASHING):
    vectorizer = HashingVectorizer(n_features=settings.n_features, ngram_range=settings.ngram_range, norm=None)
    return vectorizer.transform(lines).toarray()


@pytest.mark.parametrize("block_bytes", [300, 1000, 1 << 20])
def test_an_exact_vocabulary_is_what_scikit_learn_counts(text, url, block_bytes):
    settings = VocabularySettings((1, 2), min_df=3, max_df=0.5)
    store = build_store(text, url, vocabulary=settings, block_bytes=block_bytes)
    vectorizer = CountVectorizer(ngram_range=(1, 2), min_df=3, max_df=0.5)
    expected = vectorizer.fit_transform(LINES)
    terms = store.vocabulary.terms
    assert sorted(terms) == sorted(vectorizer.vocabulary_)
    columns = [vectorizer.vocabulary_[term] for term in terms]
    assert np.array_equal(store.counts.compute().toarray(), expected.toarray()[:, columns])
    assert np.array_equal(store.vocabulary.document_frequency, store.document_frequency)
    assert np.array_equal(store.vocabulary.counts, store.column_sums)
    frequency = store.document_frequency
    order = sorted(range(len(terms)), key=lambda i: (-frequency[i], terms[i].encode()))
    assert order == list(range(len(terms)))


@pytest.mark.parametrize("repeated", [True, False])
@pytest.mark.parametrize("settings", [{"hashing": HASHING}, {"vocabulary": VocabularySettings(max_df=0.9)}])
def test_appended_text_comes_behind_with_the_same_columns(text, url, settings, repeated):
    old = build_store(text[0], url, **settings)
    terms = old.vocabulary and old.vocabulary.terms
    new = build_store(text[1], url, append=True, block_bytes=200, **(settings if repeated else {}))
    assert (old.counts.compute().shape[0], new.n_rows) == (60, 90)
    if terms is None:
        expected = hashed(LINES)
    else:
        expected = CountVectorizer(vocabulary=terms).transform(LINES).toarray()
        assert new.vocabulary.terms == terms
    assert np.array_equal(new.counts.compute().toarray(), expected)
    assert np.array_equal(new.column_sums, expected.sum(axis=0))
    assert np.array_equal(new.document_frequency, (expected != 0).sum(axis=0))
    assert len(new.provenance["appended"]) == 1


def test_other_settings_are_not_appended(text, url):
    build_store(text[0], url, hashing=HASHING)
    before = contents(url)
    other = HASHING._replace(n_features=512)
    with pytest.raises(StoreError, match=r"hashing.*512.*256"):
        build_store(text[1], url, hashing=other, append=True)
    with pytest.raises(StoreError, match=r"hashing.*None"):
        build_store(text[1], url, vocabulary=VocabularySettings(), append=True)
    assert contents(url) == before


@pytest.mark.parametrize("settings", [{"hashing": HASHING}, {"vocabulary": VocabularySettings()}])
def test_an_error_is_raised_once_the_tasks_under_way_have_ended(tmp_path, url, settings, monkeypatch):
    (tmp_path / "a.txt").write_bytes(b"the cat sat\n" * 20 + b"\xff" * 240)
    begun, ended = [], []

    def slowly(function):
        def call(*args, **how):
            begun.append(args)
            time.sleep(0.05)
            actual = function(*args, **how)
            ended.append(args)
            return actual

        return call

    monkeypatch.setattr(build, "write_block", slowly(build.write_block))
    monkeypatch.setattr(counting, "write_array", slowly(counting.write_array))
    with dask.config.set(num_workers=2), pytest.raises(ValueError, match="UTF-8"):
        build_store(str(tmp_path / "a.txt"), url, block_bytes=240, **settings)
    assert len(begun) == len(ended) > 0
