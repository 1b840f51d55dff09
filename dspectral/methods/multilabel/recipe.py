"""Settings of the method of moments for many labels: those that papers and ablations change, and all of a fit."""

from typing import Literal, NamedTuple

from dspectral.registry import saved

MomentKind = Literal["paper", "unbiased"]
TensorMethod = Literal["auto", "power", "batches", "diagonalise"]
FirstSolver = Literal["auto", "gram", "frequent_directions", "range"]


@saved
class MultiLabelRecipe(NamedTuple):
    """How the moments are taken and decomposed, by default as in the paper, and the penalty of the correction.

    Attributes
    ----------
    moments : {"paper", "unbiased"}
        ``"paper"``: a word is paired with itself, as printed in equations 16 to 21. ``"unbiased"``: pairs and
        triples of distinct positions, which recover the model.
    counts : bool
        Whether words count as often as they occur; otherwise whether they occur. The unbiased moments recover
        the model from counts only: which words occur is no longer drawn independently.
    tensor : {"auto", "power", "batches", "diagonalise"}
        ``"power"``: the power method with deflation, one state after the other. ``"batches"`` (``"auto"``): the same
        with up to 16 states a round, which takes a fraction of the time from some 100 states on. ``"diagonalise"``:
        simultaneous diagonalization, which takes several times as long there.
    solver : {"auto", "gram", "frequent_directions", "range"}
        Solver of the first pass: the exact matrix of pairs (``"auto"`` up to 2,048 words: 32 MiB), a sketch by
        Frequent Directions, which is close to exact (``"auto"`` for unbiased moments of more words), or the range of
        one random product (``"auto"`` for others), which costs a fraction of it. What either errs in size, though not
        in direction, the second pass mends.
    sketch_size : int or None
        Rows of the sketch, or columns of the product; None for ``2 n_states + 10``.
    alpha : float or "auto", default="auto"
        Ridge penalty of the linear correction, in units of the features' mean eigenvalue; above 0. ``"auto"`` is chosen
        on documents held out.
    """

    moments: MomentKind = "paper"
    counts: bool = False
    tensor: TensorMethod = "auto"
    solver: FirstSolver = "auto"
    sketch_size: int | None = None
    alpha: float | Literal["auto"] = "auto"


class Settings(NamedTuple):
    """Checked settings of one fit; see :class:`~dspectral.MomentMultiLabelClassifier` for the meaning of each.

    `n_states`: number of states, or the most of them; `recipe`: how the moments are taken and decomposed;
    `smoothing`: share of the corpus in every state's words; `label_weight`: weight of a label's
    log-likelihood in the E-step; `rank`: directions of the linear correction; `seed`: seed of all draws;
    `alpha`: penalty of the linear correction; `n_em_iter`: passes of EM; `fewer`: whether states are as many
    as the words have directions for, where these are fewer than ``n_states``; `undecided`: names of those
    settings that are to be chosen on documents held out, and have a value for the case that there are too few
    documents for that.
    """

    n_states: int
    recipe: MultiLabelRecipe
    smoothing: float
    label_weight: float
    rank: int
    seed: int
    alpha: float
    n_em_iter: int = 0
    fewer: bool = False
    undecided: tuple[str, ...] = ()

    @property
    def distinct(self) -> bool:
        """Whether pairs and triples of words are at distinct positions."""
        return self.recipe.moments == "unbiased"

    @property
    def counts(self) -> bool:
        """Whether words count as often as they occur."""
        return self.recipe.counts
