"""The context of a thread's computations: current fit, checkpoint folder, memory and client."""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import wraps
from os import PathLike
from tempfile import mkdtemp
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar, cast
from uuid import uuid4

from dspectral.engine.around.callbacks import (
    CALLBACKS,
    LOGGER,
    TOPIC,
    Callback,
    Client,
    Event,
    FitEnded,
    PassEnded,
    PassStarted,
    call_hooks,
)
from dspectral.engine.around.cluster import try_query
from dspectral.linalg.blas import blas_in_one_thread
from dspectral.paths import ResolvedURL, resolve_url
from dspectral.types import CheckpointPath

P = ParamSpec("P")
R = TypeVar("R")
Planner: TypeAlias = Callable[..., object]
_CONFIGURED: ResolvedURL = ("", ())


@dataclass(eq=False)
class Fit:
    """A running fit or build.

    `parent`: fit around it; `counts`: whether work that starts now counts as a pass; None leaves it to the caller.
    """

    name: str
    n_passes: int | None = None
    owner: object = None
    parent: "Fit | None" = None
    n_started: int = 0
    counts: bool | None = None
    token: str = field(default_factory=lambda: uuid4().hex)

    @property
    def path(self) -> "list[Fit]":
        """All fits around it and itself, outermost first."""
        return [*(self.parent.path if self.parent else ()), self]

    def is_counted(self, *, is_pass: bool) -> bool:
        """Report whether work that starts now counts as a pass of this fit."""
        return is_pass if self.counts is None else self.counts


class ProcessMemory(NamedTuple):
    """Memory of the processes that will run the tasks.

    `n_workers`: number of workers, 0 for threads of this process; `n_threads`: concurrent tasks of a process; `limit`:
    smallest memory limit in bytes, 0 if there is none; `bytes_in_use`: bytes that a process uses already.
    """

    n_workers: int
    n_threads: int
    limit: int
    bytes_in_use: int

    @property
    def process_label(self) -> str:
        """Name of one of the processes, for messages."""
        return "a worker" if self.n_workers else "this process"


@dataclass(frozen=True)
class RunContext:
    """Context of the computations of a thread.

    `fit`: innermost running fit; `cache`: folder of checkpoints; `memory`: memory to plan for, in place of the actual
    one; `planner`: called in place of fits and builds; `dry_run`: temporary
    folder for the files of a dry run.
    """

    fit: Fit | None = None
    cache: ResolvedURL | None = _CONFIGURED
    memory: ProcessMemory | None = None
    planner: Planner | None = None
    dry_run: str | None = None


_CONTEXT: ContextVar[RunContext] = ContextVar("context", default=RunContext())  # noqa: B039  it is frozen


class StopAtFirstPass(Exception):  # noqa: N818  no error: it ends a dry run
    """Ends a dry run at its first pass. Arguments: the pass and its memory."""


def current_context() -> RunContext:
    """Return the context of this thread."""
    return _CONTEXT.get()


def current_client() -> Client | None:
    """Return the ``dask.distributed`` client that Dask would use now, or None."""
    import dask  # noqa: PLC0415  slow to import

    try:
        get = dask.base.get_scheduler()
    except (RuntimeError, ValueError):
        return None  # the computation itself raises this error
    client = getattr(get, "__self__", None)
    return client if hasattr(client, "log_event") else None


def is_in_worker_task() -> bool:
    """Report whether this thread runs a Dask task, as a fit inside ``GridSearchCV`` on a cluster does."""
    module = sys.modules.get("distributed.worker")
    return bool(getattr(getattr(module, "thread_state", None), "key", False))


@contextmanager
def override_context(**changes: Any) -> Iterator[RunContext]:
    """Change fields of the context for the duration of a ``with`` block."""
    before = _CONTEXT.get()
    _CONTEXT.set(replace(before, **changes))
    try:
        yield _CONTEXT.get()
    finally:
        # Contexts of generators may not end in reverse order, so each restores only its own fields.
        _CONTEXT.set(replace(_CONTEXT.get(), **{name: getattr(before, name) for name in changes}))


class _DashboardSender(Callback):
    """Send what happens on a cluster to the dashboard page on its scheduler, in order."""

    def _send(self, event: Event) -> None:
        client = current_client()
        if client is not None:
            message = {"event": type(event).__name__, **event._asdict()}
            try_query(client, client.scheduler.log_event, topic=TOPIC, msg=message)

    def _send_from_cluster(self, event: PassStarted | PassEnded) -> None:
        if event.on_cluster:
            self._send(event)

    on_pass_started = on_pass_ended = _send_from_cluster
    on_blocks_done = on_fit_ended = _send


_DASHBOARD = (_DashboardSender(),)


def get_callbacks() -> tuple[Callback, ...]:
    """Return the active callbacks, with that of the dashboard if ``dspectral.dashboard`` is true."""
    import dask  # noqa: PLC0415  slow to import

    return (*CALLBACKS, *(_DASHBOARD if dask.config.get("dspectral.dashboard", default=False) else ()))


