"""Processes, threads and the memory of each are there to do the work."""

import os
import socket
from typing import Any, NamedTuple

import dask
from dask.utils import parse_bytes

from dspectral.engine.blas import has_controlled_blas
from dspectral.engine.cluster.asking import asked
from dspectral.engine.cluster.clients import Client, Scheduler
from dspectral.engine.cluster.errors import ClusterError
from dspectral.engine.cluster.machines import is_here
from dspectral.engine.configuration import configured_fan_in, wait_warning
from dspectral.engine.planning.process_memory import memory_there, resident_bytes
from dspectral.engine.planning.scales import Machines
from dspectral.engine.telling import client_in_force

ROOM = 0.85
"""Share of a worker's memory limit that a fit may need: Dask's nanny ends a worker at 95 %."""
KEY = "dspectral.worker-memory"


class Resources(NamedTuple):
    """The processes and threads that do the work, and how much memory they have.

    `machines`: processes and threads; `limit`: bytes that a process may have; `resident`: bytes of a worker,
    or of this process, as it is now; `has_worked`: whether all workers have run a task before; `what`: the
    setting that says how much memory there is, for messages; `on_this_machine`: whether the workers share the
    processors of this machine.
    """

    machines: Machines
    limit: int | None
    resident: int
    has_worked: bool
    what: str
    on_this_machine: bool


def resources(workers: int | None = None, memory_limit: str | float | None = None) -> Resources:
    """Return what would do the work of a fit now."""
    fan_in = configured_fan_in()
    limit = None if memory_limit in (None, "auto") else as_bytes("memory_limit", memory_limit) or None
    if workers is not None:
        share = memory_there() // workers
        there = limit if memory_limit not in (None, "auto") else share
        return Resources(Machines(workers, 1, fan_in), there, 0, False, "memory_limit", True)
    client = client_in_force()
    if client is not None:
        return _of_client(client, fan_in, limit)
    if limit is None:
        limit = configured_memory()
    return Resources(Machines(0, n_threads_here(), fan_in), limit, resident_bytes(), True, KEY, True)


def configured_memory() -> int:
    """Return the bytes that this process may have where its threads do the work."""
    value = dask.config.get(KEY, None)
    return memory_there() if value is None else as_bytes(KEY, value)


def as_bytes(name: str, value: Any) -> int:
    """Read a size of memory.

    >>> as_bytes("memory_limit", "2 kB")
    2000
    """
    try:
        return int(parse_bytes(value))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name} is {value!r}, but it must be a number of bytes such as '4 GB'") from error


def _of_client(client: Client, fan_in: int, limit: int | None) -> Resources:
    workers = asked(client, client.run_on_scheduler, workers_of)
    if workers is None:
        raise ClusterError(
            f"the scheduler did not answer within {wait_warning():.3g} s, so nothing can be planned: see whether it "
            "still runs"
        )
    if not workers:
        raise ValueError("the cluster has no worker, so nothing can be planned: start one, or give workers=N")
    answers = asked(client, client.run, worker_state) or {}
    states = list(answers.values())
    if not states:
        raise ClusterError(
            f"the cluster's {len(workers)} worker(s) did not say how much memory they have within "
            f"{wait_warning():.3g} s, so nothing can be planned: see whether they still run"
        )
    limits = [bytes_ for _threads, bytes_ in workers if bytes_]
    resident = max(state["resident"] for state in states)
    near = all(is_here(address, state["host"]) for address, state in answers.items())
    n_threads = max(threads for threads, _bytes in workers)
    here = worker_state()["host"]
    return Resources(
        Machines(len(workers), n_threads, fan_in, near),
        limit or (min(limits) if limits else None),
        resident,
        all(state["has_worked"] for state in states),
        "memory_limit",
        all(state["host"] == here for state in states),
    )


def workers_of(dask_scheduler: Scheduler) -> list[tuple[int, int | None]]:
    """Return threads and memory limit of each worker, on the scheduler."""
    return [(one.nthreads, one.memory_limit or None) for one in dask_scheduler.workers.values()]


def worker_state() -> dict[str, Any]:
    """Return what the process that this runs in is."""
    return {"host": socket.gethostname(), "resident": resident_bytes(), "has_worked": has_controlled_blas()}


def n_threads_here() -> int:
    """Return how many tasks run at once where this process does the work."""
    if dask.config.get("scheduler", None) in ("sync", "synchronous", "single-threaded"):
        return 1
    known = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(dask.config.get("num_workers", None) or known)
