"""The process of one run: starts its workers, practices on the toy data, does the work, and prints what that took.

Started as ``python -m workflows.benchmarks._scaling.once WORK KIND N ORDERS``, where the orders are JSON with the
folders and sizes of the toy data and of the data, and the folder for what is written.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
from distributed import Client

from ..._form.schedulers import scheduler
from ..._form.usage import Meter
from .works import WORKS

KINDS = ("threads", "processes")


def main(name: str, kind: str, n: int, orders: dict[str, Any]) -> None:
    """Do some work with so many workers."""
    with workers(kind, n) as client:
        meter = Meter(client)
        for stage, (folder, size) in enumerate(orders["stages"]):
            # What is imported, compiled and cached in the practice is there for one number of workers as for another.
            with meter.measure() as used:
                WORKS[name].go(Path(folder), Path(orders["out"], str(stage)), size)
    took = {
        "seconds": used.seconds,
        "cpu_seconds": used.cpu_seconds,
        "peak_memory_bytes": used.peak_memory_bytes,
    }
    print(json.dumps(took))


@contextmanager
def workers(kind: str, n: int) -> Iterator[Client | None]:
    """Let so many threads, or processes, work."""
    if kind == "threads":
        with dask.config.set(scheduler="threads", num_workers=n):
            yield None
    else:
        asked = argparse.Namespace(workers=n, scheduler=None, memory_limit="auto", debug=False)
        with scheduler(asked) as client:
            yield client


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4]))
