"""Schedulers, workers and clients as processes of their own, none of which outlives the test that started it."""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 60.0
"""Seconds after which a process that says nothing is taken for hung."""
PR_SET_PDEATHSIG = 1
QUICK = {
    "DASK_DSPECTRAL__WAIT_WARNING": "3s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s",
    "DASK_DISTRIBUTED__WORKER__MEMORY__MONITOR_INTERVAL": "50ms",
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_SATURATION": "1.0",
}
ALWAYS = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **QUICK}


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
        """Return what ``wanted`` returns of the first line from number ``since`` of which that is not None."""
        end = time.monotonic() + timeout
        with self._said:
            while True:
                for line in self.lines[since:]:
                    if (found := wanted(line)) is not None:
                        return found
                since = len(self.lines)
                left = end - time.monotonic()
                over = not self._reader.is_alive()
                if over or left <= 0:
                    tail = "\n".join(line[:200] for line in self.lines[-10:])
                    how = "ended" if over else "silent"
                    raise HungError(f"{how} before what was awaited:\n{tail}")
                self._said.wait(min(left, 0.5))

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
    """A process in a group of its own."""

    def __init__(self, command, *, inside=(), environment=None, stdin=None):
        self._process = subprocess.Popen(
            [*inside, *command],
            cwd=ROOT,
            env={**os.environ, **ALWAYS, **(environment or {})},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=_end_with_parent,  # noqa: PLW1509  prctl alone, and no thread here holds a lock that it needs
        )
        super().__init__(self._process.pid, self._process.stdout)

    @property
    def is_running(self):
        """Whether it has not ended."""
        return self._process.poll() is None

    def tell(self, line):
        """Write a line to its input."""
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def wait(self, timeout=PATIENCE):
        """Wait until it has ended."""
        return self._process.wait(timeout)

    def kill(self):
        """End it at once."""
        super().kill()
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # an order that nobody read
                self._process.stdin.close()


class Forked(Spoken):
    """A worker that the nursery forked; it is no child of this process."""

    @property
    def is_running(self):
        """Whether it has not ended."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def wait(self, timeout=PATIENCE):
        """Wait until it has ended."""
        end = time.monotonic() + timeout
        while self.is_running and time.monotonic() < end:
            time.sleep(0.02)


class Nursery:
    """Makes workers, by forks of an interpreter that has imported what they need."""

    def __init__(self):
        self._made = None
        self._folder = None
        self._n_made = 0

    def worker(self, arguments, environment, network):
        """Start a worker, in the network of another process if one is given."""
        if self._made is None:
            self._folder = tempfile.mkdtemp()
            self._made = Started(python("-m", "tests.cluster.nursery"), stdin=subprocess.PIPE)
            self._made.wait_for(lambda line: line == "ready" or None)
        self._n_made += 1
        fifo = str(Path(self._folder, str(self._n_made)))
        os.mkfifo(fifo)
        since = len(self._made.lines)
        order = {"arguments": [*map(str, arguments)], "environment": {**ALWAYS, **environment}}
        self._made.tell(json.dumps({**order, "output": fifo, "network": network}))
        pid = self._made.wait_for(
            lambda line: int(line[6:]) if line.startswith("child ") else None, since=since
        )
        return Forked(pid, Path(fifo).open(encoding="utf-8"))

    def close(self):
        """End the interpreter, and with it what it forked."""
        if self._made is not None:
            self._made.kill()
            shutil.rmtree(self._folder)
            self._made = None


NURSERY = Nursery()


def python(*arguments):
    """Return the command that runs this interpreter."""
    return [sys.executable, *map(str, arguments)]


def free_port():
    """Return a port that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
