import json

import numpy as np
import pytest

from dspectral import load, write_counts
from dspectral.decomposition.frequent_directions import FrequentDirections
from tests.methods.sentences.test_sentences import sentences
from tests.strategies import zipf_counts
from workflows import intent_classification, sketch_scaling
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
    more = [
        "--shares",
        "0",
        "0.5",
        "--labelled",
        "5",
        "--draws",
        "2",
        "--n-components",
        "6",
        "--columns-bits",
        "12",
    ]
    intent_classification.main([*options, *more, "--out", str(out)])
    report = json.loads((out / "report.json").read_text())
    accuracy = {
        (r["method"], r["unlabeled"]): r["value"] for r in report["rows"] if r["metric"] == "accuracy"
    }
    assert set(accuracy) == {(m, s) for m in ("none", "vectors", "sent", "sent+") for s in (0.0, 0.5, 1.0)}
    assert accuracy["sent", 1.0] > accuracy["none", 1.0]
    intents = {r["intent"] for r in report["rows"] if r["metric"] == "recall" and r["method"] == "sent"}
    assert intents == {"music", "travel", "food"}
    assert report["passes"] == 1 + 2 + 2  # the store knows its frequencies, parts of it do not
    model = load(str(out / "model"))
    assert np.mean(model.predict(sentences(50, 3)[0]) == sentences(50, 3)[1]) > 0.5


@pytest.mark.parametrize(
    ("content", "sentence"),
    [("text\tlabel\na b\tx\n", "no column intent"), ("text\tintent\na b\tx\nc d\n", "line 3 has 1 columns")],
)
def test_a_bad_table_is_named_and_nothing_is_written(files, tmp_path, capsys, content, sentence):
    bad = tmp_path / "bad.tsv"
    bad.write_text(content)
    with pytest.raises(SystemExit) as stopped:
        intent_classification.main(
            ["--train", str(bad), "--test", files["test"], "--out", str(tmp_path / "out")]
        )
    assert stopped.value.code == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out" / "report.json").exists()


@pytest.mark.parametrize("shrink", ["full", "median"])
def test_sketch_scaling_reports_error_below_certificate_below_bound(tmp_path, shrink):
    arguments = [
        "--rows",
        "3000",
        "--columns",
        "30",
        "--sketch-size",
        "12",
        "--batches",
        "1",
        "3",
        "--repeats",
        "1",
    ]
    sketch_scaling.main([*arguments, "--shrink", shrink, "--out", str(tmp_path)])
    rows = json.loads((tmp_path / "report.json").read_text())["rows"]
    for batches in (1, 3):
        of = {r["metric"]: r["value"] for r in rows if r["batches"] == batches and r["method"] == shrink}
        assert 0 < of["error"] <= of["certificate"] <= of["bound"]


def test_sketch_scaling_of_a_store_measures_the_same_error_as_numpy(tmp_path):
    counts = zipf_counts(300, 80, 10)
    write_counts(counts, str(tmp_path / "counts.zarr"), block_rows=100)
    arguments = [
        "--store",
        str(tmp_path / "counts.zarr"),
        "--sketch-size",
        "10",
        "--out",
        str(tmp_path / "out"),
    ]
    sketch_scaling.main(arguments)
    rows = json.loads((tmp_path / "out" / "report.json").read_text())["rows"]
    of = {row["metric"]: row["value"] for row in rows}
    dense = counts.toarray().astype(float)
    blocks = [FrequentDirections.of(dense[i : i + 100].astype(np.float32), size=10) for i in (0, 100, 200)]
    merged = blocks[0].merge(blocks[1]).merge(blocks[2])
    truth = np.linalg.norm(dense.T @ dense - merged.sketch.T @ merged.sketch, 2)
    assert of["error"] == pytest.approx(truth, rel=0.02)
    assert of["error"] <= of["certificate"] <= of["bound"]


def test_lsi_race_runs_small(tmp_path, monkeypatch):
    monkeypatch.setattr(
        lsi, "ENTRIES", [lsi.ENTRIES[i] for i in (0, 2, 6, 8)]
    )  # each program once, ours twice
    lsi.main(
        ["--rows", "600", "--columns", "400", "--topics", "12", "--n-components", "5", "--out", str(tmp_path)]
    )
    report = json.loads((tmp_path / "report.json").read_text())
    excess = {(r["method"], r.get("n_passes")): r["value"] for r in report["rows"] if r["metric"] == "excess"}
    assert {("dspectral", 1), ("dspectral", 3), ("scikit-learn", None)} <= excess.keys()
    assert all(
        -1e-5 < value < 0.05 for value in excess.values()
    )  # five of twelve topics alike: no gap to find
