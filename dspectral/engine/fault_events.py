"""Events of what is tried again, or waited for; :mod:`dspectral.engine.events` has them with all others."""

from typing import NamedTuple


class Retried(NamedTuple):
    """A read, a write or a task failed in a way that may pass, and is tried again.

    `what`: name of the work that was tried, such as ``"block 3 of sketch"``; `attempt`: number of the attempt
    that failed, from 1; `pause`: seconds until the next one; `error`: the error in one line.
    """

    what: str
    attempt: int
    pause: float
    error: str


class Waiting(NamedTuple):
    """Nothing was done for a while: what a pass on a cluster waits for, and what would help.

    `fit, run`: tokens of fit and pass; `why`: one of ``"no workers"``, ``"paused"``, ``"silent"``,
    ``"scheduler"``, ``"task"`` and ``"unknown"``; `seconds`: wall time since the last task was done;
    `sentence`: A sentence that says what is waited for, and what would help.
    """

    fit: str
    run: str
    why: str
    seconds: float
    sentence: str
