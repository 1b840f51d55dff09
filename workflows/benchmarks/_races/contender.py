"""All races by name, and the process of one contender, which practices, does its work, and prints what that took.

Started as ``python -m workflows.benchmarks._races.contender RACE CONTENDER ORDERS``, where the orders are JSON with the
folders, settings and the file for what is found.
"""

import json
import resource
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..._form.resident import peak_bytes, reset_peak
from . import chain, matrices, words
from .racing import Race

RACES: dict[str, Race] = {
    "svd-topics": matrices.TOPICS,
    "svd-text": matrices.TEXT,
    "hashing": words.HASHING,
    "vocabulary": words.VOCABULARY,
    "embeddings": words.EMBEDDINGS,
    "labels": matrices.LABELS,
    "cells": matrices.CELLS,
    "cells-filled": matrices.CELLS_FILLED,
    "cells-wide": matrices.CELLS_WIDE,
    "cells-chain": chain.CHAIN,
}


def main(race: str, name: str, orders: dict[str, Any]) -> None:
    """Do the work of a contender."""
    contender = RACES[race].contenders[name]
    library = import_module(contender.module)
    if orders["data_limit"]:
        resource.setrlimit(resource.RLIMIT_DATA, 2 * (orders["data_limit"],))
    *practices, (folder, settings) = orders["stages"]
    for place, how in practices:
        # Imports, compiled loops and caches are there afterwards, for one contender as for another.
        contender.tell(contender.prepare(library, Path(place), how)())
    reset_peak()
    before = peak_bytes()
    work = contender.prepare(library, Path(folder), settings)
    reset_peak()  # what it holds counts, and not how that came there
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    took = {"cpu_seconds": time.process_time() - cpu, "seconds": time.perf_counter() - wall}
    peak = peak_bytes()
    np.savez(orders["out"], **contender.tell(found))
    print(json.dumps({**took, "peak_memory_bytes": peak, "working_memory_bytes": max(0, peak - before)}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
