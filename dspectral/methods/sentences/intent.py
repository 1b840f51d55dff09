"""Intent classification: a linear SVM on sentence representations, its few choices made on the training side."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted

from dspectral.methods.sentences.representation import SentenceRepresentation
from dspectral.registry import saved

PLUS_WEIGHTS = ((0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.1, 0.25))
"""Weights of the first words and of the intent scores that SENT+ chooses from."""

saved(LinearSVC, name="sklearn.svm.LinearSVC")


@saved
class Choice(NamedTuple):
    """What cross-validation chose.

    Attributes
    ----------
    C : float
        Of the SVM.
    weight : float
        Of the second half of equation 2.
    first_words, scores : float
        Weights of what SENT+ adds.
    """

    C: float
    weight: float = 0.0
    first_words: float = 0.0
    scores: float = 0.0


@saved
class IntentClassifier(ClassifierMixin, BaseEstimator):
    """Crammer and Singer's linear SVM on counts and, if given, on their representation.

    Parameters
    ----------
    representation : SentenceRepresentation, optional
        Fitted on unlabelled text. Without one the features are ``x / ||x||`` alone.
    plus : bool
        SENT+: features of the first two words by position, and the intent scores of a supervised model (on
        the training side those of models that did not see the sentence). Their weights are chosen among
        ``PLUS_WEIGHTS``, where 0 leaves them out.
    C, weights : sequence of float
        What cross-validation chooses from; single values are taken as they are.
    n_folds : int
        Folds; at most 3,000 training sentences are held out of each fit.
    n_jobs : int, optional
        Processes of joblib, or whatever joblib back end is in force.
    random_state : int

    Attributes
    ----------
    classes_ : ndarray
    choice_ : Choice
    score_ : float
        Cross-validated accuracy of the choice; NaN where there was nothing to choose.
    svm_ : LinearSVC

    References
    ----------
    Kim, Stratos and Sarikaya 2016, sections 3.1 and 3.4; Crammer and Singer 2002.

    Examples
    --------
    >>> texts = ["play some jazz", "play loud rock", "book cheap flight", "book my flight"] * 3
    >>> sent = SentenceRepresentation(2, n_features=1024).fit(texts)
    >>> IntentClassifier(sent, C=[1.0], weights=[1.0]).fit(texts, ["music", "music", "travel", "travel"] * 3).predict(
    ...     ["some rock", "flight"]
    ... )
    array(['music', 'travel'], dtype='<U6')
    """

    def __init__(
        self,
        representation: SentenceRepresentation | None = None,
        *,
        plus: bool = False,
        C: Sequence[float] = (0.3, 1.0, 3.0),
        weights: Sequence[float] = (0.5, 1.0),
        n_folds: int = 3,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.representation = representation
        self.plus = plus
        self.C = C
        self.weights = weights
        self.n_folds = n_folds
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Sequence[str], y: Any) -> Self:
        """Choose by cross-validation on the training sentences, then fit on all of them.

        Parameters
        ----------
        X : list of str
        y : array-like of labels

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there are fewer than two intents, as many labels as sentences are not given, or ``plus`` is
            asked for without a representation.
        """
        y = np.asarray(y)
        if len(y) != len(X):
            raise ValueError(f"there are {len(X)} sentences, but {len(y)} labels")
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"there is only one intent in the training labels: {self.classes_.tolist()}")
        if self.plus and self.representation is None:
            raise ValueError("plus=True adds to a representation, but none is given")
        halves = self._halves(X)
        weights = self.weights if self.representation is not None else [0.0]
        choices = [Choice(C, weight) for weight in weights for C in self.C]
        self.choice_, self.score_ = self._best(halves, y, choices)
        if self.plus:
            halves = [*halves, self._base.positions(X), self._scores_out_of_fold(halves[0], y)]
            more = [self.choice_._replace(first_words=p, scores=s) for p, s in PLUS_WEIGHTS]
            self.choice_, self.score_ = self._best(halves, y, more)
        self.svm_ = _svm(_joined(halves, self.choice_), y, self.choice_.C, self.random_state)
        return self

    def predict(self, X: Sequence[str]) -> NDArray[Any]:
        """Return the intent of each sentence."""
        return np.asarray(self.svm_.predict(self._features(X)))

    def decision_function(self, X: Sequence[str]) -> NDArray[np.float64]:
        """Return the SVM's scores, shape (n_sentences, n_intents), or (n_sentences,) for two intents."""
        return np.asarray(self.svm_.decision_function(self._features(X)))

    def _features(self, X: Sequence[str]) -> sparse.csr_array:
        check_is_fitted(self)
        halves = self._halves(X)
        if self.plus:
            halves = [
                *halves,
                self._base.positions(X),
                _shares(_decisions(self.scorer_, halves[0], self.classes_)),
            ]
        return _joined(halves, self.choice_)

    @property
    def _base(self) -> SentenceRepresentation:
        """What turns text into counts, with or without a fit."""
        return SentenceRepresentation() if self.representation is None else self.representation

    def _halves(self, X: Sequence[str]) -> list[sparse.csr_array]:
        counts = self._base.counts(X)
        if self.representation is None:
            return [counts]
        return [counts, sparse.csr_array(self.representation.embed(X).astype(np.float64))]

    def _best(
        self, parts: list[sparse.csr_array], y: NDArray[Any], choices: list[Choice]
    ) -> tuple[Choice, float]:
        if len(choices) == 1:
            return choices[0], float("nan")
        folds = list(_folds(y, self.n_folds, self.random_state))
        score = partial(_accuracy, parts, y, seed=self.random_state)
        scores = Parallel(n_jobs=self.n_jobs)(
            delayed(score)(choice, train, test) for choice in choices for train, test in folds
        )
        means = np.asarray(scores).reshape(len(choices), len(folds)).mean(axis=1)
        best = int(np.argmax(means))
        return choices[best], float(means[best])

    def _scores_out_of_fold(self, counts: sparse.csr_array, y: NDArray[Any]) -> sparse.csr_array:
        """Scores of the supervised model: for training, each sentence's by a model that did not see it."""
        scores = np.zeros((counts.shape[0], len(self.classes_)))
        for train, test in _folds(y, 5, self.random_state + 1, most=len(y)):
            model = _svm(counts[train], y[train], self.choice_.C, self.random_state)
            scores[test] = _decisions(model, counts[test], self.classes_)
        self.scorer_ = _svm(counts, y, self.choice_.C, self.random_state)
        return _shares(scores)


