"""State of fits and their passes, for the terminal, notebook and dashboard displays."""

import threading
import time
from collections import deque
from datetime import timedelta

from dspectral.engine import Callback
from dspectral.engine.around.callbacks import BlocksDone, FitEnded, PassEnded, PassStarted, TaskRetried

MAX_PASSES = 48
"""Maximum number of passes of a fit; the oldest are dropped."""
MAX_FITS = 64
"""Maximum number of fits; finished and then old ones are dropped."""
MAX_ENDED = 4096
"""Maximum number of finished fits that are not listed yet."""
CLIENT_SECONDS = 1.0
"""Seconds without a running pass from which on a fit is shown as computing in its client."""


def format_clock(seconds: float) -> str:
    """Return a duration in hours, minutes and seconds."""
    return str(timedelta(seconds=int(seconds)))


def pluralize(n: int, word: str, ending: str = "s") -> str:
    """Return a number with a noun."""
    return f"{n} {word}{ending * (n != 1)}"


class PassState:
    """State of one pass; `until`: when it ended."""

    def __init__(self, started: PassStarted, since: float) -> None:
        self.started, self.since = started, since
        self.done = BlocksDone(started.run, started.n_kept, started.n_kept_merges)
        self.ended: PassEnded | None = None
        self.until = since

    @property
    def share(self) -> float:
        """Share of finished tasks, in [0, 1]."""
        n_tasks = self.started.n_blocks + self.started.n_merges
        return (self.done.n_blocks + self.done.n_merges) / max(n_tasks, 1)

    @property
    def last_task(self) -> str:
        """Name of the last task of a running pass if only that is left, else empty."""
        return self.started.finish if self.ended is None and self.share >= 1 else ""

    @property
    def repeated(self) -> str:
        """What was lost and computed again, as text."""
        parts = [pluralize(self.done.n_lost_workers, "worker") + " lost"] if self.done.n_lost_workers else []
        parts += [pluralize(self.done.n_repeated, "task") + " run again"] if self.done.n_repeated else []
        return ", ".join(parts)


class FitState:
    """State of one outermost fit or build, or of a pass outside of fits."""

    def __init__(self, name: str, since: float) -> None:
        self.name, self.since = name, since
        self.until: float | None = None
        self.ended: FitEnded | None = None
        self.passes: deque[PassState] = deque(maxlen=MAX_PASSES)

    @property
    def running(self) -> list[PassState]:
        """Running passes."""
        return [state for state in self.passes if state.ended is None] if self.until is None else []

    @property
    def n_remaining(self) -> int:
        """Number of known passes after the newest one."""
        last = self.passes[-1].started
        return max(0, (last.n_passes or 0) - (last.number or last.n_passes or 0))

    def get_client_work(self, now: float) -> tuple[str, float]:
        """Return what a fit computes in its client while no pass runs, and for how many seconds; else an empty text."""
        last = max(self.passes, key=lambda state: state.until)
        seconds = now - last.until
        if self.until is not None or self.running or seconds < CLIENT_SECONDS:
            return "", 0.0
        return f"after {last.started.label}", seconds


class FitHistory(Callback):
    """Callback that holds the state of all fits with passes.

    Hooks are called in several threads, so readers must hold `lock`. `fits`: outermost fits by token; `ended`: those
    that finished and are not listed yet.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.fits: dict[str, FitState] = {}
        self.ended: deque[FitEnded] = deque(maxlen=MAX_ENDED)
        self.n_retried = 0
        self._passes: dict[str, PassState] = {}

    def on_pass_started(self, event: PassStarted) -> None:
        """Add a pass, and the fit around it."""
        with self.lock:
            token, *_inner = event.fits or (event.run,)
            if token not in self.fits:
                while len(self.fits) >= MAX_FITS:
                    del self.fits[min(self.fits, key=lambda token: self.fits[token].until is None)]
                self.fits[token] = FitState(next(iter(event.fit_names), event.name), time.time())
            state = self._passes[event.run] = PassState(event, time.time())
            self.fits[token].passes.append(state)

    def on_blocks_done(self, event: BlocksDone) -> None:
        """Set the finished tasks of a pass."""
        with self.lock:
            if event.run in self._passes:
                self._passes[event.run].done = event

    def on_task_retried(self, event: TaskRetried) -> None:  # noqa: ARG002
        """Count a retry."""
        self.n_retried += 1

    def on_pass_ended(self, event: PassEnded) -> None:
        """Mark a pass as ended."""
        with self.lock:
            state = self._passes.pop(event.run, None)
            if state is None:
                return
            state.ended, state.until = event, time.time()
            if not event.error:
                state.done = state.done._replace(n_blocks=state.started.n_blocks, n_merges=state.started.n_merges)
            if not state.started.fits and event.run in self.fits:
                self.fits[event.run].until = state.until

    def on_fit_ended(self, event: FitEnded) -> None:
        """Mark a fit as ended."""
        with self.lock:
            if not event.parent:
                self.ended.append(event)
                self.n_retried = 0
            if event.fit in self.fits:
                fit = self.fits[event.fit]
                fit.ended, fit.until = event, time.time()

    def end_all(self) -> None:
        """Mark all running fits as ended, after the last client disconnected."""
        with self.lock:
            self._passes.clear()
            for fit in self.get_running():
                fit.until = time.time()

    def get_running(self) -> list[FitState]:
        """Return the running outermost fits, in order of their start."""
        return [fit for fit in self.fits.values() if fit.until is None]
