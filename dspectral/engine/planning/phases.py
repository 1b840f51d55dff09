"""From what a sample took to what the whole will take: one phase for each pass."""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from dspectral.engine.merge_tree import merges_of
from dspectral.engine.planning.recording import PassRecord, RunRecord, Took

TASK_SECONDS = 0.004
"""What client, scheduler and worker take for one task of a cluster, beside the task itself."""
PASS_SECONDS = 0.05
"""What a pass on a cluster takes from the graph to its first task, and from the last one to the result."""
BYTES_A_SECOND = 0.7e9
"""Between two processes, with the copies that are made on both sides."""


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


class Phase(NamedTuple):
    """What all passes of one name take together.

    Attributes
    ----------
    name : str
        Name of the passes.
    n_times : int
        Number of passes of that name.
    reads : bool
        Whether they read the data.
    n_blocks, n_merges : int
        Tasks of one of them.
    bytes_read, bytes_sent : int
        Of all of them: blocks as they are in memory; what is bound to the function, summaries and results as they
        travel between processes.
    summary_bytes : int
        The largest summary.
    memory : int
        Bytes that a process holds at the most, beside its libraries and what the client holds.
    held : int
        The part of it that waits in memory while no task runs.
    seconds : float
        Wall time of all of them.
    """

    name: str
    n_times: int
    reads: bool
    n_blocks: int
    n_merges: int
    bytes_read: int
    bytes_sent: int
    summary_bytes: int
    memory: int
    held: int
    seconds: float


def phases_of(runs: Sequence[RunRecord], scale: Scale, machines: Machines, read: int | None) -> list[Phase]:
    """Return the phases of the whole.

    Parameters
    ----------
    runs : sequence of RunRecord
        What the samples took, the smallest first.
    scale : Scale
        How much larger the whole is.
    machines : Machines
        What does the work.
    read : int or None
        Bytes of all blocks in memory, where they are known.

    Returns
    -------
    list of Phase
        In the order in which they begin; passes of one name are one phase.
    """
    phases: dict[str, Phase] = {}
    for number, record in enumerate(runs[-1].passes):
        smaller = _same_pass(runs[0], number, record.name) if len(runs) > 1 else None
        one = _phase(record, smaller, scale, machines, read)
        known = phases.get(record.name)
        phases[record.name] = one if known is None else _together(known, one)
    return list(phases.values())


def _same_pass(run: RunRecord, number: int, name: str) -> PassRecord | None:
    """Return the pass of another run: the one in the same place, if it has the same name."""
    same = number < len(run.passes) and run.passes[number].name == name
    return run.passes[number] if same else None


def _together(a: Phase, b: Phase) -> Phase:
    larger = max(a, b, key=lambda phase: phase.memory)
    return larger._replace(
        n_times=a.n_times + 1,
        reads=a.reads or b.reads,
        bytes_read=a.bytes_read + b.bytes_read,
        bytes_sent=a.bytes_sent + b.bytes_sent,
        seconds=a.seconds + b.seconds,
    )


def _phase(
    record: PassRecord, smaller: PassRecord | None, scale: Scale, machines: Machines, read: int | None
) -> Phase:
    """Scale one pass up."""
    follows = smaller is None or smaller.n_blocks != record.n_blocks or len(scale.samples) < 2
    follows = follows and record.n_blocks > 0
    # Files of a partition, for instance, are as many however long the text is: each task is then larger instead.
    n_blocks = (
        max(1, round(record.n_blocks * scale.n_blocks / scale.samples[-1])) if follows else record.n_blocks
    )
    times = 1.0 / scale.weights[-1]
    blocks = [task for task in record.tasks if task.level == 0]
    if not blocks:
        grown = record.seconds * (times if record.n_blocks else 1.0)
        return Phase(record.name, 1, record.is_pass, n_blocks, 0, 0, 0, 0, 0, 0, grown)
    block = _usual(blocks) if follows else _grown(blocks, smaller, scale)
    tree = Tree.of(record, block.result, n_blocks, machines.fan_in)
    seconds = _seconds(record, block, tree, n_blocks, times, machines)
    memory, held = _memory(record, block, tree, n_blocks, machines)
    is_merged = bool(tree.counts)
    return Phase(
        name=record.name,
        n_times=1,
        reads=record.is_pass,
        n_blocks=n_blocks,
        n_merges=sum(tree.counts),
        bytes_read=int((read or record.read or 0) * record.is_pass),
        bytes_sent=_sent(record, block, tree, n_blocks, machines, is_merged=is_merged),
        summary_bytes=tree.sizes[-1],
        memory=memory,
        held=held,
        seconds=seconds,
    )


