"""What is simulated: the tree, the machines, and what is known before anything runs."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PLACEMENTS = ("queue", "runs")
"""``queue`` hands the next block to whoever is free, ``runs`` gives each machine neighboring blocks."""


class Settings(NamedTuple):
    """One pass over blocks on many machines, each of which does one task at a time.

    `n_blocks`: number of row blocks; `machines`: number of workers; `block_seconds, merge_seconds`: seconds
    that summarizing a block takes, and a merge of ``fan_in`` summaries; `summary_bytes`: size of a summary,
    which a merge fetches from the machines that hold it; `fan_in`: number of summaries that a merge takes;
    `scheduler_seconds`: seconds of the scheduler for each task; `overhead_seconds`: seconds of a worker for
    each task, beside its work; `start_seconds`: seconds for each task of the graph before the first one
    begins; `latency`: seconds that any message takes; `bandwidth`: bytes a second into a machine, and out of
    it; `spread`: standard deviation of the logarithm of a task's seconds, whose mean stays the same;
    `slow_share, slow_factor`: share of the machines whose tasks take ``slow_factor`` times as long;
    `failures`: mean number of times that a machine is lost in an hour; `notice_seconds, restart_seconds`:
    seconds until the scheduler knows of a lost machine, and until the machine is back, with nothing in
    memory; `keep_level`: summaries of this level of the tree and above (0 are blocks) are also written to
    shared storage, and read again from there when their machine is lost; `placement`: which block a free
    machine gets; `seed`: of the tasks' seconds, of slow machines, and of failures.
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
        """Return the settings if they can be simulated."""
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

    `seconds`: from the start until the last summary is with the caller; `start_seconds, tail_seconds`: until
    the first task could begin; `busy_seconds, scheduler_seconds`: of all machines together, in tasks;
    `waited_seconds`: of all machines together, for summaries on their way; `moved_bytes`: summaries that went
    from machine to machine; `most_held`: largest number of summaries on one machine, with those that a merge
    fetched and made; `n_tasks, n_redone, n_lost`: tasks of the graph; `begun, ended, levels`: when each
    attempt of a task began and ended, and its level.
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

    `children`: what each task needs; `parent`: which merge takes each task's result, -1 for the root;
    `level`: 0 for blocks; `last`: last block under each task.
    """

    children: list[tuple[int, ...]]
    parent: list[int]
    level: list[int]
    last: list[int]


def tree_of(n_blocks: int, fan_in: int) -> Tree:
    """Return the tree that ``dspectral.engine.summarize`` builds.

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

    `seconds`: seconds of each task on a machine that is not slow, the overhead included; `slowness`: what
    each machine multiplies them by.
    """

    seconds: NDArray[np.float64]
    slowness: NDArray[np.float64]


def drawn(settings: Settings, tree: Tree) -> Drawn:
    """Draw the seconds of all tasks; a task that is done again takes as long again."""
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
