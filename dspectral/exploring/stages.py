"""A list of stages says what was done, how often something was read for it, and how long it took."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple, TypeAlias

Announce: TypeAlias = Callable[[str], AbstractContextManager[object]]
"""Takes the name of a stage; its context is the stage."""


class Stage(NamedTuple):
    """One finished stage.

    `name`: name of the step; `reads`: kind of data that was read for it; `passes`: how often each block of
    that was read; `seconds`: wall-clock time.
    """

    name: str
    reads: str
    passes: int
    seconds: float


class Stages:
    """Record of the stages of one run.

    `finished`: stages in order.
    """

    def __init__(self, announce: Announce | None = None) -> None:
        self.finished: list[Stage] = []
        self._announce: Announce = announce or nullcontext

    @contextmanager
    def stage(self, name: str, reads: str, passes: int = 1) -> Iterator[None]:
        """Time the body of a ``with``; a stage that raises is not recorded."""
        start = time.perf_counter()
        with self._announce(name):
            yield
        # Behind the body and not in a finally: what was not finished has no time that could be compared.
        self.finished.append(Stage(name, reads, passes, time.perf_counter() - start))

    def correct(self, passes: int) -> None:
        """Replace the passes of the last stage."""
        self.finished[-1] = self.finished[-1]._replace(passes=passes)


def peak_memory_bytes() -> int:
    """Return the largest resident memory of this process so far."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    # The system's high-water mark, in kibibytes: no thread has to look at the memory again and again.
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
