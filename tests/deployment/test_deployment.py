"""The files of docs/deployment do what their comments say: they are loaded, run, and held against what reads them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import dask
import distributed
import numpy as np
import pytest
import yaml
from dask.utils import parse_bytes, parse_timedelta
from distributed.cli import dask_scheduler, dask_worker

from dspectral import SketchedPCA
from dspectral.datasets import low_rank_counts

FILES = Path(__file__).parents[2] / "docs" / "deployment"
SRUN = """#!/bin/bash
# Like srun on one node: as many copies of the command as --ntasks says.
n=1
while [[ $1 == --* ]]; do case $1 in --ntasks=*) n=${1#*=};; esac; shift; done
trap 'kill $(jobs -p) 2>/dev/null' TERM EXIT
for _ in $(seq "$n"); do "$@" & done
wait
"""
PROGRAM = """
import json, os, sys
import numpy as np
from distributed import Client
from dspectral import SketchedPCA
from dspectral.datasets import low_rank_counts

def scheduler_settings(dask_scheduler):
    return [dask_scheduler.WORKER_SATURATION, dask_scheduler.allowed_failures, dask_scheduler.worker_ttl,
            dask_scheduler.no_workers_timeout]

def worker_settings(dask_worker):
    memory = dask_worker.memory_manager
    return [memory.memory_limit, memory.memory_target_fraction, memory.memory_spill_fraction,
            memory.memory_pause_fraction, dask_worker.state.nthreads, dask_worker.local_directory,
            os.environ["OMP_NUM_THREADS"], os.environ["OPENBLAS_NUM_THREADS"], dask_worker.death_timeout]

with Client() as client:
    client.wait_for_workers(2, timeout=300)
    found = {"scheduler": client.run_on_scheduler(scheduler_settings),
             "workers": list(client.run(worker_settings).values())}
    fitted = SketchedPCA(3, solver="frequent_directions").fit(low_rank_counts(300, 60, 3, block_rows=20, seed=1))
    np.save(sys.argv[1] + "/components.npy", fitted.components_)
with open(sys.argv[1] + "/found.json", "w") as file:
    json.dump(found, file)
"""


def configuration(name="dspectral.yaml"):
    return yaml.safe_load((FILES / name).read_text(encoding="utf-8"))


def leaves(tree, path=()):
    for key, value in tree.items():
        yield from (leaves(value, (*path, key)) if isinstance(value, dict) else [(".".join((*path, key)), value)])


def test_every_setting_is_one_that_distributed_reads():
    defaults = {}
    dask.config.refresh(config=defaults, paths=[], env={})
    own = Path(distributed.__file__).parent / "distributed.yaml"
    dask.config.update(defaults, yaml.safe_load(own.read_text(encoding="utf-8")))
    known = {name.replace("_", "-") for name, _ in leaves(defaults)} | {"temporary-directory"}
    pre_spawn = "distributed.nanny.pre-spawn-environ."
    unknown = [name for name, _ in leaves(configuration()) if name.replace("_", "-") not in known]
    assert [name for name in unknown if not name.startswith(pre_spawn)] == []


@pytest.mark.slow
def test_slurm_job_runs_a_fit_with_these_settings_and_the_same_bits(tmp_path):
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "srun").write_text(SRUN, encoding="utf-8")
    (binaries / "srun").chmod(0o755)
    for name, module in (("dask", "dask"), ("python", "")):
        line = f'exec {sys.executable} {"-m " + module if module else ""} "$@"'
        (binaries / name).write_text(f"#!/bin/bash\n{line}\n", encoding="utf-8")
        (binaries / name).chmod(0o755)
    (tmp_path / "fit.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "scratch").mkdir()
    root = str(FILES.parents[1])
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("DASK_", "OMP_", "SLURM_"))},
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "PYTHONPATH": root,
        "SLURM_JOB_ID": "7",
        "SLURM_NTASKS": "4",
        "DSPECTRAL_SHARED": str(tmp_path),
        "DSPECTRAL_SCRATCH": str(tmp_path / "scratch"),
        "DSPECTRAL_MEMORY": "700MB",
        "DASK_CONFIG": str(FILES / "dspectral.yaml"),
    }
    command = ["bash", str(FILES / "slurm.sh"), "python", str(tmp_path / "fit.py"), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]

    actual, message = (
        json.loads((tmp_path / "found.json").read_text(encoding="utf-8")),
        configuration()["distributed"],
    )
    scheduler, memory = message["scheduler"], message["worker"]["memory"]
    assert actual["scheduler"] == [
        scheduler["worker-saturation"],
        scheduler["allowed-failures"],
        parse_timedelta(scheduler["worker-ttl"]),
        parse_timedelta(scheduler["no-workers-timeout"]),
    ]
    assert len(actual["workers"]) == 2
    for limit, target, spill, pause, n_threads, folder, *rest in actual["workers"]:
        assert (limit, n_threads) == (parse_bytes("700MB"), 1)
        assert [target, spill, pause] == [memory["target"], memory["spill"], memory["pause"]]
        assert folder.startswith(str(tmp_path / "scratch"))
        assert rest == ["1", "1", 120.0]
    alone = SketchedPCA(3, solver="frequent_directions").fit(low_rank_counts(300, 60, 3, block_rows=20, seed=1))
    assert np.array_equal(np.load(tmp_path / "components.npy"), alone.components_)
    assert list(tmp_path.glob("dask-scheduler-*.json")) == []


@pytest.mark.filterwarnings("ignore")
def test_dask_jobqueue_defaults_start_workers_with_one_thread():
    jobqueue = pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    with (
        dask.config.set(dask.config.merge(dask.config.config, configuration("jobqueue.yaml"))),
        jobqueue.SLURMCluster(queue="compute", scheduler_options={"dashboard_address": ":0"}) as cluster,
    ):
        script = cluster.job_script()
    assert "#SBATCH --cpus-per-task=4" in script
    assert "#SBATCH -t 02:00:00" in script
    assert "export OMP_NUM_THREADS=1" in script
    line = next(line for line in script.splitlines() if "dask worker" in line or "distributed.cli" in line)
    assert re.search(r"--nthreads 1 .*--nworkers 4 --nanny --death-timeout 120", line), line
    assert re.search(r"--local-directory /tmp --lifetime 110m --lifetime-stagger 5m", line), line


def manifest():
    return configuration("daskcluster.yaml")


def test_the_manifest_is_what_the_operator_accepts():
    operator = pytest.importorskip("dask_kubernetes", reason="dask-kubernetes is not installed")
    validate = pytest.importorskip("jsonschema", reason="jsonschema is not installed").validate
    crd = "operator/deployment/helm/dask-kubernetes-operator/crds/daskcluster.yaml"
    definition = yaml.safe_load((Path(operator.__file__).parent / crd).read_text(encoding="utf-8"))
    actual = manifest()
    group, version = actual["apiVersion"].split("/")
    assert (group, actual["kind"]) == (definition["spec"]["group"], definition["spec"]["names"]["kind"])
    (schema,) = [one["schema"] for one in definition["spec"]["versions"] if one["name"] == version]
    schema = schema["openAPIV3Schema"]
    validate(actual, schema)
    assert set(actual["spec"]) <= set(schema["properties"]["spec"]["properties"])


def container(part):
    (found,) = manifest()["spec"][part]["spec"]["containers"]
    return found


def test_commands_of_the_manifest_are_ones_that_dask_understands():
    parsers = {"worker": dask_worker.main, "scheduler": dask_scheduler.main}
    for part, parser in parsers.items():
        program, name, *arguments = container(part)["args"]
        assert (program, name) == ("dask", part)
        # The address of the scheduler is an argument that the operator gives in the environment.
        values = parser.make_context(name, list(arguments)).params
    worker = dask_worker.main.make_context("worker", container("worker")["args"][2:]).params
    assert (worker["nthreads"], parse_timedelta(worker["death_timeout"])) == (1, 120)
    assert values["host"] == "0.0.0.0"  # noqa: S104  inside a pod
