"""Requests to a ``dask.distributed`` cluster with a timeout, and comparison of its machines."""

import asyncio
import concurrent.futures
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from socket import gethostname
from typing import Any
from weakref import WeakKeyDictionary

from dspectral.configuration import get_wait_warning, requires_same_bits
from dspectral.engine.around.callbacks import LOGGER, Client, Scheduler
from dspectral.engine.graph import Graph, Key, guard_tasks
from dspectral.linalg.blas import numeric_environment

MAX_SILENCE = 30.0
"""Workers without a heartbeat for this many seconds are skipped: the largest clusters send one every ten."""
COMPARISON_SECONDS = 5.0
"""Seconds between two comparisons of the machines of a cluster, unless ``dspectral.same-bits`` is true."""
MAX_NAMES = 3
"""Maximum number of machines that a message names."""


class ClusterError(RuntimeError):
    """A cluster cannot compute a pass: no workers, memory or scheduler, or machines that differ."""


def submit(
    client: Client, method: Callable[..., Any], *arguments: Any, **options: Any
) -> "concurrent.futures.Future[Any]":
    """Call a method of a client in its event loop; return a future."""

    async def call() -> Any:
        return await method(*arguments, **options)

    return asyncio.run_coroutine_threadsafe(call(), client.loop.asyncio_loop)


def query(client: Client, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a method of a client and wait for its result, at most ``dspectral.wait-warning``."""
    answer = submit(client, method, *arguments, **options)
    try:
        return answer.result(get_wait_warning())
    except TimeoutError as error:
        answer.cancel()
        raise TimeoutError(f"the cluster did not answer within {get_wait_warning():.3g} s") from error


def try_query(client: Client, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return the result of ``query``, or None if it fails: the next pass raises the error."""
    try:
        return query(client, method, *arguments, **options)
    except (OSError, RuntimeError, ImportError):
        LOGGER.debug("the cluster did not answer", exc_info=True)
        return None


def get_live_workers(dask_scheduler: Scheduler) -> list[str]:
    """Return the addresses of workers with a recent heartbeat. This function runs on the scheduler."""
    earliest = time.time() - MAX_SILENCE
    return [worker.address for worker in dask_scheduler.workers.values() if worker.last_seen > earliest]


@dataclass
class _WorkerEnvironments:
    """Numeric environment of each worker of a client, time of the last request, and last warning."""

    workers: dict[str, Mapping[str, str]] = field(default_factory=dict)
    time: float = -COMPARISON_SECONDS
    warning: str = ""


_ENVIRONMENTS: "WeakKeyDictionary[Client, _WorkerEnvironments]" = WeakKeyDictionary()


def require_same_bits(graph: Graph) -> Graph:
    """Return tasks that raise an error on workers whose numeric environment differs from this process."""
    return guard_tasks(graph, require_same_environment, numeric_environment())


def require_same_environment(
    function: Callable[..., Any], _label: str, expected: Mapping[str, str], /, *arguments: Any, **options: Any
) -> Any:
    """Call the function of a task, or raise ClusterError if this process differs from the process of the fit."""
    if numeric_environment() != expected:
        differences = describe_differences(
            {"the process of the fit": expected, f"a worker on {gethostname()}": numeric_environment()}
        )
        raise ClusterError(
            f"dspectral.same-bits is true, but a new worker differs: {differences}; use machines of one kind"
        )
    return function(*arguments, **options)


def compare_machines(client: Client) -> None:
    """Compare the numeric environments of all workers and this process; each worker is queried once."""
    cached, strict = _ENVIRONMENTS.setdefault(client, _WorkerEnvironments()), requires_same_bits()
    if not strict and time.monotonic() - cached.time < COMPARISON_SECONDS:
        return
    addresses = set(try_query(client, client.run_on_scheduler, get_live_workers) or ())
    cached.time = time.monotonic()
    if new_addresses := sorted(addresses - cached.workers.keys()):
        answers = try_query(client, client.run, numeric_environment, workers=new_addresses, on_error="return") or {}
        failed = {address: error for address, error in answers.items() if isinstance(error, ImportError)}
        if failed:
            error = next(iter(failed.values()))
            raise ClusterError(
                f"{join_first(sorted(failed))} cannot import {error.name or 'a package'} ({error}): install "
                "dspectral in the same version as here on every worker"
            ) from error
        cached.workers |= {address: answer for address, answer in answers.items() if isinstance(answer, dict)}
    cached.workers = {address: cached.workers[address] for address in addresses & cached.workers.keys()}
    differences = describe_differences({"this process": numeric_environment(), **cached.workers})
    if differences and strict:
        raise ClusterError(
            f"dspectral.same-bits is true, but machines differ: {differences}; use machines of one kind, set "
            "OPENBLAS_CORETYPE and NUMBA_CPU_NAME on all of them, or set dspectral.same-bits to false"
        )
    if differences and differences != cached.warning:
        sentence = f"machines of the cluster differ, so the last bits of results may differ: {differences}"
        LOGGER.warning("%s", sentence)
        warnings.warn(sentence, RuntimeWarning, stacklevel=2)
    cached.warning = differences


def get_machine_kinds(client: Client | None) -> list[str]:
    """Return the known numeric environments of the processes that compute, as texts."""
    if client is not None:
        compare_machines(client)
    workers = _ENVIRONMENTS[client].workers if client in _ENVIRONMENTS else {}
    return sorted(set(map(str, workers.values())) or {str(numeric_environment())})


def assign_workers(client: Client, leaves: Sequence[Key]) -> dict[Key, str]:
    """Return the preferred worker of each block task; most merges of neighbors then need no transfer.

    The scheduler alone would give each next block to the next free worker. An idle worker may still take any block.
    """
    n_threads = try_query(client, client.nthreads) or {}
    slots = [address for address in sorted(n_threads) for _ in range(n_threads[address])]
    return {leaf: slots[i * len(slots) // len(leaves)] for i, leaf in enumerate(leaves) if len(n_threads) > 1}


def describe_differences(machines: Mapping[str, Mapping[str, str]]) -> str:
    """Return a sentence that lists the differences between machines.

    >>> describe_differences({"a": {"BLAS": "Haswell"}, "b": {"BLAS": "Haswell"}, "c": {"BLAS": "Prescott"}})
    'BLAS is Prescott on c, and Haswell on the 2 others'
    """
    parts = []
    for name in dict.fromkeys(name for environment in machines.values() for name in environment):
        values = {machine: environment.get(name, "absent") for machine, environment in machines.items()}
        (majority, n_majority), *minorities = Counter(values.values()).most_common()
        if minorities:
            deviations = [
                f"{value} on {join_first([m for m in values if values[m] == value])}" for value, _n in minorities
            ]
            rest = "the other" if n_majority == 1 else f"the {n_majority} others"
            parts.append(f"{name} is {', '.join(deviations)}, and {majority} on {rest}")
    return "; ".join(parts)


def join_first(names: Sequence[str]) -> str:
    """Join the first names for a message, and add the number of the others."""
    return ", ".join(names[:MAX_NAMES]) + (f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else "")
