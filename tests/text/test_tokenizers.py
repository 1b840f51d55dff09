"""Tokenizers of a user's own: their tokens become n-grams as scikit-learn's do, and they are known by name."""

import re
import sys

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

import dspectral
from dspectral import (
    NgramHashing,
    TextFiles,
    Texts,
    VocabularySettings,
    build_corpus,
    build_store,
    open_store,
)
from dspectral.store import StoreError
from dspectral.text.hashing import HashingSettings, hash_documents
from dspectral.text.tokenizers import Tokenizer, tokenize_documents
from dspectral.text.tokens import PADDING
from dspectral.types import Documents

PIECES = re.compile(r"#?\w+(?:-\w+)*|[.,!?]")
LINES = [
    "The e-mail, of a #Cat!",
    "",
    "A  cat? \u0130stanbul e-mail",
    "I am; the e-mail.",
    "\u00e4 \U0001f600 a",
] * 5
HERE = f"{__name__}:pieces"


def pieces(text):
    return PIECES.findall(text)


def others(text):
    return text.split()


def blanks_inside(text):
    return ["New York", " the ", "", "\t", "a\x01b\nc", *text.split()]


class Versioned:
    """What an object needs to be known: a name and a version."""

    def __init__(self, version):
        self.name, self.version = "mine", version

    def __call__(self, text):
        return pieces(text)


