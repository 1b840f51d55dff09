import json
import sysconfig
from argparse import Namespace
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import joblib
import numpy as np
import pytest

from dspectral import SentenceRepresentation, build_store, load, write_counts
from dspectral.datasets import standard_library_documents, standard_library_intents
from dspectral.datasets.standard_library import LabeledDocuments
from dspectral.decomposition.frequent_directions import FrequentDirections
from tests import forked
from tests.methods.sentences.test_sentences import sentences
from tests.strategies import zipf_counts
from tests.workflows.programs import words
from workflows import demo, intent_classification, sketch_scaling
from workflows._parts import intent_scores
from workflows.benchmarks import lsi


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
    out = tmp_path / "out"
    options = [f"--{name}={value}" for name, value in files.items()]
    more = words("--shares 0 0.5 --labelled 5 --draws 2 --n-components 6 --columns-bits 12")
    intent_classification.main([*options, *more, "--method", "auto", "--out", str(out)])
    report = json.loads((out / "report.json").read_text())
    accuracy = {(r["method"], r["unlabeled"]): r["value"] for r in report["rows"] if r["metric"] == "accuracy"}
    methods = ("none", "vectors", "sent", "sent+", "sketch", "idf", "idf+sent", "auto", "characters")
    assert set(accuracy) == {(m, s) for m in methods for s in (0.0, 0.5, 1.0)}
    chosen = {r["unlabeled"]: r["settings"] for r in report["rows"] if r["method"] == "auto" and "settings" in r}
    for part, said in chosen.items():
        counted = {name: int(times or 2) for name, _, times in (one.partition(" ") for one in said.split(", "))}
        assert sum(counted.values()) == 2, part
        among = [accuracy[name, part] for name in counted]
        assert min(among) - 0.1 <= accuracy["auto", part] <= max(among) + 0.1
    assert set(chosen) == {0.0, 0.5, 1.0}
    assert chosen[1.0] in report["answer"]
    assert accuracy["sent", 1.0] > accuracy["none", 1.0]
    intents = {r["intent"] for r in report["rows"] if r["metric"] == "recall" and r["method"] == "sent"}
    assert intents == {"music", "travel", "food"}
    # The store knows its frequencies, parts of it do not; each draw has parts of its own.
    assert report["passes"] == 1 + 2 * (2 + 2)
    gains = {r["unlabeled"]: r for r in report["rows"] if r["metric"] == "accuracy" and r["method"] == "sent"}
    assert gains[0.0]["over_share_0"] == 0.0
    assert gains[1.0]["over_share_0"] == pytest.approx(accuracy["sent", 1.0] - accuracy["sent", 0.0])
    assert "2 draws" in report["answer"]
    model = load(str(out / "model"))
    assert np.mean(model.predict(sentences(50, 3)[0]) == sentences(50, 3)[1]) > 0.5


def test_at_share_zero_only_the_labelled_sentences_are_sketched(files, tmp_path):
    arguments = Namespace(train=files["train"], label=None)
    train, text = intent_classification.read_labeled(arguments, "train")[0], sentences(300, seed=9)[0]
    lines = tmp_path / "all.txt"
    lines.write_text("\n".join([*train.texts, *text]))
    hashing = SentenceRepresentation(n_features=1 << 12).word_hashing
    store = build_store(str(lines), str(tmp_path / "store"), hashing=hashing, block_bytes=1 << 10)
    assert len(store.counts.chunks[0]) > 3
    labelled = intent_classification.draw_labeled(train.intents, 4, seed=1)
    rows = intent_classification.select_share(store.n_rows, labelled, 0.0, seed=1)
    found = intent_classification.select_rows(store, rows).compute().toarray()
    assert found.shape[0] == 12
    alone = tmp_path / "alone.txt"
    alone.write_text("\n".join(train.texts[row] for row in sorted(labelled)))
    expected = build_store(str(alone), str(tmp_path / "alone"), hashing=hashing).counts.compute().toarray()
    np.testing.assert_array_equal(found, expected)


