"""Settings of the method of moments for many labels: those that papers and ablations change, and all of a fit."""

from typing import Any, Literal, NamedTuple

from dspectral.inputs.parameters import MOST_READS, check_integer, check_option, check_real, resolve_seed
from dspectral.registry import saved

MomentKind = Literal["paper", "unbiased"]
TensorMethod = Literal["auto", "power", "batches", "diagonalise"]

N_STATES = 100
"""States for ``"auto"``: on Bibtex and Reuters they gain 3 to 6 percent over 50 in precision of the first label."""
SMOOTHINGS = (0.9, 0.3)
"""Shares of the corpus that are tried, the one that wins on real documents first."""
EM_PASSES = (0, 2)
"""Numbers of passes of EM that are tried."""
ALPHAS = (1e-2, 3e-3, 1e-3, 3e-2, 1e-1, 3e-1)
"""Penalties that are tried, for the documents that learn."""


@saved
class MultiLabelRecipe(NamedTuple):
    """How the moments are taken and decomposed, by default as in the paper, and the penalty of the correction.

    Attributes
    ----------
    moments : {"paper", "unbiased"}
        ``"paper"``: a word is paired with itself (equations 16 to 21); ``"unbiased"``: distinct positions alone.
    counts : bool
        Whether words count as often as they occur, from which alone unbiased moments recover the model.
    tensor : {"auto", "power", "batches", "diagonalise"}
        ``"power"``: the power method with deflation, one state after the other; ``"batches"`` (``"auto"``): up to 16
        a round, a fraction of the time from some 100 states on; ``"diagonalise"``: simultaneous diagonalization.
    alpha : float or "auto", default="auto"
        Ridge penalty of the linear correction, in units of the features' mean eigenvalue; ``"auto"`` is chosen.
    """

    moments: MomentKind = "paper"
    counts: bool = False
    tensor: TensorMethod = "auto"
    alpha: float | Literal["auto"] = "auto"


class Settings(NamedTuple):
    """Checked settings of one fit, as :class:`~dspectral.MomentMultiLabelClassifier` explains them.

    `fewer`: whether states may be fewer than ``n_states``, as many as the words have directions; `distinct`: whether
    pairs and triples of words are at distinct positions; `undecided`: settings to choose on documents held out.
    """

    n_states: int
    fewer: bool
    smoothing: float
    n_em_iter: int
    alpha: float
    label_weight: float
    rank: int
    distinct: bool
    counts: bool
    tensor: TensorMethod
    seed: int
    undecided: tuple[str, ...]

    @classmethod
    def of(cls, estimator: Any) -> "Settings":
        """Return the settings of a fit, once they are found to make sense."""
        recipe = MultiLabelRecipe() if estimator.recipe is None else estimator.recipe
        if not isinstance(recipe, MultiLabelRecipe):
            raise TypeError(f"recipe is {recipe!r:.60}, but it must be a MultiLabelRecipe, or None")
        check_option("moments", recipe.moments, ("paper", "unbiased"))
        check_option("tensor", recipe.tensor, ("auto", "power", "batches", "diagonalise"))
        names = ("n_states", "smoothing", "n_em_iter", "alpha")
        given = {name: getattr(recipe if name == "alpha" else estimator, name) for name in names}
        auto = {name for name, value in given.items() if isinstance(value, str) and value == "auto"}
        first = dict(zip(names, (N_STATES, SMOOTHINGS[0], EM_PASSES[0], ALPHAS[0]), strict=True))
        values = {name: first[name] if name in auto else value for name, value in given.items()}
        n_states = check_integer("n_states", values["n_states"], at_least=1)
        rank = n_states if estimator.correction_rank is None else estimator.correction_rank
        rank = check_integer("correction_rank", rank, at_least=0)
        smoothing = check_real("smoothing", values["smoothing"], at_least=0.0, at_most=1.0)
        n_em_iter = check_integer("n_em_iter", values["n_em_iter"], at_least=0, at_most=MOST_READS)
        alpha = check_real("alpha", values["alpha"])
        if alpha <= 0:
            raise ValueError(f"alpha is {recipe.alpha}, but a ridge penalty is above 0")
        return cls(
            n_states,
            "n_states" in auto,
            smoothing,
            n_em_iter,
            alpha,
            label_weight=check_real("label_weight", estimator.label_weight, at_least=0.0),
            rank=rank,
            distinct=recipe.moments == "unbiased",
            counts=recipe.counts,
            tensor=recipe.tensor,
            seed=resolve_seed(estimator.random_state),
            undecided=tuple(name for name in names[1:] if name in auto and (rank or name != "alpha")),
        )
