"""Numerical linear algebra on arrays in memory; nothing here knows of blocks, stores or schedulers."""

from dspectral.linalg import sparse_products

__all__ = ["sparse_products"]
