import io
import re
import sys
import time
from types import SimpleNamespace

import dask
import pytest

from dspectral.engine import run_tasks
from dspectral.watch import bars, display
from dspectral.watch.record import Phase
from tests.watch.terminals import Terminal, plain, wait_for


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(display, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(display, "INTERVAL", 0.02)


def shown(*phases, step="fit", seconds=0.0):
    """The rows of a step of some seconds whose phases begin now, and its line."""
    rows = bars.Rows(io.StringIO())
    since = time.monotonic() - seconds
    rows.keep([step], list(phases), since)
    return rows, bars.line_of(rows.tasks)


def test_tasks_outside_of_fits_are_counted_while_they_run():
    stream = io.StringIO()
    with display.Progress(None, stream, quiet_seconds=0.0), dask.config.set(scheduler="sync"):
        dask.compute(*[dask.delayed(wait_for)(stream.getvalue) for _ in range(3)])
    assert "tasks 0/3" in stream.getvalue()


def test_lines_come_now_and_then_where_there_is_no_terminal(impatient):
    stream = io.StringIO()
    with display.Progress(None, stream) as shown, shown.step("hash"):
        wait_for(stream.getvalue)
        time.sleep(0.2)  # ten more looks
    assert stream.getvalue().count("\n") == 1


def test_a_terminal_gets_bars_that_are_cleared_and_nothing_is_cut(impatient, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    stream = Terminal()
    name = (
        "read all of the documents that have labels, and those that have none, from every file of the folder"
    )
    with display.Progress(None, stream) as shown, shown.step(name):
        wait_for(lambda: "labels" in stream.getvalue())
    text = plain(stream.getvalue())
    assert set(name.split()) <= set(text.split())
    assert "…" not in text
    assert max(map(len, re.split(r"[\r\n]+", text))) <= 80
    after = stream.getvalue().rpartition("\x1b[2K")[2]  # the last line is erased
    assert plain(after).strip() == ""


def test_what_is_printed_stays_on_standard_output(impatient, capsys):
    stream = Terminal()
    with display.Progress(None, stream) as shown, shown.step("hash"):
        wait_for(stream.getvalue)
        sys.stdout.write("A word.\n")
    assert capsys.readouterr().out == "A word.\n"


def test_a_quick_step_says_nothing():
    stream = io.StringIO()
    with display.Progress(None, stream, quiet_seconds=3.0) as shown, shown.step("hash"):
        run_tasks(abs, [-1], name="hash-block")
    assert stream.getvalue() == ""


def test_the_groups_of_a_scheduler_are_counted_and_one_that_is_gone_shows_nothing():
    group = SimpleNamespace(states={"memory": 2, "released": 1, "processing": 1, "waiting": 2})
    scheduler = SimpleNamespace(task_groups={"a": group, "b": group})
    client = SimpleNamespace(run_on_scheduler=lambda function: function(scheduler))
    with display.Progress(client, io.StringIO()) as shown:
        assert shown._other_tasks() == [Phase("tasks", 6, 12)]
        group.states = {"memory": 3, "erred": 1}
        assert shown._other_tasks() == []
        client.run_on_scheduler = raise_closed
        assert shown._other_tasks() == []


def raise_closed(_function):
    raise OSError("closed")


@pytest.mark.parametrize(
    ("phases", "line"),
    [
        ([], "[0:00:05] fit"),
        ([Phase("a", 0, 4), Phase("b", 0, 2)], "[0:00:05] fit: a 0/4, 0 % · b 0/2, 0 %"),
        ([Phase("a", 4, 4), Phase("b", 1, 2)], "[0:00:05] fit: a 4/4, 100 %, 0:00:00 · b 1/2, 50 %, 0:00:00"),
        ([Phase("a", 11, 245, 6)], "[0:00:05] fit: a 11/245, 6 of them again, 4 %, 0:00:00"),
    ],
)
def test_a_line_names_every_phase(phases, line):
    assert shown(*phases, seconds=5.4)[1] == line


def test_a_phase_that_begins_again_is_another_pass():
    rows, _line = shown(Phase("sketch", 80, 80))
    since = rows.tasks[0].start_time
    rows.keep(["fit"], [Phase("sketch", 2, 80)], since)
    assert "sketch 2/80, 2 %" in bars.line_of(rows.tasks)


def test_the_time_left_follows_from_the_tasks_done():
    now = [100.0]
    rows, _line = shown(Phase("sketch", 0, 10))
    rows._bars.get_time = lambda: now[0]
    row = rows.tasks[-1]
    row._get_time, row.start_time = rows._bars.get_time, now[0]
    for done in range(1, 5):
        now[0] += 30.0
        rows._fill(row.id, Phase("sketch", done, 10))
    assert bars.times(row) == "0:02:00, 0:03:00 left"
