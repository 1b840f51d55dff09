"""Where the work runs: threads of this process, workers started for it, or a cluster already there."""

import argparse
import logging
import os
import socket
import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import cloudpickle
import dask
from dask.utils import parse_bytes
from distributed import Client, LocalCluster, Security

from dspectral.dashboard import add_page

from .interrupts import interrupts_held_back, one_interrupt
from .options import PACKAGE

WAIT_SECONDS = 60
"""For the first worker of a cluster that is there already."""
OF_SCHEDULER = {
    # A task that prefers no worker waits in the scheduler until one is free, so that results do not pile up.
    "distributed.scheduler.worker-saturation": 1.0,
    # A worker that is stopped would hold a run for five minutes: all of them are on this machine, and heard of twice a
    # second.
    "distributed.scheduler.worker-ttl": "60s",
    # A worker keeps a tree of what it ran in each cycle: by the second, they grow for as long as it works.
    "distributed.worker.profile.cycle": "60s",
    # By Dask's own 10, 20 and 100 ms, two workers, their nannies and the scheduler take a sixth of a core while idle.
    "distributed.worker.profile.interval": "100ms",
    "distributed.admin.tick.interval": "200ms",
    "distributed.worker.memory.monitor-interval": "200ms",
}
"""What a scheduler that is started here, and its workers, are told."""
HEAP = {
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 4 << 20,
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 16 << 20,
}
"""What workers with memory to spare are told: arrays of up to 4 MiB stay in the heap for the next block, as they do in
other programs. By Dask's own value each is given back to the system and mapped anew, page by page. Larger values bring
little more time, and up to a third more memory."""
MUCH_MEMORY = 1e9
"""Bytes of a worker from which on a heap that keeps so much is no matter."""
TLS = (
    "connections over TLS need certificates, which Dask's configuration names: distributed.comm.tls.ca-file, "
    "distributed.comm.tls.client.cert and distributed.comm.tls.client.key"
)
"""What is missing where no certificates are configured."""
LOOPBACK = "127.0.0.1"
DASHBOARD_PORT = 8787


def cpu_count() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def scheduler(arguments: argparse.Namespace) -> Iterator[Client | None]:
    """Put in force what the options ``--workers``, ``--scheduler`` and ``--memory-limit`` ask for."""
    # Workers elsewhere have dspectral, but need not have these programs: their functions travel by value. Distributed
    # asks for the very module that a function is from, so that naming the package would not do.
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{PACKAGE}.")]:
        cloudpickle.register_pickle_by_value(sys.modules[name])
    logging.getLogger("asyncio").addFilter(_is_worth_telling)
    if not (arguments.scheduler or arguments.workers):
        print(f"runs in this process, on {cpu_count()} threads")
        with dask.config.set(scheduler="threads"):
            yield None
        return
    with one_interrupt():
        if arguments.scheduler:
            with _existing_cluster(arguments.scheduler) as client:
                yield client
        else:
            with _local_cluster(arguments.workers, arguments.memory_limit, debug=arguments.debug) as client:
                yield client


def _is_worth_telling(record: logging.LogRecord) -> bool:
    """Whether a record is more than a future given up when an interrupt closed its client."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or kind.__name__ != "AllExit"


@contextmanager
def _local_cluster(n_workers: int, memory_limit: str, *, debug: bool) -> Iterator[Client]:
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(OF_SCHEDULER))
        stack.enter_context(worker_settings(memory_limit))
        with interrupts_held_back(), warnings.catch_warnings():
            # Another program may have taken the port since it was looked at: the link that is printed is right.
            warnings.filterwarnings("ignore", r"Port \d+ is already in use")
            cluster = LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                processes=True,
                memory_limit=memory_limit,
                dashboard_address=_dashboard_address(),
                # A task's error comes back to the caller; the workers need not print it, too.
                silence_logs=logging.WARNING if debug else logging.CRITICAL,
            )
            stack.enter_context(cluster)
        client = stack.enter_context(Client(cluster))
        stack.enter_context(_shown(client, f"{n_workers} worker process(es)"))
        yield client


def worker_settings(memory_limit: str) -> dask.config.set:
    """Let Dask's configuration have what workers that are started here are told, as long as a context lasts."""
    known = 0 if memory_limit == "auto" else parse_bytes(memory_limit)
    return dask.config.set(HEAP if not known or known >= MUCH_MEMORY else {})


@contextmanager
def _shown(client: Client, workers: str) -> Iterator[None]:
    """Say where the work runs, with links to the dashboard and to its page about fits, which the body's fits tell."""
    link, problem = add_page(client)
    told = f"page about fits: {link}" if link else f"no page about fits: {problem}"
    print(f"runs on {workers}; dashboard: {client.dashboard_link}\n{told}")
    with dask.config.set({"dspectral.dashboard": True} if link else {}):
        yield


def _dashboard_address() -> str:
    """Return Dask's usual address, or one with any free port if that is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, DASHBOARD_PORT))
        except OSError:
            return f"{LOOPBACK}:0"
    return f"{LOOPBACK}:{DASHBOARD_PORT}"


@contextmanager
def _existing_cluster(address: str) -> Iterator[Client]:
    with _connected(address) as client:
        try:
            client.wait_for_workers(1, timeout=WAIT_SECONDS)
        except TimeoutError:
            sentence = f"the scheduler at {address} has no worker: start one by `dask worker {address}`"
            raise ValueError(sentence) from None
        n_workers = len(client.nthreads())
        with _shown(client, f"the {n_workers} workers of {address}"):
            yield client


def _connected(address: str) -> AbstractContextManager[Client]:
    said = f"no scheduler answers at {address}, given as --scheduler"
    # Asked beforehand: a client that has no certificates fails with itself left in force.
    if address.startswith("tls") and Security().get_connection_args("client").get("ssl_context") is None:
        raise OSError(f"{said}: {TLS}")
    try:
        return Client(address)
    except (OSError, ValueError, TypeError, ImportError) as error:
        raise OSError(f"{said}: {error}") from error
