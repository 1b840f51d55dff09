"""What runs, as events tell it, and the tasks of everything else that Dask computes."""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple, TypeAlias

from dask.callbacks import Callback

from dspectral.engine import events as of
from dspectral.engine.cluster.clients import DONE, Client, Scheduler
from dspectral.engine.events import pass_label
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


class Heading(NamedTuple):
    """A line above the bars.

    `text`: text of the line; `since`: when it began, as ``time.monotonic`` has it.
    """

    text: str
    since: float


class Ended(NamedTuple):
    """A fit that is over.

    `text`: one line that says what was done; `seconds`: wall time that it took.
    """

    text: str
    seconds: float


class _Pass:
    """A pass that runs."""

    def __init__(self, began: of.PassBegan) -> None:
        self.began, self.since = began, time.monotonic()
        self.n_blocks = self.n_merges = self.n_again = 0

    def phases(self) -> list[Phase]:
        began = self.began
        seconds = max(time.monotonic() - self.since, 1e-9)
        # Rows of blocks that are done are not known: blocks are about as large as each other, and their share of all
        # rows is near enough for a speed.
        share = self.n_blocks / max(began.n_blocks, 1)
        rows = None if began.n_rows is None else began.n_rows * share / seconds
        size = None if began.n_bytes is None else began.n_bytes * share / seconds
        name = phase_name(began.block_group)
        found = [Phase(name, self.n_blocks, began.n_blocks, self.n_again, rows, size)]
        return [*found, Phase("merge", self.n_merges, began.n_merges)] if began.n_merges else found