def is_watched() -> bool:
    """Report whether finished blocks are counted, for a callback or for the log."""
    return bool(get_callbacks()) or LOGGER.isEnabledFor(logging.DEBUG)


def emit(event: Event) -> None:
    """Log an event, and call its hook of each active callback."""
    call_hooks(event, get_callbacks())


@contextmanager
def fit_context(name: str, n_passes: int | None = None, owner: object = None) -> Iterator[Fit]:
    """Emit the end of a fit, count its passes, and limit BLAS to one thread for reproducible bits."""
    parent = current_context().fit
    fit = Fit(name, n_passes, owner, parent)
    start, error, bound = time.perf_counter(), "", None
    try:
        with override_context(fit=fit), blas_in_one_thread():
            yield fit
        certificate = getattr(owner, "certificate_", None)
        bound = None if certificate is None else float(certificate.relative)
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        seconds = time.perf_counter() - start
        emit(FitEnded(fit.token, name, parent.token if parent else "", fit.n_started, seconds, error, bound))


def tracked_fit(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a ``fit`` or a builder: call hooks, count passes, and consume the argument ``checkpoints``."""
    is_method = "." in function.__qualname__.rpartition("<locals>.")[2]

    @wraps(function)
    def call_and_emit(*args: P.args, **kwargs: P.kwargs) -> R:
        context = current_context()
        if context.planner is not None and context.fit is None:
            return cast("R", context.planner(call_and_emit, *args, **kwargs))
        if not is_method:
            # A build resumes from its own files and needs no checkpoints.
            with fit_context(function.__name__), checkpoints(None):
                return function(*args, **kwargs)
        owner, url = args[0], kwargs.pop("checkpoints", None)
        with nullcontext() if url is None else checkpoints(url):  # type: ignore[arg-type]
            if context.fit is not None and context.fit.owner is owner:
                return function(*args, **kwargs)
            with fit_context(type(owner).__name__, owner=owner):
                return function(*args, **kwargs)

    return call_and_emit


@contextmanager
def checkpoints(url: CheckpointPath, *, storage_options: dict[str, Any] | None = None) -> Iterator[None]:
    """Write checkpoints of every pass in a ``with`` block, so that an interrupted fit can resume.

    A fit that runs again reads the checkpoints and computes only missing summaries, with bit-identical results.

    Parameters
    ----------
    url : str, Path or None
        Folder that all workers can access, or fsspec URL. Several fits may share it. None writes no checkpoints.
    storage_options : dict, optional
        Options of the fsspec file system.

    Notes
    -----
    A checkpoint is found by a hash of the block contents, the function and its arguments, the code of dspectral, the
    package versions and the kind of machine. A damaged checkpoint is computed again with a warning. Stores, corpora
    and arrays in memory have content hashes; other lazy rows raise an error. A summary is written if computing it took
    20 times as long as writing it; the result of each pass is always written.

    ``dspectral.checkpoints`` in Dask's configuration sets a folder for all fits, and the argument ``checkpoints`` of
    ``fit`` a folder for one fit. Checkpoints stay until :func:`clear_checkpoints` removes them.

    Examples
    --------
    >>> import numpy as np
    >>> from dspectral import TruncatedSVD, checkpoints, clear_checkpoints
    >>> with checkpoints("memory://parts"):
    ...     model = TruncatedSVD(2).fit(np.eye(3))
    >>> clear_checkpoints("memory://parts").n_files
    1
    """
    with override_context(cache=None if url is None else resolve_url(url, storage_options)):
        yield


def current_cache() -> ResolvedURL | None:
    """Return the checkpoint folder of this thread: from :func:`checkpoints`, else from Dask's configuration."""
    if (cache := current_context().cache) is not _CONFIGURED:
        return cache
    import dask  # noqa: PLC0415  slow to import

    url = dask.config.get("dspectral.checkpoints", None)
    if url is not None and (not isinstance(url, str | PathLike) or not str(url)):
        raise ValueError(f"dspectral.checkpoints={url!r} must be the path or URL of a folder")
    return None if url is None else resolve_url(url)


def intercept_fits(planner: Planner) -> Any:
    """Return a context in which `planner` is called in place of fits and builds."""
    return override_context(planner=planner)


def is_dry_run() -> bool:
    """Report whether this thread is in a dry run, which must not write to its target."""
    return current_context().dry_run is not None


def dry_run_folder() -> str:
    """Create a temporary folder for the files of a dry run; it is removed with the dry run."""
    return mkdtemp(dir=current_context().dry_run)


def expect_passes(n_passes: int, *, replaces: bool = False) -> None:
    """Set how many more passes the current fit will make; `replaces` replaces an earlier number."""
    fit = current_context().fit
    if fit is not None and (replaces or fit.n_passes is None):
        fit.n_passes = fit.n_started + n_passes


@contextmanager
def count_as_pass(*, is_pass: bool) -> Iterator[None]:
    """Set whether work in the ``with`` block counts as a pass."""
    fit = current_context().fit
    before = None if fit is None else fit.counts
    if fit is not None:
        fit.counts = is_pass
    try:
        yield
    finally:
        if fit is not None:
            fit.counts = before
