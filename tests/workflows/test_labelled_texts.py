"""Words of labeled texts, their forms, and the vectors that machines get of them."""

import numpy as np

from workflows import tmpca_classification
from workflows._parts.labelled_texts import content, gram_form, words_of
from workflows._parts.text_classifiers import Average, Settings, concatenated


def test_words_stop_words_and_forms():
    assert words_of("He wo n't, they 're") == ["he", "won't", ",", "they're"]
    assert words_of("at 10:30", zero_digits=True) == ["at", "00", ":", "00"]
    said = [["this", "is", "not", "good", "."]]
    assert content(said, "none") == said
    assert content(said, "english") == [["good"]]
    assert content(said, "weak") == [["not", "good"]]
    assert gram_form(list("abcd"), 3) == list("abcbcd")
    assert gram_form(list("ab"), 4) == ["a", "b"]


def test_the_mean_vector_is_that_of_the_tokens_that_have_one():
    matrix = np.array([[1.0, 0.0], [0.0, 3.0]], dtype=np.float32)
    texts = [["good", "bad", "odd"], ["good"], []]
    found = tmpca_classification.mean_vector(["good", "bad"], matrix, texts)
    np.testing.assert_allclose(found, [2 / 3, 1.0])
    np.testing.assert_array_equal(tmpca_classification.mean_vector(["good", "bad"], matrix, []), [0, 0])


def test_averages_and_concatenations_are_of_the_words_that_have_a_vector():
    vectors = (["good", "bad"], np.array([[1.0, 0.0], [0.0, 2.0]], dtype=np.float32))
    settings = Settings(vectors, 2, 3, "weak", 0)
    texts = [["the", "good", "bad"], [], ["bad", "bad", "unknown", "good"]]
    np.testing.assert_allclose(Average(settings).transform(texts), [[0.5, 1.0], [0, 0], [0.25, 1.0]])
    expected = [[1, 0, 0, 2, 0, 0], [0] * 6, [0, 2, 0, 2, 0, 0]]
    np.testing.assert_array_equal(concatenated(texts, settings), expected)
