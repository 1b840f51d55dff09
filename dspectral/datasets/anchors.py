"""Sentences drawn from an anchor HMM that is known."""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.datasets.hidden_markov import draw_sequences
from dspectral.datasets.random_blocks import block_generator, block_sizes, checked_seed
from dspectral.engine import Blocks
from dspectral.inputs.parameters import RandomState
from dspectral.methods.hmm.chain import HiddenMarkov
from dspectral.types import Sentences


class AnchorStream(NamedTuple):
    """Sentences in blocks, and the model that they are drawn from.

    Attributes
    ----------
    words : list of str
        Words by type; the first is ``"<?>"``, and never drawn.
    counts : ndarray of int64, shape (n_types,)
        Number of tokens of each type.
    sentences : Blocks
        Blocks of :class:`~dspectral.types.Sentences`; each is drawn when it is read.
    model : HiddenMarkov
        The true parameters. Word ``h + 1`` is the anchor of state h: no other state emits it.
    """

    words: list[str]
    counts: NDArray[np.int64]
    sentences: Blocks
    model: HiddenMarkov


def anchor_sentences(
    n_sentences: int,
    *,
    n_states: int = 4,
    n_types: int = 40,
    mean_length: float = 10.0,
    anchor_share: float = 0.2,
    block_sentences: int = 10_000,
    seed: RandomState = 0,
) -> AnchorStream:
    """Draw an anchor HMM, and sentences from it.

    Parameters
    ----------
    n_sentences : int
        Number of sentences.
    n_states : int, default=4
        Number of hidden states.
    n_types : int, default=40
        Number of words beside ``"<?>"``, above the number of states.
    mean_length : float, default=10.0
        Mean length of a sentence; lengths are geometric, at least 1.
    anchor_share : float, default=0.2
        Share of a state's tokens that are its anchor, between 0 and 1; the rest is spread over the words that are
        no anchor.
    block_sentences : int, default=10000
        Number of sentences of a block.
    seed : int, RandomState, Generator or None, default=0
        Seed of the model; block i is drawn by a generator keyed by it and i. None draws a new one.

    Returns
    -------
    AnchorStream
        Estimators of words fit it as it is. Words are counted, so all blocks are drawn once.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> stream = anchor_sentences(30, n_states=2, n_types=5)
    >>> stream.words, stream.model.emission[1:3].round(1)
    (['<?>', 'w1', 'w2', 'w3', 'w4', 'w5'], array([[0.2, 0. ],
           [0. , 0.2]]))
    """
    if n_sentences < 1 or n_states < 1 or block_sentences < 1:
        raise ValueError(
            f"n_sentences is {n_sentences}, n_states {n_states} and block_sentences {block_sentences}, but each "
            "must be at least 1"
        )
    if n_types <= n_states:
        raise ValueError(f"n_types is {n_types}, but must be above n_states, {n_states}")
    if not 0 < anchor_share < 1 or not mean_length >= 1:
        raise ValueError(
            f"anchor_share is {anchor_share} and mean_length {mean_length}, but they must be between 0 and 1, and "
            "at least 1"
        )
    seed = checked_seed(seed)  # once: blocks are drawn from the model of the same seed
    model = anchor_model(n_states, n_types, mean_length, anchor_share, seed)
    sizes = block_sizes(n_sentences, block_sentences)
    blocks = Blocks(partial(draw_sentences, model=model, seed=seed), list(enumerate(sizes)))
    # Blocks are drawn anew whenever they are read. Counting draws each once, and holds one at a time.
    counts = np.zeros(n_types + 1, dtype=np.int64)
    for item in blocks.items:
        counts += np.bincount(blocks.read(item).ids, minlength=n_types + 1)
    return AnchorStream(["<?>", *(f"w{i}" for i in range(1, n_types + 1))], counts, blocks, model)


def anchor_model(
    n_states: int, n_types: int, mean_length: float, anchor_share: float, seed: int
) -> HiddenMarkov:
    """Draw parameters: transitions far from alike, an anchor for each state, other words in any state."""
    rng = np.random.default_rng([seed, n_states, n_types])
    # Each state ends a sentence with the same probability, so lengths are geometric with the mean that is wanted. Type
    # 0, "<?>", has no probability in any state: sentences drawn have no rare words.
    steps = rng.dirichlet(np.full(n_states, 0.3), n_states) * (1.0 - 1.0 / mean_length)
    emission = np.zeros((n_types + 1, n_states))
    emission[1 : n_states + 1] = anchor_share * np.eye(n_states)
    others = rng.dirichlet(np.full(n_types - n_states, 0.5), n_states).T
    emission[n_states + 1 :] = (1.0 - anchor_share) * others
    final = np.full(n_states, 1.0 / mean_length)
    return HiddenMarkov.of(rng.dirichlet(np.ones(n_states)), steps, emission, final)


def draw_sentences(item: tuple[int, int], *, model: HiddenMarkov, seed: int) -> Sentences:
    """Draw one block: ``item`` is its number and how many sentences it has."""
    ids, _, offsets = draw_sequences(model, item[1], block_generator(seed, item[0]))
    return Sentences(ids, offsets)
