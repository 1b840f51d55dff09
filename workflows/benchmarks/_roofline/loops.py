"""What a hot loop is: a kernel on a block of its own, how much it moves or computes, and what bounds it."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple


class Run(NamedTuple):
    """One run of a kernel, or of a limit.

    `call`: the run, without arguments; `amount`: bytes moved or floating-point operations done by it.
    """

    call: Callable[[], object]
    amount: float


class Share(NamedTuple):
    """Where the time of a loop is found in the profile of a fit.

    `fit`: name of the fit; `inside`: functions, each ``"end of its file:name"``, whose time, with all that
    they call, is the loop's; `without`: functions called by those, whose time is another loop's.
    """

    fit: str
    inside: tuple[str, ...]
    without: tuple[str, ...] = ()


class Loop(NamedTuple):
    """A hot loop.

    `name`: in a few words; `unit`: what is counted; `formula`: the count, with where it comes from; `limit`:
    what bounds it on any machine; `make`: ``make(size, seed)`` returns the run of the loop and that of its
    limit, on a block of about ``size`` rows of counts or ``16 size`` tokens; `shares`: fits whose profile has
    the loop.
    """

    name: str
    unit: str
    formula: str
    limit: str
    make: Callable[[int, int], tuple[Run, Run]]
    shares: tuple[Share, ...] = ()


def kernel(name: str) -> Any:
    """Return a kernel of dspectral, ``"linalg.panels:row_gram"`` for instance.

    Kernels are no public names, and no program may import them. A benchmark of kernels looks them up by name, as a
    profile does: whoever renames one finds the benchmark's test red.
    """
    module, _, path = name.partition(":")
    found: Any = import_module(f"dspectral.{module}")
    for part in path.split("."):
        found = getattr(found, part)
    return found
