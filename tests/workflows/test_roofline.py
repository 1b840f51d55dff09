import json
from pathlib import Path

import numpy as np
import pytest

from workflows.benchmarks import roofline
from workflows.benchmarks._roofline import clock, fits, limits
from workflows.benchmarks._roofline.loops import Run

SIZE, SEED = 128, 3


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    monkeypatch.setattr(clock, "REPEATS", 3)


def run(tmp_path, *options):
    roofline.main(["--out", str(tmp_path / "out"), "--size", str(SIZE), "--seconds", "0.001", *options])
    return json.loads((tmp_path / "out" / "report.json").read_text())["rows"]


def test_a_loop_is_held_against_its_limit_with_each_number_of_threads(tmp_path):
    rows = run(tmp_path, "--loops", "transposition of a block", "Viterbi", "--threads", "2", "1", "--no-fits")
    found = [row for row in rows if row["metric"] == "share_of_limit"]
    assert sorted((row["method"], row["threads"]) for row in found) == [
        ("Viterbi", 1),
        ("Viterbi", 2),
        ("transposition of a block", 1),
        ("transposition of a block", 2),
    ]
    with_one = [row["value"] for row in found if row["threads"] == 1]
    assert with_one == sorted(with_one)  # the widest gap first
    for row in found:
        assert 0 < row["low"] <= row["value"] <= row["high"]
        assert row["reached"] > 0 < row["at_best"]
        assert row["formula"] != row["limit"] != ""
    machine = {row["method"] for row in rows if row["data"] == "machine"}
    assert machine >= {"copy", "product of matrices, single", "random rows of 104 numbers", "decompression"}
    assert (tmp_path / "out" / "gaps.png").exists()
    lines = (tmp_path / "out" / "table.md").read_text().splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in lines[2:]] == list(
        dict.fromkeys(row["method"] for row in found)
    )


def test_a_fit_is_profiled_and_its_loops_take_a_share_of_it(tmp_path):
    rows = run(tmp_path, "--loops", "forward-backward", "Viterbi", "--threads", "1")
    shares = {(row["data"], row["method"]): row["value"] for row in rows if row["metric"] == "share_of_time"}
    assert shares.keys() == {("EM of an HMM", "forward-backward"), ("states of an HMM", "Viterbi")}
    assert all(0 < share < 1 for share in shares.values())


@pytest.mark.parametrize("name", roofline.LOOPS)
def test_each_loop_runs_on_a_block_of_its_own_and_counts_what_it_moves(name):
    for one in roofline.LOOPS[name].make(SIZE, SEED):
        one.call()
        one.call()
        assert one.amount > 0


def test_each_function_whose_time_is_a_loops_is_there():
    named = {
        one
        for loop in roofline.LOOPS.values()
        for share in loop.shares
        for one in share.inside + share.without
    }
    root = Path(roofline.__file__).parents[2] / "dspectral"
    for place in named:
        path, function = place.split(":")
        [file] = [found for found in root.rglob("*.py") if found.as_posix().endswith(f"/{path}")]
        assert f"def {function}(" in file.read_text(encoding="utf-8"), place


def test_each_loop_has_a_fit_that_is_there():
    assert {share.fit for loop in roofline.LOOPS.values() for share in loop.shares} == fits.FITS.keys()


def test_the_time_of_a_function_is_less_that_of_those_it_calls():
    calls = {
        ("/x/linalg/a.py", 1, "outer"): (1, 1, 1.0, 5.0, {}),
        ("/x/linalg/b.py", 9, "inner"): (
            2,
            2,
            3.0,
            3.0,
            {("/x/linalg/a.py", 1, "outer"): (1, 1, 2.0, 2.0), ("/x/c.py", 4, "other"): (1, 1, 1.0, 1.0)},
        ),
    }
    profiled = fits.Profile(10.0, calls)
    assert profiled.share(("linalg/a.py:outer",), ()) == 0.5
    assert profiled.share(("linalg/a.py:outer",), ("linalg/b.py:inner",)) == 0.3
    assert profiled.share(("linalg/b.py:inner",), ()) == 0.3


def test_kinds_take_turns_and_a_rate_is_that_of_all_threads():
    order = []
    one, other = Run(lambda: order.append("a"), 6.0), Run(lambda: order.append("b"), 2.0)
    rates = clock.measure([[one, one], [other]], 0.0)
    assert order == ["a", "a", "b"] * (2 + clock.REPEATS)
    assert [len(found) for found in rates] == [clock.REPEATS] * 2


def test_limits_do_what_they_count():
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    total = np.zeros(3, dtype=np.float32)
    limits.add_rows(np.array([0, 1, 2, 3], dtype=np.int32), rows, total)
    np.testing.assert_array_equal(total, rows.sum(axis=0))
    assert limits.gathering(np.zeros(4, dtype=np.int32), rows).amount == 4 * 12
    sums = np.zeros(3)
    limits.add_ones(np.array([0, 1, 2, 1], dtype=np.int32), 1, sums)
    np.testing.assert_array_equal(sums, [1, 2, 1])  # neighbors of the second and of the third
    assert limits.adding(np.zeros(4, dtype=np.int32), 1, 3).amount == 4 * 16
