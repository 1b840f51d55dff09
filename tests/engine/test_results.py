"""Results that workers hand over, and a path that a worker does not see."""

import os
import re
import socket
from pathlib import Path

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster
from scipy import sparse

from dspectral import TruncatedSVD, build_store, open_store, write_counts
from dspectral.datasets import low_rank_counts
from dspectral.engine import run_tasks
from tests.schedulers import forked_workers


@pytest.fixture(scope="module")
def cluster():
    with (
        forked_workers(),
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as one,
    ):
        yield one


def matrix(n):
    return sparse.random_array((50, 40), density=0.2, rng=n, format="csr").astype(np.float32), np.ones(n)


def test_results_are_aligned_as_those_of_this_process_are(cluster):
    with Client(cluster):
        for rows, vector in run_tasks(matrix, range(1, 9), name="matrix"):
            assert all(part.flags.aligned for part in (rows.data, rows.indices, rows.indptr, vector))


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A folder for which ``/proc/self/cwd`` stands in this process, and for something else in the worker."""
    if not Path("/proc/self/cwd").exists():
        pytest.skip("/proc/self/cwd, by which a worker sees other files than its client, is Linux's")
    folder, before = tmp_path_factory.mktemp("seen"), Path.cwd()
    os.chdir(folder)
    try:
        with (
            dask.config.set({"distributed.comm.retry.count": 0}),
            forked_workers(),
            Client(
                n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50, memory_limit=0
            ) as client,
        ):
            client.run(os.chdir, "/")
            (address,) = client.scheduler_info()["workers"]
            yield folder, address
    finally:
        os.chdir(before)


def fit_a_store(_folder):
    with dask.config.set(scheduler="sync"):
        write_counts(low_rank_counts(40, 10, 2, block_rows=20).compute(), "/proc/self/cwd/seen.zarr")
    TruncatedSVD(2).fit(open_store("/proc/self/cwd/seen.zarr"))


def build_of_a_text(folder):
    (folder / "text.txt").write_text("the cat sat\na dog ran\n", encoding="utf-8")
    build_store("/proc/self/cwd/text.txt", str(folder / "made.zarr"))


@pytest.mark.slow
@pytest.mark.parametrize(("use", "name"), [(fit_a_store, "seen.zarr"), (build_of_a_text, "text.txt")])
def test_data_missing_on_a_worker_is_named_with_the_worker(elsewhere, use, name):
    folder, address = elsewhere
    with pytest.raises((FileNotFoundError, ValueError)) as caught:
        use(folder)
    assert re.search(f"{name}.*worker {address} .*{socket.gethostname()}", str(caught.value))
    assert "again" not in str(caught.value)
