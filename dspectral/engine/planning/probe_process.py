"""The process of a probe: it runs fits of a few blocks, one after the other, and writes what they took."""

import gc
import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import cloudpickle
import dask

from dspectral.engine.planning.process_memory import resident_bytes
from dspectral.engine.planning.recording import Probe, RunRecord, recorded

N_RUNS = 2
"""Runs on samples of different sizes, after one that loads what is needed."""
ENOUGH_SECONDS = 60.0
"""After which no larger sample is begun."""


def serve(asked: Path, answer: Path) -> None:
    """Run what is asked for, and write the answer: what it took, or the error that it ended in.

    Parameters
    ----------
    asked : Path
        File that :func:`dspectral.engine.planning.probing.probe` wrote.
    answer : Path
        File to write.
    """
    began = time.perf_counter()
    try:
        found: object = _run(asked, began)
    except Exception as error:  # noqa: BLE001  it is raised where the probe was asked for
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
    loads = [f"import contextlib, importlib, pickle, {__package__}.process_memory as memory"]
    loads += [
        f"with contextlib.suppress(ImportError): importlib.import_module({name!r})" for name in packages
    ]
    loads += [f"pickle.loads({function!r})" for function in sorted(functions)]
    loads += ["print(memory.resident_bytes())"]
    found = subprocess.run(  # noqa: S603  this interpreter
        [sys.executable, "-c", "\n".join(loads)], capture_output=True, text=True, check=True
    )
    return int(found.stdout.split()[-1])


def _recorded_run(function: bytes, call: bytes) -> RunRecord:
    """Record a call on fresh copies, of which nothing is left afterwards."""
    # Written by the process that asks.
    fit, arguments = pickle.loads(function), pickle.loads(call)  # noqa: S301
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
    serve(Path(sys.argv[1]), Path(sys.argv[2]))
