"""Cross-validated choices of an intent classifier: folds, support vector machines on weighted parts, their scores."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import sparse
from sklearn.svm import LinearSVC

from dspectral.registry import saved
from dspectral.types import CSRRows, FloatArray, IntArray

PLUS_WEIGHTS = ((0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.1, 0.25))
"""Weights of the first words and of the intent scores that SENT+ chooses from."""

saved(LinearSVC, name="sklearn.svm.LinearSVC")


@saved
class Choice(NamedTuple):
    """Settings of an :class:`IntentClassifier` that cross-validation chose."""

    C: float
    weight: float = 0.0
    first_words: float = 0.0
    scores: float = 0.0


def fit_svm(features: CSRRows, y: NDArray[Any], C: float, settings: dict[str, Any]) -> LinearSVC:
    """Return Crammer and Singer's support vector machine, fitted with its seed and weights of classes."""
    columns = _columns_in_use(features)
    svm = _fit_narrow(_of_columns(features, columns), y, C, settings)
    # A column without an entry has coefficients of zero, as if it had been there from the start.
    coefficients = np.zeros((len(svm.coef_), features.shape[1]), order="F")
    coefficients[:, columns] = svm.coef_
    svm.coef_, svm.n_features_in_ = coefficients, features.shape[1]
    return svm


def scores_of_others(
    features: CSRRows, y: NDArray[Any], C: float, settings: dict[str, Any], fold: tuple[IntArray, IntArray]
) -> NDArray[np.float64]:
    """Return scores of a fold's test rows for each class, by a model of its training rows."""
    train, test = fold
    columns = _columns_in_use(features[train])
    features = _of_columns(features, columns)
    model = _fit_narrow(features[train], y[train], C, settings)
    return scores_of_classes(model, features[test], np.unique(y))


def _fit_narrow(
    features: CSRRows, y: NDArray[Any], C: float, settings: dict[str, Any], tol: float = 0.01
) -> LinearSVC:
    weights = settings["class_weight"]
    if isinstance(weights, dict):  # a fold may lack a class
        settings = settings | {"class_weight": {one: weights[one] for one in weights if one in y}}
    svm = LinearSVC(multi_class="crammer_singer", C=C, tol=tol, max_iter=5000, **settings)
    return svm.fit(features, y)


def _columns_in_use(rows: CSRRows) -> IntArray:
    """Return the columns that have an entry, ascending: without the others the bits stay, and less is cleared."""
    return np.flatnonzero(np.bincount(rows.indices, minlength=rows.shape[1]))


def _of_columns(rows: CSRRows, columns: IntArray) -> CSRRows:
    """Return some columns, given in ascending order, of rows; entries keep their order."""
    place = np.full(rows.shape[1], -1, dtype=np.int32)
    place[columns] = np.arange(len(columns), dtype=np.int32)
    found = place[rows.indices]
    is_kept = found >= 0
    before = np.concatenate([[0], np.cumsum(is_kept)]).astype(rows.indptr.dtype)
    arrays = rows.data[is_kept], found[is_kept], before[rows.indptr]
    return sparse.csr_array(arrays, shape=(rows.shape[0], len(columns)))


def accuracy(
    parts: list[CSRRows],
    y: NDArray[Any],
    settings: dict[str, Any],
    choice: Choice,
    train: IntArray,
    test: IntArray,
) -> float:
    """Return the share of test rows that a model of the training rows gets right."""
    # A loose tolerance does for comparing choices; the model that is kept has a tighter one.
    features = weigh_parts(parts, choice)
    features = _of_columns(features, _columns_in_use(features[train]))
    model = _fit_narrow(features[train], y[train], choice.C, settings, tol=0.05)
    return float(np.mean(model.predict(features[test]) == y[test]))


def best_choice(
    parts: list[CSRRows],
    y: NDArray[Any],
    choices: list[Choice],
    settings: dict[str, Any],
    *,
    n_folds: int,
    seed: int,
) -> tuple[Choice, float]:
    """Return the first choice of highest mean accuracy over the folds and that, NaN if nothing is held out."""
    usable = [fold for fold in folds(y, n_folds, seed) if can_learn(y, *fold)]
    if not usable:
        return choices[0], float("nan")
    score = partial(accuracy, parts, y, settings)
    scores = Parallel()(delayed(score)(choice, train, test) for choice in choices for train, test in usable)
    # Jobs run through the folds of one choice, then of the next.
    means = np.asarray(scores).reshape(len(choices), len(usable)).mean(axis=1)
    best = int(np.argmax(means))
    return choices[best], float(means[best])


def weigh_parts(parts: list[CSRRows], choice: Choice) -> CSRRows:
    """Return the parts side by side, each times its weight; a weight of 0 leaves a part out."""
    # The first part, the counts, sets the scale: the other weights are relative to it.
    weights = [1.0, choice.weight, choice.first_words, choice.scores]
    used = [weight * part for part, weight in zip(parts, weights, strict=False) if weight]
    return sparse.csr_array(sparse.hstack(used, format="csr"))


def folds(y: NDArray[Any], n_folds: int, seed: int, most: int = 3000) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield train and test rows, each label dealt over the folds; one fold is enough where it holds ``most`` rows."""
    order = np.random.default_rng(seed).permutation(len(y))
    # Sorted by label and then dealt in turn: each fold gets its share of every label.
    order = order[np.argsort(y[order], kind="stable")]
    # With many rows one comparison is enough: the first fold alone is used, of so many folds that it holds about
    # ``most`` rows, or fewer.
    enough = 1 if len(y) > 2 * most else n_folds
    n_folds = max(n_folds, len(y) // most) if enough == 1 else n_folds
    for fold in range(enough):
        test = order[fold::n_folds]
        yield np.setdiff1d(np.arange(len(y)), test), np.sort(test)


def can_learn(y: NDArray[Any], train: IntArray, test: IntArray) -> bool:
    """Report whether a fold has two intents to learn from, and something to predict."""
    return len(test) > 0 and len(np.unique(y[train])) > 1


def scores_of_classes(model: LinearSVC, features: CSRRows, classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return scores with a column for every class, also those that the model has not seen."""
    found = model.decision_function(features)
    # Of two classes scikit-learn gives one score; a class that the model has not seen gets the lowest of all.
    found = np.column_stack([-found, found]) if found.ndim == 1 else found
    scores = np.full((len(found), len(classes)), found.min())
    scores[:, np.searchsorted(classes, model.classes_)] = found
    return scores


def soften(scores: FloatArray) -> CSRRows:
    """Return scores as rows of unit length, the best far above the others."""
    # A softmax with factor 3, about the scale of an SVM's margins; less the maximum, it cannot overflow.
    raised = np.exp(3.0 * (scores - scores.max(axis=1, keepdims=True)))
    return sparse.csr_array(raised / np.linalg.norm(raised, axis=1, keepdims=True))
