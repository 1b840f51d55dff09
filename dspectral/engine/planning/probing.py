"""A short probe: a fit of a few blocks in a process of its own, where nothing else is in memory."""

import gc
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import cloudpickle
import dask

from dspectral.engine.planning.process_memory import resident_bytes
from dspectral.engine.planning.recording import RunRecord, recorded

ENVIRONMENT = {
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""What Dask's nanny sets for each worker."""
N_RUNS = 2
"""Runs on samples of different sizes, after one that loads what is needed."""
ENOUGH_SECONDS = 60.0
"""After which no larger sample is begun."""
PROBE_SECONDS = 600.0
"""After which a probe is given up."""


@dataclass
class Probe:
    """What runs on samples took.

    Attributes
    ----------
    runs : list of RunRecord
        One for each sample, from the smallest to the largest.
    base : int
        Bytes of a process that has all libraries loaded and holds no data.
    bare : int
        Bytes of a worker that has loaded what tasks need, before the first of them.
    working : int
        Bytes by which the first tasks make a process larger for good: compiled loops, buffers of BLAS.
    warm_up : float
        Seconds that a new process takes for libraries and for what is compiled.
    used : list of int
        Numbers of the calls of these runs.
    seconds : float
        Wall time of the probe.
    """

    runs: list[RunRecord]
    base: int
    bare: int
    working: int
    warm_up: float
    used: list[int]
    seconds: float = 0.0


def probe(
    function: Callable[..., object],
    calls: Sequence[tuple[Any, ...]],
    *,
    n_at_once: int = 1,
    packages: Sequence[str] = (),
) -> Probe:
    """Run a function on samples in new processes, and record what it takes.

    Parameters
    ----------
    function : callable
        ``function(*call)`` fits or builds.
    calls : sequence of tuple
        Arguments of each call, from the smallest sample to the largest.
    n_at_once : int, default=1
        Number of processes that do the same at the same time, as the workers of one machine will: they share its
        memory's bandwidth. The slowest of them counts.
    packages : sequence of str, default=()
        Packages that the processes load first, as workers do.

    Returns
    -------
    Probe
        What was recorded.

    Raises
    ------
    BaseException
        What the function raised; nothing is planned then.
    """
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="dspectral-plan-") as folder:
        asked = Path(folder, "asked")
        config = {"scheduler": "sync", **{key: dask.config.get(key) for key in _ours()}}
        calls = [cloudpickle.dumps(call) for call in calls]
        asked.write_bytes(cloudpickle.dumps((cloudpickle.dumps(function), calls, config, list(packages))))
        answers = [Path(folder, f"answer-{i}") for i in range(n_at_once)]
        command = [sys.executable, "-m", __name__, str(asked)]
        environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        processes = [subprocess.Popen([*command, str(answer)], env=environment) for answer in answers]
        try:
            codes = [process.wait(PROBE_SECONDS) for process in processes]
        finally:
            for process in processes:
                process.kill()
        found = [_answer(path, code) for path, code in zip(answers, codes, strict=True)]
    slowest = max(found, key=lambda one: one.runs[-1].seconds)
    slowest.seconds = time.perf_counter() - began
    return slowest


def _ours() -> list[str]:
    known = dask.config.get("dspectral", {})
    return [f"dspectral.{key}" for key in known]


def _answer(path: Path, code: int) -> Probe:
    if not path.exists():
        raise MemoryError(
            f"the probe of a few blocks ended with code {code}, most often for lack of memory on this machine: give "
            "smaller blocks, or plan where there is more memory"
        )
    found = pickle.loads(path.read_bytes())  # written by the process that was started above
    if isinstance(found, BaseException):
        raise found
    return found  # type: ignore[no-any-return]


def _serve(asked: Path, answer: Path) -> None:
    """Answer in the process that was started for it."""
    began = time.perf_counter()
    try:
        found: object = _run(asked, began)
    except Exception as error:  # it is raised where the probe was asked for
        found = error
    answer.with_suffix(".part").write_bytes(cloudpickle.dumps(found))
    answer.with_suffix(".part").rename(answer)


def _run(asked: Path, began: float) -> Probe:
    function, calls, config, packages = cloudpickle.loads(asked.read_bytes())
    for name in packages:  # what a worker has loaded beside ours
        with suppress(ImportError):
            import_module(name)
    runs: list[RunRecord] = []
    base, cold, loaded = 0, None, resident_bytes()
    # The smallest sample loads libraries and compiled loops. A sample may be too small for a method, and is left out.
    waiting = [*enumerate(calls), (len(calls) - 1, calls[-1]), (len(calls) - 1, calls[-1])]
    used: list[int] = []
    with dask.config.set(config):
        while waiting and len(runs) < N_RUNS:
            number, call = waiting.pop(0)
            try:
                run = _recorded_run(function, call)
            except ValueError:
                if number == len(calls) - 1:
                    raise
                continue
            if cold is not None:
                runs.append(run)
                used.append(number)
            if cold is None:
                cold, loaded = run, run.before
            base = max(base, run.before if runs else 0)
            if runs and time.perf_counter() - began > ENOUGH_SECONDS:
                break
    loading = time.perf_counter() - began - sum(run.seconds for run in (*runs, *filter(None, [cold])))
    late = max(0.0, loading) + _compiling(cold, runs[0])
    bare = _bare(packages, set().union(*(run.functions for run in runs))) if packages else 0
    for run in runs:
        run.functions = set()
    return Probe(runs, base, bare, max(0, base - loaded), late, used)


def _bare(packages: Sequence[str], functions: set[bytes]) -> int:
    """Return the bytes of a new process that has loaded what a worker loads."""
    loads = [f"import contextlib, importlib, pickle, {__name__.rpartition('.')[0]}.process_memory as memory"]
    loads += [
        f"with contextlib.suppress(ImportError): importlib.import_module({name!r})" for name in packages
    ]
    loads += [f"pickle.loads({function!r})" for function in sorted(functions)]
    loads += ["print(memory.resident_bytes())"]
    found = subprocess.run(
        [sys.executable, "-c", "\n".join(loads)], capture_output=True, text=True, check=True
    )
    return int(found.stdout.split()[-1])


def _recorded_run(function: bytes, call: bytes) -> RunRecord:
    """Record a call on fresh copies, of which nothing is left afterwards."""
    fit, arguments = pickle.loads(function), pickle.loads(call)  # written by the process that asks
    with recorded() as run:
        fit(*arguments)
    del fit, arguments
    gc.collect()
    return run


def _compiling(cold: RunRecord | None, warm: RunRecord) -> float:
    """Return the seconds by which the first tasks of a new process are slower than the same tasks later."""
    if cold is None:
        return 0.0
    late = 0.0
    for first, usual in zip(cold.passes, warm.passes, strict=False):
        for level in {task.level for task in first.tasks}:
            mine = [task.seconds for task in usual.tasks if task.level == level]
            one = next(task.seconds for task in first.tasks if task.level == level)
            late += max(0.0, one - sum(mine) / len(mine)) if mine else 0.0
    return late


if __name__ == "__main__":
    # Imported under its own name, so that what is pickled names a module and not this script.
    from dspectral.engine.planning import probing

    probing._serve(Path(sys.argv[1]), Path(sys.argv[2]))  # noqa: SLF001  the same module
