"""Clusters of real processes that pause, stop or are lost: a pass waits for them, or ends in one sentence."""

import signal
import threading
import time
import warnings
from contextlib import contextmanager, nullcontext
from functools import partial

import dask
import dask.array as da
import numpy as np
import psutil
import pytest
from distributed import Client, get_worker

import dspectral
from dspectral import ClusterError
from dspectral.engine import run_tasks
from tests.cluster.clusters import Cluster
from tests.schedulers import forked_workers

MB = 10**6


def held(block, begun, go_on):
    begun.touch()
    while not go_on.exists():
        time.sleep(0.01)
    return block


@contextmanager
def meanwhile(act, rows, folder):
    """Yield rows that are being read while something is done, and are read on afterwards."""
    begun, go_on = folder / "begun", folder / "go on"

    def do():
        while not begun.exists() and not go_on.exists():
            time.sleep(0.01)
        act()
        go_on.touch()

    thread = threading.Thread(target=do)
    thread.start()
    try:
        yield rows.map_blocks(held, begun, go_on, dtype=float, meta=np.empty((0, 0)))
    finally:
        go_on.touch()
        thread.join()


def leak(item):
    """Take memory that no spilling gives back, and wait until the worker pauses."""
    while psutil.Process().memory_info().rss < 0.86 * 600 * MB:
        HELD.append(np.ones(2 * MB))
    while get_worker().status.name == "running":
        time.sleep(0.01)
    return item


HELD = []


@pytest.fixture
def rows():
    return da.from_array(np.random.default_rng(0).standard_normal((600, 10)), chunks=(30, 10))


def fitted(rows):
    return dspectral.TruncatedSVD(2, solver="frequent_directions").fit(rows)


def real(test):
    """Mark a test whose cluster is processes: beside other work it may warn of more waits than it asks for."""
    return pytest.mark.slow(pytest.mark.filterwarnings("ignore::RuntimeWarning")(test))


@contextmanager
def a_cluster():
    """A cluster of one worker, to which this process is connected."""
    with Cluster(1) as cluster, Client(cluster.address, timeout=300):
        yield cluster
        for one in (cluster.scheduler, *cluster.workers):
            one.signal(signal.SIGCONT)


@real
def test_paused_worker_ends_the_pass_with_an_error_about_memory():
    with (
        dask.config.set({"distributed.worker.memory.terminate": False, **limits(1, 3)}),
        forked_workers(),
        Client(n_workers=1, threads_per_worker=1, memory_limit="600MB", dashboard_address=":0"),
        pytest.raises(ClusterError, match=r"is paused with [\d.]+ [MG]iB of .*memory"),
    ):
        run_tasks(leak, range(5), name="leak")


@real
def test_lost_workers_are_awaited_and_new_ones_finish_the_pass(rows, tmp_path):
    expected, messages = fitted(rows), []

    def help_once(message, *_where):
        messages.append(str(message))
        if "no workers" in messages[-1] and len(cluster.workers) == 1:
            cluster.add_workers(1)

    with (
        warnings.catch_warnings(),
        dask.config.set(limits(1, 600)),
        a_cluster() as cluster,
        meanwhile(cluster.workers[0].kill, rows, tmp_path) as slow_rows,
    ):
        warnings.simplefilter("always")
        warnings.showwarning = help_once
        actual = fitted(slow_rows)
    assert np.array_equal(actual.components_, expected.components_)
    assert any("no workers" in message for message in messages)


@real
@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_scheduler_that_is_lost_is_one_sentence_soon(rows, tmp_path, fault, when):
    with a_cluster() as cluster:
        fitted(rows)  # all is imported there: a worker that imports may be silent for longer than the limit
        lose = partial(cluster.scheduler.signal, fault)
        if when == "before":
            lose()
        with (
            meanwhile(lose, rows, tmp_path) if when == "meanwhile" else nullcontext(rows) as slow_rows,
            dask.config.set(limits(1, 3)),
            pytest.raises(ClusterError, match=r"tcp://127.0.0.1:\d+"),
        ):
            fitted(slow_rows)


@real
def test_workers_that_are_stopped_end_the_pass_and_are_named(rows, tmp_path):
    with (
        a_cluster() as cluster,
        meanwhile(partial(cluster.workers[0].signal, signal.SIGSTOP), rows, tmp_path) as slow_rows,
        dask.config.set(limits(1, 2)),
        pytest.raises(ClusterError, match=r"\(tcp://\S+ sent no heartbeat"),
    ):
        fitted(slow_rows)


def limits(warning, limit):
    return {"dspectral.wait-warning": warning, "dspectral.wait-limit": limit}
