"""The passes of the method of moments for many labels, in order; each returns what the next one needs."""

from functools import partial
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dspectral.decomposition.moments import Moments
from dspectral.decomposition.plan import GRAM_COLUMNS, Plan
from dspectral.decomposition.random_range import RandomRange
from dspectral.decomposition.spectrum import Certificate, of_summary, summary_of
from dspectral.engine import summarize
from dspectral.inputs.labelled_rows import LabelledStreams
from dspectral.linalg.dense import eigh_descending, fixed_signs, orthonormal_columns
from dspectral.linalg.tensors import (
    OrthogonalCP,
    contract,
    power_method,
    simultaneous_diagonalization,
    unfolded_symmetric,
)
from dspectral.methods.multilabel import latent_states
from dspectral.methods.multilabel.latent_states import Simplex, Whitening
from dspectral.methods.multilabel.moments import FirstMoments, ThirdMoment
from dspectral.methods.multilabel.state_statistics import StateLabels
from dspectral.text.weighting import inverse_document_frequency
from dspectral.types import FloatArray

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


LABEL_PRIOR = 0.5
"""Count that EM adds to each label of each state."""


class Leading(NamedTuple):
    """Of the first pass.

    Attributes
    ----------
    whitening : Whitening
    document_frequency, label_totals : ndarray of int64, shapes (d,), (L,)
    column_weights : ndarray of float64, shape (d,)
        Inverse document frequencies.
    directions : ndarray, shape (d, r)
        Orthonormal: where words and labels vary together.
    certificate : Certificate or None
        Of the words' sketch; none where a diagonal was taken off a random range.
    solver : str
    """

    whitening: Whitening
    document_frequency: NDArray[np.int64]
    label_totals: NDArray[np.int64]
    column_weights: NDArray[np.float64]
    directions: FloatArray
    certificate: Certificate | None
    solver: str


def first_pass(data: LabelledStreams, settings: Settings) -> Leading:
    """Leading directions of the words' second moment, and of their moment with the labels."""
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
    )
    found = summarize(data.words, data.labels, of=of, fan_in=settings.fan_in, name="first-moments")
    if not found.label_totals.any():
        raise ValueError(f"no document has a label, of n_samples = {data.n_rows}: there is nothing to learn")
    if found.pairs <= 0:
        raise ValueError("no document has two words, so words have no second moment")
    axes, values, certificate = _leading(found, plan, settings)
    weights = inverse_document_frequency(found.document_frequency, data.n_rows)
    scaled = found.label_range * weights[:, None].astype(np.float32)
    directions = orthonormal_columns(scaled.astype(data.dtype, copy=False))
    return Leading(
        Whitening.of(axes, values / found.pairs),
        found.document_frequency,
        found.label_totals,
        weights,
        directions,
        certificate,
        solver,
    )


class States(NamedTuple):
    """Of the second pass.

    Attributes
    ----------
    whitening : Whitening
        Exact within the directions of the first.
    cubes : OrthogonalCP
    words : Simplex
    weights : ndarray of float64, shape (k,)
    """

    whitening: Whitening
    cubes: OrthogonalCP
    words: Simplex
    weights: NDArray[np.float64]


def second_pass(data: LabelledStreams, leading: Leading, settings: Settings) -> States:
    """Whiten exactly, decompose the third moment, and return the states' words and weights."""
    of = partial(
        ThirdMoment.of,
        whitening=leading.whitening.forward,
        counts=settings.counts,
        distinct=settings.distinct,
    )
    moments = summarize(data.words, of=of, fan_in=settings.fan_in, name="third-moment")
    if moments.triples <= 0:
        raise ValueError("no document has three words, so words have no third moment")
    whitening, rotation = leading.whitening.corrected(moments.second / moments.pairs)
    T = contract(unfolded_symmetric(moments.third / moments.triples), rotation)
    if settings.tensor == "power":
        cubes = power_method(T, seed=settings.seed)
    else:
        cubes = simultaneous_diagonalization(T, seed=settings.seed)
    words = latent_states.word_distributions(whitening.back, cubes.vectors)
    return States(whitening, cubes, words, latent_states.state_weights(cubes.values))


class LabelModel(NamedTuple):
    """All that prediction needs.

    Attributes
    ----------
    log_words : ndarray, shape (d, k)
    weights : ndarray of float64, shape (k,)
    words, labels : Simplex
        Of columns of shapes (d, k) and (L, k).
    linear : ndarray, shape (L, r + 1), or None
        Of the correction; its last column is the intercept.
    log_likelihood : float
        Of the training words under the states that the pass began with, a document.
    """

    log_words: FloatArray
    weights: NDArray[np.float64]
    words: Simplex
    labels: Simplex
    linear: FloatArray | None
    log_likelihood: float


