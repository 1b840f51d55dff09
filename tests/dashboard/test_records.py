"""What the scheduler knows of fits, from messages alone: in any order, of several fits, of nested ones."""

import itertools

import numpy as np
import pytest

from dspectral.dashboard.page import render_card, render_finished, render_page, select_fits, sort_passes
from dspectral.engine.around.events import (
    BlocksDone,
    CertificateComputed,
    CompilationEnded,
    CompilationStarted,
    FitEnded,
    FitStarted,
    PassEnded,
    PassStarted,
    SummariesMerged,
    TasksRecomputed,
    to_message,
)
from dspectral.watch.history import MAX_FITS, MAX_PASSES, MAX_POINTS, FitHistory


def began(fit, run, number=1, **changes):
    groups = tuple(f"merge-level-{level}-{run}" for level in (1, 2, 3))
    values = {"name": "sketch", "n_blocks": 8, "n_rows": 800, "n_bytes": 8000, "n_passes": 2}
    values = {**values, "fit_name": "TruncatedSVD", "n_merges": 7, "fan_in": 2, **changes}
    group = f"{values['name']}-block-{run}"
    return PassStarted(run=run, block_group=group, merge_groups=groups, fit=fit, number=number, **values)


def running(events):
    """The record of events, and the fit and the pass that runs."""
    records = heard(events)
    ((root, one),) = records.get_running_passes()
    return records, root, one


def merged(fit, run, level, n_rows, relative, summary_bytes=100):
    return SummariesMerged(fit, run, level, summary_bytes, n_rows, relative, relative)


def a_fit(fit="f"):
    """Messages of a fit of two passes."""
    return [
        FitStarted(fit, "TruncatedSVD", "", 2),
        began(fit, f"{fit}1"),
        merged(fit, f"{fit}1", 1, 200, 0.3),
        merged(fit, f"{fit}1", 3, 800, 0.2),
        PassEnded(fit, f"{fit}1", "sketch", 4.0, ""),
        began(fit, f"{fit}2", 2),
        PassEnded(fit, f"{fit}2", "sketch", 5.0, ""),
        CertificateComputed(fit, "TruncatedSVD", 1.0, 0.1),
        FitEnded(fit, "TruncatedSVD", 2, 9.5, ""),
    ]


def heard(events, *, at=100.0, records=None, shuffled=None):
    records = records or FitHistory()
    messages = [to_message(event) for event in events]
    if shuffled is not None:
        np.random.default_rng(shuffled).shuffle(messages)
    for i, message in enumerate(messages):
        records.on_message(message, at + i)
    return records


def facts(records):
    """All that does not depend on when a message came."""
    return [
        (
            fit.name,
            fit.n_passes,
            fit.is_running,
            [(one.run, one.done, one.share, one.is_running, one.best) for one in sort_passes([fit])],
        )
        for fit in records.get_roots()
    ]


def test_a_fit_is_over_with_all_its_passes_once_all_is_told():
    records = heard(a_fit())
    (fit,) = records.get_roots()
    assert not fit.is_running
    assert [one.done for one in fit.passes.values()] == [[8, 4, 2, 1]] * 2
    assert [bound for _at, bound in fit.bounds] == [0.3, 0.2, 0.1]
    assert records.get_running_passes() == []
    records.on_worker_left()  # while nothing runs
    assert fit.lost_workers == 0
    smaller = [*a_fit()[:2], merged("f", "f1", 2, 400, 0.2), merged("f", "f1", 1, 200, 0.9)]
    assert [bound for _at, bound in heard(smaller).get_roots()[0].bounds] == [0.2]


@pytest.mark.parametrize("seed", range(8))
def test_the_order_in_which_messages_come_does_not_matter(seed):
    assert facts(heard(a_fit(), shuffled=seed)) == facts(heard(a_fit()))


def test_several_fits_run_beside_each_other():
    records = heard([*itertools.chain(*zip(a_fit("f")[:4], a_fit("g")[:4], strict=True))])
    assert [fit.token for fit in records.get_roots()] == ["f", "g"]
    assert [(root.token, one.run) for root, one in records.get_running_passes()] == [("f", "f1"), ("g", "g1")]
    heard(a_fit("f")[4:], records=records, at=200.0)
    assert [fit.token for fit in select_fits(records)] == ["g"]


