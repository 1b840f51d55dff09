"""A client of a cluster in a process of its own: it fits what its input says, and prints each event as JSON.

Started by :meth:`tests.cluster.clusters.Cluster.client`. Each line of the input is an order. Each line of the output
has a ``time`` and a ``kind``: that of an event, or ``Ready``, ``Holds``, ``Warned``, ``Fitted`` or ``Failed``.
"""

import json
import sys
import threading
import time
import warnings
from contextlib import nullcontext

import dask
from distributed import Client

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


def main(address):
    """Obey the orders of the input."""
    warnings.showwarning = lambda message, *_others: say("Warned", message=str(message))
    with Client(address):
        say("Ready")
        for line in sys.stdin:
            order = json.loads(line)
            if order.pop("do", "") == "fit":
                fit(**order)


if __name__ == "__main__":
    main(sys.argv[1])
