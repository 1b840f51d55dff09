"""Singular value decomposition and principal components; estimators are imported when asked for, with scikit-learn."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
