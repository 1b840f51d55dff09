"""Numerical linear algebra on arrays in memory, independent of blocks, stores and schedulers."""

from dspectral.linalg.blas import blas_in_one_thread
from dspectral.linalg.sparse_products import times, transpose_times

__all__ = ["blas_in_one_thread", "times", "transpose_times"]
