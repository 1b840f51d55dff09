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
from dspectral.engine.around.callbacks import TOPIC


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


def get_fits(client):
    return list(installed(client).history.fits.values())


def fetched(link):
    with urlopen(link, timeout=300) as answer:  # noqa: S310  a server of this test
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
    kinds = [message["event"] for _time, message in client.get_events(TOPIC)]
    assert [kind for kind in kinds if kind != "BlocksDone"] == ["PassStarted", "PassEnded", "FitEnded"]


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


def test_page_shows_a_fit_of_the_cluster_alone(client, rows):
    link = dspectral.show_dashboard(client)
    installed(client).history.fits.clear()
    sketch(rows.compute())  # in this process
    assert "TruncatedSVD" not in texts_of(link)
    model = sketch(rows)
    (fit,) = get_fits(client)
    (state,) = fit.passes
    assert (fit.name, state.started.n_passes, fit.until is None) == ("TruncatedSVD", 1, False)
    assert state.done[1:] == (8, 7, 0, 0)
    assert fit.ended.certificate == model.certificate_.relative
    assert dspectral.show_dashboard() == link  # a second call keeps the history
    words = texts_of(link)
    assert re.search("TruncatedSVD.*8 blocks.*7 of 7", words, re.DOTALL)


GATE = threading.Event()


def slow(block):
    GATE.wait(300)
    return block


def test_page_shows_a_running_pass_and_the_memory_of_workers(client):
    link = dspectral.show_dashboard(client)
    installed(client).history.fits.clear()
    rows = da.from_array(np.random.default_rng(0).standard_normal((40, 6)), chunks=(10, 6))
    rows = rows.map_blocks(slow, meta=np.empty((0, 0)))
    fit = threading.Thread(target=dspectral.TruncatedSVD(2, solver="gram").fit, args=(rows,))
    fit.start()
    while not get_fits(client):
        GATE.wait(0.01)
    words = texts_of(link)
    GATE.set()
    fit.join()
    assert re.search(r"running.*, 0%.*workers</i> [\d.]+ [MG]B", words, re.DOTALL)
    assert get_fits(client)[0].until is not None


def test_a_scheduler_without_a_dashboard_is_named_in_a_sentence(rows):
    how = {"dashboard_address": ":0", "scheduler_kwargs": {"dashboard": False}}
    with Client(n_workers=1, processes=False, **how) as client:
        with pytest.warns(UserWarning, match="scheduler.*dashboard"):
            assert dspectral.show_dashboard(client) is None
        assert not dask.config.get("dspectral.dashboard")
        assert sketch(rows).n_components == 3


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
