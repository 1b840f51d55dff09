"""Events of a pass while it runs, and its tasks that are done."""

import time
import warnings
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import dask
from dask.callbacks import Callback, normalize_callback

from dspectral.engine.cluster.clients import Client
from dspectral.engine.cluster.run import getter
from dspectral.engine.events import (
    BlocksDone,
    Merged,
    PassBegan,
    PassEnded,
    client_in_force,
    counts_blocks,
    emit,
    has_listeners,
)
from dspectral.engine.fits import fit_in_force, next_number
from dspectral.engine.kept_parts import Part
from dspectral.engine.summary import bytes_of


class Work(NamedTuple):
    """A description of a pass, as far as it is known before it begins.

    `name`: name of the pass; `block_group`: name of the task group of its blocks; `n_blocks`: number of tasks
    in that group; `is_pass`: whether it reads the data, and so has a number; `merge_groups`: names of the
    task groups of the merges, from the blocks up; `n_merges`: number of tasks in these groups; `fan_in`:
    number of summaries that a merge takes; `n_rows, n_bytes`: rows and bytes of all blocks; `n_kept,
    n_kept_merges`: blocks and merges that need not run, since their summaries are kept; `n_joined`: number of
    blocks of the data, where tasks read several.
    """

    name: str
    block_group: str
    n_blocks: int
    is_pass: bool = False
    merge_groups: tuple[str, ...] = ()
    n_merges: int = 0
    fan_in: int = 0
    n_rows: int | None = None
    n_bytes: int | None = None
    n_kept: int = 0
    n_kept_merges: int = 0
    n_joined: int = 0


class LocalCounts(Callback):
    """Counts the tasks of one pass that Dask's schedulers within this process have done."""

    def __init__(self, begun: PassBegan) -> None:
        super().__init__()
        self._begun = begun
        self._levels = {group: level for level, group in enumerate(begun.merge_groups, 1)}
        self._n_blocks, self._n_merges = begun.n_kept, begun.n_kept_merges

    def _posttask(self, key: Hashable, result: Any, *_others: Any) -> None:
        # The scheduler calls this in the thread that waits for the pass, one task at a time.
        group, begun = group_of(key), self._begun
        level = self._levels.get(group)
        if level is None and group != begun.block_group:
            return
        # Either a block or a merge: what is shared by all tasks, and what reads a stream, counts as neither.
        self._n_blocks += level is None
        self._n_merges += level is not None
        if level is not None:
            emit(merged(begun.fit, begun.run, level, result))
        emit(BlocksDone(begun.fit, begun.run, self._n_blocks, self._n_merges))


@contextmanager
def running_pass(work: Work, *, run: str, client: Client | None = None) -> Iterator[dict[str, Any]]:
    """Emit the events of a pass while the body computes it."""
    fit = fit_in_force()
    number = next_number(is_pass=work.is_pass)
    begun = PassBegan(
        fit=fit.token if fit else "",
        of=fit.name if fit else "",
        run=run,
        name=work.name,
        number=number,
        n_passes=fit.n_passes if fit and number else None,
        n_blocks=work.n_blocks,
        n_merges=work.n_merges,
        n_levels=len(work.merge_groups),
        fan_in=work.fan_in,
        n_rows=work.n_rows,
        n_bytes=work.n_bytes,
        block_group=work.block_group,
        merge_groups=work.merge_groups,
        n_kept=work.n_kept,
        n_kept_merges=work.n_kept_merges,
        n_joined=work.n_joined,
    )
    emit(begun, client)
    if work.n_kept:
        emit(BlocksDone(begun.fit, run, work.n_kept, work.n_kept_merges))
    start, error = time.perf_counter(), ""
    try:
        if client is not None:
            yield {"scheduler": getter(client, begun)}
        elif counts_blocks():
            # Named in the call and not registered: a fit in another thread would take registered ones away.
            yield {"callbacks": [*Callback.active, normalize_callback(LocalCounts(begun))]}
        else:
            yield {}
    # Interrupts too: the event of the end says what ended the pass.
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        emit(PassEnded(begun.fit, run, work.name, time.perf_counter() - start, error), client)


def client_for(*, in_memory: bool) -> Client | None:
    """Return the client that will compute a pass, if anybody wants to hear of it."""
    return client_in_force() if not in_memory and (has_listeners() or counts_blocks()) else None


@contextmanager
def without_graph_warning() -> Iterator[None]:
    """Suppress Dask's advice to scatter large arrays.

    Scattered data is lost when its worker dies; data in the graph is not, and fits must survive the loss of a worker.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield


def local_scheduler() -> dict[str, str]:
    """Choose threads, or the caller's own thread where the configuration asks for it."""
    # A scheduler that is named goes before a distributed client, to which all the data would be copied.
    scheduler = dask.config.get("scheduler", None)
    return {"scheduler": "sync" if scheduler in ("sync", "synchronous", "single-threaded") else "threads"}


def merged(fit: str, run: str, level: int, summary: Any) -> Merged:
    """Return the event of a summary that was merged."""
    summary = summary.summary if isinstance(summary, Part) else summary
    n_rows = getattr(summary, "n_rows", None)
    error, energy = getattr(summary, "error", None), getattr(summary, "energy", None)
    absolute = relative = None
    if error is not None and energy is not None:
        absolute, relative = float(error), float(error / energy) if energy else 0.0
    return Merged(
        fit, run, level, bytes_of(summary), None if n_rows is None else int(n_rows), absolute, relative
    )


def group_of(key: Hashable) -> str:
    """Return the name of a task's group.

    >>> group_of(("merge-level-2-0123456789abcdef0123456789abcdef", 7))
    'merge-level-2-0123456789abcdef0123456789abcdef'
    """
    return str(key[0] if isinstance(key, tuple) else key)
