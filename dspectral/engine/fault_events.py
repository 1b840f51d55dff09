"""Events of what is tried again, or waited for; :mod:`dspectral.engine.events` has them with all others."""

from typing import NamedTuple


class Retried(NamedTuple):
    """A read, a write or a task failed in a way that may pass, and is tried again.

    Attributes
    ----------
    what : str
        Name of the work that was tried, such as ``"block 3 of sketch"``.
    attempt : int
        Number of the attempt that failed, from 1.
    pause : float
        Seconds until the next one.
    error : str
        The error in one line.
    """

    what: str
    attempt: int
    pause: float
    error: str


class Waiting(NamedTuple):
    """Nothing was done for a while: what a pass on a cluster waits for, and what would help.

    Attributes
    ----------
    fit, run : str
        Tokens of fit and pass.
    why : str
        One of ``"no workers"``, ``"paused"``, ``"silent"``, ``"scheduler"``, ``"task"`` and ``"unknown"``. A ``"task"``
        runs long: that is no fault, and ends no fit.
    seconds : float
        Wall time since the last task was done.
    sentence : str
        A sentence that says what is waited for, and what would help.
    """

    fit: str
    run: str
    why: str
    seconds: float
    sentence: str
