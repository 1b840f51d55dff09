"""The first pass of the method of moments for many labels: directions of words, and of words with labels."""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dspectral.decomposition.moments import Moments
from dspectral.decomposition.random_range import RandomRange
from dspectral.decomposition.spectrum import GRAM_COLUMNS, Certificate, Plan, of_summary, summary_of
from dspectral.engine import summarize
from dspectral.inputs.labelled_rows import LabelledStreams
from dspectral.linalg.dense import column_norms, eigh_descending, fixed_signs, orthonormal_columns
from dspectral.linalg.panels import panels
from dspectral.methods.multilabel.document_sample import DocumentSample, SampleBounds
from dspectral.methods.multilabel.latent_states import Whitening
from dspectral.methods.multilabel.moments import NO_SAMPLE, FirstMoments
from dspectral.methods.multilabel.recipe import Settings
from dspectral.text.weighting import inverse_document_frequency
from dspectral.types import FloatArray

SAMPLE = (8192, 1 << 21)
"""Most documents that settings are chosen by, and most entries of their words and labels: 16 MiB."""

WITHIN = 1e-3
"""Share of a column's length outside some directions, up to which it counts as within them."""


class Leading(NamedTuple):
    """Results of the first pass.

    `whitening`: whitening on the leading directions of the words' second moment; `document_frequency` (d,):
    number of documents that have each word; `label_totals` (L,): number of documents that have each label;
    `column_weights` (d,): inverse document frequencies; `directions` (d, r): orthonormal columns;
    `certificate`: error bound of the words' sketch; `solver`: solver that was used; `sample`: documents to
    choose settings by.
    """

    whitening: Whitening
    document_frequency: NDArray[np.int64]
    label_totals: NDArray[np.int64]
    column_weights: NDArray[np.float64]
    directions: FloatArray
    certificate: Certificate | None
    solver: str
    sample: DocumentSample


def first_pass(data: LabelledStreams, settings: Settings) -> Leading:
    """Find the leading directions of the words' second moment, and of their moment with the labels."""
    plan, solver = _plan(data, settings)
    of = partial(
        FirstMoments.of,
        sketch=(
            partial(RandomRange.of, size=_width(plan, data), seed=settings.seed)
            if solver == "range"
            else summary_of(plan, solver)
        ),
        counts=settings.counts,
        distinct=settings.distinct,
        rank=min(settings.rank, data.n_words),
        seed=settings.seed,
        bounds=SampleBounds.of(data.n_rows, *SAMPLE) if settings.undecided else NO_SAMPLE,
    )
    found = summarize(data.words, data.labels, of=of, name="first-moments")
    if not found.label_totals.any():
        raise ValueError(f"no document has a label, of n_samples = {data.n_rows}: there is nothing to learn")
    if found.pairs <= 0:
        raise ValueError("no document has two words, so words have no second moment")
    axes, values, certificate = _leading(found, plan, settings)
    weights = inverse_document_frequency(found.document_frequency, data.n_rows)
    return Leading(
        Whitening.of(axes, values / found.pairs),
        found.document_frequency,
        found.label_totals,
        weights,
        directions_of(found.label_range, weights, data.dtype),
        certificate,
        solver,
        found.sample,
    )


def directions_of(label_range: FloatArray, weights: NDArray[np.float64], dtype: DTypeLike) -> FloatArray:
    """Return the directions of the linear correction's features.

    Shapes: `label_range` (d, r), `weights` (d,); returns (d, r).
    """
    # The correction's features weigh words by idf, so directions do as well: idf is known only after the pass.
    scaled = label_range * weights[:, None].astype(np.float32)
    return orthonormal_columns(scaled.astype(dtype, copy=False))


def wider_directions(directions: FloatArray, reached: FloatArray) -> FloatArray:
    """Return directions, and beside them those of the words that they lead to.

    Shapes: `directions` (d, r), `reached` (d, r); returns (d, r + s).
    """
    # What a linear model of the labels leaves of them has its gradient among these columns: they are the second block
    # of a Krylov space, whose first are the directions. Twice, since once leaves rounding along the directions.
    left = reached.astype(directions.dtype)
    whole = column_norms(left)
    for _ in range(2):
        inside = directions.T @ left
        for panel in panels(len(left)):  # no second array of that size
            left[panel] -= directions[panel] @ inside
    # A column that lay within the directions leaves nothing but rounding, which says nothing of words.
    outside = column_norms(left) > WITHIN * whole
    left = left if outside.all() else np.ascontiguousarray(left[:, outside])
    return np.concatenate([directions, orthonormal_columns(left, overwrite=True)], axis=1)


def _width(plan: Plan, data: LabelledStreams) -> int:
    return min(data.n_words, plan.rows_of_sketch)


def _plan(data: LabelledStreams, settings: Settings) -> tuple[Plan, str]:
    """Return the plan of the first pass and its solver; a diagonal is taken off afterwards."""
    most = min(data.n_rows, data.n_words)
    k, size = settings.n_states, settings.recipe.sketch_size
    if settings.fewer:
        k = min(k, most, k if size is None else size)
    if not 1 <= k <= most:
        raise ValueError(
            f"n_states is {settings.n_states}, but it must be from 1 to {most}: "
            f"n_samples = {data.n_rows} documents, n_features = {data.n_words} words"
        )
    solver: str = settings.recipe.solver
    if solver == "auto":
        # Without its diagonal the moment is indefinite, and one random product says too little about it.
        sketch = "frequent_directions" if settings.distinct else "range"
        solver = "gram" if data.n_words <= GRAM_COLUMNS else sketch
    plan = Plan(k, solver=solver, sketch_size=size, seed=settings.seed, dtype=data.dtype)
    # Taking a diagonal off reorders the eigenvalues: all that the sketch holds are kept until then.
    kept = most if solver == "gram" else min(most, plan.rows_of_sketch)
    return plan._replace(n_components=kept if settings.distinct else k), solver


def _leading(
    found: FirstMoments, plan: Plan, settings: Settings
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
        axes = fixed_signs(np.ascontiguousarray(vectors.T, dtype=plan.dtype))
        certificate = of_summary(sketch, plan).certificate
    else:
        spectrum = of_summary(sketch, plan)
        axes, values, certificate = spectrum.axes, spectrum.values, spectrum.certificate
        if settings.distinct:
            inside = np.diag(values) - (axes * sketch.total) @ axes.T.astype(np.float64)
            values, vectors = eigh_descending(inside)
            axes = fixed_signs(vectors.T.astype(axes.dtype) @ axes)
    # Whitening divides by the roots of the eigenvalues: directions of rounding would be blown up to unit size.
    usable = int(np.sum(values > 1e-7 * values[0])) if len(values) else 0
    if settings.fewer:
        k = min(k, usable)
    if usable < max(k, 1):
        raise ValueError(
            f"n_states is {k}, but the words have only {usable} independent direction(s): "
            f"ask for at most {usable} states"
        )
    return axes[:k], values[:k], certificate
