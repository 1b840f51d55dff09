"""Passes over row blocks: build task graphs, run them and merge the summaries.

:func:`summarize` maps a function over row blocks and merges the summaries in a tree. The shape of the tree depends only
on the number of blocks and on ``fan_in``, merges keep the order of the blocks, and BLAS runs in one thread. The same
blocks therefore give the same bits on every scheduler. Names are imported lazily, because Dask is slow to import.
"""

from lazy_loader import attach_stub

from dspectral._compiled import LISTENERS, compile_in_background
from dspectral.engine.around.callbacks import log_compilation

LISTENERS.append(log_compilation)
compile_in_background()

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