def written(tmp_path, lines=LINES):
    (tmp_path / "lines.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(tmp_path / "lines.txt")


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("tokenizer", [pieces, HERE, Versioned("1")])
def test_hashed_tokens_are_those_of_scikit_learn(lowercase, tokenizer):
    settings = {"n_features": 256, "ngram_range": (1, 3), "lowercase": lowercase}
    reference = HashingVectorizer(**settings, norm=None, tokenizer=pieces, token_pattern=None).transform(LINES)
    rows = NgramHashing(**settings, tokenizer=tokenizer).transform(LINES)
    np.testing.assert_array_equal(rows.toarray(), reference.toarray())


def test_a_vocabulary_of_tokens_is_that_of_scikit_learn(tmp_path):
    reference = CountVectorizer(ngram_range=(1, 2), tokenizer=pieces, token_pattern=None)
    expected = reference.fit_transform(LINES).toarray()
    settings = VocabularySettings((1, 2), tokenizer=pieces)
    store = build_store(written(tmp_path), str(tmp_path / "s"), vocabulary=settings, block_bytes=100)
    order = [reference.vocabulary_[term] for term in store.vocabulary.terms]
    np.testing.assert_array_equal(store.counts.compute().toarray(), expected[:, order])
    assert store.provenance["vocabulary"]["tokenizer"] == {"name": HERE}
    more = build_store(written(tmp_path), str(tmp_path / "s"), vocabulary=settings, append=True)
    assert more.n_rows == 2 * len(LINES)


def test_a_corpus_takes_a_tokenizer(tmp_path):
    corpus = build_corpus(written(tmp_path), str(tmp_path / "c"), tokens=pieces, lowercase=True, block_bytes=100)
    ids = [block.sentence(i) for block in map(corpus.sentences.read, corpus.blocks) for i in range(block.n_sentences)]
    assert [[corpus.words[word] for word in sentence] for sentence in ids] == [pieces(line.lower()) for line in LINES]
    assert corpus.provenance["corpus"]["tokens"] == {"name": HERE}


def test_a_tokenizer_is_kept_by_name_and_compared_by_it(tmp_path):
    hashing = NgramHashing(64, (1, 2), tokenizer=pieces)
    store = build_store(written(tmp_path), str(tmp_path / "s"), hashing=hashing)
    assert store.provenance["hashing"]["tokenizer"] == {"name": HERE}
    expected = hashing.settings
    assert expected == NgramHashing(64, (1, 2), tokenizer=HERE).settings == open_store(str(tmp_path / "s")).hashing
    assert hashing.transform(store) is store
    for other in (NgramHashing(64, (1, 2)), NgramHashing(64, (1, 2), tokenizer=others)):
        assert other.settings != expected
        with pytest.raises(ValueError, match=f"tokenizer='{HERE}'"):
            other.transform(store)
    with pytest.raises(StoreError, match=rf"hashing.*{re.escape(str(tmp_path))}"):
        build_store(written(tmp_path), str(tmp_path / "s"), hashing=NgramHashing(64, (1, 2)), append=True)
    assert build_store(written(tmp_path), str(tmp_path / "s"), hashing=hashing, append=True).n_rows == 50
    files = hashing.transform(TextFiles(written(tmp_path)))
    np.testing.assert_array_equal(files.compute().toarray(), store.counts.compute().toarray())


def test_store_without_its_tokenizer_reads_and_refuses_to_append(tmp_path, monkeypatch):
    (tmp_path / "gone_tokenizer.py").write_text("def cut(text):\n    return text.split()\n")
    monkeypatch.syspath_prepend(tmp_path)
    store = build_store(
        written(tmp_path), str(tmp_path / "s"), hashing=NgramHashing(64, tokenizer="gone_tokenizer:cut")
    )
    (tmp_path / "gone_tokenizer.py").unlink()
    monkeypatch.delitem(sys.modules, "gone_tokenizer")
    monkeypatch.setattr("dspectral.text.tokenizers._REGISTERED", {})
    again = open_store(str(tmp_path / "s"))
    np.testing.assert_array_equal(again.counts.compute().toarray(), store.counts.compute().toarray())
    with pytest.raises(ValueError, match="'gone_tokenizer:cut'"):
        build_store(written(tmp_path), str(tmp_path / "s"), hashing=again.hashing, append=True)
    with pytest.raises(ValueError, match=r"'gone_tokenizer:cut'.*No module named"):
        NgramHashing(tokenizer="gone_tokenizer:cut").fit()


@pytest.mark.parametrize("tokenizer", [pieces, HERE, Versioned("2")])
def test_a_saved_transformer_keeps_its_tokenizer_by_name(tmp_path, tokenizer):
    hashing = NgramHashing(64, tokenizer=tokenizer)
    dspectral.save(hashing, str(tmp_path / "m"))
    loaded = dspectral.load(str(tmp_path / "m"))
    assert loaded.settings == hashing.settings
    if isinstance(tokenizer, Versioned):
        with pytest.raises(ValueError, match=r"'by blanks 3'|tokenizer="):
            loaded.transform(LINES)
        loaded.set_params(tokenizer=tokenizer)
    np.testing.assert_array_equal(loaded.transform(LINES).toarray(), hashing.transform(LINES).toarray())


@pytest.mark.parametrize("name", ["os:system", "dask.utils:os.system", "numpy:f2py.os.system", "builtins:exec"])
def test_no_function_is_called_because_a_file_names_it(name):
    with pytest.raises(ValueError, match=re.escape(name)):
        Tokenizer(name).resolve()


@pytest.mark.parametrize(
    ("tokenizer", "sentence"),
    [
        (lambda text: text.split(), "'.*<lambda>'"),
        (str, "version"),
        ("os:nothing", "'module:function'"),
    ],
)
def test_what_has_no_name_is_refused(tmp_path, tokenizer, sentence):
    with pytest.raises((ValueError, TypeError), match=f"tokenizer.*{sentence}"):
        NgramHashing(tokenizer=tokenizer).fit()
    with pytest.raises((ValueError, TypeError), match=sentence):
        build_store(written(tmp_path), str(tmp_path / "s"), vocabulary=VocabularySettings(tokenizer=tokenizer))
    if not isinstance(tokenizer, str):
        with pytest.raises((ValueError, TypeError), match=f"tokens.*{sentence}"):
            build_corpus(written(tmp_path), str(tmp_path / "c"), tokens=tokenizer)
    assert not (tmp_path / "s").exists()


def test_blanks_inside_tokens_become_underscores_and_empty_tokens_go():
    tokens = tokenize_documents(Documents.from_strings(["x", ""]), True, blanks_inside)
    assert tokens.text[:-PADDING].tobytes() == b"New_York the a_b_c x New_York the a_b_c "
    assert tokens.bounds.tolist() == [0, 4, 7]


def no_list(text):
    return text


def numbers(text):
    return [1]


def half(text):
    return ["\ud800"]


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (no_list, "'text'.*document 0"),
        (numbers, "token 1.*document 0"),
        (half, "UTF-8"),
    ],
)
def test_a_tokenizer_that_returns_something_else_is_named(function, sentence):
    with pytest.raises((TypeError, ValueError), match=rf"'.*:{function.__name__}'.*{sentence}"):
        hash_documents(Documents.from_strings(["text"]), HashingSettings(tokenizer=function))


def test_a_store_counts_texts_in_the_form_that_it_was_built_in():
    texts = ["caf\u00e9 red", "cafe\u0301 blue"]
    settings = VocabularySettings(normalize="NFC")
    store = build_store(Texts(texts), "memory://of-one-form", vocabulary=settings)
    assert (store.count(texts) != store.counts.compute()).nnz == 0
    assert store.vocabulary.terms.count("caf\u00e9") == 1
