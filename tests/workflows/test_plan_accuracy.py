import json

import pytest

from workflows.benchmarks import plan_accuracy


def plan_and_run(planned, measured, end="done"):
    found = {"workers": 1, "planned": {"memory": 100, "seconds": planned}, "probe_seconds": 1.0, "end": end}
    return found | {"measured": {"memory": 100, "seconds": measured}}


DIED = {"end": "died", "error": "MemoryError"}
RIGHT, OFF = plan_and_run(10.0, 9.0), plan_and_run(10.0, 20.0)


@pytest.mark.parametrize(
    ("in_turn", "answer"),
    [
        ([RIGHT, RIGHT], "1 of 1 configurations were planned right, and 2 of 2 single plans."),
        ([RIGHT, OFF, RIGHT], "1 of 1 configurations were planned right, and 2 of 3 single plans."),
        ([OFF, RIGHT, OFF], "0 of 1 configurations were planned right, and 1 of 3 single plans."),
        ([DIED, DIED], "0 of 1 configurations were planned right, and 0 of 2 single plans."),
    ],
    ids=["both right", "right after all", "off after all", "both died"],
)
def test_two_plans_decide_and_each_is_told(in_turn, answer, monkeypatch, tmp_path):
    left = list(in_turn)
    monkeypatch.setattr(plan_accuracy, "prepared", lambda *_: None)
    monkeypatch.setattr(plan_accuracy, "in_a_process", lambda *_: left.pop(0))
    plan_accuracy.main(["--configurations", "gram-1", "--out", str(tmp_path)])
    report = json.loads((tmp_path / "report.json").read_text())
    assert not left
    assert report["answer"] == answer
    told = [row["value"] for row in report["rows"] if row["metric"] == "share_of_seconds"]
    ended = [found for found in in_turn if found["end"] == "done"]
    assert told == [f["planned"]["seconds"] / f["measured"]["seconds"] - 1 for f in ended]
