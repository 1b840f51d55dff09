"""Advice of errors: a call fails, names an option or a call, and succeeds at the same place with it."""

import warnings
from functools import partial

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from dspectral import (
    HybridLSI,
    Texts,
    TfidfWeighting,
    Topics,
    TreePCA,
    TruncatedSVD,
    VocabularySettings,
    build_store,
    load,
    nearest,
    open_store,
    read_word2vec,
    save,
    top_terms,
    write_counts,
)

TEXTS = ["the cat purrs and sleeps", "the dog barks and runs", "ships sail the sea"] * 4
TABLE = pd.DataFrame({"id": ["x", "y"], "text": ["the cat", "a dog"]})
COUNTS = np.random.default_rng(0).poisson(1.0, (30, 8)).astype(float)
LAZY = da.from_array(COUNTS, chunks=(15, 4))
PAIRS, TREES = [["a", "b"]] * 9, [[*"abcd"]] * 9
NAMES, WORDS = [*"abcdefgh"], VocabularySettings()
LATIN, RECORDS = "café noir\nthé vert\n".encode("latin-1"), b'{"text": "ab cd"}\n{"text": null}\n'
CSV, CARET, LONG = b"id,text\n1,the cat\n", b"id^text\n1^the cat\n", b"word " * 99 + b"\nbb cc\n"


def read(at, content, name="a.txt", pattern="", call=build_store, **options):
    """Call a builder, or a reader, with one file."""
    (at / name).parent.mkdir(parents=True, exist_ok=True)
    (at / name).write_bytes(content)
    return call(str(at / (pattern or name)), *([] if call is read_word2vec else [str(at / "store")]), **options)


def make(at, texts=None, build=build_store, **options):
    return build(Texts(TEXTS) if texts is None else texts, str(at / "store"), **options)


def search(at, rows=lambda store: store, model=True, **options):
    store = make(at, vocabulary=WORDS, overwrite=True, keep_texts=True)
    return nearest(TruncatedSVD(2).fit(store.tfidf()) if model else None, rows(store), "the cat", **options)


def fit(_, model, X=COUNTS, **arguments):
    return clone(model).fit(X, **arguments)


def act(at, model=None, do=lambda model, _: model, X=COUNTS, before=()):
    """Call a function of a fitted model and a path, at which other calls were made before."""
    for call in before:
        call(at)
    return do(model and clone(model).fit(X), str(at / "store")) or True


def topics(stop_words=(), **options):
    return Topics(2, min_df=1, max_df=1.0, stop_words=stop_words, **options)


LIMIT, SVD = {"content": LONG, "max_document_bytes": 99}, TruncatedSVD(2)
ADVICE = [  # call, its arguments, words of the error, arguments that it advises
    (read, {"content": LATIN}, "errors='replace'", {"errors": "replace"}),
    (read, {"content": LATIN}, "encoding=, such as 'cp1252'", {"encoding": "cp1252"}),
    (read, {"content": b"2 1\n\xe9 1\nb 3\n", "call": read_word2vec}, "errors='replace'", {"errors": "replace"}),
    (read, LIMIT, "'skip'", {"long_documents": "skip"}),
    (read, LIMIT, "max_document_bytes allows", {"max_document_bytes": 999}),
    (read, {"content": RECORDS, "field": "text"}, "missing='empty'", {"missing": "empty"}),
    (read, {"content": CSV, "name": "a.csv"}, "field= must name", {"field": "text"}),
    (read, {"content": CARET, "name": "a.csv", "field": "text"}, "delimiter=", {"delimiter": "^"}),
    (read, {"content": b"ab", "name": "a.dat"}, "unit='line'", {"unit": "line"}),
    (read, {"content": b"ab", "name": "d/a.dat", "pattern": "d"}, "format=", {"format": "txt"}),
    (read, {"content": b"ab", "name": "d/e/a.txt", "pattern": "d"}, r"d/\*\*/\*\.txt", {"pattern": "d/**/*.txt"}),
    (make, {"texts": ["the cat"]}, r"dspectral\.Texts", {"texts": Texts(["the cat"])}),
    (make, {"texts": TABLE}, "field=", {"field": "text"}),
    (make, {"texts": Texts(TABLE["text"]), "id_field": "id"}, "field=", {"texts": TABLE, "field": "text"}),
    (make, {"unit": "line"}, "unit='line' must be None", {"unit": None}),
    (make, {"vocabulary": VocabularySettings(min_df=99)}, "lower min_df", {"vocabulary": WORDS}),
    (make, {"append": True}, "build it first", {"append": False}),
    (search, {"model": False}, "pass the fitted model", {"model": True}),
    (search, {"rows": lambda store: store.tfidf()}, "pass the store itself", {"rows": lambda store: store}),
    (fit, {"model": Topics(8)}, "lower min_df", {"model": Topics(8, min_df=1, max_df=1.0)}),
    (fit, {"model": topics(["cat"])}, r"fit\(X, terms=", {"terms": NAMES}),
    (fit, {"model": SVD, "X": COUNTS[0]}, r"reshape\(-1, 1\)", {"X": COUNTS[0].reshape(1, -1)}),
    (fit, {"model": HybridLSI(2, alpha=0.5)}, "set alpha=0", {"model": HybridLSI(2, alpha=0)}),
    (fit, {"model": TreePCA(), "X": TREES}, "n_components=None", {"model": TreePCA(2)}),
    (act, {"do": lambda _, path: save(SVD, path)}, "call fit before", {"model": SVD, "do": save}),
    (act, {"do": lambda _, path: load(path)}, "write one with save", {"before": [partial(act, model=SVD, do=save)]}),
    (act, {"do": lambda _, path: open_store(path)}, "with build_store", {"before": [make]}),
    (act, {"model": SVD, "do": lambda m, _: top_terms(m)}, "terms=", {"do": lambda m, _: top_terms(m, terms=NAMES)}),
    (
        act,
        {"model": SVD, "do": lambda m, path: [save(m, path) for _ in range(2)]},
        "overwrite=True replaces it",
        {"do": lambda m, path: save(m, path, overwrite=True)},
    ),
    (
        act,
        {"do": lambda _, path: write_counts(-COUNTS, path)},
        "signed=True",
        {"do": lambda _, path: write_counts(-COUNTS, path, signed=True)},
    ),
    (
        act,
        {"do": lambda _, path: open_store(path).text(0), "before": [make]},
        "keep_texts=True",
        {"before": [partial(make, keep_texts=True, overwrite=True)]},
    ),
    (
        act,
        {"do": lambda _, path: TfidfWeighting().fit(open_store(path).tfidf()), "before": [make]},
        "pass the store itself",
        {"do": lambda _, path: TfidfWeighting().fit(open_store(path))},
    ),
]


@pytest.mark.parametrize(("call", "arguments", "words", "advised"), ADVICE)
def test_advice_of_an_error_is_what_succeeds(tmp_path, call, arguments, words, advised):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((ValueError, TypeError, OSError, RuntimeError), match=words):
            call(tmp_path, **arguments)
        assert call(tmp_path, **arguments | advised) is not None
