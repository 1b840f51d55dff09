"""A graph on a cluster: submitted, waited for within bounds, and gathered; what goes wrong becomes one sentence."""

import asyncio
import concurrent.futures
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from dask.core import flatten
from dask.utils import format_bytes

from dspectral.engine.blas import aligned
from dspectral.engine.cluster.clients import Client, ClusterError, submit
from dspectral.engine.cluster.machines import workers_are_here
from dspectral.engine.cluster.watch import MEMORY_KNOBS, Watch, WorkerState, address_of, state_of
from dspectral.engine.configuration import wait_warning
from dspectral.engine.events import PassBegan, task_label

PAUSE = 0.1
"""Seconds between two looks at a client that connects again."""
NEARLY_FULL = 0.5
"""A worker that was seen with this share of its limit may well have died for lack of memory."""
CANCELLED = (concurrent.futures.CancelledError, asyncio.CancelledError)
"""Errors of a future whose scheduler, or whose client, is gone."""


def runs_in_task() -> bool:
    """Report whether this thread runs a task of a worker, as a fit within ``GridSearchCV`` on a cluster does."""
    module = sys.modules.get("distributed.worker")
    return bool(getattr(getattr(module, "thread_state", None), "key", False))


def getter(client: Client, begun: PassBegan) -> Callable[..., Any]:
    """Return a function that computes a graph on a cluster, as ``dask.compute(scheduler=...)`` takes it."""
    return partial(_get, client, begun)


def _get(client: Client, begun: PassBegan, graph: Any, keys: Any, **options: Any) -> Any:
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
    except CANCELLED as error:
        raise ClusterError(_lost(client, begun, time.monotonic() - start)) from error
    except Exception as error:
        if said := _in_words(error, begun, watch.fullest):
            raise ClusterError(said) from error
        raise


def _gathered(client: Client, futures: list[Any], watch: Watch) -> Any:
    """Wait for results, and ask the scheduler meanwhile how far they are.

    Workers of this machine are asked for them without a detour by the scheduler, for which they would make copies. One
    that has stopped would be waited for without end: after a silence it is the scheduler that is asked, who finds out.
    """
    direct = True if client.direct_to_workers is None and workers_are_here(client) else None
    gathered = submit(client, client.gather, futures, direct=direct)
    asked = None
    try:
        # Neither is waited for without end: `judge` gives up when nothing has changed, or nobody answered, for long.
        while not concurrent.futures.wait([gathered], timeout=watch.interval).done:
            if asked is None:
                asked = submit(client, client.run_on_scheduler, state_of, watch.groups)
            both = [gathered, asked]
            concurrent.futures.wait(both, watch.interval, concurrent.futures.FIRST_COMPLETED)
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
        return killed(begun.name, error, fullest)
    text = " ".join(str(error).split())
    if kinds & {
        "NoWorkerError",
        "NoValidWorkerError",
    }:  # where distributed.scheduler.no-workers-timeout is set
        return f"the pass {begun.name} was given up: {text}"
    if kinds & {"CommClosedError", "ClosedClientError"}:
        return f"the pass {begun.name} has lost its cluster ({text}): repeat this once it runs"
    if isinstance(error, RuntimeError) and "deserialization of the task graph" in text:
        return (
            f"the scheduler cannot read the tasks of the pass {begun.name}, most often because it has other versions "
            f"of packages than this process, or not all of them: install the same ones ({error.__cause__ or text})"
        )
    return ""


def killed(name: str, error: BaseException, fullest: WorkerState | None) -> str:
    """Return what distributed's ``KilledWorker`` means, with what was seen of the workers."""
    n_workers = int(getattr(error, "allowed_failures", 0)) + 1
    ended = f"{n_workers} workers ended, one after the other," if n_workers > 1 else "1 worker ended"
    begin = f"{ended} at {task_label(str(getattr(error, 'task', '')))} in the pass {name}"
    if fullest is None or not fullest.limit:
        return f"{begin}, most often for lack of memory: {MEMORY_KNOBS}"
    seen = (
        f"the fullest worker was last seen with {format_bytes(fullest.held)} of its memory limit of "
        f"{format_bytes(fullest.limit)}"
    )
    if fullest.share >= NEARLY_FULL:
        return f"{begin}, most likely for lack of memory, for {seen}: {MEMORY_KNOBS}"
    return (
        f"{begin}; {seen}, so that either this task alone takes more memory than is left, or something else ends its "
        f"worker, which the worker's own log says: {MEMORY_KNOBS}"
    )
