"""The same bits under every scheduler, with every number of workers, hash seed and version of Python."""

import json
import os

import pytest

from tests.cluster import network
from tests.cluster.clusters import Cluster
from tests.cluster.processes import Started, python

pytestmark = pytest.mark.fault  # part of the long form
OTHER = "DSPECTRAL_OTHER_PYTHON"
"""Environment variable with the path of an interpreter of another version that has dspectral's needs installed."""


def bits_on(cluster, places, names):
    fitting = cluster.client()
    found = {}
    for name in names:
        fitting.fit(name, places)
        found[name] = fitting.bits()
    return found


def bits_in_a_process(places, scheduler, n, *, interpreter=None, environment=None):
    command = python("-m", "tests.cluster.fits", places.counts, places.corpus, scheduler, n)
    process = Started([interpreter or command[0], *command[1:]], environment=environment)
    try:
        return process.wait_for(lambda line: json.loads(line) if line.startswith('{"Sketched') else None, timeout=240)
    finally:
        process.kill()


@pytest.mark.parametrize("n_workers", [1, 2, 3, 4])
def test_every_number_of_workers_gives_the_same_bits(places, calm, n_workers):
    with Cluster(n_workers) as cluster:
        assert bits_on(cluster, places, calm) == calm


@pytest.mark.parametrize(("scheduler", "n", "seed"), [("threads", 4, "1"), ("processes", 2, "1"), ("threads", 2, "77")])
def test_threads_processes_and_hash_seeds_give_the_same_bits(places, calm, scheduler, n, seed):
    assert bits_in_a_process(places, scheduler, n, environment={"PYTHONHASHSEED": seed}) == calm


def test_another_version_of_python_gives_the_same_bits(places, calm):
    if not (other := os.environ.get(OTHER)):
        pytest.skip(f"{OTHER} does not name an interpreter with dspectral's needs; make test-cluster makes one")
    assert bits_in_a_process(places, "sync", 1, interpreter=other) == calm


def test_machines_of_a_network_with_a_shared_folder_give_the_same_bits(places, calm):
    if reason := network.why_not():
        pytest.skip(reason)
    machines = ("scheduler", "client", "worker-1", "worker-2")
    with network.Network(*machines) as wires, Cluster(2, network=wires) as cluster:
        assert bits_on(cluster, places, calm) == calm


def test_a_bucket_gives_the_same_bits(places, calm):
    if reason := network.why_no_s3():
        pytest.skip(reason)
    with network.Endpoint(places) as endpoint, Cluster(2) as cluster:
        assert bits_on(cluster, endpoint.places, calm) == calm
