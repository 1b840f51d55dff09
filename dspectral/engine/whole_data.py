"""A fit of a few blocks must know a little of the whole, so that it goes the way that the whole will go."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from tempfile import TemporaryDirectory

from dspectral.engine.configuration import memory_limit

_SHARE: ContextVar[float] = ContextVar("share", default=1.0)
_SCRATCH: ContextVar[str | None] = ContextVar("scratch", default=None)


def fits_in_memory(n_bytes: float) -> bool:
    """Return whether one method may hold in memory what grows with the rows.

    >>> fits_in_memory(1 << 20)
    True
    >>> with seeing(1e-6):
    ...     fits_in_memory(1 << 20)
    False
    """
    return n_bytes <= memory_limit() * _SHARE.get()


def scratch_of_probe() -> str | None:
    """Return the folder for what a fit would write beside its data, if this is a probe of a plan.

    >>> scratch_of_probe() is None
    True
    """
    return _SCRATCH.get()


@contextmanager
def seeing(share: float) -> Iterator[None]:
    """Say within the body of a ``with`` that fits see only a share of the data, and leave nothing beside it."""
    with TemporaryDirectory(prefix="dspectral-plan-") as folder:
        tokens = _SHARE.set(share), _SCRATCH.set(folder)
        try:
            yield
        finally:
            _SHARE.reset(tokens[0])
            _SCRATCH.reset(tokens[1])
