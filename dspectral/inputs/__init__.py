"""The doors of the estimators: rows, sequences, labels and parameters, imported when they are asked for."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
