"""The passes of the method of moments for many labels: directions, states, labels of the states, and EM after them."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.decomposition.moments import Moments
from dspectral.decomposition.random_range import RandomRange
from dspectral.decomposition.spectrum import (
    GRAM_COLUMNS,
    Certificate,
    SVDOptions,
    block_summarizer,
    spectrum_from_summary,
)
from dspectral.engine import summarize
from dspectral.inputs.labels import LabeledStreams
from dspectral.linalg.dense import column_norms, eigh_descending, fix_signs, orthonormalize_columns
from dspectral.linalg.panels import iter_panels
from dspectral.linalg.tensors import (
    OrthogonalCP,
    batched_power_method,
    contract,
    power_method,
    simultaneous_diagonalization,
    symmetric_tensor_from_pairs,
)
from dspectral.methods.multilabel.documents import DocumentSample, SampleBounds
from dspectral.methods.multilabel.latent_states import (
    LabelModel,
    Simplex,
    Whitening,
    clip_to_simplex,
    smooth_logarithms,
)
from dspectral.methods.multilabel.recipe import Settings, TensorMethod
from dspectral.methods.multilabel.summaries import (
    NO_SAMPLE,
    FirstMoments,
    SecondMoments,
    StateStatistics,
    draw_label_mixing,
)
from dspectral.text.weighting import inverse_document_frequency
from dspectral.types import FloatArray, IntArray

SOLVER: Literal["auto", "gram", "frequent_directions", "range"] = "auto"
"""Solver of the first pass: the exact matrix of pairs (``"auto"`` for unbiased moments of up to 2,048 words: 32 MiB), a
sketch by Frequent Directions, which is close to exact (``"auto"`` for those of more words), or the range of one random
product (``"auto"`` for others), which costs a fraction of it. What either errs in size, the second pass mends."""
SKETCH_SIZE: int | None = None
"""Rows of the sketch, or columns of the product; None for ``2 n_states + 10``."""
SAMPLE = (4096, 1 << 20)
"""Most documents that settings are chosen by, and most entries of their words and labels: 16 MiB."""
MAX_OWN_WORDS = 2048
"""Most features of the linear part: all words where no more occur, else the most telling ones beside the directions."""
MAX_COEFFICIENTS = 1 << 24
"""Most coefficients of single words for all labels together: 64 MiB in single precision."""
MIN_RESIDUAL_SHARE = 1e-3
"""Share of a column's length outside some directions, up to which it counts as within them."""
DECOMPOSITIONS: dict[TensorMethod, Callable[..., OrthogonalCP]] = {
    "auto": batched_power_method,
    "power": power_method,
    "batches": batched_power_method,
    "diagonalise": simultaneous_diagonalization,
}
"""Solvers of the tensor's decomposition by their names in a recipe."""
LABEL_PRIOR = 0.5
"""Count that EM adds to each label of each state: sweeps over few documents would else leave exact zeros."""


class FirstPassResult(NamedTuple):
    """Results of the first pass.

    Shapes: `document_frequency` (d,), `label_totals` (L,), `column_weights` (d,), `directions` (d, r), `own_words`
    (m,): columns that are features of the linear part, in ascending order.
    """

    whitening: Whitening
    document_frequency: NDArray[np.int64]
    label_totals: NDArray[np.int64]
    column_weights: NDArray[np.float64]
    directions: FloatArray
    own_words: IntArray
    certificate: Certificate | None
    solver: str
    sample: DocumentSample


class SecondPassResult(NamedTuple):
    """Results of the second pass: the whitened third moment's tensor, and the words and probability of each state."""

    whitening: Whitening
    tensor: OrthogonalCP
    words: Simplex
    weights: NDArray[np.float64]


