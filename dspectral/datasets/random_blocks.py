"""Lazy arrays whose blocks are drawn at random, the same under every scheduler."""

from collections.abc import Callable
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from dspectral.types import Rows


def random_rows(
    draw: Callable[[np.random.Generator, int], Rows],
    *,
    n_rows: int,
    n_columns: int,
    block_rows: int,
    seed: int,
    meta: Any,
    name: str,
) -> da.Array:
    """Return a Dask array whose row blocks a function draws.

    Parameters
    ----------
    draw : callable
        ``draw(generator, n)`` returns ``n`` rows.
    n_rows, n_columns : int
        Shape of the array.
    block_rows : int
        Rows of a block; the last one has what is left.
    seed : int
        Block i is drawn by a generator keyed by ``(seed, i)``, so it depends on no other block.
    meta : array
        An empty block.
    name : str
        Of the tasks.

    Returns
    -------
    Dask array, shape (n_rows, n_columns)
        Nothing is drawn before it is computed.

    Raises
    ------
    ValueError
        If a size is below 1, or the seed below 0.
    """
    for label, value, least in (
        ("n_rows", n_rows, 1),
        ("n_columns", n_columns, 1),
        ("block_rows", block_rows, 1),
        ("seed", seed, 0),
    ):
        if value < least:
            raise ValueError(f"{label} is {value}, but must be at least {least}")
    sizes = [block_rows] * (n_rows // block_rows)
    if n_rows % block_rows:
        sizes.append(n_rows % block_rows)
    return da.map_blocks(
        partial(_draw_block, draw=draw, sizes=(block_rows, sizes[-1]), n_blocks=len(sizes), seed=seed),
        chunks=(tuple(sizes), (n_columns,)),
        dtype=meta.dtype,
        meta=meta,
        token=name,
    )


def block_generator(seed: int, block: int) -> np.random.Generator:
    """Return the generator of one block: a counter-based one (Salmon et al. 2011), so streams never meet.

    Examples
    --------
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
