"""The process of a probe: it runs fits of a few blocks, one after the other, and writes what they took."""

import gc
import pickle
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import cloudpickle
import dask

from dspectral.engine.planning.fresh_process import fresh_bytes
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
    base, cold, bare, working, aside = 0, None, 0, 0, 0.0
    # The first run loads libraries and compiled loops, merges' too, which two blocks have. A sample may be too small
    # for a method, and is left out.
    first, last = min(1, len(calls) - 1), len(calls) - 1
    waiting = [first, *range(first, len(calls)), last, last]
    used: list[int] = []
    with dask.config.set(config):
        while waiting and len(runs) < N_RUNS:
            number = waiting.pop(0)
            try:
                run = _recorded_run(function, calls[number], keeps_graphs=cold is None and bool(packages))
            except ValueError:
                if number == last:
                    raise
                continue
            if cold is None:
                cold, aside = run, time.perf_counter()
                bare, working = fresh_bytes(packages, cold.graphs) if packages else (0, 0)
                cold.graphs.clear()  # they would count as memory of the runs that follow
                aside = time.perf_counter() - aside
                continue
            runs.append(run)
            used.append(number)
            base = max(base, run.before)
            if time.perf_counter() - began - aside > ENOUGH_SECONDS:
                break
    mine = time.perf_counter() - began - aside
    loading = mine - sum(run.seconds for run in (*runs, *filter(None, [cold])))
    late = max(0.0, loading) + _compiling(cold, runs[0])
    return Probe(runs, base, bare, working, late, used)


def _recorded_run(function: bytes, call: bytes, *, keeps_graphs: bool) -> RunRecord:
    """Record a call on fresh copies, of which nothing is left afterwards."""
    # Written by the process that asks.
    fit, arguments = pickle.loads(function), pickle.loads(call)  # noqa: S301
    with recorded(keeps_graphs=keeps_graphs) as run:
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
