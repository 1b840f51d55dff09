"""A client of a cluster in a process of its own: it fits what its input says, and prints each event as JSON.

Started by :meth:`tests.cluster.clusters.Cluster.client`. Each line of the input is an order. Each line of the output
has a ``time`` and a ``kind``: that of an event, or ``Ready``, ``Holds``, ``Warned``, ``Fitted`` or ``Failed``.
"""

import json
import sys
import threading
import time
import warnings
from contextlib import contextmanager, nullcontext

import dask
from distributed import Client, LocalCluster
from distributed.security import Security

from dspectral import checkpoints
from tests.cluster import fits
from tests.cluster.fits import Places
from tests.engine.recording import Recorder

_ONE_LINE = threading.Lock()


def say(kind, **fields):
    """Print a message."""
    with _ONE_LINE:
        print(json.dumps({"kind": kind, "time": time.time(), **fields}, default=str), flush=True)  # noqa: T201


class Ear:
    """Says each event that it hears, and waits for the input at one of them if it is asked to."""

    def __init__(self, hold):
        self._kind, self._left = hold or ("", 0)

    def __call__(self, event):
        kind = type(event).__name__
        say(kind, **event._asdict())
        if kind == self._kind:
            self._left -= 1
            if self._left == 0:
                say("Holds")
                sys.stdin.readline()


def fit(name, places, hold=None, configuration=None, without=(), kept=None):
    """Fit, and say the bits or the error."""
    start = time.perf_counter()
    try:
        with (
            Recorder(Ear(hold)),
            dask.config.set(configuration or {}),
            checkpoints(kept) if kept else nullcontext(),
        ):
            model = fits.fitted(name, Places(**places), without)
        said = {"bits": fits.bits_of(model)}
    except Exception as error:  # noqa: BLE001  the parent judges it
        said = {"error": type(error).__name__, "message": str(error)}
    say("Fitted" if "bits" in said else "Failed", seconds=time.perf_counter() - start, **said)


@contextmanager
def connected(address, tls):
    """Connect to a scheduler."""
    with Client(address, security=Security(**tls, require_encryption=True) if tls else None) as client:
        yield client


@contextmanager
def adapting():
    """Start a cluster that has from 1 to 3 workers, as many as there is work for, and tell when that changes."""
    how = {"preload": ["tests.cluster.fits"], "preload_argv": [[]], "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=1, threads_per_worker=1, **how) as cluster, Client(cluster) as client:
        cluster.adapt(minimum=1, maximum=3, interval="200ms", wait_count=3, target_duration="500ms")
        threading.Thread(target=tell_workers, args=(cluster,), daemon=True).start()
        yield client


def tell_workers(cluster):
    """Say how many workers there are, whenever it changes."""
    before = 0
    while True:
        now = len(cluster.scheduler.workers)
        if now != before:
            say("Workers", n_workers=now)
            before = now
        time.sleep(0.1)


def main(address, tls, adapt):
    """Obey the orders of the input."""
    warnings.showwarning = lambda message, *_others: say("Warned", message=str(message))
    with adapting() if adapt else connected(address, tls):
        say("Ready")
        for line in sys.stdin:
            order = json.loads(line)
            if order.pop("do", "") == "fit":
                fit(**order)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
