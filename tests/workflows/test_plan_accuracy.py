import json

import pytest

from workflows.benchmarks import plan_accuracy


def plan(seconds):
    return {"workers": 1, "planned": {"memory": 100, "seconds": seconds}, "probe_seconds": 1.0}


def run(seconds):
    return {"workers": 1, "end": "done", "measured": {"memory": 100, "seconds": seconds}}


DIED = {"end": "died", "error": "MemoryError"}


@pytest.mark.parametrize(
    ("in_turn", "answer", "told"),
    [
        (
            [plan(10), run(9), plan(11), run(10), plan(10)],
            "1 of 1 configurations were planned right, and 2 of 2 runs.",
            [10.5 / 9, 10.5 / 10],
        ),
        (
            [plan(10), run(9), plan(11), run(20), plan(10), run(11), plan(10)],
            "1 of 1 configurations were planned right, and 2 of 3 runs.",
            [10.5 / 9, 10.5 / 20, 10 / 11],
        ),
        (
            [plan(10), run(14), plan(10), run(10), plan(10), run(14), plan(10)],
            "0 of 1 configurations were planned right, and 1 of 3 runs.",
            [10 / 14, 1, 10 / 14],
        ),
        (
            [plan(10), run(30), plan(20), run(20), plan(20), run(20), plan(20)],
            "1 of 1 configurations were planned right, and 2 of 2 runs.",
            [15 / 30, 1, 1],
        ),
        (
            [
                plan(10),
                run(15),
                plan(20),
                run(15),
                plan(10),
                run(15),
                plan(20),
                run(15),
                plan(10),
                run(15),
                plan(20),
            ],
            "0 of 1 configurations were planned right, and 0 of 0 runs.",
            [1, 1, 1, 1, 1],
        ),
        (
            [plan(10), DIED, plan(10), DIED, plan(10)],
            "0 of 1 configurations were planned right, and 0 of 2 runs.",
            [],
        ),
    ],
    ids=["both right", "right after all", "off after all", "changed once", "changes always", "both died"],
)
def test_two_runs_between_plans_that_agree_decide_and_each_is_told(
    in_turn, answer, told, monkeypatch, tmp_path
):
    left = list(in_turn)
    monkeypatch.setattr(plan_accuracy, "prepared", lambda *_: None)
    monkeypatch.setattr(plan_accuracy, "in_a_process", lambda *_: left.pop(0))
    plan_accuracy.main(["--configurations", "gram-1", "--out", str(tmp_path)])
    report = json.loads((tmp_path / "report.json").read_text())
    assert not left
    assert report["answer"] == answer
    values = [row["value"] for row in report["rows"] if row["metric"] == "share_of_seconds"]
    assert values == pytest.approx([share - 1 for share in told])
