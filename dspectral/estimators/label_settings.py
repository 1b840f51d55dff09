"""What the method of moments for many labels is asked for."""

from typing import Literal, NamedTuple, Self

Tensor = Literal["power", "diagonalise"]


class Settings(NamedTuple):
    """What the estimator asks for; see :class:`~dspectral.MomentMultiLabelClassifier`."""

    n_states: int
    distinct: bool
    counts: bool
    tensor: Tensor
    smoothing: float
    rank: int
    alpha: float
    solver: str
    sketch_size: int | None
    fan_in: int
    seed: int
    label_weight: float

    def checked(self) -> Self:
        """Return the settings.

        Raises
        ------
        ValueError
            If one is out of its range; what depends on the data is checked with it.
        """
        if self.tensor not in ("power", "diagonalise"):
            raise ValueError(f"tensor is {self.tensor!r}, but must be 'power' or 'diagonalise'")
        if self.rank < 0:
            raise ValueError(f"correction_rank is {self.rank}, but must be at least 0")
        if not 0 <= self.smoothing <= 1:
            raise ValueError(f"smoothing is {self.smoothing}, but is a share, from 0 to 1")
        if not 0 <= self.label_weight < float("inf"):
            raise ValueError(f"label_weight is {self.label_weight}, but must be 0 or more, and finite")
        if self.alpha <= 0:
            raise ValueError(f"alpha is {self.alpha}, but a ridge penalty is above 0")
        return self
