"""Fits, builds and passes tell what they do, in order, under every scheduler."""

import json
import logging
import re
import threading

import dask
import dask.array as da
import numpy as np
import pytest
from dask.callbacks import Callback
from distributed import Client, get_worker

import dspectral
from dspectral.decomposition import spectrum
from dspectral.engine import count_as_pass, event_listener, expect_passes, run_tasks, tracked_fit
from dspectral.engine import summarize as summarize_blocks
from dspectral.engine.around import events
from dspectral.engine.around.context import current_context, fit_context
from dspectral.engine.around.events import to_message
from tests.contracts import CASES
from tests.engine.hearing import heard_of, of_kind
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


def check_sketch(heard):
    """The events of a fit of one pass over 8 blocks."""
    kinds = [type(event).__name__ for event in heard]
    assert kinds[:2] == ["FitStarted", "PassStarted"]
    assert kinds[-3:] == ["PassEnded", "CertificateComputed", "FitEnded"]
    (began,) = of_kind(heard, events.PassStarted)
    assert (began.fit_name, began.name, began.number, began.n_passes) == ("TruncatedSVD", "sketch", 1, 1)
    assert (began.n_blocks, began.n_merges, began.n_levels, began.fan_in) == (8, 7, 3, 2)
    assert (began.n_rows, began.n_bytes) == (80, 80 * 12 * 8)
    done = of_kind(heard, events.BlocksDone)
    assert (done[-1].n_blocks, done[-1].n_merges) == (8, 7)
    counts = [one.n_blocks + one.n_merges for one in done]
    assert counts == sorted(set(counts))
    merged = of_kind(heard, events.SummariesMerged)
    assert sorted(one.level for one in merged) == [1, 1, 1, 1, 2, 2, 3]
    (certified,) = of_kind(heard, events.CertificateComputed)
    (root,) = [one for one in merged if one.level == 3]
    # The certificate is of the rows as they are: putting their mean back adds to their energy, and rounds.
    assert root.n_rows == 80
    assert root.absolute <= certified.absolute == pytest.approx(root.absolute, rel=1e-9)
    assert root.relative >= certified.relative == pytest.approx(root.relative, rel=0.05)
    assert root.summary_bytes > 12 * 8
    assert of_kind(heard, events.FitEnded)[0].n_passes == 1
    assert len({event.fit for event in heard}) == 1


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_a_fit_tells_its_pass_blocks_merges_and_certificate_in_order(rows, scheduler):
    with scheduled(scheduler):
        check_sketch(heard_of(lambda: sketch(rows)))


def messages_of(client, ready):
    """What the scheduler was told once it is what is waited for: messages are sent without waiting."""
    for _ in range(100):
        found = [message for _, message in client.get_events(events.TOPIC) or ()]
        if ready([message["event"] for message in found]):
            break
        threading.Event().wait(0.05)
    return found


def test_on_a_cluster_the_same_events_are_heard_and_the_scheduler_has_them(client, rows):
    sketch(rows)
    assert not client.get_events(events.TOPIC)  # unless somebody asks
    heard = heard_of(lambda: sketch(rows))
    check_sketch(heard)
    began = of_kind(heard, events.PassStarted)[0]
    wanted = {"FitStarted", "PassStarted", "PassEnded", "CertificateComputed", "FitEnded", "SummariesMerged"}
    messages = messages_of(client, lambda kinds: set(kinds) == wanted and kinds.count("SummariesMerged") == 7)
    assert {message["event"] for message in messages} == wanted
    assert {message["fit"] for message in messages} == {began.fit}
    assert all("worker" in message for message in messages if message["event"] == "SummariesMerged")
    (told_began,) = [message for message in messages if message["event"] == "PassStarted"]
    assert told_began["block_group"] == f"sketch-block-{began.run}"
    assert began.merge_groups == tuple(f"merge-level-{level}-{began.run}" for level in (1, 2, 3))
    assert (told_began["number"], told_began["n_passes"], told_began["fan_in"]) == (1, 1, 2)
    with dask.config.set({"dspectral.dashboard": True}):
        assert current_context().has_listeners
        sketch(rows)
    assert messages_of(client, lambda kinds: len(kinds) > len(messages))[len(messages) :]


