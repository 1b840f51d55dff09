"""Rates of loops and of their limits, in turn, on one thread or on several at once."""

import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from .loops import Run

REPEATS = 7
"""Timings of each run: an odd number, so that the median is one of them."""


class Rate(NamedTuple):
    """Bytes or operations a second over all threads.

    `median, low, high`: over the repetitions.
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Rate":
        """Return the median and the spread of some values."""
        return cls(statistics.median(values), min(values), max(values))


def measure(kinds: Sequence[Sequence[Run]], seconds: float) -> list[list[float]]:
    """Return the rates of several kinds of runs, one for each repetition."""
    rates: list[list[float]] = [[] for _ in kinds]
    with ThreadPoolExecutor(max(map(len, kinds))) as pool:
        # The first round compiles loops and maps pages; the second says how often a run fits into the time.
        for _ in range(2):
            once = [_timed(pool, runs, 1) for runs in kinds]
        loops = [max(1, round(seconds / REPEATS / max(one, 1e-9))) for one in once]
        for _ in range(REPEATS):
            for found, runs, n in zip(rates, kinds, loops, strict=True):
                found.append(n * sum(run.amount for run in runs) / _timed(pool, runs, n))
    return rates


def _timed(pool: ThreadPoolExecutor, runs: Sequence[Run], n: int) -> float:
    """Return the wall time until all threads have run n times."""
    start = time.perf_counter()
    for done in [pool.submit(_repeated, run, n) for run in runs]:
        done.result()
    return time.perf_counter() - start


def _repeated(run: Run, n: int) -> None:
    for _ in range(n):
        run.call()
