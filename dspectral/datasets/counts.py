"""Generate text-like count matrices: a few topics per row and a Zipf background."""

from collections.abc import Callable
from functools import partial

import dask.array as da
import numpy as np
from scipy import sparse

from dspectral.parameters import RandomState, check_integer, check_real, resolve_seed
from dspectral.types import CSRRows, Doubles, Int64s

TOPICS_PER_ROW = 3
"""Number of topics per row."""


def low_rank_counts(
    n_rows: int,
    n_columns: int,
    n_components: int,
    *,
    row_length: float = 100.0,
    noise: float = 0.3,
    exponent: float = 1.0,
    block_rows: int = 8192,
    seed: RandomState = 0,
) -> da.Array:
    """Draw a sparse count matrix of low rank plus noise, with Zipf-distributed columns.

    Each row mixes three topics with random weights. Each of its words comes from the background with probability
    ``noise``, else from one of its topics. The expected rows span ``n_components`` dimensions, plus one with noise.

    Parameters
    ----------
    n_rows, n_columns : int
        Shape of the matrix.
    n_components : int
        Number of topics, at most ``n_columns``.
    row_length : float, default=100.0
        Mean number of words per row, at least 1; distributed as one plus a Poisson number.
    noise : float, default=0.3
        Proportion of words from the background, in [0, 1].
    exponent : float, default=1.0
        Exponent of Zipf's law, in the background and within each topic; 0 for equal frequencies.
    block_rows : int, default=8192
        Number of rows per block; the rows depend on it.
    seed : int, RandomState, Generator or None, default=0
        Seed, combined with the block number for each block; None draws a new one.

    Returns
    -------
    Dask array of float32, shape (n_rows, n_columns)
        Lazy blocks of ``csr_array`` with sorted columns, identical under every scheduler.

    Examples
    --------
    >>> X = low_rank_counts(1000, 500, 10, row_length=20, block_rows=250, seed=1)
    >>> X.numblocks, X.dtype, X.blocks[0].compute().shape
    ((4, 1), dtype('float32'), (250, 500))
    """
    check_integer("n_components", n_components, at_least=1, at_most=n_columns)
    check_law(noise=noise, row_length=row_length, exponent=exponent)
    draw = partial(
        _draw_counts,
        n_columns=n_columns,
        n_components=n_components,
        row_length=row_length,
        noise=noise,
        exponent=exponent,
    )
    return random_counts(draw, (n_rows, n_columns), block_rows, seed, name="low-rank-counts")


def check_law(*, noise: float, exponent: float = 1.0, **lengths: float) -> None:
    """Raise a ValueError for a parameter of a distribution that is out of range."""
    check_real("noise", noise, at_least=0, at_most=1)
    check_real("exponent", exponent, at_least=0)
    for name, value in lengths.items():
        check_real(name, value, at_least=1)


def _draw_counts(
    generator: np.random.Generator,
    n_rows: int,
    *,
    n_columns: int,
    n_components: int,
    row_length: float,
    noise: float,
    exponent: float,
) -> CSRRows:
    # All random numbers are drawn as arrays in a fixed order. Cost: O(words) numbers, and the sort of the cells.
    lengths = 1 + generator.poisson(row_length - 1, size=n_rows)
    rows = np.repeat(np.arange(n_rows), lengths)
    topics = draw_topics(generator, (n_rows, TOPICS_PER_ROW), n_components)
    weights = generator.exponential(size=topics.shape)  # scaled to sum 1: uniform on the simplex
    bounds = np.cumsum(weights, axis=1) / weights.sum(axis=1, keepdims=True)
    choice = (generator.random(len(rows))[:, None] >= bounds[rows, :-1]).sum(axis=1)
    return count_words(generator, rows, topics[rows, choice], n_components, (n_rows, n_columns), noise, exponent)


