import gzip
import json

import pytest

from dspectral.datasets import sample_labelled_documents
from dspectral.io import write_labelled_text
from workflows.benchmarks import defaults
from workflows.benchmarks._defaults import multilabel
from workflows.benchmarks._defaults.halves import RULE, designed_on

SIDES = {"enron": ("train", "test"), "rcv1-subset1": ("all",)}


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Two of the data sets, drawn; all states have the same words in the grid, so that the correction decides."""
    monkeypatch.setattr(multilabel, "GRID", {"smoothing": (1.0,), "n_em_iter": (0,), "alpha": (0.01, 100.0)})
    monkeypatch.setattr(multilabel, "N_STATES", 4)
    for name, sides in SIDES.items():
        folder = tmp_path / "data" / "multilabel" / name
        folder.mkdir(parents=True)
        words, labels, _ = sample_labelled_documents(600, n_words=30, n_labels=12, n_states=4, seed=2)
        for number, side in enumerate(sides):
            rows = slice(number * 300, (number + 1) * 300 if len(sides) == 2 else 600)
            write_labelled_text(words[rows], str(folder / "plain.txt"), labels[rows])
            (folder / f"{side}.txt.gz").write_bytes(gzip.compress((folder / "plain.txt").read_bytes()))
    return tmp_path / "data"


def test_the_default_is_held_against_what_is_tuned_and_the_halves_are_told_apart(data, tmp_path):
    out = tmp_path / "out"
    asked = ["--data", str(data), "--sets", *SIDES, "--methods", "multilabel", "--out", str(out), "--debug"]
    defaults.main(asked)
    report = json.loads((out / "report.json").read_text())
    found = {(row["data"], row["method"], row["metric"]): row for row in report["rows"]}
    for name in SIDES:
        for method in ("default", "tuned", "as published", "low-rank", "one-vs-rest"):
            assert 0.5 < found[name, method, "auc"]["value"] <= 1
            assert found[name, method, "cpu_seconds"]["value"] >= 0
        assert "alpha 0.01" in found[name, "tuned", "auc"]["settings"]
        assert "smoothing" in found[name, "default", "auc"]["settings"]
        share = found[name, "default", "auc"]["value"] / found[name, "tuned", "auc"]["value"]
        assert found[name, "default", "share_of_tuned_auc"]["value"] == pytest.approx(share)
    assert {row["half"] for row in report["rows"]} == {"reported"}
    assert any(RULE in note for note in report["notes"])
    assert "of 2 data sets" in report["answer"]


def test_every_other_data_set_by_name_is_designed_on():
    names = defaults.METHODS["multilabel"].sets
    assert designed_on(names) == {"bibtex", "goemotions", "ohsumed-f", "reuters21578"}
    assert designed_on(reversed(names)) == designed_on(names)


def test_a_data_set_that_is_not_there_is_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        defaults.main(["--data", str(tmp_path), "--sets", "enron", "--out", str(tmp_path / "out")])
    assert "enron" in capsys.readouterr().err
