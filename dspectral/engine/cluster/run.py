"""A graph on a cluster: submitted, waited for within bounds, and gathered; what goes wrong becomes one sentence."""

import asyncio
import concurrent.futures
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from dask.core import flatten

from dspectral.engine.blas import aligned
from dspectral.engine.cluster.clients import Client
from dspectral.engine.cluster.errors import ClusterError, killed
from dspectral.engine.cluster.machines import workers_are_here
from dspectral.engine.cluster.poll import INTERVAL, ClusterPoll
from dspectral.engine.cluster.waiting import Vigil, address_of
from dspectral.engine.configuration import wait_warning
from dspectral.engine.events import PassBegan, counts_blocks

MOST_SECONDS = 5.0
"""Seconds between two questions to a scheduler where nobody listens, at most."""
TICK = 0.5
"""Seconds between two looks at the answers, at most."""
PAUSE = 0.1
"""Seconds between two looks at a client that connects again."""
CANCELLED = (concurrent.futures.CancelledError, asyncio.CancelledError)
"""Errors of a future whose scheduler, or whose client, is gone."""


def poll_for(client: Client, begun: PassBegan) -> ClusterPoll:
    """Return what asks the scheduler of a pass: often where somebody listens, now and then where nobody does."""
    seldom = min(MOST_SECONDS, wait_warning() / 4)
    return ClusterPoll(client, begun, min(INTERVAL, seldom) if counts_blocks() else seldom)


def runs_in_task() -> bool:
    """Report whether this thread runs a task of a worker, as a fit within ``GridSearchCV`` on a cluster does."""
    module = sys.modules.get("distributed.worker")
    return bool(getattr(getattr(module, "thread_state", None), "key", False))


def getter(client: Client, begun: PassBegan, poll: ClusterPoll) -> Callable[..., Any]:
    """Return a function that computes a graph on a cluster, as ``dask.compute(scheduler=...)`` takes it."""
    return partial(_get, client, begun, poll)


def _get(client: Client, begun: PassBegan, poll: ClusterPoll, graph: Any, keys: Any, **options: Any) -> Any:
    start = time.monotonic()
    vigil = Vigil(begun, poll, client)
    while client.status == "connecting":
        # It was lost since the last pass, and may come back: what is sent before that would be lost as well.
        time.sleep(PAUSE)
        vigil.look()
    if client.status != "running":
        raise ClusterError(_lost(client, begun, 0.0))
    try:
        return _gathered(client, client.get(graph, keys, sync=False, **options), vigil)
    except CANCELLED as error:
        raise ClusterError(_lost(client, begun, time.monotonic() - start)) from error
    except Exception as error:
        said = _in_words(error, begun, poll)
        if said:
            raise ClusterError(said) from error
        raise


def _gathered(client: Client, futures: list[Any], vigil: Vigil) -> Any:
    """Wait for results, and let the vigil look on.

    Workers of this machine are asked for them without a detour by the scheduler, for which they would make copies. One
    that has stopped would be waited for without end: after a silence it is the scheduler that is asked, who finds out.
    """
    direct = True if client.direct_to_workers is None and workers_are_here(client) else None
    waited = _gathering(client, futures, direct)
    try:
        while not concurrent.futures.wait([waited], timeout=TICK).done:
            vigil.look()
            if direct and vigil.still >= wait_warning():
                waited.cancel()
                direct = None
                waited = _gathering(client, futures, direct)
        return aligned(waited.result())
    finally:
        # What nobody wants any more is not computed, whatever ended the wait; and what waits for it ends by itself.
        for future in flatten(futures):
            future.release()
        concurrent.futures.wait([waited], timeout=TICK)
        waited.cancel()


def _gathering(client: Client, futures: list[Any], direct: bool | None) -> "concurrent.futures.Future[Any]":
    async def gathered() -> Any:
        return await client.gather(futures, direct=direct)

    return asyncio.run_coroutine_threadsafe(gathered(), client.loop.asyncio_loop)


def _lost(client: Client, begun: PassBegan, seconds: float) -> str:
    where = f"the scheduler at {address_of(client)}"
    place = f"{seconds:.3g} s after the pass {begun.name} began"
    if client.status == "running":
        return (
            f"the pass {begun.name} was cancelled after {seconds:.3g} s, by a restart of the cluster at "
            f"{address_of(client)} or by another program that uses it: repeat it"
        )
    return (
        f"the connection to {where} was lost {place}: see whether it still runs, and repeat this once it does"
    )


def _in_words(error: Exception, begun: PassBegan, poll: ClusterPoll) -> str:
    """Return what an error of the cluster means, in a sentence; nothing for any other error."""
    # By their names: a process that has not loaded distributed need not load it for this.
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "KilledWorker" in kinds:
        return killed(begun.name, error, poll.held)
    text = " ".join(str(error).split())
    if kinds & {"CommClosedError", "ClosedClientError"}:
        return f"the pass {begun.name} has lost its cluster ({text}): repeat this once it runs"
    if isinstance(error, RuntimeError) and "deserialization of the task graph" in text:
        return (
            f"the scheduler cannot read the tasks of the pass {begun.name}, most often because it has other versions "
            f"of packages than this process, or not all of them: install the same ones ({error.__cause__ or text})"
        )
    return ""
