"""Labeled sequences drawn from a refinement HMM that is known."""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.datasets.hidden_markov import draw_sequences
from dspectral.datasets.random_blocks import block_generator, block_sizes, checked_seed
from dspectral.engine import Blocks
from dspectral.inputs.parameters import RandomState
from dspectral.methods.hmm.chain import HiddenMarkov
from dspectral.types import LabelledSentences


class LabelledStream(NamedTuple):
    """Labeled sequences in blocks, and the model that they are drawn from.

    Attributes
    ----------
    words, labels : list of int
        Types and labels, which are numbers; type 0 is never drawn.
    sentences : Blocks
        Blocks of :class:`~dspectral.types.LabelledSentences`; each is drawn when it is read.
    model : HiddenMarkov
        The true parameters.
    bounds : ndarray of int64, shape (n_labels + 1,)
        Label ``a`` has the states ``bounds[a]``, ..., ``bounds[a + 1] - 1``.
    """

    words: list[int]
    labels: list[int]
    sentences: Blocks
    model: HiddenMarkov
    bounds: NDArray[np.int64]


def refinement_sequences(
    n_sequences: int,
    *,
    n_labels: int = 3,
    n_refinements: int = 2,
    n_types: int = 12,
    mean_length: float = 20.0,
    block_sequences: int = 1000,
    seed: RandomState = 0,
) -> LabelledStream:
    """Draw a refinement HMM, and labeled sequences from it.

    Parameters
    ----------
    n_sequences : int
        Number of sequences.
    n_labels : int, default=3
        Number of labels.
    n_refinements : int, default=2
        Number of hidden states of each label.
    n_types : int, default=12
        Number of types of tokens, beside type 0.
    mean_length : float, default=20.0
        Mean length of a sequence; lengths are geometric, at least 1.
    block_sequences : int, default=1000
        Number of sequences of a block.
    seed : int, RandomState, Generator or None, default=0
        Seed of the model; block i is drawn by a generator keyed by it and i. None draws a new one.

    Returns
    -------
    LabelledStream
        :class:`~dspectral.RefinementHMM` fits it as it is. Type 0, that of unseen tokens, is never drawn.

    Raises
    ------
    ValueError
        If a number is below 1.

    Examples
    --------
    >>> stream = refinement_sequences(2500)
    >>> len(stream.sentences.items), stream.sentences.read(stream.sentences.items[2]).offsets.shape
    (3, (501,))
    """
    for name, value in (
        ("n_sequences", n_sequences),
        ("n_labels", n_labels),
        ("n_refinements", n_refinements),
        ("n_types", n_types),
        ("mean_length", mean_length),
        ("block_sequences", block_sequences),
    ):
        if value < 1:
            raise ValueError(f"{name} is {value}, but must be at least 1")
    seed = checked_seed(seed)  # once: blocks are drawn from the model of the same seed
    # Hidden state s belongs to label s // n_refinements.
    model = refinement_model(n_labels * n_refinements, n_types, mean_length, seed)
    read = partial(draw_block, model=model, n_refinements=n_refinements, seed=seed)
    bounds = np.arange(0, n_labels * n_refinements + 1, n_refinements)
    blocks = Blocks(read, list(enumerate(block_sizes(n_sequences, block_sequences))))
    return LabelledStream(list(range(n_types + 1)), list(range(n_labels)), blocks, model, bounds)


def refinement_model(n_states: int, n_types: int, mean_length: float, seed: int) -> HiddenMarkov:
    """Draw parameters whose refinements differ well: sparse emissions, and transitions far from alike."""
    # Dirichlet parameters below 1 give distributions with most of their mass on few entries.
    rng = np.random.default_rng(seed)
    steps = rng.dirichlet(np.full(n_states, 0.5), n_states) * (1.0 - 1.0 / mean_length)
    emission = np.zeros((n_types + 1, n_states))
    emission[1:] = rng.dirichlet(np.full(n_types, 0.3), n_states).T
    final = np.full(n_states, 1.0 / mean_length)
    return HiddenMarkov.of(rng.dirichlet(np.ones(n_states)), steps, emission, final)


def draw_block(
    item: tuple[int, int], *, model: HiddenMarkov, n_refinements: int, seed: int
) -> LabelledSentences:
    """Draw one block: ``item`` is its number and how many sequences it has."""
    ids, states, offsets = draw_sequences(model, item[1], block_generator(seed, item[0]))
    return LabelledSentences(ids, (states // n_refinements).astype(np.int32), offsets)
