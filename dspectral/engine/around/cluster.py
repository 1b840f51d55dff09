"""Questions to a ``dask.distributed`` cluster that end in time, and whether its machines fit together."""

import asyncio
import concurrent.futures
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from socket import gethostname
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from dspectral.configuration import get_wait_warning, requires_same_bits
from dspectral.engine.around.events import LOGGER, Client, Scheduler
from dspectral.engine.graph import Graph, guard_tasks
from dspectral.linalg.blas import facts

MAX_SILENCE = 30.0
"""Seconds after which a worker that was not heard of is not asked: the largest clusters hear of theirs every ten."""
INTERVAL = 5.0
"""Seconds between two comparisons of one cluster, unless ``dspectral.same-bits`` is true."""
MAX_NAMES = 3
"""Machines that a sentence names."""


class ClusterError(RuntimeError):
    """A cluster cannot compute a pass: no workers, no memory, no scheduler, or machines that do not fit together."""


def submit(
    client: Client, question: Callable[..., Any], *arguments: Any, **options: Any
) -> "concurrent.futures.Future[Any]":
    """Call a method of a client in its own loop, without waiting."""

    async def call() -> Any:
        return await question(*arguments, **options)

    return asyncio.run_coroutine_threadsafe(call(), client.loop.asyncio_loop)


def query(client: Client, question: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return the answer of a cluster to a question within ``dspectral.wait-warning``."""
    answer = submit(client, question, *arguments, **options)
    try:
        return answer.result(get_wait_warning())
    except TimeoutError as error:
        answer.cancel()
        raise TimeoutError(f"no answer within {get_wait_warning():.3g} s") from error


def query_or_none(client: Client, question: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return the answer of a cluster to a question, None where it does not answer: the pass that follows says why."""
    try:
        return query(client, question, *arguments, **options)
    except (OSError, RuntimeError, ImportError):
        LOGGER.debug("the cluster did not answer", exc_info=True)
        return None


def get_live_workers(dask_scheduler: Scheduler) -> list[str]:
    """Return the addresses of the workers, on the scheduler."""
    heard = time.time() - MAX_SILENCE
    return [one.address for one in dask_scheduler.workers.values() if one.last_seen > heard]


@dataclass
class _WorkerEnvironments:
    """The workers of one client: the host of each and its facts, when they were asked, and what was said of them."""

    workers: dict[str, tuple[str, Mapping[str, str]]] = field(default_factory=dict)
    asked: float = -INTERVAL
    said: str = ""


_ENVIRONMENTS: "WeakKeyDictionary[Client, _WorkerEnvironments]" = WeakKeyDictionary()


def _get_host_and_environment() -> tuple[str, dict[str, str]]:
    return gethostname(), facts()


def require_same_bits(graph: Graph) -> Graph:
    """Return the same tasks, refused on workers unlike this process, which may join after others were compared."""
    return guard_tasks(graph, require_same_environment, facts())


def require_same_environment(
    function: Callable[..., Any], _label: str, expected: Mapping[str, str], /, *arguments: Any, **options: Any
) -> Any:
    """Call the function of a task, or refuse where this process differs from the one that wants the result."""
    if facts() != expected:
        said = describe_differences(
            {"the process of the fit": expected, f"a worker on {gethostname()}": facts()}
        )
        raise ClusterError(f"dspectral.same-bits is true, but a worker that joined differs: {said}")
    return function(*arguments, **options)


def compare_machines(client: Client) -> None:
    """Compare all workers of a cluster with each other and with this process; each is asked once."""
    known, strict = _ENVIRONMENTS.setdefault(client, _WorkerEnvironments()), requires_same_bits()
    if not strict and time.monotonic() - known.asked < INTERVAL:
        return
    addresses = set(query_or_none(client, client.run_on_scheduler, get_live_workers) or ())
    known.asked = time.monotonic()
    if new := sorted(addresses - known.workers.keys()):
        answers = (
            query_or_none(client, client.run, _get_host_and_environment, workers=new, on_error="return") or {}
        )
        failed = {address: error for address, error in answers.items() if isinstance(error, ImportError)}
        if failed:
            error = next(iter(failed.values()))
            raise ClusterError(
                f"{join_first(sorted(failed))} cannot import {error.name or 'what passes need'} ({error}): install "
                "dspectral in the same version as here on every worker"
            ) from error
        known.workers |= {address: one for address, one in answers.items() if isinstance(one, tuple)}
    known.workers = {address: known.workers[address] for address in addresses & known.workers.keys()}
    said = describe_differences(
        {"this process": facts()} | {name: one for name, (_, one) in known.workers.items()}
    )
    if said and strict:
        raise ClusterError(
            f"dspectral.same-bits is true, but results may differ in their last bits: {said}; use machines of one kind "
            "(OPENBLAS_CORETYPE and NUMBA_CPU_NAME can make them so), or set dspectral.same-bits to false"
        )
    if said and said != known.said:
        sentence = f"machines of the cluster differ, and so may the last bits of results: {said}"
        LOGGER.warning("%s", sentence)
        warnings.warn(sentence, RuntimeWarning, stacklevel=2)
    known.said = said


def has_only_local_workers(client: Client) -> bool:
    """Report whether all workers of a cluster were on this machine when they were compared."""
    workers = _ENVIRONMENTS.setdefault(client, _WorkerEnvironments()).workers
    return bool(workers) and all(is_local_worker(address, host) for address, (host, _) in workers.items())


def get_machine_kinds(client: Client | None) -> list[str]:
    """Return the kinds of machines that compute, as far as workers say theirs."""
    if client is not None:
        compare_machines(client)
    workers = _ENVIRONMENTS[client].workers if client in _ENVIRONMENTS else {}
    return sorted({str(one) for _host, one in workers.values()} or {str(facts())})


def is_local_worker(address: str, host: str) -> bool:
    """Report whether a worker is one that this process reaches on this machine, and at no other end of a tunnel."""
    try:
        return host == gethostname() and ip_address(urlsplit(address).hostname or "").is_loopback
    except ValueError:  # a name, or no host at all
        return False


def describe_differences(machines: Mapping[str, Mapping[str, str]]) -> str:
    """Return in what machines differ.

    >>> differences({"a": {"BLAS": "Haswell"}, "b": {"BLAS": "Haswell"}, "c": {"BLAS": "Prescott"}})
    'BLAS is Prescott on c, and Haswell on the 2 others'
    """
    parts = []
    for name in dict.fromkeys(name for one in machines.values() for name in one):
        values = {machine: one.get(name, "absent") for machine, one in machines.items()}
        (most, n_most), *others = Counter(values.values()).most_common()
        if others:
            odd = [
                f"{value} on {join_first([m for m in values if values[m] == value])}" for value, _n in others
            ]
            rest = "the other" if n_most == 1 else f"the {n_most} others"
            parts.append(f"{name} is {', '.join(odd)}, and {most} on {rest}")
    return "; ".join(parts)


def join_first(names: Sequence[str]) -> str:
    """Return some names for a sentence, and how many more there are."""
    return ", ".join(names[:MAX_NAMES]) + (
        f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    )
