"""Why nothing is done: what a pass on a cluster waits for, when that is said, and when it ends the pass."""

import time
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dask.utils import format_bytes

from dspectral.engine.cluster.asking import asked
from dspectral.engine.cluster.clients import Client
from dspectral.engine.cluster.errors import ClusterError, enough_for, pause_share
from dspectral.engine.cluster.poll import ClusterPoll
from dspectral.engine.cluster.state import PAUSED, RUNNING, State, WorkerSeen, move_from_paused
from dspectral.engine.configuration import wait_limit, wait_warning
from dspectral.engine.events import PassBegan, Waiting, emit, task_label

PATIENCE = 2
"""Workers that have all paused, and spill no more, are waited for so many times ``dspectral.wait-warning``."""
GRACE = 30.0
"""Seconds beyond its time to live in which the scheduler may give a silent worker's tasks to others."""
LEAST_SILENCE = 2.0
"""Seconds without a heartbeat that say nothing: workers of large clusters send one every few seconds."""
SHOWN = 3
"""Workers that a sentence names."""


class Reason(NamedTuple):
    """The reason for which a pass waits.

    `why`: as :class:`~dspectral.engine.events.Waiting` has it; `saw`: A clause that says what was seen;
    `helps`: A clause that says what would help; `limit`: seconds after which it ends the pass.
    """

    why: str
    saw: str
    helps: str
    limit: float


