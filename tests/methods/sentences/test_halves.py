"""Second halves of a representation, of which each takes away what another has."""

import numpy as np
import pytest

from dspectral import IntentClassifier, IntentRecipe, SentenceRepresentation, WordVectorRepresentation
from dspectral.methods.sentences.sentence_features import HALVES
from dspectral.text.hashing import hash_documents
from dspectral.types import Documents
from tests.methods.sentences.test_sentences import SENT, UNLABELLED, sentences

CHOSEN_AMONG = (*HALVES, "none")


def test_the_rarity_alone_is_the_unit_row_of_inverse_document_frequencies():
    texts = ["please show jazz", "the band the band", "qwertz"]
    counts = hash_documents(Documents.of(UNLABELLED), SENT.word_hashing).toarray() > 0
    rarity = np.log(len(UNLABELLED) / np.maximum(counts.sum(axis=0), 1))[SENT.words_] + 1.0
    present = hash_documents(Documents.of(texts), SENT.word_hashing).toarray()[:, SENT.words_] > 0
    expected = present * rarity
    expected /= np.maximum(np.linalg.norm(expected, axis=1, keepdims=True), 1e-300)
    np.testing.assert_allclose(SENT.second_half(texts, "idf").toarray(), expected, atol=1e-6)


def test_the_sketch_alone_weighs_each_word_alike():
    first, second = SENT.embed(["please", "jazz"])
    both = first + second
    found = SENT.second_half(["please jazz"], "sketch").toarray()[0]
    np.testing.assert_allclose(found, both / np.linalg.norm(both), atol=1e-6)
    assert not np.allclose(found, SENT.embed(["please jazz"])[0], atol=1e-3)  # jazz is rarer


def test_both_parts_are_what_the_representation_is_by_default():
    texts, _ = sentences(10, seed=5)
    np.testing.assert_array_equal(SENT.second_half(texts).toarray(), SENT.embed(texts))


def test_rarity_and_directions_stand_side_by_side_at_unit_length():
    texts, _ = sentences(10, seed=5)
    found = SENT.second_half(texts, "idf+sent").toarray()
    rarity, both = (SENT.second_half(texts, kind).toarray() for kind in ("idf", "sent"))
    np.testing.assert_allclose(found, np.hstack([rarity, both]) / 2**0.5)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-6)


def test_the_half_of_the_best_cross_validation_is_chosen_and_its_model_kept():
    texts, labels = sentences(24, seed=6)
    among = {"C": (0.3, 1.0, 3.0), "weights": (0.5, 1.0)}
    alone = {
        half: IntentClassifier(SENT, recipe=IntentRecipe(half), **among).fit(texts, labels) for half in HALVES
    }
    alone["none"] = IntentClassifier(C=among["C"]).fit(texts, labels)
    auto = IntentClassifier(SENT, recipe=IntentRecipe("auto"), **among).fit(texts, labels)
    best = max(CHOSEN_AMONG, key=lambda half: alone[half].score_)  # the first of equals
    assert len({model.score_ for model in alone.values()}) > 1
    assert (auto.half_, auto.choice_, auto.score_) == (best, alone[best].choice_, alone[best].score_)
    more = sentences(50, seed=7)[0]
    np.testing.assert_array_equal(auto.predict(more), alone[best].predict(more))


def test_a_representation_that_is_worse_than_counts_is_left_out():
    """Each intent is a word without a vector; each sentence also has a word of its own, whose vector is noise."""
    own = [f"word{number}" for number in range(40)]
    vectors = np.random.default_rng(8).normal(size=(40, 30)).astype(np.float32)
    noise = WordVectorRepresentation(own, vectors, n_features=2**12)
    intents = np.array(["on", "off"] * 20)
    texts = [f"{intent} {word}" for intent, word in zip(intents, own, strict=True)]
    asked = {"C": 1.0, "weights": 3.0}
    model = IntentClassifier(noise, recipe=IntentRecipe("auto"), **asked).fit(texts, intents)
    assert model.half_ == "none"
    assert model.score(texts, intents) == 1.0
    assert IntentClassifier(noise, **asked).fit(texts, intents).half_ == "sent"


def test_single_settings_of_several_halves_are_compared_too():
    texts, labels = sentences(24, seed=6)
    model = IntentClassifier(SENT, recipe=IntentRecipe("auto"), C=1.0, weights=1.0).fit(texts, labels)
    assert np.isfinite(model.score_)


def test_where_nothing_can_be_held_out_both_parts_stay():
    model = IntentClassifier(SENT, recipe=IntentRecipe("auto")).fit(["jazz", "flight"], ["music", "travel"])
    assert model.half_ == "sent"
    assert np.isnan(model.score_)


def test_a_half_that_there_is_not_is_refused_by_name():
    words = WordVectorRepresentation(["jazz", "flight"], np.eye(2, dtype=np.float32), n_features=2**12)
    texts, labels = sentences(12, seed=3)
    with pytest.raises(ValueError, match="kind is 'idf'"):
        IntentClassifier(words, recipe=IntentRecipe("idf")).fit(texts, labels)
    assert IntentClassifier(words, recipe=IntentRecipe("auto")).fit(texts, labels).half_ in ("sent", "none")


def test_the_sum_of_a_half_with_the_plus_features_is_fitted():
    texts, labels = sentences(24, seed=6)
    model = IntentClassifier(
        SentenceRepresentation(4, n_features=2**12), recipe=IntentRecipe("idf"), plus=True
    )
    model.fit(texts, labels)
    assert model.half_ == "idf"
    assert model.predict(texts[:3]).shape == (3,)
