"""Starts of a refinement HMM: from moments of labeled sequences in two passes, or at random."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.engine import summarize
from dspectral.inputs.parameters import check_option, check_real
from dspectral.inputs.sequences import LabelledCorpus
from dspectral.methods.hmm.chain import HiddenMarkov, m_step
from dspectral.methods.hmm.refinement.moments import OperatorMoments, ViewMoments, Views
from dspectral.methods.hmm.refinement.operators import Operators, operators, projections, recover
from dspectral.registry import saved

MIXING = 0.05
"""Weight of the mean over its label that is mixed into each refinement before EM, which never changes a zero."""
N_DIMENSIONS = 12
"""Length of the random vectors that stand for types of tokens in the views, if there are more types."""


@saved
class RefinementRecipe(NamedTuple):
    """Settings of :class:`~dspectral.RefinementHMM` that studies compare and users leave as they are.

    The first two are of the views that stand for the past and the future of a token.

    Attributes
    ----------
    memory : sequence of float in [0, 1], default=(0.5,)
        Decay rates, from token to token, of exponentially weighted sums over the whole side of a sequence.
    run_memory : sequence of float in [0, 1], default=(0.9,)
        Decay rates of sums that restart where the label changes. There must be at least one rate in the two.
    decoding : {"parameters", "operators"}, default="parameters"
        Whether labels are found with the parameters recovered from the moments (all positive), or by chain
        products of observable operators, whose negative shares are set to 0 and counted. Operators allow no EM.
    tol : float, default=1e-5
        EM ends when a pass raises the log-likelihood by less than this fraction of it.

    Examples
    --------
    >>> RefinementRecipe(run_memory=(0.7, 0.95)).memory
    (0.5,)
    """

    memory: Sequence[float] = (0.5,)
    run_memory: Sequence[float] = (0.9,)
    decoding: Literal["parameters", "operators"] = "parameters"
    tol: float = 1e-5

    def check(self) -> None:
        """Raise a ValueError or a TypeError that names the first field which cannot be."""
        decays = [*self.memory, *self.run_memory]
        if not decays or not all(0.0 <= decay <= 1.0 for decay in decays):
            raise ValueError(
                f"memory and run_memory are {decays}, but must hold at least one decay rate from 0 to 1"
            )
        check_option("decoding", self.decoding, ("parameters", "operators"))
        check_real("tol", self.tol)


class Start(NamedTuple):
    """A refinement HMM before EM.

    `model`: parameters, one state for each refinement of each label; `n_refinements` (n_labels,): number of
    refinements of each label; `operators`: observable operators; `correlations` (n_labels, m - 1): canonical
    correlations of past and future within each label; `n_negative`: number of counts that came out of the
    moments negative; `n_passes`: number of passes over the sequences.
    """

    model: HiddenMarkov
    n_refinements: NDArray[np.int64]
    operators: Operators | None = None
    correlations: NDArray[np.float64] | None = None
    n_negative: int = 0
    n_passes: int = 0


def start_with_moments(
    corpus: LabelledCorpus, m: int, *, recipe: RefinementRecipe, smoothing: float, random_state: int
) -> Start:
    """Find the parameters from moments."""
    views = _views(len(corpus.words), len(corpus.labels), recipe, random_state)
    # First pass: second moments of the views give, for each label, projections to m coordinates. Second pass: moments
    # of the projected views and the tokens, from which operators and parameters follow without another pass.
    if m == 1:  # nothing to tell apart: the views are nothing but their constant
        views = views._replace(memory=np.empty(0), run_memory=np.empty(0))
        found = projections(np.zeros((views.n_labels, 1, 1)), m)
    else:
        gram = summarize(corpus.sentences, of=partial(ViewMoments.of, views=views), name="views").gram
        found = projections(gram, m)
    of = partial(OperatorMoments.of, views=views, past=found.past, future=found.future)
    moments = summarize(corpus.sentences, of=of, name="moments")
    # A label with fewer types than refinements cannot tell more refinements apart than types.
    n_types = np.sum(moments.joint[:, :, 0, 0] > 0, axis=1)
    n_refinements = np.clip(n_types, 1, found.n_refinements)
    recovered = recover(*moments, n_refinements)
    return Start(
        m_step(recovered.counts, smoothing=smoothing),
        n_refinements,
        operators(*moments, n_refinements),
        found.correlations,
        recovered.n_negative,
        1 + (m > 1),
    )


def start_at_random(corpus: LabelledCorpus, m: int, *, random_state: int) -> Start:
    """Draw all parameters of a model with m refinements for each label."""
    rng = np.random.default_rng(random_state)
    n_refinements = np.full(len(corpus.labels), m)
    n = int(n_refinements.sum())
    shapes = ((n,), (n, n), (len(corpus.words), n), (n,))
    return Start(m_step(HiddenMarkov(*(rng.standard_exponential(shape) for shape in shapes))), n_refinements)


def mix_refinements(model: HiddenMarkov, bounds: NDArray[np.int64]) -> HiddenMarkov:
    """Mix the parameters of each refinement with a little of their mean over its label: EM never changes a zero."""
    initial, transition, emission = (np.array(part) for part in model[:3])
    for start, end in pairwise(bounds):
        for part in (initial, transition, emission):
            # The slice is a view, so the parameters themselves change. Sums stay 1 without another division: a label's
            # entries of a row keep their sum, and a column of emissions becomes a mean of distributions.
            own = part[..., start:end]
            own += MIXING * (own.mean(axis=-1, keepdims=True) - own)
    return HiddenMarkov.of(initial, transition, emission, model.final)


def _views(n_types: int, n_labels: int, recipe: RefinementRecipe, random_state: int) -> Views:
    """Return the views: a unit vector for each type where there are few, and random vectors otherwise."""
    # Random vectors keep inner products of sums about as they are, and the moments small.
    vectors = np.eye(n_types)
    if n_types > N_DIMENSIONS:
        rng = np.random.default_rng(random_state)
        vectors = rng.standard_normal((n_types, N_DIMENSIONS))
    memory, run_memory = (np.asarray(part, float) for part in (recipe.memory, recipe.run_memory))
    return Views(vectors, memory, run_memory, n_labels)