def _usual(tasks: Sequence[Took]) -> Took:
    """Return the mean time and the largest size of tasks."""
    return Took(
        tasks[0].level,
        fmean(task.seconds for task in tasks),
        max(task.rise for task in tasks),
        max(task.result for task in tasks),
    )


def _grown(tasks: Sequence[Took], smaller: PassRecord | None, scale: Scale) -> Took:
    """Return a task of a pass of a fixed number of tasks, each of which grows with the data."""
    usual = _usual(tasks)
    before = [task for task in smaller.tasks if task.level == 0] if smaller else []
    if not before:
        return usual
    first = _usual(before)

    def extended(small: float, large: float) -> float:
        return along(scale, (small, large))

    return Took(
        0,
        extended(first.seconds, usual.seconds),
        int(extended(first.rise, usual.rise)),
        int(extended(first.result, usual.result)),
    )


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


def waiting_levels(n_blocks: int, fan_in: int) -> int:
    """Return how many levels of summaries wait at the most while blocks are summarized in their order.

    Parameters
    ----------
    n_blocks : int
        Number of blocks of one process.
    fan_in : int
        Number of summaries that a merge takes.

    Returns
    -------
    int
        Most digits above zero that a number below ``n_blocks`` has to the base ``fan_in``: block i is summarized while
        those of its digits wait.

    Examples
    --------
    >>> [waiting_levels(n, 2) for n in (1, 8, 12, 16)]
    [0, 3, 3, 4]
    """
    levels = 0
    while fan_in ** (levels + 1) <= n_blocks:
        levels += 1
    return levels


class Tree(NamedTuple):
    """The merges of a pass over the whole.

    Attributes
    ----------
    counts : list of int
        Merges on each level.
    sizes : list of int
        Bytes of a summary on each level, those of the blocks first.
    seconds, rises : list of float
        Time of a merge on each level, and bytes by which a process grows meanwhile.
    """

    counts: list[int]
    sizes: list[int]
    seconds: list[float]
    rises: list[float]

    @classmethod
    def of(cls, record: PassRecord, leaf: int, n_blocks: int, fan_in: int) -> "Tree":
        """Extend the tree of a sample.

        Parameters
        ----------
        record : PassRecord
            Pass over the sample.
        leaf : int
            Bytes of the summary of a block.
        n_blocks : int
            Blocks of the whole.
        fan_in : int
            Number of summaries that a merge takes in the whole.

        Returns
        -------
        Tree
            With summaries that go on growing as they did from one level of the sample to the next.
        """
        if not record.fan_in:
            return cls([], [leaf], [], [])
        levels = sorted({task.level for task in record.tasks if task.level})
        known = [_usual([task for task in record.tasks if task.level == level]) for level in levels]
        counts = merges_of(n_blocks, fan_in)
        if not known:  # a single block: merges are taken to cost as little as copies
            known = [Took(1, 0.0, leaf, leaf)]
        # The size of a summary of n blocks goes as n^e; e is 0 for what is dense, 1 for what is only put together.
        before = known[-2].result if len(known) > 1 else leaf
        exponent = math.log(max(1.0, known[-1].result / max(1, before)), max(2, record.fan_in))
        exponent = min(1.0, exponent)
        last, reached = known[-1], record.fan_in ** len(known)
        sizes, seconds, rises = [leaf], [], []
        for level in range(1, len(counts) + 1):
            covered = min(n_blocks, fan_in**level)
            grown = (covered / reached) ** exponent
            size = max(leaf, last.result * grown) if covered > 1 else leaf
            sizes.append(int(size))
            # A merge reads all its summaries: one of f takes as long as f - 1 merges of two.
            width = (fan_in - 1) / max(1, record.fan_in - 1)
            seconds.append(last.seconds * grown * width)
            rises.append(last.rise * grown)
        return cls(counts, sizes, seconds, rises)


