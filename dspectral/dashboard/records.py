"""What a scheduler knows of fits: counters and short series, built from messages in any order."""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from dspectral.engine import events as of
from dspectral.engine import projected_memory
from dspectral.engine.events import LOGGER, Certified, FitBegan, FitEnded, PassBegan, PassEnded
from dspectral.engine.merge_tree import merges_of

MOST_POINTS = 240
"""Points that a series keeps: more than that would not be seen in a picture."""
MOST_PASSES = 48
"""Passes that are kept of a fit; the oldest go first."""
WINDOW = 6.0
"""Seconds over which a rate is taken."""


class Memory(NamedTuple):
    """Memory of all workers at a moment, in bytes.

    `processes`: memory of the processes; `interpreters`: share of the interpreters with their packages;
    `law`: bytes that the pass may need on top of that by :func:`dspectral.projected_memory`.
    """

    processes: int
    interpreters: int | None
    law: int | None


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
    """One pass over blocks."""

    def __init__(self, fit: str, run: str, since: float) -> None:
        self.fit, self.run, self.since = fit, run, since
        self.order = math.inf
        self.begun: PassBegan | None = None
        self.ended: PassEnded | None = None
        self.most: list[int] = []
        self.again: list[int] = []
        self.n_redone = 0
        self.summary_bytes = 0
        self.best = (0, 0, 0.0)
        self.rates: list[float] = []
        self._now: list[int] = []
        self._n_computed = 0
        self._recent: deque[tuple[float, int]] = deque(maxlen=32)

    @property
    def is_running(self) -> bool:
        """Whether it has begun and not ended."""
        return self.begun is not None and self.ended is None

    @property
    def totals(self) -> list[int]:
        """Number of tasks of each level, blocks first."""
        if self.begun is None:
            return []
        merges = merges_of(self.begun.n_blocks, self.begun.fan_in) if self.begun.merge_groups else []
        return [self.begun.n_blocks, *merges]

    @property
    def done(self) -> list[int]:
        """Number of tasks of each level that were done at any time; all of them after a pass without an error."""
        if self.ended is not None and not self.ended.error:
            return self.totals
        return (self.most + [0] * len(self.totals))[: len(self.totals)]

    @property
    def share(self) -> float:
        """Share of the tasks that are done and need not run again, in [0, 1]."""
        n_again = sum(self.again) if self.ended is None else 0
        return (sum(self.done) - n_again) / max(sum(self.totals), 1)

    def begin(self, begun: PassBegan, order: int) -> None:
        """Take in what a pass will do."""
        self.begun, self.order = begun, order

    def count(self, done: Sequence[int | None], at: float) -> None:
        """Take in how many tasks of each level are done now; fewer than before were lost, and run again."""
        if not any(number is not None for number in done):
            return
        self.most += [0] * (len(done) - len(self.most))
        self.again += [0] * (len(done) - len(self.again))
        self._now += [0] * (len(done) - len(self._now))
        self._n_computed += max(0, (done[0] or 0) - self._now[0])
        for level, number in enumerate(done):
            if number is None:
                continue
            again = max(0, self.most[level] - number)
            self.n_redone += max(0, again - self.again[level])
            self.again[level], self._now[level] = again, number
            self.most[level] = max(number, self.most[level])
        self._recent.append((at, self._n_computed))

    def rate(self) -> float | None:
        """Return how many blocks a second were computed lately, those that were lost before among them."""
        if len(self._recent) < 2 or (self.begun is not None and self._now[0] >= self.begun.n_blocks):
            return None
        at, done = self._recent[-1]
        since, before = next(point for point in self._recent if at - point[0] <= WINDOW)
        return (done - before) / (at - since) if at > since else None

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
    """One fit or build, or a pass that belongs to none."""

    def __init__(self, token: str, since: float) -> None:
        self.token, self.since = token, since
        self.name = self.parent = ""
        self.n_passes: int | None = None
        self.begun: FitBegan | None = None
        self.ended: FitEnded | None = None
        self.certified: Certified | None = None
        self.until: float | None = None
        self.left = False
        self.passes: dict[str, PassState] = {}
        self.lost_workers = 0
        self.rates, self.bounds, self.held = Series(), Series(), Series()
        self.memory: Memory | None = None

    @property
    def is_known(self) -> bool:
        """Whether it is known what this is: a message of a worker may come before that of the client."""
        return bool(self.name)

    @property
    def is_running(self) -> bool:
        """Whether it has begun and not ended."""
        return self.is_known and self.until is None

    def plan(self, one: PassState) -> float | None:
        """Return the blocks a second that a pass may be held to."""
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


MOST_FITS = 64
"""Fits that are kept, with those that other fits called."""
MOST_LOOPS = 64
"""Loops that are compiled at once, at most."""
NOT_SHOWN = ("BlocksDone", "Redone", "Retried", "Waiting")
"""Messages that change no picture: the tasks of a scheduler are counted where they are."""


