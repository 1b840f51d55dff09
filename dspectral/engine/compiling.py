"""Loops that are compiled become events, wherever in a process or a cluster that happens."""

from dspectral.engine.events import Compiled, Compiling
from dspectral.engine.telling import tell_everybody, tell_from_worker


def announce(loop: str, module: str, seconds: float | None) -> None:
    """Tell that a loop is compiled, or was."""
    event = Compiling(loop, module) if seconds is None else Compiled(loop, module, seconds)
    # A task of a thread knows nothing of the thread that waits for it, so whoever listens is told.
    tell_everybody(event)
    tell_from_worker(event)
