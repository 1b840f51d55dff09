"""What a pass on a cluster tells of its tasks and its waits, and the one sentence in which it ends."""

import os
import re
import signal
import time
import warnings
from types import SimpleNamespace

import dask
import numpy as np
import pytest
from distributed import Client, KilledWorker, Status, get_worker
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError
from distributed.scheduler import NoValidWorkerError

from dspectral import ClusterError
from dspectral.engine import run_tasks
from dspectral.engine.around.callbacks import BlocksDone, PassStarted
from dspectral.engine.around.cluster_pass import ClusterState, PassMonitor, compute_on_cluster
from tests.engine.recording import Recorder
from tests.schedulers import forked_workers

STARTED = PassStarted("r", "sketch", "sketch-block", 8, ("merge-level-1",), 7, 2)
BLOCK = "('sketch-block-" + "0" * 32 + "', 3, 0)"
PAUSED = "w is paused with 400 MiB of 500 MiB in use"


class LikeClient(SimpleNamespace):
    """As much of a client as waits need."""

    def __init__(self, **fields):
        super().__init__(**{"scheduler": SimpleNamespace(address="tcp://here:1"), "status": "running", **fields})

    __hash__ = object.__hash__

    def subscribe_topic(self, _topic, _handler):
        pass


def state(workers="w", done=3, running=(), **fields):
    return ClusterState({"sketch-block": done}, tuple((key, "w") for key in running), frozenset(workers), **fields)


class Watched:
    """A pass whose clock and whose scheduler a test holds."""

    def __init__(self):
        self.now = 0.0
        self.monitor = PassMonitor(LikeClient(), STARTED, clock=lambda: self.now)

    def look(self, at, seen=None):
        self.now = at
        if seen is not None:
            self.monitor.update(seen)
        self.monitor.check_stalled()

    def get_warnings(self, seen, until, step=5):
        """The times and texts of the warnings while nothing changes."""
        caught = []
        for at in np.arange(self.now, until, step):
            with warnings.catch_warnings(record=True) as new:
                warnings.simplefilter("always")
                self.look(at, seen)
            caught += [(at, str(warning.message)) for warning in new]
        return caught


def test_wait_is_warned_of_at_growing_intervals_and_ends_at_the_limit():
    watched = Watched()
    caught = watched.get_warnings(state(""), until=300)
    assert [at for at, _text in caught] == [30, 60, 120, 240]
    assert all("no workers" in text for _at, text in caught)
    with pytest.raises(ClusterError, match=r"sketch.* 300 s.*no workers"):
        watched.look(300, state(""))


@pytest.mark.parametrize(
    "make_state",
    [
        lambda at: state(done=at),  # a block each 25 seconds
        lambda at: state(running=[f"('other-{'0' * 32}', {at}, 0)"]),
        lambda at: state(troubles=(PAUSED,), spilled=at),
    ],
)
def test_any_progress_begins_the_wait_anew(make_state):
    watched = Watched()
    for at in range(0, 900, 25):
        watched.look(at, make_state(at))


def test_long_task_is_warned_of_and_ends_nothing():
    caught = Watched().get_warnings(state(running=[BLOCK]), until=5000, step=100)
    assert re.search(r"block 3 of sketch runs on w\b.*not an error", caught[0][1])
    assert len(caught) == 6


@pytest.mark.parametrize(
    ("seen", "end", "warned", "match"),
    [
        (state(troubles=(PAUSED,)), 300, "w is paused", r"no task runs.*1 workers.*400 MiB.*sketch_size"),
        (state("ab", troubles=("a sent no heartbeat for 100 s",), limit=400.0), 400, "a sent no", "heartbeat"),
        (state(), 300, "no task runs", "logs"),
        (OSError("no route"), 300, "tcp://here:1.*30 s.*no route", "tcp.*300 s"),
    ],
    ids=["paused", "silent", "unknown", "no scheduler"],
)
def test_stall_is_warned_of_with_its_reason_and_ends_the_pass(seen, end, warned, match):
    watched = Watched()
    watched.look(0, state())
    if isinstance(seen, OSError):
        watched.monitor.record_failure(seen)
        seen = None
    assert re.search(warned, watched.get_warnings(seen, until=end - 5)[0][1])
    with pytest.raises(ClusterError, match=match):
        watched.look(end, seen)


def test_lost_tasks_are_counted_once():
    with Recorder() as recorder:
        monitor = PassMonitor(LikeClient(), STARTED)
        for done, workers in ((4, "ab"), (2, "b"), (2, "b"), (3, "b"), (1, "b"), (8, "b")):
            counts = {"sketch-block": done, "merge-level-1": done // 2}
            monitor.update(ClusterState(counts, (), frozenset(workers)))
    assert recorder.events == [
        BlocksDone("r", *counts) for counts in ((4, 2), (2, 1, 3, 1), (3, 1, 3, 1), (1, 0, 6, 1), (8, 4, 6, 1))
    ]


@pytest.mark.parametrize(
    ("error", "message", "after"),
    [
        (
            KilledWorker(BLOCK, SimpleNamespace(address="w"), 3),
            "block 3 of sketch.*4 different workers.*memory",
            "running",
        ),
        (CommClosedError("in <TCP>: closed"), r"sketch.*\(in <TCP>", "running"),
        (NoValidWorkerError(BLOCK, set(), set(), {}, 9.0), "sketch", "running"),
        (FutureCancelledError("x", "lost"), "tcp://here:1.*connection", "connecting"),
        (FutureCancelledError("x", "restart"), "restart", "running"),
    ],
)
def test_lost_cluster_raises_one_cluster_error(error, message, after):
    client = LikeClient()

    def lose(*_words, **_options):
        client.status = after
        raise error

    client.get = lose
    with pytest.raises(ClusterError, match=message) as raised:
        compute_on_cluster(client, STARTED, {}, [])
    assert raised.value.__cause__ is error


def test_closed_client_is_refused_before_anything_is_sent():
    with pytest.raises(ClusterError, match=r"scheduler"):
        compute_on_cluster(LikeClient(status="closed", scheduler=None), STARTED, {}, [])


def die(_item):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_task_that_kills_its_workers_is_named():
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        forked_workers(),
        Client(n_workers=1, threads_per_worker=1, dashboard_address=":0"),
        pytest.raises(ClusterError, match=r"pass die.*task 0 of die.* memory"),
    ):
        run_tasks(die, [1], name="die")


def pause_first_worker(number):
    """Pause the first worker in its first task; return the number."""
    worker = get_worker()
    if worker.name == 0 and worker.status.name == "running":
        worker.loop.add_callback(setattr, worker, "status", Status.paused)
        while worker.status.name == "running":
            time.sleep(0.01)
    return number


def test_tasks_that_wait_on_a_paused_worker_run_on_another():
    waits = {"dspectral.wait-warning": "500ms", "dspectral.wait-limit": "20s"}
    assigned_early = {
        "distributed.scheduler.work-stealing": False,
        "distributed.scheduler.worker-saturation": "inf",
        "distributed.scheduler.worker-ttl": None,
    }
    with (
        dask.config.set({**waits, **assigned_early}),
        Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0", memory_limit=0),
        pytest.warns(RuntimeWarning, match=r"2 workers \(\S+ is paused"),
    ):
        assert run_tasks(pause_first_worker, range(8), name="pause") == list(range(8))
