"""Tasks of a pass that a cluster has done: its scheduler is asked now and then."""

import contextvars
import threading
import time
from concurrent.futures import CancelledError
from typing import Self

from dspectral.engine.cluster.clients import Client
from dspectral.engine.cluster.state import State, WorkerSeen, state_of
from dspectral.engine.events import (
    LOGGER,
    BlocksDone,
    Compiled,
    Compiling,
    Merged,
    PassBegan,
    Redone,
    Retried,
    counts_blocks,
    emit,
    is_own_message,
)

INTERVAL = 0.5
"""Seconds between two questions where somebody listens."""
TOLD = {kind.__name__: kind for kind in (Merged, Compiling, Compiled, Retried)}
"""Events that workers send."""
FAILURES = (
    OSError,
    RuntimeError,
    ImportError,
    AttributeError,
    TypeError,
    ValueError,
    NameError,
    CancelledError,
)
"""Errors of a client that has lost its scheduler, or that is closed while it asks."""


class ClusterPoll:
    """A thread that tells how far a pass on a cluster is.

    `state`: the last answer of the scheduler; `answered`: when it came, as ``time.monotonic`` has it;
    `silence`: A sentence that says what went wrong at the last question; `held`: each worker as it was when
    it held most, also those that are gone.
    """

    def __init__(self, client: Client, begun: PassBegan, interval: float = INTERVAL) -> None:
        self._client, self._begun, self._interval = client, begun, interval
        self.state: State | None = None
        self.answered = time.monotonic()
        self.silence = ""
        self.held: dict[str, WorkerSeen] = {}
        self._most: dict[str, int] = {}
        self._again: dict[str, int] = {}
        self._workers: set[str] = set()
        self._lost: set[str] = set()
        self._seen: set[tuple[str, int]] = set()
        self._since = time.time()
        self._told = BlocksDone(begun.fit, begun.run, begun.n_kept, begun.n_kept_merges)
        self._ended = threading.Event()
        self._asks_last = False
        # The listeners of the thread that computes hear what this thread tells.
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._watch,), name="blocks", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        # After an error the scheduler may be what failed: it is not asked again.
        self._asks_last = kind is None and counts_blocks()
        self._ended.set()
        if self._asks_last:  # what was done since the last question; a scheduler that is gone answers late
            self._thread.join(timeout=5.0)
            self._tell_done(self._begun.n_blocks, self._begun.n_merges)

    def _watch(self) -> None:
        while not self._ended.wait(self._interval):
            self._ask()
        if self._asks_last:
            self._ask()

    def _ask(self) -> None:
        begun = self._begun
        groups = (begun.block_group, *begun.merge_groups)
        try:
            state = self._client.run_on_scheduler(state_of, groups, begun.run, tuple(TOLD))
        except FAILURES as error:
            # Whatever it is, the pass goes on, and who waits for the pass judges how long that may last.
            LOGGER.debug("the scheduler did not answer", exc_info=True)
            self.silence = " ".join(str(error).split()) or type(error).__name__
            return
        self.state, self.answered, self.silence = state, time.monotonic(), ""
        for worker in state.seen:
            if worker.held >= self.held.get(worker.address, worker).held:
                self.held[worker.address] = worker
        # The scheduler keeps its last 1,000 messages of a topic (distributed.admin.low-level-log-length of Dask's
        # configuration), so that their number says nothing: those seen at the last question are passed over.
        names = [(message["sender"], message["order"]) for message in state.messages]
        for name, message in zip(names, state.messages, strict=True):
            if name in self._seen:
                continue
            kind = TOLD[message["event"]]
            # What is compiled in this process was told here.
            if kind is Merged or (message["time"] >= self._since and not is_own_message(message)):
                emit(kind(*(message[field] for field in kind._fields)))
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
            emit(Redone(self._begun.fit, self._begun.run, n_again, len(self._lost)))
        begun = self._begun
        n_merges = sum(self._most.get(group, 0) for group in begun.merge_groups)
        n_blocks = self._most.get(begun.block_group, 0)
        self._tell_done(begun.n_kept + n_blocks, begun.n_kept_merges + n_merges)

    def _tell_done(self, n_blocks: int, n_merges: int) -> None:
        done = BlocksDone(self._begun.fit, self._begun.run, n_blocks, n_merges)
        if done != self._told:
            self._told = done
            emit(done)
