"""Sequences drawn block by block from an anchor HMM, a refinement HMM or a Brown model: data of a known truth."""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.engine import Blocks
from dspectral.types import LabeledSentences, Sentences

Doubles = NDArray[np.float64]
Integers = NDArray[np.int64]


class Chain(NamedTuple):
    """Probabilities of a hidden Markov model, in the order of the fields of ``model_`` of an estimator.

    Shapes: `initial, final` (n_states,), `transition` (n_states, n_states), `emission` (n_types, n_states).
    """

    initial: Doubles
    transition: Doubles
    emission: Doubles
    final: Doubles

    @property
    def n_states(self) -> int:
        """Number of hidden states."""
        return len(self.initial)


def draw_sequences(
    model: Chain, n_sequences: int, rng: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int32], Integers]:
    """Return ids and states (n_tokens,) of sequences that end with the model's probabilities, and offsets."""
    # The last column of `steps` is the end of a sequence.
    steps = np.cumsum(np.column_stack([model.transition, model.final]), axis=1)
    emissions = np.cumsum(model.emission.T, axis=1)
    active = np.arange(n_sequences)
    starts = np.cumsum(model.initial)
    state = np.minimum(np.searchsorted(starts, rng.random(n_sequences)), model.n_states - 1)
    parts = []
    # All sequences are advanced together; `active` are those that have not ended.
    while len(active):
        parts.append((active, state, _draw_columns(emissions[state], rng)))
        following = _draw_columns(steps[state], rng)
        goes_on = following < model.n_states
        active, state = active[goes_on], following[goes_on]
    owner, states, ids = (np.concatenate(column) for column in zip(*parts, strict=True))
    # Parts are in order of steps, so a stable sort by sequence preserves the order of tokens.
    order = np.argsort(owner, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=n_sequences))])
    return ids[order].astype(np.int32), states[order].astype(np.int32), offsets


def _draw_columns(cdf: Doubles, rng: np.random.Generator) -> Integers:
    """Draw a column for each row of cumulative probabilities, scaled by the last sum, which may round."""
    return np.asarray(np.sum(cdf < rng.random((len(cdf), 1)) * cdf[:, -1:], axis=1), dtype=np.int64)


def _generator(seed: int, block: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=(block,))))


def _numbered_sizes(n: int, block_size: int) -> list[tuple[int, int]]:
    """Return the number and the size of each block of ``n`` sequences."""
    return list(enumerate(min(block_size, n - start) for start in range(0, n, block_size)))


class AnchorStream(NamedTuple):
    """Corpus of lazily drawn blocks of sentences, and the true model.

    Word ``h + 1`` is the anchor of state h, which no other state emits; ``"<?>"`` is never drawn.
    """

    words: list[str]
    counts: Integers
    sentences: Blocks
    model: Chain


def anchor_sentences(
    n_sentences: int,
    *,
    n_states: int = 4,
    n_types: int = 40,
    mean_length: float = 10.0,
    anchor_share: float = 0.2,
    block_sentences: int = 10_000,
    seed: int = 0,
) -> AnchorStream:
    """Draw an anchor HMM over ``n_types`` words besides ``"<?>"``, and sentences of geometric lengths from it.

    `anchor_share`: proportion of a state's tokens that are its anchor.
    """
    model = draw_anchor_model(n_states, n_types, mean_length, anchor_share, seed)
    blocks = Blocks(partial(_draw_sentences, model=model, seed=seed), _numbered_sizes(n_sentences, block_sentences))
    counts = np.zeros(n_types + 1, dtype=np.int64)
    for item in blocks.items:
        counts += np.bincount(blocks.read(item).ids, minlength=n_types + 1)
    return AnchorStream(["<?>", *(f"w{i}" for i in range(1, n_types + 1))], counts, blocks, model)


def draw_anchor_model(n_states: int, n_types: int, mean_length: float, anchor_share: float, seed: int) -> Chain:
    """Draw parameters with distinct transitions, an anchor for each state, and other words in all states."""
    rng = np.random.default_rng([seed, n_states, n_types])
    # All states have the same end probability, so lengths are geometric. Type 0, "<?>", has probability 0.
    steps = rng.dirichlet(np.full(n_states, 0.3), n_states) * (1.0 - 1.0 / mean_length)
    emission = np.zeros((n_types + 1, n_states))
    emission[1 : n_states + 1] = anchor_share * np.eye(n_states)
    emission[n_states + 1 :] = (1.0 - anchor_share) * rng.dirichlet(np.full(n_types - n_states, 0.5), n_states).T
    return Chain(rng.dirichlet(np.ones(n_states)), steps, emission, np.full(n_states, 1.0 / mean_length))


