import time
from types import SimpleNamespace

import dask
import numpy as np
import pytest
from distributed import Client, Event, LocalCluster
from distributed.core import Status

from dspectral import ClusterError
from dspectral.engine import listening
from dspectral.engine.cluster.state import State, WorkerSeen, move_from_paused
from dspectral.engine.cluster.waiting import Vigil, reason_of
from dspectral.engine.configuration import wait_warning
from dspectral.engine.events import PassBegan, Waiting, task_label

BEGUN = PassBegan("f", "Fit", "r", "sketch", 1, 1, 8, 7, 3, 2, None, None, "sketch-block", ())
BLOCK = "('sketch-block-" + "0" * 32 + "', 3, 0)"
CLIENT = SimpleNamespace(
    scheduler=SimpleNamespace(address="tcp://here:1"), status="running", loop=SimpleNamespace(add_callback=id)
)
MB = 10**6


def worker(
    address="w", status="running", held=100 * MB, limit=500 * MB, silent=0.0, task="", seconds=0.0, spilled=0
):
    return WorkerSeen(address, status, held, spilled, limit, silent, task, seconds)


def state(*workers, done=3, ttl=300.0):
    return State({"sketch-block": (done, 8)}, tuple(one.address for one in workers), (), workers, ttl)


class Watched:
    """A vigil whose clock and whose scheduler a test holds."""

    def __init__(self):
        self.now = 0.0
        self.poll = SimpleNamespace(state=None, answered=0.0, silence="")
        self.vigil = Vigil(BEGUN, self.poll, CLIENT, clock=lambda: self.now)

    def look(self, at, seen=None):
        self.now = at
        if seen is not None:
            self.poll.state, self.poll.answered = seen, at
        self.vigil.look()

    def told(self, seen, until, step=5):
        """What is told, and when, while nothing changes."""
        heard = []
        with pytest.warns(RuntimeWarning, match="the pass sketch has waited for"):
            self._look_often(seen, np.arange(self.now, until, step), heard)
        assert {type(event) for _at, event in heard} == {Waiting}
        return heard

    def _look_often(self, seen, times, heard):
        for at in times:
            with listening(lambda event, at=at: heard.append((at, event))):
                self.look(at, seen)


def test_a_wait_is_told_again_at_growing_intervals_and_ends_at_the_limit():
    watched = Watched()
    heard = watched.told(state(), until=300)
    assert [at for at, _event in heard] == [30, 60, 120, 240]
    said = "the pass sketch has waited for 30 s in which no task was done: the cluster has no workers; start workers"
    assert heard[0][1].sentence.startswith(said)
    with pytest.raises(
        ClusterError, match=r"the pass sketch was given up after 300 s: the cluster has no workers"
    ):
        watched.look(300, state())


def test_whatever_is_done_begins_the_wait_anew():
    watched = Watched()
    for at in range(0, 900, 25):  # a block each 25 seconds
        watched.look(at, state(done=at))
    running = [f"('sketch-block-{'0' * 32}', {i}, 0)" for i in range(40)]
    for i, at in enumerate(range(900, 1800, 25)):  # other tasks than blocks and merges
        watched.look(at, state(worker(task=running[i])))
    for at in range(1800, 2700, 25):  # results are written to disk
        watched.look(at, state(worker(status="paused", spilled=at * 10 * MB)))


def test_a_task_that_runs_long_is_told_and_ends_nothing():
    watched = Watched()
    heard = watched.told(state(worker(task=BLOCK, seconds=100.0)), until=5000, step=100)
    assert {event.why for _at, event in heard} == {"task"}
    assert "block 3 of sketch has run for 100 s on w; this is no fault" in heard[0][1].sentence
    assert len(heard) == 6


def test_workers_that_all_paused_end_the_pass_after_a_minute_with_memory_limit_and_what_would_fit():
    watched = Watched()
    full = state(worker(status="paused", held=420 * MB))
    watched.told(full, until=60)
    with pytest.raises(ClusterError) as raised:
        watched.look(60, full)
    said = str(raised.value)
    assert (
        "1 of 1 workers paused, for they hold more than 80% of their memory limit (w holds 400.54 MiB of "
        in said
    )
    assert (
        "give each worker at least 700 MB of memory (memory_limit of LocalCluster, --memory-limit of " in said
    )
    assert "sketch_size" in said


def held_up(started, go_on):
    started.set()
    return go_on.wait(60.0)


def test_a_task_that_a_paused_worker_has_not_begun_is_run_by_another():
    # Dask leaves a single task where it is.
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0", memory_limit=0
        ) as cluster,
        Client(cluster) as client,
    ):
        started, go_on = Event(), Event()
        first, second = cluster.workers.values()
        here = {"workers": [first.address], "allow_other_workers": True}
        begun = client.submit(held_up, started, go_on, pure=False, **here)
        assert started.wait(60.0)
        waiting = client.submit(int, 7, pure=False, **here)
        while waiting.key not in first.state.tasks:
            time.sleep(0.01)
        first.status = Status.paused
        go_on.set()
        assert begun.result(60.0)
        while {one.status.name for one in cluster.scheduler.workers.values()} != {"paused", "running"}:
            time.sleep(0.01)
        assert client.run_on_scheduler(move_from_paused) == 1
        assert waiting.result(60.0) == 7
        assert second.address in client.who_has(waiting)[waiting.key]


def test_a_worker_that_is_silent_while_another_waits_is_left_to_its_time_to_live():
    watched = Watched()
    stopped = state(worker("a", silent=100.0), worker("b"), ttl=400.0)
    heard = watched.told(stopped, until=425)
    assert "1 of 2 workers have not been heard of (a for 100 s)" in heard[0][1].sentence
    assert "after 400 s of silence (distributed.scheduler.worker-ttl)" in heard[0][1].sentence
    with pytest.raises(ClusterError, match="a for 100 s"):
        watched.look(435, stopped)


def test_a_scheduler_that_does_not_answer_is_told_with_its_address_and_ends_the_pass():
    watched = Watched()
    watched.look(0, state(worker(task=BLOCK)))
    heard = watched.told(None, until=295)
    assert "the scheduler at tcp://here:1 has not answered for 30 s" in heard[0][1].sentence
    with pytest.raises(ClusterError, match=r"the scheduler at tcp://here:1 has not answered for 300 s"):
        watched.look(300)


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
    reason = reason_of(seen, 30.0, 300.0)
    assert reason.why == why
    assert (reason.limit == float("inf")) == (why == "task")


@pytest.mark.parametrize("value", ["soon", 0, -1, None, "0 s"])
def test_a_time_that_is_none_is_refused_by_its_name(value):
    with (
        dask.config.set({"dspectral.wait-warning": value}),
        pytest.raises(
            ValueError, match=r"dspectral\.wait-warning is .*, but it must be a time such as '30 s'"
        ),
    ):
        wait_warning()


def test_tasks_are_named_by_what_they_do():
    assert task_label("odd") == "the task odd"
