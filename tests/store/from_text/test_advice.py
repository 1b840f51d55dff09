"""Advice of errors: each call fails, names an option or a call, and succeeds as advised, at the same store."""

import numpy as np
import pandas as pd
import pytest

from dspectral.store.corpus import open_corpus
from dspectral.store.counts import open_store
from dspectral.store.from_text.build import build_store
from dspectral.store.from_text.corpus_build import build_corpus
from dspectral.store.from_text.texts import Texts
from dspectral.store.location import StoreError
from dspectral.store.matrix import write_counts
from dspectral.store.vocabulary import VocabularySettings

LATIN = "café noir\nthé vert\n".encode("latin-1")
LONG = b"word " * 99 + b"\nbb cc\n"
CSV = b"id,text\n1,the cat\n2,a dog\n"
ADVICE = [  # file, its content, options of the call, words of the error, options advised, documents then
    ("a.txt", LATIN, {}, "errors='replace'", {"errors": "replace"}, 2),
    ("a.txt", LATIN, {}, "encoding=, such as 'cp1252'", {"encoding": "cp1252"}, 2),
    ("a.txt", "ab cd\nef\n".encode("utf-16"), {}, "encoding=, such as 'utf-16'", {"encoding": "utf-16"}, 2),
    ("a.txt", LONG, {"max_document_bytes": 99}, "'skip'", {"long_documents": "skip"}, 2),
    (
        "a.txt",
        b"word " * 99 + b"\nbb cc\n",
        {"max_document_bytes": 99},
        "'truncate'",
        {"long_documents": "truncate"},
        2,
    ),
    ("a.txt", LONG, {"max_document_bytes": 99}, "allows more", {"max_document_bytes": 999}, 2),
    ("a.jsonl", b'{"text": "ab cd"}\n{"text": null}\n', {"field": "text"}, "'skip'", {"missing": "skip"}, 1),
    ("a.jsonl", b'{"text": "ab cd"}\n{"text": null}\n', {"field": "text"}, "missing='empty'", {"missing": "empty"}, 2),
    ("a.csv", CSV, {}, "field= must name", {"field": "text"}, 2),
    ("a.csv", CSV.replace(b",", b"^"), {"field": "text"}, "delimiter=", {"delimiter": "^"}, 2),
    ("a.txt", CSV, {"field": "te"}, "unit='line'", {"unit": "line", "field": None}, 3),
    ("a.dat", CSV, {"unit": "field"}, "format=", {"format": "csv", "field": "text"}, 2),
    ("a.dat/b.xyz", b"ab cd\nef\n", {}, "format=", {"format": "txt"}, 2),
]


def warns_of(options):
    """Return the context in which a call with these options runs."""
    return pytest.warns(UserWarning, match="document") if "long_documents" in options else pytest.MonkeyPatch.context()


@pytest.mark.parametrize("build", [build_store, build_corpus])
@pytest.mark.parametrize(("name", "content", "options", "words", "advised", "n"), ADVICE)
def test_option_that_an_error_names_works(tmp_path, build, name, content, options, words, advised, n):
    file, store = tmp_path / name, str(tmp_path / "store")
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    source = str(tmp_path / name.partition("/")[0])
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        build(source, store, **options)
    with warns_of(advised):
        built = build(source, store, **{**options, **advised})
    assert (built.n_sentences if build is build_corpus else built.n_rows) == n


MINUS = -np.eye(1)
TABLE = pd.DataFrame({"id": ["x", "y"], "text": ["the cat", "a dog"]})
CALLS = [  # call, words of the error, call as advised
    (lambda at: build_store(["the cat"], at), r"dspectral\.Texts", lambda at: build_store(Texts(["the cat"]), at)),
    (
        lambda at: build_store(Texts(TABLE["text"]), at, id_field="id"),
        "needs field=",
        lambda at: build_store(TABLE, at, field="text", id_field="id"),
    ),
    (
        lambda at: build_store(Texts(["ab cd"]), at, unit="line"),
        "unit='line' must be None",
        lambda at: build_store(Texts(["ab cd"]), at),
    ),
    (
        lambda at: build_store(Texts(["ab cd"]), at, vocabulary=VocabularySettings(min_df=2)),
        "lower min_df",
        lambda at: build_store(Texts(["ab cd"]), at, vocabulary=VocabularySettings(min_df=1)),
    ),
    (
        lambda at: build_store(Texts(["ab", None]), at),
        "missing='empty'",
        lambda at: build_store(Texts(["ab", None]), at, missing="empty"),
    ),
    (
        lambda at: build_store(Texts(["ab cd"]), at, append=True),
        "build it first",
        lambda at: build_store(Texts(["ab cd"]), at),
    ),
    (lambda at: write_counts(MINUS, at), "signed=True", lambda at: write_counts(MINUS, at, signed=True)),
]


