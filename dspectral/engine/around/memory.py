"""Memory: the law of what a pass takes, what its processes may have, and the refusal of a pass that does not fit."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
import psutil
from dask.system import CPU_COUNT
from numpy.typing import DTypeLike
from scipy import sparse

from dspectral.configuration import asked_memory_limit, configured_fan_in, parse_size, tree_depth
from dspectral.engine.around.cluster import query_or_none
from dspectral.engine.around.context import ProcessMemory, client_in_force, current_context
from dspectral.engine.around.events import Client, Scheduler
from dspectral.engine.blocks import (
    IN_MEMORY,
    Stream,
    as_row_chunks,
    bytes_said,
    get_annotation,
    group_blocks_by_size,
    is_in_memory,
)
from dspectral.engine.summary import BlockSize, Need, bytes_of, need_of
from dspectral.html import size_of
from dspectral.run_plan import ENDS_AT
from dspectral.types import FloatArray

LIBRARIES = 230_000_000
"""Bytes of a worker that has loaded what the tasks of a pass need, and holds nothing."""
SPILL_SHARE = 0.7
"""Share of its limit at which Dask's worker begins to write results to disk."""
MAX_EXTRA_PASSES = 2
"""Times the passes that are taken to stay below :data:`SPILL_SHARE`."""
LIMIT_STEP = 10_000_000
"""Bytes to which a limit that would fit is rounded up."""
MARGIN = 0.95
"""The share of the size of a sketch that would fit which is proposed, since blocks differ."""
PACKAGE_PREFIX = __name__.partition(".")[0] + "."
"""Beginning of the modules of summaries that keep the laws."""
CGROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


class InsufficientMemoryError(MemoryError):
    """A pass needs more memory than a process may have.

    `remedies`: what would make it fit, such as ``with memory_limit='2000MB'``.
    """

    remedies: tuple[str, ...] = ()


class PassMemory(NamedTuple):
    """Needs of a pass, as far as it is known before a block is read.

    `law`: by the summary; `blocks`: bytes of what a task reads; `bound`: bytes bound to the function, which travel to
    each worker.
    """

    law: Need
    blocks: int
    bound: int
    n_tasks: int
    fan_in: int = 2

    def get_process_bytes(self, memory: ProcessMemory) -> int:
        """Return the most bytes of one process, by the law of :func:`dspectral.projected_memory` for its blocks."""
        n_tasks = math.ceil(self.n_tasks / max(1, memory.n_workers))
        waiting = tree_depth(n_tasks, self.fan_in) * (self.fan_in - 1) * self.law.summary
        bound = self.bound if memory.n_workers else 0
        at_once = min(memory.n_threads, n_tasks)
        return int(memory.taken + bound + waiting + at_once * (self.blocks + self.law.work))


def estimate_pass_memory(
    of: Callable[..., Any], arrays: Sequence[da.Array], spans: Sequence[range], fan_in: int
) -> PassMemory:
    """Return what a pass takes whose tasks read a span of blocks each, by the law of its summary where it has one."""
    blocks = sum(_get_block_bytes(array) + _get_group_bytes(array, spans) for array in arrays)
    bound = bytes_of((*getattr(of, "args", ()), *getattr(of, "keywords", {}).values()))
    law = get_summary_estimate(of, arrays, spans)
    least = 0 if law.summary else _get_empty_summary_bytes(of, arrays)
    law = law._replace(summary=max(law.summary, least), work=max(law.work, least))
    return PassMemory(law, blocks, bound, len(spans), fan_in)


def _get_empty_summary_bytes(of: Callable[..., Any], arrays: Sequence[da.Array]) -> int:
    """Return the bytes of what no rows leave behind, which a summary of ours without a law takes at least."""
    inner = getattr(of, "func", of)
    if any(array.dtype.kind == "O" for array in arrays) or not inner.__module__.startswith(PACKAGE_PREFIX):
        return 0
    kinds = [np.empty if isinstance(array._meta, np.ndarray) else sparse.csr_array for array in arrays]  # noqa: SLF001
    empty = [kind((0, array.shape[1]), dtype=array.dtype) for kind, array in zip(kinds, arrays, strict=True)]
    return bytes_of(of(*empty))


