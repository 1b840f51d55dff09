"""Machines at work: who gets which task, when its inputs are there, and when it ends."""

import heapq
from array import array
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from .settings import Settings, drawn, tree_of

FINISH, FAIL, NOTICE, JOIN = range(4)
INFINITY = float("inf")


class Machines:
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

    def _push(self, moment: float, kind: int, machine: int, number: int = 0) -> None:
        self.n_events += 1
        heapq.heappush(self.events, (moment, self.n_events, kind, machine, number))

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
