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

    Attributes
    ----------
    name : str
        Name of the step.
    reads : str
        Kind of data that was read for it.
    passes : int
        How often each block of that was read.
    seconds : float
        Wall-clock time.
    """

    name: str
    reads: str
    passes: int
    seconds: float


class Stages:
    """Record of the stages of one run.

    Parameters
    ----------
    announce : callable, optional
        Context manager that is entered with the name of each stage, to show progress for instance.

    Attributes
    ----------
    finished : list of Stage
        Stages in order.
    """

    def __init__(self, announce: Announce | None = None) -> None:
        self.finished: list[Stage] = []
        self._announce: Announce = announce or nullcontext

    @contextmanager
    def stage(self, name: str, reads: str, passes: int = 1) -> Iterator[None]:
        """Time the body of a ``with``; a stage that raises is not recorded.

        Parameters
        ----------
        name, reads : str
            As in :class:`Stage`.
        passes : int, default=1
            As in :class:`Stage`; :meth:`correct` replaces it by what a fit says.

        Yields
        ------
        None
            Nothing.
        """
        start = time.perf_counter()
        with self._announce(name):
            yield
        # Behind the body and not in a finally: what was not finished has no time that could be compared.
        self.finished.append(Stage(name, reads, passes, time.perf_counter() - start))

    def correct(self, passes: int) -> None:
        """Replace the passes of the last stage.

        Parameters
        ----------
        passes : int
            As the fitted model says.
        """
        self.finished[-1] = self.finished[-1]._replace(passes=passes)


def peak_memory_bytes() -> int:
    """Return the largest resident memory of this process so far.

    Returns
    -------
    int
        Bytes; 0 where the system keeps no record in /proc.
    """
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    # The system's high-water mark, in kibibytes: no thread has to look at the memory again and again.
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