def group_blocks(of: Callable[..., Any], arrays: Sequence[da.Array]) -> list[range]:
    """Return the blocks that each task of a pass reads."""
    return group_blocks_by_size(arrays, get_summary_estimate(of, arrays).block)


def get_summary_estimate(
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
    n_columns, *beside = (int(array.shape[1]) for array in arrays)
    return need_of(of, BlockSize(int(n_rows), n_columns, itemsize, not is_dense, sum(beside)))


def check_memory(need: PassMemory, client: Client | None, name: str) -> None:
    """Refuse a pass that does not fit in the memory there is, unless ``dspectral.admission`` is false."""
    if dask.config.get("dspectral.admission", default=True):
        memory = get_process_memory(client)
        error = None if memory is None else find_memory_error(need, memory, name)
        if error is not None:
            raise error


def find_memory_error(need: PassMemory, memory: ProcessMemory, name: str) -> InsufficientMemoryError | None:
    """Return the error of a pass that does not fit, None of one that fits."""
    most = need.get_process_bytes(memory)
    if not memory.limit or most <= ENDS_AT * memory.limit:
        return None
    fit = current_context().fit
    ways = [suggest_limit(most, memory)]
    if need.law.is_sketch:
        rest = need._replace(law=Need(0, 0), bound=0).get_process_bytes(memory)
        ratio = (ENDS_AT * memory.limit - rest) / max(1, most - rest)
        ways += suggest_sketch(getattr(fit, "owner", None), ratio)
    return make_memory_error(fit.name if fit else f"the pass {name!r}", memory, most, ways)


def make_memory_error(
    name: str, memory: ProcessMemory, most: float, remedies: list[str], share: float = ENDS_AT
) -> InsufficientMemoryError:
    """Return the error of work that needs ``most`` bytes of a process."""
    limit = f"may take {size_of(share * memory.limit)} of its {size_of(memory.limit)}"
    message = f"{name} does not fit in memory: {memory.process_label} needs {size_of(most)}, and {limit}"
    error = InsufficientMemoryError("; ".join([message, *(f"it fits {remedy}" for remedy in remedies)]))
    error.remedies = tuple(remedies)
    return error


def suggest_limit(most: float, memory: ProcessMemory) -> str:
    """Return the limit of memory that would fit."""
    size = f"{math.ceil(most / ENDS_AT / LIMIT_STEP) * LIMIT_STEP // 1_000_000}MB"
    if memory.n_workers:
        return f"with memory_limit={size!r}"
    return f"where this process may have {size} (dspectral.worker-memory), or by fewer threads"


def suggest_sketch(estimator: Any, ratio: float) -> list[str]:
    """Return the size of the sketch that would fit, to which summaries are in proportion."""
    parameters = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    k = parameters.get("n_components")
    if "sketch_size" not in parameters or not isinstance(k, Integral):  # or a share of the variance
        return []
    k = int(k)
    now = parameters["sketch_size"] or (2 if parameters.get("n_passes", 1) == 1 else 3) * k + 10
    fits = int(now * ratio * MARGIN)
    if fits < k:
        return [f"with n_components={(fits - 10) // 3}"] if fits >= 13 else []
    return [f"with sketch_size={fits}"]


def column_groups(
    X: Stream, of: Callable[[FloatArray], Callable[..., Any]], shape: tuple[int, int], dtype: DTypeLike
) -> int:
    """Return in how many groups of columns a factor goes out, each bound to the function of a pass of its own.

    Beside what a pass takes there are a merge and a copy of the factor. A worker may take 70 % of its limit, where
    Dask begins to spill, or 95 % where that saves half of the passes or more; this process no more than
    ``dspectral.memory-limit``.
    """
    is_local = is_in_memory(X)
    arrays = [as_row_chunks(X, "product", is_local=is_local)]
    memory, width, fan_in = (
        get_process_memory(None if is_local else client_in_force()),
        shape[1],
        configured_fan_in(),
    )
    if memory is None or not memory.limit:
        return 1
    asked_for = None if memory.n_workers else asked_memory_limit()

    def need(n_columns: int) -> int:
        factor = np.broadcast_to(np.zeros((), dtype=dtype), (shape[0], n_columns))  # takes no memory itself
        function = of(factor)
        most = estimate_pass_memory(function, arrays, group_blocks(function, arrays), fan_in)
        merge = fan_in * get_summary_estimate(function, arrays).summary + bytes_of(factor)
        return most.get_process_bytes(memory) - memory.taken + merge

    def find_n_groups(share: float) -> int | None:
        room = min(share * memory.limit - memory.taken, math.inf if asked_for is None else asked_for)
        groups = (n for n in range(1, width + 1) if need(math.ceil(width / n)) <= room)
        return next(groups, None)

    possible, without_spilling = find_n_groups(ENDS_AT), find_n_groups(SPILL_SHARE)
    if possible is None:
        fit, least = current_context().fit, need(1)
        name = f"{fit.name if fit else 'the pass product'}, even with one column of its products in a pass,"
        if asked_for is not None and least > asked_for:
            way = f"with dspectral.memory-limit={math.ceil(least / 1e6)}MB"
            raise make_memory_error(name, memory._replace(limit=asked_for), least, [way], 1.0)
        most = least + memory.taken
        raise make_memory_error(name, memory, most, [suggest_limit(most, memory)])
    # Where libraries and blocks alone nearly fill 70 %, what is left for columns would make passes without end.
    if without_spilling is None or without_spilling > MAX_EXTRA_PASSES * possible:
        return possible
    return without_spilling


def get_process_memory(client: Client | None) -> ProcessMemory | None:
    """Return the memory of the processes that would do the work now; None where a cluster has no worker to say it."""
    if (given := current_context().memory) is not None:
        return given
    if client is None:
        value = dask.config.get("dspectral.worker-memory", None)
        limit = get_local_memory_limit() if value is None else parse_size("dspectral.worker-memory", value)
        is_sync = dask.config.get("scheduler", None) in ("sync", "synchronous", "single-threaded")
        n_threads = 1 if is_sync else int(dask.config.get("num_workers", None) or CPU_COUNT)
        return ProcessMemory(0, n_threads, limit, get_resident_bytes())
    # A scheduler that does not answer is for the pass to speak of.
    found = query_or_none(client, client.run_on_scheduler, _read_worker_memory)
    return None if found is None else ProcessMemory(*found)


def _read_worker_memory(dask_scheduler: Scheduler) -> tuple[int, int, int, int] | None:
    """Return the number of workers, their threads, the least limit, and the bytes that one has beside data."""
    workers = list(dask_scheduler.workers.values())
    if not workers:
        return None
    limits = [int(one.memory_limit) for one in workers if one.memory_limit]
    taken = sorted(max(0, (one.metrics or {}).get("memory", 0) - one.nbytes) for one in workers)
    # The median: a worker that has just ended a task is larger than it will stay.
    middle = max(LIBRARIES, int(taken[len(taken) // 2]))
    return len(workers), max(int(one.nthreads) for one in workers), min(limits, default=0), middle


def _get_group_bytes(array: da.Array, spans: Sequence[range]) -> int:
    """Return the bytes of the largest run of blocks that a task reads; 0 where each task reads one."""
    said = bytes_said(array)
    if said is None or len(spans) == len(said):
        return 0
    return max(sum(said[i] for i in span) for span in spans)


def _get_block_bytes(array: da.Array) -> int:
    """Return the bytes that reading the largest block takes, 0 where nothing is known or it is in memory already."""
    is_dense = isinstance(array._meta, np.ndarray) and array.dtype.kind != "O"  # noqa: SLF001
    if not is_dense or get_annotation(array, IN_MEMORY):
        return 0
    return int(max(array.chunks[0], default=0)) * int(array.shape[1]) * int(array.dtype.itemsize)


def get_resident_bytes() -> int:
    """Return the bytes of this process that are in memory now."""
    return int(psutil.Process().memory_info().rss)


def get_local_memory_limit() -> int:
    """Return the bytes that this process may have: what is resident, and what the machine and its group leave."""
    free = int(psutil.virtual_memory().available)
    for path in CGROUPS:
        with suppress(OSError, ValueError):  # "max" where nothing limits the group
            used = path.with_name(path.name.replace("max", "current").replace("limit", "usage"))
            free = min(free, max(0, int(path.read_text()) - int(used.read_text())))
    return free + get_resident_bytes()
