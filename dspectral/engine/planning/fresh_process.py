"""The process of a new worker: it loads what a worker loads, runs the first tasks, and says how large it became."""

import gc
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import cloudpickle
from dask.local import get_sync

from dspectral.engine.planning.process_memory import resident_bytes


def fresh_bytes(packages: Sequence[str], graphs: Mapping[str, bytes]) -> tuple[int, int]:
    """Measure what a new worker has in memory before its first task, and how much the first tasks leave behind.

    Parameters
    ----------
    packages : sequence of str
        Packages that a worker has loaded beside ours.
    graphs : mapping of str to bytes
        Tasks of a small sample, and the keys of their results, pickled, by the name of the pass.

    Returns
    -------
    bare : int
        Bytes before the first task.
    working : int
        Bytes by which libraries, compiled loops and buffers of tasks make the process larger for good.

    Raises
    ------
    RuntimeError
        If the process ends without an answer.
    """
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
    answer = done.stdout.split()[-2:]
    if done.returncode or len(answer) != 2:
        raise RuntimeError(
            f"a process like a new worker ended with code {done.returncode}: {done.stderr[-300:]}"
        )
    bare, worked = map(int, answer)
    return bare, max(0, worked - bare)


def serve(asked: Path) -> None:
    """Load and run what is asked for, and write the bytes before the first task and after the last one.

    Parameters
    ----------
    asked : Path
        File that :func:`fresh_bytes` wrote.
    """
    packages, graphs = pickle.loads(asked.read_bytes())  # noqa: S301  written by the process that asks
    for name in packages:
        with suppress(ImportError):
            import_module(name)
    bare = resident_bytes()
    for graph in graphs:
        _run(graph)
    gc.collect()
    sys.stdout.write(f"{bare} {resident_bytes()}\n")


def _run(graph: bytes) -> None:
    """Run the tasks of a pass, of which nothing is kept."""
    tasks, keys = pickle.loads(graph)  # noqa: S301  written by the process that asks
    # The store that a sample was written to is gone by now. Tasks that miss it have loaded what they need.
    with suppress(OSError):
        get_sync(tasks, keys)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
