"""Loops that Numba compiles at their first call.

Numba caches machine code on disk for the source and the processor: beside the source, in the user's cache folder if the
source folder is read-only, or in ``NUMBA_CACHE_DIR``. ``dspectral warm`` compiles the loops of the main methods after
installation. Without it, an interactive session compiles them in the background. :data:`LISTENERS` are called before
and after a compilation.
"""

import atexit
import os
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from functools import cache, update_wrapper
from importlib.metadata import version
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])
N = TypeVar("N", bound=np.generic)

LISTENERS: list[Callable[[str, str, float | None], object]] = []
"""Functions called with the name and module of a loop, and None before or the seconds after its compilation."""
_LOCK = threading.RLock()


def compiled(function: F) -> F:
    """Compile a loop at its first call, without the GIL, and cache the machine code on disk."""
    return cast("F", Loop(cast("FunctionType", function), contract=False))


def compiled_with_contraction(function: F) -> F:
    """Compile a loop as :func:`compiled` does, with fused multiply-add."""
    return cast("F", Loop(cast("FunctionType", function), contract=True))


def read_only(array: NDArray[N]) -> NDArray[N]:
    """Return a contiguous read-only view, so that a loop is compiled once for all callers."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


class Loop:
    """A function that is compiled at its first call; Numba is imported only then."""

    __name__: str
    __module__: str
    __qualname__: str

    def __init__(self, function: FunctionType, *, contract: bool) -> None:
        update_wrapper(self, function)
        self._function, self._contract = function, contract
        self._dispatcher: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Call the machine code."""
        return (self._dispatcher or self.dispatcher())(*arguments)

    def __reduce__(self) -> str:
        """Pickle the loop by name, like a function."""
        return self.__qualname__

    def dispatcher(self) -> Callable[..., Any]:
        """Return Numba's dispatcher of the loop, created at the first call."""
        with _LOCK:
            if self._dispatcher is None:
                original = self._function
                # Numba looks up names in the function's globals, which must hold dispatchers in place of loops.
                called = {name: original.__globals__.get(name) for name in _iterate_names(original.__code__)}
                loops = {name: loop for name, loop in called.items() if isinstance(loop, Loop) and loop is not self}
                names = original.__globals__ | {name: loop.dispatcher() for name, loop in loops.items()}
                code, defaults = original.__code__, original.__defaults__
                function = FunctionType(code, names, original.__name__, defaults, original.__closure__)
                # Part of the names of cached files: Numba writes its index before the machine code, so that a second
                # process would read code of another version.
                function.__qualname__ = f"{original.__qualname__}-{_import_numba().__version__}"
                fastmath = {"contract"} if self._contract else False
                # Nothing calls loops from C.
                dispatcher = _import_numba().njit(nogil=True, no_cfunc_wrapper=True, fastmath=fastmath)(function)
                try:
                    dispatcher.enable_caching()
                except (AttributeError, RuntimeError) as error:
                    # NUMBA_DISABLE_JIT is set, or no folder is writable: each process compiles the loop.
                    if isinstance(error, RuntimeError) and "cannot cache" not in str(error):
                        raise
                self._dispatcher = names[original.__name__] = dispatcher
            return self._dispatcher


def compile_in_background() -> None:
    """Run ``dspectral warm`` at the lowest priority while an interactive session lasts, until it was complete once."""
    if not (hasattr(sys, "ps1") or "ipykernel" in sys.modules) or get_warm_marker().exists():
        return
    text = "dspectral: compiling loops in the background, once after the installation, about a minute"
    print(text, file=sys.stderr)  # noqa: T201
    process = subprocess.Popen(
        [sys.executable, "-m", "dspectral", "warm"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.setpriority(os.PRIO_PROCESS, process.pid, 19)
    atexit.register(process.terminate)


def get_warm_marker() -> Path:
    """Return the file that ``dspectral warm`` writes at its end, named by this installation and Numba's version."""
    key = f"{__file__} {Path(__file__).stat().st_mtime_ns} {version('numba')} {sys.version}"
    folder = os.environ.get("NUMBA_CACHE_DIR") or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/dspectral"
    return Path(folder).expanduser() / f"warm-{zlib.crc32(key.encode()):08x}"


def get_loop_cpu() -> str:
    """Return the processor for which Numba compiles, which decides the last bits of results."""
    name, features = _import_numba().core.registry.cpu_target.target_context.codegen().magic_tuple()[1:]
    return f"{name} {zlib.crc32(features.encode()):08x}"


@cache
def _import_numba() -> Any:
    """Import Numba, which is slow, and call LISTENERS when it compiles a loop of this package."""
    import numba  # noqa: PLC0415
    from numba.core import event  # noqa: PLC0415

    class CompileListener(event.Listener):
        """Passes on the compilations of the outermost loops."""

        starts: ClassVar[list[float]] = []

        def on_start(self, event: Any) -> None:
            self.starts.append(time.perf_counter())
            self.call_listeners(event, None)

        def on_end(self, event: Any) -> None:
            self.call_listeners(event, time.perf_counter() - self.starts[-1])
            self.starts.pop()

        def call_listeners(self, event: Any, seconds: float | None) -> None:
            function = event.data["dispatcher"].py_func
            if len(self.starts) == 1 and function.__module__.startswith(__package__):
                for listener in tuple(LISTENERS):
                    listener(function.__name__, function.__module__, seconds)

    event.register("numba:compile", CompileListener())
    return numba


def _iterate_names(code: CodeType) -> Iterator[str]:
    """Yield the global names in the code of a function and of its inner functions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _iterate_names(constant)