def random_counts(
    draw: Callable[[np.random.Generator, int], CSRRows],
    shape: tuple[int, int],
    block_rows: int,
    seed: RandomState,
    *,
    name: str,
) -> da.Array:
    """Return a Dask array of a shape (n_rows, n_columns) whose row blocks are drawn by a function."""
    (n_rows, n_columns), seed = shape, resolve_seed(seed, "seed")
    for parameter, value in (("n_rows", n_rows), ("n_columns", n_columns), ("block_rows", block_rows)):
        check_integer(parameter, value, at_least=1)
    return da.map_blocks(
        partial(_draw_block, draw=draw, n_rows=n_rows, block_rows=block_rows, seed=seed),
        chunks=((*[block_rows] * ((n_rows - 1) // block_rows), (n_rows - 1) % block_rows + 1), (n_columns,)),
        dtype=np.float32,
        meta=sparse.csr_array((0, 0), dtype=np.float32),
        token=name,
    )


def _draw_block(
    *,
    draw: Callable[[np.random.Generator, int], CSRRows],
    n_rows: int,
    block_rows: int,
    seed: int,
    block_id: tuple[int, int],
) -> CSRRows:
    block = block_id[0]
    return draw(block_generator(seed, block), min(block_rows, n_rows - block * block_rows))


def block_generator(seed: int, block: int) -> np.random.Generator:
    """Return the random generator of one block: counter-based (Salmon et al. 2011), with independent streams.

    >>> block_generator(0, 3).integers(100, size=3) == block_generator(0, 3).integers(100, size=3)
    array([ True,  True,  True])
    """
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=(block,))))


def draw_topics(generator: np.random.Generator, size: int | tuple[int, int], n_topics: int) -> Int64s:
    """Draw topics, where topic j has a probability proportional to ``1 / sqrt(j + 1)``."""
    # Inverse transform sampling uses the same number of draws for any parameters.
    weights = 1.0 / np.sqrt(np.arange(1.0, n_topics + 1))
    bounds = np.cumsum(weights / weights.sum())[:-1]
    return np.searchsorted(bounds, generator.random(size), side="right")


def count_words(
    generator: np.random.Generator,
    rows: Int64s,
    topics: Int64s,
    n_topics: int,
    shape: tuple[int, int],
    noise: float,
    exponent: float,
) -> CSRRows:
    """Draw a column for each word, given its row and topic, and return the counts as CSR with sorted columns."""
    n_rows, n_columns = shape
    # The word at rank r of topic j is column j + n_topics r, so no table of topics is needed; noise has ranks over all.
    topical = generator.random(len(rows)) >= noise
    uniform = generator.random(len(rows))
    columns = np.empty(len(rows), dtype=np.int64)
    ranks = draw_zipf_ranks(uniform[topical], n_columns // n_topics, exponent)
    columns[topical] = topics[topical] + n_topics * ranks
    columns[~topical] = draw_zipf_ranks(uniform[~topical], n_columns, exponent)
    # Cells as integers, row * n_columns + column, are sorted in CSR order.
    cells, counts = np.unique(rows * n_columns + columns, return_counts=True)
    indptr = np.searchsorted(cells, n_columns * np.arange(n_rows + 1)).astype(np.int32)
    indices = (cells % n_columns).astype(np.int32)
    return sparse.csr_array((counts.astype(np.float32), indices, indptr), shape=shape)


def draw_zipf_ranks(uniform: Doubles, n: int, exponent: float) -> Int64s:
    """Return ranks 0 to n - 1 for uniform numbers: the density ``x**-exponent`` integrated over unit intervals."""
    # The inverse distribution function of the density x^-exponent on [1, n + 1] has a closed form.
    if exponent == 1:
        edge: Doubles = np.exp(uniform * np.log(n + 1.0))
    else:
        power = 1.0 - exponent
        edge = (1.0 + uniform * ((n + 1.0) ** power - 1.0)) ** (1.0 / power)
    return np.minimum(edge.astype(np.int64) - 1, n - 1)  # rounding may reach the last edge
