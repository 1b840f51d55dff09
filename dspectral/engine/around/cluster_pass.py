"""A pass on a cluster: submitted, watched while it is waited for, and ended in one sentence where it cannot go on."""

import asyncio
import concurrent.futures
import time
import warnings
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import dask
from dask.core import flatten
from dask.utils import format_bytes

from dspectral.configuration import wait_limit, wait_warning
from dspectral.engine.around.cluster import ClusterError, first_of, submit, workers_are_here
from dspectral.engine.around.context import current
from dspectral.engine.around.events import (
    SENDER,
    TOPIC,
    BlocksDone,
    Client,
    Compiled,
    Compiling,
    Merged,
    PassBegan,
    Redone,
    Retried,
    Scheduler,
    Waiting,
)
from dspectral.engine.around.progress import DONE, TaskCounts
from dspectral.engine.graph import task_label
from dspectral.linalg.blas import aligned

PAUSE = 0.1
"""Seconds between two looks at a client that connects again."""
OFTEN, SELDOM = 0.5, 5.0
"""Seconds between two questions where somebody listens, and where nobody does."""
FROM_WORKERS = {kind.__name__: kind for kind in (Merged, Compiling, Compiled, Retried)}
"""Events that workers send."""
LEAST_SILENCE = 2.0
"""Seconds without a heartbeat that say nothing: workers of large clusters send one every few seconds."""
ROOM = 1.25
"""A worker that paused needs so many times the memory that it holds."""
MEMORY_KNOBS = (
    "give each worker more memory (memory_limit of LocalCluster, --memory-limit of `dask worker`), or make blocks "
    "smaller (block_rows, block_size) or summaries (sketch_size, n_components)"
)
_QUEUES: "WeakKeyDictionary[Client, list[SimpleQueue[dict[str, Any]]]]" = WeakKeyDictionary()
"""Queues of the messages of workers, one for each pass that a client computes now."""


class WorkerState(NamedTuple):
    """One worker as its scheduler last heard of it, with the key of the task that it has computed longest."""

    address: str
    status: str
    held: int
    limit: int
    silent: float
    task: str
    seconds: float


class State(NamedTuple):
    """The answer of a scheduler: tasks done of each group, the workers, MiB on their disks, and their time to live."""

    counts: dict[str, int]
    workers: tuple[WorkerState, ...]
    spilled: int = 0
    ttl: float | None = None


