"""Passes of the method of moments for many labels: directions, states, labels of the states, and EM."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dspectral.decomposition.moments import GramProduct, Moments
from dspectral.decomposition.spectrum import (
    GRAM_COLUMNS,
    Certificate,
    SVDOptions,
    block_summarizer,
    spectrum_from_summary,
)
from dspectral.engine import summarize
from dspectral.inputs.labels import LabeledStreams
from dspectral.linalg.dense import (
    column_norms,
    eigh_descending,
    fix_signs,
    leading_eigenpairs,
    orthonormalize_columns,
)
from dspectral.linalg.panels import column_gram, inner_products, iter_panels
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
from dspectral.types import Doubles, FloatArray, Int64s, IntArray

SAMPLE = (4096, 1 << 20)
"""Maximum number of held-out documents, and of entries of their words and labels (16 MiB)."""
MAX_OWN_WORDS = 2048
"""Maximum number of features of the linear model: words and directions."""
MAX_COEFFICIENTS = 1 << 24
"""Maximum number of word coefficients for all labels (64 MiB in single precision)."""
MARGIN = 64.0
"""Eigenvalues above this multiple of rounding count towards the rank; the Nystrom formula divides by small values."""
MIN_RESIDUAL_SHARE = 1e-3
"""Relative residual norm below which a column counts as linearly dependent."""
DECOMPOSITIONS: dict[TensorMethod, Callable[..., OrthogonalCP]] = {
    "auto": batched_power_method,
    "power": power_method,
    "batches": batched_power_method,
    "diagonalise": simultaneous_diagonalization,
}
"""Tensor decompositions by their names in a recipe."""
LABEL_PRIOR = 0.5
"""Pseudocount of each label of each state in EM."""


class FirstPassResult(NamedTuple):
    """Results of the first pass.

    Shapes: `document_frequency` (d,), `label_totals` (L,), `column_weights` (d,), `directions` (d, r), `own_words`
    (m,): words with coefficients of their own, ascending.
    """

    whitening: Whitening
    document_frequency: Int64s
    label_totals: Int64s
    column_weights: Doubles
    directions: FloatArray
    own_words: IntArray
    certificate: Certificate
    solver: str
    sample: DocumentSample


class SecondPassResult(NamedTuple):
    """Results of the second pass: decomposition of the whitened third moment, and words and weight of each state."""

    whitening: Whitening
    tensor: OrthogonalCP
    words: Simplex
    weights: Doubles


def first_pass(data: LabeledStreams, settings: Settings) -> FirstPassResult:
    """Return the leading directions of the second moment of words, and of their moment with the labels."""
    options = _solver_options(data, settings)
    if options.solver == "range":
        sketch: Callable[..., Any] = partial(GramProduct.from_block, factor=_draw_normals(data.n_words, options))
    else:
        sketch = block_summarizer(options, options.solver, centers_dense=False)
    # Directions are only needed if some words are not features.
    rank = min(settings.rank, data.n_words) if data.n_words > get_max_own_words(data.n_labels) else 0
    # Directions exclude the sample, which is then at most a tenth of the documents. Without directions the sample
    # takes four times as many documents as needed, because duplicates reduce it.
    n_sample = min(SAMPLE[0], max(256, data.n_rows // 10), data.n_rows // 4) if rank else 4 * SAMPLE[0]
    share = min(1.0, n_sample / max(1, data.n_rows))
    summarize_block = partial(
        FirstMoments.from_block,
        sketch=sketch,
        use_counts=settings.counts,
        exclude_self_pairs=settings.distinct,
        rank=rank,
        seed=settings.seed,
        bounds=SampleBounds(*SAMPLE, share) if len(settings.scoring_candidates) > 1 else NO_SAMPLE,
    )
    moments = summarize(data.words, data.labels, summarize_block=summarize_block, name="first-moments")
    if not moments.label_totals.any():
        raise ValueError(f"y has no label in n_samples = {data.n_rows} documents, but needs at least one")
    if moments.pairs <= 0:
        raise ValueError("X has no document of two words, but second moments need some: check X")
    axes, values, certificate = _whitening_axes(moments, options, settings)
    # With M2 = V S V' the whitening is W = V S^(-1/2), and V S^(1/2) maps whitened vectors back to words.
    roots = np.sqrt(values / moments.pairs).astype(axes.dtype)
    whitening = Whitening(np.ascontiguousarray(axes.T / roots), np.ascontiguousarray(axes.T * roots))
    weights = inverse_document_frequency(moments.document_frequency, data.n_rows)
    # Features weight words by idf, which is only known after the pass; directions are weighted accordingly.
    own_words, directions = _select_features(moments, weights, data, settings)
    counts = moments.document_frequency, moments.label_totals
    return FirstPassResult(
        whitening, *counts, weights, directions, own_words, certificate, options.solver, moments.sample
    )


def _solver_options(data: LabeledStreams, settings: Settings) -> SVDOptions:
    """Return the sizes and the solver of the first pass."""
    max_rank = min(data.n_rows, data.n_words)
    k = min(settings.n_states, max_rank) if settings.allow_fewer_states else settings.n_states
    if not 1 <= k <= max_rank:
        raise ValueError(
            f"n_states={settings.n_states} must be from 1 to {max_rank}, the smaller of n_samples = {data.n_rows} and "
            f"n_features = {data.n_words}"
        )
    # One random product, whose scale of the directions the second pass corrects.
    options = SVDOptions(k, solver="range", seed=settings.seed, dtype=data.dtype)
    if not settings.distinct:
        return options
    # Without its diagonal the moment is indefinite, so one random product is not accurate. Subtracting the diagonal
    # reorders the eigenvalues, so all directions of the sketch are needed.
    if data.n_words <= GRAM_COLUMNS:
        return options._replace(solver="gram", n_components=max_rank)
    return options._replace(solver="frequent_directions", n_components=min(max_rank, options.n_sketch_rows))


def get_max_own_words(n_labels: int) -> int:
    """Return the maximum number of words with coefficients of their own."""
    return min(MAX_OWN_WORDS, MAX_COEFFICIENTS // max(1, n_labels))


def _select_features(
    moments: FirstMoments, weights: Doubles, data: LabeledStreams, settings: Settings
) -> tuple[IntArray, FloatArray]:
    """Return the words that are features of the linear model (m,), and its directions (d, r)."""
    occurring, max_words = np.flatnonzero(moments.document_frequency), get_max_own_words(data.n_labels)
    if not settings.rank or len(occurring) <= max_words:
        return occurring[: max_words if settings.rank else 0], np.zeros((data.n_words, 0), dtype=data.dtype)
    # Words with the largest norm of the covariance with all labels, A_u' (Y - mean) Omega.
    A, s = moments.label_range, moments.unit_total
    mean = moments.label_totals / data.n_rows @ draw_label_mixing(data.n_labels, A.shape[1], settings.seed)
    length = np.einsum("ij,ij->i", A, A, dtype=np.float64) + s * (s * (mean @ mean) - 2.0 * (A @ mean))
    max_words = max(0, max_words - 2 * A.shape[1])
    own_words = np.sort(np.argsort(-length * weights**2, kind="stable")[:max_words])
    scaled = A * weights[:, None].astype(np.float32)
    return own_words, orthonormalize_columns(scaled.astype(data.dtype, copy=False))


def _whitening_axes(
    moments: FirstMoments, options: SVDOptions, settings: Settings
) -> tuple[FloatArray, Doubles, Certificate]:
    """Return eigenvectors (rows) and unnormalized eigenvalues of the second moment, and an error bound."""
    # The unbiased moment is A'A - D, with the diagonal D = diag(sum of the rows) of words paired with themselves. A
    # Gram matrix gives it exactly, and a Frequent Directions sketch V diag(s) V' is corrected within its span,
    # diag(s) - V' D V.
    k, sketch = min(options.n_components, settings.n_states), moments.sketch
    if isinstance(sketch, GramProduct):
        # The bound is the rest of the trace.
        axes, values = nystrom_eigenpairs(sketch.product, _draw_normals(len(sketch.product), options), k)
        residual = max(0.0, sketch.energy - float(values.sum()))
        certificate = Certificate(residual, residual / max(sketch.energy, 1e-300))
    elif isinstance(sketch, Moments):
        values, vectors = eigh_descending(sketch.gram - np.diag(sketch.total))
        axes = fix_signs(np.ascontiguousarray(vectors.T, dtype=options.dtype))
        certificate = spectrum_from_summary(sketch, options).certificate
    else:
        spectrum = spectrum_from_summary(sketch, options)
        axes, certificate = spectrum.axes, spectrum.certificate
        inside = np.diag(spectrum.values) - (axes * sketch.total) @ axes.T.astype(np.float64)
        values, vectors = eigh_descending(inside)
        axes = fix_signs(vectors.T.astype(axes.dtype) @ axes)
    # Whitening divides by square roots of the eigenvalues, which would amplify directions of rounding.
    usable = int(np.sum(values > 1e-7 * values[0])) if len(values) else 0
    if settings.allow_fewer_states:
        k = min(k, usable)
    if usable < max(k, 1):
        raise ValueError(
            f"n_states={k} must be at most {usable}, the number of independent directions of the words in X"
        )
    return axes[:k], values[:k], certificate


def _draw_normals(n_words: int, options: SVDOptions) -> FloatArray:
    """Return the factor Omega (d, l) of solver ``"range"``."""
    size = n_words, min(n_words, options.n_sketch_rows)
    return np.random.default_rng(options.seed).standard_normal(size, dtype=np.float32).astype(options.dtype, copy=False)


def nystrom_eigenpairs(product: FloatArray, Omega: FloatArray, k: int) -> tuple[FloatArray, Doubles]:
    """Return leading eigenvectors (rows) and eigenvalues of C from its product ``C Omega``, exact for rank below l.

    The values are the positive eigenvalues of ``C Omega (Omega'C Omega)^+ Omega'C``. Tropp, Yurtsever, Udell and Cevher
    2017, "Fixed-rank approximation of a positive-semidefinite matrix from streaming data". Shapes: `product, Omega`
    (d, l); returns (k', d), (k',).
    """
    # With Y = C Omega and Omega'Y = V diag(v) V' the approximation is R R' for R = Y V / sqrt(v); the eigenpairs of
    # the small R'R give those of R R'.
    dtype, inner = product.dtype, inner_products((Omega,), product)
    values, vectors = leading_eigenpairs((inner + inner.T) / 2, dtype, margin=MARGIN)
    root = product @ (vectors / np.sqrt(values)).astype(dtype)
    values, vectors = leading_eigenpairs(column_gram(root), dtype, k=k, margin=MARGIN)
    axes = root @ (vectors / np.sqrt(values)).astype(dtype)
    return fix_signs(np.ascontiguousarray(axes.T)), values


def extend_directions(directions: FloatArray, gram_directions: FloatArray) -> FloatArray:
    """Return the directions (d, r), extended by the second block of their Krylov space."""
    # The gradient of the residual of a linear model lies in the second block. Orthogonalize twice against rounding.
    residual = gram_directions.astype(directions.dtype)
    norms = column_norms(residual)
    for _ in range(2):
        overlap = directions.T @ residual
        for panel in iter_panels(len(residual)):  # in place, panel by panel
            residual[panel] -= directions[panel] @ overlap
    # Drop columns that are linearly dependent up to rounding.
    independent = column_norms(residual) > MIN_RESIDUAL_SHARE * norms
    residual = residual if independent.all() else np.ascontiguousarray(residual[:, independent])
    return np.concatenate([directions, orthonormalize_columns(residual, overwrite=True)], axis=1)


def second_pass(
    data: LabeledStreams, leading: FirstPassResult, settings: Settings
) -> tuple[FirstPassResult, SecondPassResult]:
    """Return exact whitening, states from the decomposed third moment, and extended directions."""
    # With W'M2 W = I, M3(W, W, W) = sum_j pi_j^(-1/2) u_j x u_j x u_j for orthonormal u_j: its decomposition gives
    # pi from the values and mu_j, up to scale, as (W^+)' u_j. Cost: n k^3 / 3 for the moment (in the tasks), for the
    # power method some 50 k^4 in batches and 120 k^4 one by one, for the diagonalization some 100 k^4, in this process.
    summarize_block = partial(
        SecondMoments.from_block,
        whitening=leading.whitening.forward,
        use_counts=settings.counts,
        exclude_self_pairs=settings.distinct,
        directions=leading.directions,
        column_weights=leading.column_weights,
    )
    moments = summarize(data.words, summarize_block=summarize_block, name="third-moment")
    if moments.triples <= 0:
        raise ValueError("X has no document of three words, but third moments need some: check X")
    # The first pass estimates the scale of its directions with an error. The exact second moment within them corrects
    # the whitening, and the tensor is transformed accordingly.
    values, vectors = eigh_descending(moments.second / moments.pairs)
    # Whitening would amplify the noise of directions below a thousandth of the largest eigenvalue.
    usable = int(np.sum(values > 1e-3 * values[0])) if values[0] > 0 else 0
    if 0 < usable < len(values) and settings.allow_fewer_states:
        values, vectors = values[:usable], vectors[:, :usable]
        R, inverse = vectors / np.sqrt(values), vectors * np.sqrt(values)
    elif usable < len(values):
        raise ValueError(
            f"n_states={len(values)} must be at most {usable}, the number of independent directions of the words in X"
        )
    else:
        # Any R with R' second R = I whitens; the symmetric square root changes the directions least.
        R = (vectors / np.sqrt(values)) @ vectors.T
        inverse = (vectors * np.sqrt(values)) @ vectors.T
    forward, backward = (
        side @ rotation.astype(side.dtype) for side, rotation in zip(leading.whitening, (R, inverse), strict=True)
    )
    T = contract(symmetric_tensor_from_pairs(moments.third / moments.triples), R)
    tensor = DECOMPOSITIONS[settings.tensor](T, seed=settings.seed)
    # Whitening maps mu_j to a multiple of the j-th vector; choose the sign with a positive sum.
    columns = backward @ tensor.vectors.astype(backward.dtype)
    words = clip_to_simplex(columns * np.where(columns.sum(axis=0) < 0, -1, 1).astype(backward.dtype))
    # The values are 1 / sqrt(pi) (section 2.3); values below 1 are noise.
    weights = 1.0 / np.maximum(tensor.values, 1.0) ** 2
    if leading.directions.size:
        leading = leading._replace(directions=extend_directions(leading.directions, moments.gram_directions))
    return leading, SecondPassResult(Whitening(forward, backward), tensor, words, weights / weights.sum())


def label_pass(
    data: LabeledStreams, leading: FirstPassResult, states: SecondPassResult, settings: Settings
) -> LabelModel:
    """Return the model with the labels of each state; one pass."""
    # For w_j = W u_j, E[y (w_j'x)^2] is a multiple of gamma_j. It is contracted document by document, so nothing of
    # size L d^2 is formed. Cost: 2 (nnz of words + nnz of labels) k.
    squares = states.whitening.forward @ states.tensor.vectors.astype(data.dtype)
    log_words = _smooth_words(states.words, leading, settings)
    sums = _sum_states(data, leading, settings, "state-labels", log_words, states.weights, squares=squares)
    return LabelModel(
        log_words, states.weights, states.words, clip_to_simplex(sums.labels), *sums.regression_and_likelihood
    )


def em_pass(data: LabeledStreams, leading: FirstPassResult, model: LabelModel, settings: Settings) -> LabelModel:
    """Return the model after one EM step from ``model``; one pass."""
    # E-step: p(j | x, y) proportional to pi_j prod_v mu_vj^(x_v) prod_l gamma_lj^(label_weight y_l), with mu and gamma
    # smoothed. M-step: pi, mu and gamma are the sums of the posteriors, of the words and of the labels under them,
    # divided by their totals, gamma with a pseudocount of 0.5. Invariant: without smoothing, label_weight and prior
    # the likelihood never decreases.
    log_labels = None
    if settings.label_weight:
        totals, distributions = leading.label_totals.astype(np.float64), model.labels.columns.astype(np.float32)
        log_labels = np.float32(settings.label_weight) * smooth_logarithms(distributions, totals, settings.smoothing)
    sums = _sum_states(data, leading, settings, "expectation", model.log_words, model.weights, log_labels=log_labels)
    words, labels = clip_to_simplex(sums.words), clip_to_simplex(sums.labels, LABEL_PRIOR)
    # An empty state keeps a finite log-weight.
    weights = np.maximum(sums.weights / sums.weights.sum(), 1e-300)
    return LabelModel(_smooth_words(words, leading, settings), weights, words, labels, *sums.regression_and_likelihood)


def _smooth_words(words: Simplex, leading: FirstPassResult, settings: Settings) -> FloatArray:
    """Return logarithms of word distributions (d, k) mixed with the corpus."""
    return smooth_logarithms(words.columns, leading.document_frequency.astype(np.float64), settings.smoothing)


def _sum_states(
    data: LabeledStreams,
    leading: FirstPassResult,
    settings: Settings,
    name: str,
    log_words: FloatArray,
    weights: Doubles,
    **parameters: Any,
) -> StateStatistics:
    """Run a pass of sums weighted by the states."""
    summarize_block = partial(
        StateStatistics.from_block,
        log_words=log_words,
        log_weights=np.log(weights),
        directions=leading.directions,
        own_words=leading.own_words,
        column_weights=leading.column_weights,
        use_counts=settings.counts,
        exclude_self_pairs=settings.distinct,
        **parameters,
    )
    return summarize(data.words, data.labels, summarize_block=summarize_block, name=name)
