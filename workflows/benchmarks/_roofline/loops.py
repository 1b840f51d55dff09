"""What a hot loop is: a kernel on a block of its own, how much it moves or computes, and what bounds it."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple


class Run(NamedTuple):
    """One run of a kernel, or of a limit.

    Attributes
    ----------
    call : callable
        The run, without arguments: it reads only arrays of its own.
    amount : float
        Bytes moved or floating-point operations done by it.
    """

    call: Callable[[], object]
    amount: float


class Share(NamedTuple):
    """Where the time of a loop is found in the profile of a fit.

    Attributes
    ----------
    fit : str
        Name of the fit.
    inside : tuple of str
        Functions, each ``"end of its file:name"``, whose time, with all that they call, is the loop's.
    without : tuple of str
        Functions called by those, whose time is another loop's.
    """

    fit: str
    inside: tuple[str, ...]
    without: tuple[str, ...] = ()


class Loop(NamedTuple):
    """A hot loop.

    Attributes
    ----------
    name : str
        In a few words.
    unit : {"byte", "flop"}
        What is counted.
    formula : str
        The count, with where it comes from.
    limit : str
        What bounds it on any machine.
    make : callable
        ``make(size, seed)`` returns the run of the loop and that of its limit, on a block of about ``size`` rows of
        counts or ``16 size`` tokens.
    shares : tuple of Share
        Fits whose profile has the loop.
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
