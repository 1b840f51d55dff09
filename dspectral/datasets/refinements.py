"""Labelled sequences drawn from a refinement HMM that is known."""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.datasets.random_blocks import block_generator
from dspectral.engine import Blocks
from dspectral.methods.hmm.chain import HiddenMarkov
from dspectral.types import LabelledSentences


class LabelledStream(NamedTuple):
    """Labelled sequences in blocks, and the model that they are drawn from.

    Attributes
    ----------
    words, labels : list of int
    sentences : Blocks
        Of :class:`~dspectral.types.LabelledSentences`; each is drawn when it is read.
    model : HiddenMarkov
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
    seed: int = 0,
) -> LabelledStream:
    """Draw a refinement HMM, and labelled sequences from it.

    Parameters
    ----------
    n_sequences : int
    n_labels, n_refinements, n_types : int
    mean_length : float
        Of a sequence; lengths are geometric, at least 1.
    block_sequences : int
        Sequences of a block.
    seed : int
        The model is drawn by it; block i by a generator keyed by ``(seed, i)``.

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
    model = refinement_model(n_labels * n_refinements, n_types, mean_length, seed)
    sizes = [min(block_sequences, n_sequences - start) for start in range(0, n_sequences, block_sequences)]
    read = partial(drawn_block, model=model, n_refinements=n_refinements, seed=seed)
    bounds = np.arange(0, n_labels * n_refinements + 1, n_refinements)
    blocks = Blocks(read, list(enumerate(sizes)))
    return LabelledStream(list(range(n_types + 1)), list(range(n_labels)), blocks, model, bounds)


def refinement_model(n_states: int, n_types: int, mean_length: float, seed: int) -> HiddenMarkov:
    """Draw parameters whose refinements differ well: sparse emissions, and steps that are far from alike."""
    rng = np.random.default_rng(seed)
    steps = rng.dirichlet(np.full(n_states, 0.5), n_states) * (1.0 - 1.0 / mean_length)
    emission = np.zeros((n_types + 1, n_states))
    emission[1:] = rng.dirichlet(np.full(n_types, 0.3), n_states).T
    final = np.full(n_states, 1.0 / mean_length)
    return HiddenMarkov.of(rng.dirichlet(np.ones(n_states)), steps, emission, final)


def drawn_block(
    item: tuple[int, int], *, model: HiddenMarkov, n_refinements: int, seed: int
) -> LabelledSentences:
    """Draw one block: ``item`` is its number and how many sequences it has."""
    ids, states, offsets = draw(model, item[1], block_generator(seed, item[0]))
    return LabelledSentences(ids, (states // n_refinements).astype(np.int32), offsets)


def draw(
    model: HiddenMarkov, n_sequences: int, rng: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Draw sequences that end by themselves: ids, hidden states, and where each sequence begins.

    All sequences take each step together, so that drawing a block takes as many steps as its longest has.
    """
    starts = np.cumsum(model.initial)
    steps = np.cumsum(np.column_stack([model.transition, model.final]), axis=1)
    emissions = np.cumsum(model.emission.T, axis=1)
    alive = np.arange(n_sequences)
    state = np.minimum(np.searchsorted(starts, rng.random(n_sequences)), model.n_states - 1)
    parts: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []
    while len(alive):
        ids = chosen(emissions[state], rng)
        parts.append((alive, state, ids))
        after = chosen(steps[state], rng)
        going = after < model.n_states
        alive, state = alive[going], after[going]
    owner, states, ids = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(owner, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=n_sequences))])
    return ids[order].astype(np.int32), states[order].astype(np.int32), offsets


def chosen(cumulative: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw a column for each row of cumulative probabilities."""
    places = np.sum(cumulative < rng.random((len(cumulative), 1)) * cumulative[:, -1:], axis=1)
    return np.asarray(places, dtype=np.int64)
