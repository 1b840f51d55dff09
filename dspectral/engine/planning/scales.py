"""How much larger the whole is than the samples, what does the work, and values that are extended to the whole."""

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from dspectral.engine.planning.recording import PassRecord, Took


class Scale(NamedTuple):
    """How much larger the whole is than the samples.

    Attributes
    ----------
    n_blocks : int
        Blocks of the whole.
    samples : tuple of int
        Blocks of each sample.
    weights : tuple of float
        Work of each sample, in units in which the whole is 1.
    """

    n_blocks: int
    samples: tuple[int, ...]
    weights: tuple[float, ...]


class Machines(NamedTuple):
    """What does the work.

    Attributes
    ----------
    n_workers : int
        Worker processes; 0 where the threads of this process do it.
    n_threads : int
        Tasks that run at once in one process.
    fan_in : int
        Number of summaries that a merge takes.
    """

    n_workers: int
    n_threads: int
    fan_in: int

    @property
    def n_at_once(self) -> int:
        """Number of tasks that run at once."""
        return max(1, self.n_workers) * self.n_threads


def along(scale: Scale, values: Sequence[float]) -> float:
    """Extend values of two samples to the whole along a straight line.

    Parameters
    ----------
    scale : Scale
        How much larger the whole is.
    values : sequence of float
        One for each sample.

    Returns
    -------
    float
        Never less than the value of the largest sample.

    Examples
    --------
    >>> along(Scale(8, (2, 4), (0.25, 0.5)), (3.0, 5.0))
    9.0
    """
    last = float(values[-1])
    if len(values) < 2 or scale.weights[-1] <= scale.weights[0]:
        return last
    slope = (last - values[0]) / (scale.weights[-1] - scale.weights[0])
    return last + max(0.0, slope) * (1.0 - scale.weights[-1])


def usual(tasks: Sequence[Took]) -> Took:
    """Return the mean time and the largest size of tasks.

    Parameters
    ----------
    tasks : sequence of Took
        Tasks of one level.

    Returns
    -------
    Took
        A usual one of them.

    Examples
    --------
    >>> usual([Took(0, 1.0, 10, 5), Took(0, 2.0, 20, 4)])
    Took(level=0, seconds=1.5, rise=20, result=5)
    """
    return Took(
        tasks[0].level,
        fmean(task.seconds for task in tasks),
        max(task.rise for task in tasks),
        max(task.result for task in tasks),
    )


def grown(tasks: Sequence[Took], smaller: PassRecord | None, scale: Scale) -> Took:
    """Return a task of a pass of a fixed number of tasks, each of which grows with the data.

    Parameters
    ----------
    tasks : sequence of Took
        Tasks of the blocks of the largest sample.
    smaller : PassRecord or None
        The same pass over a smaller sample.
    scale : Scale
        How much larger the whole is.

    Returns
    -------
    Took
        A task of the whole.
    """
    last = usual(tasks)
    before = [task for task in smaller.tasks if task.level == 0] if smaller else []
    if not before:
        return last
    first = usual(before)
    return Took(
        0,
        along(scale, (first.seconds, last.seconds)),
        int(along(scale, (first.rise, last.rise))),
        int(along(scale, (first.result, last.result))),
    )
