"""What holds for the computations of a thread: the fit, the folder of checkpoints, memory, listeners, the client."""

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

from dspectral.engine.around import events
from dspectral.engine.around.events import (
    BlocksDone,
    CertificateComputed,
    Client,
    Event,
    FitEnded,
    FitStarted,
    Listener,
)
from dspectral.linalg.blas import blas_in_one_thread
from dspectral.paths import Place, place_of
from dspectral.types import KeepPath

P = ParamSpec("P")
R = TypeVar("R")
Planner: TypeAlias = Callable[..., object]
_CONFIGURED: Place = ("", ())


@dataclass(eq=False)
class Fit:
    """A fit or a build that runs; ``counts`` says whether what begins now reads the data once, where that is said."""

    name: str
    n_passes: int | None = None
    owner: object = None
    n_started: int = 0
    counts: bool | None = None
    token: str = field(default_factory=lambda: uuid4().hex)

    def is_counted(self, *, is_pass: bool) -> bool:
        """Report whether what begins now is a pass of this fit."""
        return is_pass if self.counts is None else self.counts


class ProcessMemory(NamedTuple):
    """Memory of the processes that will do the work.

    `n_workers`: 0 for threads of this process; `n_threads`: tasks that run at once in a process; `limit`: bytes that
    the smallest may have, 0 for any number; `taken`: bytes that a process has already.
    """

    n_workers: int
    n_threads: int
    limit: int
    taken: int

    @property
    def process_label(self) -> str:
        """One of the processes, for messages."""
        return "a worker" if self.n_workers else "this process"


@dataclass(frozen=True)
class RunContext:
    """What holds for the computations of a thread.

    `fit`: the innermost one; `cache`: folder of checkpoints; `memory`: what passes are held to, whatever there is;
    `listeners`: those of this thread; `planner`: called in place of fits and builds; `dry_run`: folder for what a fit
    or a build writes that is only planned.
    """

    fit: Fit | None = None
    cache: Place | None = _CONFIGURED
    memory: ProcessMemory | None = None
    listeners: tuple[Listener, ...] = ()
    planner: Planner | None = None
    dry_run: str | None = None

    @property
    def counts_blocks(self) -> bool:
        """Whether blocks are to be counted: for a listener, or for the log."""
        return bool(self.listeners or events.GLOBAL_LISTENERS) or events.LOGGER.isEnabledFor(logging.DEBUG)

    @property
    def has_listeners(self) -> bool:
        """Whether anybody in this process listens, or a dashboard is configured."""
        import dask  # noqa: PLC0415  it takes long to import, and a fit comes later than an estimator

        is_shown = dask.config.get("dspectral.dashboard", default=False)
        return bool(self.listeners or events.GLOBAL_LISTENERS or is_shown)

    def emit(self, event: Event, client: Client | None = None) -> None:
        """Give an event to the listeners of this thread, the log, and the scheduler of a client."""
        listeners = (*self.listeners, *events.GLOBAL_LISTENERS)
        if listeners or events.LOGGER.isEnabledFor(logging.INFO):
            events.log_and_notify(event, listeners)
        # Blocks are left out: the scheduler knows its own tasks, and a message each would be as many again.
        if client is not None and self.has_listeners and not isinstance(event, BlocksDone):
            events.send_message(client, events.to_message(event))


_CONTEXT: ContextVar[RunContext] = ContextVar("context", default=RunContext())  # noqa: B039  it is frozen


class StopAtFirstPass(Exception):  # noqa: N818  no error: it ends a fit that is only planned, at its first pass
    """Says what is known of the first pass of a fit that is only planned."""


def current_context() -> RunContext:
    """Return what holds for the computations of this thread."""
    return _CONTEXT.get()


def client_in_force() -> Client | None:
    """Return the ``dask.distributed`` client that would compute now."""
    import dask  # noqa: PLC0415  as above

    try:
        get = dask.base.get_scheduler()
    except (RuntimeError, ValueError):
        return None  # the computation itself says what is wrong with the configuration
    client = getattr(get, "__self__", None)
    return client if hasattr(client, "log_event") else None


def is_in_worker_task() -> bool:
    """Report whether this thread runs a task of a worker, as a fit within ``GridSearchCV`` on a cluster does."""
    module = sys.modules.get("distributed.worker")
    return bool(getattr(getattr(module, "thread_state", None), "key", False))


@contextmanager
def override_context(**changes: Any) -> Iterator[RunContext]:
    """Change fields of the context in the body."""
    before = _CONTEXT.get()
    _CONTEXT.set(replace(before, **changes))
    try:
        yield _CONTEXT.get()
    finally:
        # Contexts of generators may end in another order than they began: each sets back its own fields alone.
        _CONTEXT.set(replace(_CONTEXT.get(), **{name: getattr(before, name) for name in changes}))


@contextmanager
def listening(listener: Listener, *, everywhere: bool = False) -> Iterator[None]:
    """Call a function with every event while the context lasts.

    >>> import numpy as np
    >>> from dspectral import TruncatedSVD
    >>> events = []
    >>> with listening(events.append):
    ...     model = TruncatedSVD(2).fit(np.eye(3))
    >>> [type(event).__name__ for event in events]
    ['FitStarted', 'PassStarted', 'BlocksDone', 'PassEnded', 'CertificateComputed', 'FitEnded']
    >>> print(events[1])
    TruncatedSVD: sketch, pass 1 of 1, 1 blocks, 3 rows
    """
    listeners = current_context().listeners
    heard = nullcontext() if everywhere else override_context(listeners=(*listeners, listener))
    with events.register_listener(listener, everywhere=everywhere), heard:
        yield


