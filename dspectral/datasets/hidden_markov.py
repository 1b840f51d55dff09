"""Generate sequences from an anchor HMM, a refinement HMM or a Brown model, in which each word has one class."""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.datasets.random_blocks import block_generator, block_sizes
from dspectral.engine import Blocks
from dspectral.methods.hmm.chain import HiddenMarkov
from dspectral.parameters import RandomState, check_integer, check_real, resolve_seed
from dspectral.types import LabeledSentences, Sentences


def draw_sequences(
    model: HiddenMarkov, n_sequences: int, rng: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Draw sequences with the model's end probabilities: ids, states (n_tokens,) and offsets (n_sequences + 1,)."""
    # The last column of `steps` is the end of a sequence.
    starts = np.cumsum(model.initial)
    steps = np.cumsum(np.column_stack([model.transition, model.final]), axis=1)
    emissions = np.cumsum(model.emission.T, axis=1)
    active = np.arange(n_sequences)
    state = np.minimum(np.searchsorted(starts, rng.random(n_sequences)), model.n_states - 1)
    parts: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []
    # All sequences are advanced together; `active` are those that have not ended.
    while len(active):
        ids = draw_columns(emissions[state], rng)
        parts.append((active, state, ids))
        next_states = draw_columns(steps[state], rng)
        is_active = next_states < model.n_states
        active, state = active[is_active], next_states[is_active]
    owner, states, ids = (np.concatenate(column) for column in zip(*parts, strict=True))
    # Parts are in order of steps, so a stable sort by sequence preserves the order of tokens.
    order = np.argsort(owner, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=n_sequences))])
    return ids[order].astype(np.int32), states[order].astype(np.int32), offsets


