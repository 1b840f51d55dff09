"""Recursions along chains of hidden states."""

from typing import Any

import numpy as np

from .data import sentences, types_of
from .limits import multiples
from .loops import Loop, Run, Share, kernel

STATES = 12
LEARNING, DECODING = "EM of an HMM", "states of an HMM"
LIMIT = "multiples of a long row added to another one in the first cache"


def model(n_types: int, seed: int) -> Any:
    """Draw a hidden Markov model."""
    generator = np.random.default_rng(seed)
    initial, transition, emission = (
        generator.random(shape) + 0.1 for shape in ((STATES,), (STATES, STATES), (n_types, STATES))
    )
    return kernel("methods.hmm.chain:HiddenMarkov").of(
        initial / initial.sum(),
        transition / transition.sum(axis=1, keepdims=True),
        emission / emission.sum(axis=0),
    )


def best_path(size: int, seed: int) -> tuple[Run, Run]:
    """Make the search for the most probable path through each sentence."""
    block, hidden = sentences(size, seed), model(types_of(size), seed)
    viterbi = kernel("methods.hmm.inference:viterbi")
    amount = 2.0 * STATES * STATES * len(block.ids)  # a sum and a comparison for each pair of states
    return Run(lambda: viterbi(block, hidden), amount), multiples()


def expected(size: int, seed: int) -> tuple[Run, Run]:
    """Make the expected counts of each sentence."""
    block, hidden = sentences(size, seed), model(types_of(size), seed)
    of = kernel("methods.hmm.expected_counts:ExpectedCounts").of
    # A product and a sum for each pair of states: forward, backward, and for the counts of transitions.
    amount = 6.0 * STATES * STATES * len(block.ids)
    return Run(lambda: of(block, model=hidden), amount), multiples()


LOOPS = (
    Loop(
        "Viterbi",
        "flop",
        "2 k^2 x tokens: a sum and a comparison for each pair of states",
        LIMIT,
        best_path,
        (Share(DECODING, ("hmm/inference.py:viterbi",)),),
    ),
    Loop(
        "forward-backward",
        "flop",
        "3 x 2 k^2 x tokens: a product and a sum for each pair of states, forward, backward and counted",
        LIMIT,
        expected,
        (Share(LEARNING, ("hmm/expected_counts.py:of",)),),
    ),
)
