import io
import time
from types import SimpleNamespace

import dask
import pytest

from dspectral.engine import run_tasks
from workflows._form import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)


def wait_for(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_task_groups_are_counted_while_they_run():
    tasks, seen = progress.LocalTasks(), []
    with tasks, dask.config.set(scheduler="sync"):
        run_tasks(lambda _item: seen.append(dict(tasks.counts())), [0, 1, 2], name="hash-block")
    assert [counts["hash-block"] for counts in seen] == [(0, 3), (1, 3), (2, 3)]
    assert tasks.counts() == {}


def test_a_slow_step_is_shown_with_its_task_groups(impatient):
    stream = io.StringIO()
    with progress.Progress(None, stream) as shown, shown.step("hash"):
        run_tasks(lambda _item: wait_for(stream.getvalue), [0], name="hash-block")
    assert "hash: hash-block 0/1\n" in stream.getvalue()


def test_lines_come_now_and_then_where_there_is_no_terminal(impatient):
    stream = io.StringIO()
    with progress.Progress(None, stream) as shown, shown.step("hash"):
        wait_for(stream.getvalue)
        time.sleep(1.2)  # two more looks
    assert stream.getvalue().count("\n") == 1


def test_a_terminal_gets_one_line_that_is_cleared(impatient):
    stream = Terminal()
    with progress.Progress(None, stream) as shown, shown.step("s" * 500):
        wait_for(stream.getvalue)
    text = stream.getvalue()
    assert "\n" not in text
    assert max(map(len, text.split("\r"))) < 500
    assert text.endswith(" \r")


def test_a_sentence_does_not_run_into_the_line(impatient, capsys):
    stream = Terminal()
    with progress.Progress(None, stream) as shown, shown.step("hash"):
        wait_for(stream.getvalue)
        shown.say("A word.")
        assert stream.getvalue().endswith(" \r")
    assert capsys.readouterr().out == "A word.\n"


def test_a_quick_step_says_nothing():
    stream = io.StringIO()
    with progress.Progress(None, stream) as shown, shown.step("hash"):
        run_tasks(abs, [-1], name="hash-block")
    assert stream.getvalue() == ""


def test_the_groups_of_a_scheduler_are_counted_by_name():
    token = "0123456789abcdef" * 2
    groups = {
        f"sketch-block-{token}": {"memory": 2, "released": 1, "forgotten": 4, "processing": 1, "waiting": 2},
        f"merge-level-1-{token}": {"waiting": 5},
    }
    scheduler = SimpleNamespace(task_groups={name: SimpleNamespace(states=s) for name, s in groups.items()})
    assert progress.scheduler_counts(scheduler) == {"sketch-block": (7, 10), "merge-level-1": (0, 5)}


def test_a_scheduler_with_all_done_shows_nothing():
    scheduler = SimpleNamespace(task_groups={"sum": SimpleNamespace(states={"memory": 3, "erred": 1})})
    assert progress.scheduler_counts(scheduler) == {}


def test_a_scheduler_that_is_gone_shows_nothing():
    def refuse(_function):
        raise OSError("closed")

    assert progress.cluster_counts(SimpleNamespace(run_on_scheduler=refuse)) == {}


@pytest.mark.parametrize(
    ("counts", "line"),
    [
        ({}, "[5 s] fit"),
        ({"a": (0, 4), "b": (0, 2)}, "[5 s] fit: a 0/4"),
        ({"a": (4, 4), "b": (1, 2), "c": (1, 9), "d": (0, 1)}, "[5 s] fit: b 1/2 · c 1/9"),
    ],
)
def test_a_line_names_the_groups_at_work(counts, line):
    assert progress.line_of("fit", 5.4, counts) == line
