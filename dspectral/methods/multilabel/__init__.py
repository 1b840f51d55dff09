"""Many labels by the method of moments.

Names are imported when they are asked for: a worker that summarizes blocks need not hold scikit-learn.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
