"""Singular value decomposition and principal components, in passes over row blocks.

``SketchedPCA`` and ``TruncatedSVD`` are imported when they are asked for, with scikit-learn: a worker that only
summarizes blocks need not hold it.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
