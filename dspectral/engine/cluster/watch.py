"""How far a pass on a cluster is, and what it waits for, from what its scheduler answers."""

import time
import warnings
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import dask
from dask.utils import format_bytes

from dspectral.engine.cluster.clients import DONE, Client, ClusterError, Scheduler
from dspectral.engine.configuration import wait_limit, wait_warning
from dspectral.engine.events import (
    TOPIC,
    BlocksDone,
    Compiled,
    Compiling,
    Merged,
    PassBegan,
    Redone,
    Retried,
    Waiting,
    counts_blocks,
    emit,
    is_own_message,
    task_label,
)

INTERVAL, SELDOM = 0.5, 5.0
"""Seconds between two questions where somebody listens, and where nobody does."""
FROM_WORKERS = {kind.__name__: kind for kind in (Merged, Compiling, Compiled, Retried)}
"""Events that workers send."""
LEAST_SILENCE = 2.0
"""Seconds without a heartbeat that say nothing: workers of large clusters send one every few seconds."""
SHOWN = 3
"""Workers that a sentence names."""
MEMORY_KNOBS = (
    "give each worker more memory (memory_limit of LocalCluster, --memory-limit of `dask worker`), or make blocks "
    "smaller (block_rows, block_size) or summaries (sketch_size, n_components)"
)
_QUEUES: "WeakKeyDictionary[Client, list[SimpleQueue[dict[str, Any]]]]" = WeakKeyDictionary()
"""Where the messages of workers go, for each pass that a client computes now."""


class WorkerState(NamedTuple):
    """One worker, as its scheduler last heard of it.

    `held, limit`: bytes of its process and its memory limit, 0 for none; `silent`: seconds since it was heard; `task`:
    key of the task that it has computed longest, for so many `seconds`.
    """

    address: str
    status: str
    held: int
    limit: int
    silent: float
    task: str
    seconds: float

    @property
    def share(self) -> float:
        """Share of its memory limit that it holds, 0 where it has none."""
        return self.held / self.limit if self.limit else 0.0


class State(NamedTuple):
    """The answer of a scheduler: tasks done of each group, the workers, MiB on their disks, and their time to live."""

    counts: dict[str, int]
    workers: tuple[WorkerState, ...]
    spilled: int = 0
    ttl: float | None = None


class Reason(NamedTuple):
    """The reason for which a pass waits: its name in events, what was seen, what helps, and when it ends the pass."""

    why: str
    saw: str
    helps: str
    limit: float


def state_of(groups: Sequence[str], dask_scheduler: Scheduler) -> State:
    """Return the state of task groups and workers, on the scheduler."""
    known, now = dask_scheduler.task_groups, time.time()
    counts = {name: sum(known[name].states.get(s, 0) for s in DONE) for name in groups if name in known}
    workers, spilled = [], 0
    for one in dask_scheduler.workers.values():
        running = {task: seconds for task, seconds in one.executing.items() if task is not None}
        longest = max(running, key=lambda task: running[task], default=None)
        task, seconds = ("", 0.0) if longest is None else (str(longest.key), float(running[longest]))
        memory = int(one.memory.process), int(one.memory_limit or 0)
        silent = max(0.0, now - one.last_seen)
        workers.append(WorkerState(one.address, one.status.name, *memory, silent, task, seconds))
        spilled += int(one.memory.spilled)
    return State(counts, tuple(workers), spilled >> 20, dask_scheduler.worker_ttl)


