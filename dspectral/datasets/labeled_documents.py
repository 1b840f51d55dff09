"""Generate labeled documents from a model with one hidden state per document, in memory or lazily."""

from functools import partial
from typing import NamedTuple, cast

import dask.array as da
import numpy as np
from scipy import sparse

from dspectral.datasets.counts import block_generator, check_law, count_words, draw_topics, random_counts
from dspectral.parameters import RandomState, check_integer, check_real, resolve_seed
from dspectral.types import CSRRows, Doubles, Int64s


class StateParameters(NamedTuple):
    """Weights (k,) of states, and distributions of words (d, k) and labels (L, k)."""

    weights: Doubles
    words: Doubles
    labels: Doubles


def state_parameters(
    n_words: int, n_labels: int, n_states: int, *, concentration: float = 0.1, seed: RandomState = 0
) -> StateParameters:
    """Draw parameters: Dirichlet columns, and weights uniform in [1, 2] before normalization.

    Parameters
    ----------
    n_words : int
        Number of words, d.
    n_labels : int
        Number of labels, L.
    n_states : int
        Number of states k, at most the number of words.
    concentration : float, default=0.1
        Parameter of the Dirichlet distributions; smaller values give fewer words and labels per state.
    seed : int, RandomState, Generator or None, default=0
        Seed of the draw; None draws a new one.

    Returns
    -------
    StateParameters
        Weights, and distributions of words and labels.
    """
    check_integer("n_states", n_states, at_least=1, at_most=n_words)
    check_integer("n_labels", n_labels, at_least=1)
    check_real("concentration", concentration, at_least=np.finfo(np.float64).tiny)
    generator = np.random.default_rng(resolve_seed(seed, "seed"))
    weights = generator.uniform(1.0, 2.0, n_states)
    words, labels = (generator.gamma(concentration, size=(size, n_states)) for size in (n_words, n_labels))
    # Gamma numbers of small shape may underflow to 0, and a column of zeros cannot be normalized.
    words, labels = words + 1e-300, labels + 1e-300
    return StateParameters(weights / weights.sum(), words / words.sum(axis=0), labels / labels.sum(axis=0))


def sample_labeled_documents(
    n_documents: int,
    *,
    n_words: int = 1000,
    n_labels: int = 100,
    n_states: int = 10,
    length: float = 40.0,
    n_labels_each: float = 2.0,
    parameters: StateParameters | None = None,
    seed: RandomState = 0,
) -> tuple[CSRRows, CSRRows, StateParameters]:
    """Draw a state for each document, then its words and labels from the state.

    Labels are independent, with probability ``n_labels_each`` times that of the state, at most 1.

    Parameters
    ----------
    n_documents : int
        Number of documents.
    n_words : int, default=1000
        Number of words; ignored if ``parameters`` is given.
    n_labels : int, default=100
        Number of labels; ignored if ``parameters`` is given.
    n_states : int, default=10
        Number of states; ignored if ``parameters`` is given.
    length : float, default=40.0
        Mean number of words per document, Poisson distributed.
    n_labels_each : float, default=2.0
        Mean number of labels per document.
    parameters : StateParameters, optional
        Distributions; by default :func:`state_parameters` with the same seed.
    seed : int, RandomState, Generator or None, default=0
        Seed of the draw; None draws a new one.

    Returns
    -------
    words : csr_array of float32, shape (n_documents, n_words)
        Word counts.
    labels : csr_array of float32, shape (n_documents, n_labels)
        Indicator matrix.
    parameters : StateParameters
        True distributions.

    Examples
    --------
    >>> words, labels, parameters = sample_labeled_documents(100, seed=1)
    >>> words.shape, labels.shape, parameters.weights.shape
    ((100, 1000), (100, 100), (10,))
    """
    seed = resolve_seed(seed, "seed")  # once, since parameters and documents share the seed
    if parameters is None:
        parameters = state_parameters(n_words, n_labels, n_states, seed=seed)
    generator = block_generator(seed, 0)
    states = generator.choice(len(parameters.weights), size=n_documents, p=parameters.weights)
    words = _draw_columns(generator, length * parameters.words, states)
    # A Poisson number of this rate is positive with the requested probability.
    labels = _draw_columns(generator, -np.log1p(-np.minimum(n_labels_each * parameters.labels, 1.0 - 1e-9)), states)
    labels.data[:] = 1
    return words, labels, parameters


