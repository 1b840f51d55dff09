"""Spectral learning on text that does not fit in memory.

A block of rows leaves a small summary; summaries merge up a tree; a solver turns the last one into
parameters.

The public names are in ``__init__.pyi``. Each is imported when it is first used: a worker that only sketches
blocks need not hold scikit-learn, over 100 MB.
"""

from lazy_loader import attach_stub

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
