"""Run a pass on a Dask cluster: submit it, monitor its progress, and raise an error if it stalls."""

import asyncio
import concurrent.futures
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from dask.core import flatten
from dask.utils import format_bytes

from dspectral.configuration import get_wait_limit, get_wait_warning
from dspectral.engine.around.callbacks import (
    CALLBACKS,
    LOGGER,
    TOPIC,
    BlocksDone,
    Client,
    PassStarted,
    Scheduler,
    TaskRetried,
    call_hooks,
)
from dspectral.engine.around.cluster import ClusterError, join_first, submit
from dspectral.engine.around.context import emit, is_watched
from dspectral.engine.graph import task_label
from dspectral.linalg.blas import copy_unaligned

RECONNECT_SECONDS = 0.1
"""Seconds between two checks of a client that reconnects."""
WATCHED_INTERVAL, UNWATCHED_INTERVAL = 0.5, 5.0
"""Seconds between two requests to the scheduler, with and without callbacks."""
MIN_SILENCE = 2.0
"""Seconds without a heartbeat that are normal: workers of large clusters send one every few seconds."""
DONE_STATES = ("memory", "released", "forgotten", "erred")
"""States of Dask tasks that need not run any more."""
MEMORY_ADVICE = (
    "give each worker more memory (memory_limit of LocalCluster, --memory-limit of `dask worker`), or make blocks "
    "smaller (block_rows, block_size) or summaries (sketch_size, n_components)"
)
ENDED_BY_SCHEDULER = {"KilledWorker", "NoWorkerError", "NoValidWorkerError", "CommClosedError", "ClosedClientError"}
"""Names of errors of a cluster; by name, because importing distributed is slow."""


class ClusterState(NamedTuple):
    """State of a pass on the scheduler.

    `counts`: finished tasks of each group; `running`: label and address of tasks that run on workers with a recent
    heartbeat; `addresses`: workers; `troubles`: paused and silent workers, as texts; `spilled`: MiB on disk; `limit`:
    minimum seconds until Dask has moved the tasks of silent workers to others.
    """

    counts: dict[str, int]
    running: tuple[tuple[str, str], ...]
    addresses: frozenset[str]
    troubles: tuple[str, ...] = ()
    spilled: int = 0
    limit: float = 0.0


def get_cluster_state(
    groups: Sequence[str], dask_scheduler: Scheduler, *, max_silence: float, move_tasks: bool = False
) -> ClusterState:
    """Return the state of task groups and workers. This function runs on the scheduler.

    With `move_tasks` tasks of these groups that wait on paused workers are assigned to others: Dask steals no task of a
    few milliseconds, and not the last one of each thread.
    """
    task_groups, workers, now = dask_scheduler.task_groups, list(dask_scheduler.workers.values()), time.time()
    counts = {
        name: sum(task_groups[name].states.get(s, 0) for s in DONE_STATES) for name in groups if name in task_groups
    }
    running, troubles = [], []
    for worker in workers:
        if now - worker.last_seen > max_silence:
            troubles.append(f"{worker.address} sent no heartbeat for {now - worker.last_seen:.3g} s")
            continue
        if worker.status.name == "paused":
            held, limit = format_bytes(worker.memory.process), format_bytes(worker.memory_limit or 0)
            troubles.append(f"{worker.address} is paused with {held} of {limit} in use")
            if move_tasks and dask_scheduler.running:
                keys = [t.key for t in worker.processing if t not in worker.executing and t.group.name in groups]
                dask_scheduler.transitions(dict.fromkeys(keys, "released"), f"paused-{now}")
        running += [(str(task.key), worker.address) for task in worker.executing if task is not None]
    has_live = len(troubles) < len(workers)
    limit = 2 * (dask_scheduler.worker_ttl or 0.0) if has_live else 0.0
    spilled = sum(int(worker.memory.spilled) for worker in workers) >> 20
    addresses = frozenset(worker.address for worker in workers)
    return ClusterState(counts, tuple(sorted(running)), addresses, tuple(troubles), spilled, limit)


