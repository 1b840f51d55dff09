"""The process of a new worker: it runs the first tasks, and says how large it became and how late they were."""

import gc
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import cloudpickle
from dask.local import get_sync

from dspectral.engine.cluster.machines import facts
from dspectral.engine.planning.process_memory import give_back, resident_bytes


class NewWorker(NamedTuple):
    """The costs of the first tasks of a new worker, beyond those of later ones.

    `bare`: bytes before the first task; `working`: bytes by which libraries, compiled loops and buffers of
    tasks make the process larger for good; `late`: seconds by which the first tasks are slower than the same
    tasks later, with the comparison of machines.
    """

    bare: int
    working: int
    late: float


def new_worker(packages: Sequence[str], graphs: Mapping[str, bytes]) -> NewWorker:
    """Measure a process like that of a new worker."""
    with tempfile.TemporaryDirectory(prefix="dspectral-fresh-") as folder:
        asked = Path(folder, "asked")
        # In a file: a command line takes 128 KB, and what is bound to a task may be large.
        asked.write_bytes(cloudpickle.dumps((list(packages), list(graphs.values()))))
        done = subprocess.run(  # noqa: S603  this interpreter
            [sys.executable, "-m", __name__, str(asked)],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
        )
    answer = done.stdout.split()[-3:]
    if done.returncode or len(answer) != 3:
        raise RuntimeError(
            f"a process like a new worker ended with code {done.returncode}: {done.stderr[-300:]}"
        )
    bare, worked, late = int(answer[0]), int(answer[1]), float(answer[2])
    return NewWorker(bare, max(0, worked - bare), max(0.0, late))


def serve(asked: Path) -> None:
    """Load and run what is asked for; write the bytes before the first task and after the last one, and the delay."""
    packages, graphs = pickle.loads(asked.read_bytes())  # noqa: S301  written by the process that asks
    for name in packages:
        with suppress(ImportError):
            import_module(name)
    bare = resident_bytes()
    # Before the first pass client and workers are compared, one after the other.
    began = time.perf_counter()
    facts()
    first = 2 * (time.perf_counter() - began) + sum(map(_run, graphs))
    gc.collect()
    give_back()  # what the heap keeps serves the next tasks, whose own needs are counted
    worked = resident_bytes()
    sys.stdout.write(f"{bare} {worked} {first - sum(map(_run, graphs))}\n")


def _run(graph: bytes) -> float:
    """Run the tasks of a pass, of which nothing is kept; return the seconds."""
    began = time.perf_counter()
    tasks, keys = pickle.loads(graph)  # noqa: S301  written by the process that asks
    # The store that a sample was written to is gone by now. Tasks that miss it have loaded what they need.
    with suppress(OSError, ValueError):
        get_sync(tasks, keys)
    return time.perf_counter() - began


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
