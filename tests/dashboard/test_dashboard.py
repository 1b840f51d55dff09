import asyncio
import re
import threading
import warnings
from types import SimpleNamespace
from urllib.request import urlopen

import dask
import dask.array as da
import numpy as np
import pytest
from bokeh.client import pull_session
from bokeh.models.widgets.markups import Div
from distributed import Client, Scheduler

import dspectral
from dspectral import dashboard
from dspectral.dashboard import plugin as plugins
from dspectral.engine.around.events import TOPIC, FitStarted, to_message


@pytest.fixture(autouse=True)
def configuration():
    """What a test sets does not reach the next one."""
    with dask.config.set({"dspectral.dashboard": False}):
        yield


@pytest.fixture(scope="module")
def client():
    with Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0") as client:
        yield client


@pytest.fixture
def rows():
    return da.from_array(np.random.default_rng(0).standard_normal((80, 12)), chunks=(10, 12))


def sketch(rows):
    return dspectral.TruncatedSVD(3, solver="frequent_directions").fit(rows)


def installed(client):
    return client.cluster.scheduler.plugins[plugins.NAME]


def forget(client):
    installed(client).record.__init__()


def fetched(link):
    with urlopen(link, timeout=10) as answer:  # noqa: S310  a server of this test
        return answer.status, answer.read().decode()


def test_nothing_is_sent_and_nothing_is_changed_unless_somebody_asks(client, rows):
    plain = sketch(rows)
    assert client.get_events(TOPIC) == ()
    link = dspectral.show_dashboard(client)
    assert dask.config.get("dspectral.dashboard")
    shown = sketch(rows)
    assert link.startswith("http://")
    assert link.endswith("/spectral")
    assert shown.components_.tobytes() == plain.components_.tobytes()
    assert shown.singular_values_.tobytes() == plain.singular_values_.tobytes()

    def has_all(_roots):  # an event is sent and not waited for
        kinds = {message["event"] for _time, message in client.get_events(TOPIC)}
        return {
            "FitStarted",
            "PassStarted",
            "SummariesMerged",
            "PassEnded",
            "CertificateComputed",
            "FitEnded",
        } <= kinds

    wait_for(client, has_all)


def test_the_page_is_on_a_running_scheduler_and_linked_from_all_others(client):
    link = dspectral.show_dashboard(client)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        status, page = fetched(link)
    assert status == 200
    assert 'href="spectral"' in page
    assert "static/js/bokeh" in page
    assert 'href="spectral"' in fetched(client.dashboard_link)[1]


def texts_of(link):
    """All words of the page, as a browser gets them through its socket."""
    session = pull_session(url=link)
    try:
        return " ".join(text.text for text in session.document.select({"type": Div}) if text.visible)
    finally:
        session.close()


def test_the_page_says_what_it_knows(client, rows):
    link = dspectral.show_dashboard(client)
    forget(client)
    assert "TruncatedSVD" not in texts_of(link)
    model = sketch(rows)
    (fit,) = wait_for(client, lambda found: found and found[0].until is not None)
    (one,) = fit.passes.values()
    assert (fit.name, fit.n_passes, fit.is_running) == ("TruncatedSVD", 1, False)
    assert one.done == one.totals == [8, 4, 2, 1]
    assert fit.certificate == fit.bounds[-1][1] == model.certificate_.relative
    assert dspectral.show_dashboard() == link  # a second call keeps what is known
    words = texts_of(link)
    assert "TruncatedSVD" in words
    assert re.search("8 blocks.* 2 ", words)
    assert "4 of 4" in words


def wait_for(client, ready):
    """What the scheduler knows once it is ready: messages are sent without waiting."""
    records = installed(client).record
    heard = threading.Event()
    for _ in range(6000):  # a minute, which only ends a test that hangs
        if ready(records.get_roots()):
            return records.get_roots()
        heard.wait(0.01)
    raise AssertionError([vars(root) for root in records.get_roots()])


GATE = threading.Event()


def slow(block):
    GATE.wait(60)
    return block


def test_a_look_counts_tasks_and_memory_while_a_pass_runs(client):
    dspectral.show_dashboard(client)
    forget(client)
    rows = da.from_array(np.random.default_rng(0).standard_normal((40, 6)), chunks=(10, 6))
    rows = rows.map_blocks(slow, meta=np.empty((0, 0)))
    fit = threading.Thread(target=dspectral.TruncatedSVD(2, solver="gram").fit, args=(rows,))
    fit.start()
    (root,) = wait_for(client, lambda found: found and found[0].memory[0])
    assert root.is_running
    assert root.memory[0] > 1_000_000
    (one,) = root.passes.values()
    assert (one.done, one.totals, one.share) == ([0, 0, 0], [4, 2, 1], 0.0)
    assert fetched(dspectral.show_dashboard(client))[0] == 200
    GATE.set()
    fit.join()
    wait_for(client, lambda found: found[0].until is not None)
    assert one.done == [4, 2, 1]


def test_a_page_that_comes_late_shows_what_was_told_before():
    with Client(n_workers=0, processes=False, dashboard_address=":0") as client:
        client.log_event(TOPIC, to_message(FitStarted("f1", "TruncatedSVD", "", 3)))
        dashboard.add_page(client)
        (fit,) = installed(client).record.get_roots()
        assert (fit.name, fit.n_passes) == ("TruncatedSVD", 3)


def test_a_scheduler_without_a_dashboard_is_named_in_a_sentence(rows):
    how = {"dashboard_address": ":0", "scheduler_kwargs": {"dashboard": False}}
    with Client(n_workers=1, processes=False, **how) as client:
        with pytest.warns(UserWarning, match="scheduler.*dashboard"):
            assert dspectral.show_dashboard(client) is None
        assert not dask.config.get("dspectral.dashboard")
        assert sketch(rows).n_components == 3


def test_a_scheduler_that_cannot_load_the_page_is_named_in_a_sentence(client, monkeypatch):
    def broken(name):
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(plugins, "NAME", "another")
    monkeypatch.setattr(plugins, "import_module", broken)
    problem = plugins.install(client.cluster.scheduler)
    assert "'dspectral.dashboard.page'" in problem


@pytest.mark.parametrize(
    ("error", "match"),
    [
        (ModuleNotFoundError("No module named 'dspectral'"), "dspectral"),
        (None, "TimeoutError.*0.1 s"),
    ],
)
def test_a_scheduler_that_cannot_or_does_not_answer_is_named(client, error, match):
    class Elsewhere:
        asynchronous = False
        loop = client.loop

        async def run_on_scheduler(self, *_args):
            if error is None:
                await asyncio.sleep(60)
            raise error

    with dask.config.set({"dspectral.wait-warning": "100 ms"}), pytest.warns(UserWarning, match=match):
        assert dspectral.show_dashboard(Elsewhere()) is None


@pytest.mark.parametrize(
    ("client", "match"),
    [
        (None, "client.*None"),
        (SimpleNamespace(asynchronous=True), "client.*asynchronous"),
    ],
)
def test_no_client_and_an_asynchronous_one_are_refused(client, match):
    with dask.config.set(scheduler="threads"), pytest.raises(ValueError, match=match):
        dspectral.show_dashboard(client)


def test_a_scheduler_preloads_the_page():
    async def start():
        async with Scheduler(
            dashboard_address=":0", port=0, host="127.0.0.1", preload="dspectral.dashboard"
        ) as scheduler:
            return plugins.NAME in scheduler.plugins

    assert asyncio.run(start())
    with pytest.warns(UserWarning, match="dspectral.dashboard"):
        dashboard.dask_setup(object())
