"""Sentences in scikit-learn's tools: columns of texts, clones, searches, tiny folds, seeds and saved models."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from dspectral import (
    IntentClassifier,
    SentenceRepresentation,
    WordVectorRepresentation,
)
from dspectral.types import Documents

TEXTS = ["play some jazz", "play loud rock", "book cheap flight", "book my flight"] * 6
LABELS = np.array(["music", "music", "travel", "travel"] * 6)
SENT = SentenceRepresentation(2, n_features=256).fit(TEXTS)
WORDS = ["jazz", "rock", "flight", "book"]
VECTORS = np.array([[1.0, 0.1], [1.0, 0.0], [0.0, 1.0], [0.2, 0.9]])


def test_few_words_or_sentences_give_zeros_and_a_warning():
    for texts, k in ((TEXTS[:4], 6), (["one two", "one two"], 2)):
        with pytest.warns(UserWarning, match=r"n_components is [62].*rank") as message:
            sent = SentenceRepresentation(k, n_features=256, min_df=1).fit(texts)
        assert len(message) == 1
        assert sent.projection_.shape == (len(sent.words_), k)
        rank = np.count_nonzero(sent.singular_values_ > 1e-4)
        assert rank < k
        assert not sent.projection_[:, rank:].any()
        assert np.isfinite(sent.transform(texts).data).all()


def test_clone_keeps_a_fitted_representation_and_the_original():
    model = IntentClassifier(SENT, C=1.0, weights=0.5).fit(TEXTS, LABELS)
    other = clone(model)
    assert other.representation.projection_ is SENT.projection_
    assert not hasattr(other, "svm_")
    other.set_params(representation__weight=3.0)
    assert SENT.weight == 1.0
    other.fit(TEXTS[:6], LABELS[:6])
    np.testing.assert_array_equal(other.representation_.projection_, SENT.projection_)


def test_unfitted_representation_learns_from_training_sentences():
    model = IntentClassifier(SentenceRepresentation(2, n_features=256), C=1.0, weights=1.0)
    assert not hasattr(model.fit(TEXTS, LABELS).representation, "projection_")
    np.testing.assert_array_equal(model.representation_.projection_, SENT.projection_)
    assert not hasattr(clone(model).representation, "projection_")
    search = GridSearchCV(model, {"representation__n_components": [1, 2]}, cv=2, error_score="raise")
    assert search.fit(TEXTS, LABELS).best_score_ == 1.0


@pytest.mark.parametrize(
    ("parameters", "labels", "message"),
    [
        ({"class_weight": {"music": 2.0, "musik": 5.0}}, LABELS, "class_weight.*'musik'"),
        ({"plus": True, "representation": None}, LABELS, "plus=True"),
        ({}, ["x"] * 24, "one intent"),
    ],
)
def test_wrong_parameter_or_label_is_named(parameters, labels, message):
    with pytest.raises((ValueError, TypeError), match=message):
        IntentClassifier(**{"representation": SENT, **parameters}).fit(TEXTS, labels)


@pytest.mark.parametrize("plus", [False, True])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_an_intent_with_one_sentence_takes_part_in_tiny_sets(n, plus):
    texts, labels = (
        ["play jazz", "book flight", "play rock", "wake me", "book it"][:n],
        ["a", "b", "a", "c", "b"],
    )
    model = IntentClassifier(SENT, plus=plus, C=(0.3, 1.0)).fit(texts, labels[:n])
    assert model.classes_.tolist() == sorted(set(labels[:n]))
    assert set(model.predict(texts)) <= set(labels)
    assert np.isfinite(model.decision_function(texts)).all()


def test_word_vectors_are_taken_with_words_as_strings_or_packed():
    strings = WordVectorRepresentation(WORDS, VECTORS, n_features=64)
    packed = WordVectorRepresentation(Documents.from_strings(WORDS), VECTORS, n_features=64)
    np.testing.assert_array_equal(strings.embed(TEXTS), packed.embed(TEXTS))
    other = clone(strings)
    assert other.words is WORDS
    assert other.vectors is VECTORS
    assert len(strings.get_feature_names_out()) == 66
    assert make_pipeline(strings, LinearSVC()).fit(TEXTS, LABELS).score(TEXTS, LABELS) == 1.0
    with pytest.raises(ValueError, match=r"vectors.*\(3, 2\).*4 words"):
        WordVectorRepresentation(WORDS, VECTORS[:3]).fit()
    with pytest.raises(ValueError, match=r"'rock'.*NaN"):
        WordVectorRepresentation(WORDS, np.where(VECTORS == 0.0, np.nan, VECTORS)).fit()
