import json

import pytest

from workflows.benchmarks import _roofline as limits
from workflows.benchmarks import roofline
from workflows.benchmarks._roofline import Run

SIZE, SEED = 128, 3


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    monkeypatch.setattr(limits, "REPEATS", 3)


def test_a_loop_is_held_against_its_limit_with_each_number_of_threads(tmp_path):
    options = ["--loops", "transposition of a block", "Viterbi", "--threads", "2", "1"]
    roofline.main(["--out", str(tmp_path), "--size", str(SIZE), "--seconds", "0.001", *options])
    rows = json.loads((tmp_path / "report.json").read_text())["rows"]
    found = [row for row in rows if row["metric"] == "share_of_limit"]
    names = ("Viterbi", "transposition of a block")
    assert sorted((row["method"], row["threads"]) for row in found) == [
        (name, n) for name in names for n in (1, 2)
    ]
    with_one = [row["value"] for row in found if row["threads"] == 1]
    assert with_one == sorted(with_one)  # the widest gap first
    for row in found:
        assert 0 < row["low"] <= row["value"] <= row["high"]
        assert row["reached"] > 0 < row["at_best"]
        assert row["formula"] != row["limit"] != ""
    machine = {row["method"] for row in rows if row["data"] == "machine"}
    assert machine >= {"copy", "product of matrices, single", "random rows of 104 numbers", "decompression"}


@pytest.mark.parametrize("name", roofline.LOOPS)
def test_each_loop_runs_on_a_block_of_its_own_and_counts_what_it_moves(name):
    for one in roofline.LOOPS[name].make(SIZE, SEED):
        one.call()
        one.call()
        assert one.amount > 0


def test_kinds_take_turns_and_a_rate_is_that_of_all_threads():
    order = []
    one, other = Run(lambda: order.append("a"), 6.0), Run(lambda: order.append("b"), 2.0)
    rates = limits.measure([[one, one], [other]], 0.0)
    assert order == ["a", "a", "b"] * (2 + limits.REPEATS)
    assert [len(found) for found in rates] == [limits.REPEATS] * 2