@pytest.mark.parametrize(("call", "words", "advised"), CALLS)
def test_call_that_an_error_names_works(tmp_path, call, words, advised):
    store = str(tmp_path / "store")
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=words):
        call(store)
    assert advised(store).n_rows == open_store(store).n_rows > 0


def build_labels(source, store, **options):
    return build_store(source, store, vocabulary=VocabularySettings(), **options)


@pytest.mark.parametrize(
    ("build", "other", "open_it", "n_ways"),
    [
        (build_store, Texts(["a bird sings"]), open_store, 3),
        (build_labels, Texts(["a bird sings"]), open_store, 3),
        (write_counts, np.eye(1) + 2, open_store, 3),
        (build_corpus, Texts(["a bird sings"]), open_corpus, 2),
    ],
)
def test_finished_store_is_opened_extended_or_replaced_as_advised(tmp_path, build, other, open_it, n_ways):
    store, source = str(tmp_path / "store"), np.eye(1) if build is write_counts else Texts(["the cat", "a dog"])
    size = lambda built: getattr(built, "n_rows", None) or built.n_sentences  # noqa: E731
    n_rows = size(build(source, store))
    with pytest.warns(UserWarning, match="was opened: overwrite=True"):
        assert size(build(source, store)) == n_rows
    with pytest.raises(StoreError, match=rf"{open_it.__name__} opens it, .*overwrite=True") as raised:
        build(other, store)
    assert ("append=True" in str(raised.value)) == (n_ways == 3)
    assert size(open_it(store)) == n_rows
    if n_ways == 3:
        assert size(build(other, store, append=True)) == n_rows + 1
        with pytest.raises(StoreError, match="rows"):  # the first rows are not all of them
            build(source, store)
    for _ in range(2):
        assert size(build(other, store, overwrite=True)) == size(open_it(store)) == 1
        open_it(store).check()


def test_store_of_other_settings_is_opened_or_replaced(tmp_path):
    store = str(tmp_path / "store")
    build_store(Texts(["the cat"]), store)
    with pytest.raises(StoreError, match="with other hashing, vocabulary: open_store opens it, overwrite=True"):
        build_labels(Texts(["the cat"]), store)
    assert build_labels(Texts(["the cat"]), store, overwrite=True).vocabulary.terms == ["cat", "the"]
    with pytest.raises(ValueError, match="exclude each other"):
        build_labels(Texts(["the cat"]), store, overwrite=True, append=True)
    with pytest.raises(StoreError, match=r"finished store at .* choose another path"):
        build_corpus(Texts(["the cat"]), store, overwrite=True)


def test_lazy_rows_of_the_same_name_are_not_taken_for_the_finished_ones(tmp_path):
    rows, store = pytest.importorskip("dask.array").ones((4, 2), chunks=2), str(tmp_path / "store")
    write_counts(rows, store)
    with pytest.raises(StoreError, match="open_store opens it"):
        write_counts(rows, store)


def test_changed_texts_in_memory_start_an_interrupted_build_again(tmp_path):
    store = str(tmp_path / "store")
    first = [f"old {i}" for i in range(50)]
    with pytest.raises(TypeError, match="missing='empty'"):
        build_store(Texts([*first, None]), store, block_bytes=64)
    built = build_store(Texts(["new ab", "new cd"]), store, block_bytes=64, vocabulary=VocabularySettings())
    assert built.vocabulary.terms == ["new", "ab", "cd"]
