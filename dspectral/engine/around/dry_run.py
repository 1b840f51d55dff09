"""Run plans: the number of passes, and the memory check of the first one, without reading a block."""

import errno
import inspect
from collections.abc import Iterable
from copy import deepcopy
from tempfile import TemporaryDirectory
from typing import Any

from dspectral.configuration import parse_size
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
from dspectral.engine.summary import MemoryEstimate
from dspectral.run_plan import RunPlan
from dspectral.types import get_anndata_matrix, is_anndata, is_backed

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
            work, pass_memory = stop.args
        except (MemoryError, OSError) as error:  # not even one column of a factor fits
            if isinstance(error, OSError) and error.errno not in (errno.ENOMEM, errno.ENOSPC):
                raise
            remedies = error.remedies if isinstance(error, InsufficientMemoryError) else ()
            refusal = str(error) if remedies else f"{name} does not fit in memory: {error}"
            return RunPlan(name, "", None, 0, 0, None, *memory, refusal, remedies)
        else:
            return RunPlan(name, "", 0, 0, 0, 0, *memory)
        text_bytes = BYTES_PER_TEXT_BYTE * (work.n_bytes or 0) // work.n_blocks
        pass_memory = pass_memory or PassMemory(MemoryEstimate(0, 0), text_bytes, 0, work.n_blocks)
        shortage = find_memory_error(pass_memory, memory, work.name)
    return RunPlan(
        name,
        work.name,
        fit.n_passes,
        work.n_joined or work.n_blocks,
        work.n_blocks + work.n_merges,
        _get_disk_bytes(values) if work.n_bytes is None else work.n_bytes,
        *memory._replace(bytes_in_use=pass_memory.get_process_bytes(memory)),
        *(("", ()) if shortage is None else (str(shortage), shortage.remedies)),
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
    parts = [getattr(X, "group", X)[name] for X in values if is_backed(X) for name in ("data", "indices", "indptr")]
    return sum(part.size * part.dtype.itemsize for part in parts) or None