def test_a_fit_within_another_is_shown_with_that():
    outer = [
        FitStarted("o", "IntentClassifier", "", None),
        began("o", "o1", fit_name="IntentClassifier", n_passes=None),
    ]
    inner = [FitStarted("i", "SentenceRepresentation", "o", 2), began("i", "i1", n_passes=2, name="<b>")]
    records = heard([*outer, *inner])
    (root,) = records.get_roots()
    assert [fit.name for fit in records.get_family(root)] == ["IntentClassifier", "SentenceRepresentation"]
    head = render_card(records, root, 110.0)
    assert "IntentClassifier &gt; SentenceRepresentation" in head
    assert "pass 1 of 2" in head
    assert "SentenceRepresentation: 1 &lt;b&gt;, 0%" in head
    assert "<b>" not in head
    assert head.count("not started") == 2 * 1  # in the label and in its title


def test_a_pass_outside_any_fit_is_shown_as_one():
    records = heard([began("", "r", None, fit_name="", n_passes=None, name="moments")])
    (fit,) = records.get_roots()
    assert (fit.name, fit.is_running) == ("moments", True)
    heard([PassEnded("", "r", "moments", 1.0, "")], records=records)
    assert not fit.is_running


def test_what_a_lost_worker_had_done_is_counted_again():
    records, root, one = running(a_fit()[:2])
    one.count([6, 3, 1, 0], 1.0)
    assert one.share == 10 / 15
    records.on_worker_left()
    one.count([2, 1, 0, None], 2.0)
    assert (one.done, one.counts.again, one.n_redone) == ([6, 3, 1, 0], [4, 2, 1, 0], 7)
    assert one.share == 3 / 15
    one.count([4, 2, 0, 0], 3.0)
    one.count([3, 2, 0, 0], 4.0)
    assert one.n_redone == 8
    assert root.lost_workers == 1
    head = render_card(records, root, 5.0)
    assert "1 worker, 8 tasks run again" in head
    assert "3 repeated" in head
    one.count([None, None, None, None], 5.0)
    assert one.done == [6, 3, 1, 0]


def test_the_rate_is_that_of_the_last_seconds_and_counts_what_runs_again():
    _records, _root, one = running(a_fit()[:2])
    for at, done in ((0.0, 0), (1.0, 2), (2.0, 4), (3.0, 1), (4.0, 3)):
        one.count([done, 0, 0, 0], at)
    assert one.get_rate() == 6 / 4


def test_loops_are_compiled_from_one_message_to_the_other():
    start, end = (
        to_message(CompilationStarted("<loop>", "m")),
        to_message(CompilationEnded("<loop>", "m", 1.0)),
    )
    records = heard(a_fit()[:2])
    records.on_message(start, 1.0)
    assert list(records.get_compiling_loops()) == ["<loop>"]
    assert "&lt;loop&gt; (once" in render_card(records, records.get_roots()[0], 2.0)
    records.on_message(end, 2.0)
    assert not records.get_compiling_loops()
    late = FitHistory()
    late.on_message(end, 1.0)
    late.on_message(start, 2.0)
    assert not late.get_compiling_loops()


def test_a_failure_is_named():
    records = heard([*a_fit()[:2], PassEnded("f", "f1", "sketch", 2.0, "OSError")])
    assert "bar bad" in render_card(records, records.get_roots()[0], 9.0)
    heard([FitEnded("f", "TruncatedSVD", 1, 3.0, "OSError")], records=records)
    assert "OSError" in render_card(records, records.get_roots()[0], 9.0)
    assert "<b>OSError</b>" in render_finished(records)


def test_fits_whose_client_left_are_over():
    records = heard(a_fit()[:2])
    records.on_client_left(130.0)
    (fit,) = records.get_roots()
    assert (fit.is_running, records.get_running_passes()) == (False, [])
    assert "client" in render_card(records, fit, 140.0)
    heard(a_fit()[-1:], records=records, at=150.0)
    assert "9.5 s" in render_card(records, fit, 160.0)


def test_what_is_no_event_of_this_version_and_what_the_scheduler_counts_itself_is_left_alone():
    records = heard([BlocksDone("f", "r", 1, 1), TasksRecomputed("f", "r", 1, 1)])
    message = to_message(FitStarted("g", "G", "", 1))
    del message["parent"]
    for other in (message, {"event": "Pondering"}, "hello"):
        records.on_message(other, 1.0)
    assert records.fits == {}


