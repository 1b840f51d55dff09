"""Labeled documents of any size, drawn block by block: one hidden state each, over a Zipf background."""

from functools import partial
from typing import cast

import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.datasets.counts import count_cells, popularity, zipf_rank
from dspectral.datasets.random_blocks import checked_seed, random_rows
from dspectral.inputs.parameters import RandomState
from dspectral.types import CSRRows


def labelled_counts(
    n_rows: int,
    n_columns: int,
    n_labels: int,
    n_states: int,
    *,
    row_length: float = 70.0,
    labels_each: float = 4.0,
    noise: float = 0.3,
    block_rows: int = 8192,
    seed: RandomState = 0,
) -> tuple[da.Array, da.Array]:
    """Draw documents and their labels from the model of one hidden state a document, with noise.

    State j has the columns and the labels j, j + k, j + 2 k, ... for k states, by Zipf's law; with probability
    ``noise`` a word or label is one of all of them, by Zipf's law too. States are as probable as
    ``1 / sqrt(j + 1)``.

    Parameters
    ----------
    n_rows : int
        Number of documents.
    n_columns : int
        Number of words.
    n_labels : int
        Number of labels.
    n_states : int
        Number of states k, at most the number of columns and of labels.
    row_length : float, default=70.0
        Mean number of words that are drawn for a document, at least 1; its own number is one plus a Poisson number.
    labels_each : float, default=4.0
        Mean number of labels that are drawn for a document, as for words; a label that is drawn twice is one entry.
    noise : float, default=0.3
        Probability in [0, 1] that a word or label does not come from the state.
    block_rows : int, default=8192
        Number of rows of a block. Other blocks give other rows.
    seed : int, RandomState, Generator or None, default=0
        Block i is drawn by a generator keyed by the seed and i; None draws a new seed.

    Returns
    -------
    counts : Dask array of float32, shape (n_rows, n_columns)
        Blocks of ``csr_array``, drawn when they are computed, the same under every scheduler.
    labels : Dask array of float32, shape (n_rows, n_labels)
        Ones where a document has a label, cut into blocks as the counts are.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Examples
    --------
    >>> counts, labels = labelled_counts(1000, 500, 60, 10, block_rows=250)
    >>> counts.numblocks, labels.shape, float(labels.blocks[0].compute().data.max())
    ((4, 1), (1000, 60), 1.0)
    """
    if not 1 <= n_states <= min(n_columns, n_labels):
        raise ValueError(f"n_states is {n_states}, but must be from 1 to {min(n_columns, n_labels)}")
    if not 0 <= noise <= 1:
        raise ValueError(f"noise is {noise}, but is a share, from 0 to 1")
    arrays, seed = [], checked_seed(seed)  # once: words and labels share their states
    for name, width, mean in (("words", n_columns, row_length), ("labels", n_labels, labels_each)):
        if mean < 1:
            raise ValueError(f"a document has {mean} {name} on average, but must have at least 1")
        draw = partial(
            _draw, width=width, n_states=n_states, mean=mean, noise=noise, present=name == "labels"
        )
        arrays.append(
            random_rows(
                draw,
                n_rows=n_rows,
                n_columns=width,
                block_rows=block_rows,
                seed=seed,
                meta=sparse.csr_array(np.empty((0, 0), dtype=np.float32)),
                name=f"labelled-{name}",
            )
        )
    return arrays[0], arrays[1]


def _draw(
    generator: np.random.Generator,
    n_rows: int,
    *,
    width: int,
    n_states: int,
    mean: float,
    noise: float,
    present: bool,
) -> CSRRows:
    states = _states(generator, n_rows, n_states)  # the same for words and labels: both begin with them
    if present:
        # After the states, labels take numbers that the words of the same block never reach.
        generator = np.random.Generator(cast("np.random.Philox", generator.bit_generator).jumped())
    lengths = 1 + generator.poisson(mean - 1, size=n_rows)
    rows = np.repeat(np.arange(n_rows), lengths)
    own = generator.random(len(rows)) >= noise
    uniform = generator.random(len(rows))
    columns = np.empty(len(rows), dtype=np.int64)
    # A column of state j at rank r is j + n_states r, as in low_rank_counts; noise has ranks over all columns.
    columns[own] = states[rows[own]] + n_states * zipf_rank(uniform[own], width // n_states, 1.0)
    columns[~own] = zipf_rank(uniform[~own], width, 1.0)
    drawn = count_cells(rows, columns, (n_rows, width))
    if present:
        drawn.data[:] = 1
    return drawn


def _states(generator: np.random.Generator, n_rows: int, n_states: int) -> NDArray[np.int64]:
    cuts = np.cumsum(popularity(n_states))[:-1]
    return np.searchsorted(cuts, generator.random(n_rows), side="right")
