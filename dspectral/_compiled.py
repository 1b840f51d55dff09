"""Loops that Numba compiles at their first call, and the form in which arrays are passed to them.

Machine code is kept on disk, beside the source or, where that cannot be written to, as in an installation that belongs
to somebody else, in the user's cache folder; ``NUMBA_CACHE_DIR`` names another one. A loop is compiled once on a
machine, at its first call, and :data:`LISTENERS` are told. A process that needs a loop which another one is compiling
waits for its machine code: Numba itself would let both compile.
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
"""Called with the name of a loop, its module, and None before it is compiled or the seconds that it took afterwards."""
_LOCK = threading.RLock()


def compiled(function: F) -> F:
    """Compile a loop at its first call, without the interpreter lock, and keep the machine code on disk."""
    return cast("F", Loop(cast("FunctionType", function), contract=False))


def compiled_with_contraction(function: F) -> F:
    """Compile a loop as :func:`compiled` does, with products and sums contracted into one rounded operation."""
    return cast("F", Loop(cast("FunctionType", function), contract=True))


def read_only(array: NDArray[N]) -> NDArray[N]:
    """Return a contiguous read-only view, so that a loop is compiled once for all callers."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


class Loop:
    """A function that becomes Numba's at its first call: until then Numba is not imported."""

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
        """Pickle the loop by its name, as a function is pickled."""
        return self.__qualname__

    def dispatcher(self) -> Callable[..., Any]:
        """Return Numba's dispatcher of the loop, made at the first call."""
        from dspectral._machine_code import make_dispatcher  # noqa: PLC0415  Numba is imported with it

        with _LOCK:
            if self._dispatcher is None:
                original = self._function
                # Numba looks up names in the function's globals, where it must find dispatchers in the place of loops.
                called = {
                    name: found
                    for name in set(_iterate_names(original.__code__))
                    if isinstance(found := original.__globals__.get(name), Loop) and found is not self
                }
                names = original.__globals__ | {name: loop.dispatcher() for name, loop in called.items()}
                code, defaults = original.__code__, original.__defaults__
                function = FunctionType(code, names, original.__name__, defaults, original.__closure__)
                function.__qualname__ = original.__qualname__  # under which the machine code is kept
                self._dispatcher = names[original.__name__] = make_dispatcher(
                    function, contract=self._contract, listeners=LISTENERS
                )
            return self._dispatcher


def _iterate_names(code: CodeType) -> Iterator[str]:
    """Yield the global names in a function's code, and in that of functions within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _iterate_names(constant)