@contextmanager
def fit_context(name: str, n_passes: int | None = None, owner: object = None) -> Iterator[Fit]:
    """Emit that a fit begins and ends, number the passes in it, and give BLAS one thread, for the same bits."""
    context, fit = current_context(), Fit(name, n_passes, owner)
    client = client_in_force() if context.has_listeners else None
    context.emit(FitStarted(fit.token, name, context.fit.token if context.fit else "", n_passes), client)
    start, error = time.perf_counter(), ""
    try:
        with override_context(fit=fit), blas_in_one_thread():
            yield fit
        certificate = getattr(owner, "certificate_", None)
        if certificate is not None:
            found = float(certificate.absolute), float(certificate.relative)
            context.emit(CertificateComputed(fit.token, name, *found), client)
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        context.emit(FitEnded(fit.token, name, fit.n_started, time.perf_counter() - start, error), client)


def emits_events(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a ``fit`` method or a builder: emit ``FitStarted`` and ``FitEnded``, and number the passes inside.

    The argument ``keep`` of a method is applied here, and is not passed to the method.
    """
    is_method = "." in function.__qualname__.rpartition("<locals>.")[2]

    @wraps(function)
    def emitting(*args: P.args, **kwargs: P.kwargs) -> R:
        context = current_context()
        if context.planner is not None and context.fit is None:
            return cast("R", context.planner(emitting, *args, **kwargs))
        if not is_method:
            # What a build writes goes on where it was, and need not be kept twice.
            with fit_context(function.__name__), keep(None):
                return function(*args, **kwargs)
        owner, url = args[0], kwargs.pop("keep", None)
        with nullcontext() if url is None else keep(url):  # type: ignore[arg-type]
            if context.fit is not None and context.fit.owner is owner:
                return function(*args, **kwargs)
            with fit_context(type(owner).__name__, owner=owner):
                return function(*args, **kwargs)

    return emitting


@contextmanager
def keep(url: KeepPath, *, storage_options: dict[str, Any] | None = None) -> Iterator[None]:
    """Keep finished parts of every pass in the context, so that a fit which is cut short goes on where it was.

    A fit that is called again reads what is in the folder and makes only what is missing, with the same bits.

    Parameters
    ----------
    url : str, Path or None
        Folder that all workers see, or any URL that fsspec knows, for any number of fits; None keeps nothing.
    storage_options : dict, optional
        Options of the file system.

    Notes
    -----
    Parts are found by what they are made of: the content of the blocks, the function with all that is bound to it,
    the code of dspectral, the versions of packages, and the kind of machine. A part that is damaged is made again with
    a warning. Content is known of stores and corpora of dspectral, and of arrays in memory; other lazy rows are
    refused. A part is written where making it again would take 20 times as long as writing it, and the result of each
    pass always.

    The entry ``dspectral.keep`` of Dask's configuration names a folder for all fits, and the argument ``keep`` of every
    ``fit`` one for this fit. What is in the folder stays until :func:`forget` removes it.

    Examples
    --------
    >>> import numpy as np
    >>> from dspectral import TruncatedSVD, forget, keep
    >>> with keep("memory://parts"):
    ...     model = TruncatedSVD(2).fit(np.eye(3))
    >>> forget("memory://parts").n_parts
    1
    """
    with override_context(cache=None if url is None else place_of(url, storage_options)):
        yield


def current_cache() -> Place | None:
    """Return the folder of checkpoints of this thread: of ``keep``, else that of the configuration."""
    if (cache := current_context().cache) is not _CONFIGURED:
        return cache
    import dask  # noqa: PLC0415  as above

    url = dask.config.get("dspectral.keep", None)
    if url is not None and (not isinstance(url, str | PathLike) or not str(url)):
        raise ValueError(f"dspectral.keep is {url!r}, but it must be a folder or the URL of one")
    return None if url is None else place_of(url)


def only_planned(planner: Planner) -> Any:
    """Return a context in which a planner is called in place of fits and builds."""
    return override_context(planner=planner)


def is_dry_run() -> bool:
    """Report whether the fit or the build of this thread is only planned, and must write nothing where it would."""
    return current_context().dry_run is not None


def dry_run_folder() -> str:
    """Return a new folder for what a build writes that is only planned; it is removed with the plan."""
    return mkdtemp(dir=current_context().dry_run)


def expect_passes(n_passes: int, *, anew: bool = False) -> None:
    """Say how many more passes the fit in force will make, from now on."""
    fit = current_context().fit
    if fit is not None and (anew or fit.n_passes is None):
        fit.n_passes = fit.n_started + n_passes


@contextmanager
def numbered(*, is_pass: bool) -> Iterator[None]:
    """Say whether what runs in the body reads the data once."""
    fit = current_context().fit
    before = None if fit is None else fit.counts
    if fit is not None:
        fit.counts = is_pass
    try:
        yield
    finally:
        if fit is not None:
            fit.counts = before
