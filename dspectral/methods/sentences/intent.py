"""Intent classification: a linear SVM on counts and a sentence representation."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from dspectral.engine import tracked_fit
from dspectral.inputs.labels import as_label_array
from dspectral.inputs.rows import RunPlanMixin
from dspectral.inputs.texts import TextColumn, as_documents, clone_with_shared, is_fitted
from dspectral.methods.sentences.cross_validation import (
    PLUS_WEIGHTS,
    TOLERANCE,
    Choice,
    can_learn,
    exponentiate_scores,
    fit_svm,
    hold_out,
    make_folds,
    score_classes,
    score_held_out,
    select_choice,
    weigh_blocks,
)
from dspectral.methods.sentences.features import HALF_KINDS, HalfKind, SentenceFeatures
from dspectral.methods.sentences.representation import SentenceRepresentation
from dspectral.parameters import RandomState, check_flag, check_option, check_real, resolve_recipe, resolve_seed
from dspectral.registry import register_class
from dspectral.text.token_rules import has_unspaced_script
from dspectral.text.tokenizers import TokenizerLike
from dspectral.text.weighting import DocumentFrequencies, Weighting, inverse_document_frequency
from dspectral.types import AnyArray, CheckpointPath, CSRRows, Documents, Doubles

WEIGHT_HALVING = 40
"""Mean number of sentences per intent at which the default weight of the representation is one half."""
MIN_LABELS = 2000
"""Number of labels from which other settings are compared with the default ones."""
MANY_LABELS: tuple[dict[str, Any], ...] = ({"max_words": 2, "characters": (3, 5)}, {"weight": 0.3}, {"C": 0.5})
"""Settings that are compared in turn: longer n-grams of characters, the representation, and a penalty for noise."""
PAIRS_WEIGHT = 0.5
"""Weight of words in scripts without spaces, which are pairs of letters that n-grams of characters have too."""
N_FOLDS = 3
"""Number of folds of the cross-validation."""


@register_class()
class IntentRecipe(NamedTuple):
    """Settings of :class:`~dspectral.IntentClassifier` for comparisons.

    Attributes
    ----------
    half : {"sent", "sketch", "idf", "idf+sent"}, default="sent"
        Second half of the features. ``"sketch"`` is the mean of the words' directions. ``"idf"`` has one column per
        word, weighted by inverse document frequency. ``"sent"`` is the mean of directions weighted by it, as in
        equation 2, and ``"idf+sent"`` is both.
    characters : bool or None, default=None
        Add character n-grams within words to the counts. False gives the features of the paper, SENT. None adds them
        except for SENT+ (``plus=True``).
    """

    half: HalfKind = "sent"
    characters: bool | None = None


@register_class(
    {
        "classes_": "classes_",
        "svm_.classes_": "classes_",
        "scorer_.classes_": "classes_",
        "character_weighting_.column_weights": "_n_character_columns",
    }
)
class IntentClassifier(RunPlanMixin, ClassifierMixin, BaseEstimator):
    """Crammer-Singer linear SVM on n-grams of words and characters and, optionally, a sentence representation.

    Parameters
    ----------
    representation : SentenceRepresentation, WordVectorRepresentation or None, default=None
        Second half of the features. A fitted one is used as it is, also in clones and cross-validation. An unfitted
        one is fitted to the training sentences. With None the features are the n-grams alone.
    plus : bool, default=False
        Add the features of SENT+: the first two words by position, and the intent scores of a supervised model. In
        training the scores of a sentence come from models that were not trained on it. Cross-validation chooses the
        weights of these features; a weight of 0 drops them.
    C : float, sequence of float or None, default=None
        Inverse penalty of the SVM. If it is a sequence, cross-validation chooses one value by three fits each. Each fit
        holds out at most 3,000 sentences. None takes 1, or 0.5 with many labels as below.
    weights : float, sequence of float or None, default=None
        Weight of the representation relative to the counts, a number or a sequence as for ``C``. None takes
        ``u / (1 + n / 40)`` for a mean of n sentences per intent, where u is the unlabeled share of the sentences of
        the representation, or 0.3 with many labels as below; without character n-grams it takes 1.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the folds and of the SVM's coordinate descent.
    class_weight : dict, "balanced" or None, default=None
        Class weights, as for scikit-learn's ``LinearSVC``.
    recipe : IntentRecipe or None, default=None
        Settings for comparisons; None takes the defaults of :class:`~dspectral.IntentRecipe`.
    tokenizer : callable, str or None, default="auto"
        Tokenizer of words without a representation, which has its own, as for :class:`SentenceRepresentation`.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        The intents in ascending order.
    character_weighting_ : Weighting or None
        Inverse document frequencies of the character n-grams in the training sentences; None without them.
    half_ : str
        Kind of the second half in use; ``"none"`` without a representation.
    choice_ : Choice
        Settings selected by cross-validation.
    score_ : float
        Cross-validated accuracy of the choice; NaN without a cross-validation.
    svm_ : LinearSVC
        The SVM, fitted to all training sentences.
    random_state_ : int
        The seed that was used.

    Notes
    -----
    By default the features are ``x / ||x|| + z / ||z||`` and then the representation times its weight. x holds the
    hashed n-gram counts of words. z holds those of 2 to 4 characters within words, times their inverse document
    frequencies, in the same columns: they match misspelled and inflected words. In scripts without spaces z has 1 to 3
    characters, and x half the weight with the tokenizer "auto". The weight of the representation falls
    as labels increase, because its gain comes from words that have few labeled sentences.

    With 2,000 or more labels, and neither C nor weights, three changes are made in turn if each gives a higher accuracy
    on one third of the sentences, at most 3,000: pairs of words in place of triples, with 3 to 5 characters; a weight
    of 0.3; and C = 0.5.

    The fits of the cross-validation are joblib tasks: ``with joblib.parallel_config(n_jobs=4):`` runs four at a time.
    By default they run one after the other.

    An intent with a single sentence counts as an error in the fold that holds it out. Folds with a single intent in
    their training rows are skipped.

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
        C: float | Sequence[float] | None = None,
        weights: float | Sequence[float] | None = None,
        random_state: RandomState = 0,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        recipe: IntentRecipe | None = None,
        tokenizer: TokenizerLike | None = "auto",
    ) -> None:
        self.representation = representation
        self.plus = plus
        self.C = C
        self.weights = weights
        self.random_state = random_state
        self.class_weight = class_weight
        self.recipe = recipe
        self.tokenizer = tokenizer

    _own_representation: SentenceFeatures | None = None
    character_weighting_: Weighting | None = None

    @property
    def representation_(self) -> SentenceFeatures | None:
        """The fitted representation: the parameter, or a copy that was fitted to the training sentences."""
        return self.representation if self._own_representation is None else self._own_representation

    @tracked_fit
    def fit(self, X: TextColumn, y: ArrayLike, *, checkpoints: CheckpointPath = None) -> Self:
        """Choose settings by cross-validation, then fit to all training sentences.

        Parameters
        ----------
        X : list of str, generator, array of strings, or column of pandas, polars or Hugging Face Datasets
            Training sentences.
        y : array-like of labels, shape (n_sentences,)
            Intent of each sentence.
        checkpoints : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.checkpoints` takes it.

        Returns
        -------
        IntentClassifier
            The fitted classifier.

        Raises
        ------
        ValueError
            If there are fewer than two intents, the numbers of labels and sentences differ, ``plus`` is True
            without a representation, the representation has no such ``half``, or a parameter is out of range.
        """
        texts = as_documents(X)
        labels = check_labels(y, texts.n_documents)
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one intent, {self.classes_.tolist()}, but needs at least two")
        self.random_state_ = resolve_seed(self.random_state)
        self._check_parameters()
        self._fit_representation(texts)
        self.half_ = "none" if self.representation is None else self._recipe.half
        self.choice_, self.score_, blocks = self._select(texts, labels)
        if self.plus:
            # A joint search over C, weights and the weights of SENT+ would take four times as many fits.
            blocks = [*blocks, self._base.positions(texts), self._cross_fit_scores(blocks[0], labels)]
            choices_plus = [self.choice_._replace(first_words=p, scores=s) for p, s in PLUS_WEIGHTS]
            self.choice_, self.score_ = self._choose(blocks, labels, choices_plus)
        tol = {} if self.character_weighting_ is None else {"tol": TOLERANCE}
        features = weigh_blocks(blocks, self.choice_)
        self.svm_ = fit_svm(features, labels, self.choice_.C, self._settings, **tol)
        return self

    def predict(self, X: TextColumn) -> AnyArray:
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
        features = self._make_features(X)
        return self.svm_.predict(features)

    def decision_function(self, X: TextColumn) -> Doubles:
        """Return the SVM's scores.

        Parameters
        ----------
        X : list of str
            Sentences, as for :meth:`fit`.

        Returns
        -------
        ndarray of float64, shape (n_sentences, n_classes), or (n_sentences,) for two intents
            The predicted intent has the highest score. For two intents a positive score predicts the second.
        """
        features = self._make_features(X)
        return self.svm_.decision_function(features)

    def predict_proba(self, X: TextColumn) -> Doubles:
        """Return a softmax of four times the SVM's scores.

        These probabilities are not calibrated; scikit-learn's ``CalibratedClassifierCV`` calibrates them.

        Parameters
        ----------
        X : list of str
            Sentences, as for :meth:`fit`.

        Returns
        -------
        ndarray of float64, shape (n_sentences, n_classes)
            Each row sums to 1, and its largest value is that of the predicted intent.
        """
        scores = score_classes(self.svm_, self._make_features(X), self.classes_)
        return softmax(4.0 * scores, axis=1)

    @property
    def _settings(self) -> dict[str, Any]:
        return {"random_state": self.random_state_, "class_weight": self.class_weight}

    @property
    def _recipe(self) -> IntentRecipe:
        return resolve_recipe(self.recipe, IntentRecipe)

    @property
    def _has_character_ngrams(self) -> bool:
        return not self.plus if self._recipe.characters is None else self._recipe.characters

    def _check_parameters(self) -> None:
        check_option("half", self._recipe.half, HALF_KINDS)
        check_flag("characters", self._has_character_ngrams)
        if self.plus and self.representation is None:
            raise ValueError("plus=True needs a representation: give one, or set plus=False")
        if isinstance(self.class_weight, dict) and (unknown := self.class_weight.keys() - set(self.classes_.tolist())):
            raise ValueError(
                f"class_weight has {min(map(repr, unknown))}, but its keys must be intents of y, such as "
                f"{self.classes_.tolist()[0]!r}: correct the name, or remove it"
            )

    def _default_weight(self, n_labels: int) -> float:
        if not self._has_character_ngrams:
            return 1.0
        n_sentences = getattr(self.representation_, "n_sentences_", np.inf)
        return max(0.0, 1 - n_labels / n_sentences) / (1 + n_labels / len(self.classes_) / WEIGHT_HALVING)

    def _list_choices(self, n_labels: int) -> list[Choice]:
        """Return the candidate settings; the first of equals wins, so earlier ones are preferred."""
        penalties = as_numbers("C", 1.0 if self.C is None else self.C, at_least=np.nextafter(0.0, 1.0))
        weights = self._default_weight(n_labels) if self.weights is None else self.weights
        weights = as_numbers("weights", weights, at_least=0.0)
        weights = [0.0] if self.representation is None else weights
        return [Choice(C, weight) for weight in weights for C in penalties]

    def _fit_representation(self, texts: Documents) -> None:
        # fit must not change the parameter, and a saved model must not hold a fitted parameter twice.
        self._own_representation = None
        if self.representation is not None and not is_fitted(self.representation):
            self._own_representation = clone(self.representation).fit(texts)

    @property
    def _n_character_columns(self) -> int:
        return int(self._base.n_features)

    def _make_features(self, X: TextColumn) -> CSRRows:
        check_is_fitted(self)
        texts = as_documents(X)
        blocks = self._feature_blocks(texts, self.choice_)
        if self.plus:
            scores = score_classes(self.scorer_, blocks[0], self.classes_)
            blocks = [*blocks, self._base.positions(texts), exponentiate_scores(scores)]
        return weigh_blocks(blocks, self.choice_)

    @property
    def _base(self) -> SentenceFeatures:
        """The representation that computes counts; it need not be fitted."""
        representation = self.representation_
        return SentenceRepresentation(tokenizer=self.tokenizer) if representation is None else representation

    def _feature_blocks(self, texts: Documents, choice: Choice, *, fits_characters: bool = False) -> list[CSRRows]:
        """Return the two halves of equation 2; without a representation the second has no columns."""
        counts = self._base.counts(texts, choice.max_words)
        if fits_characters or self.character_weighting_ is not None:
            characters = self._base.character_counts(texts, choice.characters)
            if fits_characters:
                n_rows, frequency = DocumentFrequencies.from_block(characters)
                weights = inverse_document_frequency(frequency, n_rows)
                self.character_weighting_ = Weighting(column_weights=weights, norm="l2")
            is_unspaced = has_unspaced_script(texts)
            if is_unspaced.any() and self._base.tokenizer == "auto":
                counts = sparse.csr_array(sparse.diags_array(np.where(is_unspaced, PAIRS_WEIGHT, 1.0)) @ counts)
            counts = counts + cast("Weighting", self.character_weighting_).apply(characters)
        if self.representation_ is None:
            return [counts, sparse.csr_array((counts.shape[0], 0))]
        return [counts, self.representation_.second_half(texts, self.half_)]

    def _select(self, texts: Documents, y: AnyArray) -> tuple[Choice, float, list[CSRRows]]:
        """Return the selected settings, their accuracy, NaN for the only candidate, and the features."""
        choices = self._list_choices(len(y))
        self.character_weighting_ = None
        has_characters = self._has_character_ngrams
        blocks = self._feature_blocks(texts, choices[0], fits_characters=has_characters)
        if not has_characters or len(y) < MIN_LABELS or self.C is not None or self.weights is not None:
            return *self._choose(blocks, y, choices), blocks
        # Make each change that has a higher accuracy on one third of the sentences.
        splits = [hold_out(y, self.random_state_)]
        best = select_choice(blocks, y, choices, self._settings, splits=splits)
        for change in MANY_LABELS:
            choice, others, weighting = best[0]._replace(**change), blocks, self.character_weighting_
            if "characters" in change:
                others = self._feature_blocks(texts, choice, fits_characters=True)
            if "weight" not in change or self.representation is not None:
                result = select_choice(others, y, [choice], self._settings, splits=splits)
                if result[1] > best[1]:
                    best, blocks = result, others
                else:
                    self.character_weighting_ = weighting
        return *best, blocks

    def _choose(self, blocks: list[CSRRows], y: AnyArray, choices: list[Choice]) -> tuple[Choice, float]:
        if len(choices) == 1:
            return choices[0], float("nan")
        splits = make_folds(y, N_FOLDS, self.random_state_)
        return select_choice(blocks, y, choices, self._settings, splits=splits)

    def _cross_fit_scores(self, counts: CSRRows, y: AnyArray) -> CSRRows:
        """Return the supervised model's scores of the training sentences, each by a model not trained on it."""
        # In-sample scores are better than those of new sentences and would get too much weight.
        scores = np.zeros((counts.shape[0], len(self.classes_)))  # equal scores where a fold cannot be fitted
        # The seed differs from that of the choice, so that the two do not share their folds. Every sentence needs a
        # score, so all folds are used.
        for train, test in make_folds(y, 5, self.random_state_ + 1, max_held_out=len(y)):
            if can_learn(y, train, test):
                scores[test] = score_held_out(counts, y, self.choice_.C, self._settings, (train, test))
        self.scorer_ = fit_svm(counts, y, self.choice_.C, self._settings)
        return exponentiate_scores(scores)

    def __sklearn_clone__(self) -> Self:
        """Return a clone that keeps a fitted representation."""
        if self.representation is not None and is_fitted(self.representation):
            return clone_with_shared(self, "representation")
        return clone_with_shared(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


def check_labels(y: ArrayLike, n_texts: int) -> AnyArray:
    """Return labels as an array after checking them. Shapes: `y` (n_texts,); returns (n_texts,).

    >>> check_labels(["music", "travel"], 2).tolist()
    ['music', 'travel']
    """
    labels: AnyArray = as_label_array(y)
    if labels.ndim != 1:
        raise ValueError(f"y has shape {labels.shape}, but must have one label per sentence: ({n_texts},)")
    if len(labels) != n_texts:
        raise ValueError(f"X has {n_texts} sentences, but y has {len(labels)} labels: pass one label per sentence")
    if labels.dtype.kind == "O":
        raise ValueError(f"label {labels.tolist().index(None)} of y is None: pass an intent, or drop the sentence")
    check_classification_targets(labels)
    return labels


def as_numbers(name: str, value: float | Sequence[float], *, at_least: float) -> list[float]:
    """Return a number or a sequence of numbers as a list."""
    # An object array keeps strings and None, which check_real then reports.
    values = np.atleast_1d(np.asarray(value, dtype=object)).tolist()
    if not values:
        raise ValueError(f"{name} is empty, but must be a number or a non-empty sequence of numbers")
    return [check_real(name, number, at_least=at_least) for number in values]
