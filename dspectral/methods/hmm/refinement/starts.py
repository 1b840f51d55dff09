"""Initial parameters of a refinement HMM: from moments of labeled sequences in two passes, or random."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Literal, NamedTuple, Self

import numpy as np

from dspectral._compiled import read_only
from dspectral.engine import summarize
from dspectral.engine.summary import add_fields
from dspectral.inputs.sequences import LabeledCorpus
from dspectral.methods.hmm.chain import HiddenMarkov, m_step
from dspectral.methods.hmm.refinement.operators import Operators, compute_projections, find_operators, recover_counts
from dspectral.methods.hmm.refinement.recursions import add_products, write_views
from dspectral.parameters import MAX_REAL, check_option, check_real
from dspectral.registry import register_class
from dspectral.types import Doubles, Int32s, Int64s, LabeledSentences, check_ids

PANEL_TOKENS = 1 << 12
"""Number of tokens whose views are in memory at once; a longer sentence is a panel of its own."""
MIXING = 0.05
"""Weight of the mean over a label that is mixed into its refinements before EM."""
N_DIMENSIONS = 12
"""Length of the random vectors of types in the views, if there are more types."""


@register_class()
class RefinementRecipe(NamedTuple):
    """Options of :class:`~dspectral.RefinementHMM` that rarely need a change.

    Attributes
    ----------
    memory : sequence of float in [0, 1], default=(0.5,)
        Decay rates per token of exponentially weighted sums over all tokens on one side.
    run_memory : sequence of float in [0, 1], default=(0.9,)
        Decay rates of sums that restart where the label changes. The two sequences need at least one rate together.
    decoding : {"parameters", "operators"}, default="parameters"
        Whether to predict labels from parameters or from products of operators. Operators exclude EM.
    tol : float, default=1e-5
        EM stops when a pass increases the log-likelihood by less than this fraction of it.
    """

    memory: Sequence[float] = (0.5,)
    run_memory: Sequence[float] = (0.9,)
    decoding: Literal["parameters", "operators"] = "parameters"
    tol: float = 1e-5

    def check(self) -> None:
        """Raise a ValueError or TypeError for the first invalid field."""
        for rate in (rates := (*self.memory, *self.run_memory)):
            check_real("a decay rate of memory or run_memory", rate, at_least=0.0, at_most=1.0)
        if not rates:
            raise ValueError("memory and run_memory are empty, but need at least one decay rate from 0 to 1 together")
        check_option("decoding", self.decoding, ("parameters", "operators"))
        check_real("tol", self.tol, at_least=-MAX_REAL, at_most=MAX_REAL)


class Views(NamedTuple):
    """Views of the past and the future of a token: sums over one side that decay with distance.

    `vectors` (n_types, k); `memory`: decay rates of sums of vectors, labels and ones over all tokens on one side;
    `run_memory`: decay rates of sums of vectors and ones that restart where the label changes.
    """

    vectors: Doubles
    memory: Doubles
    run_memory: Doubles
    n_labels: int

    @property
    def width(self) -> int:
        """Number of entries of one view."""
        k = int(self.vectors.shape[1])
        return len(self.memory) * (k + self.n_labels + 1) + len(self.run_memory) * (k + 1)

    def compute(self, block: LabeledSentences) -> Doubles:
        """Return ``[past, future, 1]`` of all tokens, shape (n_tokens, 2 width + 1)."""
        width = self.width
        rows = np.empty((len(block.ids), 2 * width + 1))
        rows[:, -1] = 1.0
        vectors, memory, run_memory = (read_only(part) for part in self[:3])
        for step, out in ((1, rows[:, :width]), (-1, rows[:, width : 2 * width])):
            write_views(block, vectors, memory, run_memory, self.n_labels, step, out)
        return rows


class ViewMoments(NamedTuple):
    """Sums of ``row' row`` with ``row = [past, future, 1]``, shape (n_labels, 2 width + 1, 2 width + 1)."""

    gram: Doubles

    @classmethod
    def from_block(cls, block: LabeledSentences, *, views: Views) -> Self:
        """Summarize one block."""
        _check_ids(block, views)
        # Views are computed for one panel at a time: 8 PANEL_TOKENS (2 width + 1) bytes. Time: O(n width^2).
        width = 2 * views.width + 1
        gram = np.zeros((views.n_labels, width, width))
        for panel in split_into_panels(block):
            rows = views.compute(panel)
            # Grouping by label turns moments into matrix products.
            for label in np.unique(panel.labels):
                label_rows = rows[panel.labels == label]
                gram[label] += label_rows.T @ label_rows
        return cls(gram)

    def merge(self, *others: Self) -> Self:
        """Return the moments of all sentences."""
        return add_fields(self, *others)


class OperatorMoments(NamedTuple):
    """Second and third moments of projected past, token and projected future, whose first coordinates are 1.

    Shapes: `joint` (n_labels, n_types, m, m): sums of ``future past'``; `steps` (n_labels, n_labels, m, m): sums of
    the next token's future times the token's past; `first, last` (n_labels, m).
    """

    joint: Doubles
    steps: Doubles
    first: Doubles
    last: Doubles

    @classmethod
    def from_block(cls, block: LabeledSentences, *, views: Views, past: Doubles, future: Doubles) -> Self:
        """Summarize one block, given projections, shape (n_labels, width + 1, m) each."""
        n_types, n_labels, m = len(views.vectors), views.n_labels, past.shape[2]
        _check_ids(block, views)
        out = cls(
            np.zeros((n_labels, n_types, m, m)),
            np.zeros((n_labels, n_labels, m, m)),
            np.zeros((n_labels, m)),
            np.zeros((n_labels, m)),
        )
        # One projection (2 width + 1, 2 m) of past and future costs O(n width m); the sums add O(n m^2).
        joined = join_projections(past, future)
        for panel in split_into_panels(block):
            rows = project_rows(views.compute(panel), panel.labels, joined)
            add_products(panel, rows[:, :m], rows[:, m:], *out)
        return out

    def merge(self, *others: Self) -> Self:
        """Return the moments of all sentences."""
        return add_fields(self, *others)


