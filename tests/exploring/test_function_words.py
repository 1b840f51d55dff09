import numpy as np

from dspectral import Texts, build_corpus
from dspectral.exploring.frequent_words import FrequentWords
from dspectral.exploring.function_words import MIN_SCORE, score_function_words


def test_words_with_diverse_neighbors_are_function_words(tmp_path):
    """Half of the tokens are five particles between random nouns, each of which has its own two companions."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(4000):
        nouns = rng.integers(1200, size=4)
        particles = rng.integers(5, size=4)
        lines.append(" ".join(f"p{p}x n{n}y n{n}z" for p, n in zip(particles, nouns, strict=True)))
    path = tmp_path / "text.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    words = FrequentWords.from_corpus(build_corpus(path, tmp_path / "corpus"), min_count=1, n_words=5000)
    scores, language = score_function_words(words)
    assert language == ""
    actual = {words.words[i] for i in np.flatnonzero(scores > MIN_SCORE)}
    assert actual == {f"p{i}x" for i in range(5)}


def test_every_language_of_a_mixed_text_has_its_list(tmp_path):
    """A tenth of the documents is French, and a text of one language has no second list."""
    english = "the {} was not what they have said about the {} on monday"
    french = "je vous prie de nous dire ce que votre {} avait pour le {} lundi"
    for share, expected in ((10, "english and french"), (400, "english")):
        texts = [(french if i % share == 0 else english).format(f"noun{i % 83}", f"thing{i % 71}") for i in range(400)]
        corpus = build_corpus(Texts(texts), str(tmp_path / f"{share}.zarr"), min_count=1)
        words = FrequentWords.from_corpus(corpus, min_count=1, n_words=1000)
        scores, language = score_function_words(words)
        listed = {words.words[i] for i in np.flatnonzero(scores > MIN_SCORE)}
        assert language == expected
        assert "monday" in listed
        assert ("lundi" in listed) == (share == 10)
