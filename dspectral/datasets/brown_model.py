"""Generate sentences from a Brown model: a hidden Markov model in which each word has one class."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.datasets.random_blocks import check_seed
from dspectral.inputs.parameters import RandomState


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
    for name, value in (("n_sentences", n_sentences), ("n_classes", n_classes), ("length", length)):
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1")
    if n_words < n_classes:
        raise ValueError(f"n_words={n_words} must be at least {n_classes}, the number of classes")
    seed = check_seed(seed)
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
    return np.asarray(
        np.minimum(_draw_categories(emissions[states], uniform), sizes[states] - 1) * n_classes + states
    )