def join_projections(past: Doubles, future: Doubles) -> Doubles:
    """Return the joint projection of ``[past, future, 1]``, shape (n_labels, 2 width + 1, 2 m)."""
    # Block-diagonal except for the last row, which subtracts the means.
    n_labels, width, m = past.shape[0], past.shape[1] - 1, past.shape[2]
    joined = np.zeros((n_labels, 2 * width + 1, 2 * m))
    joined[:, :width, :m], joined[:, width:-1, m:] = past[:, :-1], future[:, :-1]
    joined[:, -1, :m], joined[:, -1, m:] = past[:, -1], future[:, -1]
    return joined


def project_rows(rows: Doubles, labels: Int32s, projections: Doubles) -> Doubles:
    """Multiply each row by the projection of its label, shape (n_tokens, 2 m)."""
    out = np.empty((len(rows), projections.shape[2]))
    for label in np.unique(labels):
        # One matrix product for each label.
        has_label = labels == label
        out[has_label] = rows[has_label] @ projections[label]
    return out


def _check_ids(block: LabeledSentences, views: Views) -> None:
    check_ids(block.ids, len(views.vectors))
    check_ids(block.labels, views.n_labels, "label")


def split_into_panels(block: LabeledSentences) -> Iterator[LabeledSentences]:
    """Yield panels of whole sentences with at most ``PANEL_TOKENS`` tokens, or one longer sentence."""
    start, n = 0, len(block.offsets) - 1
    while start < n:
        stop = int(np.searchsorted(block.offsets, block.offsets[start] + PANEL_TOKENS, side="right")) - 1
        stop = min(n, max(start + 1, stop))
        low, high = block.offsets[start], block.offsets[stop]
        yield LabeledSentences(
            read_only(block.ids[low:high]),
            read_only(block.labels[low:high]),
            read_only(block.offsets[start : stop + 1] - low),
        )
        start = stop


class Start(NamedTuple):
    """Initial parameters of a refinement HMM; fields as the attributes of the estimator."""

    model: HiddenMarkov
    n_refinements: Int64s
    operators: Operators | None = None
    correlations: Doubles | None = None
    n_passes: int = 0


def start_with_moments(
    corpus: LabeledCorpus, m: int, *, recipe: RefinementRecipe, smoothing: float, random_state: int
) -> Start:
    """Return initial parameters from moments."""
    views = _make_views(len(corpus.words), len(corpus.labels), recipe, random_state)
    # The first pass computes second moments of the views, which give projections to m coordinates for each label. The
    # second computes moments of projected views and tokens, which give operators and parameters.
    if m == 1:  # the views are only the constant
        views = views._replace(memory=np.empty(0), run_memory=np.empty(0))
        label_projections = compute_projections(np.zeros((views.n_labels, 1, 1)), m)
    else:
        gram = summarize(
            corpus.sentences, summarize_block=partial(ViewMoments.from_block, views=views), name="views"
        ).gram
        label_projections = compute_projections(gram, m)
    summarize_block = partial(
        OperatorMoments.from_block, views=views, past=label_projections.past, future=label_projections.future
    )
    moments = summarize(corpus.sentences, summarize_block=summarize_block, name="moments")
    # A label has at most as many refinements as types.
    n_types = np.sum(moments.joint[:, :, 0, 0] > 0, axis=1)
    n_refinements = np.clip(n_types, 1, label_projections.n_refinements)
    counts = recover_counts(*moments, n_refinements)
    return Start(
        m_step(counts, smoothing=smoothing),
        n_refinements,
        find_operators(*moments, n_refinements),
        label_projections.correlations,
        1 + (m > 1),
    )


def start_at_random(corpus: LabeledCorpus, m: int, *, random_state: int) -> Start:
    """Return random initial parameters with m refinements for each label."""
    rng = np.random.default_rng(random_state)
    n_refinements = np.full(len(corpus.labels), m)
    n = int(n_refinements.sum())
    shapes = ((n,), (n, n), (len(corpus.words), n), (n,))
    return Start(m_step(HiddenMarkov(*(rng.standard_exponential(shape) for shape in shapes))), n_refinements)


def mix_refinements(model: HiddenMarkov, bounds: Int64s) -> HiddenMarkov:
    """Return the model with each refinement mixed with the mean over its label, which removes zeros before EM."""
    initial, transition, emission = (np.array(part) for part in model[:3])
    for start, end in pairwise(bounds):
        for part in (initial, transition, emission):
            # In place through a view. Distributions still sum to 1.
            label_states = part[..., start:end]
            label_states += MIXING * (label_states.mean(axis=-1, keepdims=True) - label_states)
    return HiddenMarkov(initial, transition, emission, model.final).as_read_only()


def _make_views(n_types: int, n_labels: int, recipe: RefinementRecipe, random_state: int) -> Views:
    """Return the views, with unit vectors for few types and random vectors for many."""
    # Random projections approximately preserve inner products and keep the moments small.
    vectors = np.eye(n_types)
    if n_types > N_DIMENSIONS:
        rng = np.random.default_rng(random_state)
        vectors = rng.standard_normal((n_types, N_DIMENSIONS))
    memory, run_memory = (np.asarray(part, float) for part in (recipe.memory, recipe.run_memory))
    return Views(vectors, memory, run_memory, n_labels)
