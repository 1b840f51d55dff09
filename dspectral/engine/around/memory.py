"""Memory estimates of passes, memory limits of processes, and the check that a pass fits."""

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

from dspectral.configuration import get_explicit_memory_limit, get_fan_in, parse_size, tree_depth
from dspectral.engine.around.callbacks import Client, Scheduler
from dspectral.engine.around.cluster import try_query
from dspectral.engine.around.context import ProcessMemory, current_client, current_context
from dspectral.engine.blocks import (
    IN_MEMORY,
    Stream,
    as_row_chunks,
    get_annotation,
    get_block_nbytes,
    group_blocks_by_size,
    is_in_memory,
)
from dspectral.engine.summary import BlockSize, MemoryEstimate, get_memory_estimate, get_nbytes
from dspectral.quantities import format_bytes
from dspectral.run_plan import ENDS_AT
from dspectral.types import FloatArray

LIBRARY_BYTES = 230_000_000
"""Bytes of an idle worker that has imported the packages of a pass."""
SPILL_SHARE = 0.7
"""Share of its memory limit at which a Dask worker starts to spill results to disk."""
N_EARLY_BLOCKS = 2
"""Summaries of blocks that a worker has finished before those that they merge with, if several workers share a pass."""
MAX_EXTRA_PASSES = 2
"""Maximum factor by which passes may increase to stay below :data:`SPILL_SHARE`."""
LIMIT_STEP = 10_000_000
"""Suggested limits are rounded up to a multiple of this many bytes."""
MARGIN = 0.95
"""Suggested share of the largest sketch that fits, because blocks differ."""
PACKAGE_PREFIX = __name__.partition(".")[0] + "."
"""Prefix of the modules of dspectral."""
CGROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


class InsufficientMemoryError(MemoryError):
    """A pass needs more memory than a process may use; `remedies` lists changes that would make it fit."""

    remedies: tuple[str, ...] = ()


class PassMemory(NamedTuple):
    """Memory estimate of a pass, known before a block is read.

    `estimate`: memory of its summaries; `blocks`: bytes that one task reads; `bound`: bytes of the arguments bound to
    the function, which every worker receives.
    """

    estimate: MemoryEstimate
    blocks: int
    bound: int
    n_tasks: int
    fan_in: int = 2

    def get_process_bytes(self, memory: ProcessMemory) -> int:
        """Return the maximum bytes of one process, as :func:`dspectral.estimate_memory` does for its blocks."""
        n_tasks = math.ceil(self.n_tasks / max(1, memory.n_workers))
        n_early = N_EARLY_BLOCKS if memory.n_workers > 1 else 0
        waiting = min(tree_depth(n_tasks, self.fan_in) * (self.fan_in - 1) + n_early, n_tasks - 1)
        bound = self.bound if memory.n_workers else 0
        at_once = min(memory.n_threads, n_tasks)
        return int(
            memory.bytes_in_use + bound + waiting * self.estimate.summary + at_once * (self.blocks + self.estimate.work)
        )


def estimate_pass_memory(
    summarize_block: Callable[..., Any],
    arrays: Sequence[da.Array],
    block_groups: Sequence[range],
    fan_in: int,
) -> PassMemory:
    """Return the memory estimate of a pass whose tasks read one block group of `block_groups` each."""
    blocks = sum(_get_block_bytes(array) + _get_group_bytes(array, block_groups) for array in arrays)
    bound = get_nbytes((*getattr(summarize_block, "args", ()), *getattr(summarize_block, "keywords", {}).values()))
    estimate = get_summary_estimate(summarize_block, arrays, block_groups)
    min_summary_bytes = 0 if estimate.summary else _get_empty_summary_bytes(summarize_block, arrays)
    estimate = estimate._replace(
        summary=max(estimate.summary, min_summary_bytes), work=max(estimate.work, min_summary_bytes)
    )
    return PassMemory(estimate, blocks, bound, len(block_groups), fan_in)


def _get_empty_summary_bytes(summarize_block: Callable[..., Any], arrays: Sequence[da.Array]) -> int:
    """Return the size of the summary of an empty block: a lower bound where the class has no estimate."""
    inner = getattr(summarize_block, "func", summarize_block)
    if any(array.dtype.kind == "O" for array in arrays) or not inner.__module__.startswith(PACKAGE_PREFIX):
        return 0
    kinds = [np.empty if isinstance(array._meta, np.ndarray) else sparse.csr_array for array in arrays]  # noqa: SLF001
    empty = [kind((0, array.shape[1]), dtype=array.dtype) for kind, array in zip(kinds, arrays, strict=True)]
    return get_nbytes(summarize_block(*empty))


def group_blocks(summarize_block: Callable[..., Any], arrays: Sequence[da.Array]) -> list[range]:
    """Return the block group that each task of a pass reads."""
    return group_blocks_by_size(arrays, get_summary_estimate(summarize_block, arrays).block)


