"""Lazy arrays of random blocks, identical under every scheduler."""

from collections.abc import Callable
from functools import partial
from numbers import Integral

import dask.array as da
import numpy as np

from dspectral.inputs.parameters import RandomState, check_integer, resolve_seed
from dspectral.types import Rows


def random_rows(
    draw: Callable[[np.random.Generator, int], Rows],
    *,
    n_rows: int,
    n_columns: int,
    block_rows: int,
    seed: int,
    meta: Rows,
    name: str,
) -> da.Array:
    """Return a Dask array (n_rows, n_columns) whose row blocks are drawn by a function."""
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


def check_seed(seed: RandomState) -> int:
    """Return an integer seed for a seed of any type."""
    if isinstance(seed, Integral):
        return check_integer("seed", seed, at_least=0)
    return resolve_seed(seed)


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
