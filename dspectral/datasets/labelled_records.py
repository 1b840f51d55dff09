"""Labelled documents drawn from the model of one hidden state a document."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.datasets.random_blocks import block_generator


class StateParameters(NamedTuple):
    """What documents and labels are drawn from.

    Attributes
    ----------
    weights : ndarray of float64, shape (k,)
        pi: probability of each state.
    words : ndarray of float64, shape (d, k)
        mu: distribution of words in each state.
    labels : ndarray of float64, shape (L, k)
        gamma: distribution of labels in each state.
    """

    weights: NDArray[np.float64]
    words: NDArray[np.float64]
    labels: NDArray[np.float64]


def state_parameters(
    n_words: int, n_labels: int, n_states: int, *, concentration: float = 0.1, seed: int = 0
) -> StateParameters:
    """Draw parameters: Dirichlet columns, and weights between 1 and 2 before they are normalised.

    Raises
    ------
    ValueError
        If there are more states than words, or a size or the concentration is not above 0.
    """
    if not 1 <= n_states <= n_words:
        raise ValueError(f"n_states is {n_states}, but must be from 1 to n_words, {n_words}")
    if n_labels < 1 or concentration <= 0:
        raise ValueError(f"n_labels is {n_labels} and concentration {concentration}, but both are above 0")
    generator = np.random.default_rng(seed)
    weights = generator.uniform(1.0, 2.0, n_states)
    words, labels = (generator.gamma(concentration, size=(size, n_states)) for size in (n_words, n_labels))
    words, labels = words + 1e-300, labels + 1e-300
    return StateParameters(weights / weights.sum(), words / words.sum(axis=0), labels / labels.sum(axis=0))


def sample_labelled_documents(
    n_documents: int,
    *,
    n_words: int = 1000,
    n_labels: int = 100,
    n_states: int = 10,
    length: float = 40.0,
    n_labels_each: float = 2.0,
    parameters: StateParameters | None = None,
    seed: int = 0,
) -> tuple[sparse.csr_array, sparse.csr_array, StateParameters]:
    """Draw documents and labels: a state for each document, then words and labels from the state.

    A document has each label independently, with probability ``n_labels_each`` times that of the state: as many
    on average, and the labels' expectation is exactly their distribution while none of these is above 1.

    Parameters
    ----------
    n_documents : int
    n_words, n_labels, n_states : int
        Of the parameters, unless they are given.
    length, n_labels_each : float
        Words and labels of a document on average; the number of words is Poisson, and both may be 0.
    parameters : StateParameters, optional
        By default :func:`state_parameters` of the same seed.
    seed : int

    Returns
    -------
    words : csr_array of float32, shape (n_documents, n_words)
        Counts.
    labels : csr_array of float32, shape (n_documents, n_labels)
        Ones.
    parameters : StateParameters

    Examples
    --------
    >>> words, labels, parameters = sample_labelled_documents(100, seed=1)
    >>> words.shape, labels.shape, parameters.weights.shape
    ((100, 1000), (100, 100), (10,))
    """
    if parameters is None:
        parameters = state_parameters(n_words, n_labels, n_states, seed=seed)
    generator = block_generator(seed, 0)
    states = generator.choice(len(parameters.weights), size=n_documents, p=parameters.weights)
    words = _drawn(generator, length * parameters.words, states)
    # Points at these rates hit a label at least once with the probability wanted.
    labels = _drawn(generator, -np.log1p(-np.minimum(n_labels_each * parameters.labels, 1.0 - 1e-9)), states)
    labels.data[:] = 1
    return words, labels, parameters


def _drawn(
    generator: np.random.Generator, rates: NDArray[np.float64], states: NDArray[np.int64]
) -> sparse.csr_array:
    """Draw a Poisson number of each column, at the rates of each document's state, shape (d, k)."""
    lengths = generator.poisson(rates.sum(axis=0)[states])
    rows = np.repeat(np.arange(len(states)), lengths)
    of_entry = states[rows]
    uniform = generator.random(len(rows))
    found = np.empty(len(rows), dtype=np.int64)
    for state in range(rates.shape[1]):
        mine = of_entry == state
        cuts = np.cumsum(rates[:, state])
        found[mine] = np.searchsorted(cuts, uniform[mine] * cuts[-1], side="right")
    found = np.minimum(found, len(rates) - 1)
    shape = (len(states), len(rates))
    drawn = sparse.coo_array((np.ones(len(rows), dtype=np.float32), (rows, found)), shape=shape).tocsr()
    drawn.sum_duplicates()
    return drawn
