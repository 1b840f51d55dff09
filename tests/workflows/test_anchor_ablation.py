import json

import pytest

from dspectral.datasets import brown_model_sentences
from workflows.benchmarks import anchor_ablation


def test_each_change_is_scored_on_each_data_set_and_on_average(tmp_path):
    paths = []
    for seed, name in enumerate(("first", "second")):
        sample = brown_model_sentences(800, n_classes=3, n_words=24, length=8, seed=seed)
        lines = (
            "\n".join(f"{word}\tT{sample.classes[word]}" for word in sentence)
            for sentence in sample.sentences
        )
        (tmp_path / name).mkdir()
        paths.append(tmp_path / name / "all.conll")
        paths[-1].write_text("\n\n".join(lines) + "\n")
    given = [argument for path in paths for argument in ("--corpus", str(path))]
    changes = ["--changes", "no spelling", "no sweeps, no spelling", "20 passes of EM"]
    more = ["--n-states", "3", "--seeds", "2", "--out", str(tmp_path / "out")]
    anchor_ablation.main([*given, *changes, *more])
    rows = json.loads((tmp_path / "out" / "report.json").read_text())["rows"]
    found = {(row["data"], row["method"]): row["value"] for row in rows}
    assert {data for data, _ in found} == {"first", "second", "mean"}
    for change in changes[1:]:
        both = [found[data, change] for data in ("first", "second")]
        assert found["mean", change] == pytest.approx(sum(both) / 2)
    assert found["mean", "no spelling"] > 0.95
    assert (tmp_path / "out" / "many_to_one.png").exists()
