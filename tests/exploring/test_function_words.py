import numpy as np
import pytest

from dspectral import Texts, build_corpus
from dspectral.exploring.frequent_words import FrequentWords, find_function_words


def test_a_text_without_a_list_has_no_function_words(tmp_path):
    corpus = build_corpus(Texts(["kaka lele", "momo kaka"] * 20), str(tmp_path / "corpus"))
    is_function, language = find_function_words(FrequentWords.from_corpus(corpus, min_count=1, n_words=50))
    assert language == ""
    assert not is_function.any()


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("english", "the house of the king is not in the town"),
        ("german", "das Haus des Kaisers ist nicht in der Stadt"),
    ],
)
def test_words_of_a_list_are_function_words_of_a_text_in_its_language(language, sentence, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(f"{sentence}\n" * 20, encoding="utf-8")
    corpus = build_corpus(path, tmp_path / "corpus", lowercase=True)
    words = FrequentWords.from_corpus(corpus, min_count=1, n_words=5000)
    is_function, found = find_function_words(words)
    assert found == language
    function_words = {words.words[i] for i in np.flatnonzero(is_function)}
    content_words = {"house", "king", "town", "haus", "kaisers", "stadt"}
    assert function_words == set(sentence.lower().split()) - content_words


def test_every_language_of_a_mixed_text_has_its_list(tmp_path):
    """A tenth of the documents is French, and a text of one language has no second list."""
    english = "the {} was not what they have said about the {} on monday"
    french = "je vous prie de nous dire ce que votre {} avait pour le {} lundi"
    for share, expected in ((10, "english and french"), (400, "english")):
        texts = [(french if i % share == 0 else english).format(f"noun{i % 83}", f"thing{i % 71}") for i in range(400)]
        corpus = build_corpus(Texts(texts), str(tmp_path / f"{share}.zarr"), min_count=1)
        words = FrequentWords.from_corpus(corpus, min_count=1, n_words=1000)
        is_function, language = find_function_words(words)
        listed = {words.words[i] for i in np.flatnonzero(is_function)}
        assert language == expected
        assert "monday" in listed
        assert ("lundi" in listed) == (share == 10)
