"""State of fits and their passes, computed from events, for the terminal, notebook and dashboard displays."""

import itertools
import math
import re
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, get_args

from dspectral.configuration import count_merges
from dspectral.engine.around import events
from dspectral.engine.around.progress import TaskCounts

MAX_POINTS = 240
"""Maximum number of points of a curve; the oldest are dropped."""
MAX_PASSES = 48
"""Maximum number of passes of a fit; the oldest are dropped."""
MAX_FITS = 64
"""Maximum number of fits, including nested ones."""
MAX_LOOPS = 64
"""Maximum number of loops that are being compiled."""
MAX_ENDED = 4096
"""Maximum number of finished fits that are not listed yet."""
RATE_SECONDS = 6.0
"""Minimum seconds over which a rate is averaged."""
CLIENT_SECONDS = 1.0
"""Seconds without a running pass from which on a fit is shown as computing in its client."""
KINDS: dict[str, Any] = {kind.__name__: kind for kind in get_args(events.Event)}
SCHEDULER_COUNTED = tuple(
    kind.__name__ for kind in (events.BlocksDone, events.TasksRecomputed, events.TaskRetried, events.PassStalled)
)
"""Events that the dashboard ignores, because the scheduler counts its own tasks."""


def format_clock(seconds: float) -> str:
    """Return a duration in hours, minutes and seconds."""
    return str(timedelta(seconds=int(seconds)))


