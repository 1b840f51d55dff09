"""Settings of Brown clustering that studies compare and users leave as they are."""

from typing import Literal, NamedTuple, TypeAlias

from dspectral.registry import saved

Neighbors: TypeAlias = Literal["both", "right"]
"""Whether both neighbors of a word are its contexts, or only the word after it."""
Weighting: TypeAlias = Literal["tokens", "types"]
"""Whether a word weighs as much as its count, or 1."""


@saved
class BrownRecipe(NamedTuple):
    """How :class:`~dspectral.SpectralBrownClustering` starts, beyond what a user would set.

    Attributes
    ----------
    sides : {"both", "right"}, default="both"
        Whether both neighbors of a word are its contexts, or only the word after it.
    power : float, default=1.0
        Power of the singular values that singular vectors are multiplied by, before rows are scaled to unit length.
    weighting : {"tokens", "types"}, default="tokens"
        Whether a word weighs as much as its count in the agglomeration, or 1.

    Examples
    --------
    >>> BrownRecipe(sides="right")
    BrownRecipe(sides='right', power=1.0, weighting='tokens')
    """

    sides: Neighbors = "both"
    power: float = 1.0
    weighting: Weighting = "tokens"
