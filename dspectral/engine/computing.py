"""The one place where a graph is computed: what is in force while it runs, and what is told."""

from typing import Any

import dask

from dspectral.engine.blas import blas_in_one_thread
from dspectral.engine.cluster.clients import Client
from dspectral.engine.cluster.machines import compare_machines
from dspectral.engine.cluster.run import runs_in_task
from dspectral.engine.running import Work, local_scheduler, running_pass, without_graph_warning
from dspectral.engine.telling import client_in_force


def compute(
    *results: Any, work: Work, run: str, client: Client | None, in_memory: bool = False
) -> tuple[Any, ...]:
    """Compute the results of one pass, and tell its events."""
    client = None if in_memory or runs_in_task() else client or client_in_force()
    if client is not None and client.status == "running":
        compare_machines(client)
    # Held from first to last: BLAS starts its threads anew each time that its limit changes.
    with (
        blas_in_one_thread(),
        without_graph_warning(),
        running_pass(work, run=run, client=client) as how,
    ):
        return tuple(dask.compute(*results, **(local_scheduler() if in_memory else {}), **how))
