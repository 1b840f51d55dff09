"""Sequences drawn from a hidden Markov model."""

import numpy as np
from numpy.typing import NDArray

from dspectral.methods.hmm.chain import HiddenMarkov


def draw_sequences(
    model: HiddenMarkov, n_sequences: int, rng: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Draw sequences that end by themselves.

    Shapes: returns `ids, states` (n_tokens,), `offsets` (n_sequences + 1,).
    """
    # The end of a sequence is one more column of the steps, beyond the states.
    starts = np.cumsum(model.initial)
    steps = np.cumsum(np.column_stack([model.transition, model.final]), axis=1)
    emissions = np.cumsum(model.emission.T, axis=1)
    alive = np.arange(n_sequences)
    state = np.minimum(np.searchsorted(starts, rng.random(n_sequences)), model.n_states - 1)
    parts: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []
    # All sequences take each step together: as many rounds as the longest has tokens, each over those not yet ended.
    while len(alive):
        ids = draw_columns(emissions[state], rng)
        parts.append((alive, state, ids))
        after = draw_columns(steps[state], rng)
        going = after < model.n_states
        alive, state = alive[going], after[going]
    owner, states, ids = (np.concatenate(column) for column in zip(*parts, strict=True))
    # Parts are in the order of steps, so a stable sort by sequence leaves the tokens of each in their order.
    order = np.argsort(owner, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=n_sequences))])
    return ids[order].astype(np.int32), states[order].astype(np.int32), offsets


def draw_columns(cumulative: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw a column for each row of cumulative probabilities."""
    # A uniform number is scaled by the last sum, which rounding may leave off 1, so it never lies beyond the last
    # column.
    places = np.sum(cumulative < rng.random((len(cumulative), 1)) * cumulative[:, -1:], axis=1)
    return np.asarray(places, dtype=np.int64)