def test_the_demo_shows_that_unlabelled_text_helps(tmp_path, monkeypatch):
    """On four packages: all of the text is above the labelled part alone by more than two standard errors."""
    names = ("asyncio", "email", "unittest", "xml", "http")
    root = Path(sysconfig.get_path("stdlib"))
    found = [(name, standard_library_documents(root / name).texts) for name in names]
    texts = [text for _, of in found for text in of]
    labels = [name for name, of in found for _ in of]
    documents = LabeledDocuments(texts, labels, [])
    monkeypatch.setattr(demo, "standard_library_intents", partial(standard_library_intents, documents=documents))
    few = ["--packages", "4", "--labelled", "10", "--draws", "3", "--shares", "0", "--n-components", "20"]
    demo.main([*few, "--columns-bits", "12", "--out", str(tmp_path / "out")])
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    row = next(r for r in report["rows"] if r["method"] == "sent" and r["unlabeled"] == 1.0)
    assert row["over_share_0"] > 2 * row["over_share_0_error"] > 0
    assert "`sent`" in report["answer"]


@pytest.mark.parametrize("shrink", ["full", "median"])
def test_sketch_scaling_reports_error_below_certificate_below_bound(tmp_path, shrink):
    arguments = words("--rows 3000 --columns 30 --sketch-size 12 --batches 1 3 --repeats 1")
    sketch_scaling.main([*arguments, "--shrink", shrink, "--out", str(tmp_path)])
    rows = json.loads((tmp_path / "report.json").read_text())["rows"]
    for batches in (1, 3):
        of = {r["metric"]: r["value"] for r in rows if r["batches"] == batches and r["method"] == shrink}
        assert 0 < of["error"] <= of["certificate"] <= of["bound"]


def test_sketch_scaling_of_a_store_measures_the_same_error_as_numpy(tmp_path):
    counts = zipf_counts(300, 80, 10)
    write_counts(counts, str(tmp_path / "counts.zarr"), block_rows=100)
    arguments = words(f"--store {tmp_path / 'counts.zarr'} --sketch-size 10 --out {tmp_path / 'out'}")
    sketch_scaling.main(arguments)
    rows = json.loads((tmp_path / "out" / "report.json").read_text())["rows"]
    of = {row["metric"]: row["value"] for row in rows}
    dense = counts.toarray().astype(float)
    blocks = [FrequentDirections.from_block(dense[i : i + 100].astype(np.float32), size=10) for i in (0, 100, 200)]
    merged = blocks[0].merge(blocks[1]).merge(blocks[2])
    truth = np.linalg.norm(dense.T @ dense - merged.sketch.T @ merged.sketch, 2)
    assert of["error"] == pytest.approx(truth, rel=0.02)
    assert of["error"] <= of["certificate"] <= of["bound"]


def test_lsi_race_runs_small(tmp_path, monkeypatch):
    monkeypatch.setattr(lsi, "subprocess", forked)
    monkeypatch.setattr(lsi, "ENTRIES", [lsi.ENTRIES[i] for i in (0, 1, 3, 7, 9)])  # each program once, both sketches
    lsi.main(["--rows", "600", "--columns", "400", "--topics", "12", "--n-components", "5", "--out", str(tmp_path)])
    report = json.loads((tmp_path / "report.json").read_text())
    excess = {(r["method"], r.get("n_passes")): r["value"] for r in report["rows"] if r["metric"] == "excess"}
    assert {("dspectral", 1), ("dspectral", 3), ("scikit-learn", None)} <= excess.keys()
    assert all(-1e-5 < value < 0.05 for value in excess.values())  # five of twelve topics alike: no gap to find


@pytest.mark.parametrize(("n_sentences", "backend"), [(400, "usual"), (4_000, "dask")])
def test_only_long_fits_are_sent_to_the_workers(monkeypatch, n_sentences, backend):
    asked = []
    monkeypatch.setattr(joblib, "parallel_config", lambda name: asked.append(name) or nullcontext())
    intents = np.arange(n_sentences) % 20
    run = SimpleNamespace(client=object())
    with intent_scores.on_cluster(run, intent_scores.LabeledTexts(["a text"] * n_sentences, intents)):
        assert asked == ([] if backend == "usual" else ["dask"])
