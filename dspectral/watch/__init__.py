"""Progress of fits, builds and other passes, in a terminal, a notebook or a log."""

from dspectral.watch.display import Progress, progress

__all__ = ["Progress", "progress"]