def test_rows_that_are_collected_are_decomposed_by_a_named_task_of_a_worker(client, rows, monkeypatch):
    workers, exact_svd = [], spectrum.exact_svd
    calm = dspectral.TruncatedSVD(3, solver="in_memory").fit(rows.compute())
    recorded = lambda *args, **options: (workers.append(get_worker().address), exact_svd(*args, **options))[1]  # noqa: E731
    monkeypatch.setattr(spectrum, "exact_svd", recorded)
    model = dspectral.TruncatedSVD(3, solver="in_memory")
    (began,) = of_kind(heard_of(lambda: model.fit(rows)), events.PassStarted)
    assert (began.name, began.finish) == ("read", "decompose")
    assert workers == list(client.scheduler_info()["workers"])
    assert model.components_.tobytes() == calm.components_.tobytes()


def test_without_a_listener_the_graph_has_no_task_that_tells(client, rows, monkeypatch):
    monkeypatch.setattr("dspectral.engine.around.progress.emit_from_worker", None)  # a call would fail
    sketch(rows)


def test_a_fit_within_a_fit_names_its_parent():
    texts = ["play some jazz", "book a flight", "play loud music", "book a cheap flight"] * 4
    model = dspectral.IntentClassifier(dspectral.SentenceRepresentation(2, min_df=1))
    heard = heard_of(lambda: model.fit(texts, ["music", "travel"] * 8))
    outer, inner, *_ = of_kind(heard, events.FitStarted)
    assert (outer.name, inner.name, inner.parent) == ("IntentClassifier", "SentenceRepresentation", outer.fit)


def test_builds_tell_their_passes_and_the_bytes_of_the_text(tmp_path):
    text = tmp_path / "three.txt"
    text.write_text("the cat sat\nthe dog\na cat\n")
    settings = dspectral.VocabularySettings(ngram_range=(1, 1))
    heard = heard_of(
        lambda: (
            dspectral.build_store(str(text), str(tmp_path / "hashed.zarr")),
            dspectral.build_store(str(text), str(tmp_path / "known.zarr"), vocabulary=settings),
            dspectral.build_corpus(str(text), str(tmp_path / "corpus.zarr")),
        )
    )
    assert [event.name for event in of_kind(heard, events.FitStarted)] == [
        "build_store",
        "build_store",
        "build_corpus",
    ]
    passes = [(event.name, event.number, event.n_passes) for event in of_kind(heard, events.PassStarted)]
    assert passes == [
        ("hash-block", 1, 1),
        ("count-terms", 1, 2),
        ("merge-terms", None, None),
        ("encode-block", 2, 2),
        ("count-terms", 1, 2),
        ("merge-words", None, None),
        ("number-words", 2, 2),
    ]
    numbered_ones = [event for event in of_kind(heard, events.PassStarted) if event.number]
    assert {event.n_bytes for event in numbered_ones} == {text.stat().st_size}


def boom(_block):
    raise ValueError("boom")


def test_an_error_ends_pass_and_fit_and_is_named_and_callbacks_of_dask_are_called_too():
    heard, keys = [], []
    callback = Callback(posttask=lambda key, *_: keys.append(key))
    with callback, event_listener(heard.append):
        sketch(da.from_array(np.diag([4.0, 3.0, 2.0, 1.0]), chunks=(1, 4)))
    assert len(keys) >= 7
    with (
        event_listener(heard.append),
        pytest.raises(ValueError, match="boom"),
        fit_context("Own", n_passes=1),
    ):
        summarize_blocks(np.ones((4, 3)), summarize_block=boom, name="own")
    ended = of_kind(heard, events.PassEnded, events.FitEnded)
    assert [event.error for event in ended] == ["", "", "ValueError", "ValueError"]


