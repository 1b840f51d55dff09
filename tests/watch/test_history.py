"""State of fits on the dashboard page, from events alone: several fits, nested ones, faults."""

import pytest

from dspectral.dashboard.page import render_card, render_page
from dspectral.dashboard.plugin import KINDS
from dspectral.engine.around.callbacks import HOOKS, BlocksDone, FitEnded, PassEnded, PassStarted
from dspectral.watch import history as histories
from dspectral.watch.history import MAX_FITS, MAX_PASSES, FitHistory


@pytest.fixture
def clock(monkeypatch):
    """The time of the history, which a test sets."""
    times = [100.0]
    monkeypatch.setattr(histories.time, "time", lambda: times[0])
    return times


def started(fit, run, number=1, **changes):
    values = {"name": "sketch", "n_blocks": 8, "n_merges": 7, "n_rows": 800, "n_bytes": 8000, "n_passes": 2}
    values |= {"fits": (fit,), "fit_names": ("TruncatedSVD",), "merge_groups": ("a", "b", "c"), **changes}
    return PassStarted(run, values.pop("name"), "sketch-block", number=number, **values)


def ended(fit, error="", name="TruncatedSVD", parent=""):
    return FitEnded(fit, name, parent, 2, 9.5, error, None if error else 0.1)


def make_fit(fit="f"):
    """Events of a fit of two passes."""
    return [
        started(fit, f"{fit}1"),
        PassEnded(f"{fit}1", "sketch", 4.0, ""),
        started(fit, f"{fit}2", 2),
        BlocksDone(f"{fit}2", 3, 1),
        PassEnded(f"{fit}2", "sketch", 5.0, ""),
        ended(fit),
    ]


def feed(events, history=None):
    history = history or FitHistory()
    for event in events:
        getattr(history, HOOKS[type(event)])(event)
    return history


def test_fit_ends_with_all_tasks_of_its_passes():
    history = feed(make_fit())
    (fit,) = history.fits.values()
    assert [(state.done.n_blocks, state.done.n_merges, state.share) for state in fit.passes] == [(8, 7, 1.0)] * 2
    assert history.get_running() == []
    assert [event.fit for event in history.ended] == ["f"]
    assert KINDS.keys() == {kind.__name__ for kind in HOOKS}


def test_several_fits_run_at_once_and_the_page_has_a_card_for_each():
    assert "show_dashboard" in render_page(FitHistory(), 300.0)
    history = feed([*make_fit("old"), *make_fit("f")[:3], *make_fit("g")[:3]])
    assert [fit.passes[-1].started.run for fit in history.get_running()] == ["f2", "g2"]
    page = render_page(history, 500.0, "3.0 GB of 8.0 GB")
    assert (page.count("<h2>"), page.count("<tr>"), page.count("3.0 GB of 8.0 GB")) == (2, 2, 2)
    feed([*make_fit("g")[3:], *make_fit("f")[3:]], history)
    page = render_page(history, 600.0, "3.0 GB")
    assert (page.count("<h2>"), page.count("<tr>"), page.count("3.0 GB")) == (1, 4, 0)


def test_fit_inside_another_is_shown_with_it():
    names = {"fits": ("o", "i"), "fit_names": ("IntentClassifier", "Sentences"), "name": "<b>"}
    history = feed([started("o", "i1", **names)])
    feed([ended("i", parent="o")], history)
    (fit,) = history.get_running()
    card = render_card(fit, 110.0)
    for text in ("IntentClassifier &gt; Sentences", "pass 1 of 2", "Sentences: 1 &lt;b&gt;, 0%"):
        assert text in card
    assert "<b>" not in card
    assert card.count("not started") == 2  # the label and the title of one pass
    assert not history.ended


def test_pass_outside_any_fit_is_shown_as_one():
    history = feed([started("", "r", None, fits=(), fit_names=(), n_passes=None, name="moments")])
    (fit,) = history.get_running()
    assert fit.name == "moments"
    assert "step</i> moments, 0%" in render_card(fit, 110.0)
    feed([PassEnded("r", "moments", 1.0, "")], history)
    assert "finished in" in render_card(fit, 110.0)


def test_lost_tasks_are_counted_and_named():
    history = feed([started("f", "r"), BlocksDone("r", 6, 3), BlocksDone("r", 2, 1, 7, 1)])
    (fit,) = history.get_running()
    assert fit.passes[0].share == 3 / 15
    assert "lost</i> sketch: 1 worker lost, 7 tasks run again" in render_card(fit, 110.0)


def test_failure_is_named():
    history = feed([started("f", "f1"), PassEnded("f1", "sketch", 2.0, "OSError")])
    assert "bar bad" in render_page(history, 9.0)
    feed([ended("f", "OSError")], history)
    assert render_page(history, 9.0).count("OSError</b>") == 2


def test_fits_of_a_disconnected_client_have_ended():
    history = feed(make_fit()[:1])
    history.end_all()
    assert history.get_running() == []
    assert "client disconnected" in render_page(history, 140.0)
    feed(make_fit()[1:], history)
    assert "client disconnected" not in render_page(history, 160.0)


def test_memory_is_bounded_and_running_fits_stay():
    history = feed(make_fit("running")[:1])
    for i in range(3 * MAX_FITS):
        feed(make_fit(f"f{i}"), history)
    assert len(history.fits) == MAX_FITS
    assert [fit.passes[0].started.run for fit in history.get_running()] == ["running1"]
    for i in range(3 * MAX_PASSES):
        feed([started("running", f"r{i}", i)], history)
    assert len(history.fits["running"].passes) == MAX_PASSES


def test_work_of_the_client_between_passes_has_a_name_and_a_bar(clock):
    history = feed(make_fit()[:1])
    (fit,) = history.get_running()
    assert fit.get_client_work(110.0) == ("", 0.0)
    clock[0] = 110.0
    feed(make_fit()[1:2], history)
    assert fit.get_client_work(110.5) == ("", 0.0)  # too short
    assert fit.get_client_work(112.0) == ("after pass 1 of 2, sketch", 2.0)
    card = render_card(fit, 112.0)
    assert "computing in the client</i> after pass 1 of 2, sketch, 0:00:02" in card
    assert "client, 2 s" in card
    clock[0] = 115.0
    feed(make_fit()[2:], history)
    card = render_card(fit, 130.0)
    assert "client, 5.0 s" in card
    assert card.count('class="bar client"') == 1


def test_running_pass_has_its_speed_time_left_and_last_task(clock):
    history = feed([started("f", "r", finish="decompose")])
    (fit,) = history.get_running()
    assert "rows/s" not in render_card(fit, 110.0)
    feed([BlocksDone("r", 4, 1)], history)
    card = render_card(fit, 140.0)
    for text in ("4/8, 10 rows/s, 100 bytes/s", "0:00:40, 0:00:40 left", "8 blocks, 3 levels"):
        assert text in card
    assert "on one worker" not in card
    feed([BlocksDone("r", 8, 7)], history)
    assert "on one worker</i> decompose" in render_card(fit, 150.0)
