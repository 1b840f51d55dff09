import json

import pytest

from workflows.benchmarks import multilabel_scale
from workflows.benchmarks.multilabel_scale import Shape


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setitem(multilabel_scale.SHAPES, "small", Shape(800, 300, 40, 20.0, 3.0))


def test_every_part_is_learned_from_and_each_pass_is_timed(tmp_path):
    options = ["--n-states", "5", "--true-states", "8", "--parts", "2", "8", "--low-rank", "1"]
    scratch = tmp_path / "not" / "there"
    options += ["--scratch", str(scratch), "--out", str(tmp_path)]
    multilabel_scale.main(["--shape", "small", *options, "--debug"])
    assert not list(scratch.iterdir())
    rows = json.loads((tmp_path / "report.json").read_text())["rows"]
    found = {(row["method"], row.get("documents"), row["metric"]): row["value"] for row in rows}
    for documents in (200, 800):
        passes = [
            found["moments", documents, f"{name}_pass_seconds"] for name in ("first", "second", "third")
        ]
        assert 0 < sum(passes) <= found["moments", documents, "seconds"]
        assert found["moments", documents, "auc"] > 0.7
    assert found["low-rank, 1 turn(s)", 800, "auc"] > 0.6
    assert all(found[method, 800, "scoring_cpu_seconds"] > 0 for method in ("moments", "low-rank, 1 turn(s)"))
    assert ("moments", None, "slope_in_documents") in found
    assert {row["passes"] for row in rows if row["method"] == "moments" and "passes" in row} == {3}
