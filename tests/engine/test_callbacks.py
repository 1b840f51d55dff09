"""Hooks of fits, builds and passes, under every scheduler."""

import logging
import re

import dask.array as da
import numpy as np
import pytest
from distributed import Client, get_worker

import dspectral
from dspectral.decomposition import spectrum
from dspectral.engine import Callback, summarize
from dspectral.engine.around.callbacks import FitEnded, PassEnded, PassStarted
from dspectral.engine.around.context import fit_context
from tests.contracts import CASES
from tests.engine.recording import record_events
from tests.schedulers import scheduled


@pytest.fixture
def rows():
    return da.from_array(np.random.default_rng(0).standard_normal((80, 12)), chunks=(10, 12))


@pytest.fixture
def client():
    with Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0") as client:
        yield client


def sketch(rows):
    return dspectral.TruncatedSVD(3, solver="frequent_directions", sketch_size=6).fit(rows)


def check_sketch(events):
    """The events of a fit of one pass over 8 blocks."""
    started, *done, pass_ended, fit_ended = events
    assert [type(event) for event in (started, pass_ended, fit_ended)] == [PassStarted, PassEnded, FitEnded]
    assert (started.fit_names, started.name, started.number, started.n_passes) == (("TruncatedSVD",), "sketch", 1, 1)
    assert (started.n_blocks, started.n_merges, len(started.merge_groups), started.fan_in) == (8, 7, 3, 2)
    assert (started.n_rows, started.n_bytes) == (80, 80 * 12 * 8)
    assert (done[-1].n_blocks, done[-1].n_merges) == (8, 7)
    counts = [event.n_blocks + event.n_merges for event in done]
    assert counts == sorted(counts)
    assert 0 < fit_ended.certificate < 1
    assert (fit_ended.n_passes, fit_ended.parent) == (1, "")
    assert {event.run for event in events[:-1]} == {started.run}


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_hooks_are_called_in_order(rows, scheduler):
    with scheduled(scheduler):
        check_sketch(record_events(lambda: sketch(rows)))


def test_hooks_are_called_for_passes_of_a_cluster(client, rows):
    check_sketch(record_events(lambda: sketch(rows)))


def test_collected_rows_are_decomposed_by_a_named_task_of_a_worker(client, rows, monkeypatch):
    workers, exact_svd = [], spectrum.exact_svd
    expected = dspectral.TruncatedSVD(3, solver="in_memory").fit(rows.compute())
    recorded = lambda *args, **options: (workers.append(get_worker().address), exact_svd(*args, **options))[1]  # noqa: E731
    monkeypatch.setattr(spectrum, "exact_svd", recorded)
    model = dspectral.TruncatedSVD(3, solver="in_memory")
    (started,) = record_events(lambda: model.fit(rows), PassStarted)
    assert (started.name, started.finish) == ("read", "decompose")
    assert workers == list(client.scheduler_info()["workers"])
    assert model.components_.tobytes() == expected.components_.tobytes()


def test_fit_inside_a_fit_names_its_parent():
    texts = ["play some jazz", "book a flight", "play loud music", "book a cheap flight"] * 4
    model = dspectral.IntentClassifier(dspectral.SentenceRepresentation(2, min_df=1))
    events = record_events(lambda: model.fit(texts, ["music", "travel"] * 8))
    names = [event.fit_names for event in events if isinstance(event, PassStarted)]
    inner, outer = (event for event in events if isinstance(event, FitEnded))
    assert ("IntentClassifier", "SentenceRepresentation") in names
    assert (outer.name, inner.name, inner.parent) == ("IntentClassifier", "SentenceRepresentation", outer.fit)


