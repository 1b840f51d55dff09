"""Tasks of a pass that a cluster has done: its scheduler is asked now and then."""

import contextvars
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from dspectral.engine.clients import Client, Scheduler
from dspectral.engine.events import TOPIC, BlocksDone, Compiled, Compiling, Merged, PassBegan, Redone
from dspectral.engine.fault_events import Retried
from dspectral.engine.telling import LOGGER, is_mine, tell

INTERVAL = 0.5
"""Seconds between two questions."""
TOLD = {kind.__name__: kind for kind in (Merged, Compiling, Compiled, Retried)}
"""Events that workers send."""
DONE = ("memory", "released", "forgotten", "erred")
"""States of a scheduler's tasks that need not run any more."""


class State(NamedTuple):
    """What a scheduler says of task groups.

    Attributes
    ----------
    counts : dict of str to (int, int)
        Tasks done and in all of each group.
    workers : tuple of str
        Addresses of the workers.
    messages : tuple of dict
        Messages of workers about a pass.
    """

    counts: dict[str, tuple[int, int]]
    workers: tuple[str, ...]
    messages: tuple[dict[str, Any], ...]


def state_of(groups: Sequence[str], run: str, dask_scheduler: Scheduler) -> State:
    """Return the state of task groups, on the scheduler.

    Parameters
    ----------
    groups : sequence of str
        Names of task groups.
    run : str
        Token of the pass of which messages are wanted.
    dask_scheduler : distributed.Scheduler
        The scheduler, which ``Client.run_on_scheduler`` gives.

    Returns
    -------
    State
        Groups that the scheduler does not know are left out.
    """
    counts = {}
    for name in groups:
        group = dask_scheduler.task_groups.get(name)
        if group is not None:
            done = sum(group.states.get(state, 0) for state in DONE)
            counts[name] = (done, sum(group.states.values()))
    events = dask_scheduler.get_events(TOPIC)
    messages = tuple(
        message
        for _time, message in events
        if "worker" in message and message["event"] in TOLD and message.get("run", run) == run
    )
    return State(counts, tuple(dask_scheduler.workers), messages)


class ClusterPoll:
    """A thread that tells how far a pass on a cluster is.

    Parameters
    ----------
    client : distributed.Client
        Client that computes the pass.
    begun : PassBegan
        The pass.
    """

    def __init__(self, client: Client, begun: PassBegan) -> None:
        self._client, self._begun = client, begun
        self._most: dict[str, int] = {}
        self._again: dict[str, int] = {}
        self._workers: set[str] = set()
        self._lost: set[str] = set()
        self._seen: set[tuple[str, int]] = set()
        self._since = time.time()
        self._told = BlocksDone(begun.fit, begun.run, 0, 0)
        self._ended = threading.Event()
        # The listeners of the thread that computes hear what this thread tells.
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._watch,), name="blocks", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        self._ended.set()
        self._thread.join(timeout=5.0)  # a scheduler that is gone answers late
        # After an error the scheduler may be what failed: it is not asked again.
        if kind is None:  # what was done since the last question
            self._ask()
            self._tell_done(self._begun.n_blocks, self._begun.n_merges)

    def _watch(self) -> None:
        while not self._ended.wait(INTERVAL):
            self._ask()

    def _ask(self) -> None:
        begun = self._begun
        groups = (begun.block_group, *begun.merge_groups)
        try:
            state = self._client.run_on_scheduler(state_of, groups, begun.run)
        except (OSError, RuntimeError, TimeoutError, ImportError):
            # The computation itself says what is wrong with the cluster.
            LOGGER.debug("the scheduler did not answer", exc_info=True)
            return
        # The scheduler keeps its last 1,000 messages of a topic (distributed.admin.low-level-log-length of Dask's
        # configuration), so that their number says nothing: those seen at the last question are passed over.
        names = [(message["sender"], message["order"]) for message in state.messages]
        for name, message in zip(names, state.messages, strict=True):
            if name in self._seen:
                continue
            kind = TOLD[message["event"]]
            # What is compiled in this process was told here.
            if kind is Merged or (message["time"] >= self._since and not is_mine(message)):
                tell(kind(*(message[field] for field in kind._fields)))
        self._seen = set(names)
        self._see(state)

    def _see(self, state: State) -> None:
        """Compare a state with those before it, and tell what changed."""
        # Who is missing now has died or left: either way what it held is computed again.
        self._lost |= self._workers - set(state.workers)
        self._workers = set(state.workers)
        n_again = 0
        # Per group, `most` is the high mark and `again` how far below it the group is now. Only a growing gap is told,
        # so that a loss which several questions see is told once, and a second loss before the first is made good is
        # told too.
        for group, (done, _total) in state.counts.items():
            again = max(0, self._most.get(group, 0) - done)
            n_again += max(0, again - self._again.get(group, 0))
            self._again[group] = again
            self._most[group] = max(done, self._most.get(group, 0))
        if n_again:
            tell(Redone(self._begun.fit, self._begun.run, n_again, len(self._lost)))
        n_merges = sum(self._most.get(group, 0) for group in self._begun.merge_groups)
        self._tell_done(self._most.get(self._begun.block_group, 0), n_merges)

    def _tell_done(self, n_blocks: int, n_merges: int) -> None:
        done = BlocksDone(self._begun.fit, self._begun.run, n_blocks, n_merges)
        if done != self._told:
            self._told = done
            tell(done)
