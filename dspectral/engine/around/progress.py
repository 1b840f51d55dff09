"""Progress of a pass: counts of its finished tasks, and events of merges."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from dask.callbacks import Callback

from dspectral.engine.around.checkpoints import TimedSummary
from dspectral.engine.around.events import BlocksDone, Event, PassStarted, SummariesMerged, emit_from_worker
from dspectral.engine.graph import merge_on_level
from dspectral.engine.summary import get_nbytes

DONE_STATES = ("memory", "released", "forgotten", "erred")
"""States of Dask tasks that need not run any more."""


class TaskCounts:
    """Finished tasks of each task group. `most`: maximum seen; `again`: how many of them must run again."""

    def __init__(self, n_groups: int) -> None:
        self.most, self.again = [0] * n_groups, [0] * n_groups

    def count(self, n_done: Sequence[int | None]) -> int:
        """Update with the finished tasks of each group (None if unknown); return the number of newly lost tasks."""
        n_lost = 0
        # Only a growing gap below the maximum counts: a loss that several updates show counts once.
        for i, number in enumerate(n_done[: len(self.most)]):
            if number is not None:
                again = max(0, self.most[i] - number)
                n_lost += max(0, again - self.again[i])
                self.again[i], self.most[i] = again, max(number, self.most[i])
        return n_lost


class LocalCounts(Callback):
    """Dask callback that counts the finished tasks of one pass in this process."""

    def __init__(self, pass_info: PassStarted, emit: Callable[[Event], None]) -> None:
        super().__init__()
        self._pass_info, self._emit = pass_info, emit
        self._levels = {group: level for level, group in enumerate(pass_info.merge_groups, 1)}
        self._n_blocks, self._n_merges = pass_info.n_kept, pass_info.n_kept_merges

    def _posttask(self, key: Hashable, result: Any, *_others: Any) -> None:
        # Dask calls this in the thread that waits for the pass, one task at a time.
        group, pass_info = str(key[0] if isinstance(key, tuple) else key), self._pass_info
        level = self._levels.get(group)
        if level is None and group != pass_info.block_group:
            return
        # Nodes of shared functions and tasks that only read do not count.
        self._n_blocks += level is None
        self._n_merges += level is not None
        if level is not None:
            self._emit(make_merge_event(pass_info.fit, pass_info.run, level, result))
        self._emit(BlocksDone(pass_info.fit, pass_info.run, self._n_blocks, self._n_merges))


def merge_and_emit(fit_token: str, run: str, level: int, *summaries: Any) -> Any:
    """Merge neighboring summaries, and send the size and certificate of the result to the scheduler."""
    result = merge_on_level(level, *summaries)
    emit_from_worker(make_merge_event(fit_token, run, level, result))
    return result


def make_merge_event(fit_token: str, run: str, level: int, summary: Any) -> SummariesMerged:
    """Return the event of a merged summary."""
    summary = summary.summary if isinstance(summary, TimedSummary) else summary
    n_rows = getattr(summary, "n_rows", None)
    error, energy = getattr(summary, "error", None), getattr(summary, "energy", None)
    absolute = relative = None
    if error is not None and energy is not None:
        absolute, relative = float(error), float(error / energy) if energy else 0.0
    n_rows = None if n_rows is None else int(n_rows)
    return SummariesMerged(fit_token, run, level, get_nbytes(summary), n_rows, absolute, relative)
