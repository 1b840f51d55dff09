import sysconfig
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from dspectral import load, write_counts
from dspectral.datasets import standard_library_documents, standard_library_intents
from dspectral.datasets.standard_library import LabeledDocuments
from dspectral.decomposition.frequent_directions import FrequentDirections
from tests.methods.sentences.test_sentences import sentences
from tests.strategies import zipf_counts
from tests.workflows.programs import report_of, words
from workflows import demo


def write_tsv(path, n, seed):
    texts, labels = sentences(n, seed)
    lines = [f"{text}\t{label}" for text, label in zip(texts, labels, strict=True)]
    path.write_text("\n".join(["text\tintent", *lines]) + "\n")
    return str(path)


@pytest.fixture
def files(tmp_path):
    unlabelled = tmp_path / "queries.txt"
    unlabelled.write_text("\n".join(sentences(1500, seed=9)[0]))
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("2 2\njazz 1 0\nflight 0 1\n")
    return {
        "train": write_tsv(tmp_path / "train.tsv", 60, 1),
        "test": write_tsv(tmp_path / "test.tsv", 200, 2),
        "unlabeled": str(unlabelled),
        "vectors": str(vectors),
    }


def test_report_has_the_rows_that_scripts_rely_on(files, tmp_path):
    options = [f"--{name}={value}" for name, value in files.items()]
    more = words("--shares 0 0.5 --labelled 5 --draws 2 --n-components 6 --columns-bits 12 --method auto")
    report = report_of("intent_classification", tmp_path, *options, *more)
    scores = {(r["method"], r["unlabeled"]): r for r in report["rows"] if r["metric"] == "accuracy"}
    accuracy = {key: row["value"] for key, row in scores.items()}
    methods = ("none", "vectors", "sent", "sent+", "sketch", "idf", "idf+sent", "auto", "characters")
    assert set(accuracy) == {(m, s) for m in methods for s in (0.0, 0.5, 1.0)}
    chosen = {r["unlabeled"]: r["settings"] for r in report["rows"] if r["method"] == "auto" and "settings" in r}
    assert set(chosen) == {0.0, 0.5, 1.0}
    assert chosen[1.0] in report["answer"]
    assert accuracy["sent", 1.0] > accuracy["none", 1.0]
    intents = {r["intent"] for r in report["rows"] if r["metric"] == "recall" and r["method"] == "sent"}
    assert intents == {"music", "travel", "food"}
    # The store knows its frequencies, parts of it do not; each draw has parts of its own.
    assert report["passes"] == 1 + 2 * (2 + 2)
    assert scores["sent", 0.0]["over_share_0"] == 0.0
    assert scores["sent", 1.0]["over_share_0"] == pytest.approx(accuracy["sent", 1.0] - accuracy["sent", 0.0])
    texts, intents = sentences(50, 3)
    assert load(str(tmp_path / "model")).score(texts, intents) > 0.5


def test_the_demo_shows_that_unlabelled_text_helps(tmp_path, monkeypatch):
    """On four packages: all of the text is above the labelled part alone by more than two standard errors."""
    names = ("asyncio", "email", "unittest", "xml", "http")
    root = Path(sysconfig.get_path("stdlib"))
    actual = [(name, standard_library_documents(root / name).texts) for name in names]
    labels, texts = zip(*((name, text) for name, of in actual for text in of), strict=True)
    documents = LabeledDocuments(list(texts), list(labels), [])
    monkeypatch.setattr(demo, "standard_library_intents", partial(standard_library_intents, documents=documents))
    few = "--packages 4 --labelled 10 --draws 3 --shares 0 --n-components 20 --columns-bits 12"
    report = report_of("demo", tmp_path, *words(few))
    row = next(r for r in report["rows"] if r["method"] == "sent" and r["unlabeled"] == 1.0)
    assert row["over_share_0"] > 2 * row["over_share_0_error"] > 0
    assert "`sent`" in report["answer"]


def test_sketch_scaling_of_a_store_measures_the_same_error_as_numpy(tmp_path):
    counts = zipf_counts(300, 80, 10)
    write_counts(counts, str(tmp_path / "counts.zarr"), block_rows=100)
    options = ["--store", tmp_path / "counts.zarr", "--sketch-size", 10]
    of = {row["metric"]: row["value"] for row in report_of("sketch_scaling", tmp_path / "out", *options)["rows"]}
    dense = counts.toarray()
    blocks = [FrequentDirections.from_block(dense[i : i + 100], size=10) for i in (0, 100, 200)]
    merged = blocks[0].merge(blocks[1]).merge(blocks[2])
    truth = np.linalg.norm(dense.T @ dense - merged.sketch.T @ merged.sketch, 2)
    assert of["error"] == pytest.approx(truth, rel=0.02)
    assert of["error"] <= of["certificate"] <= of["bound"]
