"""What is simulated: the tree, the machines, and what is known before anything runs."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PLACEMENTS = ("queue", "runs")
"""``queue`` hands the next block to whoever is free, ``runs`` gives each machine neighboring blocks."""


class Settings(NamedTuple):
    """One pass over blocks on many machines, each of which does one task at a time.

    Attributes
    ----------
    n_blocks : int
        Number of row blocks.
    machines : int
        Number of workers.
    block_seconds, merge_seconds : float
        Seconds that summarizing a block takes, and a merge of ``fan_in`` summaries; of fewer, in proportion.
    summary_bytes : int
        Size of a summary, which a merge fetches from the machines that hold it.
    fan_in : int
        Number of summaries that a merge takes.
    scheduler_seconds : float
        Seconds of the scheduler for each task; it does one thing at a time.
    overhead_seconds : float
        Seconds of a worker for each task, beside its work.
    start_seconds : float
        Seconds for each task of the graph before the first one begins: the graph is made, sent and ordered.
    latency : float
        Seconds that any message takes.
    bandwidth : float
        Bytes a second into a machine, and out of it; transfers that share a machine's link follow each other.
    spread : float
        Standard deviation of the logarithm of a task's seconds, whose mean stays the same.
    slow_share, slow_factor : float
        Share of the machines whose tasks take ``slow_factor`` times as long.
    failures : float
        Mean number of times that a machine is lost in an hour.
    notice_seconds, restart_seconds : float
        Seconds until the scheduler knows of a lost machine, and until the machine is back, with nothing in memory.
    keep_level : int or None
        Summaries of this level of the tree and above (0 are blocks) are also written to shared storage, and read again
        from there when their machine is lost; None computes them again from the blocks.
    placement : {"queue", "runs"}
        Which block a free machine gets.
    seed : int
        Of the tasks' seconds, of slow machines, and of failures.
    """

    n_blocks: int
    machines: int
    block_seconds: float
    merge_seconds: float = 0.0
    summary_bytes: int = 0
    fan_in: int = 2
    scheduler_seconds: float = 0.0
    overhead_seconds: float = 0.0
    start_seconds: float = 0.0
    latency: float = 0.0
    bandwidth: float = float("inf")
    spread: float = 0.0
    slow_share: float = 0.0
    slow_factor: float = 1.0
    failures: float = 0.0
    notice_seconds: float = 0.0
    restart_seconds: float = 60.0
    keep_level: int | None = None
    placement: str = "queue"
    seed: int = 0

    def checked(self) -> "Settings":
        """Return the settings if they can be simulated.

        Returns
        -------
        Settings
            These settings.

        Raises
        ------
        ValueError
            If a number is out of range: the message names it.
        """
        least = {"n_blocks": 1, "machines": 1, "fan_in": 2, "slow_factor": 1.0}
        for name in self._fields:
            value, low = getattr(self, name), least.get(name, 0)
            if isinstance(value, int | float) and not value >= low:
                raise ValueError(f"{name} is {value}, but it must be at least {low}")
        if self.bandwidth == 0:
            raise ValueError("bandwidth is 0, but it must be above 0 bytes a second")
        if self.slow_share > 1:
            raise ValueError(f"slow_share is {self.slow_share}, but it must be a share from 0 to 1")
        if self.placement not in PLACEMENTS:
            raise ValueError(
                f"placement is {self.placement!r}, but it must be one of {', '.join(PLACEMENTS)}"
            )
        return self

    @property
    def transfer_seconds(self) -> float:
        """Time that a summary takes over a link that is free, in seconds."""
        return self.summary_bytes / self.bandwidth


class Outcome(NamedTuple):
    """What one simulated pass took.

    Attributes
    ----------
    seconds : float
        From the start until the last summary is with the caller.
    start_seconds, tail_seconds : float
        Until the first task could begin; from the end of the last block on.
    busy_seconds, scheduler_seconds : float
        Of all machines together, in tasks; of the scheduler.
    waited_seconds : float
        Of all machines together, for summaries on their way.
    moved_bytes : float
        Summaries that went from machine to machine.
    most_held : int
        Largest number of summaries on one machine, with those that a merge fetched and made.
    n_tasks, n_redone, n_lost : int
        Tasks of the graph; tasks begun again; machines lost.
    begun, ended, levels : ndarray of float64, float64 and intp
        When each attempt of a task began and ended, and its level.
    """

    seconds: float
    start_seconds: float
    tail_seconds: float
    busy_seconds: float
    scheduler_seconds: float
    waited_seconds: float
    moved_bytes: float
    most_held: int
    n_tasks: int
    n_redone: int
    n_lost: int
    begun: NDArray[np.float64]
    ended: NDArray[np.float64]
    levels: NDArray[np.intp]


class Tree(NamedTuple):
    """Tasks of a pass: blocks have the first numbers, the last number is the root's.

    Attributes
    ----------
    children : list of tuple of int
        What each task needs: nothing for blocks.
    parent : list of int
        Which merge takes each task's result, -1 for the root.
    level : list of int
        0 for blocks.
    last : list of int
        Last block under each task: tasks are begun in this order.
    """

    children: list[tuple[int, ...]]
    parent: list[int]
    level: list[int]
    last: list[int]


def tree_of(n_blocks: int, fan_in: int) -> Tree:
    """Return the tree that ``dspectral.engine.summarize`` builds.

    Parameters
    ----------
    n_blocks : int
        Number of row blocks.
    fan_in : int
        Number of summaries that a merge takes.

    Returns
    -------
    Tree
        Its tasks.

    Examples
    --------
    >>> tree_of(5, 2).children
    [(), (), (), (), (), (0, 1), (2, 3), (5, 6), (7, 4)]
    """
    children: list[tuple[int, ...]] = [()] * n_blocks
    parent, level, last = [-1] * n_blocks, [0] * n_blocks, list(range(n_blocks))
    keys, depth = list(range(n_blocks)), 0
    while len(keys) > 1:
        depth += 1
        merged = []
        for start in range(0, len(keys), fan_in):
            group = tuple(keys[start : start + fan_in])
            if len(group) > 1:
                for key in group:
                    parent[key] = len(children)
                merged.append(len(children))
                children.append(group)
                parent.append(-1)
                level.append(depth)
                last.append(last[group[-1]])
            else:
                merged += group  # nobody to merge with: it moves up as it is
        keys = merged
    return Tree(children, parent, level, last)


class Drawn(NamedTuple):
    """What chance decides before the first task begins.

    Attributes
    ----------
    seconds : ndarray of float64
        Seconds of each task on a machine that is not slow, the overhead included.
    slowness : ndarray of float64
        What each machine multiplies them by.
    """

    seconds: NDArray[np.float64]
    slowness: NDArray[np.float64]


def drawn(settings: Settings, tree: Tree) -> Drawn:
    """Draw the seconds of all tasks; a task that is done again takes as long again.

    Parameters
    ----------
    settings : Settings
        Means and spreads.
    tree : Tree
        Tasks.

    Returns
    -------
    Drawn
        The same for the same seed, whatever the machines do.
    """
    random = np.random.default_rng([settings.seed, 0])
    sizes = np.array([len(group) for group in tree.children])
    mean = np.where(
        sizes > 0, settings.merge_seconds * sizes / settings.fan_in, settings.block_seconds
    ) + np.zeros(len(sizes))
    factors = np.exp(settings.spread * random.standard_normal(len(sizes)) - settings.spread**2 / 2)
    seconds = mean * factors + settings.overhead_seconds
    if settings.keep_level is not None:
        seconds = seconds + settings.transfer_seconds * (np.array(tree.level) >= settings.keep_level)
    slowness = np.ones(settings.machines)
    slow = np.random.default_rng([settings.seed, 1]).permutation(settings.machines)
    slowness[slow[: round(settings.slow_share * settings.machines)]] = settings.slow_factor
    return Drawn(seconds, slowness)


def least_seconds(settings: Settings) -> dict[str, float]:
    """Return bounds that no schedule beats, whatever it places where.

    Parameters
    ----------
    settings : Settings
        One pass.

    Returns
    -------
    dict of str to float
        ``work``: all tasks on all machines, none idle; ``path``: the longest way from a block to the root;
        ``scheduler``: its seconds for all tasks. Each includes the start.

    Examples
    --------
    >>> least_seconds(Settings(n_blocks=4, machines=2, block_seconds=3.0, merge_seconds=1.0))
    {'work': 7.5, 'path': 5.0, 'scheduler': 0.0}
    """
    tree = tree_of(settings.n_blocks, settings.fan_in)
    seconds, slowness = drawn(settings, tree)
    fastest, path = float(slowness.min()), np.array(seconds)
    for task, group in enumerate(tree.children):
        if group:
            path[task] += max(path[child] for child in group)
    start = settings.start_seconds * len(seconds)
    return {
        "work": start + float(seconds.sum() / (1.0 / slowness).sum()),
        "path": start + float(path[-1]) * fastest,
        "scheduler": start + settings.scheduler_seconds * len(seconds),
    }
