"""These records hold what is known of a fit and of its passes: counters and short series, nothing of the data."""

import math
from collections import deque
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from dspectral.engine import projected_memory
from dspectral.engine.events import Certified, FitBegan, FitEnded, PassBegan, PassEnded
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
