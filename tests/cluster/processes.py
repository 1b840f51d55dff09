"""Schedulers, workers and clients as processes of their own, none of which outlives the test that started it."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import dask
from distributed.cli import dask_worker

from tests.schedulers import forks

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 300.0
"""Seconds after which a process that says nothing is taken for hung."""
PR_SET_PDEATHSIG, CLONE_NEWNET = 1, 0x40000000
ALWAYS = {
    "PYTHONPATH": str(ROOT),
    "OMP_NUM_THREADS": "1",
    "DASK_DSPECTRAL__WAIT_WARNING": "3s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s",
    "DASK_DISTRIBUTED__WORKER__MEMORY__MONITOR_INTERVAL": "50ms",
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_SATURATION": "1.0",
}


class HungError(AssertionError):
    """A process said nothing of what was awaited."""


def _end_with_parent():
    # A test run that is killed cannot clean up: the kernel ends its children.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Spoken:
    """Lines that a process prints, as they come."""

    def __init__(self, pid, output):
        self.pid = pid
        self.lines = []
        self._output = output
        self._said = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._output:
            with self._said:
                self.lines.append(line.rstrip("\n"))
                self._said.notify_all()
        with self._said:
            self._said.notify_all()

    def wait_for(self, wanted, *, since=0, timeout=PATIENCE):
        """Return what ``wanted`` returns of the first line from number ``since`` of which that is something."""
        end = time.monotonic() + timeout
        with self._said:
            while True:
                for line in self.lines[since:]:
                    if found := wanted(line):
                        return found
                since = len(self.lines)
                left = end - time.monotonic()
                over = not self._reader.is_alive()
                if over or left <= 0:
                    tail = "\n".join(line[:200] for line in self.lines[-10:])
                    raise HungError(f"{'ended' if over else 'silent'} before what was awaited:\n{tail}")
                self._said.wait(min(left, 0.5))

    def says(self, words):
        """Wait for a line with these words."""
        return self.wait_for(lambda line: words in line)

    def signal(self, number):
        """Send a signal to all processes of its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def kill(self):
        """End it at once."""
        self.signal(signal.SIGKILL)
        self.wait()
        self._reader.join(PATIENCE)
        self._output.close()


class Started(Spoken):
    """A program in a group of its own."""

    def __init__(self, command, *, inside=(), environment=None):
        self._process = subprocess.Popen(
            [*inside, *command],
            cwd=ROOT,
            env={**os.environ, **ALWAYS, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=_end_with_parent,  # noqa: PLW1509  prctl alone, and no thread here holds a lock that it needs
        )
        super().__init__(self._process.pid, self._process.stdout)

    @property
    def is_running(self):
        return self._process.poll() is None

    def tell(self, line):
        """Write a line to its input."""
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def wait(self, timeout=PATIENCE):
        return self._process.wait(timeout)

    def kill(self):
        super().kill()
        with contextlib.suppress(BrokenPipeError):  # an order that nobody read
            self._process.stdin.close()


class Forked(Spoken):
    """A worker, forked from an interpreter that has imported what workers need; perhaps in another's network."""

    def __init__(self, arguments, environment, network=None):
        context = forks("tests.cluster.fits", "distributed.cli.dask_worker")
        output, printed = context.Pipe(duplex=False)
        words = [*map(str, arguments)]
        self._process = context.Process(
            target=_become_worker, args=(words, {**ALWAYS, **environment}, printed, network), daemon=True
        )
        self._process.start()
        printed.close()
        super().__init__(self._process.pid, os.fdopen(os.dup(output.fileno()), encoding="utf-8"))
        output.close()

    @property
    def is_running(self):
        return self._process.is_alive()

    def wait(self, timeout=PATIENCE):
        self._process.join(timeout)


def _become_worker(arguments, environment, printed, network):
    os.setsid()
    _end_with_parent()
    for number in (1, 2):
        os.dup2(printed.fileno(), number)
    if network:
        with Path(f"/proc/{network}/ns/net").open() as file:
            assert ctypes.CDLL(None).setns(file.fileno(), CLONE_NEWNET) == 0
    os.environ.update(environment)
    dask.config.refresh()
    sys.argv = ["dask-worker", *arguments]
    dask_worker.main(arguments)


def python(*arguments):
    """Return the command that runs this interpreter."""
    return [sys.executable, *map(str, arguments)]


def free_port():
    """Return a port that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
