"""A pass over the whole costs wall time, bytes that travel, and the memory of processes."""

import math
from typing import NamedTuple

from dspectral.engine.planning.recording import PassRecord, Took
from dspectral.engine.planning.scales import Machines
from dspectral.engine.planning.whole_tree import Tree, waiting_levels

TASK_SECONDS = 0.004
"""Seconds of client, scheduler and worker for one task of a cluster, beside the task itself."""
PASS_SECONDS = 0.05
"""Seconds of a pass on a cluster from the graph to its first task, and from the last one to the result."""
COPIES_SENT = 2
"""Copies that Dask's worker makes of a result while the scheduler fetches it for the client."""


class PassCosts(NamedTuple):
    """Tasks of a pass over the whole, and what they take.

    `record`: pass over the sample; `block`: task of a block of the whole; `tree`: merges of the whole;
    `n_blocks`: blocks of the whole; `machines`: the processes and threads that do the work.
    """

    record: PassRecord
    block: Took
    tree: Tree
    n_blocks: int
    machines: Machines

    def seconds(self, times: float) -> float:
        """Return the wall time: all work over all workers, and what only one of them does in the end."""
        record, block, tree, n_blocks, machines = self
        measured = [task.seconds for task in record.tasks if task.level == 0]
        follows = len(measured) != n_blocks
        of_blocks = sum(measured) * times if follows else block.seconds * n_blocks
        of_merges = sum(n * one for n, one in zip(tree.counts, tree.seconds, strict=True))
        n_tasks = n_blocks + sum(tree.counts)
        own = max(0.0, record.seconds - sum(task.seconds for task in record.tasks))
        own /= max(1, len(record.tasks))
        n = min(machines.n_at_once, n_blocks)
        busy = (of_blocks + of_merges) / n
        # While the last blocks and the merges above them run, others wait: half of one task on the mean, and the top.
        n_levels = max(1, math.ceil(math.log(max(1, n), machines.fan_in)))
        left = (n - 1) / n * (0.5 * block.seconds + sum(tree.seconds[-n_levels:]) * (n > 1))
        if not machines.n_workers:
            return busy + left + own * n_tasks
        # Both ends of a transfer are busy meanwhile; those of different workers go side by side.
        sending = self.sent * machines.byte_seconds / max(2, n)
        return busy + left + (own + TASK_SECONDS) * n_tasks + PASS_SECONDS + sending

    @property
    def sent(self) -> int:
        """Number of bytes that travel between processes."""
        if not self.machines.n_workers:
            return 0
        n = min(self.machines.n_workers, self.n_blocks)
        bound = self.record.bound * (n + 1)  # to the scheduler, and to each worker
        if not self.tree.counts:
            return int(bound + self.block.result * self.n_blocks)
        # Workers take the next block each, so that the neighbors of a merge are with one worker only by chance.
        moved = sum(n * size for n, size in zip(self.tree.counts, self.tree.sizes[:-1], strict=True))
        elsewhere = (self.machines.fan_in - 1) * (1 - 1 / n)
        return int(bound + elsewhere * moved + (1 if self.machines.are_near else 2) * self.tree.sizes[-1])

    @property
    def memory(self) -> tuple[int, int]:
        """Most bytes that one process needs, and those of them that wait while no task runs."""
        _, block, tree, n_blocks, machines = self
        n_processes = max(1, machines.n_workers)
        bound = self.record.bound * bool(machines.n_workers)
        if not tree.counts:
            # Results of tasks that are not merged go to the client, which holds all of them.
            return int(bound + machines.n_threads * block.rise), int(bound)
        depth = waiting_levels(math.ceil(n_blocks / n_processes), machines.fan_in)
        waits = [(machines.fan_in - 1) * tree.sizes[level] for level in range(depth)]
        needs = [
            sum(waits) + machines.n_threads * block.rise,
            *(sum(waits[i + 1 :]) + tree.sizes[i] + tree.rises[i] for i in range(depth)),
        ]
        if n_processes > 1:  # the last merges take summaries that others have sent
            needs.append(tree.last + tree.rises[-1])
        if machines.n_workers:
            needs.append((1 if machines.are_near else 1 + COPIES_SENT) * tree.sizes[-1])
        return int(bound + max(needs)), int(bound + sum(waits))
