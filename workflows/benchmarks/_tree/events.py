"""The simulation: a queue of events, and what the scheduler decides at each.

The scheduler is that of ``distributed`` with ``worker-saturation`` 1.0. A machine has one task at a time and gets the
next when the scheduler has handled the end of the last one. A merge goes to a machine that holds one of its summaries
and is free, which the one that made the last of them is; it comes before blocks that wait, and the other summaries move
there. So no task ever waits at a busy machine, and there is nothing to steal. What a lost machine held is made again:
a merge whose inputs are gone is made from its blocks.

``runs`` is what the scheduler does not do: each machine has neighboring blocks of its own, and helps the one with
the most left when it has none.
"""

import heapq
from array import array
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from .settings import Outcome, Settings, drawn, tree_of

PATIENCE = 50
"""Events for each task, after which a run that loses machines too often is given up."""
FINISH, FAIL, NOTICE, JOIN = range(4)
INFINITY = float("inf")


def simulate(
    settings: Settings,
    *,
    seconds: Sequence[float] | None = None,
    kills: Sequence[tuple[float, int]] = (),
) -> Outcome:
    """Run one pass on paper.

    Parameters
    ----------
    settings : Settings
        Tree, machines, and their times.
    seconds : sequence of float, optional
        Seconds of each task, in the order of ``tree_of``; by default they are drawn.
    kills : sequence of (float, int)
        Moments at which machines are lost, and their numbers, beside those that chance picks.

    Returns
    -------
    Outcome
        The same for the same settings.

    Raises
    ------
    ValueError
        If a setting is out of range, or machines are lost so often that the pass does not end.

    Examples
    --------
    >>> simulate(Settings(n_blocks=4, machines=4, block_seconds=3.0, merge_seconds=1.0)).seconds
    5.0
    """
    return _Simulation(settings.checked(), seconds, kills).run()


