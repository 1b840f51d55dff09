"""Blocks to summaries to one summary: the only place that builds task graphs.

:func:`summarize` maps a function over row blocks and merges what comes back up a tree whose shape depends on the number
of blocks and on ``fan_in`` alone, in block order and with BLAS in one thread: whatever runs the graph, the same blocks
give the same bits. Names are imported when they are asked for, as Dask takes long to import.
"""

from lazy_loader import attach_stub

from dspectral._compiled import LISTENERS
from dspectral.engine.around.events import emit_compilation

LISTENERS.append(emit_compilation)

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
