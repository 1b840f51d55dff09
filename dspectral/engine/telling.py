"""Who hears of events, and how they get there: listeners, Python's logging, and the scheduler of a cluster."""

import itertools
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

from dspectral.engine.cluster.clients import Client
from dspectral.engine.events import TOPIC, BlocksDone, Event, Listener, Merged
from dspectral.engine.wording import sentence_of

LOGGER = logging.getLogger("dspectral")
LOGGER.addHandler(logging.NullHandler())
# A context variable, so that a fit in another thread is not heard by the listener of this one.
_HERE: ContextVar[tuple[Listener, ...]] = ContextVar("listeners", default=())
_EVERYWHERE: list[Listener] = []
_ALL: list[Listener] = []
_NUMBERS = itertools.count()
_SENDER = f"{socket.gethostname()}:{os.getpid()}"


@contextmanager
def listening(listener: Listener, *, everywhere: bool = False) -> Iterator[None]:
    """Call a function with every event while the context lasts.

    >>> import numpy as np
    >>> from dspectral import TruncatedSVD
    >>> heard = []
    >>> with listening(heard.append):
    ...     model = TruncatedSVD(2).fit(np.eye(3))
    >>> [type(event).__name__ for event in heard]
    ['FitBegan', 'PassBegan', 'BlocksDone', 'PassEnded', 'Certified', 'FitEnded']
    """
    # A listener that hears one thread is in `_ALL` too: compilation, which happens once for all threads, is told to
    # everybody.
    _ALL.append(listener)
    before = _HERE.get()
    if everywhere:
        _EVERYWHERE.append(listener)
    else:
        _HERE.set((*before, listener))
    try:
        yield
    finally:
        _ALL.remove(listener)
        if everywhere:
            _EVERYWHERE.remove(listener)
        else:
            _HERE.set(before)


def is_heard() -> bool:
    """Report whether anybody in this process listens, or a dashboard is configured."""
    import dask  # noqa: PLC0415  it takes long to import, and a fit comes later than an estimator

    return bool(_HERE.get() or _EVERYWHERE or dask.config.get("dspectral.dashboard", default=False))


def counts_blocks() -> bool:
    """Report whether blocks are to be counted: for a listener, or for the log."""
    return bool(_HERE.get() or _EVERYWHERE) or LOGGER.isEnabledFor(logging.DEBUG)


def tell(event: Event, client: Client | None = None) -> None:
    """Tell listeners, the log, and the scheduler of a client."""
    _log_and_call(event, (*_HERE.get(), *_EVERYWHERE))
    # Blocks are left out: the scheduler knows its own tasks, and a message each would be as many again.
    if client is not None and is_heard() and not isinstance(event, BlocksDone):
        _send(client, as_message(event))


def tell_everybody(event: Event) -> None:
    """Tell the log and all listeners of this process, of whatever thread."""
    _log_and_call(event, tuple(_ALL))


def is_mine(message: dict[str, Any]) -> bool:
    """Report whether a message was sent by this process, whose listeners have heard the event itself."""
    return bool(message["sender"] == _SENDER)


def as_message(event: Event) -> dict[str, Any]:
    """Return an event as a dict that can be written as JSON, and sent.

    >>> from dspectral.engine.events import Compiling
    >>> message = as_message(Compiling("twice", "here"))
    >>> message["event"], message["loop"]
    ('Compiling', 'twice')
    """
    fields = {
        key: list(value) if isinstance(value, tuple) else value for key, value in event._asdict().items()
    }
    kind = type(event).__name__
    return {"event": kind, **fields, "time": time.time(), "sender": _SENDER, "order": next(_NUMBERS)}


def client_in_force() -> Client | None:
    """Return the ``dask.distributed`` client that would compute now."""
    import dask  # noqa: PLC0415  as above

    try:
        get = dask.base.get_scheduler()
    except (RuntimeError, ValueError):
        return None  # the computation itself says what is wrong with the configuration
    client = getattr(get, "__self__", None)
    return client if hasattr(client, "log_event") else None


def tell_from_worker(event: Event) -> bool:
    """Send an event from a task of a cluster to its scheduler, without waiting."""
    return worker_teller()(event)


def worker_teller() -> Callable[[Event], bool]:
    """Return :func:`tell_from_worker` for the task that runs in this thread, to be called in any thread."""
    # Asked for by name: a process that has not loaded it is no worker, and need not load it for this.
    module = sys.modules.get("distributed.worker")
    if module is not None:
        with suppress(ValueError):  # it is raised where no task of a worker runs
            return partial(_tell_from, module.get_worker())
    return partial(_tell_from, None)


def _tell_from(worker: Any, event: Event) -> bool:
    if worker is None:
        return False
    worker.log_event(TOPIC, as_message(event))
    return True


def _log_and_call(event: Event, listeners: tuple[Listener, ...]) -> None:
    level = logging.DEBUG if isinstance(event, BlocksDone | Merged) else logging.INFO
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, "%s", sentence_of(event))
    # Once each, in order: a listener may be there for its thread and for all.
    for listener in dict.fromkeys(listeners):
        try:
            listener(event)
        except Exception:
            LOGGER.exception("a listener failed at %s", type(event).__name__)


def _send(client: Client, message: dict[str, Any]) -> None:
    """Hand a message to the client's own loop."""

    # The loop runs in a thread of its own: `add_callback` is the one call into it that other threads may make, and it
    # does not wait.
    async def send() -> None:
        try:
            await client.scheduler.log_event(topic=TOPIC, msg=message)
        except Exception:  # a fit does not fail because nobody can be told of it
            LOGGER.debug("the scheduler was not told: %s", message["event"], exc_info=True)

    with suppress(RuntimeError):  # the loop is closed
        client.loop.add_callback(send)
