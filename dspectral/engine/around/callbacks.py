"""Callbacks: hooks that fits and passes of this process call, in any thread.

A hook gets a named tuple of plain values, and ``str`` of it is the line in Python's ``logging`` under the name
``dspectral``. A fit calls, for each pass, ``on_pass_started``, any number of ``on_blocks_done`` and ``on_pass_ended``,
then ``on_fit_ended``, also after an error. ``on_task_retried`` may come at any time, from any thread.
"""

import logging
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from threading import get_ident
from typing import Any, NamedTuple, Self, TypeAlias

Client: TypeAlias = Any
"""A client of ``dask.distributed``, typed as Any because its methods return awaitables inside its own loop."""
Scheduler: TypeAlias = Any
"""The scheduler object that ``Client.run_on_scheduler`` passes to a function."""
TOPIC = "dspectral"
"""Topic of messages in the event log of a Dask scheduler."""
LOGGER = logging.getLogger("dspectral")
LOGGER.addHandler(logging.NullHandler())
TASK_SHARES: dict[int, float] = {}
"""Share of the running task that is done, by thread, for tasks that report it."""


class PassStarted(NamedTuple):
    """A pass, or other work of a fit, started.

    `run`: token of the pass; `block_group, merge_groups`: Dask task groups of the blocks and of each level of merges;
    `n_blocks`: number of block tasks; `n_kept, n_kept_merges`: block and merge tasks whose summaries are read from
    checkpoints; `n_joined`: number of blocks if a task reads several, else 0; `fits, fit_names`: tokens and names of
    the running fits, outermost first; `number`: number of the pass in its fit, None for work that is not a pass;
    `finish`: name of the task of the summary of all rows, or empty; `on_cluster`: whether a Dask client computes it.
    """

    run: str
    name: str
    block_group: str
    n_blocks: int
    merge_groups: tuple[str, ...] = ()
    n_merges: int = 0
    fan_in: int = 0
    n_rows: int | None = None
    n_bytes: int | None = None
    n_kept: int = 0
    n_kept_merges: int = 0
    n_joined: int = 0
    fits: tuple[str, ...] = ()
    fit_names: tuple[str, ...] = ()
    number: int | None = None
    n_passes: int | None = None
    finish: str = ""
    on_cluster: bool = False

    @property
    def number_label(self) -> str:
        """``pass 2 of 4``, without the total if it is unknown; empty for work that is not a pass."""
        if self.number is None:
            return ""
        return f"pass {self.number}" + (f" of {self.n_passes}" if self.n_passes is not None else "")

    @property
    def label(self) -> str:
        """Name of the pass with its number, if it has one."""
        return ", ".join(filter(None, (self.number_label, self.name)))

    def __str__(self) -> str:
        blocks = f"{self.n_blocks} blocks" + (f" ({self.n_kept} from checkpoints)" if self.n_kept else "")
        rows = "" if self.n_rows is None else f"{self.n_rows} rows"
        levels = f"{len(self.merge_groups)} levels of merges" if self.merge_groups else ""
        text = ", ".join(filter(None, (self.name, self.number_label, blocks, rows, levels)))
        return ": ".join([*self.fit_names[-1:], text])


class BlocksDone(NamedTuple):
    """Numbers of block and merge tasks of a pass that are done; `n_repeated`: lost tasks that had to run again."""

    run: str
    n_blocks: int
    n_merges: int
    n_repeated: int = 0
    n_lost_workers: int = 0

    def __str__(self) -> str:
        repeated = f"; {self.n_repeated} tasks were lost and run again" if self.n_repeated else ""
        return f"{self.n_blocks} blocks and {self.n_merges} merges are done{repeated}"


class TaskRetried(NamedTuple):
    """A read, write or task failed with a transient error and runs again after `pause` seconds."""

    what: str
    attempt: int
    pause: float
    error: str

    def __str__(self) -> str:
        return f"{self.what}: attempt {self.attempt} failed, next in {self.pause:g} s ({self.error})"


class PassEnded(NamedTuple):
    """A pass ended; `error`: name of the exception that ended it, or empty."""

    run: str
    name: str
    seconds: float
    error: str
    on_cluster: bool = False

    def __str__(self) -> str:
        return f"{self.name} took {self.seconds:.2f} s" + _format_failure(self.error)


