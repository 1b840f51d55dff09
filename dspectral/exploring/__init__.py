"""A page about any text: its words, topics, classes and documents, found out of core.

:func:`explore` does the steps and :class:`Exploration` is the page. Its public names are imported when they are used.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
