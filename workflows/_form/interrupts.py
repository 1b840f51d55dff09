"""Ctrl-C, and the request to terminate, while workers are started, used and closed."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType

USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
"""What a process does at a signal unless somebody says otherwise: only then is it ours to hear."""
AGAIN = 0.05
"""Seconds until an interrupt that Python dropped is raised again."""


@contextmanager
def one_interrupt() -> Iterator[None]:
    """Let Ctrl-C, or the request to terminate, end the body; further ones are not heard while workers are closed.

    One that is heard then would end this process before its workers, and leave their semaphores behind. This process
    stays deaf: all that is left to it is to exit.

    Python drops an exception that is raised in a finalizer or at a collection of garbage, which Dask has watched by a
    function of Python. An interrupt that falls there is raised again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    raised: list[KeyboardInterrupt] = []

    def end(number: int, _frame: FrameType | None) -> None:
        for one in found:
            signal.signal(one, signal.SIG_IGN)
        if not raised:
            print("stopping: the workers are being closed", file=sys.stderr, flush=True)
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

    # One that is ignored, or that somebody else handles, stays so.
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
    """Let Ctrl-C wait until the cluster stands, for one half started cannot be closed.

    The workers inherit the blocked signal: it is not theirs to obey, they end with the cluster.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    resource_tracker.ensure_running()  # it unblocks the signal when it starts
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
