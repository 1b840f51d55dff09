"""Handling of SIGINT (Ctrl-C) and SIGTERM while workers are started, used and closed."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType

USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
"""Default handlers; only these are replaced."""
AGAIN = 0.05
"""Seconds until an interrupt that Python dropped is raised again."""


@contextmanager
def one_interrupt() -> Iterator[None]:
    """End the body at the first SIGINT or SIGTERM, and ignore further ones while workers are closed.

    A second signal would end this process before its workers, and leak their semaphores. Python drops exceptions that
    are raised in finalizers and callbacks of the garbage collector; an interrupt dropped there is raised again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    raised: list[KeyboardInterrupt] = []

    def end(number: int, _frame: FrameType | None) -> None:
        for one in found:
            signal.signal(one, signal.SIG_IGN)
        if not raised:
            print("stopping: closing the workers", file=sys.stderr, flush=True)
        raised.append(KeyboardInterrupt(number))
        raise raised[-1]

    def dropped(ignored: "sys.UnraisableHookArgs") -> None:
        if ignored.exc_value not in raised:
            unraisable(ignored)
            return
        number = ignored.exc_value.args[0]
        signal.signal(number, end)
        again = threading.Timer(AGAIN, signal.pthread_kill, [threading.get_ident(), number])
        again.daemon = True
        again.start()

    found = {number: usual for number, usual in USUAL.items() if signal.getsignal(number) is usual}
    unraisable, sys.unraisablehook = sys.unraisablehook, dropped
    for number in found:
        signal.signal(number, end)
    try:
        yield
        if raised:
            raise raised[-1]
    finally:
        sys.unraisablehook = unraisable
        for number, handler in found.items():
            signal.signal(number, signal.SIG_IGN if raised else handler)


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Delay signals until the cluster has started: a half-started cluster cannot be closed.

    Workers inherit the blocked signal; they end with the cluster.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    resource_tracker.ensure_running()  # its start unblocks the signal
    caught: list[int] = []
    handlers = {one: signal.signal(one, lambda number, _frame: caught.append(number)) for one in USUAL}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for one, handler in handlers.items():
            signal.signal(one, handler)
    if caught:
        signal.raise_signal(caught[0])
