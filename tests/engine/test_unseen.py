"""A path that a worker does not see: one sentence, with the worker and the path."""

import os
import socket
from pathlib import Path

import dask
import pytest
from distributed import Client, LocalCluster

from dspectral import TruncatedSVD, build_store, open_store, write_counts
from dspectral.datasets import low_rank_counts
from dspectral.engine.retrying import not_seen
from tests.schedulers import forked_workers


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
            LocalCluster(
                n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50, memory_limit=0
            ) as cluster,
            Client(cluster) as client,
        ):
            client.run(os.chdir, "/")
            (address,) = client.scheduler_info()["workers"]
            yield folder, address
    finally:
        os.chdir(before)


@pytest.mark.slow
def test_a_store_that_a_worker_does_not_see_is_not_called_damaged(elsewhere):
    _, address = elsewhere
    with dask.config.set(scheduler="sync"):
        write_counts(low_rank_counts(40, 10, 2, block_rows=20).compute(), "/proc/self/cwd/seen.zarr")
    with pytest.raises((FileNotFoundError, ValueError)) as caught:
        TruncatedSVD(2).fit(open_store("/proc/self/cwd/seen.zarr"))
    said = str(caught.value)
    assert f"/seen.zarr is not there for worker {address} on {socket.gethostname()}" in said
    assert "put it in a folder that every worker sees" in said
    assert "build the store again" not in said


@pytest.mark.slow
def test_a_text_that_a_worker_does_not_see_is_named_with_the_worker(elsewhere):
    folder, address = elsewhere
    (folder / "text.txt").write_text("the cat sat\na dog ran\n", encoding="utf-8")
    with pytest.raises(FileNotFoundError, match=r"text\.txt is not there for worker") as caught:
        build_store("/proc/self/cwd/text.txt", str(folder / "made.zarr"))
    assert f"worker {address} on {socket.gethostname()}" in str(caught.value)


def test_without_a_cluster_the_process_is_named():
    assert f"for process {os.getpid()} on " in str(not_seen("x"))