class FitEnded(NamedTuple):
    """A fit or build ended.

    `parent`: token of the enclosing fit, or empty; `error`: name of the exception that ended it, or empty;
    `certificate`: relative error bound of the model, if it has one.
    """

    fit: str
    name: str
    parent: str
    n_passes: int
    seconds: float
    error: str
    certificate: float | None = None

    def __str__(self) -> str:
        passes = "1 pass" if self.n_passes == 1 else f"{self.n_passes} passes"
        bound = "" if self.certificate is None else f", relative certificate {self.certificate:.3g}"
        return f"{self.name} took {self.seconds:.2f} s, {passes}{bound}" + _format_failure(self.error)


Event: TypeAlias = PassStarted | BlocksDone | TaskRetried | PassEnded | FitEnded


class Callback:
    """Hooks of fits and passes; a subclass overrides some, and is used as a context manager.

    The hooks are called for the fits of all threads of this process. An error in a hook is logged and ends no fit.

    >>> import numpy as np
    >>> from dspectral import TruncatedSVD
    >>> class Print(Callback):
    ...     def on_pass_started(self, event):
    ...         print(event)
    >>> with Print():
    ...     model = TruncatedSVD(2).fit(np.eye(3))
    TruncatedSVD: sketch, pass 1 of 1, 1 blocks, 3 rows
    """

    def on_pass_started(self, event: PassStarted) -> None:
        """Respond to the start of a pass."""

    def on_blocks_done(self, event: BlocksDone) -> None:
        """Respond to finished tasks of a pass."""

    def on_task_retried(self, event: TaskRetried) -> None:
        """Respond to a transient error of a read, write or task."""

    def on_pass_ended(self, event: PassEnded) -> None:
        """Respond to the end of a pass."""

    def on_fit_ended(self, event: FitEnded) -> None:
        """Respond to the end of a fit or build."""

    def __enter__(self) -> Self:
        CALLBACKS.append(self)
        return self

    def __exit__(self, *_error: object) -> None:
        CALLBACKS.remove(self)


CALLBACKS: list[Callback] = []
"""Active callbacks of this process."""
HOOKS: dict[type[Event], str] = {
    PassStarted: "on_pass_started",
    BlocksDone: "on_blocks_done",
    TaskRetried: "on_task_retried",
    PassEnded: "on_pass_ended",
    FitEnded: "on_fit_ended",
}


def call_hooks(event: Event, callbacks: Sequence[Callback]) -> None:
    """Log an event, and call its hook of each callback."""
    LOGGER.log(logging.DEBUG if isinstance(event, BlocksDone) else logging.INFO, "%s", event)
    hook = HOOKS[type(event)]
    for callback in callbacks:
        try:
            getattr(callback, hook)(event)
        except Exception:
            LOGGER.exception("%s of a callback raised an error", hook)


def emit_retry(event: TaskRetried) -> None:
    """Call the hooks of a retry; from a task of a Dask worker, those of the client that runs the pass."""
    worker = get_current_worker()
    if worker is None:
        call_hooks(event, tuple(CALLBACKS))
    else:
        worker.log_event(TOPIC, {"event": "TaskRetried", **event._asdict()})


def report_share(share: float) -> None:
    """Report which share of the running task of this thread is done, so that progress moves within a block."""
    if (thread := get_ident()) in TASK_SHARES:  # outside of a task there is no progress to show
        TASK_SHARES[thread] = share


def get_current_worker() -> Any:
    """Return the Dask worker whose task runs in this thread, or None."""
    # Look up the module without importing it: a process that has not imported distributed is not a worker.
    module = sys.modules.get("distributed.worker")
    with suppress(ValueError):  # raised outside of a task
        return None if module is None else module.get_worker()
    return None


def log_compilation(loop: str, _module: str, seconds: float | None) -> None:
    """Log that a loop is compiled (`seconds` is None) or was compiled, and announce the first one of a terminal."""
    _announce_compilation()
    LOGGER.info("compiling %s" if seconds is None else "compiled %s in %.2f s", *filter(None, (loop, seconds)))


@cache
def _announce_compilation() -> None:
    """Write one line at the first compilation of an interactive process, to explain the wait."""
    if sys.stderr and (hasattr(sys, "ps1") or sys.stderr.isatty()):
        line = "dspectral: compiling loops once, about 20 s; `dspectral warm` compiles those of all main methods\n"
        sys.stderr.write(line)


def _format_failure(error: str) -> str:
    return f", ended by {error}" if error else ""