def first_pass(data: LabeledStreams, settings: Settings) -> FirstPassResult:
    """Find the leading directions of the words' second moment, and of their moment with the labels."""
    plan = _solver_options(data, settings)
    if plan.solver == "range":
        n_columns = min(data.n_words, plan.n_sketch_rows)
        sketch: Callable[..., Any] = partial(RandomRange.from_block, size=n_columns, seed=settings.seed)
    else:
        sketch = block_summarizer(plan, plan.solver)
    # All words are features where they are few, and then none needs directions.
    rank = min(settings.rank, data.n_words) if data.n_words > max_own_words(data.n_labels) else 0
    # Repeated documents may make a share come out smaller: four times what is wanted is let through. But directions
    # are not found by those in the sample, which are then a tenth, or few.
    most = min(SAMPLE[0], max(256, data.n_rows // 10), data.n_rows // 4) if rank else 4 * SAMPLE[0]
    share = min(1.0, most / max(1, data.n_rows))
    of = partial(
        FirstMoments.from_block,
        sketch=sketch,
        counts=settings.counts,
        distinct=settings.distinct,
        rank=rank,
        seed=settings.seed,
        bounds=SampleBounds(*SAMPLE, share) if len(settings.scoring_candidates) > 1 else NO_SAMPLE,
    )
    found = summarize(data.words, data.labels, of=of, name="first-moments")
    if not found.label_totals.any():
        raise ValueError(f"no document has a label, of n_samples = {data.n_rows}: there is nothing to learn")
    if found.pairs <= 0:
        raise ValueError("no document has two words, so words have no second moment")
    axes, values, certificate = _whitening_axes(found, plan, settings)
    # With M2 = V S V' the whitening is W = V S^(-1/2), and V S^(1/2) is the transpose of its pseudo-inverse, which
    # takes whitened vectors back to words.
    roots = np.sqrt(values / found.pairs).astype(axes.dtype)
    whitening = Whitening(np.ascontiguousarray(axes.T / roots), np.ascontiguousarray(axes.T * roots))
    weights = inverse_document_frequency(found.document_frequency, data.n_rows)
    # The correction's features weigh words by idf, so directions do as well: idf is known only after the pass.
    own_words, directions = _select_features(found, weights, data, settings)
    counts = found.document_frequency, found.label_totals
    return FirstPassResult(
        whitening, *counts, weights, directions, own_words, certificate, plan.solver, found.sample
    )


def _solver_options(data: LabeledStreams, settings: Settings) -> SVDOptions:
    """Return the sizes and the solver of the first pass."""
    most = min(data.n_rows, data.n_words)
    k = min(settings.n_states, most) if settings.allow_fewer_states else settings.n_states
    if not 1 <= k <= most:
        raise ValueError(
            f"n_states is {settings.n_states}, but it must be from 1 to {most}: "
            f"n_samples = {data.n_rows} documents, n_features = {data.n_words} words"
        )
    solver: str = SOLVER
    if solver == "auto" and settings.distinct:
        # Without its diagonal the moment is indefinite, and one random product says too little about it.
        solver = "gram" if data.n_words <= GRAM_COLUMNS else "frequent_directions"
    elif solver == "auto":
        solver = "range"
    plan = SVDOptions(k, solver=solver, sketch_size=SKETCH_SIZE, seed=settings.seed, dtype=data.dtype)
    if settings.distinct:
        # Taking a diagonal off reorders the eigenvalues: all that the sketch holds are kept until then.
        plan = plan._replace(n_components=most if solver == "gram" else min(most, plan.n_sketch_rows))
    return plan


def max_own_words(n_labels: int) -> int:
    """Return how many single words may be features, for so many labels."""
    return min(MAX_OWN_WORDS, MAX_COEFFICIENTS // max(1, n_labels))


def _select_features(
    found: FirstMoments, weights: NDArray[np.float64], data: LabeledStreams, settings: Settings
) -> tuple[IntArray, FloatArray]:
    """Return the single words that are features of the linear part (m,), and its directions (d, r)."""
    occurring, most = np.flatnonzero(found.document_frequency), max_own_words(data.n_labels)
    if not settings.rank or len(occurring) <= most:
        return occurring[: most if settings.rank else 0], np.zeros((data.n_words, 0), dtype=data.dtype)
    # The most telling are those whose covariance with all labels, A_u' (Y - mean) Omega, is longest.
    A, s = found.label_range, found.unit_total
    mean = found.label_totals / data.n_rows @ draw_label_mixing(data.n_labels, A.shape[1], settings.seed)
    length = np.einsum("ij,ij->i", A, A, dtype=np.float64) + s * (s * (mean @ mean) - 2.0 * (A @ mean))
    most = max(0, most - 2 * A.shape[1])
    own_words = np.sort(np.argsort(-length * weights**2, kind="stable")[:most])
    scaled = A * weights[:, None].astype(np.float32)
    return own_words, orthonormalize_columns(scaled.astype(data.dtype, copy=False))


def _whitening_axes(
    found: FirstMoments, plan: SVDOptions, settings: Settings
) -> tuple[FloatArray, NDArray[np.float64], Certificate | None]:
    """Return eigenvectors of the second moment (rows), its eigenvalues, not yet divided by the pairs, and a bound."""
    # The unbiased moment is A'A less its diagonal of a word paired with itself, D = diag(sum of the rows). A Gram
    # matrix gives it exactly; a random range multiplies by it; a Frequent Directions sketch V diag(s) V' is corrected
    # within its own directions, diag(s) - V' D V.
    k, sketch = min(plan.n_components, settings.n_states), found.sketch
    if isinstance(sketch, RandomRange):
        # The bound is what the found directions leave of the trace; it holds for a positive semidefinite moment, which
        # that without its diagonal is not.
        axes, values = sketch.leading(k, off_diagonal=sketch.total if settings.distinct else None)
        left = max(0.0, sketch.energy - float(values.sum()))
        certificate = None if settings.distinct else Certificate(left, left / max(sketch.energy, 1e-300))
    elif settings.distinct and isinstance(sketch, Moments):
        values, vectors = eigh_descending(sketch.gram - np.diag(sketch.total))
        axes = fix_signs(np.ascontiguousarray(vectors.T, dtype=plan.dtype))
        certificate = spectrum_from_summary(sketch, plan).certificate
    else:
        spectrum = spectrum_from_summary(sketch, plan)
        axes, values, certificate = spectrum.axes, spectrum.values, spectrum.certificate
        if settings.distinct:
            inside = np.diag(values) - (axes * sketch.total) @ axes.T.astype(np.float64)
            values, vectors = eigh_descending(inside)
            axes = fix_signs(vectors.T.astype(axes.dtype) @ axes)
    # Whitening divides by the roots of the eigenvalues: directions of rounding would be blown up to unit size.
    usable = int(np.sum(values > 1e-7 * values[0])) if len(values) else 0
    if settings.allow_fewer_states:
        k = min(k, usable)
    if usable < max(k, 1):
        raise ValueError(
            f"n_states is {k}, but the words have only {usable} independent direction(s): "
            f"ask for at most {usable} states"
        )
    return axes[:k], values[:k], certificate


def extend_directions(directions: FloatArray, gram_directions: FloatArray) -> FloatArray:
    """Return directions (d, r), and beside them those of the words that they lead to."""
    # What a linear model of the labels leaves of them has its gradient among these columns: they are the second block
    # of a Krylov space, whose first are the directions. Twice, since once leaves rounding along the directions.
    left = gram_directions.astype(directions.dtype)
    whole = column_norms(left)
    for _ in range(2):
        inside = directions.T @ left
        for panel in iter_panels(len(left)):  # no second array of that size
            left[panel] -= directions[panel] @ inside
    # A column that lay within the directions leaves nothing but rounding, which says nothing of words.
    outside = column_norms(left) > MIN_RESIDUAL_SHARE * whole
    left = left if outside.all() else np.ascontiguousarray(left[:, outside])
    return np.concatenate([directions, orthonormalize_columns(left, overwrite=True)], axis=1)


def second_pass(
    data: LabeledStreams, leading: FirstPassResult, settings: Settings
) -> tuple[FirstPassResult, SecondPassResult]:
    """Whiten exactly, decompose the third moment, and find further directions of the linear correction."""
    # With W'M2 W = I, M3(W, W, W) = sum_j pi_j^(-1/2) u_j x u_j x u_j for orthonormal u_j: its decomposition gives
    # pi from the values and mu_j, up to scale, as (W^+)' u_j. Cost: n k^3 / 3 for the moment (in the tasks), for the
    # power method some 50 k^4 in batches and 120 k^4 one by one, for the diagonalization some 100 k^4, in this process.
    of = partial(
        SecondMoments.from_block,
        whitening=leading.whitening.forward,
        counts=settings.counts,
        distinct=settings.distinct,
        directions=leading.directions,
        column_weights=leading.column_weights,
    )
    moments = summarize(data.words, of=of, name="third-moment")
    if moments.triples <= 0:
        raise ValueError("no document has three words, so words have no third moment")
    # The sketch of the first pass errs in the size of its directions; the exact second moment within them, from the
    # same pass as the third, mends the whitening, and the tensor is turned along with it.
    values, vectors = eigh_descending(moments.second / moments.pairs)
    # Whitening divides by the roots of these values: a direction with less than a thousandth of the largest would
    # blow noise up to unit size.
    usable = int(np.sum(values > 1e-3 * values[0])) if values[0] > 0 else 0
    if 0 < usable < len(values) and settings.allow_fewer_states:
        values, vectors = values[:usable], vectors[:, :usable]
        R, inverse = vectors / np.sqrt(values), vectors * np.sqrt(values)
    elif usable < len(values):
        raise ValueError(
            f"n_states is {len(values)}, but the words have only {usable} independent direction(s): "
            f"ask for at most {usable} states"
        )
    else:
        # The symmetric root turns the directions least; any R with R' second R = I would whiten.
        R = (vectors / np.sqrt(values)) @ vectors.T
        inverse = (vectors * np.sqrt(values)) @ vectors.T
    forward, back = (
        side @ turn.astype(side.dtype) for side, turn in zip(leading.whitening, (R, inverse), strict=True)
    )
    T = contract(symmetric_tensor_from_pairs(moments.third / moments.triples), R)
    tensor = DECOMPOSITIONS[settings.tensor](T, seed=settings.seed)
    # Whitening took mu_j to a multiple of the j-th vector; its sign is lost, and a distribution sums to above 0.
    columns = back @ tensor.vectors.astype(back.dtype)
    words = clip_to_simplex(columns * np.where(columns.sum(axis=0) < 0, -1, 1).astype(back.dtype))
    # The values are 1 / sqrt(pi) (section 2.3). No probability is above 1, so a value below 1 is noise.
    weights = 1.0 / np.maximum(tensor.values, 1.0) ** 2
    if leading.directions.size:
        leading = leading._replace(directions=extend_directions(leading.directions, moments.gram_directions))
    return leading, SecondPassResult(Whitening(forward, back), tensor, words, weights / weights.sum())


def label_pass(
    data: LabeledStreams,
    leading: FirstPassResult,
    states: SecondPassResult,
    settings: Settings,
    before: LabelModel | None = None,
) -> LabelModel:
    """Estimate the labels of each state, or take one step of EM from the model of the pass before."""
    # Third pass: for w_j = W u_j, E[y (w_j'x)^2] is a multiple of gamma_j: the moment of labels with pairs of words,
    # contracted document by document, so nothing of size L d^2 is formed. Cost: 2 (nnz of words + nnz of labels) k.
    # E-step: p(j | x, y) proportional to pi_j prod_v mu_vj^(x_v) prod_l gamma_lj^(label_weight y_l), with mu and gamma
    # smoothed. M-step: pi, mu and gamma are the sums of the posteriors, of the words and of the labels under them,
    # divided by their totals; gamma with half a count more in every entry. Invariant: without smoothing, label_weight
    # and prior the likelihood never falls. One pass.
    squares = log_labels = None
    background = leading.document_frequency.astype(np.float64)
    if before is None:
        squares = states.whitening.forward @ states.tensor.vectors.astype(data.dtype)
        log_words = smooth_logarithms(states.words.columns, background, settings.smoothing)
        weights = states.weights
    else:
        log_words, weights = before.log_words, before.weights
        if settings.label_weight:
            log_labels = np.float32(settings.label_weight) * smooth_logarithms(
                before.labels.columns.astype(np.float32),
                leading.label_totals.astype(np.float64),
                settings.smoothing,
            )
    of = partial(
        StateStatistics.from_block,
        log_words=log_words,
        log_weights=np.log(weights),
        directions=leading.directions,
        own_words=leading.own_words,
        log_labels=log_labels,
        squares=squares,
        column_weights=leading.column_weights,
        counts=settings.counts,
        distinct=settings.distinct,
    )
    name = "state-labels" if before is None else "expectation"
    found = summarize(data.words, data.labels, of=of, name=name)
    likelihood = found.log_likelihood / max(1, found.n_rows)
    if before is None:
        labels = clip_to_simplex(found.labels)
        return LabelModel(
            log_words, weights, states.words, labels, found.regression, found.label_state_counts, likelihood
        )
    words, labels = clip_to_simplex(found.words), clip_to_simplex(found.labels, LABEL_PRIOR)
    log_words = smooth_logarithms(words.columns, background, settings.smoothing)
    # A state that no document is in keeps a weight whose logarithm is finite.
    weights = np.maximum(found.weights / found.weights.sum(), 1e-300)
    return LabelModel(
        log_words, weights, words, labels, found.regression, found.label_state_counts, likelihood
    )
