"""Settings that are chosen on documents held out, before the pass that needs them, from a sample in memory."""

from itertools import product
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.methods.multilabel.document_rows import linear_features, word_rows
from dspectral.methods.multilabel.document_sample import DocumentSample
from dspectral.methods.multilabel.held_out import HeldOutScores, gains_of
from dspectral.methods.multilabel.leading_directions import Leading, directions_of, wider_directions
from dspectral.methods.multilabel.moments import label_range
from dspectral.methods.multilabel.passes import (
    DocumentsInMemory,
    States,
    em_pass,
    third_pass,
)
from dspectral.methods.multilabel.recipe import Settings
from dspectral.methods.multilabel.second_moments import reached_from
from dspectral.types import CSRRows, FloatArray

Fold: TypeAlias = tuple[DocumentsInMemory, DocumentsInMemory]
SMOOTHINGS = (0.9, 0.3)
"""Shares of the corpus that are tried, the one that wins on real documents first."""
EM_PASSES = (0, 2)
"""Numbers of passes of EM that are tried."""
ALPHAS = (1e-2, 3e-3, 1e-3, 3e-2, 1e-1, 3e-1)
"""Penalties that are tried, for the documents that learn."""
FEWEST = 30
"""Fewer documents held out than that say nothing."""
SCORES = 1 << 20
"""Most scores of labels of documents held out that are ranked for each candidate and quarter."""


class Chosen(NamedTuple):
    """Settings that were chosen, and on how many documents.

    `settings`: settings with what was chosen; `n_held_out`: number of documents that were held out in turn, 0
    where nothing was chosen.
    """

    settings: Settings
    n_held_out: int


def chosen(leading: Leading, states: States, settings: Settings, n_rows: int) -> Chosen:
    """Choose what is undecided: smoothing, passes of EM, and the penalty of the linear correction.

    Each quarter of the sample in turn is held out: the others learn as the third pass and those of EM do, and its
    documents are ranked by every candidate.

    The states come from the words of all documents, but no label of a document is seen before it is ranked. A penalty
    is worth so many documents: what is best for those that learned is divided by how many times more there are.
    """
    if not settings.undecided or not len(leading.sample.hashes):
        return Chosen(settings, 0)
    words, labels = _compact(leading.sample)
    folds = [_split(words, labels, held_out) for held_out in leading.sample.quarters()]
    if min(part.words.shape[0] for fold in folds for part in fold) < FEWEST or not all(
        fitted.labels.nnz for fitted, _ in folds
    ):
        return Chosen(settings, 0)
    columns = np.unique(leading.sample.words.indices)
    narrow, states = _narrowed(leading, columns), _narrowed_states(states, columns)
    candidates = _candidates(settings)
    gains = np.concatenate([_tried(fold, narrow, states, candidates) for fold in folds], axis=1)
    best = candidates[first_of_the_best(gains)]
    if "alpha" in settings.undecided:
        fitted = float(np.mean([fitted.words.shape[0] for fitted, _ in folds]))
        best = best._replace(alpha=best.alpha * fitted / n_rows)
    return Chosen(best, gains.shape[1])


def first_of_the_best(gains: FloatArray) -> int:
    """Return the first candidate that is not worse than the best outside one standard error of their difference.

    Shapes: `gains` (n_candidates, n_documents).

    >>> first_of_the_best(np.array([[1.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
    0
    """
    # What differs by less than that is chance, and differences of rounding are smaller still.
    lost = gains[int(np.argmax(gains.mean(axis=1)))] - gains
    error = lost.std(axis=1) / np.sqrt(gains.shape[1])
    return int(np.argmax(lost.mean(axis=1) <= error))


def _candidates(settings: Settings) -> list[Settings]:
    """Return what is tried, with all penalties of one model beside each other."""
    tried: list[tuple[Any, ...]] = [
        several if name in settings.undecided else (getattr(settings, name),)
        for name, several in (("n_em_iter", EM_PASSES), ("smoothing", SMOOTHINGS), ("alpha", ALPHAS))
    ]
    return [
        settings._replace(n_em_iter=n_em_iter, smoothing=smoothing, alpha=alpha)
        for n_em_iter, smoothing, alpha in product(*tried)
    ]