class Records:
    """Facts about fits, gathered from messages.

    Messages of one sender are sent without waiting, so one may pass another: each of them sets facts of its own, and
    none depends on those before it.

    `fits`: fits by their tokens; `n_unknown`: number of messages that were not understood; `merging`:
    addresses of the workers that have merged summaries, and so hold all packages that this takes.
    """

    def __init__(self) -> None:
        self.fits: dict[str, FitState] = {}
        self.n_unknown = 0
        self.merging: set[str] = set()
        self._runs: dict[str, PassState] = {}
        self._loops: dict[tuple[str, str, str], tuple[int, bool]] = {}
        self._handlers: dict[str, Callable[[Any, Mapping[str, Any], float], None]] = {
            "FitBegan": self._on_fit_began,
            "FitEnded": self._on_fit_ended,
            "PassBegan": self._on_pass_began,
            "PassEnded": self._on_pass_ended,
            "Merged": self._on_merged,
            "Certified": self._on_certified,
            "Compiling": self._on_compiling,
            "Compiled": self._on_compiling,
        }

    def hear(self, message: object, at: float) -> None:
        """Take in a message."""
        name = message.get("event") if isinstance(message, Mapping) else None
        if not isinstance(message, Mapping) or name in NOT_SHOWN:
            return
        try:
            handler = self._handlers[str(name)]
            kind = getattr(of, str(name))
            values = (message[field] for field in kind._fields)
            event = kind(*(tuple(value) if isinstance(value, list) else value for value in values))
            handler(event, message, at)
        except (KeyError, TypeError):
            LOGGER.debug("a message of another version: %s", name)
            self.n_unknown += 1

    def running_passes(self) -> list[tuple[FitState, PassState]]:
        """Return what runs, each pass with the outermost fit that it is for."""
        found = [(self.root_of(self.fits[one.fit]), one) for one in self._runs.values() if one.is_running]
        return [(root, one) for root, one in found if root.is_running]

    def roots(self) -> list[FitState]:
        """Return the fits that no other fit called."""
        known = (fit for fit in self.fits.values() if fit.is_known and self.root_of(fit) is fit)
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

    def compiling(self) -> list[str]:
        """Return the names of the loops that are compiled now."""
        return sorted({loop for (_sender, _module, loop), (_order, runs) in self._loops.items() if runs})

    def lose_worker(self, address: str) -> None:
        """Count a worker that left the cluster while fits run."""
        self.merging.discard(address)
        for root in self.roots():
            root.lost_workers += root.is_running

    def leave(self, at: float) -> None:
        """Let all that runs be over, for nobody is left who could go on."""
        for fit in self.fits.values():
            if fit.is_running:
                fit.left, fit.until = True, at
        self._loops.clear()

    def _fit(self, token: str, at: float) -> FitState:
        if token not in self.fits:
            self.fits[token] = FitState(token, at)
            self._forget()
        return self.fits[token]

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

    def _forget(self) -> None:
        """Drop the oldest fits, those that are over first."""
        while len(self.fits) > MOST_FITS:
            ended = (token for token, fit in self.fits.items() if not self.root_of(fit).is_running)
            newest = next(reversed(self.fits))
            token = next((token for token in ended if token != newest), next(iter(self.fits)))
            for run in self.fits.pop(token).passes:
                self._runs.pop(run, None)

    def _on_fit_began(self, event: of.FitBegan, _message: Mapping[str, Any], at: float) -> None:
        fit = self._fit(event.fit, at)
        fit.begun, fit.name, fit.parent = event, event.name, event.parent
        fit.n_passes = event.n_passes if fit.n_passes is None else fit.n_passes

    def _on_fit_ended(self, event: of.FitEnded, _message: Mapping[str, Any], at: float) -> None:
        fit = self._fit(event.fit, at)
        fit.ended, fit.name, fit.until, fit.left = event, event.name, at, False
        if fit.begun is None:
            fit.since = at - event.seconds

    def _on_pass_began(self, event: of.PassBegan, message: Mapping[str, Any], at: float) -> None:
        one = self._pass(event.fit, event.run, at)
        one.begin(event, int(message["order"]))
        fit = self._fit(one.fit, at)
        fit.name = fit.name or event.of or event.name
        fit.n_passes = event.n_passes or fit.n_passes

    def _on_pass_ended(self, event: of.PassEnded, _message: Mapping[str, Any], at: float) -> None:
        one = self._pass(event.fit, event.run, at)
        one.ended = event
        if one.begun is None:
            one.since = at - event.seconds
        if not event.fit:
            self._fit(one.fit, at).until = at

    def _on_merged(self, event: of.Merged, message: Mapping[str, Any], at: float) -> None:
        self.merging.add(str(message.get("worker", "")))
        one = self._pass(event.fit, event.run, at)
        one.summary_bytes = max(one.summary_bytes, event.summary_bytes)
        # That of the summary of most rows is the one that says most of the whole.
        place = (event.n_rows or 0, event.level)
        if event.relative is not None and place >= one.best[:2]:
            one.best = (*place, event.relative)
            self.root_of(self._fit(one.fit, at)).bounds.add(at, event.relative)

    def _on_certified(self, event: of.Certified, _message: Mapping[str, Any], at: float) -> None:
        fit = self._fit(event.fit, at)
        fit.certified = event
        self.root_of(fit).bounds.add(at, event.relative)

    def _on_compiling(
        self, event: of.Compiling | of.Compiled, message: Mapping[str, Any], _at: float
    ) -> None:
        key, order = (str(message["sender"]), event.module, event.loop), int(message["order"])
        if self._loops.get(key, (-1, False))[0] < order:
            self._loops[key] = (order, isinstance(event, of.Compiling))
        while len(self._loops) > MOST_LOOPS:
            del self._loops[next(iter(self._loops))]
