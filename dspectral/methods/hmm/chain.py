"""Parameters of a hidden Markov model over token ids, and the normalization of counts to probabilities."""

from typing import NamedTuple

import numpy as np

from dspectral._compiled import read_only
from dspectral.registry import register_class
from dspectral.types import Doubles


@register_class(
    {"initial": "n_states", "transition": "n_states n_states", "emission": "n_types n_states", "final": "n_states"}
)
class HiddenMarkov(NamedTuple):
    """Probabilities of a hidden Markov model, or the counts to normalize.

    Shapes: `initial, final` (n_states,); `transition` (n_states, n_states): ``p(h' | h)`` in row h; `emission`
    (n_types, n_states): ``p(x | h)``.
    """

    initial: Doubles
    transition: Doubles
    emission: Doubles
    final: Doubles

    @property
    def n_states(self) -> int:
        """Number of hidden states."""
        return len(self.initial)

    @property
    def n_types(self) -> int:
        """Number of token types."""
        return len(self.emission)

    def as_read_only(self) -> "HiddenMarkov":
        """Return the model as contiguous, read-only float64 arrays, as compiled loops require."""
        return HiddenMarkov(*(read_only(np.asarray(part, dtype=np.float64)) for part in self))


def m_step(counts: HiddenMarkov, *, smoothing: float = 0.0, model_lengths: bool = True) -> HiddenMarkov:
    """Return probabilities from counts: the M-step of EM, or supervised training."""
    emission = counts.emission + smoothing
    # One distribution over the next state and the end of the sentence, in rows.
    steps = np.column_stack([counts.transition, counts.final]) if model_lengths else counts.transition
    steps = normalize(steps, axis=1)
    n = len(counts.initial)
    final = np.ascontiguousarray(steps[:, n]) if model_lengths else np.ones(n)
    initial, transition = normalize(counts.initial, axis=0), np.ascontiguousarray(steps[:, :n])
    return HiddenMarkov(initial, transition, normalize(emission, axis=0), final)


def normalize(counts: Doubles, axis: int) -> Doubles:
    """Return counts divided by their sums along an axis; the uniform distribution where a sum is 0."""
    # Zeros would make every sentence through such a state impossible.
    totals = counts.sum(axis=axis, keepdims=True)
    return np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), 1.0 / counts.shape[axis])
