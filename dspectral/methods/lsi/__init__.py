"""Hybrid and local latent semantic indexing, imported lazily, because it needs scikit-learn."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
