"""Events of a pass while it runs, and its tasks that are done."""

import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from dask.callbacks import Callback, normalize_callback

from dspectral.engine.cluster_pass import getter
from dspectral.engine.events import BlocksDone, Client, Merged, PassBegan, PassEnded, counts_blocks, emit
from dspectral.engine.fits import fit_in_force, next_number
from dspectral.engine.kept_parts import Part
from dspectral.engine.summary import bytes_of


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
def running_pass(
    begun: PassBegan, *, is_pass: bool = False, client: Client | None = None
) -> Iterator[dict[str, Any]]:
    """Emit the events of a pass while the body computes it; yield what ``dask.compute`` is given.

    ``is_pass`` says whether it reads the data, and so has a number.
    """
    fit, number = fit_in_force(), next_number(is_pass=is_pass)
    if fit:
        n_passes = fit.n_passes if number else None
        begun = begun._replace(fit=fit.token, of=fit.name, number=number, n_passes=n_passes)
    emit(begun, client)
    if begun.n_kept:
        emit(BlocksDone(begun.fit, begun.run, begun.n_kept, begun.n_kept_merges))
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
        emit(PassEnded(begun.fit, begun.run, begun.name, time.perf_counter() - start, error), client)


def merged(fit: str, run: str, level: int, summary: Any) -> Merged:
    """Return the event of a summary that was merged."""
    summary = summary.summary if isinstance(summary, Part) else summary
    n_rows = getattr(summary, "n_rows", None)
    error, energy = getattr(summary, "error", None), getattr(summary, "energy", None)
    absolute = relative = None
    if error is not None and energy is not None:
        absolute, relative = float(error), float(error / energy) if energy else 0.0
    n_bytes = bytes_of(summary)
    return Merged(fit, run, level, n_bytes, None if n_rows is None else int(n_rows), absolute, relative)


def group_of(key: Hashable) -> str:
    """Return the name of a task's group: that of a tuple is its first part."""
    return str(key[0] if isinstance(key, tuple) else key)
