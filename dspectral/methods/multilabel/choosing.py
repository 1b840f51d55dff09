"""Settings that are chosen on documents held out, before the pass that needs them, from a sample in memory."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import sparse

from dspectral.methods.multilabel.document_rows import linear_features, word_rows
from dspectral.methods.multilabel.document_sample import DocumentSample
from dspectral.methods.multilabel.leading_directions import Leading, directions_of
from dspectral.methods.multilabel.moments import label_range
from dspectral.methods.multilabel.passes import (
    DocumentsInMemory,
    LabelModel,
    States,
    em_pass,
    linear_correction,
    third_pass,
)
from dspectral.methods.multilabel.ranking import LabelScorer
from dspectral.methods.multilabel.recipe import Settings
from dspectral.metrics import document_auc, precision_at
from dspectral.types import CSRRows, FloatArray

SMOOTHINGS = (0.9, 0.5, 0.01)
"""Shares of the corpus that are tried, the one that wins on real documents first."""
ALPHAS = (1e-2, 3e-3, 1e-3, 3e-4, 3e-2, 1e-1)
"""Penalties that are tried."""
FEWEST = 30
"""Fewer documents held out than that say nothing."""
SCORES = 1 << 22
"""Most scores of labels of documents held out that are ranked for each candidate."""


class Chosen(NamedTuple):
    """What was chosen, and on how many documents.

    Attributes
    ----------
    settings : Settings
        Settings with what was chosen.
    n_held_out : int
        Number of documents held out, 0 where nothing was chosen.
    """

    settings: Settings
    n_held_out: int


def chosen(leading: Leading, states: States, settings: Settings, n_rows: int) -> Chosen:
    """Choose what is undecided: smoothing, and the penalty of the linear correction.

    Three quarters of the sample learn as the third pass and those of EM do, the rest is ranked. The best candidate is
    that with the largest sum of the area under the curve and the precision of the first label.

    Parameters
    ----------
    leading : Leading
        Results of the first pass, with the sample.
    states : States
        Results of the second pass.
    settings : Settings
        Settings with values for the case that there are too few documents.
    n_rows : int
        Number of all documents.

    Returns
    -------
    Chosen
        Settings for the passes to come.

    Notes
    -----
    The states come from all documents, but no label of the documents held out is seen before they are ranked. A
    penalty is worth so many documents: what is best for those of the sample is divided by how many times more
    there are.
    """
    split = _split(leading.sample)
    if not settings.undecided or split is None:
        return Chosen(settings, 0)
    fitted, held_out = split
    leading, states = _narrowed(leading, states, settings, fitted)
    candidates: list[Settings] = []
    scores: list[float] = []
    for smoothing in SMOOTHINGS if "smoothing" in settings.undecided else (settings.smoothing,):
        model = _learned(fitted, leading, states, settings._replace(smoothing=smoothing))
        alphas = ALPHAS if "alpha" in settings.undecided else (settings.alpha,)
        for alpha, ranked in _rankings(model, leading, settings, held_out.words, alphas):
            # A penalty is worth so many documents: the more there are, the smaller is its share.
            share = fitted.words.shape[0] / n_rows if "alpha" in settings.undecided else 1.0
            candidates.append(settings._replace(smoothing=smoothing, alpha=alpha * share))
            scores.append(score_of(ranked, held_out.labels))
    # Rounded, so that what differs by rounding alone is a tie, which the first of the candidates wins.
    best = candidates[int(np.argmax(np.round(scores, 4)))]
    return Chosen(best, held_out.words.shape[0])


def score_of(scores: FloatArray, truth: CSRRows) -> float:
    """Return the mean area under the curve and the mean precision of the first label, added.

    Parameters
    ----------
    scores : ndarray, shape (n, L)
        Scores of the labels.
    truth : csr_array, shape (n, L)
        Ones where a document has a label; each has one at least.

    Returns
    -------
    float
        From 0 to 2. A document that has all labels counts half in the area.

    Examples
    --------
    >>> score_of(np.array([[0.9, 0.1], [0.2, 0.3]]), sparse.csr_array([[1.0, 0.0], [1.0, 1.0]]))
    1.75
    """
    area = np.nan_to_num(document_auc(scores, truth), nan=0.5)
    return float(area.mean() + precision_at(scores, truth, 1).mean())


def _split(sample: DocumentSample) -> tuple[DocumentsInMemory, DocumentsInMemory] | None:
    """Return documents to learn from and documents held out, of words and labels that the sample has.

    Nothing where either are too few to say anything.
    """
    words, labels = np.unique(sample.words.indices), np.unique(sample.labels.indices)
    # One more column stands for all words that the sample does not have.
    X = sparse.csr_array(
        (sample.words.data, np.searchsorted(words, sample.words.indices), sample.words.indptr),
        shape=(sample.words.shape[0], len(words) + 1),
    )
    Y, dtype = sample.labels[:, labels], sample.words.dtype
    out = sample.held_out()
    fitted = np.flatnonzero(~out)
    held_out = np.flatnonzero(out & (np.diff(Y.indptr) > 0))[: max(FEWEST, SCORES // max(1, len(labels)))]
    if min(len(fitted), len(held_out)) < FEWEST or not Y[fitted].nnz:
        return None
    return DocumentsInMemory(X[fitted], Y[fitted], dtype), DocumentsInMemory(X[held_out], Y[held_out], dtype)


def _narrowed(
    leading: Leading, states: States, settings: Settings, fitted: DocumentsInMemory
) -> tuple[Leading, States]:
    """Return what the first passes found, of the sample's words, with directions from the fitted labels alone."""
    words = np.unique(leading.sample.words.indices)
    count, weights, columns = leading.document_frequency, leading.column_weights, states.words.columns
    forward = states.whitening.forward
    # The column of all other words has their share, so that smoothing mixes in what it does in the passes.
    left = np.maximum(1.0 - columns[words].sum(axis=0, keepdims=True), 0.0).astype(columns.dtype)
    states = states._replace(
        whitening=states.whitening._replace(
            forward=np.concatenate([forward[words], np.zeros((1, forward.shape[1]), dtype=forward.dtype)])
        ),
        words=states.words._replace(columns=np.concatenate([columns[words], left])),
    )
    weights = np.append(weights[words], 1.0)
    # No label of a document held out may speak: directions that had heard them would ask for too small a penalty.
    rank = min(settings.rank, len(leading.column_weights))
    heard = label_range(fitted.words, fitted.labels, rank, settings.seed)
    narrow = leading._replace(
        document_frequency=np.append(count[words], count.sum() - count[words].sum()),
        column_weights=weights,
        directions=directions_of(heard, weights, forward.dtype),
        label_totals=np.bincount(fitted.labels.indices, minlength=fitted.labels.shape[1]),
    )
    return narrow, states


def _learned(data: DocumentsInMemory, leading: Leading, states: States, settings: Settings) -> LabelModel:
    model = third_pass(data, leading, states, settings)
    for _ in range(settings.n_em_iter):
        model = em_pass(data, leading, model, settings)
    return model


def _rankings(
    model: LabelModel, leading: Leading, settings: Settings, rows: CSRRows, alphas: tuple[float, ...]
) -> Iterator[tuple[float, FloatArray]]:
    """Score all labels with each penalty; once where there is no linear correction."""
    scorer = LabelScorer(
        model.log_words, np.log(model.weights), model.labels.columns, leading.column_weights, leading.directions,
        None, settings.counts,
    )  # fmt: skip
    scores = scorer.scores(rows)
    if not settings.rank:
        yield alphas[0], scores
        return
    words = word_rows(rows, counts=False, dtype=model.log_words.dtype)
    features = linear_features(words, leading.column_weights, leading.directions)
    for alpha in alphas:
        linear = linear_correction(model, alpha)
        yield alpha, scores + features @ linear[:, :-1].T + linear[:, -1]
