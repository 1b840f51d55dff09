"""Parameters of a hidden Markov chain over token ids, and how counts become probabilities."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dspectral._compiled import read_only
from dspectral.registry import Array, register_arrays, register_class
from dspectral.types import Doubles, Int32s


@register_arrays(
    {
        "initial": Array("n_states", at_least=0),
        "transition": Array("n_states n_states", at_least=0),
        "emission": Array("n_types n_states", at_least=0),
        "final": Array("n_states", at_least=0),
    }
)
@register_class
class HiddenMarkov(NamedTuple):
    """A hidden Markov model, or the counts that one is made from.

    Shapes: `initial, final` (n_states,); `transition` (n_states, n_states): ``p(h' | h)`` in row h; `emission`
    (n_types, n_states): ``p(x | h)``.
    """

    initial: Doubles
    transition: Doubles
    emission: Doubles
    final: Doubles

    @classmethod
    def from_arrays(
        cls, initial: ArrayLike, transition: ArrayLike, emission: ArrayLike, final: ArrayLike | None = None
    ) -> "HiddenMarkov":
        """Check shapes and signs, and fill in ``final`` where lengths are not modeled."""
        n = len(np.asarray(initial))
        parts = (initial, transition, emission, np.ones(n) if final is None else final)
        model = cls(*(read_only(np.asarray(part, dtype=np.float64)) for part in parts))
        shapes = [(n,), (n, n), (len(model.emission), n), (n,)]
        for name, part, shape in zip(cls._fields, model, shapes, strict=True):
            if part.shape != shape:
                raise ValueError(f"{name} has shape {part.shape}, but {n} states ask for {shape}")
            if not np.all(np.isfinite(part)) or np.any(part < 0):
                raise ValueError(f"{name} has an entry that is negative or not finite")
        return model

    @property
    def n_states(self) -> int:
        """Number of hidden states."""
        return len(self.initial)

    @property
    def n_types(self) -> int:
        """Number of token types."""
        return len(self.emission)

    def as_read_only(self) -> "HiddenMarkov":
        """Return the model as compiled loops take it: contiguous, read-only, float64."""
        return HiddenMarkov(*(read_only(np.asarray(part, dtype=np.float64)) for part in self))


def m_step(counts: HiddenMarkov, *, smoothing: float = 0.0, lengths: bool = True) -> HiddenMarkov:
    """Turn counts into probabilities: the M-step of EM, or supervised training."""
    # Emissions are distributions over types in columns, one for each state; steps are distributions over what comes
    # next in rows.
    emission = counts.emission + smoothing
    # A state is left either for another state or for the end of the sentence: one distribution over both.
    steps = np.column_stack([counts.transition, counts.final]) if lengths else counts.transition
    steps = normalize(steps, axis=1)
    n = len(counts.initial)
    final = np.ascontiguousarray(steps[:, n]) if lengths else np.ones(n)
    return HiddenMarkov(
        normalize(counts.initial, axis=0),
        np.ascontiguousarray(steps[:, :n]),
        normalize(emission, axis=0),
        final,
    )


def normalize(counts: Doubles, axis: int) -> Doubles:
    """Divide by the sums along an axis; where a sum is 0, write the uniform distribution."""
    # What was never counted could be anything; zeros would make every sentence that comes there impossible.
    totals = counts.sum(axis=axis, keepdims=True)
    return np.asarray(
        np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), 1.0 / counts.shape[axis])
    )


def check_ids(numbers: Int32s, n: int, what: str = "id") -> None:
    """Raise a ValueError if the id or label of a token is not below ``n``: compiled loops do not check."""
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < n:
        bad = int(np.flatnonzero((numbers < 0) | (numbers >= n))[0])
        raise ValueError(f"token {bad} has the {what} {numbers[bad]}, but {what}s go from 0 to {n - 1}")
