import gc
import json
import mmap
import os
import re
import socket
import time
from functools import partial

import dask
import numpy as np
import pytest
from distributed import LocalCluster, get_worker

from dspectral import TruncatedSVD
from dspectral.engine import run_tasks
from dspectral.engine.around.callbacks import PassStarted
from tests.engine.recording import Recorder
from tests.schedulers import forked_workers
from workflows._form import form, schedulers
from workflows._form.plots import new_plot

DESCRIPTION = "Measure rivers & lakes.\n\nAt length."


def arguments(out, *more):
    parser = form.parser("rivers", DESCRIPTION)
    parser.add_argument("--depth", type=float, default=2.5)
    return parser.parse_args(["--out", str(out), *more])


def fill(run):
    run.row(data="Elbe", method="plumb <line>", metric="depth", value=np.float32(1.5), year=1900)
    run.row(data="Rhine", method="sonar", metric="depth", value=float("nan"))
    run.passes += 2


def run_and_raise(settings, error):
    with form.run(settings) as run:
        fill(run)
        run.save(lambda path: path.mkdir())
        raise error


def strict(text):
    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def test_a_run_writes_a_report_that_says_everything(tmp_path, capsys):
    with form.run(arguments(tmp_path / "out", "--seed", "7")) as run:
        fill(run)
    report = strict((tmp_path / "out" / "report.json").read_text())
    assert report["workflow"] == "rivers"
    assert report["arguments"]["seed"] == 7
    assert report["arguments"]["depth"] == 2.5
    assert report["passes"] == 2
    assert report["seconds"] > 0
    assert report["cpu_seconds"] >= 0
    assert report["peak_memory_bytes"] == report["memory"]["processes"]["this process"] > 1 << 20
    assert {"python", "platform", "numpy", "zarr", "scikit-learn", "numba", "cpu_count"} <= set(report["versions"])
    assert report["rows"] == [
        {"data": "Elbe", "method": "plumb <line>", "metric": "depth", "value": 1.5, "year": 1900},
        {"data": "Rhine", "method": "sonar", "metric": "depth", "value": None},
    ]
    printed = capsys.readouterr().out
    assert "plumb <line>" in printed
    assert str(tmp_path / "out" / "report.html") in printed


def test_the_page_shows_rows_plots_and_arguments_and_needs_no_other_file(tmp_path):
    with form.run(arguments(tmp_path)) as run:
        fill(run)
        figure, axes = new_plot("Depth", x="mile", y="metres", log="y")
        axes.plot([1, 2], [3, 4])
        run.plot("depth", figure, "Deeper & deeper.")
        run.note("Measured in spring.")
    page = (tmp_path / "report.html").read_text()
    for shown in (
        "plumb &lt;line&gt;",
        "Measure rivers &amp; lakes.",
        "Deeper &amp; deeper.",
        "Measured in spring.",
    ):
        assert shown in page
    assert "2.5" in page
    assert "data:image/png;base64,iVBOR" in page
    assert "src=" not in page.replace('src="data:', "")
    assert (tmp_path / "depth.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["depth.png", "report.html", "report.json"]


@pytest.mark.parametrize("error", [ValueError("the width is\n 4, not 5"), FileNotFoundError("the width is 4, not 5")])
def test_bad_input_is_one_sentence_and_leaves_nothing(tmp_path, capsys, error):
    with pytest.raises(SystemExit) as caught:
        run_and_raise(arguments(tmp_path / "new" / "out"), error)
    assert caught.value.code == 2
    assert capsys.readouterr().err == "python -m workflows.rivers: error: the width is 4, not 5\n"
    assert not (tmp_path / "new" / "out").exists()


def test_a_fault_of_ours_keeps_its_traceback_and_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError):
        run_and_raise(arguments(tmp_path), ZeroDivisionError())
    assert list(tmp_path.iterdir()) == []


def test_a_later_run_replaces_report_and_model_only_if_it_succeeds(tmp_path):
    def save(text):
        def write(path):
            path.mkdir()
            (path / "weights").write_text(text)

        return write

    with form.run(arguments(tmp_path, "--seed", "1")) as run:
        run.save(save("first"))
    with pytest.raises(SystemExit):
        run_and_raise(arguments(tmp_path, "--seed", "2"), ValueError())
    assert json.loads((tmp_path / "report.json").read_text())["arguments"]["seed"] == 1
    assert (tmp_path / "model" / "weights").read_text() == "first"
    with form.run(arguments(tmp_path, "--seed", "3")) as run:
        run.save(save("third"))
    assert json.loads((tmp_path / "report.json").read_text())["arguments"]["seed"] == 3
    assert (tmp_path / "model" / "weights").read_text() == "third"


