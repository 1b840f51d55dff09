"""One process tries inputs in turn; another one watches over its deadline and goes on behind what ended it."""

import json
import os
import queue
import resource
import subprocess
import sys
import threading
from importlib import import_module
from typing import NamedTuple

SECONDS = 60
"""Longest that one input may take; loops that are compiled first take a good part of it."""
MOST_BYTES = 12 << 30
"""Address space of a process that tries inputs."""


class Failure(NamedTuple):
    """An input that ended in neither a right result nor a sentence.

    Attributes
    ----------
    number : int
        Number of the input: with the seed it makes the input again.
    input : str
        What it is.
    fault : str
        What is wrong.
    """

    number: int
    input: str
    fault: str


def families(only=None):
    """Return the generators of inputs, in a fixed order."""
    names = ("rows", "texts", "functions", "readers") if only is None else (only,)
    modules = [import_module(f"tests.bad_inputs.{name}") for name in names]  # each imports much
    return [family for module in modules for family in module.FAMILIES]


def work(seed, first, stop, only):
    """Try inputs and write a line before and after each."""
    import dask  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415

    dask.config.set(scheduler="sync")
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    every = families(only)
    for number in range(first, stop):
        rng = np.random.default_rng([seed, number])
        described, run = every[number % len(every)](rng)
        tell(number, described, None)
        fault = run()
        tell(number, described, fault or "")


def tell(number, described, fault):
    print(json.dumps([number, described, fault]), flush=True)  # noqa: T201  the other process reads it


def failures(n, seed, only=None, first=0):
    """Try inputs ``first`` to ``n - 1``; yield each that failed."""
    at = first
    while at < n:
        code = f"from tests.bad_inputs.trying import work; work({seed}, {at}, {n}, {only!r})"
        command = [sys.executable, "-W", "ignore", "-c", code]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        told: queue.Queue = queue.Queue()
        listener = threading.Thread(target=_listen, args=(process, told), daemon=True)
        listener.start()
        open_one = (at, "the start")
        try:
            while True:
                line = told.get(timeout=SECONDS)
                if line is None:
                    break
                number, described, fault = json.loads(line)
                open_one = (number, described) if fault is None else None
                at = number + 1
                if fault:
                    yield Failure(number, described, fault)
            if process.wait() and open_one:
                yield Failure(*open_one, f"the process ended with {process.returncode}")
        except queue.Empty:
            process.kill()
            yield Failure(*(open_one or (at, "between two inputs")), f"no end within {SECONDS} s")
        finally:
            process.kill()
            process.wait()
            listener.join()
            process.stdout.close()
        at = max(at, open_one[0] + 1) if open_one else at


def _listen(process, told):
    for line in process.stdout:
        if line.startswith("["):
            told.put(line)
    told.put(None)
