"""Schedulers and clients that go: what was made is not lost, and the next attempt has the bits of the calm fit."""

import time

from tests.cluster.rows import fault
from tests.cluster.storage import shaky

LATE = 0.05  # seconds of each read: blocks take long enough to be worth keeping
SOON = 30.0  # seconds in which a fit must say that its scheduler is gone


def begun(fitting, name, places, kept, n_blocks=4):
    """Begin a fit whose parts are kept, and wait until some blocks are done."""
    fitting.fit(name, shaky(places, delay=LATE), kept=str(kept))
    fitting.heard("BlocksDone", where=lambda message: message["n_blocks"] >= n_blocks)
    return time.time()


def n_done(heard):
    """Number of tasks that a fit has done so far."""
    runs = {m["run"]: m["n_blocks"] + m["n_merges"] for m in heard if m["kind"] == "BlocksDone"}
    return sum(runs.values())


def n_tasks(heard):
    """Number of tasks that a fit is made of."""
    return sum(m["n_blocks"] + m["n_merges"] for m in heard if m["kind"] == "PassBegan")


def twice(first, again, calm):
    """Say how many tasks of two attempts together were done more than once."""
    more = n_done(first) + n_tasks(again) - calm
    return f"{more} of {calm} tasks" if more > 0 else "nothing"


def finish(fitting, name, places, kept, calm):
    """Fit once more, and return what is heard of it."""
    fitting.fit(name, shaky(places, delay=LATE), kept=str(kept))
    assert fitting.bits() == calm[name]
    return fitting.so_far()


@fault("the scheduler is killed, and a new one gets the next attempt", "in a pass")
def test_a_lost_scheduler_is_told_and_costs_what_was_not_kept(
    cluster, places, calm, calm_tasks, measured, tmp_path, name
):
    since = begun(cluster.fitting, name, places, tmp_path / "kept")
    cluster.scheduler.kill()
    end = cluster.fitting.ended(timeout=SOON)
    assert end["kind"] == "Failed"
    assert "scheduler" in end["message"]
    assert "\n" not in end["message"]
    first = cluster.fitting.so_far()
    cluster.fitting.process.kill()
    cluster.mend(2)
    again = finish(cluster.fitting, name, places, tmp_path / "kept", calm)
    measured(twice(first, again, calm_tasks[name]), end["time"] - since)


@fault("the scheduler is killed, another one and new workers take its place", "between two passes")
def test_a_fit_goes_on_at_a_new_scheduler_after_a_pass(cluster, places, right, name):
    cluster.fitting.fit(name, shaky(places), hold=["PassEnded", 1])
    cluster.fitting.heard("Holds")
    since = time.time()
    cluster.restart_scheduler()
    for worker in cluster.workers:
        worker.kill()
    cluster.mend(2)
    cluster.fitting.go_on()
    right(cluster.fitting, name, since=since)


@fault("the client is killed, and called again", "in a pass")
def test_a_killed_client_costs_what_was_not_kept(cluster, places, calm, calm_tasks, measured, tmp_path, name):
    begun(cluster.fitting, name, places, tmp_path / "kept")
    first = cluster.fitting.so_far()
    cluster.fitting.process.kill()
    cluster.mend(2)
    again = finish(cluster.fitting, name, places, tmp_path / "kept", calm)
    measured(twice(first, again, calm_tasks[name]), "at the next call")
