"""What a pass on a cluster tells of its tasks and its waits, and the one sentence in which it ends."""

import os
import re
import signal
import time
from types import SimpleNamespace

import dask
import numpy as np
import pytest
from distributed import Client, KilledWorker, Status, get_worker
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError
from distributed.scheduler import NoValidWorkerError

from dspectral import ClusterError
from dspectral.engine import event_listener, run_tasks
from dspectral.engine.around.cluster_pass import (
    ClusterState,
    PassMonitor,
    WorkerState,
    compute_on_cluster,
    find_stall_reason,
)
from dspectral.engine.around.events import (
    BlocksDone,
    PassStalled,
    PassStarted,
    SummariesMerged,
    TasksRecomputed,
    to_message,
)
from tests.schedulers import forked_workers

BEGUN = PassStarted("r", "sketch", "sketch-block", 8, ("merge-level-1",), 7, 2, fit="f", fit_name="Fit")
BLOCK = "('sketch-block-" + "0" * 32 + "', 3, 0)"
MB = 10**6


class LikeClient(SimpleNamespace):
    """As much of a client as waits need; a message is handed to whoever subscribed."""

    def __init__(self, **fields):
        here = SimpleNamespace(address="tcp://here:1")
        super().__init__(**{"scheduler": here, "status": "running", "loop": SimpleNamespace(add_callback=id), **fields})

    __hash__ = object.__hash__

    def subscribe_topic(self, _topic, handler):
        self.on_event = handler


def worker(address="w", status="running", held=100 * MB, limit=500 * MB, silent=0.0, task="", seconds=0.0):
    return WorkerState(address, status, held, limit, silent, task, seconds)


def state(*workers, done=3, ttl=300.0, spilled=0):
    return ClusterState({"sketch-block": done}, workers, spilled, ttl)


class Watched:
    """A pass whose clock and whose scheduler a test holds."""

    def __init__(self):
        self.now = 0.0
        self.watch = PassMonitor(LikeClient(), BEGUN, clock=lambda: self.now)

    def look(self, at, seen=None):
        self.now = at
        if seen is not None:
            self.watch.update(seen)
        self.watch.check_stalled()

    def told(self, seen, until, step=5):
        """What is told, and when, while nothing changes."""
        heard = []

        def look_often():
            for at in np.arange(self.now, until, step):
                with event_listener(lambda event, at=at: heard.append((at, event))):
                    self.look(at, seen)

        with pytest.warns(RuntimeWarning, match="sketch.*no task"):
            look_often()
        return [(at, event) for at, event in heard if isinstance(event, PassStalled)]


def test_a_wait_is_told_again_at_growing_intervals_and_ends_at_the_limit():
    watched = Watched()
    heard = watched.told(state(), until=300)
    assert [at for at, _event in heard] == [30, 60, 120, 240]
    assert "no workers" in heard[0][1].sentence
    with pytest.raises(ClusterError, match=r"300 s.*no workers"):
        watched.look(300, state())


def test_whatever_is_done_begins_the_wait_anew():
    watched = Watched()
    for at in range(0, 900, 25):  # a block each 25 seconds
        watched.look(at, state(done=at))
    for at in range(900, 1800, 25):  # other tasks than blocks and merges
        watched.look(at, state(worker(task=f"('other-{'0' * 32}', {at}, 0)")))
    for at in range(1800, 2700, 25):  # results are written to disk
        watched.look(at, state(worker(status="paused"), spilled=at))


def test_a_task_that_runs_long_is_told_and_ends_nothing():
    heard = Watched().told(state(worker(task=BLOCK, seconds=100.0)), until=5000, step=100)
    assert {event.why for _at, event in heard} == {"task"}
    assert re.search(r"block 3 of sketch.*100 s.* w\b", heard[0][1].sentence)
    assert len(heard) == 6