def _svm(features: sparse.csr_array, y: NDArray[Any], C: float, seed: int, tol: float = 0.01) -> LinearSVC:
    svm = LinearSVC(multi_class="crammer_singer", C=C, tol=tol, max_iter=5000, random_state=seed)
    return svm.fit(features, y)


def _accuracy(
    parts: list[sparse.csr_array],
    y: NDArray[Any],
    choice: Choice,
    train: NDArray[np.int64],
    test: NDArray[np.int64],
    *,
    seed: int,
) -> float:
    features = _joined(parts, choice)
    model = _svm(features[train], y[train], choice.C, seed, tol=0.05)
    return float(np.mean(model.predict(features[test]) == y[test]))


def _joined(parts: list[sparse.csr_array], choice: Choice) -> sparse.csr_array:
    weights = [1.0, choice.weight, choice.first_words, choice.scores]
    used = [weight * part for part, weight in zip(parts, weights, strict=False) if weight]
    return sparse.csr_array(sparse.hstack(used, format="csr"))


def _folds(
    y: NDArray[Any], n_folds: int, seed: int, most: int = 3000
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield train and test rows; each label is dealt over the folds, also one with few rows.

    Large sets have their folds thinned, and one fold is enough where it holds ``most`` rows.
    """
    order = np.random.default_rng(seed).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    enough = 1 if len(y) > 2 * most else n_folds
    n_folds = max(n_folds, len(y) // most) if enough == 1 else n_folds
    for fold in range(enough):
        test = order[fold::n_folds]
        yield np.setdiff1d(np.arange(len(y)), test), np.sort(test)


def _decisions(model: LinearSVC, features: sparse.csr_array, classes: NDArray[Any]) -> NDArray[np.float64]:
    """Scores with a column for every class, also those that the model has not seen."""
    found = model.decision_function(features)
    found = np.column_stack([-found, found]) if found.ndim == 1 else found
    scores = np.full((len(found), len(classes)), found.min())
    scores[:, np.searchsorted(classes, model.classes_)] = found
    return scores


def _shares(scores: NDArray[np.float64]) -> sparse.csr_array:
    """Scores as rows of unit length, the best far above the others."""
    raised = np.exp(3.0 * (scores - scores.max(axis=1, keepdims=True)))
    return sparse.csr_array(raised / np.linalg.norm(raised, axis=1, keepdims=True))
