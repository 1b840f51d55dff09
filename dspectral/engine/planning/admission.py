"""Admission: a pass whose memory is known before it begins, and is not there, is refused at once."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np

from dspectral.engine.cluster.asking import asked
from dspectral.engine.cluster.clients import Client, Scheduler
from dspectral.engine.fits import fit_in_force
from dspectral.engine.joined_blocks import bytes_said, spans_of
from dspectral.engine.merge_tree import tree_depth
from dspectral.engine.planning.process_memory import resident_bytes
from dspectral.engine.planning.refusing import sentence, smaller_sketch, workers_or_limit
from dspectral.engine.planning.resources import configured_memory, n_threads_here
from dspectral.engine.running import bytes_of
from dspectral.engine.summary import BlockSize, Need, need_of

LIBRARIES = 230_000_000
"""Bytes of a worker that has loaded what the tasks of a pass need, and holds nothing."""
ENDS_AT = 0.95
"""Share of its limit at which Dask's nanny ends a worker."""


IN_MEMORY = "slice-"
"""How the arrays are named that are cut out of rows in memory."""


class There(NamedTuple):
    """Memory of the processes that will do the work.

    `n_workers`: number of worker processes; `n_threads`: tasks that run at once in a process; `limit`: bytes
    that the smallest process may have; `taken`: bytes that a process has already, its libraries included.
    """

    n_workers: int
    n_threads: int
    limit: int
    taken: int


def admit(
    of: Callable[..., Any], arrays: Sequence[da.Array], fan_in: int, client: Client | None, name: str
) -> None:
    """Refuse a pass that cannot fit in the memory there is.

    No block is read. A summary that says what it needs (:class:`~dspectral.engine.summary.Need`) is held to it; of
    others only the bytes of dense blocks and of what is bound to the function are known. The law is that of
    :func:`dspectral.projected_memory`, for the blocks of one process. ``dspectral.admission`` in Dask's configuration
    set to false admits everything.
    """
    if not dask.config.get("dspectral.admission", default=True):
        return
    there = memory_of(client)
    if there is None:
        return
    most = needed(of, arrays, fan_in, there, arrays[0].numblocks[0])
    if most <= ENDS_AT * there.limit:
        return
    fit = fit_in_force()
    ratio = (ENDS_AT * there.limit - there.taken) / max(1, most - there.taken)
    ways = [workers_or_limit(most / ENDS_AT, by_threads=not there.n_workers)]
    ways += smaller_sketch(getattr(fit, "owner", None), ratio)
    whose = "a worker" if there.n_workers else "this process"
    raise MemoryError(
        sentence(fit.name if fit else f"the pass {name!r}", whose, most, there.limit, ENDS_AT, ways)
    )


def needed(
    of: Callable[..., Any], arrays: Sequence[da.Array], fan_in: int, there: There, n_blocks: int
) -> int:
    """Return the most bytes that one process needs for a pass, as far as it is known beforehand."""
    spans = spans_for(of, arrays)
    law = known_need(of, arrays, spans)
    blocks = sum(_block_bytes(array) + _joined_bytes(array, spans) for array in arrays)
    bound = bound_bytes(of) if there.n_workers else 0
    n_tasks = math.ceil(n_blocks * len(spans) / max(1, arrays[0].numblocks[0]) / max(1, there.n_workers))
    at_once = min(there.n_threads, n_tasks)
    depth = tree_depth(n_tasks, fan_in)
    waiting = depth * (fan_in - 1) * law.summary
    return int(there.taken + bound + waiting + at_once * (blocks + law.work))


def spans_for(of: Callable[..., Any], arrays: Sequence[da.Array]) -> list[range]:
    """Return the blocks that each task of a pass reads."""
    return spans_of(arrays, known_need(of, arrays).block)


def known_need(
    of: Callable[..., Any], arrays: Sequence[da.Array], spans: Sequence[range] | None = None
) -> Need:
    """Return what a summary says that it needs."""
    first = arrays[0]
    if first.dtype.kind == "O":
        return Need(0, 0)
    sizes = first.chunks[0]
    n_rows = max(sizes if spans is None else (sum(sizes[i] for i in span) for span in spans), default=0)
    is_dense = isinstance(first._meta, np.ndarray)  # noqa: SLF001  the kind of its blocks
    # Kernels compute in single or double precision, whatever integers they are given.
    itemsize = 4 if first.dtype == np.float32 else 8
    return need_of(of, BlockSize(int(n_rows), int(first.shape[1]), itemsize, not is_dense))


def bound_bytes(of: Callable[..., Any]) -> int:
    """Return the bytes of the arrays that are bound to a function, and travel to each worker."""
    return bytes_of((*getattr(of, "args", ()), *getattr(of, "keywords", {}).values()))


def memory_of(client: Client | None) -> There | None:
    """Return the memory of the processes that would do the work now."""
    if client is None:
        return There(0, n_threads_here(), configured_memory(), resident_bytes())
    found = asked(client, client.run_on_scheduler, _of_scheduler)
    if found is None:  # or it does not answer, which the pass will say
        return None
    n_workers, n_threads, limit, taken = found
    return There(n_workers, n_threads, limit, max(LIBRARIES, taken))


def _of_scheduler(dask_scheduler: Scheduler) -> tuple[int, int, int, int] | None:
    """Return the number of workers, their threads, the least limit, and the most bytes that one has beside data."""
    workers = [one for one in dask_scheduler.workers.values() if one.memory_limit]
    if not workers:
        return None
    smallest = min(workers, key=lambda one: one.memory_limit)
    taken = [max(0, (one.metrics or {}).get("memory", 0) - one.nbytes) for one in workers]
    # The median: a worker that has just ended a task is larger than it will stay.
    middle = sorted(taken)[len(taken) // 2]
    n_threads = max(one.nthreads for one in workers)
    return len(dask_scheduler.workers), int(n_threads), int(smallest.memory_limit), int(middle)


def _joined_bytes(array: da.Array, spans: Sequence[range]) -> int:
    """Return the bytes of the largest run of blocks that a task reads; 0 where each task reads one."""
    said = bytes_said(array)
    if said is None or len(spans) == len(said):
        return 0
    return max(sum(said[i] for i in span) for span in spans)


def _block_bytes(array: da.Array) -> int:
    """Return the bytes that reading the largest block takes, 0 where nothing is known or it is in memory already."""
    is_dense = isinstance(array._meta, np.ndarray) and array.dtype.kind != "O"  # noqa: SLF001
    if not is_dense or array.name.startswith(IN_MEMORY):
        return 0
    return int(max(array.chunks[0], default=0)) * int(array.shape[1]) * int(array.dtype.itemsize)