def test_a_measured_step_is_part_of_the_whole(tmp_path):
    with form.run(arguments(tmp_path)) as run:
        # A mapping of its own: a heap may hold what earlier tests have freed.
        with run.measure("allocate") as used, mmap.mmap(-1, 64 << 20) as fresh:
            assert sum(fresh.write(bytes(1 << 20)) for _ in range(64)) == 64 << 20
        with run.measure("rest") as rest:
            pass
    whole = json.loads((tmp_path / "report.json").read_text())
    assert 0 < used.seconds <= whole["seconds"]
    assert used.peak_memory_bytes <= whole["peak_memory_bytes"]
    if run.meter.resets:
        assert rest.peak_memory_bytes < used.peak_memory_bytes - (24 << 20)


def without_progress(text):
    return [line for line in text.splitlines() if not re.match(r"\[\d+:\d\d:\d\d\]", line)]


def burn(seconds):
    start = time.process_time()
    while time.process_time() - start < seconds:
        pass
    return os.getpid()


def setting(name):
    """What a worker has in its environment, or the interval of what it does again and again."""
    return os.environ.get(name) or get_worker().periodic_callbacks[name].callback_time


def fail(_item):
    raise ValueError("the river is dry")


def test_worker_processes_have_their_settings_do_the_work_and_are_measured(tmp_path, capfd, monkeypatch):
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    with forked_workers(), form.run(arguments(tmp_path, "--workers", "2", "--memory-limit", "1GB")):
        pids = run_tasks(burn, [0.3] * 4, name="burn")
        names = ["MALLOC_TRIM_THRESHOLD_", "profile-cycle", "profile", "tick"]
        assert run_tasks(setting, names, name="ask") == [str(16 << 20), 60_000, 100, 200]
    report = json.loads((tmp_path / "report.json").read_text())
    assert os.getpid() not in pids
    assert report["cpu_seconds"] >= 4 * 0.3
    processes = report["memory"]["processes"]
    assert len(processes) == 3
    assert report["peak_memory_bytes"] == max(processes.values())
    assert report["workers_lost"] == 0
    out, err = capfd.readouterr()
    assert re.search("2 worker.* http://127.0.0.1:", out)
    assert re.search(r" http://127.0.0.1:\d+/spectral\n", out)
    assert without_progress(err) == []


def test_an_error_in_a_worker_is_one_sentence(tmp_path, capfd):
    with forked_workers(), pytest.raises(SystemExit), form.run(arguments(tmp_path, "--workers", "1")):
        run_tasks(fail, [1], name="fail")
    errors = without_progress(capfd.readouterr().err)
    assert errors == ["python -m workflows.rivers: error: the river is dry"]


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # Tornado leaves it to the collector
def test_a_port_that_is_taken_in_between_is_no_news_as_the_link_names_the_other(tmp_path, capfd, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken, forked_workers():
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr(schedulers, "_dashboard_address", lambda: address)
        with form.run(arguments(tmp_path, "--workers", "1")):
            run_tasks(burn, [0.1], name="burn")
    gc.collect()
    out, err = capfd.readouterr()
    assert "dashboard: http://127.0.0.1:" in out
    assert address not in out
    assert without_progress(err) == []


def test_an_existing_cluster_is_used_and_survives(tmp_path):
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as cluster:
        own = time.process_time()
        with form.run(arguments(tmp_path, "--scheduler", cluster.scheduler_address)):
            run_tasks(burn, [0.8], name="burn")
        own = time.process_time() - own
        assert len(cluster.workers) == 1
    report = json.loads((tmp_path / "report.json").read_text())
    assert len(report["memory"]["processes"]) == 2
    # The worker is a thread of this process: its time is not counted twice.
    assert 0.79 <= report["cpu_seconds"] < own + 0.3


def test_a_scheduler_that_does_not_answer_is_named(tmp_path, capsys):
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "200ms"}),
        pytest.raises(SystemExit),
        form.run(arguments(tmp_path, "--scheduler", "tcp://127.0.0.1:9")),
    ):
        pass
    assert re.search("tcp://127.0.0.1:9.*--scheduler", capsys.readouterr().err)


def fail_once(item, *, errors):
    if errors:
        raise errors.pop()
    return item


def test_the_report_says_how_often_something_was_tried_again(tmp_path):
    with form.run(arguments(tmp_path)) as run:
        fill(run)
        errors = [TimeoutError("slow storage")]
        assert run_tasks(partial(fail_once, errors=errors), [1], name="read") == [1]
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["retries"], report["tasks_redone"]) == (1, 0)


def test_keep_is_in_force_while_a_program_runs_and_is_offered_by_those_that_fit(tmp_path):
    kept = tmp_path / "kept"
    for n_found in (0, 1):
        heard = []
        with form.run(arguments(tmp_path / "out", "--keep", str(kept))) as run, Recorder(heard.append):
            TruncatedSVD(1).fit(np.eye(3))
            fill(run)
        assert [event.n_kept for event in heard if isinstance(event, PassStarted)] == [n_found]
    with pytest.raises(SystemExit):
        form.parser("rivers", DESCRIPTION, fits=False).parse_args(["--keep", str(kept)])
