"""A short probe: a fit of a few blocks in a process of its own, where nothing else is in memory."""

import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import cloudpickle
import dask

from dspectral.engine.planning.recording import Probe

PROBE_SECONDS = 600.0
"""After which a probe is given up."""


def probe(
    function: Callable[..., object],
    calls: Sequence[tuple[Any, ...]],
    shares: Sequence[float],
    *,
    n_at_once: int = 1,
    packages: Sequence[str] = (),
) -> Probe:
    """Run a function on samples in new processes, and record what it takes."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="dspectral-plan-") as folder:
        asked = Path(folder, "asked")
        config = {"scheduler": "sync", **{key: dask.config.get(key) for key in _ours()}}
        calls = [cloudpickle.dumps(call) for call in calls]
        asked.write_bytes(
            cloudpickle.dumps((cloudpickle.dumps(function), calls, list(shares), config, list(packages)))
        )
        answers = [Path(folder, f"answer-{i}") for i in range(n_at_once)]
        command = [sys.executable, "-m", f"{__package__}.probe_process", str(asked)]
        environment = {**worker_environment(), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        # What samples write is removed with the folder, whichever process writes it, and however that one ends.
        environment["TMPDIR"] = folder
        processes = [
            subprocess.Popen([*command, str(answer)], env=environment)  # noqa: S603  this interpreter
            for answer in answers
        ]
        try:
            codes = [process.wait(PROBE_SECONDS) for process in processes]
        finally:
            for process in processes:
                process.kill()
        found = [_answer(path, code) for path, code in zip(answers, codes, strict=True)]
    slowest = max(found, key=lambda one: one.runs[0].seconds)
    slowest.seconds = time.perf_counter() - began
    return slowest


def worker_environment() -> dict[str, str]:
    """Return the variables of the environment that workers started from this process would have."""
    import_module("distributed.config")  # for Dask's own values
    given = dask.config.get("distributed.nanny.pre-spawn-environ")
    return {name: str(value) for name, value in given.items() if value is not None} | dict(os.environ)


def heap_bytes() -> int:
    """Return the most free bytes that the heap of such a worker keeps for the next task."""
    return int(worker_environment().get("MALLOC_TRIM_THRESHOLD_", 0))


def _ours() -> list[str]:
    known = dask.config.get("dspectral", {})
    return [f"dspectral.{key}" for key in known]


def _answer(path: Path, code: int) -> Probe:
    if not path.exists():
        raise MemoryError(
            f"the probe of a few blocks ended with code {code}, most often for lack of memory on this machine: give "
            "smaller blocks, or plan where there is more memory"
        )
    found = pickle.loads(path.read_bytes())  # noqa: S301  written by the process that was started above
    if isinstance(found, BaseException):
        raise found
    return found  # type: ignore[no-any-return]
