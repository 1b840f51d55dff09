"""A scheduler tells the state of a pass and of its workers in one answer."""

import time
from collections.abc import Sequence
from itertools import cycle
from typing import Any, NamedTuple

from dspectral.engine.cluster.clients import Scheduler
from dspectral.engine.events import TOPIC

DONE = ("memory", "released", "forgotten", "erred")
"""States of a scheduler's tasks that need not run any more."""
PAUSED, RUNNING = "paused", "running"


class WorkerSeen(NamedTuple):
    """One worker, as its scheduler last heard of it.

    `address`: where it is; `status`: ``"running"``, ``"paused"``, or another word of Dask; `held`: bytes of
    its process; `spilled`: bytes of results that it has on disk; `limit`: its memory limit in bytes, 0 for
    none; `silent`: seconds since it was last heard; `task`: key of the task that it has computed longest;
    `task_seconds`: how long that is.
    """

    address: str
    status: str
    held: int
    spilled: int
    limit: int
    silent: float
    task: str
    task_seconds: float


class State(NamedTuple):
    """The answer of a scheduler about its task groups and workers.

    `counts`: tasks done and in all of each group; `workers`: addresses of the workers; `messages`: messages
    of workers about a pass; `seen`: the workers; `ttl`: seconds of silence after which the scheduler gives up
    a worker.
    """

    counts: dict[str, tuple[int, int]]
    workers: tuple[str, ...]
    messages: tuple[dict[str, Any], ...]
    seen: tuple[WorkerSeen, ...] = ()
    ttl: float | None = None


def state_of(groups: Sequence[str], run: str, told: Sequence[str], dask_scheduler: Scheduler) -> State:
    """Return the state of task groups and workers, on the scheduler."""
    counts = {}
    for name in groups:
        group = dask_scheduler.task_groups.get(name)
        if group is not None:
            done = sum(group.states.get(state, 0) for state in DONE)
            counts[name] = (done, sum(group.states.values()))
    events = dask_scheduler.get_events(TOPIC)
    messages = tuple(
        message
        for _time, message in events
        if "worker" in message and message["event"] in told and message.get("run", run) == run
    )
    now = time.time()
    seen = tuple(_seen(worker, now) for worker in dask_scheduler.workers.values())
    return State(counts, tuple(dask_scheduler.workers), messages, seen, dask_scheduler.worker_ttl)


def move_from_paused(dask_scheduler: Scheduler) -> int:
    """Ask paused workers for the tasks that they have not begun, for the others to run, on the scheduler.

    A paused worker begins no task, and Dask moves none from a worker that has a single one: the pass would wait until
    that worker goes on.
    """
    stealing = dask_scheduler.extensions.get("stealing")
    workers = dask_scheduler.workers.values()
    others = sorted(
        (one for one in workers if one.status.name == RUNNING), key=lambda one: len(one.processing)
    )
    if stealing is None or not others:
        return 0
    paused = [one for one in workers if one.status.name == PAUSED]
    asked = [(task, one) for one in paused for task in one.processing if task not in one.executing]
    for (task, worker), other in zip(asked, cycle(others), strict=False):
        stealing.move_task_request(task, worker, other)
    return len(asked)


def _seen(worker: Any, now: float) -> WorkerSeen:
    running = {task: seconds for task, seconds in worker.executing.items() if task is not None}
    longest = max(running, key=lambda task: running[task], default=None)
    return WorkerSeen(
        worker.address,
        worker.status.name,
        int(worker.memory.process),
        int(worker.memory.spilled),
        int(worker.memory_limit or 0),
        max(0.0, now - worker.last_seen),
        "" if longest is None else str(longest.key),
        0.0 if longest is None else float(running[longest]),
    )
