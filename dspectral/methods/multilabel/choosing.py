"""Settings that are chosen on documents held out, before the pass that needs them, from a sample in memory."""

from itertools import groupby, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral._compiled import compiled, read_only
from dspectral.linalg import sparse_products
from dspectral.linalg.dense import orthonormal_columns
from dspectral.methods.multilabel.documents import unit_rows, word_rows
from dspectral.methods.multilabel.latent_states import LabelModel, penalized_inverse
from dspectral.methods.multilabel.passes import (
    DocumentsInMemory,
    Leading,
    States,
    label_pass,
    wider_directions,
)
from dspectral.methods.multilabel.recipe import ALPHAS, EM_PASSES, SMOOTHINGS, Settings
from dspectral.methods.multilabel.summaries import label_range, posteriors
from dspectral.types import FloatArray, IntArray

FEWEST = 30
"""Fewer documents held out than that say nothing."""
SCORES = 1 << 20
"""Most scores of labels of documents held out that are ranked for each candidate and quarter."""


def chosen(leading: Leading, states: States, settings: Settings, n_rows: int) -> tuple[Settings, int]:
    """Choose what is undecided, and return the settings and the number of documents held out in turn.

    Each quarter of the sample in turn is ranked by every candidate that learned from the others. A penalty is worth
    so many documents: what is best for those that learned is divided by how many times more there are.
    """
    sample = leading.sample
    if not settings.undecided or not len(sample.hashes):
        return settings, 0
    # Words and labels of those columns alone that the sample has; one more column stands for all other words.
    own = np.unique(sample.words.indices)
    shape = (sample.words.shape[0], len(own) + 1)
    ids = np.searchsorted(own, sample.words.indices)
    words = sparse.csr_array((sample.words.data, ids, sample.words.indptr), shape=shape)
    labels = sample.labels[:, np.unique(sample.labels.indices)]
    # Of those held out the ones that have a label are ranked, no more than can be ranked soon.
    most, folds = max(FEWEST, SCORES // max(1, labels.shape[1])), []
    for held_out in sample.quarters():
        ranked = np.flatnonzero(held_out & (np.diff(labels.indptr) > 0))[:most]
        parts = np.flatnonzero(~held_out), ranked
        folds.append([DocumentsInMemory(words[rows], labels[rows], words.dtype) for rows in parts])
    fewest = min(part.words.shape[0] for fold in folds for part in fold)
    if fewest < FEWEST or not all(fitted.labels.nnz for fitted, _ in folds):
        return settings, 0
    # What the passes found of these words, and of all others as one: those keep their share, so that smoothing mixes
    # in what it does in the passes; no document has them.
    count, columns, forward = leading.document_frequency, states.words.columns, states.whitening.forward
    left = np.maximum(1.0 - columns[own].sum(axis=0, keepdims=True), 0.0).astype(columns.dtype)
    nothing = np.zeros((1, forward.shape[1]), dtype=forward.dtype)
    leading = leading._replace(
        document_frequency=np.append(count[own], count.sum() - count[own].sum()),
        column_weights=np.append(leading.column_weights[own], 1.0),
    )
    states = states._replace(
        whitening=states.whitening._replace(forward=np.concatenate([forward[own], nothing])),
        words=states.words._replace(columns=np.concatenate([columns[own], left])),
    )
    tried: dict[str, tuple[Any, ...]] = {"n_em_iter": EM_PASSES, "smoothing": SMOOTHINGS, "alpha": ALPHAS}
    tried |= {name: (getattr(settings, name),) for name in tried if name not in settings.undecided}
    candidates = [
        settings._replace(**dict(zip(tried, values, strict=True))) for values in product(*tried.values())
    ]
    gains = np.concatenate([_tried(fold, leading, states, candidates) for fold in folds], axis=1)
    best = candidates[first_of_the_best(gains)]
    if "alpha" in settings.undecided:
        n_fitted = float(np.mean([fitted.words.shape[0] for fitted, _ in folds]))
        best = best._replace(alpha=best.alpha * n_fitted / n_rows)
    return best, gains.shape[1]


def first_of_the_best(gains: FloatArray) -> int:
    """Return the first candidate (row of gains) not worse than the best by one standard error of the difference."""
    # What differs by less than that is chance, and differences of rounding are smaller still.
    lost = gains[int(np.argmax(gains.mean(axis=1)))] - gains
    error = lost.std(axis=1) / np.sqrt(gains.shape[1])
    return int(np.argmax(lost.mean(axis=1) <= error))


def _tried(
    fold: list[DocumentsInMemory], leading: Leading, states: States, candidates: list[Settings]
) -> FloatArray:
    """Return what each candidate gains on each document held out, shape (n_candidates, n_documents)."""
    fitted, held_out = fold
    settings, dtype = candidates[0], states.whitening.forward.dtype
    # No label of a document held out may speak: directions that had heard them would ask for too small a penalty.
    rank, column_weights = min(settings.rank, len(leading.column_weights)), leading.column_weights
    found = label_range(fitted.words, fitted.labels, rank, settings.seed)
    scaled = found * column_weights[:, None].astype(np.float32)
    directions = orthonormal_columns(scaled.astype(dtype, copy=False))
    unit = unit_rows(fitted.words, column_weights, np.float32)
    reached = sparse_products.gram_times(unit, directions.astype(np.float32, copy=False))
    leading = leading._replace(
        directions=wider_directions(directions, reached),
        label_totals=np.bincount(fitted.labels.indices, minlength=fitted.labels.shape[1]),
    )
    # The same for all candidates.
    known, features = (
        sparse_products.times(unit_rows(part.words, column_weights, dtype), leading.directions)
        for part in fold
    )
    features = np.concatenate([features, np.ones((len(features), 1), dtype=features.dtype)], axis=1)
    fitted = fitted._replace(features=known)
    words, truth = word_rows(held_out.words, counts=settings.counts, dtype=dtype), held_out.labels
    gains = np.zeros((len(candidates), words.shape[0]))
    for smoothing in dict.fromkeys(one.smoothing for one in candidates):
        alike = [number for number, one in enumerate(candidates) if one.smoothing == smoothing]
        model, n_done = label_pass(fitted, leading, states, candidates[alike[0]]), 0
        # Candidates come with growing numbers of passes of EM: each goes on where the last one was.
        for n_em_iter, group in groupby(alike, key=lambda number: candidates[number].n_em_iter):
            for _ in range(n_done, n_em_iter):
                model = label_pass(fitted, leading, states, candidates[alike[0]], model)
            n_done = n_em_iter
            joint = sparse_products.times(words, model.log_words) + np.log(model.weights)
            probabilities = posteriors(joint)[0].astype(features.dtype)
            for number in group:
                alpha = candidates[number].alpha if settings.rank else None
                scores = held_out_scores(model, probabilities, features, alpha)
                add_gains(read_only(scores), read_only(truth.indices), read_only(truth.indptr), gains[number])
    return gains


def held_out_scores(
    model: LabelModel, states: FloatArray, features: FloatArray, alpha: float | None
) -> FloatArray:
    """Return scores (n, L) for a penalty of the linear correction, without one by the states alone."""
    if alpha is None:
        return np.asarray(states @ model.labels.columns.T)
    # P gamma' + F B' for B = (Y'F - gamma P'F) G^-1 is [F G^-1, P - F G^-1 F'P] [Y'F, gamma]': one product with all
    # labels, and none of these with r^2 numbers.
    labels = np.concatenate([model.regression.labels, model.labels.columns], axis=1)
    solved = features.astype(np.float64) @ penalized_inverse(model.regression.gram, alpha)
    left = np.concatenate([solved, states - solved @ model.regression.states], axis=1)
    return np.asarray(left.astype(labels.dtype) @ labels.T)


@compiled
def add_gains(scores: FloatArray, indices: IntArray, indptr: IntArray, gains: NDArray[np.float64]) -> None:
    """Add the area under the curve and the precision of the first label to the number of each document.

    Shapes: `scores` (n, L), `indices, indptr`: CSR places of the true labels, `gains` (n,).

    >>> gains = np.zeros(2)
    >>> add_gains(np.array([[0.9, 0.1], [0.2, 0.3]]), np.array([0, 0, 1]), np.array([0, 1, 3]), gains)
    >>> gains
    array([2. , 1.5])
    """
    # A true label's place among all scores takes one comparison with each; ranks of all would take a sort of each row.
    # An equal score counts half, and so does each pair of two true labels, which is then taken off.
    for i in range(indptr.size - 1):
        row, n_true = scores[i], indptr[i + 1] - indptr[i]
        first, won = np.argmax(row), -n_true * (n_true - 1) / 2
        for entry in range(indptr[i], indptr[i + 1]):
            own, below, equal = row[indices[entry]], 0, 0
            for other in range(row.size):
                below += row[other] < own
                equal += row[other] == own
            won += below + 0.5 * (equal - 1)
            gains[i] += indices[entry] == first
        pairs = n_true * (row.size - n_true)
        gains[i] += won / pairs if pairs > 0 else 0.5
