"""Compilation of loops by Numba, and the form in which arrays are passed to them.

Machine code is kept on disk, beside the source or, where that cannot be written to, as in an installation that belongs
to somebody else, in the user's cache folder; ``NUMBA_CACHE_DIR`` names another one. A loop is compiled once on a
machine, at its first call, and :data:`LISTENERS` are told. A process that needs a loop which another one is compiling
waits for its machine code: Numba itself would let both compile.
"""

import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from filelock import FileLock, Timeout
from numba.core import event as numba_events
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])
N = TypeVar("N", bound=np.generic)

LISTENERS: list[Callable[[str, str, float | None], object]] = []
"""Called with the name of a loop, its module, and None before it is compiled or the seconds that it took afterwards."""
WAIT_SECONDS = 120.0
"""How long a process waits for a loop that another one compiles; the longest loop takes a twentieth of it."""


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
    return _in_turn(loop)


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
    return _in_turn(loop)


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


def compiles_for() -> str:
    """Return the machine that loops are compiled for: other machines may round otherwise.

    Returns
    -------
    str
        Architecture, processor and its features, as Numba has them.
    """
    return " ".join(map(str, cpu_target.target_context.codegen().magic_tuple()))


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


class _Turn:
    """The turn of this process to compile a loop, with all that it calls; Numba's own lock guards it from threads."""

    def __init__(self) -> None:
        self.depth = 0
        self.has_waited = False
        self.lock: FileLock | None = None

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_error: object) -> None:
        self.depth -= 1
        if self.depth == 0:
            if self.lock is not None:
                self.lock.release()
            self.lock, self.has_waited = None, False

    def wait(self, path: Path) -> None:
        """Wait until no other process compiles the outermost loop, whose lock ends with the process that holds it."""
        if self.has_waited:
            return
        self.has_waited = True
        lock = FileLock(path)
        try:
            lock.acquire(timeout=WAIT_SECONDS)
        except (Timeout, OSError, NotImplementedError) as error:
            warnings.warn(f"a loop is compiled without waiting for other processes: {error}", stacklevel=2)
        else:
            self.lock = lock


_TURN = _Turn()


def _in_turn(loop: F) -> F:
    """Let a loop that is not on disk be compiled by one process, for which the others wait."""
    cache: Any = vars(loop).get("_cache")
    if cache is None:  # compilation is switched off
        return loop
    dispatcher: Any = loop
    load, compile_now = cache.load_overload, dispatcher.compile

    def load_or_wait(signature: Any, target: Any) -> Any:
        found = load(signature, target)
        if found is None:
            _TURN.wait(Path(cache.cache_path, f"{loop.__module__}.{loop.__name__}.lock"))
            found = load(signature, target)
        return found

    def compile_in_turn(signature: Any) -> Any:
        with global_compiler_lock, _TURN:
            return compile_now(signature)

    cache.load_overload, dispatcher.compile = load_or_wait, compile_in_turn
    return loop


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
