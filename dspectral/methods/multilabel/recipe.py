"""Options of the multi-label classifier: the public recipe, and the checked settings of a fit."""

from typing import Any, Literal, NamedTuple

from dspectral.methods.multilabel.latent_states import ScoringWeights
from dspectral.parameters import MAX_READS, check_integer, check_option, check_real, resolve_recipe, resolve_seed
from dspectral.registry import register_class

MomentKind = Literal["paper", "unbiased"]
TensorMethod = Literal["auto", "power", "batches", "diagonalise"]
PredictFor = Literal["f1", "subset", "mean_number"]

N_STATES = 50
"""Number of states for ``"auto"``."""
CANDIDATES = tuple(
    ScoringWeights(odds_alpha, weight, 3.0) for weight in (5.0, 200.0) for odds_alpha in (0.2, 0.07, 0.4, 0.02)
) + tuple(ScoringWeights(0.2, weight, 3.0, states) for states in (1.0, 0.5, 0.75) for weight in (5.0, 200.0))
"""Candidates of model selection, in order of preference on ties."""


@register_class()
class MultiLabelRecipe(NamedTuple):
    """Options of :class:`~dspectral.MomentMultiLabelClassifier` that rarely need a change.

    Attributes
    ----------
    moments : {"paper", "unbiased"}
        ``"paper"``: includes pairs of a word with itself (equations 16 to 21); ``"unbiased"``: distinct positions only.
    counts : bool
        Whether moments use word counts rather than occurrence. Unbiased moments need counts to recover the model.
    tensor : {"auto", "power", "batches", "diagonalise"}
        ``"power"``: power method with deflation; ``"batches"`` (``"auto"``): the same for up to 16 states at a time,
        faster from about 100 states; ``"diagonalise"``: simultaneous diagonalization.
    alpha : float or "auto", default="auto"
        Penalty of the log-odds in the linear model, for documents of unit length; ``"auto"`` selects it.
    """

    moments: MomentKind = "paper"
    counts: bool = False
    tensor: TensorMethod = "auto"
    alpha: float | Literal["auto"] = "auto"


class Settings(NamedTuple):
    """Checked settings of one fit of :class:`~dspectral.MomentMultiLabelClassifier`.

    `allow_fewer_states`: whether to reduce ``n_states`` to the rank of the words; `distinct`: whether moments exclude
    pairs of a position with itself; `scoring_candidates`: scorings for model selection.
    """

    n_states: int
    allow_fewer_states: bool
    smoothing: float
    n_em_iter: int
    label_weight: float
    rank: int
    distinct: bool
    counts: bool
    tensor: TensorMethod
    seed: int
    scoring_candidates: tuple[ScoringWeights, ...]
    predict_for: PredictFor

    @classmethod
    def from_estimator(cls, estimator: Any) -> "Settings":
        """Return the checked settings of an estimator."""
        recipe = resolve_recipe(estimator.recipe, MultiLabelRecipe)
        check_option("moments", recipe.moments, ("paper", "unbiased"))
        check_option("tensor", recipe.tensor, ("auto", "power", "batches", "diagonalise"))
        allow_fewer_states = isinstance(estimator.n_states, str) and estimator.n_states == "auto"
        n_states = check_integer("n_states", N_STATES if allow_fewer_states else estimator.n_states, at_least=1)
        rank = n_states if estimator.correction_rank is None else estimator.correction_rank
        candidates = CANDIDATES
        if not (isinstance(recipe.alpha, str) and recipe.alpha == "auto"):
            alpha = check_real("alpha", recipe.alpha)
            if alpha <= 0:
                raise ValueError(f"alpha={recipe.alpha} must be above 0")
            candidates = tuple(
                candidate._replace(odds_alpha=alpha) for candidate in CANDIDATES if candidate.odds_alpha == 0.2
            )
        return cls(
            n_states,
            allow_fewer_states,
            check_real("smoothing", estimator.smoothing, at_least=0.0, at_most=1.0),
            check_integer("n_em_iter", estimator.n_em_iter, at_least=0, at_most=MAX_READS),
            label_weight=check_real("label_weight", estimator.label_weight, at_least=0.0),
            rank=check_integer("correction_rank", rank, at_least=0),
            distinct=recipe.moments == "unbiased",
            counts=recipe.counts,
            tensor=recipe.tensor,
            seed=resolve_seed(estimator.random_state),
            scoring_candidates=candidates,
            predict_for=check_option("predict_for", estimator.predict_for, ("f1", "subset", "mean_number")),
        )
