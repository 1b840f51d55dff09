"""Generate text-like count matrices: a few topics per row and a Zipf background."""

from functools import partial

import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.datasets.random_blocks import random_rows
from dspectral.parameters import RandomState, check_integer, check_real
from dspectral.types import CSRRows

META: CSRRows = sparse.csr_array(np.empty((0, 0), dtype=np.float32))
"""An empty block of the generated counts."""
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
    check_real("noise", noise, at_least=0, at_most=1)
    check_real("exponent", exponent, at_least=0)
    check_real("row_length", row_length, at_least=1)
    draw = partial(
        _draw_counts,
        n_columns=n_columns,
        n_components=n_components,
        row_length=row_length,
        noise=noise,
        exponent=exponent,
    )
    return random_rows(draw, (n_rows, n_columns), block_rows, seed, meta=META, name="low-rank-counts")


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
    topics = _draw_topics(generator, rows, n_rows, n_components)
    # The word at rank r of topic j is column j + k r, so no table of topics is needed.
    topical = generator.random(len(rows)) >= noise
    uniform = generator.random(len(rows))
    columns = np.empty(len(rows), dtype=np.int64)
    depth = n_columns // n_components
    columns[topical] = topics[topical] + n_components * draw_zipf_ranks(uniform[topical], depth, exponent)
    columns[~topical] = draw_zipf_ranks(uniform[~topical], n_columns, exponent)
    return count_cells(rows, columns, (n_rows, n_columns))


def _draw_topics(
    generator: np.random.Generator, rows: NDArray[np.int64], n_rows: int, n_components: int
) -> NDArray[np.int64]:
    """Draw the topics and mixture weights of every row, then a topic for every word."""
    # Inverse transform sampling uses the same number of draws for any parameters.
    bounds = np.cumsum(topic_popularity(n_components))[:-1]
    topics = np.searchsorted(bounds, generator.random((n_rows, TOPICS_PER_ROW)), side="right")
    weights = generator.exponential(size=(n_rows, TOPICS_PER_ROW))  # scaled to sum 1: uniform on the simplex
    shares = np.cumsum(weights, axis=1) / weights.sum(axis=1, keepdims=True)
    uniform = generator.random(len(rows))
    choice = np.zeros(len(rows), dtype=np.int64)
    for i in range(TOPICS_PER_ROW - 1):
        choice += uniform >= shares[rows, i]
    return topics[rows, choice]


def topic_popularity(n_components: int) -> NDArray[np.float64]:
    """Return the probability of each topic j, proportional to ``1 / sqrt(j + 1)``."""
    weights: NDArray[np.float64] = 1.0 / np.sqrt(np.arange(1.0, n_components + 1))
    weights /= weights.sum()
    return weights


def _zipf(n: int, exponent: float) -> NDArray[np.float64]:
    """Return the probabilities of ranks 0 to n - 1: the density ``x**-exponent`` integrated over unit intervals."""
    edges = np.arange(1.0, n + 2)
    cumulated = np.log(edges) if exponent == 1 else (edges ** (1 - exponent) - 1) / (1 - exponent)
    probabilities: NDArray[np.float64] = np.diff(cumulated) / cumulated[-1]
    return probabilities


def draw_zipf_ranks(uniform: NDArray[np.float64], n: int, exponent: float) -> NDArray[np.int64]:
    """Return ranks distributed as :func:`_zipf` for uniform numbers, by inverse transform sampling."""
    # The inverse distribution function of the density x^-exponent on [1, n + 1] has a closed form.
    if exponent == 1:
        edge: NDArray[np.float64] = np.exp(uniform * np.log(n + 1.0))
    else:
        power = 1.0 - exponent
        edge = (1.0 + uniform * ((n + 1.0) ** power - 1.0)) ** (1.0 / power)
    return np.minimum(edge.astype(np.int64) - 1, n - 1)  # rounding may reach the last edge


def count_cells(rows: NDArray[np.int64], columns: NDArray[np.int64], shape: tuple[int, int]) -> CSRRows:
    """Return the number of draws of each cell, as CSR with sorted columns."""
    n_rows, n_columns = shape
    # Sorting the cells as integers, row * n_columns + column, puts them in CSR order with duplicates adjacent.
    cells = rows * n_columns + columns
    cells.sort()
    first = np.flatnonzero(np.concatenate([[True], cells[1:] != cells[:-1]]))
    counts = np.diff(first, append=len(cells)).astype(np.float32)
    cells = cells[first]
    in_rows = cells // n_columns
    indices = (cells - in_rows * n_columns).astype(np.int32)
    indptr = np.searchsorted(in_rows, np.arange(n_rows + 1)).astype(np.int32)
    return sparse.csr_array((counts, indices, indptr), shape=shape)
