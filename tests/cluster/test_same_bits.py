"""The same bits under every scheduler, with every number of workers, hash seed and version of Python."""

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cluster import network
from tests.cluster.certificates import make_tls
from tests.cluster.clusters import Cluster
from tests.cluster.processes import Started, python
from tests.cluster.s3 import Endpoint

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
        return process.wait_for(
            lambda line: json.loads(line) if line.startswith('{"Sketched') else None, timeout=240
        )
    finally:
        process.kill()


@pytest.mark.parametrize("n_workers", [1, 2, 3, 4])
def test_every_number_of_workers_gives_the_same_bits(places, calm, n_workers):
    with Cluster(n_workers) as cluster:
        assert bits_on(cluster, places, calm) == calm


@pytest.mark.parametrize(("scheduler", "n"), [("threads", 4), ("processes", 2)])
def test_threads_and_processes_give_the_same_bits(places, calm, scheduler, n):
    assert bits_in_a_process(places, scheduler, n) == calm


@pytest.mark.parametrize("seed", ["1", "77"])
def test_hash_seeds_change_nothing(places, calm, seed):
    assert bits_in_a_process(places, "threads", 2, environment={"PYTHONHASHSEED": seed}) == calm


def test_another_version_of_python_gives_the_same_bits(places, calm):
    interpreter = os.environ.get(OTHER)
    if not interpreter:
        pytest.skip(
            f"{OTHER} does not name an interpreter with dspectral's needs; make test-cluster makes one"
        )
    assert bits_in_a_process(places, "sync", 1, interpreter=interpreter) == calm


def test_workers_of_another_version_of_python_are_told_of(places, calm):
    interpreter = os.environ.get(OTHER)
    if not interpreter:
        pytest.skip(
            f"{OTHER} does not name an interpreter with dspectral's needs; make test-cluster makes one"
        )
    version = subprocess.run(
        [interpreter, "--version"], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    with Cluster(0) as cluster:
        cluster.start_scheduler()
        cluster.add_workers(1, interpreter=interpreter)
        fitting = cluster.client()
        assert version in "\n".join(fitting.process.lines)
        fitting.fit("SketchedPCA", places)
        end = fitting.ended()
        assert end.get("bits", calm["SketchedPCA"]) == calm["SketchedPCA"]


def test_a_cluster_with_certificates_gives_the_same_bits(places, calm, tmp_path):
    with Cluster(2, tls=make_tls(tmp_path)) as cluster:
        assert bits_on(cluster, places, calm) == calm


def test_machines_of_a_network_with_a_shared_folder_give_the_same_bits(places, calm):
    if reason := network.why_not():
        pytest.skip(reason)
    machines = ("scheduler", "client", "worker-1", "worker-2")
    with network.Network(*machines) as wires, Cluster(2, network=wires) as cluster:
        assert bits_on(cluster, places, calm) == calm


def test_a_bucket_gives_the_same_bits(places, calm):
    missing = [package for package in ("moto", "s3fs", "flask") if importlib.util.find_spec(package) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; the extra cluster brings them")
    with Endpoint(places) as endpoint, Cluster(2) as cluster:
        assert bits_on(cluster, endpoint.places, calm) == calm


def test_a_folder_that_workers_cannot_see_is_named(places, tmp_path):
    shutil.copytree(places.counts, tmp_path / "counts")
    with Cluster(1) as cluster:
        fitting = cluster.client()
        fitting.fit("TruncatedSVD", places._replace(counts=str(tmp_path / "counts")), hold=["PassEnded", 1])
        fitting.heard("Holds")
        Path(tmp_path, "counts").rename(tmp_path / "elsewhere")
        fitting.go_on()
        end = fitting.ended()
    assert end["kind"] == "Failed"
    assert str(tmp_path / "counts") in end["message"]
