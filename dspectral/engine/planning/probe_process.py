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

from dspectral.engine.planning.fresh_process import NewWorker, new_worker
from dspectral.engine.planning.recording import Probe, RunRecord, recorded
from dspectral.engine.planning.sending import byte_seconds
from dspectral.engine.whole_data import seeing

N_RUNS = 2
"""Runs on samples of different sizes, after one that loads what is needed; more where they are quick."""
QUICK_SECONDS = 12.0
"""Most seconds that these may take together: what is quick differs little from one sample to the next."""
LONG_SECONDS = 20.0
"""A first run that takes longer is no longer a matter of what it loads, and counts as one of the others."""
ENOUGH_SECONDS = 60.0
"""After which no larger sample is begun."""


def serve(asked: Path, answer: Path) -> None:
    """Run what is asked for, and write the answer: what it took, or the error that it ended in."""
    began = time.perf_counter()
    try:
        found: object = _run(asked, began)
    except Exception as error:  # noqa: BLE001  it is raised where the probe was asked for
        found = error
    answer.with_suffix(".part").write_bytes(cloudpickle.dumps(found))
    answer.with_suffix(".part").rename(answer)


def _run(asked: Path, began: float) -> Probe:
    function, calls, shares, config, packages = cloudpickle.loads(asked.read_bytes())
    for name in packages:  # what a worker has loaded beside ours
        with suppress(ImportError):
            import_module(name)
    runs: list[RunRecord] = []
    base, cold, fresh, aside = 0, None, NewWorker(0, 0, 0.0), 0.0
    # The first run loads libraries and compiled loops, merges' too, which two blocks have. A sample may be too small
    # for a method, and is left out.
    first, last = min(1, len(calls) - 1), len(calls) - 1
    waiting = [first, *range(first, len(calls)), *[last] * N_RUNS]
    used: list[int] = []
    with dask.config.set(config):
        while waiting and (len(runs) < N_RUNS or _is_quick(runs, used, shares, waiting[0])):
            number = waiting.pop(0)
            try:
                with seeing(shares[number]):
                    run = _recorded_run(function, calls[number], keeps_graphs=cold is None and bool(packages))
            except ValueError:
                if number == last:
                    raise
                continue
            if cold is None:
                cold, aside = run, time.perf_counter()
                fresh = new_worker(packages, cold.graphs) if packages else fresh
                cold.graphs.clear()  # they would count as memory of the runs that follow
                aside = time.perf_counter() - aside
                if run.seconds <= LONG_SECONDS:
                    continue
                waiting.pop(0)
            runs.append(run)
            used.append(number)
            base = max(base, run.before)
            if time.perf_counter() - began - aside > ENOUGH_SECONDS:
                break
    late = _between(cold, runs[0]) + (fresh.late if packages else _around(cold, runs[0]))
    sending = byte_seconds() if packages else 0.0
    return Probe(runs, base, fresh.bare, fresh.working, late, used, sending)


def _is_quick(runs: list[RunRecord], used: list[int], shares: list[float], number: int) -> bool:
    """Whether a larger sample than those that were used takes little time, as the last two of them say."""
    if number == used[-1]:
        return False
    slope = (runs[-1].seconds - runs[-2].seconds) / (shares[used[-1]] - shares[used[-2]])
    longer = runs[-1].seconds + max(0.0, slope) * (shares[number] - shares[used[-1]])
    return sum(run.seconds for run in runs[N_RUNS:]) + longer <= QUICK_SECONDS


def _recorded_run(function: bytes, call: bytes, *, keeps_graphs: bool) -> RunRecord:
    """Record a call on fresh copies, of which nothing is left afterwards."""
    began = time.perf_counter()
    # Written by the process that asks.
    fit, arguments = pickle.loads(function), pickle.loads(call)  # noqa: S301
    with recorded(keeps_graphs=keeps_graphs) as run:
        fit(*arguments)
    del fit, arguments
    gc.collect()
    run.around = time.perf_counter() - began - run.seconds
    return run


def _between(cold: RunRecord | None, warm: RunRecord) -> float:
    """Return the seconds by which a new process is slower between the passes."""
    return max(0.0, cold.serial - warm.serial) if cold else 0.0


def _around(cold: RunRecord | None, warm: RunRecord) -> float:
    """Return the seconds by which a new process loads slower, and its first tasks are slower than the same later."""
    if cold is None:
        return 0.0
    late = max(0.0, cold.around - warm.around)
    for first, usual in zip(cold.passes, warm.passes, strict=False):
        for level in {task.level for task in first.tasks}:
            mine = [task.seconds for task in usual.tasks if task.level == level]
            one = next(task.seconds for task in first.tasks if task.level == level)
            late += max(0.0, one - sum(mine) / len(mine)) if mine else 0.0
    return late


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]))
