"""Run a pass on a Dask cluster: submit it, monitor its progress, and raise an error if it stalls."""

import asyncio
import concurrent.futures
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import dask
from dask.core import flatten
from dask.utils import format_bytes

from dspectral.configuration import get_wait_limit, get_wait_warning
from dspectral.engine.around.cluster import ClusterError, has_only_local_workers, join_first, submit
from dspectral.engine.around.context import current_context
from dspectral.engine.around.events import (
    SENDER,
    TOPIC,
    BlocksDone,
    Client,
    CompilationEnded,
    CompilationStarted,
    PassStalled,
    PassStarted,
    Scheduler,
    SummariesMerged,
    TaskRetried,
    TasksRecomputed,
)
from dspectral.engine.around.progress import DONE_STATES, TaskCounts
from dspectral.engine.graph import task_label
from dspectral.linalg.blas import copy_unaligned

RECONNECT_SECONDS = 0.1
"""Seconds between two checks of a client that reconnects."""
WATCHED_INTERVAL, UNWATCHED_INTERVAL = 0.5, 5.0
"""Seconds between two requests to the scheduler, with and without listeners."""
WORKER_EVENTS = {kind.__name__: kind for kind in (SummariesMerged, CompilationStarted, CompilationEnded, TaskRetried)}
"""Event classes that workers send, by name."""
MIN_SILENCE = 2.0
"""Seconds without a heartbeat that are normal: workers of large clusters send one every few seconds."""
MEMORY_MARGIN = 1.25
"""Memory that a paused worker needs, relative to what it holds."""
MEMORY_ADVICE = (
    "give each worker more memory (memory_limit of LocalCluster, --memory-limit of `dask worker`), or make blocks "
    "smaller (block_rows, block_size) or summaries (sketch_size, n_components)"
)
_QUEUES: "WeakKeyDictionary[Client, list[SimpleQueue[dict[str, Any]]]]" = WeakKeyDictionary()
"""Message queues of each client, one for each of its running passes."""


class WorkerState(NamedTuple):
    """State of one worker on the scheduler.

    `held, limit`: bytes in memory, and their limit; `silent`: seconds since its last heartbeat; `task, seconds`: key
    and run time of its longest running task.
    """

    address: str
    status: str
    held: int
    limit: int
    silent: float
    task: str
    seconds: float


class ClusterState(NamedTuple):
    """State of a pass on the scheduler: finished tasks of each group, workers, spilled MiB and ``worker-ttl``."""

    counts: dict[str, int]
    workers: tuple[WorkerState, ...]
    spilled: int = 0
    ttl: float | None = None


class StallReason(NamedTuple):
    """Why a pass makes no progress: name in events, sentence, and seconds after which the pass is ended."""

    why: str
    sentence: str
    limit: float


def get_cluster_state(groups: Sequence[str], dask_scheduler: Scheduler, *, move_tasks: bool = False) -> ClusterState:
    """Return the state of task groups and workers. This function runs on the scheduler.

    With `move_tasks` tasks of these groups that wait on paused workers are assigned to others: Dask steals no task of a
    few milliseconds, and not the last one of each thread.
    """
    task_groups, now = dask_scheduler.task_groups, time.time()
    counts = {
        name: sum(task_groups[name].states.get(s, 0) for s in DONE_STATES) for name in groups if name in task_groups
    }
    workers, spilled = [], 0
    for worker in dask_scheduler.workers.values():
        if move_tasks and worker.status.name == "paused" and dask_scheduler.running:
            keys = [t.key for t in worker.processing if t not in worker.executing and t.group.name in groups]
            dask_scheduler.transitions(dict.fromkeys(keys, "released"), f"paused-{now}")
        running = {task: seconds for task, seconds in worker.executing.items() if task is not None}
        longest_running = max(running, key=lambda task: running[task], default=None)
        task, seconds = (
            ("", 0.0) if longest_running is None else (str(longest_running.key), float(running[longest_running]))
        )
        memory = int(worker.memory.process), int(worker.memory_limit or 0)
        silent = max(0.0, now - worker.last_seen)
        workers.append(WorkerState(worker.address, worker.status.name, *memory, silent, task, seconds))
        spilled += int(worker.memory.spilled)
    return ClusterState(counts, tuple(workers), spilled >> 20, dask_scheduler.worker_ttl)