def third_pass(data: LabelledStreams, leading: Leading, states: States, settings: Settings) -> LabelModel:
    """Labels of each state by the cross moment, and the linear correction."""
    directions = states.whitening.forward @ states.cubes.vectors.astype(data.dtype)
    log_words = latent_states.smoothed_logarithms(
        states.words.columns, leading.document_frequency.astype(np.float64), settings.smoothing
    )
    found = _state_labels(data, log_words, states.weights, leading, settings, squares=directions)
    labels = latent_states.on_simplex(found.labels)
    linear = _correction(found, labels, settings)
    likelihood = found.log_likelihood / max(1, found.n_rows)
    return LabelModel(log_words, states.weights, states.words, labels, linear, likelihood)


def polishing_pass(
    data: LabelledStreams, leading: Leading, model: LabelModel, settings: Settings
) -> LabelModel:
    """One step of EM on words and weighted labels, labels with a prior count, and the correction anew."""
    log_labels = None
    if settings.label_weight:
        log_labels = np.float32(settings.label_weight) * latent_states.smoothed_logarithms(
            model.labels.columns.astype(np.float32),
            leading.label_totals.astype(np.float64),
            settings.smoothing,
        )
    found = _state_labels(data, model.log_words, model.weights, leading, settings, log_labels=log_labels)
    words = latent_states.on_simplex(found.words)
    labels = latent_states.on_simplex(found.labels, LABEL_PRIOR)
    log_words = latent_states.smoothed_logarithms(
        words.columns, leading.document_frequency.astype(np.float64), settings.smoothing
    )
    linear = _correction(found, labels, settings)
    weights = np.maximum(found.weights / found.weights.sum(), 1e-300)
    return LabelModel(log_words, weights, words, labels, linear, found.log_likelihood / max(1, found.n_rows))


def _state_labels(
    data: LabelledStreams,
    log_words: FloatArray,
    weights: NDArray[np.float64],
    leading: Leading,
    settings: Settings,
    squares: FloatArray | None = None,
    log_labels: FloatArray | None = None,
) -> StateLabels:
    of = partial(
        StateLabels.of,
        log_words=log_words,
        log_weights=np.log(weights),
        directions=leading.directions,
        log_labels=log_labels,
        squares=squares,
        column_weights=leading.column_weights,
        counts=settings.counts,
        distinct=settings.distinct,
    )
    name = "state-labels" if squares is not None else "expectation"
    return summarize(data.words, data.labels, of=of, fan_in=settings.fan_in, name=name)


def _correction(found: StateLabels, labels: Simplex, settings: Settings) -> FloatArray | None:
    if not settings.rank:
        return None
    sums = found.regression
    return latent_states.residual_regression(
        sums.gram, sums.states, sums.labels, labels.columns, settings.alpha
    )


def _width(plan: Plan, data: LabelledStreams) -> int:
    return min(data.n_words, plan.rows_of_sketch)


def _plan(data: LabelledStreams, settings: Settings) -> tuple[Plan, str]:
    """Ask the solvers of a spectrum for one pass; the diagonal is taken off afterwards if it is to be."""
    known = ("auto", "gram", "frequent_directions", "range")
    if settings.solver not in known:
        raise ValueError(f"solver is {settings.solver!r}, but must be one of {', '.join(map(repr, known))}")
    most = min(data.n_rows, data.n_words)
    if not 1 <= settings.n_states <= most:
        raise ValueError(
            f"n_states is {settings.n_states}, but must be from 1 to {most}: "
            f"there are {data.n_rows} documents and {data.n_words} words"
        )
    solver = settings.solver
    if solver == "auto":
        # less its diagonal the moment has no sign, and one product tells too little of it
        sketch = "frequent_directions" if settings.distinct else "range"
        solver = "gram" if data.n_words <= GRAM_COLUMNS else sketch
    k, size = settings.n_states, settings.sketch_size
    plan = Plan(k, solver=solver, sketch_size=size, seed=settings.seed, dtype=data.dtype)
    kept = most if solver == "gram" else min(most, plan.rows_of_sketch)
    return plan._replace(n_components=kept if settings.distinct else k), solver


def _leading(
    found: FirstMoments, plan: Plan, settings: Settings
) -> tuple[FloatArray, NDArray[np.float64], Certificate | None]:
    """Eigenvectors of the second moment (rows), and its eigenvalues, not yet divided by the pairs."""
    k, sketch = settings.n_states, found.sketch
    if isinstance(sketch, RandomRange):
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
        if settings.distinct:  # within what the sketch holds
            inside = np.diag(values) - (axes * sketch.total) @ axes.T.astype(np.float64)
            values, vectors = eigh_descending(inside)
            axes = fixed_signs(vectors.T.astype(axes.dtype) @ axes)
    usable = int(np.sum(values > 1e-7 * values[0])) if len(values) else 0
    if usable < k:
        raise ValueError(
            f"n_states is {k}, but the words have only {usable} independent direction(s): "
            f"ask for at most {usable} states"
        )
    return axes[:k], values[:k], certificate
