"""Progress that people see: of fits, builds and all else that Dask computes.

:func:`progress` shows it in a terminal, in a notebook, or as lines in a log; nothing is shown unless it is asked for.
"""

from dspectral.watch.display import Progress, progress

__all__ = ["Progress", "progress"]