class _Simulation:
    """State of a pass; times are those of the scheduler unless said otherwise.

    Invariant between events: a task's result is on machine ``place[task]`` (-1: nowhere) and in that machine's
    ``held`` until its parent is done; ``missing[task]`` counts the inputs of a merge that are nowhere; a machine has
    the task ``running``, or -1 and is ``idle``, or it is neither and lost.
    """

    def __init__(
        self, settings: Settings, seconds: Sequence[float] | None, kills: Sequence[tuple[float, int]]
    ) -> None:
        self.settings, self.tree = settings, tree_of(settings.n_blocks, settings.fan_in)
        n_tasks, n_machines = len(self.tree.children), settings.machines
        chance = drawn(settings, self.tree)
        self.task_seconds = chance.seconds.tolist() if seconds is None else list(seconds)
        self.slowness = chance.slowness.tolist()
        self.random = np.random.default_rng([settings.seed, 2])
        self.events: list[tuple[float, int, int, int, int]] = []
        self.n_events = 0
        self.place, self.missing = [-1] * n_tasks, [len(group) for group in self.tree.children]
        self.attempts, self.finished, self.queued = bytearray(n_tasks), bytearray(n_tasks), bytearray(n_tasks)
        self.held: list[set[int]] = [set() for _ in range(n_machines)]
        self.running, self.attempt, self.index = [-1] * n_machines, [0] * n_machines, [-1] * n_machines
        self.at: dict[int, int] = {}  # merge: the machine that it runs on
        self.arrivals: list[dict[int, float]] = [{} for _ in range(n_machines)]
        self.is_lost = [False] * n_machines
        self.idle = dict.fromkeys(range(n_machines))
        self.sending, self.receiving = [0.0] * n_machines, [0.0] * n_machines
        self.ready: list[tuple[int, int]] = []  # what was lost, and merges that nobody free holds a part of
        n_parts = 1 if settings.placement == "queue" else n_machines
        cuts = [settings.n_blocks * i // n_parts for i in range(n_parts + 1)]
        self.blocks = [[low, high] for low, high in pairwise(cuts)]
        self.free_at = settings.start_seconds * n_tasks
        self.scheduling = self.waited = self.tail_from = 0.0
        self.moved = self.most_held = self.n_redone = self.n_lost = 0
        for moment, machine in kills:
            self._push(moment, FAIL, machine)
        self.begun, self.ended, self.levels = array("d"), array("d"), array("i")

    def run(self) -> Outcome:
        """Handle events in their order until the root is with the caller."""
        start, n_tasks = self.free_at, len(self.place)
        for machine in range(self.settings.machines):
            self._draw_failure(machine, start)
        self._fill(start)
        handlers = (self._finish, self._fail, self._notice, self._join)
        while self.place[-1] < 0:
            if self.n_events > PATIENCE * n_tasks + 1000 * self.settings.machines:
                raise ValueError(
                    f"failures is {self.settings.failures}: machines are lost so often that the pass does not end, "
                    f"{self.n_lost} of them so far, with {sum(self.finished)} of {n_tasks} tasks done"
                )
            moment, _, kind, machine, number = heapq.heappop(self.events)
            handlers[kind](moment, machine, number)
        end = self.free_at + self.settings.latency + self.settings.transfer_seconds
        begun, ended = np.array(self.begun), np.array(self.ended)
        busy = float((ended - begun).sum())
        return Outcome(
            end, start, end - self.tail_from, busy, self.scheduling, self.waited, self.moved, self.most_held,
            n_tasks, self.n_redone, self.n_lost, begun, ended, np.array(self.levels),
        )  # fmt: skip

    def _push(self, moment: float, kind: int, machine: int, number: int = 0) -> None:
        self.n_events += 1
        heapq.heappush(self.events, (moment, self.n_events, kind, machine, number))

    def _draw_failure(self, machine: int, now: float) -> None:
        if self.settings.failures:
            self._push(now + self.random.exponential(3600.0 / self.settings.failures), FAIL, machine)

    def _handled(self, moment: float) -> float:
        """Return when the scheduler, which does one thing at a time, has handled what arrived at a moment."""
        self.free_at = max(self.free_at, moment) + self.settings.scheduler_seconds
        self.scheduling += self.settings.scheduler_seconds
        return self.free_at

    def _fill(self, now: float) -> None:
        """Give free machines what waits: first what was lost, then blocks in their order."""
        while self.idle:
            machine = next(iter(self.idle))
            task = self._next_ready()
            task = self._next_block(machine) if task < 0 else task
            if task < 0:
                return
            self._begin(task, machine, now)

    def _next_ready(self) -> int:
        """Take the first task that is to be done again, or a merge that waits for a machine; -1 if there is none."""
        while self.ready:
            task = heapq.heappop(self.ready)[1]
            # A merge may have been begun elsewhere, or have lost an input, since it was put there.
            if self.queued[task]:
                self.queued[task] = False
                if not self.missing[task] or self._is_kept(task):
                    return task
        return -1

    def _next_block(self, machine: int) -> int:
        """Take the next block of a machine, or the last of whoever has the most left; -1 if there is none."""
        own = self.blocks[machine % len(self.blocks)]
        if own[0] < own[1]:
            own[0] += 1
            return own[0] - 1
        most = max(self.blocks, key=lambda pair: pair[1] - pair[0])
        if most[0] == most[1]:
            return -1
        most[1] -= 1
        return most[1]

    def _queue(self, task: int) -> None:
        self.queued[task] = True
        heapq.heappush(self.ready, (self.tree.last[task], task))

    def _begin(self, task: int, machine: int, now: float) -> None:
        """Send a task to a free machine, which fetches what it needs, and works."""
        del self.idle[machine]
        self.queued[task] = False
        self.running[machine] = task
        self.attempt[machine] += 1
        received = now + self.settings.latency
        kept = self._is_kept(task)
        group: tuple[int, ...] = () if kept else self.tree.children[task]
        arrivals = self.arrivals[machine] = {
            child: self._fetched(self.place[child], machine, received) for child in group
        }
        if group:
            self.at[task] = machine
        begin = max(arrivals.values(), default=received)
        self.index[machine] = -1
        if begin == INFINITY or self.is_lost[machine]:
            return  # until the scheduler notices that a machine is lost
        seconds = self.task_seconds[task] * self.slowness[machine]
        if kept:
            seconds = self.settings.transfer_seconds + self.settings.overhead_seconds
        self.n_redone += self.attempts[task] > 0
        self.attempts[task] = 1
        self.waited += begin - received
        self.index[machine] = len(self.begun)
        self.begun.append(begin)
        self.ended.append(begin + seconds)
        self.levels.append(self.tree.level[task])
        self._push(begin + seconds + self.settings.latency, FINISH, machine, self.attempt[machine])

    def _fetched(self, source: int, machine: int, asked: float) -> float:
        """Return when a summary is here; each link has one transfer at a time."""
        if source == machine:
            return asked
        if self.is_lost[source]:
            return INFINITY
        begin = max(asked + self.settings.latency, self.sending[source], self.receiving[machine])
        end = begin + self.settings.transfer_seconds
        self.sending[source] = self.receiving[machine] = end
        self.moved += self.settings.summary_bytes
        return end + self.settings.latency

    def _is_kept(self, task: int) -> bool:
        """Whether a task was done once and can be read from shared storage."""
        level = self.settings.keep_level
        return level is not None and bool(self.finished[task]) and self.tree.level[task] >= level

    def _finish(self, moment: float, machine: int, number: int) -> None:
        """Take note of a result, let go of what it was made of, and begin the merge that waited for it."""
        if self.attempt[machine] != number:
            return  # the machine was lost since, or one that it fetched from
        now, task = self._handled(moment), self.running[machine]
        self.running[machine], self.idle[machine] = -1, None
        self.at.pop(task, None)
        self.place[task], self.finished[task] = machine, True
        held = self.held[machine]
        held.add(task)
        self.most_held = max(self.most_held, len(held.union(self.arrivals[machine])))
        if self.tree.level[task] == 0:
            self.tail_from = moment
        for child in self.arrivals[machine]:
            self.held[self.place[child]].discard(child)
            self.place[child] = -1
        parent = self.tree.parent[task]
        if parent >= 0:
            self.missing[parent] -= 1
            if not self.missing[parent]:
                self._begin_merge(parent, now)
        self._fill(now)

    def _begin_merge(self, task: int, now: float) -> None:
        """Begin a merge on a free machine that holds most of it, the first of them; else it waits for any machine."""
        places = [self.place[child] for child in self.tree.children[task]]
        free = [place for place in places if place in self.idle]
        if free:
            self._begin(task, max(free, key=places.count), now)
        else:
            self._queue(task)

    def _fail(self, moment: float, machine: int, _number: int) -> None:
        """Lose a machine: what runs there stops, and so do merges that still fetch from it. Nobody knows yet."""
        self.is_lost[machine] = True
        self.n_lost += 1
        self._stop(machine, moment)
        for task, other in self.at.items():
            arrivals = self.arrivals[other]
            for child in self.tree.children[task]:
                if other != machine and self.place[child] == machine and arrivals[child] > moment:
                    arrivals[child] = INFINITY
                    self._stop(other, moment)
        notice = moment + self.settings.notice_seconds
        self._push(notice, NOTICE, machine)
        self._push(max(notice, moment + self.settings.restart_seconds), JOIN, machine)

    def _stop(self, machine: int, moment: float) -> None:
        """Let the attempt on a machine come to nothing."""
        self.attempt[machine] += 1
        if self.index[machine] >= 0:
            index, self.index[machine] = self.index[machine], -1
            self.begun[index] = min(self.begun[index], moment)
            self.ended[index] = min(self.ended[index], moment)

    def _notice(self, moment: float, machine: int, _number: int) -> None:
        """Plan again what a lost machine held and did, and merges that waited for it."""
        now = self._handled(moment)
        stuck = [other for other in self.at.values() if other != machine and self._waits_for(other, machine)]
        stopped = []
        for other in (*stuck, machine):
            if self.running[other] >= 0:
                stopped.append(self.running[other])
                self.at.pop(self.running[other], None)
            self.running[other], self.idle[other] = -1, None
        del self.idle[machine]
        gone = sorted(self.held[machine])
        self.held[machine] = set()
        for child in gone:
            copy = self.at.get(self.tree.parent[child], -1)  # a merge that has fetched it already
            self.place[child] = copy
            if copy >= 0:
                self.held[copy].add(child)
            else:
                self.missing[self.tree.parent[child]] += 1
        for child in gone:
            if self.place[child] < 0:
                self._again(child)
        for task in stopped:
            if not self.tree.children[task] or self._is_kept(task):
                self._queue(task)
            elif not self.missing[task]:
                self._begin_merge(task, now)
        self._fill(now)

    def _waits_for(self, other: int, machine: int) -> bool:
        """Whether what runs on one machine waits for a summary that was on another, which is lost."""
        arrivals = self.arrivals[other].items()
        return any(when == INFINITY and self.place[child] == machine for child, when in arrivals)

    def _again(self, task: int) -> None:
        """Make a lost result again: from storage, from its block, or from all that it was made of."""
        group = self.tree.children[task]
        if not group or self._is_kept(task):
            self._queue(task)
            return
        self.missing[task] = len(group)
        for child in group:
            self._again(child)

    def _join(self, moment: float, machine: int, _number: int) -> None:
        """Welcome a machine back, which holds nothing."""
        self.is_lost[machine], self.idle[machine] = False, None
        self.sending[machine] = self.receiving[machine] = moment
        self._draw_failure(machine, moment)
        self._fill(max(moment, self.free_at))
