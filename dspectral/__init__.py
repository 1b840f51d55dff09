"""Spectral learning on text that does not fit in memory.

Each block of rows gives a small summary, summaries are merged in a tree, and a solver computes the parameters
from the last one.

The public names are in ``__init__.pyi`` and are imported lazily: a worker that only summarizes blocks does not
import scikit-learn, which takes over 100 MB.
"""

from lazy_loader import attach_stub

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
