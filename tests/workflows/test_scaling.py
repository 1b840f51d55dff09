import json

import pytest

from tests import forked
from workflows.benchmarks import _timed_work, scaling
from workflows.benchmarks._timed_work import WORKS

SIZE = 320


def rows_of(folder):
    return json.loads((folder / "report.json").read_text())["rows"]


@pytest.mark.parametrize("name", WORKS)
def test_each_work_is_done_by_threads_of_this_process(tmp_path, capsys, name):
    data = tmp_path / "data"
    data.mkdir()
    WORKS[name].data(data, SIZE, 0)
    orders = {"stages": [(str(data), SIZE)] * 2, "out": str(tmp_path / "out")}
    _timed_work.main(name, "threads", 2, orders)
    took = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert all(took[metric] > 0 for metric in ("seconds", "cpu_seconds", "peak_memory_bytes"))
    written = {path.name for path in tmp_path.glob("out/*")}
    assert written == ({"0", "1"} if name.startswith("build") else set())


def test_runs_take_turns_and_the_first_number_of_workers_is_compared_to(tmp_path, monkeypatch):
    ran = []

    def fake(name, kind, n, stages):
        ran.append((kind, n))
        assert [size for _, size in stages] == [SIZE, 400]
        assert all((folder / "text.txt").is_file() for folder, _ in stages)
        return {"seconds": (1.0 + len(ran)) / n, "cpu_seconds": 1.0, "peak_memory_bytes": 1e9}

    monkeypatch.setattr(scaling, "once", fake)
    options = ["--work", "build_store", "--counts", "1", "2", "--repetitions", "2", "--size", "400"]
    scaling.main([*options, "--out", str(tmp_path), "--debug"])
    turns = [("threads", 1), ("threads", 2), ("processes", 1), ("processes", 2)]
    assert ran == turns + turns[::-1]
    found = {(row["method"], row["workers"], row["metric"]): row["value"] for row in rows_of(tmp_path)}
    # Seconds with one thread were 2 and 9, with two 1.5 and 4.
    assert found["threads", 2, "speedup"] == pytest.approx((2 / 1.5 + 9 / 4) / 2)
    assert found["threads", 1, "seconds"] == pytest.approx(5.5)
    assert ("threads", 1, "speedup") not in found


def test_processes_do_the_same_and_a_failure_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(scaling, "subprocess", forked)
    options = ["--work", "build_store", "--kinds", "processes", "--counts", "1", "--repetitions", "1"]
    scaling.main([*options, "--size", str(SIZE), "--out", str(tmp_path / "report"), "--debug"])
    metrics = {row["metric"] for row in rows_of(tmp_path / "report")}
    assert metrics == {"seconds", "cpu_seconds", "peak_memory_bytes"}
    with pytest.raises(ChildProcessError, match=r"word embedding with 1 threads: .*corpus"):
        scaling.once("word embedding", "threads", 1, [(tmp_path, SIZE)])
