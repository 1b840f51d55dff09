"""Memory that a worker is made to hold."""

import asyncio

import numpy as np
import psutil
from distributed import Client

_HELD = []


async def hold_share(share, dask_worker):
    """Hold memory until this process has a share of its worker's memory limit, and wait until the worker pauses."""
    missing = share * dask_worker.memory_manager.memory_limit - psutil.Process().memory_info().rss
    _HELD.append(np.ones(max(0, int(missing)), dtype=np.uint8))
    for _ in range(100):
        if dask_worker.status.name == "paused":
            return
        await asyncio.sleep(0.05)
    raise TimeoutError(f"the worker holds {psutil.Process().memory_info().rss} bytes and does not pause")


def release():
    """Let go what is held."""
    _HELD.clear()


def on_workers(cluster, names, function, *arguments, on_error="raise"):
    """Run a function on the workers of these names, outside their tasks."""
    with Client(cluster.address) as client:
        known = client.scheduler_info(n_workers=-1)["workers"]
        addresses = [address for address, worker in known.items() if worker["name"] in names]
        assert len(addresses) == len(names), known
        client.run(function, *arguments, workers=addresses, on_error=on_error)