def test_fits_in_two_threads_are_not_mixed_up(rows):
    heard = {name: [] for name in ("one", "two")}
    everything = []
    barrier = threading.Barrier(2)

    def work(name):
        with event_listener(heard[name].append):
            barrier.wait()
            for _ in range(5):
                sketch(rows)

    threads = [threading.Thread(target=work, args=(name,)) for name in heard]
    with event_listener(everything.append, everywhere=True):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for mine in heard.values():
        fits = [event.fit for event in of_kind(mine, events.FitStarted)]
        assert len(fits) == 5
        for fit in fits:
            check_sketch([event for event in mine if event.fit == fit])
    assert len(everything) == sum(map(len, heard.values()))


def test_the_log_has_passes_at_info_and_blocks_at_debug_and_prints_nothing_by_default(rows, caplog, capsys):
    sketch(rows)
    assert capsys.readouterr() == ("", "")
    with caplog.at_level(logging.INFO, logger="dspectral"):
        sketch(rows)
    lines = [record.getMessage() for record in caplog.records]
    assert all(line.startswith("TruncatedSVD") for line in [*lines[:2], *lines[3:5]])
    assert re.search("sketch.*1 of 1.*8 blocks.*80 rows.*3 levels", lines[1])
    assert "certificate" in lines[3]
    assert {record.levelno for record in caplog.records} == {logging.INFO}
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger="dspectral"):
        sketch(rows)
    debug = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
    assert any(re.match("8 blocks.*7 merges", line) for line in debug)
    assert sum("certificate" in line for line in debug) == 7


def test_a_listener_that_fails_is_logged_and_stops_no_fit(rows, caplog):
    def fail(event):
        raise OSError("no more room")

    with event_listener(fail):
        model = sketch(rows)
    assert model.n_passes_ == 1
    assert "FitStarted" in caplog.text


def test_every_kind_of_event_has_words_and_can_be_sent_as_json():
    samples = {str: "x", int: 3, float: 0.5, "tuple": ("a", "b")}
    for kind in events.Event.__args__:
        fields = kind.__annotations__
        event = kind(*(samples.get(of, samples["tuple"] if "tuple" in str(of) else None) for of in fields.values()))
        assert str(event)
        assert "\n" not in str(event)
        message = json.loads(json.dumps(to_message(event)))
        assert message["event"] == kind.__name__
        assert message.keys() == {*fields, "event", "time", "sender", "order"}


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
def test_no_pass_is_beyond_the_number_of_passes_and_the_last_is_what_the_model_says(variant):
    name, parameters = VARIANTS[variant]
    case = CASES[name]
    X, y = case.data()
    model = case.make(**parameters)
    heard = heard_of(lambda: model.fit(X) if y is None else model.fit(X, y))
    own = of_kind(heard, events.FitStarted)[0]
    assert (own.name, own.parent) == (name, "")
    passes = [event for event in of_kind(heard, events.PassStarted) if event.fit == own.fit and event.number]
    assert [event.number for event in passes] == list(range(1, len(passes) + 1))
    for event in passes:
        assert event.n_passes is None or event.number <= event.n_passes
    if hasattr(model, "n_passes_"):
        assert len(passes) == model.n_passes_
        known = [event.n_passes for event in passes if event.n_passes is not None]
        assert name == "LocalLSI" or not passes or known[-1] >= model.n_passes_
    ended = of_kind(heard, events.FitEnded)[-1]
    assert (ended.fit, ended.n_passes, ended.error) == (own.fit, len(passes), "")


def test_what_is_said_first_of_the_number_of_passes_holds():
    with fit_context("Own") as fit:
        expect_passes(4)
        expect_passes(1)
        assert fit.n_passes == 4
        expect_passes(2, replaces=True)
        assert fit.n_passes == 2
    expect_passes(1)  # outside a fit it says nothing


def test_a_list_of_tasks_is_a_pass_only_where_that_is_said():
    @tracked_fit
    def build():
        run_tasks(len, ["a"], name="aside")
        with count_as_pass(is_pass=True):
            run_tasks(len, ["a"], name="read")

    heard = heard_of(build)
    assert [(event.name, event.number) for event in of_kind(heard, events.PassStarted)] == [
        ("aside", None),
        ("read", 1),
    ]
    current_context().emit(heard[0])  # nobody listens: nothing happens