def get_summary_estimate(
    summarize_block: Callable[..., Any],
    arrays: Sequence[da.Array],
    block_groups: Sequence[range] | None = None,
) -> MemoryEstimate:
    """Return the memory estimate of the summaries of a pass."""
    first = arrays[0]
    if first.dtype.kind == "O":
        return MemoryEstimate(0, 0)
    sizes = first.chunks[0]
    if block_groups is not None:
        sizes = [sum(sizes[i] for i in block_group) for block_group in block_groups]
    n_rows = max(sizes, default=0)
    is_dense = isinstance(first._meta, np.ndarray)  # noqa: SLF001  the kind of its blocks
    # Kernels compute in single or double precision, also for integers.
    itemsize = 4 if first.dtype == np.float32 else 8
    n_columns, *other_widths = (int(array.shape[1]) for array in arrays)
    return get_memory_estimate(
        summarize_block, BlockSize(int(n_rows), n_columns, itemsize, not is_dense, sum(other_widths))
    )


def check_memory(pass_memory: PassMemory, client: Client | None, name: str, extra_bytes: int = 0) -> None:
    """Raise an error for a pass that does not fit in memory, unless ``dspectral.admission`` is false.

    `extra_bytes`: bytes that this process will take before the pass.
    """
    if dask.config.get("dspectral.admission", default=True):
        memory = get_process_memory(client)
        if memory is not None and not memory.n_workers:
            memory = memory._replace(bytes_in_use=memory.bytes_in_use + extra_bytes)
        error = None if memory is None else find_memory_error(pass_memory, memory, name)
        if error is not None:
            raise error


def find_memory_error(pass_memory: PassMemory, memory: ProcessMemory, name: str) -> InsufficientMemoryError | None:
    """Return the error for a pass that does not fit in memory, or None."""
    peak_bytes = pass_memory.get_process_bytes(memory)
    if not memory.limit or peak_bytes <= ENDS_AT * memory.limit:
        return None
    fit = current_context().fit
    remedies = [suggest_limit(peak_bytes, memory)]
    if pass_memory.estimate.is_sketch:
        rest = pass_memory._replace(estimate=MemoryEstimate(0, 0), bound=0).get_process_bytes(memory)
        ratio = (ENDS_AT * memory.limit - rest) / max(1, peak_bytes - rest)
        remedies += suggest_sketch(getattr(fit, "owner", None), ratio)
    return make_memory_error(fit.name if fit else f"the pass {name!r}", memory, peak_bytes, remedies)


def make_memory_error(
    name: str, memory: ProcessMemory, peak_bytes: float, remedies: list[str], share: float = ENDS_AT
) -> InsufficientMemoryError:
    """Return the error for work that needs ``peak_bytes`` bytes of a process, more than `share` of its limit."""
    limit = f"can use {format_bytes(share * memory.limit)} of its {format_bytes(memory.limit)}"
    message = f"{name} does not fit in memory: {memory.process_label} needs {format_bytes(peak_bytes)}, but {limit}"
    error = InsufficientMemoryError("; ".join([message, *(f"it fits {remedy}" for remedy in remedies)]))
    error.remedies = tuple(remedies)
    return error


def suggest_limit(peak_bytes: float, memory: ProcessMemory) -> str:
    """Return the memory limit that would fit, as a remedy."""
    size = f"{math.ceil(peak_bytes / ENDS_AT / LIMIT_STEP) * LIMIT_STEP // 1_000_000}MB"
    if memory.n_workers:
        return f"with memory_limit={size!r}"
    return f"with dspectral.worker-memory={size}, if this process may use so much, or with fewer threads"


def suggest_sketch(estimator: Any, ratio: float) -> list[str]:
    """Return the sketch size that would fit as a remedy; summaries are proportional to it."""
    parameters = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    k = parameters.get("n_components")
    if "sketch_size" not in parameters or not isinstance(k, Integral):  # it may be a share of the variance
        return []
    k = int(k)
    current_size = parameters["sketch_size"] or (2 if parameters.get("n_passes", 1) == 1 else 3) * k + 10
    fits = int(current_size * ratio * MARGIN)
    if fits < k:
        return [f"with n_components={(fits - 10) // 3}"] if fits >= 13 else []
    return [f"with sketch_size={fits}"]