class Vigil:
    """Judges, while a pass on a cluster is waited for, whether anything goes on there."""

    def __init__(
        self, begun: PassBegan, poll: ClusterPoll, client: Client, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._begun, self._poll, self._client, self._clock = begun, poll, client, clock
        self._first, self._limit = wait_warning(), wait_limit()
        self._moved = self._why_since = clock()
        self._token: object = None
        self._why = ""
        self._next = self._first

    @property
    def still(self) -> float:
        """Time since a look saw that anything was done, in seconds."""
        return self._clock() - self._moved

    def look(self) -> None:
        """Tell what is waited for if nothing was done for long, and give up what cannot go on."""
        now, state = self._clock(), self._poll.state
        token = None if state is None else _token(state)
        if token is not None and token != self._token:
            self._token, self._moved, self._next, self._why = token, now, self._first, ""
        seconds = now - self._moved
        silent = now - self._poll.answered
        if seconds < self._first and silent < self._first:
            return
        seconds = max(seconds, silent)
        reason = self._reason(state, silent)
        if reason.why != self._why:
            self._why, self._why_since = reason.why, now - (self._first if not self._why else 0.0)
        if now - self._why_since >= reason.limit:
            words = f"the pass {self._begun.name} was given up after {seconds:.3g} s"
            raise ClusterError(f"{words}: {reason.saw}; {reason.helps}")
        if seconds >= self._next:
            self._next = 2 * seconds
            self._tell(reason, seconds)
            seen = () if state is None else state.seen
            if reason.why == PAUSED and any(one.status == RUNNING for one in seen):
                asked(self._client, self._client.run_on_scheduler, move_from_paused)

    def _reason(self, state: State | None, silent: float) -> Reason:
        if state is None or silent >= self._first:
            address = address_of(self._client)
            said = f": {self._poll.silence}" if self._poll.silence else ""
            saw = f"the scheduler at {address} has not answered for {silent:.3g} s{said}"
            helps = "see whether it still runs and can be reached; if not, start it and its workers again"
            return Reason("scheduler", saw, helps, self._limit)
        return reason_of(state, self._first, self._limit)

    def _tell(self, reason: Reason, seconds: float) -> None:
        begun = self._begun
        what = f"the pass {begun.name} has waited for {seconds:.3g} s in which no task was done"
        event = Waiting(begun.fit, begun.run, reason.why, seconds, f"{what}: {reason.saw}; {reason.helps}")
        emit(event, self._client)
        warnings.warn(event.sentence, RuntimeWarning, stacklevel=2)


def reason_of(state: State, first: float, limit: float) -> Reason:
    """Return what a pass waits for, from the state of its cluster."""
    if not state.seen:
        helps = (
            "start workers, which then take up the pass where it is, or see why those that were there ended"
        )
        return Reason("no workers", "the cluster has no workers", helps, limit)
    quiet = [one for one in state.seen if one.silent >= max(LEAST_SILENCE, first / 2)]
    heard = [one for one in state.seen if one not in quiet]
    busy = max((one for one in heard if one.task), key=lambda one: one.task_seconds, default=None)
    if busy is not None:
        return _runs_long(busy)
    paused = [one for one in heard if one.status == PAUSED]
    everybody = len(paused) + len(quiet) == len(state.seen)
    # A scheduler gives up a worker that was silent for its time to live, and its tasks then run elsewhere.
    later = limit if everybody else max(limit, (state.ttl or 0.0) + GRACE)
    if paused:
        return _paused(
            paused, n_workers=len(state.seen), limit=min(later, PATIENCE * first) if everybody else later
        )
    if quiet:
        return _silent(quiet, state, later)
    saw = (
        f"no task runs on any of the {len(heard)} workers"
        if len(heard) > 1
        else "no task runs on the only worker"
    )
    helps = "see the dashboard of the scheduler, and the logs of scheduler and workers"
    return Reason("unknown", saw, helps, later)


def _runs_long(busy: WorkerSeen) -> Reason:
    saw = f"{task_label(busy.task)} has run for {busy.task_seconds:.3g} s on {busy.address}"
    helps = "this is no fault, and smaller blocks make shorter tasks"
    return Reason("task", saw, helps, float("inf"))


def _paused(paused: Sequence[WorkerSeen], *, n_workers: int, limit: float) -> Reason:
    held = [
        f"{one.address} holds {format_bytes(one.held)} of {format_bytes(one.limit)}" for one in paused[:SHOWN]
    ]
    more = f", and {len(paused) - SHOWN} more" if len(paused) > SHOWN else ""
    saw = (
        f"{len(paused)} of {n_workers} workers paused, for they hold more than {pause_share():.0%} of their memory "
        f"limit ({'; '.join(held)}{more}), and no task runs"
    )
    fullest = max(one.held for one in paused)
    helps = (
        f"give each worker at least {enough_for(fullest)} of memory (memory_limit of LocalCluster, --memory-limit of "
        "`dask worker`), or make blocks smaller (block_rows, block_size) or summaries (sketch_size, n_components)"
    )
    if len(paused) < n_workers:
        helps += "; tasks that they have not begun go to the others"
    return Reason(PAUSED, saw, helps, limit)


def _silent(quiet: Sequence[WorkerSeen], state: State, limit: float) -> Reason:
    named = ", ".join(f"{one.address} for {one.silent:.3g} s" for one in quiet[:SHOWN])
    more = f", and {len(quiet) - SHOWN} more" if len(quiet) > SHOWN else ""
    saw = f"{len(quiet)} of {len(state.seen)} workers have not been heard of ({named}{more})"
    after = f"after {state.ttl:.3g} s of silence" if state.ttl else "never"
    helps = (
        "see whether they are stopped or cut off; the scheduler gives the tasks of a silent worker to others "
        f"{after} (distributed.scheduler.worker-ttl)"
    )
    return Reason("silent", saw, helps, limit)


def _token(state: State) -> object:
    """Return what changes when anything is done: tasks, the tasks that run, and what is written to disk."""
    running = tuple(sorted(one.task for one in state.seen if one.task))
    return sorted(state.counts.items()), running, sum(one.spilled for one in state.seen) >> 20


def address_of(client: Client) -> str:
    """Return the address of the scheduler of a client."""
    address = getattr(client.scheduler, "address", None)
    return str(address or "an address that the client has forgotten")
