import json
import os
import re
import time

import dask
import numpy as np
import pytest
from distributed import LocalCluster, get_worker

from dspectral import TruncatedSVD
from dspectral.engine import run_tasks
from dspectral.engine.around.callbacks import PassStarted
from tests.engine.recording import Recorder
from tests.schedulers import forked_workers
from workflows._form import form
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


def test_keep_applies_while_a_program_runs_and_to_fits_only(tmp_path):
    kept = tmp_path / "kept"
    for n_found in (0, 1):
        heard = []
        with form.run(arguments(tmp_path / "out", "--keep", str(kept))) as run, Recorder(heard.append):
            TruncatedSVD(1).fit(np.eye(3))
            fill(run)
        assert [event.n_kept for event in heard if isinstance(event, PassStarted)] == [n_found]
    with pytest.raises(SystemExit):
        form.parser("rivers", DESCRIPTION, fits=False).parse_args(["--keep", str(kept)])
