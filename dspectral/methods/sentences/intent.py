"""Intent classification: a linear SVM on sentence representations, its few choices made on the training side."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from dspectral.engine import emits_events
from dspectral.inputs.fitted_facts import FittedFactsMixin
from dspectral.inputs.labels import label_array
from dspectral.inputs.parameters import RandomState, check_option, check_real, resolve_seed
from dspectral.inputs.texts import TextColumn, as_documents, clone_sharing, is_fitted
from dspectral.methods.sentences.cross_validation import (
    PLUS_WEIGHTS,
    Choice,
    best_choice,
    can_learn,
    fit_svm,
    folds,
    scores_of_classes,
    scores_of_others,
    soften,
    weigh_parts,
)
from dspectral.methods.sentences.representation import HALVES, Half, SentenceFeatures, SentenceRepresentation
from dspectral.registry import Array, has_arrays, saved
from dspectral.types import CSRRows, Documents, KeepPath

N_FOLDS = 3
"""Folds of the cross-validation."""


@saved
class IntentRecipe(NamedTuple):
    """Settings beside the counts of an :class:`~dspectral.IntentClassifier`, for comparisons.

    Attributes
    ----------
    half : {"sent", "sketch", "idf", "idf+sent", "auto"}, default="sent"
        Part of a sketched representation that stands beside the counts: ``"sketch"`` the directions of words alone,
        ``"idf"`` their rarity alone, each word in a column of its own, ``"sent"`` directions weighed by rarity, as
        equation 2 has it, and ``"idf+sent"`` two of them side by side. ``"auto"`` takes the one of highest
        cross-validated accuracy, or none where the counts alone are better; it takes five times as many fits.
    """

    half: Half | Literal["auto"] = "sent"


@has_arrays(
    {
        "classes_": Array("classes_", ""),
        "svm_.classes_": Array("classes_", ""),
        "scorer_.classes_": Array("classes_", "", optional=True),
    }
)
@saved
class IntentClassifier(FittedFactsMixin, ClassifierMixin, BaseEstimator):
    """Crammer and Singer's linear SVM on counts and, if given, on their representation.

    Parameters
    ----------
    representation : SentenceRepresentation, WordVectorRepresentation or None, default=None
        Second half of the features. One that is fitted, on unlabeled text, stays so in clones and cross-validation;
        one that is not fitted is fitted to the training sentences. Without one the features are ``x / ||x||`` alone.
    plus : bool, default=False
        Whether to add the features of SENT+: the first two words by position, and the intent scores of a supervised
        model (on the training side those of models that did not see the sentence). Their weights are chosen among
        ``PLUS_WEIGHTS``, where 0 leaves them out.
    C : float or sequence of float, default=1.0
        Inverse penalty of the SVM. A number is taken as it is; from a sequence cross-validation chooses, with
        three fits for each number, of which each holds out 3,000 sentences at most.
    weights : float or sequence of float, default=1.0
        Weight of the representation beside the counts, a number or a sequence as ``C``.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the folds and of the SVM's order of coordinates.
    class_weight : dict, "balanced" or None, default=None
        Weights of the intents' errors, as for scikit-learn's ``LinearSVC``; ``"balanced"`` is by rarity.
    recipe : IntentRecipe or None, default=None
        What stands beside the counts, for comparisons; None takes the default of :class:`~dspectral.IntentRecipe`.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        The intents in ascending order.
    half_ : str
        ``half`` of the recipe, or what was chosen; ``"none"`` where nothing stands beside the counts.
    choice_ : Choice
        Settings that cross-validation chose.
    score_ : float
        Cross-validated accuracy of the choice; NaN where there was nothing to choose, or too little to hold out.
    svm_ : LinearSVC
        The SVM on all training sentences.
    random_state_ : int
        The seed that was used.

    Notes
    -----
    Fits of the cross-validation are jobs of joblib: inside ``with joblib.parallel_config(n_jobs=4):`` four run at a
    time; outside, one after the other.

    An intent with a single sentence takes part: a fold that holds it out scores it as an error, and a fold whose
    training side has one intent only is left out.

    References
    ----------
    Kim, Stratos and Sarikaya 2016, sections 3.1 and 3.4; Crammer and Singer 2002.

    Examples
    --------
    >>> texts = ["play some jazz", "play loud rock", "book cheap flight", "book my flight"] * 3
    >>> sent = SentenceRepresentation(2, n_features=1024).fit(texts)
    >>> IntentClassifier(sent).fit(texts, ["music", "music", "travel", "travel"] * 3).predict(
    ...     ["some rock", "flight"]
    ... )
    array(['music', 'travel'], dtype='<U6')
    """

    def __init__(
        self,
        representation: SentenceFeatures | None = None,
        *,
        plus: bool = False,
        C: float | Sequence[float] = 1.0,
        weights: float | Sequence[float] = 1.0,
        random_state: RandomState = 0,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        recipe: IntentRecipe | None = None,
    ) -> None:
        self.representation = representation
        self.plus = plus
        self.C = C
        self.weights = weights
        self.random_state = random_state
        self.class_weight = class_weight
        self.recipe = recipe

    _own_representation: SentenceFeatures | None = None

    @property
    def representation_(self) -> SentenceFeatures | None:
        """The fitted representation: the given one, or one that was fitted to the training sentences."""
        return self.representation if self._own_representation is None else self._own_representation

    @emits_events
    def fit(self, X: TextColumn, y: ArrayLike, *, keep: KeepPath = None) -> Self:
        """Choose by cross-validation on the training sentences, then fit on all of them.

        Parameters
        ----------
        X : list of str, generator, array of strings, or column of pandas, polars or Hugging Face Datasets
            Training sentences.
        y : array-like of labels, shape (n_sentences,)
            The intent of each sentence.
        keep : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.keep` takes it.

        Returns
        -------
        IntentClassifier
            The classifier itself.

        Raises
        ------
        ValueError
            If there are fewer than two intents, as many labels as sentences are not given, ``plus`` is asked for
            without a representation, ``half`` for one that has no such part, or a parameter is out of range.
        """
        texts = as_documents(X)
        labels = checked_labels(y, texts.n_documents)
        choices = self._choices()
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise ValueError(f"there is only one intent in the training labels: {self.classes_.tolist()}")
        self.random_state_ = resolve_seed(self.random_state)
        self._fit_representation(texts)
        self.half_, self.choice_, self.score_ = self._best_half(texts, labels, choices)
        parts = self._parts(texts, self.half_)
        if self.plus:
            # The weights of SENT+ are chosen after C and the weight of the representation, not jointly: with them,
            # a search over all of them would take four times as many fits.
            parts = [*parts, self._base.positions(texts), self._scores_out_of_fold(parts[0], labels)]
            more = [self.choice_._replace(first_words=p, scores=s) for p, s in PLUS_WEIGHTS]
            self.choice_, self.score_ = self._best(parts, labels, more)
        self.svm_ = fit_svm(weigh_parts(parts, self.choice_), labels, self.choice_.C, self._settings)
        return self

    def predict(self, X: TextColumn) -> NDArray[Any]:
        """Return the intent of each sentence.

        Parameters
        ----------
        X : list of str
            Sentences, as for :meth:`fit`.

        Returns
        -------
        ndarray, shape (n_sentences,)
            Labels, each one of ``classes_``.
        """
        features = self._features(X)
        return np.asarray(self.svm_.predict(features))

    def decision_function(self, X: TextColumn) -> NDArray[np.float64]:
        """Return the SVM's scores.

        Parameters
        ----------
        X : list of str
            Sentences, as for :meth:`fit`.

        Returns
        -------
        ndarray of float64, shape (n_sentences, n_classes), or (n_sentences,) for two intents
            The intent with the highest score is predicted; of two, the second if its score is positive.
        """
        features = self._features(X)
        return np.asarray(self.svm_.decision_function(features))

    def predict_proba(self, X: TextColumn) -> NDArray[np.float64]:
        """Return probabilities of the intents: a softmax of four times the SVM's scores.

        They are of the order of the scores, and not calibrated: scikit-learn's ``CalibratedClassifierCV`` does that.

        Parameters
        ----------
        X : list of str
            Sentences, as for :meth:`fit`.

        Returns
        -------
        ndarray of float64, shape (n_sentences, n_classes)
            Rows that sum up to 1; the largest is that of the intent which is predicted.
        """
        scores = scores_of_classes(self.svm_, self._features(X), self.classes_)
        return np.asarray(softmax(4.0 * scores, axis=1))

    @property
    def _settings(self) -> dict[str, Any]:
        return {"random_state": self.random_state_, "class_weight": self.class_weight}

    @property
    def _recipe(self) -> IntentRecipe:
        return IntentRecipe() if self.recipe is None else self.recipe

    def _choices(self) -> dict[str, list[Choice]]:
        """Return what to choose from under each half, the first of equals first."""
        recipe = self._recipe
        if not isinstance(recipe, IntentRecipe):
            raise TypeError(f"recipe is {recipe!r:.60}, but it must be an IntentRecipe, or None")
        check_option("half", recipe.half, (*HALVES, "auto"))
        if self.plus and self.representation is None:
            raise ValueError("plus=True adds to a representation, but none is given")
        penalties = numbers("C", self.C, at_least=np.nextafter(0.0, 1.0))
        weights = numbers("weights", self.weights, at_least=0.0)
        # The first of equals wins, so weights and penalties are preferred in the order in which they are given.
        alone = [Choice(C) for C in penalties]
        beside = [Choice(C, weight) for weight in weights for C in penalties]
        if self.representation is None:
            return {"none": alone}
        if recipe.half == "auto":
            return {**dict.fromkeys(self.representation.halves, beside), "none": alone}
        return {recipe.half: beside}

    def _fit_representation(self, texts: Documents) -> None:
        # Beside the parameter, which fit must not change; a given one is not kept twice in a saved model.
        self._own_representation = None
        if self.representation is not None and not is_fitted(self.representation):
            self._own_representation = clone(self.representation).fit(texts)

    def _features(self, X: TextColumn) -> CSRRows:
        check_is_fitted(self)
        texts = as_documents(X)
        parts = self._parts(texts, self.half_)
        if self.plus:
            scores = scores_of_classes(self.scorer_, parts[0], self.classes_)
            parts = [*parts, self._base.positions(texts), soften(scores)]
        return weigh_parts(parts, self.choice_)

    @property
    def _base(self) -> SentenceFeatures:
        """The representation that turns text into counts, with or without a fit."""
        return SentenceRepresentation() if self.representation_ is None else self.representation_

    def _parts(self, texts: Documents, half: str) -> list[CSRRows]:
        """Return the halves of equation 2; where there is no representation the second has no entry."""
        counts = self._base.counts(texts)
        if self.representation_ is None or half == "none":
            return [counts, sparse.csr_array((counts.shape[0], 0))]
        return [counts, self.representation_.second_half(texts, half)]

    def _best_half(
        self, texts: Documents, y: NDArray[Any], choices: dict[str, list[Choice]]
    ) -> tuple[str, Choice, float]:
        """Return the half of highest mean accuracy over the folds, the first of equals, with its best choice."""
        found = [
            (half, *self._best(self._parts(texts, half), y, of_half, compared=len(choices) > 1))
            for half, of_half in choices.items()
        ]
        # Where nothing can be held out no score is a number, and the first stays.
        return max(found, key=lambda one: -1.0 if np.isnan(one[2]) else one[2])

    def _best(
        self, parts: list[CSRRows], y: NDArray[Any], choices: list[Choice], *, compared: bool = False
    ) -> tuple[Choice, float]:
        if len(choices) == 1 and not compared:
            return choices[0], float("nan")
        return best_choice(parts, y, choices, self._settings, n_folds=N_FOLDS, seed=self.random_state_)

    def _scores_out_of_fold(self, counts: CSRRows, y: NDArray[Any]) -> CSRRows:
        """Return scores of the supervised model: each training sentence's by a model that did not see it."""
        # A model's scores on its own training sentences are better than those on new ones: features made of them
        # would be trusted too much.
        scores = np.zeros((counts.shape[0], len(self.classes_)))  # equal scores where nothing can be learned
        # Another seed than in the choice, so that the two do not share their folds.
        # With ``most`` set to all rows every fold is used, as every sentence needs a score.
        for train, test in folds(y, 5, self.random_state_ + 1, most=len(y)):
            if can_learn(y, train, test):
                scores[test] = scores_of_others(counts, y, self.choice_.C, self._settings, (train, test))
        self.scorer_ = fit_svm(counts, y, self.choice_.C, self._settings)
        return soften(scores)

    def __sklearn_clone__(self) -> Self:
        """Return a clone that keeps a fitted representation, which unlabeled text has taught."""
        if self.representation is not None and is_fitted(self.representation):
            return clone_sharing(self, "representation")
        return clone_sharing(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


def checked_labels(y: ArrayLike, n_texts: int) -> NDArray[Any]:
    """Return one label for each sentence. Shapes: `y` (n_texts,); returns (n_texts,).

    >>> checked_labels(["music", "travel"], 2).tolist()
    ['music', 'travel']
    """
    labels: NDArray[Any] = label_array(y)
    if labels.ndim != 1:
        raise ValueError(f"y has shape {labels.shape}, but it must hold one label a sentence")
    if len(labels) != n_texts:
        raise ValueError(f"there are {n_texts} sentences, but {len(labels)} labels")
    if labels.dtype.kind == "O":
        raise ValueError(f"label {labels.tolist().index(None)} is None, but each sentence needs an intent")
    check_classification_targets(labels)
    return labels


def numbers(name: str, value: float | Sequence[float], *, at_least: float) -> list[float]:
    """Return a parameter that is one number or several as a list."""
    # As objects: a text stays a text and None stays None, for check_real to name.
    found = np.atleast_1d(np.asarray(value, dtype=object)).tolist()
    if not found:
        raise ValueError(f"{name} is empty, but it must be a number or a sequence of numbers")
    return [check_real(name, number, at_least=at_least) for number in found]