def test_builds_count_their_passes_and_the_bytes_of_the_text(tmp_path):
    text = tmp_path / "three.txt"
    text.write_text("the cat sat\nthe dog\na cat\n")
    settings = dspectral.VocabularySettings(ngram_range=(1, 1))
    events = record_events(
        lambda: (
            dspectral.build_store(str(text), str(tmp_path / "hashed.zarr")),
            dspectral.build_store(str(text), str(tmp_path / "known.zarr"), vocabulary=settings),
            dspectral.build_corpus(str(text), str(tmp_path / "corpus.zarr")),
        )
    )
    names = [event.name for event in events if isinstance(event, FitEnded)]
    assert names == ["build_store", "build_store", "build_corpus"]
    started = [event for event in events if isinstance(event, PassStarted)]
    assert [(event.name, event.number, event.n_passes) for event in started] == [
        ("hash-block", 1, 1),
        ("count-terms", 1, 2),
        ("merge-terms", None, None),
        ("encode-block", 2, 2),
        ("count-terms", 1, 2),
        ("merge-words", None, None),
        ("number-words", 2, 2),
    ]
    assert {event.n_bytes for event in started if event.number} == {text.stat().st_size}


def boom(_block):
    raise ValueError("boom")


def test_error_ends_pass_and_fit_and_is_named():
    def fail():
        with pytest.raises(ValueError, match="boom"), fit_context("Own", n_passes=1):
            summarize(np.ones((4, 3)), summarize_block=boom, name="own")

    assert [event.error for event in record_events(fail, PassEnded, FitEnded)] == ["ValueError", "ValueError"]


def test_log_has_passes_at_info_and_blocks_at_debug_and_prints_nothing(rows, caplog, capsys):
    sketch(rows)
    assert capsys.readouterr() == ("", "")
    with caplog.at_level(logging.INFO, logger="dspectral"):
        sketch(rows)
    first, second, third = (record.getMessage() for record in caplog.records)
    assert re.search("TruncatedSVD: sketch.*1 of 1.*8 blocks.*80 rows.*3 levels", first)
    assert re.search("sketch took", second)
    assert re.search("TruncatedSVD.*1 pass, relative certificate", third)
    with caplog.at_level(logging.DEBUG, logger="dspectral"):
        sketch(rows)
    debug = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
    assert any(re.match("8 blocks.*7 merges", line) for line in debug)


def test_error_in_a_hook_is_logged_and_ends_no_fit(rows, caplog):
    class Failing(Callback):
        def on_pass_started(self, event):
            raise OSError("no more room")

    with Failing():
        model = sketch(rows)
    assert model.n_passes_ == 1
    assert "on_pass_started" in caplog.text


NO_WORK = {"NgramHashing", "WordVectorRepresentation"}
"""Estimators whose fit only checks parameters."""
VARIANTS = {
    **{name: (name, {}) for name in CASES if name not in NO_WORK},
    "krylov": ("TruncatedSVD", {"solver": "krylov", "n_passes": 4}),
    "nystrom": ("TruncatedSVD", {"solver": "nystrom", "n_passes": 4}),
    "random start": ("RefinementHMM", {"start": "random", "n_em_iter": 3}),
    "relevancy": ("LocalLSI", {"method": "lrw"}),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("variant", VARIANTS)
def test_passes_are_numbered_up_to_the_number_of_the_model(variant):
    name, parameters = VARIANTS[variant]
    case = CASES[name]
    X, y = case.data()
    model = case.make(**parameters)
    events = record_events(lambda: model.fit(X) if y is None else model.fit(X, y))
    ended = events[-1]
    assert (ended.name, ended.parent, ended.error) == (name, "", "")
    started = [event for event in events if isinstance(event, PassStarted) and event.number]
    passes = [event for event in started if event.fits[-1] == ended.fit]
    assert [event.number for event in passes] == list(range(1, ended.n_passes + 1))
    for event in passes:
        assert event.n_passes is None or event.number <= event.n_passes
    if hasattr(model, "n_passes_"):
        assert len(passes) == model.n_passes_
        known = [event.n_passes for event in passes if event.n_passes is not None]
        assert name == "LocalLSI" or not passes or known[-1] >= model.n_passes_