class Watch:
    """Tells the events of a pass on a cluster, and ends it where nothing can go on.

    `fullest`: the worker that was seen with the largest share of its memory limit.
    """

    def __init__(self, client: Client, begun: PassBegan, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._begun, self._clock = client, begun, clock
        self._first, self._limit = wait_warning(), wait_limit()
        self.interval = min(INTERVAL if counts_blocks() else SELDOM, self._first / 4)
        self.groups = (begun.block_group, *begun.merge_groups)
        self.fullest: WorkerState | None = None
        self._answered = self._moved = self._why_since = clock()
        self._state: State | None = None
        self._silence, self._why, self._next = "", "", self._first
        self._most: dict[str, int] = {}
        self._again: dict[str, int] = {}
        self._lost: set[str] = set()
        self._told = (begun.n_kept, begun.n_kept_merges)
        self._messages: SimpleQueue[dict[str, Any]] = SimpleQueue()

    def __enter__(self) -> Self:
        queues = _QUEUES.setdefault(self._client, [])
        queues.append(self._messages)

        def receive(event: tuple[float, Any]) -> None:
            for queue in tuple(queues):
                queue.put(event[1])

        self._client.subscribe_topic(TOPIC, receive)
        return self

    def __exit__(self, *_error: object) -> None:
        _QUEUES[self._client].remove(self._messages)

    @property
    def still(self) -> float:
        """Time in which nothing was seen to be done, in seconds."""
        return self._clock() - self._moved

    def fail(self, error: BaseException) -> None:
        """Note why the scheduler did not answer; whoever waits for the pass judges how long that may last."""
        self._silence = ": " + (" ".join(str(error).split()) or type(error).__name__)

    def see(self, state: State) -> None:
        """Compare a state with those before it, and tell what changed."""
        self._answered, self._silence = self._clock(), ""
        before, self._state = self._state, state
        if before is None or _what_moves(before) != _what_moves(state):
            self._moved, self._next, self._why = self._answered, self._first, ""
        self.fullest = max(
            [one for one in (self.fullest, *state.workers) if one], key=lambda one: one.share, default=None
        )
        self.tell_messages()
        # Who is missing now has died or left: either way what it held is computed again.
        if before is not None:
            self._lost |= {one.address for one in before.workers} - {one.address for one in state.workers}
        n_again = 0
        # Per group, `most` is the high mark and `again` how far below it the group is now. Only a growing gap is told,
        # so that a loss which several answers show is told once, and a second loss before the first is made good is
        # told too.
        for group, done in state.counts.items():
            again = max(0, self._most.get(group, 0) - done)
            n_again += max(0, again - self._again.get(group, 0))
            self._again[group] = again
            self._most[group] = max(done, self._most.get(group, 0))
        begun = self._begun
        if n_again:
            emit(Redone(begun.fit, begun.run, n_again, len(self._lost)))
        n_merges = sum(self._most.get(group, 0) for group in begun.merge_groups)
        n_blocks = self._most.get(begun.block_group, 0)
        self._tell_done(begun.n_kept + n_blocks, begun.n_kept_merges + n_merges)

    def tell_messages(self) -> None:
        """Tell what workers have sent since the last time."""
        while True:
            try:
                message = self._messages.get_nowait()
            except Empty:
                return
            kind = FROM_WORKERS.get(message["event"]) if "worker" in message else None
            # What workers within this process send was told here, but for their merges.
            if (
                kind is None
                or message.get("run", self._begun.run) != self._begun.run
                or (kind is not Merged and is_own_message(message))
            ):
                continue
            emit(kind(*(message[field] for field in kind._fields)))

    def end(self) -> None:
        """Tell that all is done."""
        self.tell_messages()
        if counts_blocks():
            self._tell_done(self._begun.n_blocks, self._begun.n_merges)

    def judge(self) -> None:
        """Tell what is waited for if nothing was done for long, and give up what cannot go on."""
        now = self._clock()
        silent = now - self._answered
        seconds = max(now - self._moved, silent)
        if seconds < self._first:
            return
        reason = self._reason(silent)
        if reason.why != self._why:
            self._why, self._why_since = reason.why, now - (self._first if not self._why else 0.0)
        name = f"the pass {self._begun.name}"
        if now - self._why_since >= reason.limit:
            raise ClusterError(f"{name} was given up after {seconds:.3g} s: {reason.saw}; {reason.helps}")
        if seconds >= self._next:
            self._next = 2 * seconds
            what = f"{name} has waited for {seconds:.3g} s in which no task was done"
            sentence = f"{what}: {reason.saw}; {reason.helps}"
            emit(Waiting(self._begun.fit, self._begun.run, reason.why, seconds, sentence), self._client)
            warnings.warn(sentence, RuntimeWarning, stacklevel=2)

    def _reason(self, silent: float) -> Reason:
        if self._state is None or silent >= self._first:
            saw = f"the scheduler at {address_of(self._client)} has not answered for {silent:.3g} s{self._silence}"
            helps = "see whether it still runs and can be reached; if not, start it and its workers again"
            return Reason("scheduler", saw, helps, self._limit)
        return reason_of(self._state, self._first, self._limit)

    def _tell_done(self, n_blocks: int, n_merges: int) -> None:
        if (n_blocks, n_merges) != self._told:
            self._told = n_blocks, n_merges
            emit(BlocksDone(self._begun.fit, self._begun.run, n_blocks, n_merges))


def _what_moves(state: State) -> object:
    """Return what changes when anything is done: tasks, the tasks that run, and what is written to disk."""
    return state.counts, sorted(one.task for one in state.workers), state.spilled


def reason_of(state: State, first: float, limit: float) -> Reason:
    """Return what a pass waits for, from the state of its cluster."""
    workers = state.workers
    if not workers:
        helps = (
            "start workers, which then take up the pass where it is, or see why those that were there ended"
        )
        return Reason("no workers", "the cluster has no workers", helps, limit)
    quiet = [one for one in workers if one.silent >= max(LEAST_SILENCE, first / 2)]
    heard = [one for one in workers if one not in quiet]
    paused = [one for one in heard if one.status == "paused"]
    busy = max((one for one in heard if one.task), key=lambda one: one.seconds, default=None)
    if busy is not None:
        saw = f"{task_label(busy.task)} has run for {busy.seconds:.3g} s on {busy.address}"
        return Reason("task", saw, "this is no fault, and smaller blocks make shorter tasks", float("inf"))
    # Every `worker-ttl` a scheduler looks for workers that were silent for so long, whose tasks then run elsewhere.
    later = limit if len(paused) + len(quiet) == len(workers) else max(limit, 2 * (state.ttl or 0.0))
    if paused:
        held = [
            f"{one.address} holds {format_bytes(one.held)} of {format_bytes(one.limit)}" for one in paused
        ]
        saw = (
            f"{len(paused)} of {len(workers)} workers paused, for they hold more than {pause_share():.0%} of their "
            f"memory limit ({_some(held, '; ')}), and no task runs"
        )
        more = f"give each worker at least {enough_for(max(one.held for one in paused))} of memory"
        helps = MEMORY_KNOBS.replace("give each worker more memory", more)
        return Reason("paused", saw, helps, min(later, 2 * first) if len(paused) == len(workers) else later)
    if quiet:
        named = _some([f"{one.address} for {one.silent:.3g} s" for one in quiet], ", ")
        saw = f"{len(quiet)} of {len(workers)} workers have not been heard of ({named})"
        after = f"after {state.ttl:.3g} s of silence" if state.ttl else "never"
        helps = (
            "see whether they are stopped or cut off; the scheduler gives the tasks of a silent worker to others "
            f"{after} (distributed.scheduler.worker-ttl)"
        )
        return Reason("silent", saw, helps, later)
    saw = f"no task runs on any of the {len(workers)} workers"
    return Reason("unknown", saw, "see the dashboard of the scheduler, and the logs of all processes", later)


def pause_share() -> float:
    """Return the share of its limit at which a worker pauses, 0.8 unless Dask's configuration says otherwise."""
    return float(dask.config.get("distributed.worker.memory.pause", 0.8) or 1.0)


def enough_for(held: int) -> str:
    """Return a memory limit at which a worker that holds so much would not pause, with room for its next task.

    >>> enough_for(400_000_000)
    '700 MB'
    """
    room, hundred = 1.25, 100_000_000
    return f"{-(-int(held * room / pause_share()) // hundred) * 100} MB"


def address_of(client: Client) -> str:
    """Return the address of the scheduler of a client."""
    return str(getattr(client.scheduler, "address", None) or "an address that the client has forgotten")


def _some(parts: list[str], between: str) -> str:
    return between.join(parts[:SHOWN]) + (f", and {len(parts) - SHOWN} more" if len(parts) > SHOWN else "")
