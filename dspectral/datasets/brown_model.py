"""Sentences drawn from a Brown model: a hidden Markov model in which each word has one class."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.datasets.random_blocks import checked_seed
from dspectral.inputs.parameters import RandomState


class BrownSample(NamedTuple):
    """Sentences as lists of words, and the class of each word of the model."""

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
        Number of classes, which are the hidden states.
    n_words : int, default=50
        Number of words; word i has class ``i % n_classes``, in it with weight ``1 / (i // n_classes + 1)``.
    length : int, default=20
        Number of words of a sentence.
    seed : int, RandomState, Generator or None, default=0
        Seed of the model; the first sentences are the same for any ``n_sentences``. None draws a new one.

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
    for name, value in (("n_sentences", n_sentences), ("n_classes", n_classes), ("length", length)):
        if value < 1:
            raise ValueError(f"{name} is {value}, but it must be 1 or more")
    if n_words < n_classes:
        raise ValueError(f"n_words is {n_words}, but each of {n_classes} classes needs a word")
    seed = checked_seed(seed)
    # The model has a stream of its own, so that more sentences of one seed are of the same model.
    model = np.random.default_rng([seed, 0])
    transitions = model.dirichlet(np.full(n_classes, 0.5), size=n_classes)
    start = model.dirichlet(np.ones(n_classes))
    draw = np.random.default_rng([seed, 1]).random((n_sentences, length, 2))
    states = _draw_categories(np.broadcast_to(start, (n_sentences, n_classes)), draw[:, 0, 0])
    columns = []
    # All sentences take each step together; a token uses two uniform numbers, one for the class and one for the word.
    for t in range(length):
        if t:
            states = _draw_categories(transitions[states], draw[:, t, 0])
        columns.append(_draw_words(states, draw[:, t, 1], n_classes, n_words))
    sentences = [[f"w{i}" for i in row] for row in np.stack(columns, axis=1).tolist()]
    return BrownSample(sentences, {f"w{i}": i % n_classes for i in range(n_words)})


def _draw_categories(distributions: NDArray[np.float64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    # The number of cumulated probabilities below a uniform number is a draw. Rounding may leave the last one below 1,
    # hence the minimum.
    below = np.cumsum(distributions, axis=1) < uniform[:, None]
    return np.asarray(np.minimum(below.sum(axis=1), distributions.shape[1] - 1))


def _draw_words(
    states: NDArray[np.int64], uniform: NDArray[np.float64], n_classes: int, n_words: int
) -> NDArray[np.int64]:
    # The words of class c are c, c + n_classes, c + 2 n_classes, ...: word i is of class i modulo n_classes, and its
    # rank, by which its probability falls as 1 / (rank + 1), is the whole part of i / n_classes.
    sizes = (n_words - np.arange(n_classes) + n_classes - 1) // n_classes
    # Classes may differ by one word: what is beyond a class's own has probability 0.
    ranks = np.arange(int(sizes.max()))
    emissions = np.where(ranks < sizes[:, None], 1.0 / (ranks + 1.0), 0.0)
    emissions /= emissions.sum(axis=1, keepdims=True)
    return np.asarray(
        np.minimum(_draw_categories(emissions[states], uniform), sizes[states] - 1) * n_classes + states
    )
