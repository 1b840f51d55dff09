"""Collections of texts, tables, tokenizers and tagged sentences of other programs."""

from functools import cache
from importlib import import_module

import numpy as np
import pytest

from dspectral import NgramHashing, VocabularySettings, build_store
from dspectral.io import read_conll
from tests.interop.rows import row

TEXTS = ["the café isn't open", "Don't panic", "to be or not to be", "", "the end of the café"] * 6
EXPECTED = NgramHashing(2**10).transform(TEXTS).toarray()


def check_built(column, tmp_path, **options):
    store = build_store(column, str(tmp_path / "built"), hashing=NgramHashing(2**10), **options)
    assert np.array_equal(store.counts.compute().toarray(), EXPECTED)


def check_frame(frame, tmp_path):
    assert np.array_equal(NgramHashing(2**10).transform(frame["text"]).toarray(), EXPECTED)
    check_built(frame["text"], tmp_path / "column")
    check_built(frame, tmp_path / "frame", field="text")


@row(
    "Hugging Face Datasets",
    "from",
    "`NgramHashing` and `build_store` of a column, and of a `Dataset` with `field=`",
    packages="datasets",
)
def test_a_dataset_is_hashed_and_built_into_a_store(tmp_path):
    from datasets import Dataset

    check_frame(Dataset.from_dict({"text": TEXTS}), tmp_path)


@pytest.mark.parametrize(
    "package",
    [
        pytest.param(
            "polars",
            marks=row(
                "polars",
                "from",
                "`NgramHashing` and `build_store` of a `Series`, and of a `DataFrame` with `field=`",
            ),
        ),
        pytest.param(
            "pandas",
            marks=row(
                "pandas",
                "from",
                "`NgramHashing` and `build_store` of a `Series`, and of a `DataFrame` with `field=`",
            ),
        ),
    ],
)
def test_a_frame_is_hashed_and_built_into_a_store(package, tmp_path):
    check_frame(import_module(package).DataFrame({"text": TEXTS}), tmp_path)


@row(
    "polars",
    "from",
    "`build_store` of Parquet, CSV and JSON lines that `DataFrame.write_*` wrote",
    packages="polars pyarrow",
)
@pytest.mark.parametrize(
    ("name", "method"),
    [("texts.parquet", "write_parquet"), ("texts.csv", "write_csv"), ("texts.jsonl", "write_ndjson")],
)
def test_files_of_polars_are_built_into_a_store(name, method, tmp_path):
    import polars as pl

    getattr(pl.DataFrame({"id": range(30), "text": TEXTS}), method)(tmp_path / name)
    check_built(str(tmp_path / name), tmp_path, field="text")


def spacy_words(text):
    """Tokens of spaCy's English rules; at the top of a module, so that workers find it by its name."""
    return [token.text for token in english()(text)]


@cache
def english():
    import spacy

    return spacy.blank("en")


@row("spaCy", "inside", "its tokens as `NgramHashing(tokenizer=...)` and in an exact vocabulary")
def test_tokens_of_spacy_are_counted(tmp_path):
    store_path, text_path = str(tmp_path / "store"), tmp_path / "texts.txt"
    hashed = NgramHashing(2**10, tokenizer=spacy_words, lowercase=False).transform(["Don't panic"]).toarray()
    words = NgramHashing(2**10, tokenizer=str.split, lowercase=False).transform(["Do n't panic"]).toarray()
    assert np.array_equal(hashed, words)
    text_path.write_text("Don't panic\nthe café isn't open\n")
    settings = VocabularySettings(lowercase=False, tokenizer=spacy_words)
    store = build_store(str(text_path), store_path, vocabulary=settings)
    assert set(store.vocabulary.terms) == {"Do", "n't", "panic", "the", "café", "is", "open"}
    assert "spacy_words" in str(store.provenance)


CONLL_U = """\
# text = Don't panic.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVBP\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\tpanic\tpanic\tVERB\tVB\t_\t0\troot\t_\t_

# text = Café closed
1\tCafé\tcafé\tNOUN\tNN\t_\t2\tnsubj\t_\t_
2\tclosed\tclose\tVERB\tVBD\t_\t0\troot\t_\t_

"""


@row("conllu", "both", "`read_conll` and `conllu.parse_incr` read the same words and tags of CoNLL-U")
def test_conll_u_is_read_as_conllu_reads_it(tmp_path):
    import conllu

    (tmp_path / "one.conllu").write_text(CONLL_U, encoding="utf-8")
    actual = read_conll(tmp_path / "one.conllu", word_column=2, tag_column=4)
    with (tmp_path / "one.conllu").open(encoding="utf-8") as file:
        reference = [[token for token in s if isinstance(token["id"], int)] for s in conllu.parse_incr(file)]
    assert actual.words == [[token["form"] for token in sentence] for sentence in reference]
    assert actual.tags == [[token["upos"] for token in sentence] for sentence in reference]
    again = tmp_path / "again.conllu"
    again.write_text("".join(s.serialize() for s in conllu.parse(CONLL_U)), encoding="utf-8")
    assert read_conll(again, word_column=2, tag_column=4) == actual


@row("NLTK", "both", "`read_conll` and `ConllCorpusReader` read the same words and tags")
def test_tagged_sentences_are_read_as_nltk_reads_them(tmp_path, monkeypatch):
    monkeypatch.setattr("nltk.data.path", [str(tmp_path)])  # it reads what lies there alone
    from nltk.corpus.reader import ConllCorpusReader

    (tmp_path / "one.conll").write_text("the\tDT\ncat\tNN\n\nyes\tUH\n\n")
    reference = list(ConllCorpusReader(str(tmp_path), "one.conll", ("words", "pos")).tagged_sents())
    actual = read_conll(tmp_path / "one.conll")
    assert [list(zip(*pair, strict=True)) for pair in zip(actual.words, actual.tags, strict=True)] == reference
