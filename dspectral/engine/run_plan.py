"""A plan of a fit or a build: a page of arithmetic on its first pass, and the time of one block."""

import errno
import inspect
import math
import time
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from tempfile import TemporaryDirectory
from typing import Any

from dask.delayed import Delayed

from dspectral.engine.blas import blas_in_one_thread
from dspectral.engine.configuration import as_bytes
from dspectral.engine.events import client_in_force
from dspectral.engine.fits import FirstPass, keep, planning
from dspectral.engine.memory import (
    ENDS_AT,
    LIBRARIES,
    InsufficientMemoryError,
    Memory,
    PassNeed,
    given_memory,
    memory_error,
    memory_here,
    memory_of,
)
from dspectral.engine.row_blocks import dense_rows, holds_several, is_backed, matrix_of
from dspectral.engine.summary import Need, bytes_of
from dspectral.html import card, size_of

MOST_BYTES = 256 << 20
"""Largest block of which the time is measured."""
TIMES_OF_TEXT = 5
"""Bytes that a task takes for each byte of its text."""


@dataclass(frozen=True)
class RunPlan:
    """A plan of what a fit or a build will take, reckoned from its first pass.

    Attributes
    ----------
    name : str
        Name of the estimator or function.
    phase : str
        Name of the pass, empty if none is made.
    n_passes : int or None
        Number of times that the data is read, at most; None where only the passes themselves will tell.
    n_blocks, n_tasks : int
        Blocks of the data, and tasks of one pass.
    bytes_read : int or None
        Bytes of all blocks in memory (of a build: of its text); None where they are not known.
    n_workers, n_threads : int
        Worker processes (0: the threads of this process do the work) and threads of each.
    memory_limit : int
        Bytes that a worker, or this process, may have; 0 where nothing limits it.
    worker_memory : int
        Most bytes of one worker, its libraries included; where threads do the work, of this process.
    pass_seconds : float or None
        Wall time of the blocks of one pass, each as long as one took here; None where it would not fit.
    refusal : str
        Sentence that says why it cannot run and what would fit; empty if it can.
    remedies : tuple of str
        What would make it fit, such as ``"with memory_limit='2000MB'"``; empty if it can run, or nothing is known.
    before : str
        What must be done before, such as a build of text that is not counted yet; empty if nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from dspectral import SketchedPCA
    >>> plan = SketchedPCA(2).plan(np.random.default_rng(0).standard_normal((500, 8)))
    >>> plan.n_passes, plan.n_tasks, plan.refusal
    (1, 1, '')
    """

    name: str
    phase: str
    n_passes: int | None
    n_blocks: int
    n_tasks: int
    bytes_read: int | None
    n_workers: int
    n_threads: int
    memory_limit: int
    worker_memory: int
    pass_seconds: float | None
    refusal: str = ""
    remedies: tuple[str, ...] = ()
    before: str = ""

    @property
    def verdict(self) -> str:
        """``"fits"``, ``"fits with"`` or ``"where"`` what would make it fit, ``"does not fit"`` or ``"may not fit"``.

        The last is said where the summary of one block, measured here, is larger than was known beforehand, or a
        build is too: such a fit starts. One with a ``refusal`` does not.
        """
        if self.refusal:
            return f"fits {', or '.join(self.remedies)}" if self.remedies else "does not fit"
        return "may not fit" if 0 < self.memory_limit * ENDS_AT < self.worker_memory else "fits"

    @property
    def seconds(self) -> float | None:
        """Wall time of all passes, roughly; None where their number or time is not known."""
        if self.n_passes is None or self.pass_seconds is None:
            return None
        return self.n_passes * self.pass_seconds

    def check(self) -> None:
        """Raise the refusal, if there is one.

        Raises
        ------
        MemoryError
            If the run does not fit in the memory there is.
        """
        if self.refusal:
            raise MemoryError(self.refusal)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON takes it.

        Returns
        -------
        dict
            All attributes, ``seconds`` and ``verdict``.
        """
        remedies = list(self.remedies)
        return {**asdict(self), "remedies": remedies, "seconds": self.seconds, "verdict": self.verdict}

    def __str__(self) -> str:
        return "\n".join([f"Plan of {self.name}", *(f"{name:<22} {value}" for name, value in self._facts())])

    def _repr_html_(self) -> str:
        return card(f"Plan of {self.name}", self._facts())

    def _facts(self) -> list[tuple[str, object]]:
        by = f"{self.n_workers} worker(s)" if self.n_workers else f"{self.n_threads} threads of this process"
        whose = "a worker" if self.n_workers else "this process"
        limit = f"of {size_of(self.memory_limit)}" if self.memory_limit else "no limit"
        facts: list[tuple[str, object]] = [
            ("verdict", self.verdict),
            ("because", self.refusal),
            ("before", self.before),
            ("passes over the data", "unknown" if self.n_passes is None else self.n_passes),
            ("blocks", f"{self.n_blocks:,}"),
            ("tasks of a pass", f"{self.n_tasks:,}"),
            ("bytes read in a pass", "unknown" if self.bytes_read is None else size_of(self.bytes_read)),
            (f"memory of {whose}", f"{size_of(self.worker_memory)} ({limit})"),
            ("time of a pass", _roughly(self.pass_seconds, by)),
            ("time", _roughly(self.seconds, by)),
        ]
        return [(name, value) for name, value in facts if value]


def plan(
    what: Any,
    *arguments: Any,
    workers: int | None = None,
    memory_limit: str | float | None = None,
    **keywords: Any,
) -> RunPlan:
    """Plan a fit or a build, as :func:`dspectral.plan` says, on data that ``fit`` takes or the ``X`` of an AnnData.

    >>> import dask.array as da
    >>> from dspectral import SketchedPCA
    >>> plan(SketchedPCA(2), da.ones((600, 8), chunks=(100, -1))).n_tasks
    11
    """
    function = what if callable(what) and not hasattr(what, "fit") else what.fit
    owner = deepcopy(getattr(function, "__self__", None))
    name = function.__name__ if owner is None else type(owner).__name__
    raw = inspect.unwrap(getattr(function, "__func__", function))
    given = arguments if owner is None else (owner, *arguments)
    given = tuple(_matrix_of(argument) for argument in given)
    memory = _memory(workers, memory_limit)
    with (
        TemporaryDirectory(prefix="dspectral-plan-") as scratch,
        given_memory(memory),
        planning(name, owner, scratch) as fit,
        keep(None),
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


def _matrix_of(data: Any) -> Any:
    """Return the matrix ``X`` of an AnnData, in memory or on disk, and all else as it is."""
    if not holds_several(data):
        return data
    return dense_rows(matrix_of(data))


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


def _roughly(seconds: float | None, by: str) -> str:
    """Return a time in the unit that a person would choose."""
    if seconds is None:
        return "unknown"
    unit, name = (1, "s") if seconds < 100 else (60, "min") if seconds < 6000 else (3600, "h")
    return f"roughly {seconds / unit:.2g} {name} on {by}"
