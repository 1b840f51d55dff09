"""A scheduler in one process and any number of workers in another: what the scheduler takes is then its own."""

import asyncio
import logging
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

import dask
from distributed import Client, Scheduler, Worker

QUIET = {
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.admin.system-monitor.interval": "60s",
}
"""Many workers in a process share its memory, and need not watch it each for itself."""
TOGETHER = 50
"""Workers that start at once."""


@contextmanager
def crowd(n_workers: int, *, wait_seconds: float = 900.0) -> Iterator[Client]:
    """Start a scheduler and workers in two processes of their own."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    scheduler = context.Process(target=_serve, args=(there,), daemon=True)
    scheduler.start()
    address = here.recv()
    workers = context.Process(target=_work, args=(address, n_workers), daemon=True)
    workers.start()
    try:
        with Client(address, timeout=60) as client:
            client.wait_for_workers(n_workers, timeout=wait_seconds)
            yield client
    finally:
        for process in (workers, scheduler):
            process.terminate()
            process.join()


def _serve(pipe: Connection) -> None:
    async def serve() -> None:
        async with Scheduler(port=0, host="127.0.0.1", dashboard=False) as scheduler:
            pipe.send(scheduler.address)
            await scheduler.finished()

    logging.getLogger("distributed").setLevel(logging.ERROR)
    with dask.config.set(QUIET):
        asyncio.run(serve())


def _work(address: str, n_workers: int) -> None:
    async def work() -> None:
        workers = [
            Worker(address, nthreads=1, memory_limit=0, dashboard=False, heartbeat_interval="10s")
            for _ in range(n_workers)
        ]
        for start in range(0, n_workers, TOGETHER):
            await asyncio.gather(*workers[start : start + TOGETHER])
        await asyncio.gather(*(worker.finished() for worker in workers))

    logging.getLogger("distributed").setLevel(logging.ERROR)
    with dask.config.set(QUIET):
        asyncio.run(work())
