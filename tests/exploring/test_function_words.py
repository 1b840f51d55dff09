import numpy as np
import pytest
from scipy import sparse

from dspectral import Texts, build_corpus
from dspectral.exploring.frequent_words import FrequentWords, describe_documents
from dspectral.exploring.function_words import find_language, find_spread_words
from dspectral.exploring.stems import choose_stem_length


def make_words(texts, path):
    return FrequentWords.from_corpus(build_corpus(Texts(texts), str(path), min_count=1), min_count=1, n_words=10_000)


def test_words_of_every_subject_are_spread_and_collocates_are_ignored():
    """Words 0 to 9 are in documents of all four subjects, words 8 and 9 always together; others have one subject."""
    rng = np.random.default_rng(0)
    subjects = rng.integers(4, size=600)
    counts = np.zeros((600, 130))
    for row, subject in zip(counts, subjects, strict=True):
        row[10 + 30 * subject + rng.choice(30, 8, replace=False)] = 1
        row[:9] = rng.random(9) < 0.2
        row[9] = row[8]
    is_spread = find_spread_words(sparse.csr_array(counts), max_documents=150)
    np.testing.assert_array_equal(np.flatnonzero(is_spread), range(10))
    assert not find_spread_words(sparse.csr_array(counts[:6]), max_documents=150).any()  # too few to know


@pytest.mark.parametrize(("n_endings", "expected"), [(8, 5), (1, None)])
def test_stems_are_as_long_as_the_part_that_words_of_a_document_share(tmp_path, n_endings, expected):
    """Each document has six of its own stems of five letters, each with another ending of three."""
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnop"))
    stems = np.array(["".join(rng.choice(letters, 5)) for _ in range(400)])
    endings = ["".join(rng.choice(letters, 3)) for _ in range(n_endings)]
    texts = [" ".join(stem + rng.choice(endings) for stem in rng.choice(rng.choice(stems, 6), 24)) for _ in range(300)]
    words = make_words(texts, tmp_path / "corpus")
    masks = describe_documents(words).is_repeated
    assert choose_stem_length(words, masks) == expected
    counts = words.get_document_counts(masks, expected)
    rows = sparse.vstack([counts.read(block) for block in counts.items])
    assert rows.sum() == 300 * 24
    assert np.count_nonzero(rows.sum(axis=0)) == len({word[:expected] for word in words.words[1:]})


def test_every_language_of_a_mixed_text_has_its_list(tmp_path):
    """A tenth of the documents is French, and a text of one language has no second list."""
    english = "the {} was not what they have said about the {} on monday"
    french = "je vous prie de nous dire ce que votre {} avait pour le {} lundi"
    for share, expected in ((10, "english and french"), (400, "english")):
        texts = [(french if i % share == 0 else english).format(f"noun{i % 83}", f"thing{i % 71}") for i in range(400)]
        words = make_words(texts, tmp_path / f"{share}.zarr")
        language, is_listed = find_language(words.words, words.counts)
        listed = {words.words[i] for i in np.flatnonzero(is_listed)}
        assert language == expected
        assert "monday" in listed
        assert ("lundi" in listed) == (share == 10)


def test_footers_are_passages_and_repeated_texts_are_not(tmp_path):
    rng = np.random.default_rng(0)
    texts = [" ".join("".join(pair) for pair in rng.choice(list("abcdefghij"), (30, 3))) for _ in range(300)]
    footer = "sent by the list server of our club , issue"
    words = make_words(
        [f"{text} {footer} {i}." if i % 3 else text for i, text in enumerate(texts)], tmp_path / "footers"
    )
    assert words.passages is None  # without clean
    words = FrequentWords.from_corpus(words.corpus, min_count=1, n_words=10_000, clean=["signatures", "numbers"])
    facts = describe_documents(words)
    assert facts.n_covered == 200 * 9
    counts = words.get_document_counts(facts.is_repeated)
    total = sparse.vstack([counts.read(block) for block in counts.items]).sum(axis=0)
    assert total[words.words.index("server")] == total[words.words.index("club")] == 0
    log = make_words([f"{footer} {i % 50}" for i in range(300)], tmp_path / "log")
    assert FrequentWords.from_corpus(log.corpus, min_count=1, n_words=100, clean=["signatures"]).passages is None