@pytest.mark.parametrize(
    ("seen", "end", "told", "said"),
    [
        (
            state(worker(status="paused", held=420 * MB)),
            60,
            "1 of 1 workers",
            r"1 of 1 workers.*400.54 MiB.*700 MB.*sketch_size",
        ),
        (
            state(worker("a", silent=100.0), worker("b"), ttl=200.0),
            405,
            r"\(a for 100 s\)",
            r"200 s.*distributed.scheduler.worker-ttl",
        ),
        (
            OSError("no route"),
            300,
            "tcp://here:1.*30 s.*no route",
            "tcp.*300 s",
        ),
    ],
    ids=["paused", "silent", "no scheduler"],
)
def test_a_wait_is_told_with_its_reason_and_ends_the_pass_at_its_limit(seen, end, told, said):
    watched = Watched()
    if isinstance(seen, OSError):
        watched.look(0, state(worker(task=BLOCK)))
        watched.watch.record_failure(seen)
        seen = None
    assert re.search(told, watched.told(seen, until=end - 5)[0][1].sentence)
    with pytest.raises(ClusterError, match=said):
        watched.look(end, seen)


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (state(), "no workers"),
        (state(worker(status="paused"), worker(silent=99.0)), "paused"),
        (state(worker(silent=99.0), worker(silent=99.0, task=BLOCK)), "silent"),
        (state(worker(status="paused"), worker(task=BLOCK)), "task"),
        (state(worker(status="paused"), worker()), "paused"),
        (state(worker(), worker()), "unknown"),
        (state(*(worker(f"w{i}", silent=99.0) for i in range(9)), ttl=None), "silent"),
    ],
)
def test_the_reason_is_found_in_what_the_scheduler_says(seen, why):
    reason = find_stall_reason(seen, 30.0, 300.0)
    assert reason.why == why
    assert (reason.limit == float("inf")) == (why == "task")


def test_tasks_that_are_lost_are_told_once_and_what_is_done_never_falls():
    heard = []
    with event_listener(heard.append):
        watch = PassMonitor(LikeClient(), BEGUN)
        for done, workers in ((4, "ab"), (2, "b"), (3, "b"), (1, "b"), (8, "b")):
            counts = {"sketch-block": done, "merge-level-1": done // 2}
            watch.update(ClusterState(counts, tuple(map(worker, workers))))
    redone = [(event.n_tasks, event.lost_workers) for event in heard if isinstance(event, TasksRecomputed)]
    assert redone == [(3, 1), (3, 1)]
    assert [(e.n_blocks, e.n_merges) for e in heard if isinstance(e, BlocksDone)] == [(4, 2), (8, 4)]


def test_what_workers_send_is_told_once_by_the_pass_that_it_is_of():
    merges = [to_message(SummariesMerged("f", run, 1, 7, None, None, None)) for run in ("r", "another")]
    client, heard = LikeClient(), []
    with event_listener(heard.append), PassMonitor(client, BEGUN) as watch:
        for message in (*merges, {**merges[0], "worker": "w"}, {**merges[1], "worker": "w"}):
            client.on_event((0.0, message))
        watch.finish()
        watch.finish()
    assert [event.run for event in heard if isinstance(event, SummariesMerged)] == ["r"]


@pytest.mark.parametrize(
    ("error", "said", "after"),
    [
        (KilledWorker(BLOCK, None, 3), "4 workers ended", "running"),
        (CommClosedError("in <TCP>: closed"), r"sketch.*\(in <TCP>", "running"),
        (NoValidWorkerError(BLOCK, set(), set(), {}, 9.0), "sketch", "running"),
        (RuntimeError("Error during deserialization of the task graph."), "tasks", "running"),
        (FutureCancelledError("x", "lost"), "tcp://here:1", "connecting"),
        (FutureCancelledError("x", "restart"), "restart", "running"),
    ],
)
def test_what_a_lost_cluster_raises_is_one_sentence(error, said, after):
    client = LikeClient()

    def lose(*_words, **_options):
        client.status = after
        raise error

    client.get = lose
    with pytest.raises(ClusterError, match=said) as raised:
        compute_on_cluster(client, BEGUN, {}, [])
    assert raised.value.__cause__ is error


def test_a_client_that_is_closed_is_told_before_anything_is_sent():
    with pytest.raises(ClusterError, match=r"scheduler"):
        compute_on_cluster(LikeClient(status="closed", scheduler=None), BEGUN, {}, [])


def die(_item):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_task_that_kills_its_workers_is_named():
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        forked_workers(),
        Client(n_workers=1, threads_per_worker=1, dashboard_address=":0"),
        pytest.raises(ClusterError, match=r"task 0 of die of the pass die.* memory"),
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
    heard = []
    with (
        dask.config.set({**waits, **assigned_early}),
        Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0", memory_limit=0),
        event_listener(heard.append),
        pytest.warns(RuntimeWarning, match="1 of 2 workers are paused"),
    ):
        assert run_tasks(pause_first_worker, range(8), name="pause") == list(range(8))
    assert {event.why for event in heard if isinstance(event, PassStalled)} == {"paused"}
