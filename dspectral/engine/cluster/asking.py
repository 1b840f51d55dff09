"""Questions to a cluster that does not always answer: none is waited for without end."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from dspectral.engine.cluster.clients import Client, Scheduler
from dspectral.engine.configuration import wait_warning
from dspectral.engine.events import LOGGER

SILENT = 30.0
"""Seconds after which a worker that was not heard of is not asked: the largest clusters hear of theirs every ten."""


def answer(
    client: Client,
    question: Callable[..., Any],
    *arguments: Any,
    seconds: float | None = None,
    **options: Any,
) -> Any:
    """Return the answer of a cluster to a question."""
    seconds = wait_warning() if seconds is None else seconds

    async def ask() -> Any:
        return await question(*arguments, **options)

    waited = asyncio.run_coroutine_threadsafe(ask(), client.loop.asyncio_loop)
    try:
        return waited.result(seconds)
    except TimeoutError as error:
        waited.cancel()
        raise TimeoutError(f"no answer within {seconds:.3g} s") from error


def asked(
    client: Client,
    question: Callable[..., Any],
    *arguments: Any,
    seconds: float | None = None,
    **options: Any,
) -> Any:
    """Return the answer of a cluster to a question, None where it does not answer soon.

    A pass that follows watches the cluster, and says why it does not answer.
    """
    try:
        return answer(client, question, *arguments, seconds=seconds, **options)
    except (OSError, RuntimeError, ImportError):
        LOGGER.debug("the cluster was not asked", exc_info=True)
        return None


def addresses_of(dask_scheduler: Scheduler) -> list[str]:
    """Return the addresses of the workers, on the scheduler."""
    heard = time.time() - SILENT
    return [one.address for one in dask_scheduler.workers.values() if one.last_seen > heard]
