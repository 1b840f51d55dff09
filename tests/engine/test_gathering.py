import asyncio

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster
from scipy import sparse

from dspectral.engine import cluster as machines
from dspectral.engine import run_tasks
from tests.schedulers import forked_workers


@pytest.fixture(scope="module")
def cluster():
    with (
        forked_workers(),
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as one,
    ):
        yield one


@pytest.fixture
def asked(cluster, monkeypatch):
    """Count how often the scheduler is asked for results."""
    calls = []
    gather = cluster.scheduler.handlers["gather"]

    async def counted(*arguments, **keywords):
        calls.append(keywords["keys"])
        return await gather(*arguments, **keywords)

    monkeypatch.setitem(cluster.scheduler.handlers, "gather", counted)
    return calls


def ones(n):
    return np.ones(n)


def matrix(n):
    return sparse.random_array((50, 40), density=0.2, rng=n, format="csr").astype(np.float32), np.ones(n)


def test_results_are_aligned_as_those_of_this_process_are(cluster):
    with Client(cluster):
        for rows, vector in run_tasks(matrix, range(1, 9), name="matrix"):
            assert all(part.flags.aligned for part in (rows.data, rows.indices, rows.indptr, vector))


@pytest.mark.parametrize(("said", "n_asked"), [(None, 0), (True, 0), (False, 1)])
def test_workers_of_this_machine_give_results_themselves_unless_the_client_says_otherwise(
    said, n_asked, cluster, asked
):
    with Client(cluster, direct_to_workers=said):
        (found,) = run_tasks(ones, [5], name="ones")
    assert found.sum() == 5
    assert len(asked) == n_asked


def test_workers_at_the_other_end_of_a_tunnel_are_not_asked(cluster, asked, monkeypatch):
    with Client(cluster):
        run_tasks(ones, [5], name="ones")
        assert asked == []
        monkeypatch.setattr(machines, "gethostname", lambda: "laptop")
        (found,) = run_tasks(ones, [5], name="ones")
    assert found.sum() == 5
    assert len(asked) == 1


@pytest.mark.filterwarnings("ignore:the pass ones has waited:RuntimeWarning")
def test_the_scheduler_is_asked_after_a_silence_of_a_worker_that_holds_the_result(
    cluster, asked, monkeypatch
):
    with Client(cluster) as client, dask.config.set({"dspectral.wait-warning": 0.3}):
        gather = client.gather

        async def stopped(futures, *, direct):
            if direct:
                await asyncio.Event().wait()
            return await gather(futures, direct=direct)

        monkeypatch.setattr(client, "gather", stopped)
        (found,) = run_tasks(ones, [5], name="ones")
    assert found.sum() == 5
    assert len(asked) == 1
