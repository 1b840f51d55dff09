"""What happens to workers: each fit ends in the bits of the calm one."""

import signal
import time

import pytest

from tests.cluster import ballast, network
from tests.cluster.clusters import SOON_LOST, Cluster
from tests.cluster.rows import fault
from tests.cluster.storage import shaky

LATE = 0.02  # seconds of each read, some of which a block takes
pytestmark = pytest.mark.fault  # part of the long form


PLENTY = ("--memory-limit", "700MB")  # of which the interpreter and its libraries take a half


@pytest.fixture(scope="module")
def started():
    with Cluster(0, environment=SOON_LOST) as made:
        yield made


def begun(cluster, name, places, n_blocks=2, **configuration):
    """Begin a fit, wait until some blocks are done, and return the time."""
    cluster.fitting.fit(name, shaky(places, delay=LATE), configuration=configuration)
    cluster.fitting.heard("BlocksDone", where=lambda message: message["n_blocks"] >= n_blocks)
    return time.time()


@fault("a worker is killed (SIGKILL)", "in a pass")
def test_a_killed_worker_costs_what_it_held(cluster, places, right, name):
    since = begun(cluster, name, places)
    cluster.workers[0].kill()
    right(cluster.fitting, name, since=since)


@fault("a worker is asked to leave (SIGTERM)", "in a pass")
def test_a_worker_that_is_asked_to_leave_takes_nothing_with_it(cluster, places, right, name):
    since = begun(cluster, name, places)
    cluster.workers[0].signal(signal.SIGTERM)
    right(cluster.fitting, name, since=since)


@fault("all workers are killed, others join", "in a pass")
def test_a_fit_goes_on_with_workers_that_join_when_all_are_gone(cluster, places, right, name):
    since = begun(cluster, name, places)
    for worker in cluster.workers:
        worker.kill()
    cluster.mend(2)
    right(cluster.fitting, name, since=since)


@fault("a worker is stopped (SIGSTOP)", "in a pass")
def test_a_stopped_worker_counts_as_lost(cluster, places, right, name):
    since = begun(cluster, name, places)
    cluster.workers[0].signal(signal.SIGSTOP)
    cluster.hurt.append(cluster.workers[0])
    right(cluster.fitting, name, since=since)


@fault("a worker is stopped for a second (SIGSTOP, SIGCONT)", "in a pass")
def test_a_worker_that_is_stopped_for_a_moment_is_waited_for(cluster, places, right, name):
    since = begun(cluster, name, places)
    cluster.workers[0].signal(signal.SIGSTOP)
    time.sleep(1.0)
    cluster.workers[0].signal(signal.SIGCONT)
    right(cluster.fitting, name, since=since)
    assert cluster.workers[0].is_running


@pytest.fixture(scope="module")
def wired():
    """A cluster each of whose processes is on a machine of its own."""
    if reason := network.why_not():
        pytest.skip(reason)
    machines = ("scheduler", "client", *(f"worker-{number}" for number in range(1, 30)))
    with network.Network(*machines) as wires, Cluster(0, network=wires, environment=SOON_LOST) as made:
        yield made


@fault("the cable of a worker is pulled", "in a pass")
def test_a_worker_that_is_cut_off_counts_as_lost(wired, places, right, name):
    wired.mend(2)
    since = begun(wired, name, places)
    wired.network.pull(wired.workers[0].name)
    wired.hurt.append(wired.workers[0])
    right(wired.fitting, name, since=since)


@fault("the cable of a worker is pulled for a second", "in a pass")
def test_a_worker_that_is_cut_off_for_a_moment_is_waited_for(wired, places, right, name):
    wired.mend(2)
    since = begun(wired, name, places)
    wired.network.pull(wired.workers[0].name)
    time.sleep(1.0)
    wired.network.put_back(wired.workers[0].name)
    right(wired.fitting, name, since=since)
    assert wired.workers[0].is_running


@fault("the cable of the client is pulled for a second", "in a pass")
def test_a_client_that_is_cut_off_for_a_moment_goes_on(wired, places, right, name):
    wired.mend(2)
    since = begun(wired, name, places)
    wired.network.pull("client")
    time.sleep(1.0)
    wired.network.put_back("client")
    right(wired.fitting, name, since=since)


@pytest.fixture
def limited(cluster):
    """The cluster with two workers of little memory."""
    cluster.mend(0)
    cluster.add_workers(2, *PLENTY)
    yield cluster
    cluster.mend(0)


def names_of(workers):
    return [worker.called for worker in workers]


@fault("a worker pauses, its memory nearly full", "in a pass")
def test_a_paused_worker_leaves_its_blocks_to_others(limited, places, right, name):
    since = begun(limited, name, places)
    ballast.on_workers(limited, names_of(limited.workers[:1]), ballast.hold_share, 0.85)
    right(limited.fitting, name, since=since)


@fault("all workers pause, and go on when it is told", "in a pass")
def test_a_fit_goes_on_when_paused_workers_have_memory_again(limited, places, right, name):
    # Workers that are all paused are given up after twice that time: memory must be there again before.
    since = begun(limited, name, places, **{"dspectral.wait-warning": "10s"})
    ballast.on_workers(limited, names_of(limited.workers), ballast.hold_share, 0.85)
    message = limited.fitting.heard("Waiting", since=since)
    assert message["why"] == "paused"
    assert "memory" in message["sentence"]
    ballast.on_workers(limited, names_of(limited.workers), ballast.release)
    right(limited.fitting, name, since=since)


@pytest.fixture
def nursed(cluster):
    """The cluster with two workers of little memory, which nannies look after."""
    cluster.mend(0)
    cluster.add_workers(2, *PLENTY, nanny=True)
    yield cluster
    cluster.mend(0)


@fault("a worker is out of memory, and its nanny starts it anew", "in a pass")
def test_a_worker_that_is_out_of_memory_costs_what_it_held(nursed, places, right, name):
    since = begun(nursed, name, places)
    ballast.on_workers(nursed, names_of(nursed.workers[:1]), ballast.hold_share, 1.1, on_error="ignore")
    nursed.workers[0].wait_for(lambda line: True if "memory budget" in line else None)
    right(nursed.fitting, name, since=since)


@pytest.fixture(scope="module")
def adaptive():
    """A client whose cluster has as many workers as it has work for, from 1 to 3."""
    with Cluster(0) as made:
        yield made.client(adapt=True)


@fault("workers come and go with the work (adaptive scaling)", "in a pass")
def test_a_cluster_may_grow_and_shrink_within_a_fit(adaptive, places, right, name):
    adaptive.fit(name, shaky(places, delay=10 * LATE))
    right(adaptive, name, since=time.time())
    adaptive.heard("Workers", where=lambda message: message["n_workers"] > 1)
    adaptive.heard("Workers", where=lambda message: message["n_workers"] == 1)
