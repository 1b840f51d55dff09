"""Compilation of loops by Numba, and the form in which arrays are passed to them.

Machine code is kept on disk, beside the source or, where that cannot be written to, as in an installation that belongs
to somebody else, in the user's cache folder; ``NUMBA_CACHE_DIR`` names another one. A loop is compiled once on a
machine, at its first call, and :data:`LISTENERS` are told.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core import event as numba_events
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])
N = TypeVar("N", bound=np.generic)

LISTENERS: list[Callable[[str, str, float | None], object]] = []
"""Called with the name of a loop, its module, and None before it is compiled or the seconds that it took afterwards."""


def compiled(function: F) -> F:
    """Compile a loop at its first call, without the interpreter lock, and keep the machine code on disk.

    Parameters
    ----------
    function : callable
        Function of arrays, numbers and named tuples of them.

    Returns
    -------
    callable
        Compiled function with the same signature.

    Examples
    --------
    >>> @compiled  # doctest: +SKIP
    ... def twice(x):  # only in a file, beside which the machine code is kept
    ...     return 2 * x
    """
    loop: F = numba.njit(nogil=True, cache=True, boundscheck=False)(function)
    return loop


def compiled_with_contraction(function: F) -> F:
    """Compile a loop as :func:`compiled` does, with products and sums contracted into one rounded operation.

    The order of the sums stays as written.

    Parameters
    ----------
    function : callable
        Function of arrays, numbers and named tuples of them.

    Returns
    -------
    callable
        Compiled function with the same signature.
    """
    loop: F = numba.njit(nogil=True, cache=True, fastmath={"contract"}, boundscheck=False)(function)
    return loop


def is_loaded(loop: Callable[..., Any]) -> bool:
    """Report whether the machine code of a loop is in this process already.

    Parameters
    ----------
    loop : callable
        Function that :func:`compiled` made.

    Returns
    -------
    bool
        False before its first call.
    """
    return bool(getattr(loop, "signatures", ()))


def read_only(array: NDArray[N]) -> NDArray[N]:
    """Return a contiguous read-only view, so that a loop is compiled once for all callers.

    Parameters
    ----------
    array : ndarray
        Array that is copied only if it is not contiguous.

    Returns
    -------
    ndarray
        View with the same dtype, shape and values.

    Examples
    --------
    >>> read_only(np.zeros(3)).flags.writeable
    False
    """
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


class _Announcer(numba_events.Listener):
    """Tells of loops of this package, of the outermost alone: what it calls is compiled as a part of it."""

    def __init__(self) -> None:
        self._open = threading.local()

    def on_start(self, event: Any) -> None:
        """Tell that a loop is not in the cache."""
        outer = self._stack()
        outer.append(time.perf_counter())
        if len(outer) == 1:
            self._tell(event, None)

    def on_end(self, event: Any) -> None:
        """Tell how long the loop took, also if it cannot be compiled."""
        start = self._stack().pop()
        if not self._stack():
            self._tell(event, time.perf_counter() - start)

    def _stack(self) -> list[float]:
        if not hasattr(self._open, "starts"):
            self._open.starts = []
        starts: list[float] = self._open.starts
        return starts

    def _tell(self, event: Any, seconds: float | None) -> None:
        function = event.data["dispatcher"].py_func
        if function.__module__.startswith(__package__):
            for listener in tuple(LISTENERS):
                listener(function.__name__, function.__module__, seconds)


numba_events.register("numba:compile", _Announcer())
