"""What a person sees of fits: in a terminal, as lines, and in a notebook."""

import io
import itertools
import re
import sys
import threading
import time
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import pytest

import dspectral
from dspectral.engine import report_share, run_tasks
from dspectral.engine.around.callbacks import TASK_SHARES, BlocksDone, FitEnded, PassEnded, PassStarted
from dspectral.store.from_text import readers
from dspectral.store.from_text.lines import ReadOptions
from dspectral.store.from_text.sources import split_files
from dspectral.watch import Progress, display, progress
from dspectral.watch.display import (
    EMPTY_VIEW,
    Phase,
    View,
    format_counts,
    format_finished,
    format_line,
    format_times,
    get_headings,
    get_phases,
    render_html,
)
from dspectral.watch.history import FitHistory


class Terminal(io.StringIO):
    def isatty(self):
        return True


def wait_for(condition):
    """Wait until something is so, which takes a moment; the deadline only ends a test that hangs."""
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def plain(text):
    """A text without what moves the cursor and colors words."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(display, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(display, "UPDATE_SECONDS", 0.02)
    monkeypatch.setattr(display, "LINE_SECONDS", (0.05, 0.05))


def rows_that(first_waits, last_waits=lambda: True):
    """Eight blocks, of which the first and the last that are asked for are read when something is so."""
    values, n_asked = np.random.default_rng(0).standard_normal((80, 12)), itertools.count()

    def wait(block_info):
        number = block_info[None]["chunk-location"][0]
        wait_for({0: first_waits, 7: last_waits}.get(next(n_asked), lambda: True))
        return values[10 * number : 10 * number + 10]

    return da.map_blocks(wait, chunks=((10,) * 8, (12,)), dtype=float, meta=np.empty((0, 0)))


def fit(rows):
    with dask.config.set(scheduler="threads", num_workers=1):
        return dspectral.TruncatedSVD(3, solver="frequent_directions", sketch_size=6).fit(rows)


def started(**changes):
    values = {"number": 2, "n_passes": 4, "n_blocks": 80, "n_merges": 79, "n_rows": 800, "n_bytes": 8_000_000}
    values |= {"fits": ("f", "g"), "fit_names": ("TruncatedSVD", "Inner"), **changes}
    return PassStarted("r", "sketch", "sketch-block-" + "0" * 32, **values)


def test_lines_name_the_fit_its_pass_blocks_and_what_it_came_to():
    stream = io.StringIO()
    with progress(stream=stream):
        fit(rows_that(lambda: "pass 1 of 1" in stream.getvalue()))
    *lines, last = stream.getvalue().splitlines()
    assert "[0:00:00] TruncatedSVD: pass 1 of 1: sketch-block 0/8, 0 % · merge 0/7, 0 %" in lines
    assert re.fullmatch(r"TruncatedSVD: 1 pass, relative certificate 0\.\d+.*, \d+\.\d s", last)


def test_terminal_shows_bars_with_rates_within_its_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    stream = Terminal()
    with progress(stream=stream):
        fit(
            rows_that(
                lambda: "pass 1 of 1" in plain(stream.getvalue()),
                lambda: "rows/s" in plain(stream.getvalue()),
            )
        )
    text = plain(stream.getvalue())
    assert "TruncatedSVD: pass 1 of 1" in text
    assert "rows/s" in text
    assert "merge" in text
    assert max(map(len, re.split(r"[\r\n]+", text))) <= 60
    assert re.search(r"TruncatedSVD: 1 pass, relative certificate 0\.\d+", text)


def test_errors_and_interrupts_pass_through_and_end_the_display():
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), progress(stream=io.StringIO()):
            raise error
    assert display._ACTIVE == []


def test_a_display_within_a_display_leaves_it_to_the_outer_one():
    outer, inner = io.StringIO(), io.StringIO()
    with progress(stream=outer):
        with progress(stream=inner):
            fit(rows_that(outer.getvalue))
        fit(rows_that(lambda: True))
    assert inner.getvalue() == ""
    assert outer.getvalue().count("TruncatedSVD: 1 pass") == 2


def test_a_stream_that_is_closed_stops_no_fit():
    stream = io.StringIO()
    with progress(stream=stream):
        stream.close()
        assert fit(rows_that(lambda: True)).n_passes_ == 1


def test_it_can_be_switched_on_and_off():
    stream = io.StringIO()
    progress(True, stream=stream)
    fit(rows_that(stream.getvalue))
    progress(False)
    written = stream.getvalue()
    fit(rows_that(lambda: True))
    assert "TruncatedSVD: 1 pass" in written == stream.getvalue()
    assert display._ACTIVE == []
    assert "progress" not in {thread.name for thread in threading.enumerate()}


def test_fits_of_several_threads_are_shown_at_once():
    stream = io.StringIO()
    with progress(stream=stream):
        threads = [threading.Thread(target=fit, args=(rows_that(stream.getvalue),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert stream.getvalue().count("TruncatedSVD: 1 pass") == 3


def test_headings_name_fits_losses_and_work_between_passes():
    history = FitHistory()
    history.on_pass_started(started(finish="decompose"))
    history.on_blocks_done(BlocksDone("r", 20, 3, 6, 1))
    now = time.time()
    lines = ["TruncatedSVD > Inner: pass 2 of 4", "1 worker lost, 6 tasks run again"]
    assert get_headings(history, now) == lines
    (fit,) = history.get_running()
    blocks, merges = get_phases(fit.passes[0], now, 0.5)
    assert blocks[:3] == ("sketch-block", 20.5, 80)
    assert blocks.get_speed(blocks.n_bytes) == pytest.approx(blocks.get_speed(blocks.n_rows) * 10_000)
    assert merges[:3] == ("merge", 3, 79)
    history.on_blocks_done(BlocksDone("r", 80, 79))
    assert get_headings(history, now)[1:] == ["last task: decompose"]
    history.on_pass_ended(PassEnded("r", "sketch", 9.0, ""))
    assert "computing in the client after pass 2 of 4, sketch" in get_headings(history, now + 10)[1]
    history.on_fit_ended(FitEnded("g", "Inner", "f", 1, 1.0, ""))
    history.on_fit_ended(FitEnded("f", "TruncatedSVD", "", 4, 2.5, "ValueError"))
    assert get_headings(history, now) == []
    assert re.match("TruncatedSVD: 4 passes.*ValueError, 2.5 s$", *map(format_finished, history.ended))


def test_progress_moves_within_a_block():
    stream = io.StringIO()

    def read(_item):
        report_share(0.25)
        wait_for(lambda: "read-text 0/1, 25 %" in stream.getvalue())

    with progress(stream=stream):
        run_tasks(read, [0], name="read-text")
    assert TASK_SHARES == {}


@pytest.mark.parametrize(
    ("rows", "size", "words"),
    [
        (None, None, "1/2"),
        (2469, 6_400_000_000, "1/2, 1,234 rows/s, 3.2 GB/s"),
    ],
)
def test_rates_are_scaled_and_left_out_where_unknown(rows, size, words):
    assert format_counts(Phase("a", 1, 2, 1.0, 0, rows, size)) == words


@pytest.mark.parametrize("name", ["rows.csv", "lines.txt"])
def test_readers_report_the_share_of_a_file(name, tmp_path, monkeypatch):
    path, shares = tmp_path / name, []
    path.write_text("text\n" + "the cat sat on the mat\n" * 1000)
    monkeypatch.setattr(readers, "report_share", shares.append)
    (file_range,) = split_files(str(path), ReadOptions(field="text" if name == "rows.csv" else None))
    assert (
        sum(block.n_documents for block in readers.read_file_range(file_range, ReadOptions(block_bytes=4000))) >= 1000
    )
    assert len(shares) > 4
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0, abs=0.01)


class Shell:
    kernel = object()
    execution_count = 1


class Handle:
    def __init__(self, shown):
        self.shown = shown

    def update(self, content):
        self.shown[-1].append(content)


@pytest.fixture
def notebook(monkeypatch):
    """Displays, each a list of what it showed, and the shell."""
    shown, shell = [], Shell()

    def display(content, *, display_id):
        assert display_id
        shown.append([content])
        return Handle(shown)

    fake = SimpleNamespace(get_ipython=lambda: shell, display=SimpleNamespace(HTML=str, display=display))
    monkeypatch.setitem(sys.modules, "IPython", fake)
    return shown, shell


def test_notebook_updates_one_display_per_cell_in_place(notebook, capsys):
    shown, shell = notebook
    with progress():
        fit(rows_that(lambda: shown and "TruncatedSVD: pass 1 of 1" in shown[-1][-1]))
        fit(rows_that(lambda: True))
        wait_for(lambda: shown[-1][-1].count("1 pass") == 2)
        shell.execution_count = 2
        fit(rows_that(lambda: len(shown) == 2))
    first, second = shown
    assert "TruncatedSVD" in first[0]
    assert all(one != other for one, other in itertools.pairwise(first))  # no flicker
    assert first[-1].count("TruncatedSVD: 1 pass, relative certificate") == 2
    assert second[-1].count("TruncatedSVD: 1 pass, relative certificate") == 1
    assert capsys.readouterr() == ("", "")


def test_a_terminal_of_ipython_is_no_notebook(notebook):
    shown, shell = notebook
    shell.kernel = None
    stream = io.StringIO()
    with progress(stream=stream):
        fit(rows_that(stream.getvalue))
    assert shown == []


def test_the_display_is_bounded_and_escapes_what_it_shows():
    html = render_html(EMPTY_VIEW, [f"<fit {i}>, 1.0 s" for i in range(11)])
    assert "and 3 earlier" in html
    assert html.count("&lt;fit") == 8
    assert "<fit" not in html
    assert render_html(EMPTY_VIEW, []) == ""


def test_a_step_of_a_program_stands_before_its_fit():
    stream = io.StringIO()
    with Progress(stream=stream, keep_summaries=False) as shown, shown.step("sketch the rows"):
        fit(rows_that(stream.getvalue))
    assert stream.getvalue().startswith("[0:00:00] sketch the rows")
    assert "1 pass," not in stream.getvalue()


def test_lines_come_now_and_then_where_there_is_no_terminal(monkeypatch):
    monkeypatch.setattr(display, "LINE_SECONDS", (60.0, 60.0))
    stream = io.StringIO()
    with display.Progress(stream) as shown, shown.step("hash"):
        wait_for(stream.getvalue)
        time.sleep(0.1)  # five more looks
    assert stream.getvalue().count("\n") == 1


def test_a_terminal_gets_bars_that_are_cleared_and_nothing_is_cut(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    stream = Terminal()
    name = "read all of the documents that have labels, and those that have none, from every file of the folder"
    with display.Progress(stream) as shown, shown.step(name):
        wait_for(lambda: "labels" in stream.getvalue())
    text = plain(stream.getvalue())
    assert set(name.split()) <= set(text.split())
    assert "…" not in text
    assert max(map(len, re.split(r"[\r\n]+", text))) <= 80
    after = stream.getvalue().rpartition("\x1b[2K")[2]  # the last line is erased
    assert plain(after).strip() == ""


def test_what_is_printed_stays_on_standard_output(capsys):
    stream = Terminal()
    with display.Progress(stream) as shown, shown.step("hash"):
        wait_for(stream.getvalue)
        sys.stdout.write("A word.\n")
    assert capsys.readouterr().out == "A word.\n"


def test_a_quick_step_says_nothing():
    stream = io.StringIO()
    with display.Progress(stream, quiet_seconds=3.0) as shown, shown.step("hash"):
        run_tasks(abs, [-1], name="hash-block")
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("phases", "line"),
    [
        ([], "[0:00:05] fit: last"),
        (
            [Phase("a", 4, 4, 5.0), Phase("b", 1, 2, 5.0)],
            "[0:00:05] fit: a 4/4, 100 %, 0:00:05 · b 1/2, 50 %, 0:00:05, 0:00:05 left · last",
        ),
        ([Phase("a", 11, 245, 1.0, 11)], "[0:00:05] fit: a 11/245, 4 %, 0:00:01 · last"),
    ],
)
def test_a_line_names_every_phase(phases, line):
    assert format_line(View(["fit", "last"], phases, 5.4)) == line


def test_the_time_left_follows_from_the_tasks_that_had_to_run():
    assert format_times(Phase("sketch", 4, 10, 120.0)) == "0:02:00, 0:03:00 left"
    assert format_times(Phase("sketch", 4, 10, 120.0, n_kept=2)) == "0:02:00, 0:06:00 left"
