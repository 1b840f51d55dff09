"""A summary that sleeps: a real pass over a real cluster, whose tasks take as long as they are told."""

import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from dspectral.engine import Blocks, summarize


class Nap(NamedTuple):
    """What a block leaves: when the first one began, and bytes that a merge has to fetch.

    `began`: seconds since 1970; `payload`: as many as the summary is said to have; `merge_seconds`: of a
    merge of ``fan_in`` summaries; `fan_in`: number of summaries that a merge takes; `log`: file that gets a
    line when a task begins.
    """

    began: float
    payload: bytes
    merge_seconds: float
    fan_in: int
    log: str | None

    @classmethod
    def of(
        cls, seconds: float, *, n_bytes: int, merge_seconds: float, fan_in: int, log: str | None = None
    ) -> Self:
        """Sleep for a block."""
        began = time.time()
        _begin(log)
        time.sleep(seconds)
        return cls(began, os.urandom(n_bytes), merge_seconds, fan_in, log)

    def merge(self, *others: Self) -> Self:
        """Sleep for a merge."""
        _begin(self.log)
        time.sleep(self.merge_seconds * (1 + len(others)) / self.fan_in)
        return self._replace(began=min(self.began, *(other.began for other in others)))


def _begin(log: str | None) -> None:
    if log:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{time.time()}\n")


class Slept(NamedTuple):
    """How long a real pass took.

    `seconds`: from the begin of the first block until the last summary is here; `start_seconds`: from the
    call until the begin of the first block.
    """

    seconds: float
    start_seconds: float


def sleep_through(
    seconds: Sequence[float],
    *,
    merge_seconds: float,
    fan_in: int = 2,
    n_bytes: int = 0,
    log: str | None = None,
) -> Slept:
    """Run a pass whose blocks sleep, on the cluster that is in force.

    >>> 0.02 <= sleep_through([0.01, 0.01], merge_seconds=0.01).seconds < 60
    True
    """
    called = time.time()
    of = partial(Nap.of, n_bytes=n_bytes, merge_seconds=merge_seconds, fan_in=fan_in, log=log)
    result = summarize(Blocks(float, list(seconds)), of=of, fan_in=fan_in, name="nap")
    return Slept(time.time() - result.began, result.began - called)