class Passes:
    """Keeps what events say, for the thread that shows it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fits: dict[str, tuple[of.FitBegan, float]] = {}
        self._passes: dict[str, _Pass] = {}
        self._certificates: dict[str, float] = {}
        self._compiling: dict[str, float] = {}
        self._lost: dict[str, of.Redone] = {}
        self._waiting: dict[str, str] = {}
        self._n_retried = 0
        self._ended: list[Ended] = []
        self._handlers: dict[type, Callable[[Any], None]] = {
            of.FitBegan: self._on_fit_began,
            of.FitEnded: self._on_fit_ended,
            of.PassBegan: self._on_pass_began,
            of.PassEnded: self._on_pass_ended,
            of.BlocksDone: self._on_blocks_done,
            of.Merged: self._on_merged,
            of.Redone: self._on_redone,
            of.Certified: self._on_certified,
            of.Compiling: self._on_compiling,
            of.Compiled: self._on_compiled,
            of.Retried: self._on_retried,
            of.Waiting: self._on_waiting,
        }

    def hear(self, event: of.Event) -> None:
        """Take an event in."""
        # Events come from the threads that compute, and the lines are asked for by the one that shows them.
        with self._lock:
            self._handlers[type(event)](event)

    def phases(self) -> list[Phase]:
        """Return the tasks of the passes that run."""
        with self._lock:
            return [phase for one in self._passes.values() for phase in one.phases()]

    def headings(self) -> list[Heading]:
        """Return what is to be said above the bars."""
        with self._lock:
            return [*self._fit_heading(), *self._notes()]

    def ended(self) -> list[Ended]:
        """Return the fits that ended since the last call."""
        with self._lock:
            found, self._ended = self._ended, []
            return found

    def _fit_heading(self) -> list[Heading]:
        if not self._fits:
            return []
        name = " > ".join(fit.name for fit, _since in self._fits.values())
        places = [pass_label(one.began.number, one.began.n_passes) for one in self._passes.values()]
        text = ": ".join(part for part in (name, *places[:1]) if part)
        return [Heading(text, min(since for _fit, since in self._fits.values()))]

    def _notes(self) -> list[Heading]:
        since = min((since for _fit, since in self._fits.values()), default=0.0)
        notes = [f"certificate {value:.3g} of the energy" for value in self._certificates.values()]
        notes += [_words_of(event) for event in self._lost.values()]
        notes += [f"waits: {why}" for why in self._waiting.values()]
        notes += [f"{self._n_retried} attempts failed and were repeated"] if self._n_retried else []
        loops = [
            (f"compiling {loop} (once, kept for later runs)", at) for loop, at in self._compiling.items()
        ]
        return [*(Heading(note, since) for note in notes), *(Heading(*loop) for loop in loops)]

    def _on_fit_began(self, event: of.FitBegan) -> None:
        self._fits[event.fit] = event, time.monotonic()

    def _on_fit_ended(self, event: of.FitEnded) -> None:
        began, _since = self._fits.pop(event.fit, (None, 0.0))
        # Popped whoever ends, also a fit within another: only what runs may have a line.
        certificate = self._certificates.pop(event.fit, None)
        self._lost = {run: lost for run, lost in self._lost.items() if lost.fit != event.fit}
        # A fit within another is a step of it, and leaves no line of its own.
        if began is None or began.parent in self._fits:
            return
        self._n_retried = 0
        passes = f"{event.n_passes} pass{'es' * (event.n_passes != 1)}" if event.n_passes else ""
        bound = "" if certificate is None else f"certificate {certificate:.3g} of the energy"
        failure = f"ended by {event.error}" if event.error else ""
        text = ", ".join(part for part in (passes, bound, failure) if part)
        self._ended.append(Ended(": ".join(part for part in (event.name, text) if part), event.seconds))

    def _on_pass_began(self, event: of.PassBegan) -> None:
        self._passes[event.run] = _Pass(event)

    def _on_pass_ended(self, event: of.PassEnded) -> None:
        self._passes.pop(event.run, None)
        self._waiting.pop(event.run, None)

    def _on_blocks_done(self, event: of.BlocksDone) -> None:
        one = self._passes.get(event.run)
        self._waiting.pop(event.run, None)
        if one is not None:
            # The thread that asks a cluster and the end of a pass both tell: an older count may come behind a newer
            # one.
            one.n_blocks, one.n_merges = max(one.n_blocks, event.n_blocks), max(one.n_merges, event.n_merges)

    def _on_merged(self, event: of.Merged) -> None:
        if event.relative is not None and event.fit:
            self._certificates[event.fit] = event.relative

    def _on_redone(self, event: of.Redone) -> None:
        one = self._passes.get(event.run)
        if one is not None:
            one.n_again += event.n_tasks
            self._lost[event.run] = event._replace(n_tasks=one.n_again)

    def _on_certified(self, event: of.Certified) -> None:
        self._certificates[event.fit] = event.relative

    def _on_compiling(self, event: of.Compiling) -> None:
        self._compiling[event.loop] = time.monotonic()

    def _on_compiled(self, event: of.Compiled) -> None:
        self._compiling.pop(event.loop, None)

    def _on_retried(self, _event: of.Retried) -> None:
        self._n_retried += 1

    def _on_waiting(self, event: of.Waiting) -> None:
        self._waiting[event.run] = event.why


def _words_of(lost: of.Redone) -> str:
    workers = (
        f"{lost.lost_workers} worker{'s' * (lost.lost_workers != 1)} lost, " if lost.lost_workers else ""
    )
    return f"{workers}{lost.n_tasks} task{'s' * (lost.n_tasks != 1)} run again"


def rate_of(phase: Phase) -> str:
    """Return rows and bytes a second in few words.

    >>> rate_of(Phase("sketch-block", 1, 2, 0, 12345.6, 2.5e6))
    '12,346 rows/s, 2.5 MB/s'
    """
    rows = f"{phase.rows_per_second:,.0f} rows/s" if phase.rows_per_second else ""
    return ", ".join(part for part in (rows, _size(phase.bytes_per_second)) if part)


def _size(rate: float | None) -> str:
    if not rate:
        return ""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if rate >= scale:
            return f"{rate / scale:.1f} {unit}/s"
    return f"{rate:.0f} B/s"