class PassMonitor:
    """Emit the events of a pass on a cluster, and raise an error if it stalls."""

    def __init__(self, client: Client, pass_info: PassStarted, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._pass_info, self._clock = client, pass_info, clock
        self._first, self._limit = get_wait_warning(), get_wait_limit()
        self.interval = min(
            WATCHED_INTERVAL if current_context().counts_blocks else UNWATCHED_INTERVAL, self._first / 4
        )
        self.groups = (pass_info.block_group, *pass_info.merge_groups)
        self.fullest_worker: WorkerState | None = None
        self._answered = self._moved = self._why_since = clock()
        self._state: ClusterState | None = None
        self._silence, self.why, self._next = "", "", self._first
        self._counts = TaskCounts(len(self.groups))
        self._lost: set[str] = set()
        self._emitted = (pass_info.n_kept, pass_info.n_kept_merges)
        self._messages: SimpleQueue[dict[str, Any]] = SimpleQueue()

    def __enter__(self) -> Self:
        queues = _QUEUES.setdefault(self._client, [])
        queues.append(self._messages)

        # A client has one handler of a topic, and calls it in its own loop. Queues bring messages to the threads of
        # the passes.
        def receive(event: tuple[float, Any]) -> None:
            for queue in tuple(queues):
                queue.put(event[1])

        self._client.subscribe_topic(TOPIC, receive)
        return self

    def __exit__(self, *_error: object) -> None:
        _QUEUES[self._client].remove(self._messages)

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last observed progress."""
        return self._clock() - self._moved

    def record_failure(self, error: BaseException) -> None:
        """Record why the scheduler did not answer; :meth:`check_stalled` decides when to give up."""
        self._silence = ": " + (" ".join(str(error).split()) or type(error).__name__)

    def update(self, state: ClusterState) -> None:
        """Compare a state with the previous one, and emit events about the changes."""
        self._answered, self._silence = self._clock(), ""
        before, self._state = self._state, state
        if before is None or _get_progress_marks(before) != _get_progress_marks(state):
            self._moved, self._next, self.why = self._answered, self._first, ""
        limited = [worker for worker in (self.fullest_worker, *state.workers) if worker and worker.limit]
        self.fullest_worker = max(limited, key=lambda worker: worker.held / worker.limit, default=None)
        self._emit_messages()
        # Results on a worker that died or left are computed again.
        if before is not None:
            self._lost |= {worker.address for worker in before.workers} - {worker.address for worker in state.workers}
        n_again = self._counts.count([state.counts.get(group) for group in self.groups])
        pass_info, (n_blocks, *n_merges) = self._pass_info, self._counts.most
        if n_again:
            current_context().emit(TasksRecomputed(pass_info.fit, pass_info.run, n_again, len(self._lost)))
        self._emit_done(pass_info.n_kept + n_blocks, pass_info.n_kept_merges + sum(n_merges))

    def finish(self) -> None:
        """Emit that all tasks are done."""
        self._emit_messages()
        if current_context().counts_blocks:
            self._emit_done(self._pass_info.n_blocks, self._pass_info.n_merges)

    def check_stalled(self) -> None:
        """Warn if no task ended for ``dspectral.wait-warning``; raise an error after the limit of the reason."""
        now = self._clock()
        silent = now - self._answered
        seconds = max(now - self._moved, silent)
        if seconds < self._first:
            return
        if self._state is None or silent >= self._first:
            sentence = (
                f"the scheduler at {get_scheduler_address(self._client)} has not answered for {silent:.3g} s"
                f"{self._silence}; check that it runs and can be reached, or restart it and its workers"
            )
            reason = StallReason("scheduler", sentence, self._limit)
        else:
            reason = find_stall_reason(self._state, self._first, self._limit)
        if reason.why != self.why:
            self.why, self._why_since = reason.why, now - (self._first if not self.why else 0.0)
        name = f"the pass {self._pass_info.name}"
        if now - self._why_since >= reason.limit:
            raise ClusterError(f"{name} was ended after {seconds:.3g} s without progress: {reason.sentence}")
        if seconds >= self._next:
            self._next = 2 * seconds
            sentence = f"{name} has finished no task for {seconds:.3g} s: {reason.sentence}"
            event = PassStalled(self._pass_info.fit, self._pass_info.run, reason.why, seconds, sentence)
            current_context().emit(event, self._client)
            warnings.warn(sentence, RuntimeWarning, stacklevel=2)

    def _emit_messages(self) -> None:
        """Emit the events that workers have sent."""
        while True:
            try:
                message = self._messages.get_nowait()
            except Empty:
                return
            kind = WORKER_EVENTS.get(message["event"]) if "worker" in message else None
            belongs_to_pass = message.get("run", self._pass_info.run) == self._pass_info.run
            # Workers in this process have emitted their events here, except for merges.
            if kind is not None and belongs_to_pass and (kind is SummariesMerged or message["sender"] != SENDER):
                current_context().emit(kind(*(message[field] for field in kind._fields)))

    def _emit_done(self, n_blocks: int, n_merges: int) -> None:
        if (n_blocks, n_merges) != self._emitted:
            self._emitted = n_blocks, n_merges
            current_context().emit(BlocksDone(self._pass_info.fit, self._pass_info.run, n_blocks, n_merges))


def _get_progress_marks(state: ClusterState) -> object:
    """Return values that change with any progress: finished tasks, running tasks, spilled bytes."""
    return state.counts, sorted(worker.task for worker in state.workers), state.spilled


def find_stall_reason(state: ClusterState, warn_after: float, limit: float) -> StallReason:
    """Return why a pass makes no progress, from the state of its cluster."""
    workers = state.workers
    if not workers:
        advice = "start workers, which continue the pass, or check why the previous workers ended"
        return StallReason("no workers", f"the cluster has no workers; {advice}", limit)
    quiet = [worker for worker in workers if worker.silent >= max(MIN_SILENCE, warn_after / 2)]
    alive = [worker for worker in workers if worker not in quiet]
    paused = [worker for worker in alive if worker.status == "paused"]
    busy = max((worker for worker in alive if worker.task), key=lambda worker: worker.seconds, default=None)
    if busy is not None:
        sentence = f"{task_label(busy.task)} has run for {busy.seconds:.3g} s on {busy.address}"
        sentence += "; this is not an error; for shorter tasks use smaller blocks"
        return StallReason("task", sentence, float("inf"))
    # After `worker-ttl` seconds without a heartbeat the scheduler moves the tasks of a worker to others.
    later = limit if len(paused) + len(quiet) == len(workers) else max(limit, 2 * (state.ttl or 0.0))
    if paused:
        share = float(dask.config.get("distributed.worker.memory.pause", 0.8) or 1.0)
        held = [
            f"{worker.address} holds {format_bytes(worker.held)} of {format_bytes(worker.limit)}" for worker in paused
        ]
        hundreds = -(-int(max(worker.held for worker in paused) * MEMORY_MARGIN / share) // 100_000_000)
        advice = MEMORY_ADVICE.replace("more memory", f"at least {hundreds * 100} MB of memory")
        sentence = (
            f"{len(paused)} of {len(workers)} workers are paused because they hold more than {share:.0%} of their "
            f"memory limit ({join_first(held)}), and no task runs; {advice}"
        )
        all_paused = len(paused) == len(workers)
        return StallReason("paused", sentence, min(later, 2 * warn_after) if all_paused else later)
    if quiet:
        silent = join_first([f"{worker.address} for {worker.silent:.3g} s" for worker in quiet])
        after = f"after {state.ttl:.3g} s of silence" if state.ttl else "never"
        sentence = (
            f"{len(quiet)} of {len(workers)} workers sent no heartbeat ({silent}); check that they run and can be "
            f"reached; the scheduler moves the tasks of a silent worker {after} (distributed.scheduler.worker-ttl)"
        )
        return StallReason("silent", sentence, later)
    sentence = f"no task runs on any of the {len(workers)} workers; check Dask's dashboard and the logs"
    return StallReason("unknown", sentence, later)


def get_scheduler_address(client: Client) -> str:
    """Return the address of the scheduler of a client, for messages."""
    return str(getattr(client.scheduler, "address", None) or "an unknown address")


def compute_on_cluster(client: Client, pass_info: PassStarted, graph: Any, keys: Any, **options: Any) -> Any:
    """Compute a graph on a cluster, with the signature of a Dask scheduler function."""
    start = time.monotonic()
    monitor = PassMonitor(client, pass_info)
    while client.status == "connecting":
        # The client lost its connection after the previous pass. A graph sent before it reconnects would be lost.
        time.sleep(RECONNECT_SECONDS)
        monitor.check_stalled()
    if client.status != "running":
        raise ClusterError(_describe_lost_connection(client, pass_info, 0.0))
    try:
        with monitor:
            return _gather_results(client, client.get(graph, keys, sync=False, **options), monitor)
    except (concurrent.futures.CancelledError, asyncio.CancelledError) as error:
        raise ClusterError(_describe_lost_connection(client, pass_info, time.monotonic() - start)) from error
    except Exception as error:
        if explanation := _explain_error(error, pass_info, monitor.fullest_worker):
            raise ClusterError(explanation) from error
        raise


def _gather_results(client: Client, futures: list[Any], monitor: PassMonitor) -> Any:
    """Wait for results and poll the state of the pass; after a stall, gather results through the scheduler."""
    direct = True if client.direct_to_workers is None and has_only_local_workers(client) else None
    gathered = submit(client, client.gather, futures, direct=direct)
    requests = None
    try:
        # Every wait has a timeout, so `check_stalled` can end a pass without progress or answers.
        while not concurrent.futures.wait([gathered], timeout=monitor.interval).done:
            if requests is None:
                question = partial(get_cluster_state, move_tasks=monitor.why == "paused")
                requests = submit(client, client.run_on_scheduler, question, monitor.groups)
            concurrent.futures.wait([gathered, requests], monitor.interval, concurrent.futures.FIRST_COMPLETED)
            if requests.done():
                try:
                    monitor.update(requests.result())
                except Exception as error:  # noqa: BLE001  any error of a lost connection
                    monitor.record_failure(error)
                requests = None
            monitor.check_stalled()
            if direct and monitor.idle_seconds >= get_wait_warning():
                direct = None
                gathered.cancel()
                gathered = submit(client, client.gather, futures, direct=direct)
        monitor.finish()
        return copy_unaligned(gathered.result())
    finally:
        # Released futures are cancelled on the scheduler, also after an error or an interrupt.
        for future in flatten(futures):
            future.release()
        concurrent.futures.wait([gathered], timeout=RECONNECT_SECONDS)
        for request in (gathered, requests):
            if request is not None:
                request.cancel()


def _describe_lost_connection(client: Client, pass_info: PassStarted, seconds: float) -> str:
    if client.status == "running":
        return (
            f"the pass {pass_info.name} was cancelled after {seconds:.3g} s by a restart of the cluster at "
            f"{get_scheduler_address(client)} or by another program: run it again"
        )
    return (
        f"the connection to the scheduler at {get_scheduler_address(client)} was lost {seconds:.3g} s after the pass "
        f"{pass_info.name} started: check that the scheduler runs, and run it again"
    )


def _explain_error(error: Exception, pass_info: PassStarted, fullest_worker: WorkerState | None) -> str:
    """Return a sentence that explains an error of Dask's cluster; an empty text for any other error."""
    # By name, because importing distributed is slow.
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "KilledWorker" in kinds:
        n_workers = int(getattr(error, "allowed_failures", 0)) + 1
        ended = f"{n_workers} workers ended, one after another," if n_workers > 1 else "1 worker ended"
        sizes = fullest_worker and (
            format_bytes(fullest_worker.held),
            format_bytes(fullest_worker.limit),
        )
        memory_note = f" (the fullest worker held {sizes[0]} of its limit of {sizes[1]})" if sizes else ""
        return (
            f"{ended} while computing {task_label(str(getattr(error, 'task', '')))} of the pass {pass_info.name}, "
            f"usually for lack of memory{memory_note}: see the log of the worker; {MEMORY_ADVICE}"
        )
    text = " ".join(str(error).split())
    # Raised if distributed.scheduler.no-workers-timeout is set.
    if kinds & {"NoWorkerError", "NoValidWorkerError"}:
        return f"the pass {pass_info.name} was ended by the scheduler: {text}"
    if kinds & {"CommClosedError", "ClosedClientError"}:
        return f"the pass {pass_info.name} lost its cluster ({text}): check that it runs, and run the pass again"
    if isinstance(error, RuntimeError) and "deserialization of the task graph" in text:
        return (
            f"the scheduler cannot unpickle the tasks of the pass {pass_info.name} ({error.__cause__ or text}): "
            "install the packages of this process there, in the same versions"
        )
    return ""
