"""A plan of a fit or a build: a page of arithmetic on its first pass, and the time of one block."""

import errno
import inspect
import math
import time
from collections.abc import Iterable, Mapping
from copy import deepcopy
from tempfile import TemporaryDirectory
from typing import Any

from dask.delayed import Delayed

from dspectral.configuration import as_bytes
from dspectral.engine.around.context import FirstPass, Fit, Memory, changed, client_in_force
from dspectral.engine.around.memory import (
    LIBRARIES,
    InsufficientMemoryError,
    PassNeed,
    memory_error,
    memory_here,
    memory_of,
)
from dspectral.engine.blocks import dense_rows
from dspectral.engine.summary import Need, bytes_of
from dspectral.linalg.blas import blas_in_one_thread
from dspectral.run_plan import RunPlan
from dspectral.types import holds_several, is_backed, matrix_of

MOST_BYTES = 256 << 20
"""Largest block of which the time is measured."""
TIMES_OF_TEXT = 5
"""Bytes that a task takes for each byte of its text."""


def plan(
    what: Any,
    *arguments: Any,
    workers: int | None = None,
    memory_limit: str | float | None = None,
    **keywords: Any,
) -> RunPlan:
    """Plan a fit or a build, as :func:`dspectral.plan` says, on data that ``fit`` takes or the ``X`` of an AnnData."""
    function = what if callable(what) and not hasattr(what, "fit") else what.fit
    owner = deepcopy(getattr(function, "__self__", None))
    name = function.__name__ if owner is None else type(owner).__name__
    raw = inspect.unwrap(getattr(function, "__func__", function))
    given = arguments if owner is None else (owner, *arguments)
    given = tuple(dense_rows(matrix_of(one)) if holds_several(one) else one for one in given)
    memory, fit = _memory(workers, memory_limit), Fit(name, owner=owner)
    with (
        TemporaryDirectory(prefix="dspectral-plan-") as folder,
        changed(fit=fit, cache=None, memory=memory, planner=None, dry_run=folder),
    ):
        try:
            raw(*given, **keywords)
        except FirstPass as first:
            work, need, graph = first.args
        except (MemoryError, OSError) as error:  # of a factor not even one column fits
            return RunPlan(name, "", None, 0, 0, None, *memory, None, *_refused(name, error))
        else:
            return RunPlan(name, "", 0, 0, 0, 0, *memory, 0.0)
        text = TIMES_OF_TEXT * (work.n_bytes or 0) // work.n_blocks
        need = need or PassNeed(Need(0, 0), text, 0, work.n_blocks)
        shortage, seconds = memory_error(need, memory, work.name), None
        refusal: tuple[str, tuple[str, ...]] = ("", ()) if shortage is None else _refused(name, shortage)
        of_task = need.blocks + need.law.work
        if shortage is None and of_task < memory_here() and text < TIMES_OF_TEXT * MOST_BYTES:
            try:
                result, seconds = _timed(graph, work.block_group, work.n_blocks)
            except (MemoryError, OSError) as error:
                result, refusal = None, _refused(name, error)
            held = bytes_of(result)
            need = need._replace(law=Need(max(need.law.summary, held), max(need.law.work, held)))
    n_at_once = max(1, memory.n_workers) * memory.n_threads
    return RunPlan(
        name,
        work.name,
        fit.n_passes,
        work.n_joined or work.n_blocks,
        work.n_blocks + work.n_merges,
        _bytes_on_disk(given) if work.n_bytes is None else work.n_bytes,
        *memory._replace(taken=need.of_process(memory)),
        None if seconds is None else seconds * math.ceil(work.n_blocks / n_at_once),
        *refusal,
    )


def _memory(workers: int | None, memory_limit: str | float | None) -> Memory:
    """Return the memory of the processes that are planned for."""
    limit = None if memory_limit in (None, "auto") else as_bytes("memory_limit", memory_limit)
    if workers is not None:
        return Memory(workers, 1, memory_here() // workers if limit is None else limit, LIBRARIES)
    memory = memory_of(client_in_force())
    if memory is None:
        raise ValueError(
            "the cluster has no worker that answers, so nothing can be planned: start one, or give workers=N"
        )
    return memory if limit is None else memory._replace(limit=limit)


def _bytes_on_disk(given: Iterable[Any]) -> int | None:
    """Return the bytes of a sparse matrix that AnnData holds on disk, if one is given."""
    parts = [X.group[name] for X in given if is_backed(X) for name in ("data", "indices", "indptr")]
    return sum(part.size * part.dtype.itemsize for part in parts) or None


def _refused(name: str, error: MemoryError | OSError) -> tuple[str, tuple[str, ...]]:
    """Return the message and the remedies of what memory or disk has no room for; raise all other errors again."""
    if isinstance(error, OSError) and error.errno not in (errno.ENOMEM, errno.ENOSPC):
        raise error
    if isinstance(error, InsufficientMemoryError):
        return str(error), error.remedies
    return f"{name} does not fit in memory: {error}", ()


def _timed(graph: Mapping[Any, Any], group: str, n_blocks: int) -> tuple[Any, float]:
    """Return the result of the first block of a pass, and its seconds after another block has loaded what it needs."""
    nodes = dict(graph)
    for number in (n_blocks - 1, 0) if n_blocks > 1 else (0,):
        key = (group, number, 0) if (group, number, 0) in nodes else (group, number)
        began = time.perf_counter()
        with blas_in_one_thread():
            result = Delayed(key, nodes).compute(scheduler="sync")
        seconds = time.perf_counter() - began
        if seconds > 2.0:  # loading is little of it
            break
    return result, seconds
