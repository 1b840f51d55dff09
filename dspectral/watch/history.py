"""The record of fits and their passes, reduced from events; terminal, notebook and dashboard draw from it."""

import itertools
import math
import re
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple, get_args

from dspectral.configuration import count_merges
from dspectral.engine.around import events as of
from dspectral.engine.around.progress import TaskCounts
from dspectral.run_plan import estimate_memory

MAX_POINTS = 240
"""Points that a series keeps: more than that would not be seen in a picture."""
MAX_PASSES = 48
"""Passes that are kept of a fit; the oldest go first."""
MAX_FITS = 64
"""Fits that are kept, with those that other fits called."""
MAX_LOOPS = 64
"""Loops that are compiled at once, at most."""
MAX_ENDED = 4096
"""Fits that are over and wait to be listed, at most."""
WINDOW = 6.0
"""Seconds over which a rate is taken."""
KINDS: dict[str, Any] = {kind.__name__: kind for kind in get_args(of.Event)}
SCHEDULER_COUNTED = (
    of.BlocksDone.__name__,
    of.TasksRecomputed.__name__,
    of.TaskRetried.__name__,
    of.PassStalled.__name__,
)
"""Messages that a scheduler leaves aside: it counts its tasks itself."""


class WorkerMemory(NamedTuple):
    """Bytes of all worker processes, of their interpreters with packages, and what the pass adds to these by law."""

    processes: int
    interpreters: int | None
    memory_bound: int | None


class Phase(NamedTuple):
    """Tasks of one kind within what runs: those done at any time, of them those ``again``, and the seconds so far.

    `n_kept`: those that need not run; `n_rows, n_bytes`: what all of them read.
    """

    name: str
    done: int
    total: int
    again: int = 0
    seconds: float = 0.0
    n_kept: int = 0
    n_rows: int | None = None
    n_bytes: int | None = None

    @property
    def share(self) -> float:
        """Share of the tasks that is done, in [0, 1]."""
        return self.done / max(self.total, 1)

    def get_speed(self, n: int | None) -> float:
        """Return how many of ``n`` are done a second, where all blocks are about as large; 0 if that is unknown."""
        return (n or 0) * max(0, self.done - self.n_kept) / max(self.total, 1) / max(self.seconds, 1e-9)


class Series:
    """Points in time. Where they are many, every second one is dropped, and fewer are kept from then on.

    >>> series = Series(most=4)
    >>> for i in range(7):
    ...     series.add(i, i * i)
    >>> series.points
    [(0, 0), (2, 4), (4, 16), (6, 36)]
    """

    def __init__(self, most: int = MAX_POINTS) -> None:
        self.points: list[tuple[float, ...]] = []
        self._most, self._step, self._n_since = most, 1, 0

    def add(self, *point: float) -> None:
        """Add a point; the last one added is always kept."""
        if self.points and self._n_since % self._step:
            self.points[-1] = point
        else:
            self.points.append(point)
        self._n_since += 1
        if len(self.points) > self._most:
            del self.points[1:-1:2]
            self._step, self._n_since = 2 * self._step, 0


