"""How long each pass of a fit takes, for whoever asks."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class PassTime(NamedTuple):
    """Wall time of one pass over blocks.

    `name`: name of the pass, as its task group has it; `seconds`: wall time from the graph to the merged
    summary.
    """

    name: str
    seconds: float


# A context variable, so that a fit in another thread does not write into the list of this one.
_ASKED: ContextVar[list[PassTime] | None] = ContextVar("passes", default=None)


@contextmanager
def timed_passes() -> Iterator[list[PassTime]]:
    """Collect the wall time of every pass that begins in this thread inside the context.

    >>> import numpy as np
    >>> from dspectral.decomposition import Moments
    >>> from dspectral.engine import summarize
    >>> with timed_passes() as passes:
    ...     summary = summarize(np.eye(2), of=Moments.of, name="moments")
    >>> [one.name for one in passes]
    ['moments']
    """
    passes: list[PassTime] = []
    token = _ASKED.set(passes)
    try:
        yield passes
    finally:
        _ASKED.reset(token)


@contextmanager
def note_pass(name: str) -> Iterator[None]:
    """Add the time that the context takes to the passes of whoever asked."""
    start = time.perf_counter()
    yield
    # Not in a `finally`: a pass that has raised an error is no finished one.
    asked = _ASKED.get()
    if asked is not None:
        asked.append(PassTime(name, time.perf_counter() - start))
