"""Lazy arrays of random blocks, identical under every scheduler, such as rows of independent normal numbers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import DTypeLike

from dspectral.parameters import RandomState, check_integer, resolve_seed
from dspectral.types import FloatArray, Rows


def random_rows(
    draw: Callable[[np.random.Generator, int], Rows],
    shape: tuple[int, int],
    block_rows: int,
    seed: RandomState,
    *,
    meta: Rows,
    name: str,
) -> da.Array:
    """Return a Dask array of a shape (n_rows, n_columns) whose row blocks are drawn by a function."""
    (n_rows, n_columns), seed = shape, resolve_seed(seed, "seed")
    for parameter, value in (("n_rows", n_rows), ("n_columns", n_columns), ("block_rows", block_rows)):
        check_integer(parameter, value, at_least=1)
    sizes = block_sizes(n_rows, block_rows)
    return da.map_blocks(
        # All blocks except the last have one size, so two numbers describe all sizes.
        partial(_draw_block, draw=draw, sizes=(block_rows, sizes[-1]), n_blocks=len(sizes), seed=seed),
        chunks=(tuple(sizes), (n_columns,)),
        dtype=meta.dtype,
        meta=meta,
        token=name,
    )


def block_sizes(n: int, block_size: int) -> list[int]:
    """Return the sizes of blocks of ``n`` items: ``block_size`` each, and the remainder in the last."""
    return [min(block_size, n - start) for start in range(0, n, block_size)]


def block_generator(seed: int, block: int) -> np.random.Generator:
    """Return the random generator of one block: counter-based (Salmon et al. 2011), with independent streams.

    >>> block_generator(0, 3).integers(100, size=3) == block_generator(0, 3).integers(100, size=3)
    array([ True,  True,  True])
    """
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=(block,))))


def _draw_block(
    *,
    draw: Callable[[np.random.Generator, int], Rows],
    sizes: tuple[int, int],
    n_blocks: int,
    seed: int,
    block_id: tuple[int, int],
) -> Rows:
    block = block_id[0]
    return draw(block_generator(seed, block), sizes[block == n_blocks - 1])


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
    meta = np.empty((0, 0), dtype=dtype)
    return random_rows(draw, (n_rows, n_columns), block_rows, seed, meta=meta, name="gaussian-rows")


def _draw_gaussian(generator: np.random.Generator, n_rows: int, *, n_columns: int, dtype: np.dtype[Any]) -> FloatArray:
    return generator.standard_normal((n_rows, n_columns), dtype=dtype)