class PassState:
    """One pass over blocks; lists of counts have one entry a level, blocks first."""

    def __init__(self, fit: str, run: str, since: float) -> None:
        self.fit, self.run, self.since = fit, run, since
        self.order = math.inf
        self.started: of.PassStarted | None = None
        self.ended: of.PassEnded | None = None
        self.totals: list[int] = []
        self.counts = TaskCounts(0)
        self.n_blocks = self.n_merges = self.n_redone = self.lost_workers = self.summary_bytes = 0
        self.waits = ""
        self.best = (0, 0, 0.0)
        self.rates: list[float] = []
        self._n_now = self._n_computed = 0
        self._recent: deque[tuple[float, int]] = deque(maxlen=32)

    def begin(self, started: of.PassStarted, order: int) -> None:
        """Take in what a pass will do."""
        self.started, self.order = started, order
        merges = count_merges(started.n_blocks, started.fan_in) if started.merge_groups else []
        self.totals = [started.n_blocks, *merges]
        self.counts = TaskCounts(len(self.totals))

    @property
    def is_running(self) -> bool:
        """Whether it has begun and not ended."""
        return self.started is not None and self.ended is None

    @property
    def done(self) -> list[int]:
        """Number of tasks of each level that were done at any time; all of them after a pass without an error."""
        return self.totals if self.ended is not None and not self.ended.error else self.counts.most

    @property
    def share(self) -> float:
        """Share of the tasks that are done and need not run again, in [0, 1]."""
        n_again = sum(self.counts.again) if self.ended is None else 0
        return (sum(self.done) - n_again) / max(sum(self.totals), 1)

    def count(self, done: Sequence[int | None], at: float) -> None:
        """Take in how many tasks of each level are done now; fewer than before were lost, and run again."""
        if all(number is None for number in done):
            return
        if done[0] is not None:
            self._n_computed += max(0, done[0] - self._n_now)
            self._n_now = done[0]
        self.n_redone += self.counts.count(done)
        self._recent.append((at, self._n_computed))

    def get_rate(self) -> float | None:
        """Return how many blocks a second were computed lately, those that were lost before among them."""
        if len(self._recent) < 2 or self._n_now >= self.totals[0]:
            return None
        at, done = self._recent[-1]
        since, before = next(point for point in self._recent if at - point[0] <= WINDOW)
        return (done - before) / (at - since) if at > since else None

    def get_phases(self, now: float) -> list[Phase]:
        """Return blocks and merges as they were reported to this process."""
        if self.started is None:
            return []
        started, seconds = self.started, max(now - self.since, 1e-9)
        name = re.sub(r"-[0-9a-f]{32}$", "", started.block_group)
        sizes = started.n_kept, started.n_rows, started.n_bytes
        blocks = Phase(name, self.n_blocks, started.n_blocks, self.n_redone, seconds, *sizes)
        merges = Phase("merge", self.n_merges, started.n_merges, 0, seconds, started.n_kept_merges)
        return [blocks, merges] if started.n_merges else [blocks]

    def memory_bound(self, n_threads: int, *, with_blocks: bool) -> int | None:
        """Return the bytes that a pass needs by :func:`dspectral.estimate_memory`."""
        if self.started is None or not self.summary_bytes or self.started.fan_in < 2:
            return None
        if with_blocks and self.started.n_bytes is None:
            return None
        block = -(-(self.started.n_bytes or 0) // max(self.started.n_blocks, 1))
        return estimate_memory(
            summary_bytes=self.summary_bytes,
            n_blocks=self.started.n_blocks,
            work_bytes=max(block, self.started.fan_in * self.summary_bytes) if with_blocks else 0,
            fan_in=self.started.fan_in,
            n_workers=max(n_threads, 1),
        )


class FitState:
    """One fit or build, or a pass that belongs to none; without a name as long as only a worker's message is here."""

    def __init__(self, token: str, since: float) -> None:
        self.token, self.since = token, since
        self.name = self.parent = ""
        self.n_passes: int | None = None
        self.started: of.FitStarted | None = None
        self.ended: of.FitEnded | None = None
        self.certificate: float | None = None
        self.until: float | None = None
        self.left = False
        self.passes: dict[str, PassState] = {}
        self.lost_workers = 0
        self.rates, self.bounds, self.held = Series(), Series(), Series()
        self.memory: WorkerMemory | None = None

    @property
    def is_running(self) -> bool:
        """Whether it has begun and not ended."""
        return bool(self.name) and self.until is None

    def get_expected_rate(self, one: PassState) -> float | None:
        """Return the blocks a second of earlier passes over as many blocks, or else the median of this one."""
        n_blocks = one.started.n_blocks if one.started else 0
        times = [
            other.ended.seconds
            for other in self.passes.values()
            if other.ended and not other.ended.error and other.started and other.started.n_blocks == n_blocks
        ]
        if sum(times) > 0:
            return n_blocks * len(times) / sum(times)
        return median(one.rates) if one.rates else None

    def record_rate(self, one: PassState, at: float) -> None:
        """Keep the rate of a pass."""
        rate = one.get_rate()
        if rate is not None:
            if not one.rates:  # no line leads from one pass to the next
                self.rates.add(at, math.nan, math.nan)
            one.rates = [*one.rates[-MAX_POINTS:], rate]
            self.rates.add(at, rate, self.get_expected_rate(one) or math.nan)


class FitHistory:
    """Facts about fits, gathered from events.

    Messages to a scheduler are sent without waiting, so one may pass another: each event sets facts of its own, and
    none depends on those before it. Events come from the threads that compute: who reads holds the `lock`. `fits`:
    fits by their tokens; `ended`: outermost fits that are over, for who lists them and takes them out; `merging`:
    addresses of the workers that have merged summaries, and so hold all packages that this takes.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.fits: dict[str, FitState] = {}
        self.ended: deque[FitState] = deque(maxlen=MAX_ENDED)
        self.n_retried = 0
        self.merging: set[str] = set()
        self._runs: dict[str, PassState] = {}
        self._loops: dict[tuple[str, str, str], tuple[int, float | None]] = {}
        self._numbers = itertools.count()

    def on_message(self, message: object, at: float) -> None:
        """Take in an event as a scheduler has it."""
        name = message.get("event") if isinstance(message, Mapping) else None
        if not isinstance(message, Mapping) or name in SCHEDULER_COUNTED:
            return
        try:
            kind = KINDS[str(name)]
            values = (message[field] for field in kind._fields)
            event = kind(*(tuple(value) if isinstance(value, list) else value for value in values))
            self.on_event(event, at, int(message["order"]), message["sender"], message.get("worker", ""))
        except (KeyError, TypeError):
            of.LOGGER.debug("a message of another version: %s", name)

    def on_event(
        self,
        event: of.Event,
        at: float | None = None,
        order: int | None = None,
        sender: str = "",
        worker: str = "",
    ) -> None:
        """Take in an event: of this process, or with the time and the order of a message."""
        at = time.monotonic() if at is None else at
        with self.lock:
            order = next(self._numbers) if order is None else order
            match event:
                case of.FitStarted() | of.FitEnded() | of.CertificateComputed():
                    self._on_fit(event, at)
                case of.PassStarted():
                    one = self._pass(event.fit, event.run, at)
                    one.begin(event, order)
                    fit = self.fits[one.fit]
                    fit.name = fit.name or event.fit_name or event.name
                    fit.n_passes = event.n_passes or fit.n_passes
                case of.PassEnded():
                    one = self._pass(event.fit, event.run, at)
                    one.ended = event
                    if not event.fit:
                        self.fits[one.fit].until = at
                case of.SummariesMerged():
                    self.merging.add(worker)
                    self._on_merged(event, at)
                case of.CompilationStarted() | of.CompilationEnded():
                    key = (sender, event.module, event.loop)
                    if self._loops.get(key, (-1, None))[0] < order:
                        self._loops[key] = (order, at if isinstance(event, of.CompilationStarted) else None)
                    while len(self._loops) > MAX_LOOPS:
                        del self._loops[next(iter(self._loops))]
                case _:
                    self._on_counted(event)

    def get_running_passes(self) -> list[tuple[FitState, PassState]]:
        """Return what runs, each pass with the outermost fit that it is for."""
        found = [(self.get_root(self.fits[one.fit]), one) for one in self._runs.values() if one.is_running]
        return [(root, one) for root, one in found if root.is_running]

    def get_roots(self) -> list[FitState]:
        """Return the fits that no other fit called."""
        known = (fit for fit in self.fits.values() if fit.name and self.get_root(fit) is fit)
        return sorted(known, key=lambda fit: fit.since)

    def get_family(self, root: FitState) -> list[FitState]:
        """Return a fit, and all fits that it called."""
        members = [fit for fit in self.fits.values() if fit is not root and self.get_root(fit) is root]
        return [root, *sorted(members, key=lambda fit: fit.since)]

    def get_root(self, fit: FitState) -> FitState:
        """Return the outermost fit that called a fit."""
        seen = {fit.token}
        while fit.parent in self.fits and fit.parent not in seen:
            fit = self.fits[fit.parent]
            seen.add(fit.token)
        return fit

    def get_compiling_loops(self) -> dict[str, float]:
        """Return the loops that are compiled now, and since when."""
        return {key[2]: since for key, (_order, since) in sorted(self._loops.items()) if since is not None}

    def on_worker_left(self, address: str) -> None:
        """Count a worker that left the cluster while fits run."""
        self.merging.discard(address)
        for root in self.get_roots():
            root.lost_workers += root.is_running

    def on_client_left(self, at: float) -> None:
        """Mark all running fits as ended, because no client is left."""
        for fit in self.fits.values():
            if fit.is_running:
                fit.left, fit.until = True, at
        self._loops.clear()

    def _fit(self, token: str, at: float) -> FitState:
        if token not in self.fits:
            self.fits[token] = FitState(token, at)
            while len(self.fits) > MAX_FITS:
                self._drop_oldest(token)
        return self.fits[token]

    def _drop_oldest(self, newest: str) -> None:
        """Drop a fit: the oldest whose outermost fit is over, else the oldest that is over, else the oldest."""
        others = (fit for token, fit in self.fits.items() if token != newest)
        fit = min(others, key=lambda fit: (self.get_root(fit).is_running, fit.is_running))
        for run in self.fits.pop(fit.token).passes:
            self._runs.pop(run, None)

    def _pass(self, fit: str, run: str, at: float) -> PassState:
        if run not in self._runs:
            # A pass outside any fit is shown as if it were one.
            one = self._runs[run] = PassState(fit or run, run, at)
            owner = self._fit(one.fit, at)
            owner.passes[run] = one
            while len(owner.passes) > MAX_PASSES:
                oldest = next(iter(owner.passes))
                del owner.passes[oldest]
                self._runs.pop(oldest, None)
        return self._runs[run]

    def _on_fit(self, event: of.FitStarted | of.FitEnded | of.CertificateComputed, at: float) -> None:
        fit = self._fit(event.fit, at)
        if isinstance(event, of.FitStarted):
            fit.started, fit.name, fit.parent = event, event.name, event.parent
            fit.n_passes = event.n_passes if fit.n_passes is None else fit.n_passes
        elif isinstance(event, of.CertificateComputed):
            self._add_bound(fit, at, event.relative)
        else:
            fit.ended, fit.name, fit.until, fit.left = event, event.name, at, False
            if fit.started is None:
                fit.since = at - event.seconds
            # A fit within another is a step of it, and is not listed.
            elif fit.parent not in self.fits or not self.fits[fit.parent].is_running:
                self.ended.append(fit)
                self.n_retried = 0

    def _on_merged(self, event: of.SummariesMerged, at: float) -> None:
        one = self._pass(event.fit, event.run, at)
        one.summary_bytes = max(one.summary_bytes, event.summary_bytes)
        # That of the summary of most rows is the one that says most of the whole.
        place = (event.n_rows or 0, event.level)
        if event.relative is not None and place >= one.best[:2]:
            one.best = (*place, event.relative)
            self._add_bound(self.fits[one.fit], at, event.relative)

    def _add_bound(self, fit: FitState, at: float, relative: float) -> None:
        fit.certificate = relative
        self.get_root(fit).bounds.add(at, relative)

    def _on_counted(
        self, event: of.BlocksDone | of.TasksRecomputed | of.TaskRetried | of.PassStalled
    ) -> None:
        if isinstance(event, of.TaskRetried):
            self.n_retried += 1
            return
        one = self._runs.get(event.run)
        if one is None:
            return
        if isinstance(event, of.PassStalled):
            one.waits = event.why
        elif isinstance(event, of.TasksRecomputed):
            one.n_redone += event.n_tasks
            one.lost_workers = event.lost_workers
        else:
            one.waits = ""
            # The thread that asks a cluster and the end of a pass both count: an older count may come behind a newer.
            one.n_blocks = max(one.n_blocks, event.n_blocks)
            one.n_merges = max(one.n_merges, event.n_merges)
