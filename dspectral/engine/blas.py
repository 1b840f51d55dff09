"""One BLAS thread inside a task, whatever else is running."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from threading import Lock
from types import TracebackType
from typing import Any

import scipy.linalg  # noqa: F401  loads SciPy's own BLAS, so that the controller below sees it
from threadpoolctl import OpenBLASController, ThreadpoolController


def pinned(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function while BLAS has one thread."""
    with blas_in_one_thread():
        return function(*arguments)


def blas_in_one_thread() -> AbstractContextManager[None]:
    """Return a context in which BLAS uses one thread, also when several threads enter and leave it."""
    return _BlasGate()


def blas_kinds() -> str:
    """Return the BLAS libraries of this process, with the kind of processor for which each chose its kernels."""
    found = {
        " ".join(str(one.get(part) or "") for part in ("internal_api", "version", "architecture")).strip()
        for one in _controller().info()
        if one["user_api"] == "blas"
    }
    return ", ".join(sorted(found))


class _BlasGate(AbstractContextManager[None]):
    """Set the limit when the first task enters and lift it when the last one leaves.

    The limit holds for the whole process: if each task restored what it found, the first to end would give its
    running neighbors all threads back, and their results other last bits.
    """

    # On the class and not on the instance: all contexts of a process share one count and one limit.
    _lock = Lock()
    _inside = 0
    _limit: Any = None

    def __enter__(self) -> None:
        # The lock is held while the limit is set: a second task must not compute before that.
        with _BlasGate._lock:
            if _BlasGate._inside == 0:
                _take_control_of_blas()
                _BlasGate._limit = _controller().limit(limits=1, user_api="blas")
            _BlasGate._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        with _BlasGate._lock:
            _BlasGate._inside -= 1
            if _BlasGate._inside == 0:
                _take_control_of_blas()
                _BlasGate._limit.restore_original_limits()


def _take_control_of_blas() -> None:
    """Make OpenBLAS accept limits from this thread.

    From threadpoolctl 3.8 on it accepts only those of the thread that was first to set one; here the thread that lifts
    the limit is often another than the one that set it.
    """
    clear = getattr(OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


def has_controlled_blas() -> bool:
    """Report whether a task has run in this process: each of them controls BLAS."""
    return _controller.cache_info().currsize > 0


# The controller searches all libraries that the process has loaded, which takes long beside a small task.
@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
