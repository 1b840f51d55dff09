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

from dspectral.configuration import merges_of
from dspectral.engine.around import events as of
from dspectral.engine.around.progress import TaskCounts
from dspectral.run_plan import projected_memory

MOST_POINTS = 240
"""Points that a series keeps: more than that would not be seen in a picture."""
MOST_PASSES = 48
"""Passes that are kept of a fit; the oldest go first."""
MOST_FITS = 64
"""Fits that are kept, with those that other fits called."""
MOST_LOOPS = 64
"""Loops that are compiled at once, at most."""
MOST_ENDED = 4096
"""Fits that are over and wait to be listed, at most."""
WINDOW = 6.0
"""Seconds over which a rate is taken."""
KINDS: dict[str, Any] = {kind.__name__: kind for kind in get_args(of.Event)}
COUNTED = ("BlocksDone", "Redone", "Retried", "Waiting")
"""Messages that a scheduler leaves aside: it counts its tasks itself."""


class Memory(NamedTuple):
    """Bytes of all worker processes, of their interpreters with packages, and what the pass adds to these by law."""

    processes: int
    interpreters: int | None
    law: int | None


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

    def speed(self, n: int | None) -> float:
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

    def __init__(self, most: int = MOST_POINTS) -> None:
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
        self.begun: of.PassBegan | None = None
        self.ended: of.PassEnded | None = None
        self.totals: list[int] = []
        self.counts = TaskCounts(0)
        self.n_blocks = self.n_merges = self.n_redone = self.lost_workers = self.summary_bytes = 0
        self.waits = ""
        self.best = (0, 0, 0.0)
        self.rates: list[float] = []
        self._n_now = self._n_computed = 0
        self._recent: deque[tuple[float, int]] = deque(maxlen=32)

    def begin(self, begun: of.PassBegan, order: int) -> None:
        """Take in what a pass will do."""
        self.begun, self.order = begun, order
        merges = merges_of(begun.n_blocks, begun.fan_in) if begun.merge_groups else []
        self.totals = [begun.n_blocks, *merges]
        self.counts = TaskCounts(len(self.totals))

    @property
    def is_running(self) -> bool:
        """Whether it has begun and not ended."""
        return self.begun is not None and self.ended is None

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

    def rate(self) -> float | None:
        """Return how many blocks a second were computed lately, those that were lost before among them."""
        if len(self._recent) < 2 or self._n_now >= self.totals[0]:
            return None
        at, done = self._recent[-1]
        since, before = next(point for point in self._recent if at - point[0] <= WINDOW)
        return (done - before) / (at - since) if at > since else None

    def phases(self, now: float) -> list[Phase]:
        """Return blocks and merges as they were reported to this process."""
        if self.begun is None:
            return []
        begun, seconds = self.begun, max(now - self.since, 1e-9)
        name = re.sub(r"-[0-9a-f]{32}$", "", begun.block_group)
        sizes = begun.n_kept, begun.n_rows, begun.n_bytes
        blocks = Phase(name, self.n_blocks, begun.n_blocks, self.n_redone, seconds, *sizes)
        merges = Phase("merge", self.n_merges, begun.n_merges, 0, seconds, begun.n_kept_merges)
        return [blocks, merges] if begun.n_merges else [blocks]

    def law(self, n_threads: int, *, with_blocks: bool) -> int | None:
        """Return the bytes that a pass needs by :func:`dspectral.projected_memory`."""
        if self.begun is None or not self.summary_bytes or self.begun.fan_in < 2:
            return None
        if with_blocks and self.begun.n_bytes is None:
            return None
        block = -(-(self.begun.n_bytes or 0) // max(self.begun.n_blocks, 1))
        return projected_memory(
            summary_bytes=self.summary_bytes,
            n_blocks=self.begun.n_blocks,
            work_bytes=max(block, self.begun.fan_in * self.summary_bytes) if with_blocks else 0,
            fan_in=self.begun.fan_in,
            n_workers=max(n_threads, 1),
        )


class FitState:
    """One fit or build, or a pass that belongs to none; without a name as long as only a worker's message is here."""

    def __init__(self, token: str, since: float) -> None:
        self.token, self.since = token, since
        self.name = self.parent = ""
        self.n_passes: int | None = None
        self.begun: of.FitBegan | None = None
        self.ended: of.FitEnded | None = None
        self.certificate: float | None = None
        self.until: float | None = None
        self.left = False
        self.passes: dict[str, PassState] = {}
        self.lost_workers = 0
        self.rates, self.bounds, self.held = Series(), Series(), Series()
        self.memory: Memory | None = None

    @property
    def is_running(self) -> bool:
        """Whether it has begun and not ended."""
        return bool(self.name) and self.until is None

    def plan(self, one: PassState) -> float | None:
        """Return the blocks a second of earlier passes over as many blocks, or else the median of this one."""
        n_blocks = one.begun.n_blocks if one.begun else 0
        times = [
            other.ended.seconds
            for other in self.passes.values()
            if other.ended and not other.ended.error and other.begun and other.begun.n_blocks == n_blocks
        ]
        if sum(times) > 0:
            return n_blocks * len(times) / sum(times)
        return median(one.rates) if one.rates else None

    def note_rate(self, one: PassState, at: float) -> None:
        """Keep the rate of a pass."""
        rate = one.rate()
        if rate is not None:
            if not one.rates:  # no line leads from one pass to the next
                self.rates.add(at, math.nan, math.nan)
            one.rates = [*one.rates[-MOST_POINTS:], rate]
            self.rates.add(at, rate, self.plan(one) or math.nan)


class Record:
    """Facts about fits, gathered from events.

    Messages to a scheduler are sent without waiting, so one may pass another: each event sets facts of its own, and
    none depends on those before it. Events come from the threads that compute: who reads holds the `lock`. `fits`:
    fits by their tokens; `ended`: outermost fits that are over, for who lists them and takes them out; `merging`:
    addresses of the workers that have merged summaries, and so hold all packages that this takes.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.fits: dict[str, FitState] = {}
        self.ended: deque[FitState] = deque(maxlen=MOST_ENDED)
        self.n_retried = 0
        self.merging: set[str] = set()
        self._runs: dict[str, PassState] = {}
        self._loops: dict[tuple[str, str, str], tuple[int, float | None]] = {}
        self._numbers = itertools.count()

    def hear_message(self, message: object, at: float) -> None:
        """Take in an event as a scheduler has it."""
        name = message.get("event") if isinstance(message, Mapping) else None
        if not isinstance(message, Mapping) or name in COUNTED:
            return
        try:
            kind = KINDS[str(name)]
            values = (message[field] for field in kind._fields)
            event = kind(*(tuple(value) if isinstance(value, list) else value for value in values))
            self.hear(event, at, int(message["order"]), message["sender"], message.get("worker", ""))
        except (KeyError, TypeError):
            of.LOGGER.debug("a message of another version: %s", name)

    def hear(
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
                case of.FitBegan() | of.FitEnded() | of.Certified():
                    self._on_fit(event, at)
                case of.PassBegan():
                    one = self._pass(event.fit, event.run, at)
                    one.begin(event, order)
                    fit = self.fits[one.fit]
                    fit.name = fit.name or event.of or event.name
                    fit.n_passes = event.n_passes or fit.n_passes
                case of.PassEnded():
                    one = self._pass(event.fit, event.run, at)
                    one.ended = event
                    if not event.fit:
                        self.fits[one.fit].until = at
                case of.Merged():
                    self.merging.add(worker)
                    self._on_merged(event, at)
                case of.Compiling() | of.Compiled():
                    key = (sender, event.module, event.loop)
                    if self._loops.get(key, (-1, None))[0] < order:
                        self._loops[key] = (order, at if isinstance(event, of.Compiling) else None)
                    while len(self._loops) > MOST_LOOPS:
                        del self._loops[next(iter(self._loops))]
                case _:
                    self._on_counted(event)

    def running_passes(self) -> list[tuple[FitState, PassState]]:
        """Return what runs, each pass with the outermost fit that it is for."""
        found = [(self.root_of(self.fits[one.fit]), one) for one in self._runs.values() if one.is_running]
        return [(root, one) for root, one in found if root.is_running]

    def roots(self) -> list[FitState]:
        """Return the fits that no other fit called."""
        known = (fit for fit in self.fits.values() if fit.name and self.root_of(fit) is fit)
        return sorted(known, key=lambda fit: fit.since)

    def family(self, root: FitState) -> list[FitState]:
        """Return a fit, and all fits that it called."""
        members = [fit for fit in self.fits.values() if fit is not root and self.root_of(fit) is root]
        return [root, *sorted(members, key=lambda fit: fit.since)]

    def root_of(self, fit: FitState) -> FitState:
        """Return the outermost fit that called a fit."""
        seen = {fit.token}
        while fit.parent in self.fits and fit.parent not in seen:
            fit = self.fits[fit.parent]
            seen.add(fit.token)
        return fit

    def compiling(self) -> dict[str, float]:
        """Return the loops that are compiled now, and since when."""
        return {key[2]: since for key, (_order, since) in sorted(self._loops.items()) if since is not None}

    def lose_worker(self, address: str) -> None:
        """Count a worker that left the cluster while fits run."""
        self.merging.discard(address)
        for root in self.roots():
            root.lost_workers += root.is_running

    def leave(self, at: float) -> None:
        """Mark all running fits as ended, because no client is left."""
        for fit in self.fits.values():
            if fit.is_running:
                fit.left, fit.until = True, at
        self._loops.clear()

    def _fit(self, token: str, at: float) -> FitState:
        if token not in self.fits:
            self.fits[token] = FitState(token, at)
            while len(self.fits) > MOST_FITS:
                self._forget(token)
        return self.fits[token]

    def _forget(self, newest: str) -> None:
        """Drop a fit: the oldest whose outermost fit is over, else the oldest that is over, else the oldest."""
        others = (fit for token, fit in self.fits.items() if token != newest)
        fit = min(others, key=lambda fit: (self.root_of(fit).is_running, fit.is_running))
        for run in self.fits.pop(fit.token).passes:
            self._runs.pop(run, None)

    def _pass(self, fit: str, run: str, at: float) -> PassState:
        if run not in self._runs:
            # A pass outside any fit is shown as if it were one.
            one = self._runs[run] = PassState(fit or run, run, at)
            owner = self._fit(one.fit, at)
            owner.passes[run] = one
            while len(owner.passes) > MOST_PASSES:
                oldest = next(iter(owner.passes))
                del owner.passes[oldest]
                self._runs.pop(oldest, None)
        return self._runs[run]

    def _on_fit(self, event: of.FitBegan | of.FitEnded | of.Certified, at: float) -> None:
        fit = self._fit(event.fit, at)
        if isinstance(event, of.FitBegan):
            fit.begun, fit.name, fit.parent = event, event.name, event.parent
            fit.n_passes = event.n_passes if fit.n_passes is None else fit.n_passes
        elif isinstance(event, of.Certified):
            self._bound(fit, at, event.relative)
        else:
            fit.ended, fit.name, fit.until, fit.left = event, event.name, at, False
            if fit.begun is None:
                fit.since = at - event.seconds
            # A fit within another is a step of it, and is not listed.
            elif fit.parent not in self.fits or not self.fits[fit.parent].is_running:
                self.ended.append(fit)
                self.n_retried = 0

    def _on_merged(self, event: of.Merged, at: float) -> None:
        one = self._pass(event.fit, event.run, at)
        one.summary_bytes = max(one.summary_bytes, event.summary_bytes)
        # That of the summary of most rows is the one that says most of the whole.
        place = (event.n_rows or 0, event.level)
        if event.relative is not None and place >= one.best[:2]:
            one.best = (*place, event.relative)
            self._bound(self.fits[one.fit], at, event.relative)

    def _bound(self, fit: FitState, at: float, relative: float) -> None:
        fit.certificate = relative
        self.root_of(fit).bounds.add(at, relative)

    def _on_counted(self, event: of.BlocksDone | of.Redone | of.Retried | of.Waiting) -> None:
        if isinstance(event, of.Retried):
            self.n_retried += 1
            return
        one = self._runs.get(event.run)
        if one is None:
            return
        if isinstance(event, of.Waiting):
            one.waits = event.why
        elif isinstance(event, of.Redone):
            one.n_redone += event.n_tasks
            one.lost_workers = event.lost_workers
        else:
            one.waits = ""
            # The thread that asks a cluster and the end of a pass both count: an older count may come behind a newer.
            one.n_blocks = max(one.n_blocks, event.n_blocks)
            one.n_merges = max(one.n_merges, event.n_merges)
