"""Sparse counts and sentences of token ids in Zarr, and the text that they come from."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
