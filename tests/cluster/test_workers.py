"""What happens to workers: each fit ends in the bits of the calm one."""

import signal
import time

import pytest

from tests.cluster import network
from tests.cluster.clusters import SOON_LOST, Cluster, hold_share, release
from tests.cluster.fits import shaky
from tests.cluster.rows import fault, faults

LATE = 0.02  # seconds of each read, some of which a block takes
pytestmark = pytest.mark.fault  # part of the long form


@pytest.fixture(scope="module")
def started():
    with Cluster(0, environment=SOON_LOST) as made:
        yield made


def begun(cluster, name, places, **configuration):
    """Begin a fit, wait until some blocks are done, and return the time."""
    cluster.fitting.fit(name, shaky(places, delay=LATE), configuration=configuration)
    cluster.fitting.heard_blocks(2)
    return time.time()


def kill(cluster):
    cluster.workers[0].kill()


def ask_to_leave(cluster):
    cluster.workers[0].signal(signal.SIGTERM)


def kill_all(cluster):
    for worker in cluster.workers:
        worker.kill()
    cluster.mend(2)


def stop(cluster):
    cluster.workers[0].signal(signal.SIGSTOP)
    cluster.hurt.append(cluster.workers[0])


def stop_for_a_second(cluster):
    cluster.workers[0].signal(signal.SIGSTOP)
    time.sleep(1.0)
    cluster.workers[0].signal(signal.SIGCONT)


@faults(
    "in a pass",
    {
        "a worker is killed (SIGKILL)": kill,
        "a worker is asked to leave (SIGTERM)": ask_to_leave,
        "all workers are killed, others join": kill_all,
        "a worker is stopped (SIGSTOP)": stop,
        "a worker is stopped for a second (SIGSTOP, SIGCONT)": stop_for_a_second,
    },
)
def test_workers_that_go_cost_what_they_held(cluster, places, right, name, act):
    since = begun(cluster, name, places)
    act(cluster)
    right(cluster.fitting, name, since=since)
    assert act != stop_for_a_second or cluster.workers[0].is_running


@pytest.fixture(scope="module")
def wired():
    """A cluster each of whose processes is on a machine of its own."""
    if reason := network.why_not():
        pytest.skip(reason)
    machines = ("scheduler", "client", *(f"worker-{number}" for number in range(1, 30)))
    with network.Network(*machines) as wires, Cluster(0, network=wires, environment=SOON_LOST) as made:
        yield made


def cut_off(cluster):
    cluster.network.pull(cluster.workers[0].name)
    cluster.hurt.append(cluster.workers[0])


def cut_off_for_a_second(cluster, name=None):
    cluster.network.pull(name or cluster.workers[0].name)
    time.sleep(1.0)
    cluster.network.put_back(name or cluster.workers[0].name)


def cut_off_the_client(cluster):
    cut_off_for_a_second(cluster, "client")


@faults(
    "in a pass",
    {
        "the cable of a worker is pulled": cut_off,
        "the cable of a worker is pulled for a second": cut_off_for_a_second,
        "the cable of the client is pulled for a second": cut_off_the_client,
    },
)
def test_a_cable_that_is_pulled_costs_what_is_behind_it(wired, places, right, name, act):
    wired.mend(2)
    test_workers_that_go_cost_what_they_held(wired, places, right, name, act)
    assert act == cut_off or wired.workers[0].is_running


@pytest.fixture
def limited(cluster, request):
    """The cluster with two workers of little memory, of which the interpreter and its libraries take a half."""
    cluster.mend(0)
    cluster.add_workers(2, memory="700MB", nanny=getattr(request, "param", False))
    yield cluster
    cluster.mend(0)


@fault("a worker pauses, its memory nearly full", "in a pass")
def test_a_paused_worker_leaves_its_blocks_to_others(limited, places, right, name):
    since = begun(limited, name, places)
    limited.on_workers(limited.workers[:1], hold_share, 0.85)
    right(limited.fitting, name, since=since)


@fault("all workers pause, and go on when it is told", "in a pass")
def test_a_fit_goes_on_when_paused_workers_have_memory_again(limited, places, right, name):
    since = begun(limited, name, places, **{"dspectral.wait-warning": "10s"})
    limited.on_workers(limited.workers, hold_share, 0.85)
    message = limited.fitting.heard("Warned", since=since)["message"]
    assert "is paused" in message
    assert "memory" in message
    limited.on_workers(limited.workers, release)
    right(limited.fitting, name, since=since)


@fault("a worker is out of memory, and its nanny starts it anew", "in a pass")
@pytest.mark.parametrize("limited", [True], indirect=True)
def test_a_worker_that_is_out_of_memory_costs_what_it_held(limited, places, right, name):
    since = begun(limited, name, places)
    limited.on_workers(limited.workers[:1], hold_share, 1.1, on_error="ignore")
    limited.workers[0].says("memory budget")
    right(limited.fitting, name, since=since)
