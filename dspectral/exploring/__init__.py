"""A page about any text: its words, topics, classes and documents, found out of core by :func:`explore`."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