def _seconds(
    record: PassRecord, block: Took, tree: Tree, n_blocks: int, times: float, machines: Machines
) -> float:
    """Return the wall time of a pass: all work over all workers, and what only one of them does in the end."""
    measured = [task.seconds for task in record.tasks if task.level == 0]
    follows = len(measured) != n_blocks
    of_blocks = sum(measured) * times if follows else block.seconds * n_blocks
    of_merges = sum(n * one for n, one in zip(tree.counts, tree.seconds, strict=True))
    n_tasks = n_blocks + sum(tree.counts)
    own = max(0.0, record.seconds - sum(task.seconds for task in record.tasks)) / max(1, len(record.tasks))
    n = min(machines.n_at_once, n_blocks)
    busy = (of_blocks + of_merges) / n
    # While the last blocks and the merges above them run, others wait: half of one task on the mean, and the top.
    left = (n - 1) / n * (0.5 * block.seconds + sum(tree.seconds[-_levels(n, machines.fan_in) :]) * (n > 1))
    if not machines.n_workers:
        return busy + left + own * n_tasks
    sent = _sent(record, block, tree, n_blocks, machines, is_merged=bool(tree.counts))
    return busy + left + (own + TASK_SECONDS) * n_tasks + PASS_SECONDS + sent / BYTES_A_SECOND


def _levels(n: int, fan_in: int) -> int:
    return max(1, math.ceil(math.log(max(1, n), fan_in)))


def _sent(
    record: PassRecord, block: Took, tree: Tree, n_blocks: int, machines: Machines, *, is_merged: bool
) -> int:
    """Return the bytes that travel between processes in a pass."""
    if not machines.n_workers:
        return 0
    n = min(machines.n_workers, n_blocks)
    bound = record.bound * (n + 1)  # to the scheduler, and to each worker
    if not is_merged:
        return int(bound + block.result * n_blocks)
    # Each worker merges its own blocks; then all but one send what they have.
    return int(bound + (n - 1) * tree.sizes[-1] + tree.sizes[-1])


def _memory(
    record: PassRecord, block: Took, tree: Tree, n_blocks: int, machines: Machines
) -> tuple[int, int]:
    """Return the most bytes that one process needs for a pass, and those that wait while no task runs."""
    n_processes = max(1, machines.n_workers)
    bound = record.bound * bool(machines.n_workers)
    if not tree.counts:
        # Results of tasks that are not merged go to the client, which holds all of them.
        return int(bound + machines.n_threads * block.rise), int(bound)
    depth = waiting_levels(math.ceil(n_blocks / n_processes), machines.fan_in)
    waits = [(machines.fan_in - 1) * tree.sizes[level] for level in range(depth)]
    of_blocks = sum(waits) + machines.n_threads * block.rise
    of_merges = [
        sum(waits[level:]) + tree.sizes[level - 1] + tree.rises[level - 1] for level in range(1, depth + 1)
    ]
    # On several workers the last merges take summaries that others have sent.
    top = [machines.fan_in * tree.sizes[-2] + tree.rises[-1]] if n_processes > 1 else []
    return int(bound + max([of_blocks, *of_merges, *top])), int(bound + sum(waits))
