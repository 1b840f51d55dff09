"""Numerical linear algebra on arrays in memory; nothing here knows of blocks, stores or schedulers."""

from dspectral.linalg.sparse_products import times, transpose_times

__all__ = ["times", "transpose_times"]
