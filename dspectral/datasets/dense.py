"""Generate dense rows of independent normal numbers."""

from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import DTypeLike

from dspectral.datasets.random_blocks import check_seed, random_rows
from dspectral.inputs.parameters import RandomState
from dspectral.types import FloatArray


def gaussian_rows(
    n_rows: int,
    n_columns: int,
    *,
    block_rows: int = 4096,
    dtype: DTypeLike = np.float64,
    seed: RandomState = 0,
) -> da.Array:
    """Draw independent standard normal numbers, whose flat spectrum is the hardest case for a sketch.

    Parameters
    ----------
    n_rows, n_columns : int
        Shape of the array.
    block_rows : int, default=4096
        Number of rows per block; the rows depend on it.
    dtype : dtype, default=float64
        Type of the numbers, float32 or float64.
    seed : int, RandomState, Generator or None, default=0
        Seed, combined with the block number for each block; None draws a new one.

    Returns
    -------
    Dask array, shape (n_rows, n_columns)
        Lazy blocks, identical under every scheduler.

    Examples
    --------
    >>> gaussian_rows(10, 3, block_rows=4).chunks
    ((4, 4, 2), (3,))
    """
    draw = partial(_draw_gaussian, n_columns=n_columns, dtype=np.dtype(dtype))
    return random_rows(
        draw,
        n_rows=n_rows,
        n_columns=n_columns,
        block_rows=block_rows,
        seed=check_seed(seed),
        meta=np.empty((0, 0), dtype=dtype),
        name="gaussian-rows",
    )


def _draw_gaussian(
    generator: np.random.Generator, n_rows: int, *, n_columns: int, dtype: np.dtype[Any]
) -> FloatArray:
    return generator.standard_normal((n_rows, n_columns), dtype=dtype)
