"""Loops that Numba compiles at their first call.

Numba caches machine code on disk: beside the source, in the user's cache folder if the source folder is read-only, or
in ``NUMBA_CACHE_DIR``. Each machine compiles a loop once. :data:`LISTENERS` are called before and after. A process
that needs a loop while another process compiles it waits for the machine code; plain Numba would compile it twice.
"""

import threading
from collections.abc import Callable, Iterator
from functools import update_wrapper
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast

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
        from dspectral._machine_code import make_dispatcher  # noqa: PLC0415  Numba is imported with it

        with _LOCK:
            if self._dispatcher is None:
                original = self._function
                # Numba looks up names in the function's globals, which must hold dispatchers in place of loops.
                called = {
                    name: loop
                    for name in set(_iterate_names(original.__code__))
                    if isinstance(loop := original.__globals__.get(name), Loop) and loop is not self
                }
                names = original.__globals__ | {name: loop.dispatcher() for name, loop in called.items()}
                code, defaults = original.__code__, original.__defaults__
                function = FunctionType(code, names, original.__name__, defaults, original.__closure__)
                function.__qualname__ = original.__qualname__  # part of the cache key
                self._dispatcher = names[original.__name__] = make_dispatcher(
                    function, contract=self._contract, listeners=LISTENERS
                )
            return self._dispatcher


def _iterate_names(code: CodeType) -> Iterator[str]:
    """Yield the global names in the code of a function and of its inner functions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _iterate_names(constant)
