import os
import signal
from types import SimpleNamespace

import dask
import pytest
from distributed import Client, KilledWorker, LocalCluster
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError

from dspectral import ClusterError
from dspectral.engine import run_tasks
from dspectral.engine.cluster import run as cluster_run
from dspectral.engine.cluster.errors import enough_for, killed
from dspectral.engine.cluster.state import WorkerSeen
from dspectral.engine.events import PassBegan
from tests.schedulers import forked_workers

BEGUN = PassBegan("f", "Fit", "r", "sketch", 1, 1, 8, 7, 3, 2, None, None, "sketch-block", ())
BLOCK = "('sketch-block-" + "0" * 32 + "', 3, 0)"
MB = 10**6
POLL = SimpleNamespace(held={}, state=None, answered=0.0, silence="")


def seen(held, limit=500 * MB):
    return {"w": WorkerSeen("w", "running", held, 0, limit, 0.0, "", 0.0)}


def die(_item):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (
            seen(450 * MB),
            "most likely for lack of memory, for the fullest worker was last seen with 429.15 MiB of its",
        ),
        (
            seen(100 * MB),
            "either this task alone takes more memory than is left, or something else ends its worker",
        ),
        (seen(100 * MB, limit=0), "most often for lack of memory: give each worker more memory"),
        ({}, "most often for lack of memory: give each worker more memory"),
    ],
)
def test_workers_that_die_at_one_task_are_a_sentence_with_the_block_and_its_memory(held, said):
    text = killed("sketch", KilledWorker(BLOCK, None, 3), held)
    assert text.startswith("4 workers ended, one after the other, at block 3 of sketch in the pass sketch")
    assert said in text
    assert "--memory-limit" in text
    assert "sketch_size" in text


def test_the_limit_that_would_do_lies_above_what_was_held_and_follows_the_share_at_which_workers_pause():
    assert enough_for(400 * MB) == "700 MB"
    with dask.config.set({"distributed.worker.memory.pause": False}):
        assert enough_for(400 * MB) == "500 MB"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KilledWorker(BLOCK, None, 3), "4 workers ended"),
        (CommClosedError("in <TCP>: closed"), "the pass sketch has lost its cluster (in <TCP>: closed)"),
        (
            RuntimeError("Error during deserialization of the task graph. This frequently\noccurs"),
            "the scheduler cannot read the tasks of the pass sketch",
        ),
        (
            FutureCancelledError("x", "scheduler-connection-lost"),
            "the connection to the scheduler at tcp://a:1 was lost",
        ),
    ],
)
def test_what_a_lost_cluster_raises_is_one_sentence(error, said):
    client = SimpleNamespace(status="running", scheduler=SimpleNamespace(address="tcp://a:1"))

    def lose(*_words, **_options):
        client.status = "connecting" if isinstance(error, FutureCancelledError) else "running"
        raise error

    client.get = lose
    with pytest.raises(ClusterError) as raised:
        cluster_run.getter(client, BEGUN, POLL)({}, [])
    assert str(raised.value).startswith(said)
    assert raised.value.__cause__ is error


def test_work_that_somebody_cancelled_is_told_apart_from_a_lost_scheduler():
    def cancelled(*_words, **_options):
        raise FutureCancelledError("x", "scheduler-restart")

    client = SimpleNamespace(status="running", scheduler=SimpleNamespace(address="tcp://a:1"), get=cancelled)
    with pytest.raises(
        ClusterError, match=r"was cancelled after .*, by a restart of the cluster at tcp://a:1 or by"
    ):
        cluster_run.getter(client, BEGUN, POLL)({}, [])


def test_a_client_that_is_closed_is_told_before_anything_is_sent():
    client = SimpleNamespace(status="closed", scheduler=None)
    with pytest.raises(ClusterError, match=r"the connection to the scheduler at an address that .* was lost"):
        cluster_run.getter(client, BEGUN, POLL)({}, [])


@pytest.mark.slow
def test_a_task_that_kills_its_workers_is_named():
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        forked_workers(),
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster),
        pytest.raises(ClusterError, match=r"1 worker ended at task 0 of die in the pass die.* memory"),
    ):
        run_tasks(die, [1], name="die")
