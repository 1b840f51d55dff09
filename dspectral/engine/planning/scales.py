"""How much larger the whole is than the samples, what does the work, and values that are extended to the whole."""

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from dspectral.engine.planning.recording import PassRecord, Took

POWERS = (0.5, 0.75, 1.0)
"""Powers of the data along which times and sizes may grow."""

OF_DISTINCT = 0.75
"""The one for tasks whose number does not grow: they put together what is distinct, such as counts of pairs."""


NOISE_OF_TIME = 0.1
"""By how much of the largest sample a time may be off by chance; bytes are the same each time."""


class Scale(NamedTuple):
    """How much larger the whole is than the samples.

    `n_blocks`: blocks of the whole; `samples`: blocks of each sample; `weights`: work of each sample, in
    units in which the whole is 1.
    """

    n_blocks: int
    samples: tuple[int, ...]
    weights: tuple[float, ...]


class Machines(NamedTuple):
    """The processes and threads that do the work.

    `n_workers`: worker processes; `n_threads`: tasks that run at once in one process; `fan_in`: number of
    summaries that a merge takes; `are_near`: whether the client gets results from the workers without a
    detour by the scheduler; `byte_seconds`: seconds of a processor for a byte that is sent from one process
    to another, those of both ends.
    """

    n_workers: int
    n_threads: int
    fan_in: int
    are_near: bool = True
    byte_seconds: float = 2e-9

    @property
    def n_at_once(self) -> int:
        """Number of tasks that run at once."""
        return max(1, self.n_workers) * self.n_threads


def along(scale: Scale, values: Sequence[float]) -> float:
    """Extend values of two samples to the whole along a straight line.

    >>> along(Scale(8, (2, 4), (0.25, 0.5)), (3.0, 5.0))
    9.0
    """
    last = float(values[-1])
    if len(values) < 2 or scale.weights[-1] <= scale.weights[0]:
        return last
    slope = (last - values[0]) / (scale.weights[-1] - scale.weights[0])
    return last + max(0.0, slope) * (1.0 - scale.weights[-1])


def expected(
    scale: Scale, values: Sequence[float], *, usual_power: float = 1.0, noise: float = 0.002
) -> float:
    """Extend values of samples to the whole along the powers of the data that fit them.

    Summaries of counts grow with the number of distinct things, as a root of the data (Heaps' law); those of rows
    grow with the data itself. Three samples tell these apart as far as noise does not hide it: each power counts by the
    likelihood of the samples under it.

    >>> round(expected(Scale(16, (1, 4, 16), (1 / 16, 1 / 4, 1)), (1.0, 2.0, 4.0)), 6)
    4.0
    >>> round(expected(Scale(16, (1, 2, 4), (1 / 16, 1 / 8, 1 / 4)), (1.0, 2.0, 4.0)), 6)
    16.0
    """
    if len(values) < 2 or scale.weights[-1] <= scale.weights[0]:
        return along(scale, values)
    errors, ends = [], []
    for power in POWERS if len(values) > 2 else (usual_power,):
        grown = np.power(scale.weights, power)
        slope, level = np.polyfit(grown, values, 1)
        errors.append(float(np.sum((level + slope * grown - values) ** 2)))
        ends.append(float(level + slope))
    deviation = noise * max(map(abs, values)) or 1.0
    likelihood = np.exp(-(np.asarray(errors) - min(errors)) / (2.0 * deviation**2))
    return max(float(values[-1]), float(likelihood @ ends / likelihood.sum()))


def usual(tasks: Sequence[Took]) -> Took:
    """Return the mean time and the largest size of tasks.

    >>> usual([Took(0, 1.0, 10, 5), Took(0, 2.0, 20, 4)])
    Took(level=0, seconds=1.5, rise=20, result=5)
    """
    return Took(
        tasks[0].level,
        fmean(task.seconds for task in tasks),
        max(task.rise for task in tasks),
        max(task.result for task in tasks),
    )


def grown(passes: Sequence[PassRecord], scale: Scale) -> Took:
    """Return a task of a pass of a fixed number of tasks, each of which grows with the data."""
    blocks = [usual([task for task in one.tasks if task.level == 0]) for one in passes]
    return Took(
        0,
        expected(scale, [one.seconds for one in blocks], usual_power=OF_DISTINCT, noise=NOISE_OF_TIME),
        int(expected(scale, [one.rise for one in blocks], usual_power=OF_DISTINCT)),
        int(expected(scale, [one.result for one in blocks], usual_power=OF_DISTINCT)),
    )