def _compact(sample: DocumentSample) -> tuple[CSRRows, CSRRows]:
    """Return words and labels of the sample, of those columns alone that it has."""
    words = np.unique(sample.words.indices)
    # One more column stands for all words that the sample does not have.
    X = sparse.csr_array(
        (sample.words.data, np.searchsorted(words, sample.words.indices), sample.words.indptr),
        shape=(sample.words.shape[0], len(words) + 1),
    )
    return X, sample.labels[:, np.unique(sample.labels.indices)]


def _split(words: CSRRows, labels: CSRRows, held_out: NDArray[np.bool_]) -> Fold:
    """Return documents that learn, and those held out that have a label, no more than can be ranked soon."""
    most = max(FEWEST, SCORES // max(1, labels.shape[1]))
    fitted, ranked = np.flatnonzero(~held_out), np.flatnonzero(held_out & (np.diff(labels.indptr) > 0))[:most]
    first, second = (DocumentsInMemory(words[rows], labels[rows], words.dtype) for rows in (fitted, ranked))
    return first, second


def _tried(fold: Fold, leading: Leading, states: States, candidates: list[Settings]) -> FloatArray:
    """Return what each candidate gains on each document held out, shape (n_candidates, n_documents)."""
    fitted, held_out = fold
    settings, dtype = candidates[0], states.whitening.forward.dtype
    # No label of a document held out may speak: directions that had heard them would ask for too small a penalty.
    rank = min(settings.rank, len(leading.column_weights))
    heard = label_range(fitted.words, fitted.labels, rank, settings.seed)
    directions = directions_of(heard, leading.column_weights, dtype)
    reached = reached_from(fitted.words, leading.column_weights, directions)
    leading = leading._replace(
        directions=wider_directions(directions, reached),
        label_totals=np.bincount(fitted.labels.indices, minlength=fitted.labels.shape[1]),
    )
    # The same for all candidates.
    known, features = (
        linear_features(
            word_rows(part.words, counts=False, dtype=dtype), leading.column_weights, leading.directions
        )
        for part in fold
    )
    fitted = fitted._replace(features=known)
    words = word_rows(held_out.words, counts=settings.counts, dtype=dtype)
    gains = np.zeros((len(candidates), words.shape[0]))
    for several in _alike(candidates):
        model = third_pass(fitted, leading, states, candidates[several[0]])
        n_done, scores = 0, HeldOutScores.of(model, words, features)
        for number in several:
            one = candidates[number]
            # Candidates come with growing numbers of passes of EM: each goes on where the last one was.
            for _ in range(n_done, one.n_em_iter):
                model = em_pass(fitted, leading, model, one)
            if one.n_em_iter > n_done:
                n_done, scores = one.n_em_iter, HeldOutScores.of(model, words, features)
            gains[number] = gains_of(scores.with_penalty(one.alpha if one.rank else None), held_out.labels)
    return gains


def _alike(candidates: list[Settings]) -> list[list[int]]:
    """Return the numbers of the candidates of each smoothing."""
    return [
        [number for number, one in enumerate(candidates) if one.smoothing == smoothing]
        for smoothing in dict.fromkeys(one.smoothing for one in candidates)
    ]


def _narrowed(leading: Leading, words: NDArray[np.integer[Any]]) -> Leading:
    """Return what the first pass found of some words, and of all others as one."""
    count = leading.document_frequency
    return leading._replace(
        document_frequency=np.append(count[words], count.sum() - count[words].sum()),
        column_weights=np.append(leading.column_weights[words], 1.0),
    )


def _narrowed_states(states: States, words: NDArray[np.integer[Any]]) -> States:
    """Return what the second pass found of some words, and of all others as one."""
    columns, forward = states.words.columns, states.whitening.forward
    # The others keep their share, so that smoothing mixes in what it does in the passes; no document has them.
    left = np.maximum(1.0 - columns[words].sum(axis=0, keepdims=True), 0.0).astype(columns.dtype)
    nothing = np.zeros((1, forward.shape[1]), dtype=forward.dtype)
    return states._replace(
        whitening=states.whitening._replace(forward=np.concatenate([forward[words], nothing])),
        words=states.words._replace(columns=np.concatenate([columns[words], left])),
    )
