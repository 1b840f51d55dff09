"""What is used of a ``dask.distributed`` client and its scheduler, and questions to them that end in time."""

import asyncio
import concurrent.futures
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

DONE = ("memory", "released", "forgotten", "erred")
"""States of a scheduler's tasks that need not run any more."""
SILENT = 30.0
"""Seconds after which a worker that was not heard of is not asked: the largest clusters hear of theirs every ten."""


class Scheduler(Protocol):
    """The scheduler of a cluster, in whose process a function asks it.

    `task_groups`: groups by name, each with the number of its tasks in each state; `workers`: workers by address;
    `worker_ttl`: seconds of silence after which a worker is given up.
    """

    task_groups: Mapping[str, Any]
    workers: Mapping[str, Any]
    worker_ttl: float | None

    def get_events(self, topic: str) -> Iterable[tuple[float, dict[str, Any]]]:
        """Return the messages of a topic, with their times."""
        ...


class Client(Protocol):
    """A client of a cluster; what it returns is to be awaited where it is called in its own loop.

    `status`: ``"running"``, ``"connecting"`` after the connection was lost, or ``"closed"``; `direct_to_workers`:
    whether results come from the workers without a detour by the scheduler.
    """

    loop: Any
    scheduler: Any
    status: str
    direct_to_workers: bool | None

    def get(self, graph: Any, keys: Any, *, sync: bool, **options: Any) -> Any:
        """Submit a graph, and return its futures where ``sync`` is False."""
        ...

    def gather(self, futures: Any, *, direct: bool | None) -> Any:
        """Return the results of futures."""
        ...

    def run(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a function on each worker."""
        ...

    def run_on_scheduler(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in the scheduler's process."""
        ...

    def subscribe_topic(self, topic: str, handler: Callable[[Any], None]) -> None:
        """Call a function with each event of a topic, ``(time, message)``, in the client's own loop."""
        ...


class ClusterError(RuntimeError):
    """A cluster cannot compute a pass: no workers, no memory, no scheduler, or machines that do not fit together.

    Its message is one sentence that says what was seen and what would help. Nothing that the pass computed is left on
    the cluster.

    Examples
    --------
    >>> raise ClusterError("the pass sketch has no workers")
    Traceback (most recent call last):
        ...
    dspectral.engine.cluster.clients.ClusterError: the pass sketch has no workers
    """


def submit(
    client: Client, question: Callable[..., Any], *arguments: Any, **options: Any
) -> "concurrent.futures.Future[Any]":
    """Call a method of a client in its own loop, without waiting."""

    async def call() -> Any:
        return await question(*arguments, **options)

    return asyncio.run_coroutine_threadsafe(call(), client.loop.asyncio_loop)


def query(
    client: Client,
    question: Callable[..., Any],
    *arguments: Any,
    seconds: float | None = None,
    **options: Any,
) -> Any:
    """Return the answer of a cluster to a question."""
    from dspectral.engine.configuration import wait_warning  # noqa: PLC0415  Dask is imported with it

    seconds = wait_warning() if seconds is None else seconds
    asked = submit(client, question, *arguments, **options)
    try:
        return asked.result(seconds)
    except TimeoutError as error:
        asked.cancel()
        raise TimeoutError(f"no answer within {seconds:.3g} s") from error


def query_or_none(client: Client, question: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return the answer of a cluster to a question, None where it does not answer: the pass that follows says why."""
    try:
        return query(client, question, *arguments, **options)
    except (OSError, RuntimeError, ImportError):
        logging.getLogger("dspectral").debug("the cluster did not answer", exc_info=True)
        return None


def addresses_of(dask_scheduler: Scheduler) -> list[str]:
    """Return the addresses of the workers, on the scheduler."""
    heard = time.time() - SILENT
    return [one.address for one in dask_scheduler.workers.values() if one.last_seen > heard]
