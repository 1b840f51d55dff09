"""Blocks to summaries to one summary: the only place that builds task graphs.

:func:`summarize` maps a function over row blocks and merges what comes back up a tree whose shape depends on
the number of blocks and on ``fan_in`` alone. Whatever runs the graph (nothing but this thread, threads,
processes, or the ``dask.distributed`` client in force), the same blocks give the same bits: merges happen in
block order, and BLAS has one thread inside a task.

Each name is imported when it is asked for: passes need Dask, which takes long to import, and an estimator that is only
built does not. Its module therefore imports this package, and asks for ``engine.summarize`` inside ``fit``.
"""

from lazy_loader import attach_stub

from dspectral._compiled import LISTENERS
from dspectral.engine.events import emit_compiling

LISTENERS.append(emit_compiling)

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
