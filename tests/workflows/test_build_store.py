import json

import pytest
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

from dspectral import open_store
from workflows import brown_clusters, build_store, word_embeddings
from workflows._parts.text_options import reading

LINES = ["the cat sat on the mat", "the dog sat", "a cat and a dog", "the mat", "no more"]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def build(tmp_path):
    def run(*options):
        build_store.main(["--store", str(tmp_path / "store"), "--out", str(tmp_path / "out"), *options])
        report = json.loads((tmp_path / "out" / "report.json").read_text())
        store = open_store(str(tmp_path / "store"))
        return store, report, {row["metric"]: row["value"] for row in report["rows"]}

    return run


def test_text_is_hashed_in_one_pass_and_described(build, text, tmp_path):
    store, report, value = build("--text", text, "--columns-bits", "10", "--block-bytes", "30")
    expected = HashingVectorizer(n_features=1 << 10, norm=None).transform(LINES)
    assert (store.counts.compute() != expected).nnz == 0
    assert report["passes"] == 1
    assert {row["method"] for row in report["rows"]} == {"hashing"}
    assert (value["rows"], value["columns"], value["nnz"]) == (5, 1 << 10, store.nnz)
    assert value["blocks"] == len(store.counts.chunks[0]) > 1
    assert value["bytes"] == sum(path.stat().st_size for path in (tmp_path / "store").rglob("*") if path.is_file())
    assert value["documents_per_second"] > 0
    assert report["plots"] == ["block_sizes.png", "document_frequency.png"]


def test_a_vocabulary_takes_two_passes(build, text):
    store, report, value = build("--text", text, "--vocabulary", "--min-document-frequency", "2", "--ngrams", "1", "2")
    expected = CountVectorizer(min_df=2, ngram_range=(1, 2)).fit(LINES)
    assert set(store.vocabulary.terms) == set(expected.vocabulary_)
    assert value["columns"] == len(expected.vocabulary_)
    assert report["passes"] == 2
    assert {row["method"] for row in report["rows"]} == {"vocabulary"}


def test_a_folder_of_files_in_another_encoding_and_form_is_read(build, tmp_path):
    folder = tmp_path / "exports"
    folder.mkdir()
    for number, line in enumerate(LINES):
        rows = f"id;body\n{number};caf\xe9 {line}\n"
        (folder / f"{number}.csv").write_text(rows, encoding="cp1252")
    store, _, _ = build("--text", str(folder), "--field", "body", "--encoding", "cp1252", "--columns-bits", "8")
    lines = [f"caf\xe9 {line}" for line in LINES]
    expected = HashingVectorizer(n_features=1 << 8, norm=None).transform(lines)
    assert (store.counts.compute() != expected).nnz == 0


def test_programs_that_read_text_have_the_same_options_for_it(text):
    for program in (build_store, brown_clusters, word_embeddings):
        parser = program.options()
        where = ["--text", text, "--store", "s"] if program is build_store else ["--corpus", text]
        given = ["--unit", "field", "--field", "body", "--encoding", "latin-1", "--delimiter", ";"]
        arguments = parser.parse_args([*where, *given, "--errors", "replace", "--out", "o"])
        assert reading(arguments) == {
            "unit": "field",
            "field": "body",
            "encoding": "latin-1",
            "delimiter": ";",
            "errors": "replace",
            "max_document_bytes": 16 << 20,
            "long_documents": "error",
            "missing": None,
            "format": None,
        }
