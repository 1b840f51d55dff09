"""The second and third pass of the method of moments for many labels, and passes of EM after them."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.engine import summarize
from dspectral.inputs.labelled_rows import LabelledStreams
from dspectral.linalg.tensors import (
    OrthogonalCP,
    contract,
    power_method,
    power_method_in_batches,
    simultaneous_diagonalization,
    unfolded_symmetric,
)
from dspectral.methods.multilabel import latent_states
from dspectral.methods.multilabel.latent_states import Simplex, Whitening
from dspectral.methods.multilabel.leading_directions import Leading, wider_directions
from dspectral.methods.multilabel.recipe import Settings, TensorMethod
from dspectral.methods.multilabel.second_moments import SecondMoments
from dspectral.methods.multilabel.state_statistics import LabelModel, StateStatistics
from dspectral.types import CSRRows, FloatArray

DECOMPOSITIONS: dict[TensorMethod, Callable[..., OrthogonalCP]] = {
    "auto": power_method_in_batches,
    "power": power_method,
    "batches": power_method_in_batches,
    "diagonalise": simultaneous_diagonalization,
}
"""Solvers of the tensor's decomposition by their names in a recipe."""
LABEL_PRIOR = 0.5
"""Count that EM adds to each label of each state: sweeps over few documents would else leave exact zeros."""


class States(NamedTuple):
    """Results of the second pass.

    `whitening`: whitening that is exact within the directions of the first pass; `tensor`: decomposition of
    the whitened third moment; `words`: distribution over the words of each state; `weights` (k,): probability
    of each state.
    """

    whitening: Whitening
    tensor: OrthogonalCP
    words: Simplex
    weights: NDArray[np.float64]


def second_pass(data: LabelledStreams, leading: Leading, settings: Settings) -> tuple[Leading, States]:
    """Whiten exactly, decompose the third moment, and find further directions of the linear correction."""
    # With W'M2 W = I, M3(W, W, W) = sum_j pi_j^(-1/2) u_j x u_j x u_j for orthonormal u_j: its decomposition gives
    # pi from the values and mu_j, up to scale, as (W^+)' u_j. Cost: n k^3 / 3 for the moment (in the tasks), for the
    # power method some 50 k^4 in batches and 120 k^4 one by one, for the diagonalization some 100 k^4, in this process.
    of = partial(
        SecondMoments.of,
        whitening=leading.whitening.forward,
        counts=settings.counts,
        distinct=settings.distinct,
        directions=leading.directions,
        column_weights=leading.column_weights,
    )
    moments, reached = summarize(data.words, of=of, name="third-moment")
    if moments.triples <= 0:
        raise ValueError("no document has three words, so words have no third moment")
    # The sketch of the first pass errs in the size of its directions; the exact second moment within them, from the
    # same pass as the third, mends the whitening, and the tensor is turned along with it.
    whitening, rotation = leading.whitening.corrected(moments.second / moments.pairs, fewer=settings.fewer)
    T = contract(unfolded_symmetric(moments.third / moments.triples), rotation)
    tensor = DECOMPOSITIONS[settings.recipe.tensor](T, seed=settings.seed)
    words = latent_states.word_distributions(whitening.back, tensor.vectors)
    leading = leading._replace(directions=wider_directions(leading.directions, reached))
    return leading, States(whitening, tensor, words, latent_states.state_weights(tensor.values))


class DocumentsInMemory(NamedTuple):
    """Documents that a pass reads in this process, at once.

    `words, labels`: rows of word counts, and rows of labels; `dtype`: precision of what is made from the
    words; `features` (n, r): features of the linear correction, where they are known already.
    """

    words: CSRRows
    labels: CSRRows
    dtype: Any
    features: FloatArray | None = None


def third_pass(
    data: LabelledStreams | DocumentsInMemory, leading: Leading, states: States, settings: Settings
) -> LabelModel:
    """Estimate the labels of each state from the cross moment, and sum what the linear correction is solved from."""
    # For w_j = W u_j, E[y (w_j'x)^2] is a multiple of gamma_j: the moment of labels with pairs of words, contracted
    # document by document, so nothing of size L d^2 is formed. Cost: 2 (nnz of words + nnz of labels) k.
    directions = states.whitening.forward @ states.tensor.vectors.astype(data.dtype)
    log_words = latent_states.smoothed_logarithms(
        states.words.columns, leading.document_frequency.astype(np.float64), settings.smoothing
    )
    found = _state_statistics(data, log_words, states.weights, leading, settings, squares=directions)
    labels = latent_states.on_simplex(found.labels)
    likelihood = found.log_likelihood / max(1, found.n_rows)
    return LabelModel(log_words, states.weights, states.words, labels, found.regression, likelihood)


def em_pass(
    data: LabelledStreams | DocumentsInMemory, leading: Leading, model: LabelModel, settings: Settings
) -> LabelModel:
    """Take one step of EM on words and weighted labels, and sum anew what the linear correction is solved from."""
    # E-step: p(j | x, y) proportional to pi_j prod_v mu_vj^(x_v) prod_l gamma_lj^(label_weight y_l), with mu and gamma
    # smoothed. M-step: pi, mu and gamma are the sums of the posteriors, of the words and of the labels under them,
    # divided by their totals; gamma with half a count more in every entry. Invariant: without smoothing, label_weight
    # and prior the likelihood never falls. One pass.
    log_labels = None
    if settings.label_weight:
        log_labels = np.float32(settings.label_weight) * latent_states.smoothed_logarithms(
            model.labels.columns.astype(np.float32),
            leading.label_totals.astype(np.float64),
            settings.smoothing,
        )
    found = _state_statistics(data, model.log_words, model.weights, leading, settings, log_labels=log_labels)
    words = latent_states.on_simplex(found.words)
    labels = latent_states.on_simplex(found.labels, LABEL_PRIOR)
    log_words = latent_states.smoothed_logarithms(
        words.columns, leading.document_frequency.astype(np.float64), settings.smoothing
    )
    # A state that no document is in keeps a weight whose logarithm is finite.
    weights = np.maximum(found.weights / found.weights.sum(), 1e-300)
    likelihood = found.log_likelihood / max(1, found.n_rows)
    return LabelModel(log_words, weights, words, labels, found.regression, likelihood)


def _state_statistics(
    data: LabelledStreams | DocumentsInMemory,
    log_words: FloatArray,
    weights: NDArray[np.float64],
    leading: Leading,
    settings: Settings,
    squares: FloatArray | None = None,
    log_labels: FloatArray | None = None,
) -> StateStatistics:
    """Weight labels and words by the states in one pass: by ``squares`` in the third, else by posteriors."""
    of = partial(
        StateStatistics.of,
        log_words=log_words,
        log_weights=np.log(weights),
        directions=leading.directions,
        log_labels=log_labels,
        squares=squares,
        column_weights=leading.column_weights,
        counts=settings.counts,
        distinct=settings.distinct,
    )
    if isinstance(data, DocumentsInMemory):
        return of(data.words, data.labels, features=data.features)
    name = "state-labels" if squares is not None else "expectation"
    return summarize(data.words, data.labels, of=of, name=name)


def linear_correction(model: LabelModel, alpha: float) -> FloatArray:
    """Return the linear model of what the states leave of the labels.

    Shapes: returns (L, r + 1).
    """
    sums = model.regression
    return latent_states.residual_regression(sums.gram, sums.states, sums.labels, model.labels.columns, alpha)
