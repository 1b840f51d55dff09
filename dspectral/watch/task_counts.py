"""Tasks that are done and to be done of whatever Dask computes, in this process or on a cluster."""

import re
import threading
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, TypeAlias

from dask.callbacks import Callback

from dspectral.engine.cluster.clients import DONE, Client, Scheduler
from dspectral.engine.pass_events import group_of

Counts: TypeAlias = Mapping[str, tuple[int, int]]
"""Tasks done and tasks in all, by task group, in the order of their first appearance."""


class Phase(NamedTuple):
    """Tasks of one kind within the computation that runs.

    `name`: name of the tasks, without Dask's token; `done`: most tasks that were done at any time; `total`:
    number of tasks; `again`: tasks among ``done`` whose results were lost with a worker, and which run once
    more; `rows_per_second, bytes_per_second`: speed since the phase began.
    """

    name: str
    done: int
    total: int
    again: int = 0
    rows_per_second: float | None = None
    bytes_per_second: float | None = None


class LocalTasks(Callback):
    """Counts the tasks of Dask's schedulers within this process, of one computation at a time as they do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done: Counter[str] = Counter()
        self._total: Counter[str] = Counter()
        super().__init__()

    def phases(self) -> list[Phase]:
        """Return what runs now; an empty list if nothing does."""
        with self._lock:
            return phases_of({group: (self._done[group], total) for group, total in self._total.items()}, {})

    def _start_state(self, _graph: Mapping[Hashable, object], state: dict[str, Any]) -> None:
        with self._lock:
            self._done.clear()
            # After optimization: tasks that were fused are one here, and end as one.
            self._total = Counter(group_of(key) for key in (*state["ready"], *state["waiting"]))

    def _posttask(self, key: Hashable, *_others: Any) -> None:
        with self._lock:
            self._done[group_of(key)] += 1

    def _finish(self, *_others: Any) -> None:
        with self._lock:
            self._total.clear()


class ClusterTasks:
    """Asks the scheduler of a cluster for the tasks of all its groups."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._most: dict[str, int] = {}

    def phases(self) -> list[Phase]:
        """Return what runs now; an empty list if nothing does, or if the scheduler is gone."""
        try:
            counts = self.client.run_on_scheduler(scheduler_counts)
        except (OSError, RuntimeError, TimeoutError):
            return []  # the computation itself says what is wrong
        # Results are lost with a worker, and `done` falls: the most that was done stays on the bar, and what is
        # missing runs again.
        self._most = {group: max(done, self._most.get(group, 0)) for group, (done, _total) in counts.items()}
        return phases_of(counts, self._most)


def scheduler_counts(dask_scheduler: Scheduler) -> dict[str, tuple[int, int]]:
    """Return tasks done and in all of each group on a scheduler that still has something to do."""
    counts: dict[str, tuple[int, int]] = {}
    for name, group in dask_scheduler.task_groups.items():
        done = sum(group.states.get(state, 0) for state in DONE)
        counts[str(name)] = (done, sum(group.states.values()))
    if all(done == total for done, total in counts.values()):
        return {}
    return counts


def phases_of(counts: Counts, most: Mapping[str, int]) -> list[Phase]:
    """Add up groups that are one phase.

    >>> found = phases_of({"sketch": (5, 80), "merge-level-2": (0, 20), "merge-level-1": (3, 40)}, {"sketch": 12})
    >>> [phase[:4] for phase in found]
    [('sketch', 12, 80, 7), ('merge', 3, 60, 0)]
    """
    found: dict[str, Phase] = {}
    for group, (done, total) in counts.items():
        name = phase_name(group)
        before = found.get(name, Phase(name, 0, 0))
        reached = max(done, most.get(group, 0))
        sums = (before.done + reached, before.total + total, before.again + reached - done)
        found[name] = Phase(name, *sums)
    # What many tasks have in common, and what puts the result together, is no work.
    work = [one for one in found.values() if one.name != "shared" and not one.name.startswith("finalize")]
    return sorted(work, key=lambda one: one.name == "merge")


def phase_name(group: str) -> str:
    """Return what a group's tasks do: its name without Dask's token, merges without their level.

    Tasks that many others have in common, ``shared-...``, are called ``shared``: they are no work.

    >>> phase_name("sketch-0123456789abcdef0123456789abcdef"), phase_name("merge-level-2"), phase_name("shared-a")
    ('sketch', 'merge', 'shared')
    """
    name = re.sub(r"-[0-9a-f]{32}$", "", group)
    return re.sub(r"^merge-level-\d+$", "merge", re.sub(r"^shared-.*", "shared", name))
