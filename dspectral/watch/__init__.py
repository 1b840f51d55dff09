"""Progress of fits, builds and all else that Dask computes, in a terminal, a notebook or a log."""

from dspectral.watch.display import Progress, progress

__all__ = ["Progress", "progress"]