def draw_columns(cdf: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw a column for each row of cumulative probabilities."""
    # Scaling by the last sum handles its rounding error.
    columns = np.sum(cdf < rng.random((len(cdf), 1)) * cdf[:, -1:], axis=1)
    return np.asarray(columns, dtype=np.int64)


class AnchorStream(NamedTuple):
    """Corpus of lazily drawn blocks of sentences, and the true model.

    Word ``h + 1`` is the anchor of state h, which no other state emits; ``"<?>"`` is never drawn. Shapes: `counts`
    (n_types,).
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
    """Draw an anchor HMM and sentences from it.

    Parameters
    ----------
    n_sentences : int
        Number of sentences.
    n_states : int, default=4
        Number of hidden states.
    n_types : int, default=40
        Number of words besides ``"<?>"``, greater than the number of states.
    mean_length : float, default=10.0
        Mean length of a sentence; lengths are geometric, at least 1.
    anchor_share : float, default=0.2
        Proportion of a state's tokens that are its anchor, between 0 and 1.
    block_sentences : int, default=10000
        Number of sentences per block.
    seed : int, RandomState, Generator or None, default=0
        Seed of the model, combined with the block number for each block; None draws a new one.

    Returns
    -------
    AnchorStream
        Corpus of words, as ``fit`` takes it. All blocks are drawn once to count the words.

    Examples
    --------
    >>> stream = anchor_sentences(30, n_states=2, n_types=5)
    >>> stream.words, stream.model.emission[1:3].round(1)
    (['<?>', 'w1', 'w2', 'w3', 'w4', 'w5'], array([[0.2, 0. ],
           [0. , 0.2]]))
    """
    check_integer("n_sentences", n_sentences, at_least=1)
    check_integer("block_sentences", block_sentences, at_least=1)
    check_integer("n_states", n_states, at_least=1, at_most=n_types - 1)
    check_real("mean_length", mean_length, at_least=1)
    if not 0 < anchor_share < 1:
        raise ValueError(f"anchor_share={anchor_share} must be between 0 and 1")
    seed = resolve_seed(seed, "seed")  # once, since the model and its blocks share the seed
    model = draw_anchor_model(n_states, n_types, mean_length, anchor_share, seed)
    sizes = block_sizes(n_sentences, block_sentences)
    blocks = Blocks(partial(draw_sentences, model=model, seed=seed), list(enumerate(sizes)))
    # Counting draws every block, one at a time.
    counts = np.zeros(n_types + 1, dtype=np.int64)
    for item in blocks.items:
        counts += np.bincount(blocks.read(item).ids, minlength=n_types + 1)
    return AnchorStream(["<?>", *(f"w{i}" for i in range(1, n_types + 1))], counts, blocks, model)


def draw_anchor_model(n_states: int, n_types: int, mean_length: float, anchor_share: float, seed: int) -> HiddenMarkov:
    """Draw parameters with distinct transitions, an anchor for each state, and other words in all states."""
    rng = np.random.default_rng([seed, n_states, n_types])
    # All states have the same end probability, so lengths are geometric. Type 0, "<?>", has probability 0.
    steps = rng.dirichlet(np.full(n_states, 0.3), n_states) * (1.0 - 1.0 / mean_length)
    emission = np.zeros((n_types + 1, n_states))
    emission[1 : n_states + 1] = anchor_share * np.eye(n_states)
    others = rng.dirichlet(np.full(n_types - n_states, 0.5), n_states).T
    emission[n_states + 1 :] = (1.0 - anchor_share) * others
    final = np.full(n_states, 1.0 / mean_length)
    return HiddenMarkov.from_arrays(rng.dirichlet(np.ones(n_states)), steps, emission, final)


def draw_sentences(item: tuple[int, int], *, model: HiddenMarkov, seed: int) -> Sentences:
    """Draw one block; ``item`` is its number and its number of sentences."""
    ids, _, offsets = draw_sequences(model, item[1], block_generator(seed, item[0]))
    return Sentences(ids, offsets)


class LabeledStream(NamedTuple):
    """Corpus of lazily drawn blocks of labeled sequences, and the true model.

    `words, labels`: integer types and labels, type 0 is never drawn; `bounds` (n_labels + 1,): label ``a`` has the
    states ``bounds[a]``, ..., ``bounds[a + 1] - 1``.
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
) -> LabeledStream:
    """Draw a refinement HMM and labeled sequences from it.

    Parameters
    ----------
    n_sequences : int
        Number of sequences.
    n_labels : int, default=3
        Number of labels.
    n_refinements : int, default=2
        Number of hidden states per label.
    n_types : int, default=12
        Number of token types, besides type 0.
    mean_length : float, default=20.0
        Mean length of a sequence; lengths are geometric, at least 1.
    block_sequences : int, default=1000
        Number of sequences per block.
    seed : int, RandomState, Generator or None, default=0
        Seed of the model, combined with the block number for each block; None draws a new one.

    Returns
    -------
    LabeledStream
        Corpus for :class:`~dspectral.RefinementHMM`. Type 0, for out-of-vocabulary tokens, is never drawn.

    Examples
    --------
    >>> stream = refinement_sequences(2500)
    >>> len(stream.sentences.items), stream.sentences.read(stream.sentences.items[2]).offsets.shape
    (3, (501,))
    """
    sizes = {"n_labels": n_labels, "n_refinements": n_refinements, "n_types": n_types}
    sizes |= {"n_sequences": n_sequences, "block_sequences": block_sequences}
    for name, value in sizes.items():
        check_integer(name, value, at_least=1)
    check_real("mean_length", mean_length, at_least=1)
    seed = resolve_seed(seed, "seed")  # once, since the model and its blocks share the seed
    # Hidden state s belongs to label s // n_refinements.
    model = draw_refinement_model(n_labels * n_refinements, n_types, mean_length, seed)
    read = partial(draw_block, model=model, n_refinements=n_refinements, seed=seed)
    bounds = np.arange(0, n_labels * n_refinements + 1, n_refinements)
    blocks = Blocks(read, list(enumerate(block_sizes(n_sequences, block_sequences))))
    return LabeledStream(list(range(n_types + 1)), list(range(n_labels)), blocks, model, bounds)


def draw_refinement_model(n_states: int, n_types: int, mean_length: float, seed: int) -> HiddenMarkov:
    """Draw parameters with well-separated refinements: sparse emissions and distinct transitions."""
    # Dirichlet parameters below 1 concentrate the mass on few entries.
    rng = np.random.default_rng(seed)
    steps = rng.dirichlet(np.full(n_states, 0.5), n_states) * (1.0 - 1.0 / mean_length)
    emission = np.zeros((n_types + 1, n_states))
    emission[1:] = rng.dirichlet(np.full(n_types, 0.3), n_states).T
    final = np.full(n_states, 1.0 / mean_length)
    return HiddenMarkov.from_arrays(rng.dirichlet(np.ones(n_states)), steps, emission, final)


def draw_block(item: tuple[int, int], *, model: HiddenMarkov, n_refinements: int, seed: int) -> LabeledSentences:
    """Draw one block; ``item`` is its number and its number of sequences."""
    ids, states, offsets = draw_sequences(model, item[1], block_generator(seed, item[0]))
    return LabeledSentences(ids, (states // n_refinements).astype(np.int32), offsets)


class BrownSample(NamedTuple):
    """Sentences as lists of words, and the class of each word."""

    sentences: list[list[str]]
    classes: dict[str, int]


def brown_model_sentences(
    n_sentences: int, *, n_classes: int = 5, n_words: int = 50, length: int = 20, seed: RandomState = 0
) -> BrownSample:
    """Draw sentences from a random Brown model (a restricted HMM).

    Parameters
    ----------
    n_sentences : int
        Number of sentences.
    n_classes : int, default=5
        Number of classes (hidden states).
    n_words : int, default=50
        Number of words; word i has class ``i % n_classes`` and weight ``1 / (i // n_classes + 1)`` within it.
    length : int, default=20
        Number of words per sentence.
    seed : int, RandomState, Generator or None, default=0
        Seed of the model; None draws a new one. The first sentences do not depend on ``n_sentences``.

    Returns
    -------
    BrownSample
        Sentences, and the class of each word.

    Examples
    --------
    >>> sample = brown_model_sentences(2, n_classes=2, n_words=4, length=3)
    >>> [len(sentence) for sentence in sample.sentences], sample.classes
    ([3, 3], {'w0': 0, 'w1': 1, 'w2': 0, 'w3': 1})
    """
    check_integer("n_sentences", n_sentences, at_least=1)
    check_integer("length", length, at_least=1)
    check_integer("n_classes", n_classes, at_least=1, at_most=n_words)
    seed = resolve_seed(seed, "seed")
    # The model has its own random stream, so it does not depend on the number of sentences.
    model = np.random.default_rng([seed, 0])
    transitions = model.dirichlet(np.full(n_classes, 0.5), size=n_classes)
    start = model.dirichlet(np.ones(n_classes))
    draw = np.random.default_rng([seed, 1]).random((n_sentences, length, 2))
    states = _draw_categories(np.broadcast_to(start, (n_sentences, n_classes)), draw[:, 0, 0])
    columns = []
    # All sentences are advanced together; a token uses two uniform numbers, for its class and its word.
    for t in range(length):
        if t:
            states = _draw_categories(transitions[states], draw[:, t, 0])
        columns.append(_draw_words(states, draw[:, t, 1], n_classes, n_words))
    sentences = [[f"w{i}" for i in row] for row in np.stack(columns, axis=1).tolist()]
    return BrownSample(sentences, {f"w{i}": i % n_classes for i in range(n_words)})


def _draw_categories(distributions: NDArray[np.float64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    # The number of cumulative probabilities below a uniform number is a draw. The minimum handles rounding of the last.
    below = np.cumsum(distributions, axis=1) < uniform[:, None]
    return np.asarray(np.minimum(below.sum(axis=1), distributions.shape[1] - 1))


def _draw_words(
    states: NDArray[np.int64], uniform: NDArray[np.float64], n_classes: int, n_words: int
) -> NDArray[np.int64]:
    # Word i has class i % n_classes and rank i // n_classes; its probability is proportional to 1 / (rank + 1).
    sizes = (n_words - np.arange(n_classes) + n_classes - 1) // n_classes
    # Classes may differ by one word; ranks beyond a class have probability 0.
    ranks = np.arange(int(sizes.max()))
    emissions = np.where(ranks < sizes[:, None], 1.0 / (ranks + 1.0), 0.0)
    emissions /= emissions.sum(axis=1, keepdims=True)
    return np.asarray(np.minimum(_draw_categories(emissions[states], uniform), sizes[states] - 1) * n_classes + states)
