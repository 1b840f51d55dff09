"""Numerical linear algebra on arrays in memory; nothing here knows of blocks, stores or schedulers."""

from dspectral.linalg.blas import blas_in_one_thread
from dspectral.linalg.sparse_products import times, transpose_times

__all__ = ["blas_in_one_thread", "times", "transpose_times"]