class Reason(NamedTuple):
    """The reason for which a pass waits: its name in events, its sentence, and after how many seconds the pass ends."""

    why: str
    sentence: str
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
    """Emits the events of a pass on a cluster, and ends it where nothing can go on."""

    def __init__(self, client: Client, begun: PassBegan, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._begun, self._clock = client, begun, clock
        self._first, self._limit = wait_warning(), wait_limit()
        self.interval = min(OFTEN if current().counts_blocks else SELDOM, self._first / 4)
        self.groups = (begun.block_group, *begun.merge_groups)
        self.fullest: WorkerState | None = None
        self._answered = self._moved = self._why_since = clock()
        self._state: State | None = None
        self._silence, self._why, self._next = "", "", self._first
        self._counts = TaskCounts(len(self.groups))
        self._lost: set[str] = set()
        self._emitted = (begun.n_kept, begun.n_kept_merges)
        self._messages: SimpleQueue[dict[str, Any]] = SimpleQueue()

    def __enter__(self) -> Self:
        queues = _QUEUES.setdefault(self._client, [])
        queues.append(self._messages)

        # A client has one handler of a topic, called in its own loop; events belong to the thread of their pass.
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
        """Compare a state with those before it, and emit what changed."""
        self._answered, self._silence = self._clock(), ""
        before, self._state = self._state, state
        if before is None or _what_moves(before) != _what_moves(state):
            self._moved, self._next, self._why = self._answered, self._first, ""
        limited = [one for one in (self.fullest, *state.workers) if one and one.limit]
        self.fullest = max(limited, key=lambda one: one.held / one.limit, default=None)
        self._emit_messages()
        # Who is missing now has died or left: either way what it held is computed again.
        if before is not None:
            self._lost |= {one.address for one in before.workers} - {one.address for one in state.workers}
        n_again = self._counts.count([state.counts.get(group) for group in self.groups])
        begun, (n_blocks, *n_merges) = self._begun, self._counts.most
        if n_again:
            current().emit(Redone(begun.fit, begun.run, n_again, len(self._lost)))
        self._emit_done(begun.n_kept + n_blocks, begun.n_kept_merges + sum(n_merges))

    def end(self) -> None:
        """Emit that all is done."""
        self._emit_messages()
        if current().counts_blocks:
            self._emit_done(self._begun.n_blocks, self._begun.n_merges)

    def judge(self) -> None:
        """Warn of what is waited for if nothing was done for long, and give up what cannot go on."""
        now = self._clock()
        silent = now - self._answered
        seconds = max(now - self._moved, silent)
        if seconds < self._first:
            return
        if self._state is None or silent >= self._first:
            sentence = (
                f"the scheduler at {address_of(self._client)} has not answered for {silent:.3g} s{self._silence}; "
                "see whether it still runs and can be reached; if not, start it and its workers again"
            )
            reason = Reason("scheduler", sentence, self._limit)
        else:
            reason = reason_of(self._state, self._first, self._limit)
        if reason.why != self._why:
            self._why, self._why_since = reason.why, now - (self._first if not self._why else 0.0)
        name = f"the pass {self._begun.name}"
        if now - self._why_since >= reason.limit:
            raise ClusterError(f"{name} was given up after {seconds:.3g} s: {reason.sentence}")
        if seconds >= self._next:
            self._next = 2 * seconds
            sentence = f"{name} has waited for {seconds:.3g} s in which no task was done: {reason.sentence}"
            current().emit(
                Waiting(self._begun.fit, self._begun.run, reason.why, seconds, sentence), self._client
            )
            warnings.warn(sentence, RuntimeWarning, stacklevel=2)

    def _emit_messages(self) -> None:
        """Emit what workers have sent since the last time."""
        while True:
            try:
                message = self._messages.get_nowait()
            except Empty:
                return
            kind = FROM_WORKERS.get(message["event"]) if "worker" in message else None
            is_of_pass = message.get("run", self._begun.run) == self._begun.run
            # What workers within this process send was emitted here, but for their merges.
            if kind is not None and is_of_pass and (kind is Merged or message["sender"] != SENDER):
                current().emit(kind(*(message[field] for field in kind._fields)))

    def _emit_done(self, n_blocks: int, n_merges: int) -> None:
        if (n_blocks, n_merges) != self._emitted:
            self._emitted = n_blocks, n_merges
            current().emit(BlocksDone(self._begun.fit, self._begun.run, n_blocks, n_merges))


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
        return Reason("no workers", f"the cluster has no workers; {helps}", limit)
    quiet = [one for one in workers if one.silent >= max(LEAST_SILENCE, first / 2)]
    heard = [one for one in workers if one not in quiet]
    paused = [one for one in heard if one.status == "paused"]
    busy = max((one for one in heard if one.task), key=lambda one: one.seconds, default=None)
    if busy is not None:
        saw = f"{task_label(busy.task)} has run for {busy.seconds:.3g} s on {busy.address}"
        return Reason("task", f"{saw}; this is no fault, and smaller blocks make shorter tasks", float("inf"))
    # Every `worker-ttl` a scheduler looks for workers that were silent for so long, whose tasks then run elsewhere.
    later = limit if len(paused) + len(quiet) == len(workers) else max(limit, 2 * (state.ttl or 0.0))
    if paused:
        share = float(dask.config.get("distributed.worker.memory.pause", 0.8) or 1.0)
        held = [
            f"{one.address} holds {format_bytes(one.held)} of {format_bytes(one.limit)}" for one in paused
        ]
        hundreds = -(-int(max(one.held for one in paused) * ROOM / share) // 100_000_000)
        knobs = MEMORY_KNOBS.replace("more memory", f"at least {hundreds * 100} MB of memory")
        saw = (
            f"{len(paused)} of {len(workers)} workers paused, for they hold more than {share:.0%} of their memory "
            f"limit ({first_of(held)}), and no task runs"
        )
        all_paused = len(paused) == len(workers)
        return Reason("paused", f"{saw}; {knobs}", min(later, 2 * first) if all_paused else later)
    if quiet:
        named = first_of([f"{one.address} for {one.silent:.3g} s" for one in quiet])
        after = f"after {state.ttl:.3g} s of silence" if state.ttl else "never"
        sentence = (
            f"{len(quiet)} of {len(workers)} workers have not been heard of ({named}); see whether they are stopped or "
            f"cut off; the scheduler gives the tasks of a silent worker to others {after} "
            "(distributed.scheduler.worker-ttl)"
        )
        return Reason("silent", sentence, later)
    saw = f"no task runs on any of the {len(workers)} workers"
    return Reason(
        "unknown", f"{saw}; see the dashboard of the scheduler, and the logs of all processes", later
    )


def address_of(client: Client) -> str:
    """Return the address of the scheduler of a client."""
    return str(getattr(client.scheduler, "address", None) or "an address that the client has forgotten")


def compute_on(client: Client, begun: PassBegan, graph: Any, keys: Any, **options: Any) -> Any:
    """Compute a graph on a cluster, called as ``dask.compute(scheduler=...)`` calls a scheduler."""
    start = time.monotonic()
    watch = Watch(client, begun)
    while client.status == "connecting":
        # It was lost since the last pass, and may come back: what is sent before that would be lost as well.
        time.sleep(PAUSE)
        watch.judge()
    if client.status != "running":
        raise ClusterError(_lost(client, begun, 0.0))
    try:
        with watch:
            return _gathered(client, client.get(graph, keys, sync=False, **options), watch)
    except (concurrent.futures.CancelledError, asyncio.CancelledError) as error:
        raise ClusterError(_lost(client, begun, time.monotonic() - start)) from error
    except Exception as error:
        if said := _in_words(error, begun, watch.fullest):
            raise ClusterError(said) from error
        raise


def _gathered(client: Client, futures: list[Any], watch: Watch) -> Any:
    """Wait for results, by way of the scheduler after a silence, and ask meanwhile how far they are."""
    direct = True if client.direct_to_workers is None and workers_are_here(client) else None
    gathered = submit(client, client.gather, futures, direct=direct)
    asked = None
    try:
        # Neither is waited for without end: `judge` gives up when nothing has changed, or nobody answered, for long.
        while not concurrent.futures.wait([gathered], timeout=watch.interval).done:
            if asked is None:
                asked = submit(client, client.run_on_scheduler, state_of, watch.groups)
            concurrent.futures.wait([gathered, asked], watch.interval, concurrent.futures.FIRST_COMPLETED)
            if asked.done():
                try:
                    watch.see(asked.result())
                except Exception as error:  # noqa: BLE001  whatever a client raises that has lost its scheduler
                    watch.fail(error)
                asked = None
            watch.judge()
            if direct and watch.still >= wait_warning():
                direct = None
                gathered.cancel()
                gathered = submit(client, client.gather, futures, direct=direct)
        watch.end()
        return aligned(gathered.result())
    finally:
        # What nobody wants any more is not computed, whatever ended the wait; and what waits for it ends by itself.
        for future in flatten(futures):
            future.release()
        concurrent.futures.wait([gathered], timeout=PAUSE)
        for one in (gathered, asked):
            if one is not None:
                one.cancel()


def _lost(client: Client, begun: PassBegan, seconds: float) -> str:
    if client.status == "running":
        return (
            f"the pass {begun.name} was cancelled after {seconds:.3g} s, by a restart of the cluster at "
            f"{address_of(client)} or by another program that uses it: repeat it"
        )
    return (
        f"the connection to the scheduler at {address_of(client)} was lost {seconds:.3g} s after the pass {begun.name} "
        "began: see whether it still runs, and repeat this once it does"
    )


def _in_words(error: Exception, begun: PassBegan, fullest: WorkerState | None) -> str:
    """Return what an error of the cluster means, in a sentence; nothing for any other error."""
    # By their names: a process that has not loaded distributed need not load it for this.
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "KilledWorker" in kinds:
        n_workers = int(getattr(error, "allowed_failures", 0)) + 1
        ended = f"{n_workers} workers ended, one after the other," if n_workers > 1 else "1 worker ended"
        sizes = fullest and (format_bytes(fullest.held), format_bytes(fullest.limit))
        seen = f" (the fullest was last seen with {sizes[0]} of its limit of {sizes[1]})" if sizes else ""
        return (
            f"{ended} at {task_label(str(getattr(error, 'task', '')))} in the pass {begun.name}, most often for lack "
            f"of memory{seen}, or as the worker's own log says: {MEMORY_KNOBS}"
        )
    text = " ".join(str(error).split())
    # These come where distributed.scheduler.no-workers-timeout is set.
    if kinds & {"NoWorkerError", "NoValidWorkerError"}:
        return f"the pass {begun.name} was given up: {text}"
    if kinds & {"CommClosedError", "ClosedClientError"}:
        return f"the pass {begun.name} has lost its cluster ({text}): repeat this once it runs"
    if isinstance(error, RuntimeError) and "deserialization of the task graph" in text:
        return (
            f"the scheduler cannot read the tasks of the pass {begun.name}, most often because it has other versions "
            f"of packages than this process, or not all of them: install the same ones ({error.__cause__ or text})"
        )
    return ""
