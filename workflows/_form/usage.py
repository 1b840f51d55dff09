"""Measurement of wall-clock time, CPU time and peak memory of this process and all workers."""

import os
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psutil
from distributed import Client

from dspectral.engine import try_query

from .resident import peak_bytes, reset_peak

HERE = "this process"


@dataclass
class Used:
    """Resources used by a step, set when it ends; `peaks` are bytes by worker address."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peaks: dict[str, int] = field(default_factory=dict)
    workers_lost: int = 0

    @property
    def peak_memory_bytes(self) -> int:
        """Peak memory of the largest process in bytes."""
        return max(self.peaks.values(), default=0)

    @property
    def peak_memory_bytes_here(self) -> int:
        """Peak memory of this process in bytes."""
        return self.peaks.get(HERE, 0)

    @property
    def peaks_of_workers(self) -> list[int]:
        """Peak memory of each worker in bytes."""
        return [peak for name, peak in self.peaks.items() if name != HERE]


class Meter:
    """Measures this process and the workers of a client during steps, which may be nested.

    On Linux the peak is that of the step; elsewhere it is that of the process since its start, and ``resets`` is False.
    """

    def __init__(self, client: Client | None = None) -> None:
        self._client = client
        self._open: list[Used] = []
        self.resets = reset_peak()

    @contextmanager
    def measure(self) -> Iterator[Used]:
        """Measure the body of a ``with`` statement."""
        before = self._read()
        used = Used()
        self._open.append(used)
        start = time.perf_counter()
        try:
            yield used
            used.seconds = time.perf_counter() - start
            cpu_seconds, used.workers_lost = _difference(before, self._read())
            used.cpu_seconds = max(0.0, cpu_seconds)  # may be negative by rounding
        finally:
            self._open.remove(used)

    def _read(self) -> "dict[str, dict[str, Any]]":
        readings = {HERE: read_usage()}
        local = _descendants()
        readings[HERE]["cpu_seconds"] += sum(local.values())
        if self._client is not None:
            readings |= _of_workers(self._client)
        for used in self._open:
            for name, reading in readings.items():
                used.peaks[name] = max(used.peaks.get(name, 0), reading["peak_bytes"])
        for reading in readings.values():
            # Already counted with this process.
            below = reading["pid"] in local or reading["pid"] == os.getpid()
            reading["counted"] = below and reading["host"] == socket.gethostname()
        return readings


def read_usage() -> dict[str, Any]:
    """Return the usage of the current process, and reset its peak."""
    peak = peak_bytes()
    reset_peak()
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "cpu_seconds": sum(os.times()[:4]),
        "peak_bytes": peak,
    }


def _of_workers(client: Client) -> dict[str, dict[str, Any]]:
    readings = {}
    answers = try_query(client, client.run, read_usage, on_error="return")
    if answers is None:  # one stopped worker blocks the answers of all
        warnings.warn(
            "the workers did not report their usage: the report has time and memory of this process only",
            stacklevel=2,
        )
    for address, reading in (answers or {}).items():
        if isinstance(reading, OSError):
            continue  # the worker is shutting down
        if isinstance(reading, Exception):
            raise reading
        readings[address] = reading
    return readings


def _descendants() -> dict[int, float]:
    """Return the CPU seconds of each descendant process by its id."""
    seconds = {}
    for child in psutil.Process().children(recursive=True):
        # A process that ended is counted with its parent.
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            seconds[child.pid] = sum(child.cpu_times()[:4])
    return seconds


def _difference(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> tuple[float, int]:
    """Return CPU seconds between two readings, and the number of lost processes."""
    total = after[HERE]["cpu_seconds"] - before[HERE]["cpu_seconds"]
    for name, reading in after.items():
        if name != HERE and not reading["counted"]:
            total += reading["cpu_seconds"] - before.get(name, {"cpu_seconds": 0.0})["cpu_seconds"]
    lost = {(r["host"], r["pid"]) for r in before.values()} - {(r["host"], r["pid"]) for r in after.values()}
    return total, len(lost)
