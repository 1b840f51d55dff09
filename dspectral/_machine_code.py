"""Numba at work: loops compiled in turn, their machine code kept on disk, and those who listen told."""

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
"""Types for which a loop is compiled."""
WAIT_SECONDS = 120.0
"""How long a process waits for a loop that another one compiles; the longest loop takes a twentieth of it."""


def make_dispatcher(function: Callable[..., Any], *, contract: bool, listeners: list[Listener]) -> Dispatcher:
    """Return what compiles a loop for the types of each call, without the interpreter lock."""
    _COMPILE_LISTENER.listeners = listeners
    loop = numba.njit(nogil=True, fastmath={"contract"} if contract else False, boundscheck=False)(function)
    if hasattr(loop, "enable_caching"):  # else compilation is switched off
        try:
            loop.enable_caching()
        except (RuntimeError, OSError) as error:
            # No folder can be written to, as in a container: each process compiles the loop for itself.
            if isinstance(error, RuntimeError) and "cannot cache" not in str(error):
                raise
    return _compile_in_turn(loop)


def cpu_of_loops() -> str:
    """Return the kind of processor for which Numba compiles, which decides the last bits of what loops compute."""
    name = config.CPU_NAME or llvm.get_host_cpu_name()
    features = config.CPU_FEATURES
    if features is None:  # as Numba does: a named processor has no instructions of this one
        features = "" if config.CPU_NAME else llvm.get_host_cpu_features().flatten()
    return f"{name} {zlib.crc32(features.encode()):08x}"


class _CompileLock:
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


_COMPILE_LOCK = _CompileLock()


def _compile_in_turn(loop: Dispatcher) -> Dispatcher:
    """Let a loop that is not on disk be compiled by one process, for which the others wait."""
    cache: Any = vars(loop).get("_cache")
    if cache is None:  # compilation is switched off
        return loop
    dispatcher: Any = loop
    load, save = cache.load_overload, cache.save_overload
    compile_now, template = dispatcher.compile, dispatcher.get_call_template

    def load_or_wait(signature: Arguments, target: BaseContext) -> Any:
        with suppress(OSError):  # a folder of another user, who keeps others from reading it
            found = load(signature, target)
            if (
                found is None and cache.cache_path is not None
            ):  # without a folder there is nothing to wait for
                _COMPILE_LOCK.wait(Path(cache.cache_path, f"{loop.__module__}.{loop.__name__}.lock"))
                found = load(signature, target)
            return found

    def save_if_possible(signature: Arguments, result: Any) -> None:
        with suppress(
            OSError
        ):  # a full disk, or a folder that became read-only: compiled again in the next process
            save(signature, result)

    def compile_in_turn(signature: Arguments) -> Any:
        with global_compiler_lock, _COMPILE_LOCK:
            return compile_now(signature)

    def get_widened_template(
        types_of_arguments: Sequence[types.Type], keywords: Mapping[str, types.Type]
    ) -> Any:
        return template(tuple(_widen_type(of) for of in types_of_arguments), keywords)

    cache.load_overload, cache.save_overload = load_or_wait, save_if_possible
    dispatcher.compile = compile_in_turn
    dispatcher.get_call_template = get_widened_template
    return loop


def _widen_type(of: types.Type) -> types.Type:
    """Return the type of an argument for the loop that another calls: 64 bits, no literal, lest it compiles anew."""
    plain = unliteral(of)
    return types.int64 if plain in types.signed_domain else plain


class _CompileListener(numba_events.Listener):
    """Tells of loops of this package, of the outermost alone: what it calls is compiled as a part of it."""

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        # Beginnings of the loops that are being compiled, the outermost first: Numba's lock admits one thread.
        self._starts: list[float] = []

    def on_start(self, event: numba_events.Event) -> None:
        """Tell that a loop is not in the cache."""
        self._starts.append(time.perf_counter())
        if len(self._starts) == 1:
            self._notify(event, None)

    def on_end(self, event: numba_events.Event) -> None:
        """Tell how long the loop took, also if it cannot be compiled."""
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