def _draw_columns(generator: np.random.Generator, rates: Doubles, states: Int64s) -> CSRRows:
    """Draw a Poisson number for each column, with the rates (d, k) of each document's state."""
    lengths = generator.poisson(rates.sum(axis=0)[states])
    rows = np.repeat(np.arange(len(states)), lengths)
    entry_states = states[rows]
    uniform = generator.random(len(rows))
    columns = np.empty(len(rows), dtype=np.int64)
    for state in range(rates.shape[1]):  # all entries of a state, by inverse transform sampling
        is_state = entry_states == state
        bounds = np.cumsum(rates[:, state])
        columns[is_state] = np.searchsorted(bounds, uniform[is_state] * bounds[-1], side="right")
    # The minimum handles rounding at the last sum.
    columns = np.minimum(columns, len(rates) - 1)
    shape = (len(states), len(rates))
    # The conversion sums duplicates.
    return sparse.coo_array((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=shape).tocsr()


def labeled_counts(
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
    """Draw lazy documents and labels from a model with one hidden state per document, with noise.

    State j of k has the columns and labels j, j + k, j + 2 k, ..., Zipf distributed. With probability ``noise`` a word
    or label comes from a Zipf distribution over all. State j has a probability proportional to ``1 / sqrt(j + 1)``.

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
        Mean number of words per document, at least 1; distributed as one plus a Poisson number.
    labels_each : float, default=4.0
        Mean number of draws of labels per document, distributed like words; repeated draws are one label.
    noise : float, default=0.3
        Probability in [0, 1] that a word or label does not come from the state.
    block_rows : int, default=8192
        Number of rows per block; the rows depend on it.
    seed : int, RandomState, Generator or None, default=0
        Seed, combined with the block number for each block; None draws a new one.

    Returns
    -------
    counts : Dask array of float32, shape (n_rows, n_columns)
        Lazy blocks of ``csr_array``, identical under every scheduler.
    labels : Dask array of float32, shape (n_rows, n_labels)
        Indicator matrix, with the row chunks of the counts.

    Examples
    --------
    >>> counts, labels = labeled_counts(1000, 500, 60, 10, block_rows=250)
    >>> counts.numblocks, labels.shape, float(labels.blocks[0].compute().data.max())
    ((4, 1), (1000, 60), 1.0)
    """
    check_integer("n_states", n_states, at_least=1, at_most=min(n_columns, n_labels))
    check_law(noise=noise, row_length=row_length, labels_each=labels_each)
    seed = resolve_seed(seed, "seed")  # once, since words and labels share their states
    arrays = []
    for name, width, mean in (("words", n_columns, row_length), ("labels", n_labels, labels_each)):
        draw = partial(_draw, width=width, n_states=n_states, mean=mean, noise=noise, present=name == "labels")
        arrays.append(random_counts(draw, (n_rows, width), block_rows, seed, name=f"labelled-{name}"))
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
    # Words and labels both draw the states first, with one seed, so they have the same states.
    states = draw_topics(generator, n_rows, n_states)
    if present:
        # After the states, labels continue with an independent random stream.
        generator = np.random.Generator(cast("np.random.Philox", generator.bit_generator).jumped())
    rows = np.repeat(np.arange(n_rows), 1 + generator.poisson(mean - 1, size=n_rows))
    counts = count_words(generator, rows, states[rows], n_states, (n_rows, width), noise, 1.0)
    if present:
        counts.data[:] = 1
    return counts
