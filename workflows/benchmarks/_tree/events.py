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
from collections.abc import Sequence

import numpy as np

from .settings import Outcome, Settings
from .work import FAIL, INFINITY, JOIN, NOTICE, Machines

PATIENCE = 50
"""Events for each task, after which a run that loses machines too often is given up."""


def simulate(
    settings: Settings,
    *,
    seconds: Sequence[float] | None = None,
    kills: Sequence[tuple[float, int]] = (),
) -> Outcome:
    """Run one pass on paper.

    >>> simulate(Settings(n_blocks=4, machines=4, block_seconds=3.0, merge_seconds=1.0)).seconds
    5.0
    """
    return _Simulation(settings.checked(), seconds, kills).run()


class _Simulation(Machines):
    """Machines, and the order of events: ends of tasks, losses, when they are noticed, and returns."""

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

    def _draw_failure(self, machine: int, now: float) -> None:
        if self.settings.failures:
            self._push(now + self.random.exponential(3600.0 / self.settings.failures), FAIL, machine)

    def _fail(self, moment: float, machine: int, _number: int) -> None:
        """Lose a machine: what runs there stops, and so do merges that still fetch from it. Nobody knows yet."""
        if self.is_lost[machine]:
            return
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
