"""Numba dispatchers with a disk cache, one lock per loop, and compilation events."""

import time
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import llvmlite.binding as llvm
import numba
from filelock import FileLock, Timeout
from numba.core import config, types
from numba.core import event as numba_events
from numba.core.base import BaseContext
from numba.core.compiler_lock import global_compiler_lock
from numba.core.types.misc import unliteral
from numba.core.typing import Signature

Listener = Callable[[str, str, float | None], object]
Dispatcher = Callable[..., Any]
Arguments: TypeAlias = Signature | tuple[types.Type, ...]
"""Argument types for which a loop is compiled."""
WAIT_SECONDS = 120.0
"""Maximum seconds to wait for another process that compiles a loop; the longest loop takes about 6 s."""


def make_dispatcher(function: Callable[..., Any], *, contract: bool, listeners: list[Listener]) -> Dispatcher:
    """Return a Numba dispatcher, which compiles a loop for the types of each call and runs it without the GIL."""
    _COMPILE_LISTENER.listeners = listeners
    options = {"nogil": True, "boundscheck": False, "no_cfunc_wrapper": True}  # nothing calls loops from C
    loop = numba.njit(**options, fastmath={"contract"} if contract else False)(function)
    if hasattr(loop, "enable_caching"):  # absent if NUMBA_DISABLE_JIT is set
        try:
            loop.enable_caching()
        except (RuntimeError, OSError) as error:
            # No folder is writable, as in some containers: each process compiles the loop.
            if isinstance(error, RuntimeError) and "cannot cache" not in str(error):
                raise
    return _compile_in_turn(loop)


def get_loop_cpu() -> str:
    """Return the processor for which Numba compiles, which decides the last bits of results."""
    name = config.CPU_NAME or llvm.get_host_cpu_name()
    features = config.CPU_FEATURES
    if features is None:  # as in Numba: features of this processor do not apply to a named one
        features = "" if config.CPU_NAME else llvm.get_host_cpu_features().flatten()
    return f"{name} {zlib.crc32(features.encode()):08x}"


class _CompileLock:
    """A lock between processes for compiling a loop and the loops that it calls. Numba's own lock covers threads."""

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
        """Wait until no other process compiles the outermost loop. The lock of a process ends with the process."""
        if self.has_waited:
            return
        self.has_waited = True
        lock = FileLock(path)
        try:
            lock.acquire(timeout=WAIT_SECONDS)
        except (Timeout, OSError, NotImplementedError) as error:
            warnings.warn(f"a loop is compiled without a lock, perhaps by several processes ({error})", stacklevel=2)
        else:
            self.lock = lock


_COMPILE_LOCK = _CompileLock()


def _compile_in_turn(loop: Dispatcher) -> Dispatcher:
    """Compile a loop that is not in the disk cache in one process, while other processes wait."""
    cache: Any = vars(loop).get("_cache")
    if cache is None:  # NUMBA_DISABLE_JIT is set
        return loop
    dispatcher: Any = loop
    load, save = cache.load_overload, cache.save_overload
    compile_now, template = dispatcher.compile, dispatcher.get_call_template

    def load_or_wait(signature: Arguments, target: BaseContext) -> Any:
        with suppress(OSError):  # a folder without read permission
            try:
                result = load(signature, target)
            except (AttributeError, ImportError):  # the index names a type of an older version
                Path(cache._cache_file._index_path).unlink(missing_ok=True)  # noqa: SLF001
                result = None
            if result is None and cache.cache_path is not None:  # without a folder there is nothing to wait for
                _COMPILE_LOCK.wait(Path(cache.cache_path, f"{loop.__module__}.{loop.__name__}.lock"))
                result = load(signature, target)
            return result

    def save_if_possible(signature: Arguments, result: object) -> None:
        with suppress(OSError):  # a full disk or a read-only folder: the next process compiles the loop again
            save(signature, result)

    def compile_in_turn(signature: Arguments) -> Any:
        with global_compiler_lock, _COMPILE_LOCK:
            return compile_now(signature)

    def get_widened_template(argument_types: Sequence[types.Type], keywords: Mapping[str, types.Type]) -> Any:
        # 64 bits and no literal, so that calls between loops compile nothing again
        plain = map(unliteral, argument_types)
        return template(tuple(types.int64 if kind in types.signed_domain else kind for kind in plain), keywords)

    cache.load_overload, cache.save_overload = load_or_wait, save_if_possible
    dispatcher.compile = compile_in_turn
    dispatcher.get_call_template = get_widened_template
    return loop


class _CompileListener(numba_events.Listener):
    """Calls the listeners for loops of this package. Loops that are compiled inside another one are skipped."""

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        # Start times of the loops that are being compiled, the outermost first.
        self._starts: list[float] = []

    def on_start(self, event: numba_events.Event) -> None:
        """Report that a loop is not in the cache."""
        self._starts.append(time.perf_counter())
        if len(self._starts) == 1:
            self._notify(event, None)

    def on_end(self, event: numba_events.Event) -> None:
        """Report the compilation time of a loop, also after an error."""
        start = self._starts.pop()
        if not self._starts:
            self._notify(event, time.perf_counter() - start)

    def _notify(self, event: numba_events.Event, seconds: float | None) -> None:
        function = event.data["dispatcher"].py_func
        if function.__module__.startswith(__package__):
            for listener in tuple(self.listeners):
                listener(function.__name__, function.__module__, seconds)


_COMPILE_LISTENER = _CompileListener()
numba_events.register("numba:compile", _COMPILE_LISTENER)
