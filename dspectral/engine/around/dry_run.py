"""Dry run of a fit or a build: estimates from its first pass and the time of one block."""

import errno
import inspect
import math
import time
from collections.abc import Iterable, Mapping
from copy import deepcopy
from tempfile import TemporaryDirectory
from typing import Any

from dask.delayed import Delayed

from dspectral.configuration import parse_size
from dspectral.engine.around.callbacks import PassStarted
from dspectral.engine.around.context import Fit, ProcessMemory, StopAtFirstPass, current_client, override_context
from dspectral.engine.around.memory import (
    LIBRARY_BYTES,
    InsufficientMemoryError,
    PassMemory,
    find_memory_error,
    get_local_memory_limit,
    get_process_memory,
)
from dspectral.engine.blocks import wrap_disk_array
from dspectral.engine.summary import MemoryEstimate, get_nbytes
from dspectral.linalg.blas import blas_in_one_thread
from dspectral.run_plan import RunPlan
from dspectral.types import get_anndata_matrix, is_anndata, is_backed

MAX_TIMED_BYTES = 256 << 20
"""Maximum bytes of a block that is timed."""
BYTES_PER_TEXT_BYTE = 5
"""Memory of a task for each byte of its text."""


def plan(
    what: Any,
    *arguments: Any,
    workers: int | None = None,
    memory_limit: str | float | None = None,
    **keywords: Any,
) -> RunPlan:
    """Return the run plan of a fit or a build, as :func:`dspectral.plan` does, for rows or the ``X`` of an AnnData."""
    function = what if callable(what) and not hasattr(what, "fit") else what.fit
    owner = deepcopy(getattr(function, "__self__", None))
    name = function.__name__ if owner is None else type(owner).__name__
    raw = inspect.unwrap(getattr(function, "__func__", function))
    values = arguments if owner is None else (owner, *arguments)
    values = tuple(wrap_disk_array(get_anndata_matrix(value)) if is_anndata(value) else value for value in values)
    memory, fit = _get_planned_memory(workers, memory_limit), Fit(name, owner=owner)
    with (
        TemporaryDirectory(prefix="dspectral-plan-") as folder,
        override_context(fit=fit, cache=None, memory=memory, planner=None, dry_run=folder),
    ):
        try:
            raw(*values, **keywords)
        except StopAtFirstPass as stop:
            work, pass_memory, graph = stop.args
        except (MemoryError, OSError) as error:  # not even one column of a factor fits
            return RunPlan(name, "", None, 0, 0, None, *memory, None, *_get_refusal(name, error))
        else:
            return RunPlan(name, "", 0, 0, 0, 0, *memory, 0.0)
        text_bytes = BYTES_PER_TEXT_BYTE * (work.n_bytes or 0) // work.n_blocks
        pass_memory = pass_memory or PassMemory(MemoryEstimate(0, 0), text_bytes, 0, work.n_blocks)
        shortage: MemoryError | OSError | None = find_memory_error(pass_memory, memory, work.name)
        seconds = None
        if shortage is None and text_bytes < BYTES_PER_TEXT_BYTE * MAX_TIMED_BYTES:
            pass_memory, seconds, shortage = _measure_first_block(work, pass_memory, graph)
    n_at_once = max(1, memory.n_workers) * memory.n_threads
    return RunPlan(
        name,
        work.name,
        fit.n_passes,
        work.n_joined or work.n_blocks,
        work.n_blocks + work.n_merges,
        _get_disk_bytes(values) if work.n_bytes is None else work.n_bytes,
        *memory._replace(bytes_in_use=pass_memory.get_process_bytes(memory)),
        None if seconds is None else seconds * math.ceil(work.n_blocks / n_at_once),
        *(("", ()) if shortage is None else _get_refusal(name, shortage)),
    )


def _get_planned_memory(workers: int | None, memory_limit: str | float | None) -> ProcessMemory:
    """Return the memory of the processes of the run plan."""
    limit = None if memory_limit in (None, "auto") else parse_size("memory_limit", memory_limit)
    if workers is not None:
        return ProcessMemory(workers, 1, get_local_memory_limit() // workers if limit is None else limit, LIBRARY_BYTES)
    memory = get_process_memory(current_client())
    if memory is None:
        raise ValueError(
            "no worker of the cluster answers, but the plan needs their memory: start one, or pass workers=N"
        )
    return memory if limit is None else memory._replace(limit=limit)


def _get_disk_bytes(values: Iterable[Any]) -> int | None:
    """Return the bytes of sparse matrices of AnnData on disk among the arguments, or None."""
    parts = [X.group[name] for X in values if is_backed(X) for name in ("data", "indices", "indptr")]
    return sum(part.size * part.dtype.itemsize for part in parts) or None


def _get_refusal(name: str, error: MemoryError | OSError) -> tuple[str, tuple[str, ...]]:
    """Return the message and remedies of an error about full memory or disk; raise other errors again."""
    if isinstance(error, OSError) and error.errno not in (errno.ENOMEM, errno.ENOSPC):
        raise error
    if isinstance(error, InsufficientMemoryError):
        return str(error), error.remedies
    return f"{name} does not fit in memory: {error}", ()


def _measure_first_block(
    work: PassStarted, pass_memory: PassMemory, graph: Mapping[Any, Any]
) -> tuple[PassMemory, float | None, MemoryError | OSError | None]:
    """Return the memory estimate raised to the size of a first result, its time, and an error of its task."""
    estimate = pass_memory.estimate
    if pass_memory.blocks + estimate.work >= get_local_memory_limit():
        return pass_memory, None, None
    try:
        result, seconds = _time_first_block(graph, work.block_group, work.n_blocks)
    except (MemoryError, OSError) as error:
        return pass_memory, None, error
    n_bytes = get_nbytes(result)
    estimate = MemoryEstimate(max(estimate.summary, n_bytes), max(estimate.work, n_bytes))
    return pass_memory._replace(estimate=estimate), seconds, None


def _time_first_block(graph: Mapping[Any, Any], group: str, n_blocks: int) -> tuple[Any, float]:
    """Return the result and time of the first block of a pass, after a warm-up with the last block."""
    nodes = dict(graph)
    for number in (n_blocks - 1, 0) if n_blocks > 1 else (0,):
        key = (group, number, 0) if (group, number, 0) in nodes else (group, number)
        start = time.perf_counter()
        with blas_in_one_thread():
            result = Delayed(key, nodes).compute(scheduler="sync")
        seconds = time.perf_counter() - start
        if seconds > 2.0:  # the warm-up is a small part of it
            break
    return result, seconds
