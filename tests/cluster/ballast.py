"""Memory that a worker is made to hold."""

import numpy as np
import psutil
from distributed import Client, get_worker

_HELD = []


def hold_share(share):
    """Hold memory until this process has a share of its worker's memory limit; return the bytes."""
    missing = share * get_worker().memory_manager.memory_limit - psutil.Process().memory_info().rss
    _HELD.append(np.ones(max(0, int(missing)), dtype=np.uint8))
    return len(_HELD[-1])


def release():
    """Let go what is held."""
    _HELD.clear()


def on_workers(cluster, names, function, *arguments):
    """Run a function on the workers of these names, outside their tasks."""
    with Client(cluster.address) as client:
        known = client.scheduler_info(n_workers=-1)["workers"]
        addresses = [address for address, worker in known.items() if worker["name"] in names]
        assert len(addresses) == len(names), known
        client.run(function, *arguments, workers=addresses, on_error="ignore")
