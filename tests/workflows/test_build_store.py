import pytest
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

from dspectral import open_store
from tests.workflows.programs import report_of

LINES = ["the cat sat on the mat", "the dog sat", "a cat and a dog", "the mat", "no more"]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def build(tmp_path):
    def run(*options):
        report = report_of("build_store", tmp_path / "out", "--store", tmp_path / "store", *options)
        store = open_store(tmp_path / "store")
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
