"""Cross-validation of an intent classifier: folds, support vector machines on weighted blocks, accuracy."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.svm import LinearSVC

from dspectral.methods.sentences.features import CHARACTER_RANGE
from dspectral.registry import register_class
from dspectral.text.weighting import select_columns
from dspectral.types import AnyArray, CSRRows, Doubles, FloatArray, IntArray

PLUS_WEIGHTS = ((0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.1, 0.25))
"""Candidate weights of the first words and of the intent scores in SENT+."""

TOLERANCE = 0.1
"""Tolerance of the SVM with character n-grams: a tighter one takes two to three times as long and changes nothing."""

register_class(name="sklearn.svm.LinearSVC")(LinearSVC)


@register_class()
class Choice(NamedTuple):
    """Settings of an :class:`IntentClassifier` that cross-validation chose.

    ``max_words`` and ``characters`` are the longest n-gram of words, and the range of those of characters.
    """

    C: float
    weight: float = 0.0
    first_words: float = 0.0
    scores: float = 0.0
    max_words: int = 3
    characters: tuple[int, int] = CHARACTER_RANGE


def fit_svm(features: CSRRows, y: AnyArray, C: float, settings: dict[str, Any], tol: float = 0.01) -> LinearSVC:
    """Fit the Crammer-Singer SVM with a given seed and class weights."""
    columns = _find_used_columns(features)
    svm = _fit_compact(select_columns(features, columns), y, C, settings, tol)
    # Columns without an entry get coefficients of zero, as in a fit on all columns.
    coefficients = np.zeros((len(svm.coef_), features.shape[1]), order="F")
    coefficients[:, columns] = svm.coef_
    svm.coef_, svm.n_features_in_ = coefficients, features.shape[1]
    return svm


def score_held_out(
    features: CSRRows, y: AnyArray, C: float, settings: dict[str, Any], fold: tuple[IntArray, IntArray]
) -> Doubles:
    """Return the scores of a fold's test rows by a model of its training rows. Shapes: returns (n_test, n_classes)."""
    return score_classes(*_fit_fold(features, y, C, settings, fold), np.unique(y))


def _fit_fold(
    features: CSRRows,
    y: AnyArray,
    C: float,
    settings: dict[str, Any],
    fold: tuple[IntArray, IntArray],
    tol: float = 0.01,
) -> tuple[LinearSVC, CSRRows]:
    """Return a model of a fold's training rows, and its test rows."""
    train, test = fold
    features = select_columns(features, _find_used_columns(features[train]))
    return _fit_compact(features[train], y[train], C, settings, tol), features[test]


def _fit_compact(features: CSRRows, y: AnyArray, C: float, settings: dict[str, Any], tol: float = 0.01) -> LinearSVC:
    weights = settings["class_weight"]
    if isinstance(weights, dict):  # a fold may lack a class
        settings = settings | {"class_weight": {label: weights[label] for label in weights if label in y}}
    svm = LinearSVC(multi_class="crammer_singer", C=C, tol=tol, max_iter=5000, **settings)
    return svm.fit(features, y)


def _find_used_columns(rows: CSRRows) -> IntArray:
    """Return the columns that have an entry, ascending. Dropping the others changes no bit of a fit."""
    return np.flatnonzero(np.bincount(rows.indices, minlength=rows.shape[1]))


def accuracy(
    blocks: list[CSRRows], y: AnyArray, settings: dict[str, Any], choice: Choice, fold: tuple[IntArray, IntArray]
) -> float:
    """Return the accuracy on a fold's test rows of a model of its training rows."""
    # A loose tolerance is enough to compare choices.
    model, rows = _fit_fold(weigh_blocks(blocks, choice), y, choice.C, settings, fold, TOLERANCE)
    return float(np.mean(model.predict(rows) == y[fold[1]]))


def select_choice(
    blocks: list[CSRRows],
    y: AnyArray,
    choices: list[Choice],
    settings: dict[str, Any],
    *,
    splits: Iterable[tuple[IntArray, IntArray]],
) -> tuple[Choice, float]:
    """Return the first choice with the highest mean accuracy, and that accuracy: NaN if nothing can be held out."""
    usable = [fold for fold in splits if can_learn(y, *fold)]
    if not usable:
        return choices[0], float("nan")
    score = partial(accuracy, blocks, y, settings)
    scores = Parallel()(delayed(score)(choice, fold) for choice in choices for fold in usable)
    # Jobs run through the folds of one choice, then of the next.
    means = np.asarray(scores).reshape(len(choices), len(usable)).mean(axis=1)
    best = int(np.argmax(means))
    return choices[best], float(means[best])


def weigh_blocks(blocks: list[CSRRows], choice: Choice) -> CSRRows:
    """Multiply feature blocks by their weights and stack them horizontally; a weight of 0 drops a block."""
    # Weights are relative to the first block, the counts.
    weights = [1.0, choice.weight, choice.first_words, choice.scores]
    weighted = [weight * block for block, weight in zip(blocks, weights, strict=False) if weight]
    return sparse.hstack(weighted, format="csr")


def make_folds(y: AnyArray, n_folds: int, seed: int, max_held_out: int = 3000) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield train and test rows of stratified folds; one fold of ``max_held_out`` rows if there are many rows."""
    order = np.random.default_rng(seed).permutation(len(y))
    # Sort by label and deal in turn, so that each fold gets its share of every label.
    order = order[np.argsort(y[order], kind="stable")]
    # Many rows need one comparison only: the first of so many folds that it holds about ``max_held_out`` rows.
    n_used = 1 if len(y) > 2 * max_held_out else n_folds
    n_folds = max(n_folds, len(y) // max_held_out) if n_used == 1 else n_folds
    for fold in range(n_used):
        test = order[fold::n_folds]
        yield np.setdiff1d(np.arange(len(y)), test), np.sort(test)


def hold_out(y: AnyArray, seed: int) -> tuple[IntArray, IntArray]:
    """Return train and test rows: a third of the rows each, drawn at random, at most 4,000 and 3,000."""
    train, test = next(make_folds(y, 3, seed))
    return np.sort(np.random.default_rng(seed).permutation(train)[: min(4000, len(y) // 3)]), test


def can_learn(y: AnyArray, train: IntArray, test: IntArray) -> bool:
    """Return whether a fold has at least two intents to train on and one row to test."""
    return len(test) > 0 and len(np.unique(y[train])) > 1


def score_classes(model: LinearSVC, features: CSRRows, classes: AnyArray) -> Doubles:
    """Return scores with a column per class, including classes that the model was not trained on."""
    decision = model.decision_function(features)
    # scikit-learn returns one score for two classes. A class without training rows gets the lowest score of all.
    decision = np.column_stack([-decision, decision]) if decision.ndim == 1 else decision
    scores = np.full((len(decision), len(classes)), decision.min())
    scores[:, np.searchsorted(classes, model.classes_)] = decision
    return scores


def exponentiate_scores(scores: FloatArray) -> CSRRows:
    """Return exponentiated scores as rows of unit length."""
    # The factor 3 is about the scale of an SVM's margins. Subtracting the maximum prevents overflow.
    raised = np.exp(3.0 * (scores - scores.max(axis=1, keepdims=True)))
    return sparse.csr_array(raised / np.linalg.norm(raised, axis=1, keepdims=True))