def count_column_groups(
    X: Stream,
    summarize_block: Callable[[FloatArray], Callable[..., Any]],
    shape: tuple[int, int],
    dtype: DTypeLike,
) -> int:
    """Return the number of column groups of a factor; each group is bound to the function of its own pass.

    The estimate adds a merge and a copy of the factor to the memory of a pass. A worker may use 70 % of its limit,
    where Dask starts to spill, or 95 % if that saves at least half of the passes. This process may use
    ``dspectral.memory-limit``.
    """
    is_local = is_in_memory(X)
    arrays = [as_row_chunks(X, "product", is_local=is_local)]
    memory = get_process_memory(None if is_local else current_client())
    width = shape[1]
    fan_in = get_fan_in()
    if memory is None or not memory.limit:
        return 1
    explicit_limit = None if memory.n_workers else get_explicit_memory_limit()

    def estimate_bytes(n_columns: int) -> int:
        factor = np.broadcast_to(np.zeros((), dtype=dtype), (shape[0], n_columns))  # a view without memory
        function = summarize_block(factor)
        peak_bytes = estimate_pass_memory(function, arrays, group_blocks(function, arrays), fan_in)
        merge = fan_in * get_summary_estimate(function, arrays).summary + get_nbytes(factor)
        return peak_bytes.get_process_bytes(memory) - memory.bytes_in_use + merge

    def find_n_groups(share: float) -> int | None:
        available_bytes = min(
            share * memory.limit - memory.bytes_in_use, math.inf if explicit_limit is None else explicit_limit
        )
        groups = (n for n in range(1, width + 1) if estimate_bytes(math.ceil(width / n)) <= available_bytes)
        return next(groups, None)

    possible, without_spilling = find_n_groups(ENDS_AT), find_n_groups(SPILL_SHARE)
    if possible is None:
        fit, min_bytes = current_context().fit, estimate_bytes(1)
        name = f"{fit.name if fit else 'the pass product'}, even with one column a pass,"
        if explicit_limit is not None and min_bytes > explicit_limit:
            remedy = f"with dspectral.memory-limit={math.ceil(min_bytes / 1e6)}MB"
            raise make_memory_error(name, memory._replace(limit=explicit_limit), min_bytes, [remedy], 1.0)
        peak_bytes = min_bytes + memory.bytes_in_use
        raise make_memory_error(name, memory, peak_bytes, [suggest_limit(peak_bytes, memory)])
    # If libraries and blocks nearly fill 70 %, staying below it would need too many passes.
    if without_spilling is None or without_spilling > MAX_EXTRA_PASSES * possible:
        return possible
    return without_spilling


def get_process_memory(client: Client | None) -> ProcessMemory | None:
    """Return the memory of the processes that would run a pass now, or None if no worker answers."""
    if (planned := current_context().memory) is not None:
        return planned
    if client is None:
        value = dask.config.get("dspectral.worker-memory", None)
        limit = get_local_memory_limit() if value is None else parse_size("dspectral.worker-memory", value)
        is_sync = dask.config.get("scheduler", None) in ("sync", "synchronous", "single-threaded")
        n_threads = 1 if is_sync else int(dask.config.get("num_workers", None) or CPU_COUNT)
        return ProcessMemory(0, n_threads, limit, get_resident_bytes())
    # If the scheduler does not answer, the pass itself raises the error.
    values = try_query(client, client.run_on_scheduler, _read_worker_memory)
    return None if values is None else ProcessMemory(*values)


def _read_worker_memory(dask_scheduler: Scheduler) -> tuple[int, int, int, int] | None:
    """Return the fields of ProcessMemory for the workers. This function runs on the scheduler."""
    workers = list(dask_scheduler.workers.values())
    if not workers:
        return None
    limits = [int(worker.memory_limit) for worker in workers if worker.memory_limit]
    used_bytes = sorted(max(0, (worker.metrics or {}).get("memory", 0) - worker.nbytes) for worker in workers)
    # The median, because a worker that has just finished a task is temporarily larger.
    median = max(LIBRARY_BYTES, int(used_bytes[len(used_bytes) // 2]))
    return len(workers), max(int(worker.nthreads) for worker in workers), min(limits, default=0), median


def _get_group_bytes(array: da.Array, block_groups: Sequence[range]) -> int:
    """Return the bytes of the largest block group; 0 if each task reads one block."""
    sizes = get_block_nbytes(array)
    if sizes is None or len(block_groups) == len(sizes):
        return 0
    return max(sum(sizes[i] for i in block_group) for block_group in block_groups)


def _get_block_bytes(array: da.Array) -> int:
    """Return the bytes of the largest dense block; 0 for sparse blocks and rows in memory."""
    is_dense = isinstance(array._meta, np.ndarray) and array.dtype.kind != "O"  # noqa: SLF001
    if not is_dense or get_annotation(array, IN_MEMORY):
        return 0
    return int(max(array.chunks[0], default=0)) * int(array.shape[1]) * int(array.dtype.itemsize)


def get_resident_bytes() -> int:
    """Return the resident bytes of this process."""
    return int(psutil.Process().memory_info().rss)


def get_local_memory_limit() -> int:
    """Return the bytes that this process can use: its resident bytes and the free memory of machine and cgroup."""
    free = int(psutil.virtual_memory().available)
    for path in CGROUPS:
        with suppress(OSError, ValueError):  # "max" means no limit
            used = path.with_name(path.name.replace("max", "current").replace("limit", "usage"))
            free = min(free, max(0, int(path.read_text()) - int(used.read_text())))
    return free + get_resident_bytes()
