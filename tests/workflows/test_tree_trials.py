"""The program that holds the simulated tree against real clusters."""

import json

import dask
import pytest

from tests.schedulers import forked_workers
from workflows.benchmarks import tree_trials
from workflows.benchmarks._tree.naps import sleep_through
from workflows.benchmarks.tree_trials import Costs, lengths, simulated


def test_one_worker_sleeps_no_less_than_the_simulation_says():
    costs = Costs(scheduler_seconds=0.0, overhead_seconds=0.0, start_seconds=0.0, latency=0.0)
    blocks = lengths(5, 0.02, 0.3, seed=1)
    said = simulated(blocks, 1, 2, 0.01, costs).seconds
    # Of the five summaries four merges, each of two: all of fan-in 2.
    assert said == pytest.approx(blocks.sum() + 4 * 0.01)
    with dask.config.set(scheduler="sync"):
        assert sleep_through(blocks.tolist(), merge_seconds=0.01).seconds >= said


def test_tasks_write_down_when_they_begin(tmp_path):
    with dask.config.set(scheduler="sync"):
        sleep_through([0.0] * 3, merge_seconds=0.0, log=str(tmp_path / "begun"))
    assert len((tmp_path / "begun").read_text(encoding="utf-8").splitlines()) == 3 + 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_real_pass_stands_beside_the_simulated_one(tmp_path):
    options = [
        "--sizes",
        "1",
        "--fan-ins",
        "2",
        "--blocks",
        "4",
        "--block-seconds",
        "0.05",
        "--empty-tasks",
        "10",
    ]
    with forked_workers():
        tree_trials.main(["--out", str(tmp_path), "--kill-with", "0", "--crowds", "--debug", *options])
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    found = {row["metric"]: row["value"] for row in report["rows"]}
    assert found["scheduler_seconds"] > 0
    assert found["seconds"] >= 4 * 0.02
    assert found["off"] == pytest.approx(found["simulated_seconds"] / found["seconds"] - 1)