class PassMonitor:
    """Emit the finished tasks of a pass on a cluster, and raise an error if it stalls."""

    def __init__(self, client: Client, pass_info: PassStarted, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._pass_info, self._clock = client, pass_info, clock
        self._warn_after = self._next = get_wait_warning()
        self.interval = min(WATCHED_INTERVAL if is_watched() else UNWATCHED_INTERVAL, self._warn_after / 4)
        # Invariant: _moved <= _active <= _answered, the times of the last progress, of the last progress or running
        # task, and of the last answer.
        self._moved = self._active = self._answered = clock()
        self._state = ClusterState({}, (), frozenset())
        self._failure = ""
        self._n_repeated, self._lost = 0, frozenset[str]()

    def request_state(self) -> "concurrent.futures.Future[ClusterState]":
        """Ask the scheduler for the state of the pass."""
        groups = (self._pass_info.block_group, *self._pass_info.merge_groups)
        max_silence = max(MIN_SILENCE, self._warn_after / 2)
        is_stalled = self._clock() - self._moved >= self._warn_after
        question = partial(get_cluster_state, max_silence=max_silence, move_tasks=is_stalled)
        return submit(self._client, self._client.run_on_scheduler, question, groups)

    def record_failure(self, error: BaseException) -> None:
        """Record why the scheduler did not answer; :meth:`check_stalled` decides when to give up."""
        self._failure = ": " + (" ".join(str(error).split()) or type(error).__name__)

    def update(self, state: ClusterState) -> None:
        """Compare a state with the previous one, and emit the finished tasks if they changed."""
        before, self._state, self._failure = self._state, state, ""
        self._answered = self._clock()
        if state[:2] != before[:2] or state.spilled != before.spilled:
            self._moved, self._next = self._answered, self._warn_after
        if state.running or self._moved == self._answered:
            self._active = self._answered
        if state.counts != before.counts:
            # Results on a worker that died or left are computed again.
            self._lost |= before.addresses - state.addresses
            self._n_repeated += sum(max(0, n - state.counts.get(group, n)) for group, n in before.counts.items())
            counts, started = {**before.counts, **state.counts}, self._pass_info
            n_merges = sum(counts.get(group, 0) for group in started.merge_groups)
            self._emit(started.n_kept + counts.get(started.block_group, 0), started.n_kept_merges + n_merges)

    def finish(self) -> None:
        """Emit that all tasks are done."""
        self._emit(self._pass_info.n_blocks, self._pass_info.n_merges)

    def _emit(self, n_blocks: int, n_merges: int) -> None:
        if is_watched():
            emit(BlocksDone(self._pass_info.run, n_blocks, n_merges, self._n_repeated, len(self._lost)))

    def check_stalled(self) -> None:
        """Warn if no task ended for ``dspectral.wait-warning``; raise an error if none runs for ``wait-limit``."""
        now, limit, state = self._clock(), get_wait_limit(), self._state
        seconds, name = now - self._moved, f"the pass {self._pass_info.name}"
        if now - self._answered >= self._warn_after:
            reason = (
                f"the scheduler at {get_scheduler_address(self._client)} has not answered for "
                f"{now - self._answered:.3g} s{self._failure}; check that it runs and can be reached, or restart it"
            )
        elif state.running:
            key, address = state.running[0]
            reason = f"{task_label(key)} runs on {address}; this is not an error; for shorter tasks use smaller blocks"
        elif not state.addresses:
            reason = "the cluster has no workers; start workers, which continue the pass, or check why they ended"
        else:
            limit = max(limit, state.limit)
            troubles = f" ({join_first(state.troubles)})" if state.troubles else ""
            reason = f"no task runs on any of the {len(state.addresses)} workers{troubles}; check their logs"
            reason += f"; {MEMORY_ADVICE}" if "paused" in troubles else ""
        if now - self._active >= limit:
            raise ClusterError(f"{name} was ended after {seconds:.3g} s without progress: {reason}")
        if seconds >= self._next:
            self._next = 2 * seconds
            sentence = f"{name} has finished no task for {seconds:.3g} s: {reason}"
            LOGGER.warning("%s", sentence)
            warnings.warn(sentence, RuntimeWarning, stacklevel=2)


def get_scheduler_address(client: Client) -> str:
    """Return the address of the scheduler of a client, for messages."""
    return str(getattr(client.scheduler, "address", None) or "an unknown address")


def receive_retry(event: tuple[float, Any]) -> None:
    """Call the hooks of a retry that a worker has sent."""
    message = dict(event[1])
    if message.pop("event", "") == "TaskRetried":
        call_hooks(TaskRetried(*(message[field] for field in TaskRetried._fields)), tuple(CALLBACKS))


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
        client.subscribe_topic(TOPIC, receive_retry)
        return _gather_results(client, client.get(graph, keys, sync=False, **options), monitor)
    except (concurrent.futures.CancelledError, asyncio.CancelledError) as error:
        raise ClusterError(_describe_lost_connection(client, pass_info, time.monotonic() - start)) from error
    except Exception as error:
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if not kinds & ENDED_BY_SCHEDULER:
            raise
        task = f" at {task_label(str(getattr(error, 'task', '')))}" if "KilledWorker" in kinds else ""
        advice = f"; usually for lack of memory: {MEMORY_ADVICE}" if task else ": check that the cluster runs"
        raise ClusterError(f"the pass {pass_info.name} was ended{task} ({error}){advice}") from error


def _gather_results(client: Client, futures: list[Any], monitor: PassMonitor) -> Any:
    """Wait for results, and poll the state of the pass."""
    gathered, request = submit(client, client.gather, futures), None
    try:
        # Every wait has a timeout, so `check_stalled` can end a pass without progress or answers.
        while not concurrent.futures.wait([gathered], timeout=monitor.interval).done:
            request = monitor.request_state() if request is None else request
            concurrent.futures.wait([gathered, request], monitor.interval, concurrent.futures.FIRST_COMPLETED)
            if request.done():
                try:
                    monitor.update(request.result())
                except Exception as error:  # noqa: BLE001  any error of a lost connection
                    monitor.record_failure(error)
                request = None
            monitor.check_stalled()
        monitor.finish()
        return copy_unaligned(gathered.result())
    finally:
        # Released futures are cancelled on the scheduler, also after an error or an interrupt.
        for future in flatten(futures):
            future.release()
        concurrent.futures.wait([gathered], timeout=RECONNECT_SECONDS)
        for pending in (gathered, request):
            if pending is not None:
                pending.cancel()


def _describe_lost_connection(client: Client, pass_info: PassStarted, seconds: float) -> str:
    cause = "was cancelled by a restart of the cluster or by another program"
    if client.status != "running":
        cause = "lost its connection to the scheduler: check that it runs"
    address = get_scheduler_address(client)
    return f"the pass {pass_info.name} at {address}, started {seconds:.3g} s before, {cause}; run it again"