class Phase(NamedTuple):
    """Progress of the blocks or the merges of a pass.

    `done`: tasks that were done at any time; `again`: how many of them run again; `n_kept`: tasks whose summaries are
    read from checkpoints; `n_rows, n_bytes`: size of the data of all tasks.
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
        """Share of finished tasks, in [0, 1]."""
        return self.done / max(self.total, 1)

    def get_speed(self, n: int | None) -> float:
        """Return the rows or bytes processed per second, of ``n`` in total; 0 if unknown."""
        return (n or 0) * max(0, self.done - self.n_kept) / max(self.total, 1) / max(self.seconds, 1e-9)


class PassState:
    """State of one pass; lists of counts have one entry per level, blocks first."""

    def __init__(self, fit: str, run: str, since: float) -> None:
        self.fit, self.run, self.since = fit, run, since
        self.order = math.inf
        self.started: events.PassStarted | None = None
        self.ended: events.PassEnded | None = None
        self.until = since
        self.totals: list[int] = []
        self.counts = TaskCounts(0)
        self.n_blocks = self.n_merges = self.n_redone = self.lost_workers = 0
        self.waits = ""
        self.best = (0, 0, 0.0)
        self._n_now = self._n_computed = 0
        self._counted_at = since
        self._recent: deque[tuple[float, int]] = deque(maxlen=32)

    def start(self, started: events.PassStarted, order: int) -> None:
        """Set the description of the pass."""
        self.started, self.order = started, order
        merges = count_merges(started.n_blocks, started.fan_in) if started.merge_groups else []
        self.totals = [started.n_blocks, *merges]
        self.counts = TaskCounts(len(self.totals))

    @property
    def is_running(self) -> bool:
        """Whether it has started and not ended."""
        return self.started is not None and self.ended is None

    @property
    def done(self) -> list[int]:
        """Number of finished tasks of each level; all of them after a pass without an error."""
        return self.totals if self.ended is not None and not self.ended.error else self.counts.most

    @property
    def share(self) -> float:
        """Share of tasks that are done and need not run again, in [0, 1]."""
        n_again = sum(self.counts.again) if self.ended is None else 0
        return (sum(self.done) - n_again) / max(sum(self.totals), 1)

    def count(self, n_done: Sequence[int | None], timestamp: float) -> None:
        """Update with the finished tasks of each level; lost tasks make the number smaller."""
        if all(number is None for number in n_done):
            return
        if n_done[0] is not None:
            self._n_computed += max(0, n_done[0] - self._n_now)
            self._n_now = n_done[0]
        self.n_redone += self.counts.count(n_done)
        self._counted_at = timestamp
        if not self._recent or self._recent[-1][1] < self._n_computed:
            self._recent.append((timestamp, self._n_computed))

    def get_rate(self) -> float | None:
        """Return the recent rate in blocks per second, including repeated blocks; None if unknown."""
        earlier = [point for point in self._recent if point[1] < self._n_computed]
        if not earlier or self._n_now >= self.totals[0]:
            return None
        # Measured since the last finished block, so that slow blocks have a small rate instead of 0.
        old = [point for point in earlier if self._counted_at - point[0] >= RATE_SECONDS]
        since, n_before = old[-1] if old else earlier[0]
        return (self._n_computed - n_before) / max(self._counted_at - since, 1e-9)

    @property
    def last_task(self) -> str:
        """Name of the last task of a running pass if only that is left, else empty."""
        n_done, n_tasks = max(sum(self.counts.most), self.n_blocks + self.n_merges), sum(self.totals)
        return self.started.finish if self.started and self.is_running and n_done >= n_tasks else ""

    def get_phases(self, now: float) -> list[Phase]:
        """Return the progress of blocks and merges from the events of this process."""
        if self.started is None:
            return []
        started, seconds = self.started, max(now - self.since, 1e-9)
        name = re.sub(r"-[0-9a-f]{32}$", "", started.block_group)
        sizes = started.n_kept, started.n_rows, started.n_bytes
        blocks = Phase(name, self.n_blocks, started.n_blocks, self.n_redone, seconds, *sizes)
        merges = Phase("merge", self.n_merges, started.n_merges, 0, seconds, started.n_kept_merges)
        return [blocks, merges] if started.n_merges else [blocks]


class FitState:
    """State of one fit or build, or of a pass outside of fits; without a name until its start event arrives."""

    def __init__(self, token: str, since: float) -> None:
        self.token, self.since = token, since
        self.name = self.parent = ""
        self.n_passes: int | None = None
        self.started: events.FitStarted | None = None
        self.ended: events.FitEnded | None = None
        self.certificate: float | None = None
        self.until: float | None = None
        self.client_left = False
        self.passes: dict[str, PassState] = {}
        self.memory = (0, 0)  # bytes of all workers, and their limits
        self.lost_workers = 0
        self.rates, self.bounds = (deque[tuple[float, float]](maxlen=MAX_POINTS) for _ in range(2))

    @property
    def is_running(self) -> bool:
        """Whether it has started and not ended."""
        return bool(self.name) and self.until is None

    def get_seconds_left(self, state: PassState) -> tuple[float, float] | None:
        """Return about how many seconds the blocks of a running pass and of all passes still take; None if unknown."""
        started, rate = state.started, state.get_rate()
        if started is None or not rate:
            return None
        n_later = max(0, (self.n_passes or 0) - (started.number or self.n_passes or 0)) * started.n_blocks
        seconds = (started.n_blocks - state.counts.most[0]) / rate
        return seconds, seconds + n_later / rate


class FitHistory:
    """State of all fits, updated by events.

    Events may arrive out of order, so each one sets its own fields. They come from several threads, so readers must
    hold `lock`. `fits`: states by token; `ended`: outermost fits that finished and are not listed yet.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.fits: dict[str, FitState] = {}
        self.ended: deque[FitState] = deque(maxlen=MAX_ENDED)
        self.n_retried = 0
        self._runs: dict[str, PassState] = {}
        self._loops: dict[tuple[str, str, str], tuple[int, float | None]] = {}
        self._numbers = itertools.count()

    def on_message(self, message: object, timestamp: float) -> None:
        """Process an event in the form of a scheduler's message."""
        name = message.get("event") if isinstance(message, Mapping) else None
        if not isinstance(message, Mapping) or name in SCHEDULER_COUNTED:
            return
        try:
            kind = KINDS[str(name)]
            values = (message[field] for field in kind._fields)
            event = kind(*(tuple(value) if isinstance(value, list) else value for value in values))
            self.on_event(event, timestamp, int(message["order"]), message["sender"])
        except (KeyError, TypeError):
            events.LOGGER.debug("a message of another version: %s", name)

    def on_event(
        self,
        event: events.Event,
        timestamp: float | None = None,
        order: int | None = None,
        sender: str = "",
    ) -> None:
        """Process an event; `timestamp, order, sender` come from its message, if there is one."""
        timestamp = time.monotonic() if timestamp is None else timestamp
        with self.lock:
            order = next(self._numbers) if order is None else order
            match event:
                case events.FitStarted() | events.FitEnded() | events.CertificateComputed():
                    self._on_fit(event, timestamp)
                case events.PassStarted():
                    state = self._get_pass(event.fit, event.run, timestamp)
                    state.start(event, order)
                    fit = self.fits[state.fit]
                    fit.name = fit.name or event.fit_name or event.name
                    fit.n_passes = event.n_passes or fit.n_passes
                case events.PassEnded():
                    state = self._get_pass(event.fit, event.run, timestamp)
                    state.ended, state.until = event, timestamp
                    if not event.fit:
                        self.fits[state.fit].until = timestamp
                case events.SummariesMerged():
                    self._on_merged(event, timestamp)
                case events.CompilationStarted() | events.CompilationEnded():
                    key = (sender, event.module, event.loop)
                    if self._loops.get(key, (-1, None))[0] < order:
                        self._loops[key] = (
                            order,
                            timestamp if isinstance(event, events.CompilationStarted) else None,
                        )
                    while len(self._loops) > MAX_LOOPS:
                        del self._loops[next(iter(self._loops))]
                case _:
                    self._on_counted(event)

    def get_running_passes(self) -> list[tuple[FitState, PassState]]:
        """Return the running passes, each with its outermost fit."""
        running = [(self.get_root(self.fits[state.fit]), state) for state in self._runs.values() if state.is_running]
        return [(root, state) for root, state in running if root.is_running]

    def get_roots(self) -> list[FitState]:
        """Return the outermost fits in order of their start."""
        roots = (fit for fit in self.fits.values() if fit.name and self.get_root(fit) is fit)
        return sorted(roots, key=lambda fit: fit.since)

    def get_family(self, root: FitState) -> list[FitState]:
        """Return a fit and all fits inside it, in order of their start."""
        members = [fit for fit in self.fits.values() if fit is not root and self.get_root(fit) is root]
        return [root, *sorted(members, key=lambda fit: fit.since)]

    def get_root(self, fit: FitState) -> FitState:
        """Return the outermost fit around a fit."""
        visited = {fit.token}
        while fit.parent in self.fits and fit.parent not in visited:
            fit = self.fits[fit.parent]
            visited.add(fit.token)
        return fit

    def get_client_work(self, root: FitState, now: float) -> tuple[str, float]:
        """Return what a fit computes in its client while no pass runs, and for how many seconds; else an empty text."""
        states = [state for fit in self.get_family(root) for state in fit.passes.values() if state.started]
        last = max(states, key=lambda state: state.until, default=None)
        seconds = now - (root.since if last is None else last.until)
        is_in_pass = any(state.is_running for state in states)
        if not root.is_running or root.started is None or is_in_pass or seconds < CLIENT_SECONDS:
            return "", 0.0
        if last is None or last.started is None:
            return "before the first pass", seconds
        return f"after {last.started.label}", seconds

    def get_compiling_loops(self) -> dict[str, float]:
        """Return the loops that are being compiled, and their start times."""
        return {key[2]: since for key, (_order, since) in sorted(self._loops.items()) if since is not None}

    def on_worker_left(self) -> None:
        """Count a lost worker in all running fits."""
        for root in self.get_roots():
            root.lost_workers += root.is_running

    def on_client_left(self, timestamp: float) -> None:
        """Mark all running fits as ended after the last client disconnected."""
        for fit in self.fits.values():
            if fit.is_running:
                fit.client_left, fit.until = True, timestamp
        self._loops.clear()

    def _get_fit(self, token: str, timestamp: float) -> FitState:
        if token not in self.fits:
            self.fits[token] = FitState(token, timestamp)
            while len(self.fits) > MAX_FITS:
                self._drop_oldest(token)
        return self.fits[token]

    def _drop_oldest(self, newest: str) -> None:
        """Drop the oldest fit, preferably one whose outermost fit ended, or one that ended."""
        others = (fit for token, fit in self.fits.items() if token != newest)
        fit = min(others, key=lambda fit: (self.get_root(fit).is_running, fit.is_running))
        for run in self.fits.pop(fit.token).passes:
            self._runs.pop(run, None)

    def _get_pass(self, fit: str, run: str, timestamp: float) -> PassState:
        if run not in self._runs:
            # A pass outside of fits gets a fit of its own.
            state = self._runs[run] = PassState(fit or run, run, timestamp)
            owner = self._get_fit(state.fit, timestamp)
            owner.passes[run] = state
            while len(owner.passes) > MAX_PASSES:
                oldest = next(iter(owner.passes))
                del owner.passes[oldest]
                self._runs.pop(oldest, None)
        return self._runs[run]

    def _on_fit(
        self, event: events.FitStarted | events.FitEnded | events.CertificateComputed, timestamp: float
    ) -> None:
        fit = self._get_fit(event.fit, timestamp)
        if isinstance(event, events.FitStarted):
            fit.started, fit.name, fit.parent = event, event.name, event.parent
            fit.n_passes = event.n_passes if fit.n_passes is None else fit.n_passes
        elif isinstance(event, events.CertificateComputed):
            self._add_bound(fit, timestamp, event.relative)
        else:
            fit.ended, fit.name, fit.until, fit.client_left = event, event.name, timestamp, False
            if fit.started is None:
                fit.since = timestamp - event.seconds
            # Only outermost fits are listed.
            elif fit.parent not in self.fits or not self.fits[fit.parent].is_running:
                self.ended.append(fit)
                self.n_retried = 0

    def _on_merged(self, event: events.SummariesMerged, timestamp: float) -> None:
        state = self._get_pass(event.fit, event.run, timestamp)
        # The certificate of the summary with the most rows is the best estimate for all rows.
        size = (event.n_rows or 0, event.level)
        if event.relative is not None and size >= state.best[:2]:
            state.best = (*size, event.relative)
            self._add_bound(self.fits[state.fit], timestamp, event.relative)

    def _add_bound(self, fit: FitState, timestamp: float, relative: float) -> None:
        fit.certificate = relative
        self.get_root(fit).bounds.append((timestamp, relative))

    def _on_counted(
        self, event: events.BlocksDone | events.TasksRecomputed | events.TaskRetried | events.PassStalled
    ) -> None:
        if isinstance(event, events.TaskRetried):
            self.n_retried += 1
            return
        state = self._runs.get(event.run)
        if state is None:
            return
        if isinstance(event, events.PassStalled):
            state.waits = event.why
        elif isinstance(event, events.TasksRecomputed):
            state.n_redone += event.n_tasks
            state.lost_workers = event.lost_workers
        else:
            state.waits = ""
            # Counts may arrive out of order.
            state.n_blocks = max(state.n_blocks, event.n_blocks)
            state.n_merges = max(state.n_merges, event.n_merges)