def _draw_sentences(item: tuple[int, int], *, model: Chain, seed: int) -> Sentences:
    ids, _, offsets = draw_sequences(model, item[1], _generator(seed, item[0]))
    return Sentences(ids, offsets)


class LabeledStream(NamedTuple):
    """Corpus of lazily drawn blocks of labeled sequences, and the true model.

    Type 0 is never drawn. Label ``a`` has the states ``bounds[a]``, ..., ``bounds[a + 1] - 1``.
    """

    words: list[int]
    labels: list[int]
    sentences: Blocks
    model: Chain
    bounds: Integers


def refinement_sequences(
    n_sequences: int,
    *,
    n_labels: int = 3,
    n_refinements: int = 2,
    n_types: int = 12,
    mean_length: float = 20.0,
    block_sequences: int = 1000,
    seed: int = 0,
) -> LabeledStream:
    """Draw a refinement HMM over ``n_types`` types besides type 0, and labeled sequences of geometric lengths."""
    # Hidden state s belongs to label s // n_refinements.
    model = draw_refinement_model(n_labels * n_refinements, n_types, mean_length, seed)
    read = partial(_draw_labeled, model=model, n_refinements=n_refinements, seed=seed)
    bounds = np.arange(0, n_labels * n_refinements + 1, n_refinements)
    blocks = Blocks(read, _numbered_sizes(n_sequences, block_sequences))
    return LabeledStream(list(range(n_types + 1)), list(range(n_labels)), blocks, model, bounds)


def draw_refinement_model(n_states: int, n_types: int, mean_length: float, seed: int) -> Chain:
    """Draw parameters with well-separated refinements: sparse emissions and distinct transitions."""
    # Dirichlet parameters below 1 concentrate the mass on few entries.
    rng = np.random.default_rng(seed)
    steps = rng.dirichlet(np.full(n_states, 0.5), n_states) * (1.0 - 1.0 / mean_length)
    emission = np.zeros((n_types + 1, n_states))
    emission[1:] = rng.dirichlet(np.full(n_types, 0.3), n_states).T
    return Chain(rng.dirichlet(np.ones(n_states)), steps, emission, np.full(n_states, 1.0 / mean_length))


def _draw_labeled(item: tuple[int, int], *, model: Chain, n_refinements: int, seed: int) -> LabeledSentences:
    ids, states, offsets = draw_sequences(model, item[1], _generator(seed, item[0]))
    return LabeledSentences(ids, (states // n_refinements).astype(np.int32), offsets)


class BrownSample(NamedTuple):
    """Sentences as lists of words, and the class of each word."""

    sentences: list[list[str]]
    classes: dict[str, int]


def brown_model_sentences(
    n_sentences: int, *, n_classes: int = 5, n_words: int = 50, length: int = 20, seed: int = 0
) -> BrownSample:
    """Draw sentences from a Brown model: word i has class ``i % n_classes`` and weight ``1 / (i // n_classes + 1)``."""
    # The model has its own random stream, so it does not depend on the number of sentences.
    model = np.random.default_rng([seed, 0])
    transitions = model.dirichlet(np.full(n_classes, 0.5), size=n_classes)
    start = model.dirichlet(np.ones(n_classes))
    draw = np.random.default_rng([seed, 1]).random((n_sentences, length, 2))
    states = _draw_categories(np.broadcast_to(start, (n_sentences, n_classes)), draw[:, 0, 0])
    # Classes may differ by one word; ranks beyond a class have probability 0.
    sizes = (n_words - np.arange(n_classes) + n_classes - 1) // n_classes
    ranks = np.arange(int(sizes.max()))
    emissions = np.where(ranks < sizes[:, None], 1.0 / (ranks + 1.0), 0.0)
    emissions /= emissions.sum(axis=1, keepdims=True)
    columns = []
    # All sentences are advanced together; a token uses two uniform numbers, for its class and its word.
    for t in range(length):
        if t:
            states = _draw_categories(transitions[states], draw[:, t, 0])
        rank = np.minimum(_draw_categories(emissions[states], draw[:, t, 1]), sizes[states] - 1)
        columns.append(rank * n_classes + states)
    sentences = [[f"w{i}" for i in row] for row in np.stack(columns, axis=1).tolist()]
    return BrownSample(sentences, {f"w{i}": i % n_classes for i in range(n_words)})


def _draw_categories(distributions: Doubles, uniform: Doubles) -> Integers:
    # The number of cumulative probabilities below a uniform number is a draw. The minimum handles rounding of the last.
    below = np.cumsum(distributions, axis=1) < uniform[:, None]
    return np.asarray(np.minimum(below.sum(axis=1), distributions.shape[1] - 1))
