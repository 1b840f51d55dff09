"""Schedulers and clients that go: what was made is not lost, and the next attempt has the bits of the calm fit."""

import time

from tests.cluster.fits import shaky
from tests.cluster.rows import fault, faults

LATE = 0.05  # seconds of each read: blocks take long enough to be worth keeping
SOON = 30.0  # seconds in which a fit must say that its scheduler is gone


def lose_scheduler(cluster, since):
    cluster.scheduler.kill()
    return cluster.fitting.fails("scheduler", timeout=SOON) - since


def lose_client(_cluster, _since):
    return "at the next call"


@faults(
    "in a pass",
    {
        "the scheduler is killed, and a new one gets the next attempt": lose_scheduler,
        "the client is killed, and called again": lose_client,
    },
)
def test_what_is_lost_costs_what_was_not_kept(cluster, places, calm, calm_tasks, measured, tmp_path, name, act):
    cluster.fitting.fit(name, shaky(places, delay=LATE), kept=str(tmp_path / "kept"))
    cluster.fitting.heard_blocks(4)
    messages = act(cluster, time.time())
    counted = [m for m in cluster.fitting.so_far() if m["kind"] == "BlocksDone"]
    done = {m["run"]: m["n_blocks"] + m["n_merges"] for m in counted}
    cluster.fitting.process.kill()
    cluster.mend(2)
    cluster.fitting.fit(name, shaky(places, delay=LATE), kept=str(tmp_path / "kept"))
    assert cluster.fitting.bits() == calm[name]
    begun = [m for m in cluster.fitting.so_far() if m["kind"] == "PassStarted"]
    n_more = sum(done.values()) + sum(m["n_blocks"] + m["n_merges"] for m in begun) - calm_tasks[name]
    measured(f"{n_more} of {calm_tasks[name]} tasks" if n_more > 0 else "nothing", messages)


@fault("the scheduler is killed, another one and new workers take its place", "between two passes")
def test_a_fit_goes_on_at_a_new_scheduler_after_a_pass(cluster, places, right, name):
    cluster.fitting.fit(name, shaky(places), hold=["PassEnded", 1])
    cluster.fitting.heard("Holds")
    since = time.time()
    cluster.scheduler.kill()
    cluster.mend(2)
    cluster.fitting.go_on()
    right(cluster.fitting, name, since=since)
