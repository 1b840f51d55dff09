"""Names that files hold pick no code: they are a type of their own from the reader on."""

import json
import sys

import pytest

from dspectral import (
    NgramHashing,
    Texts,
    Topics,
    TruncatedSVD,
    VocabularySettings,
    build_corpus,
    build_store,
    load,
    nearest,
    open_corpus,
    open_store,
    save,
)
from dspectral.text.tokenizers import _REGISTERED, as_tokenizer, tokenize_documents
from dspectral.types import Documents
from tests.trust.edits import edit

LINES = ["a red kite rises", "the red fox", "kite and fox run", "a fox rises", "kites", "a tree"] * 4
SETTINGS = {
    "vocabulary": {"vocabulary": VocabularySettings(tokenizer=str.split)},
    "hashing": {"hashing": NgramHashing(64, tokenizer=str.split)},
}
USES = {
    "count": lambda store, _: store.count(["red kite"]),
    "nearest of a slice": lambda store, _: nearest(TruncatedSVD(2).fit(store[:4].tfidf()), store[:4], "red kite"),
    "topics": lambda store, _: Topics(2, min_df=1, max_df=1.0).fit(store).transform(["red kite"]),
    "append by its settings": lambda store, place: build_store(Texts(LINES), place, **again(store), append=True),
    "its names in public places": lambda store, place: build_corpus(Texts(LINES), f"{place}-3", tokens=names_of(store)),
    "hashing by its name": lambda store, _: NgramHashing(64, tokenizer=names_of(store)).transform(LINES),
    "names of names": lambda store, place: build_store(
        Texts(LINES),
        f"{place}-2",
        vocabulary=VocabularySettings.from_record(VocabularySettings((1, 1), tokenizer=names_of(store)).record()),
    ),
}


def names_of(store):
    return (store.provenance["vocabulary"] or store.provenance["hashing"])["tokenizer"]


def again(store):
    settings = store.provenance["vocabulary"]
    if settings is None:
        return {"hashing": store.hashing}
    return {"vocabulary": VocabularySettings.from_record(settings)}


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A module whose import leaves a trace, and so does a call of its function."""
    name = f"planted_{tmp_path.name.replace('-', '_')}"
    code = (
        f"open({str(tmp_path / 'trace')!r}, 'w').close()\n"
        f"def cut(text):\n    open({str(tmp_path / 'trace')!r}, 'w').close()\n    return text.split()\n"
    )
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("dspectral.text.tokenizers._REGISTERED", {"builtins:str.split": str.split})
    yield f"{name}:cut", tmp_path / "trace"
    sys.modules.pop(name, None)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", SETTINGS)
def test_no_use_of_a_store_imports_what_it_names(tmp_path, planted, kind, use):
    name, trace = planted
    place = str(tmp_path / "store")
    build_store(Texts(LINES), place, **SETTINGS[kind])
    edit(tmp_path / "store" / "zarr.json", ("attributes", "dspectral", "provenance", kind, "tokenizer"), name)
    for _ in range(2):  # one use may not give the name for the next one
        with pytest.raises(ValueError, match=f"'{name}'.*pass the function"):
            USES[use](open_store(place), place)
    assert not trace.exists()
    assert name.split(":")[0] not in sys.modules
    assert name not in _REGISTERED


@pytest.mark.parametrize("kind", SETTINGS)
def test_a_tokenizer_that_is_given_counts_again(tmp_path, planted, kind):
    name, trace = planted
    settings = {"vocabulary": VocabularySettings(tokenizer=name), "hashing": NgramHashing(64, tokenizer=name)}
    place = str(tmp_path / "store")
    known = build_store(Texts(LINES), place, **{kind: settings[kind]}).count(["red kite"])
    trace.unlink()
    from dspectral.text import tokenizers  # noqa: PLC0415

    tokenizers._REGISTERED.clear()
    with pytest.raises(ValueError, match=r"tokenizer=.*open_store"):
        open_store(place).count(["red kite"])
    with pytest.raises(ValueError, match=f"'builtins:str.split'.*{name}"):
        open_store(place, tokenizer=str.split)
    assert (open_store(place, tokenizer=name).count(["red kite"]) != known).nnz == 0
    assert trace.exists()


def test_the_tokens_of_a_corpus_are_no_string(tmp_path, planted):
    name, trace = planted
    place = str(tmp_path / "corpus")
    assert build_corpus(Texts(LINES), place).provenance["corpus"]["tokens"] == "words"
    edit(
        tmp_path / "corpus" / "zarr.json",
        ("attributes", "dspectral-corpus", "provenance", "corpus", "tokens"),
        name,
    )
    with pytest.raises(ValueError, match=name):
        build_corpus(Texts(LINES), f"{place}-2", tokens=open_corpus(place).provenance["corpus"]["tokens"])
    assert not trace.exists()


def test_an_appended_store_names_no_function_either(tmp_path):
    settings = VocabularySettings(tokenizer=str.split)
    build_store(Texts(LINES), str(tmp_path / "store"), vocabulary=settings)
    built = build_store(Texts(LINES), str(tmp_path / "store"), vocabulary=settings, append=True)
    opened = open_store(str(tmp_path / "store"))
    assert built.provenance == opened.provenance
    for of in (opened.provenance, opened.provenance["appended"][0]):
        assert of["vocabulary"]["tokenizer"] == {"name": "builtins:str.split"}
    assert json.loads(opened.to_anndata().uns["dspectral"]["provenance"]) == opened.provenance
    on_disk = json.loads((tmp_path / "store" / "zarr.json").read_text())
    assert on_disk["attributes"]["dspectral"]["provenance"]["vocabulary"]["tokenizer"] == "builtins:str.split"


def test_a_bare_string_that_reaches_a_loop_is_not_imported(planted):
    name, trace = planted
    with pytest.raises(ValueError, match=name):
        tokenize_documents(Documents.from_strings(["a"]), True, name)
    assert not trace.exists()


class Versioned:
    def __init__(self):
        self.name, self.version = "by blanks", "3"

    def __call__(self, text):
        return text.split()


def test_an_object_that_load_is_given_is_found_by_its_name_and_version(tmp_path):
    save(NgramHashing(64, tokenizer=Versioned()).fit(LINES), str(tmp_path / "model"))
    with pytest.raises(ValueError, match="by blanks 3"):
        load(str(tmp_path / "model")).transform(LINES)
    assert load(str(tmp_path / "model"), classes=[Versioned()]).transform(LINES).shape == (24, 64)


@pytest.mark.parametrize("name", [3, None, ["os:system"], {"name": "os:system"}])
def test_a_record_of_a_tokenizer_is_a_name_and_nothing_else(planted, name):
    with pytest.raises(TypeError, match="tokenizer="):
        as_tokenizer({"name": name})
    with pytest.raises(TypeError, match="tokenizer="):
        as_tokenizer({"name": planted[0], "more": 1})
    with pytest.raises(ValueError, match=f"{planted[0]}' has no function"):
        NgramHashing(64, tokenizer={"name": planted[0]}).transform(LINES)
    assert not planted[1].exists()