def test_memory_is_bounded_and_what_runs_is_kept_longest():
    records = heard(a_fit("running")[:2])
    for i in range(3 * MAX_FITS):
        heard(a_fit(f"f{i}"), records=records)
    assert len(records.fits) == MAX_FITS
    assert "running" in records.fits
    assert [root.token for root, _one in records.get_running_passes()] == ["running"]
    for i in range(3 * MAX_PASSES):
        heard([began("running", f"r{i}", i)], records=records)
    assert len(records.fits["running"].passes) == MAX_PASSES
    assert len(records._runs) <= 2 * MAX_FITS + MAX_PASSES


def test_curves__show_the_last_points_on_a_logarithmic_scale():
    records, root, _one = running([FitStarted("f", "F", "", 1), began("f", "r")])
    heard([CertificateComputed("f", "F", 1.0, 7.0)], records=records, at=100.0)
    assert "polyline" not in render_card(records, root, 101.0)
    for i in range(MAX_POINTS - 1):
        heard([CertificateComputed("f", "F", 1.0, 1.0)], records=records, at=101.0 + i)
    heard([CertificateComputed("f", "F", 1.0, 0.01)], records=records, at=500.0)
    drawn = render_card(records, root, 501.0)
    assert len(root.bounds) == MAX_POINTS
    assert "from 0.01 to 1" in drawn
    assert 'points="0.0,0.0' in drawn
    assert '100.0,100.0"' in drawn


def test_a_large_tree_is_drawn_with_few_shapes():
    records, root, one = running([FitStarted("f", "F", "", 1), began("f", "r", n_blocks=100_000)])
    one.count([50_000, 20_000, 3, 0], 1.0)
    drawn = render_card(records, root, 2.0)
    assert "50,000 of 100,000" in drawn
    assert drawn.count("<rect") < 400


def test_the_page_shows_each_running_fit_and_a_table_of_the_others():
    records = FitHistory()
    assert "show_dashboard" in render_page(records, 300.0)
    heard(a_fit("old"), records=records)
    heard(a_fit("f")[:4], records=records, at=300.0)
    heard(a_fit("g")[:4], records=records, at=400.0)
    page = render_page(records, 500.0)
    assert "No fit" not in page
    assert page.count("<h2>") == page.count("<tr>") == 2
    heard(a_fit("g")[4:], records=records, at=500.0)
    page = render_page(records, 600.0)
    assert (page.count("<h2>"), page.count("<tr>")) == (1, 3)


def test_what_the_client_computes_between_passes_has_a_name_and_a_bar():
    records = heard(a_fit()[:1])  # messages come at 100, 101, ...
    (root,) = records.get_roots()
    assert records.get_client_work(root, 100.5) == ("", 0.0)  # a moment
    assert records.get_client_work(root, 103.0) == ("before the first pass", 3.0)
    heard(a_fit()[1:2], records=records, at=104.0)
    assert records.get_client_work(root, 110.0) == ("", 0.0)
    heard(a_fit()[4:5], records=records, at=110.0)
    assert records.get_client_work(root, 112.0) == ("after pass 1 of 2, sketch", 2.0)
    head = render_card(records, root, 112.0)
    assert "computing in the client</i> after pass 1 of 2, sketch, 0:00:02" in head
    assert "client, 2 s" in head
    heard(a_fit()[5:], records=records, at=115.0)
    assert records.get_client_work(root, 130.0) == ("", 0.0)
    head = render_card(records, root, 130.0)
    assert "client, 5.0 s" in head
    assert head.count('class="bar client"') == 1


def test_a_running_pass_has_its_speed_the_time_left_and_its_last_task():
    records, root, one = running([FitStarted("f", "F", "", 2), began("f", "r", finish="decompose")])
    assert (one.get_rate(), root.get_seconds_left(one)) == (None, None)
    for at, done in ((110.0, 0), (120.0, 2), (128.0, 2), (140.0, 4)):  # slow blocks
        one.count([done, 0, 0, 0], at)
    assert one.get_rate() == 0.1
    assert root.get_seconds_left(one) == (40.0, 120.0)
    one.count([4, 1, 0, 0], 145.0)
    assert one.get_rate() == 2 / 25
    head = render_card(records, root, 145.0)
    assert "0.08 blocks/s, 8 rows/s, 80 bytes/s" in head
    assert "workers" not in head
    root.memory = 3_000_000_000, 8_000_000_000
    assert "workers</i> 3.0 GB of 8.0 GB" in render_card(records, root, 145.0)
    assert "0:00:50 of this pass" in head
    assert one.last_task == ""
    one.count([8, 4, 2, 1], 150.0)
    assert one.last_task == "decompose"
    assert "on one worker</i> decompose" in render_card(records, root, 150.0)
