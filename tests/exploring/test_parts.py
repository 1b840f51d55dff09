import gzip
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from dspectral import Topics, build_corpus
from dspectral.exploring import steps
from dspectral.exploring.documents import EXCERPT_CHARS, cut_excerpt, read_documents
from dspectral.exploring.findings import Branch, build_class_tree, get_leaves, get_word_groups
from dspectral.exploring.frequent_words import FrequentWords, describe_documents
from dspectral.methods.brown.clustering import SpectralBrownClustering
from dspectral.store.from_text.lines import ReadOptions
from dspectral.store.from_text.text_input import open_text
from dspectral.store.matrix import write_counts
from tests.exploring.texts import two_subjects

LINES = ["Mr. Fox ran. The fox hid!", "", "fox, hen; hen", "...", "the hen sat"]


@pytest.fixture
def corpus(tmp_path):
    text = tmp_path / "lines.txt"
    text.write_text("\n".join(LINES), encoding="utf-8")
    return build_corpus(str(text), str(tmp_path / "corpus"), lowercase=True, tokens="words", block_bytes=30)


def planned(sources, block_bytes):
    """Files as `explore` plans to read them again."""
    return open_text(sources, ReadOptions(block_bytes=block_bytes), as_sentences=True)


def test_sentences_are_cut_at_punctuation_but_not_after_a_title(corpus):
    words = FrequentWords.from_corpus(corpus, min_count=1, n_words=100)
    sentences = words.get_sentences()
    actual = []
    for block in sentences.sentences.items:
        ids, offsets = sentences.sentences.read(block)
        actual += [[words.words[i] for i in ids[a:b]] for a, b in pairwise(offsets)]
    assert [one for one in actual if one] == [
        ["mr", "fox", "ran"],
        ["the", "fox", "hid"],
        ["fox", "hen"],
        ["hen"],
        ["the", "hen", "sat"],
    ]
    assert describe_documents(words)[:3] == (3, 5, True)
    assert (words.n_tokens, words.n_types) == (12, 7)


def test_rare_words_are_one_type_and_counts_stay_whole(corpus):
    words = FrequentWords.from_corpus(corpus, min_count=2, n_words=2)
    assert words.words == ["<?>", "fox", "hen"]
    assert words.counts.tolist() == [6, 3, 3]
    rows = sparse.vstack([words.get_document_counts({}).read(block) for block in corpus.blocks]).toarray()
    assert rows.tolist() == [[0, 2, 0], [0, 0, 0], [0, 1, 2], [0, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize("compressed", [False, True])
def test_documents_of_many_spans_and_files_are_read_by_their_numbers(tmp_path, compressed):
    lines = [f"document {i} of many" for i in range(60)]
    for name, part in (("a", lines[:45]), ("b", lines[45:])):
        data = ("\n".join(part) + "\n").encode()
        path = tmp_path / f"{name}.txt{'.gz' * compressed}"
        path.write_bytes(gzip.compress(data) if compressed else data)
    corpus = build_corpus(str(tmp_path / "*.txt*"), str(tmp_path / "corpus"), block_bytes=200)
    rows = np.array([0, 13, 44, 45, 59])
    actual = read_documents(corpus, rows, planned(str(tmp_path / "*.txt*"), 200))
    assert [text for _, text in actual] == [lines[i] for i in rows]


def test_an_excerpt_shows_where_the_telling_words_are():
    text = "filler word " * 60 + "then a kangaroo met a koala " + "and more " * 100
    split_sentences = cut_excerpt(text, {"kangaroo", "koala"})
    assert "kangaroo met a koala" in split_sentences
    assert split_sentences.startswith("\u2026 ")
    assert split_sentences.endswith(" \u2026")
    assert len(split_sentences) < EXCERPT_CHARS + 10
    assert cut_excerpt(text)[:11] == "filler word"
    assert len(cut_excerpt("x" * 5_000)) < EXCERPT_CHARS + 10


def test_every_word_is_in_one_class_of_the_tree():
    sentences = [text.lower().replace(".", "").split() for text in two_subjects(120)]
    brown = SpectralBrownClustering(16).fit(sentences)
    tree = build_class_tree(brown)
    classes = get_leaves(tree)
    codes = brown.codes()
    together = np.sort(np.concatenate([one.words for one in classes]))
    np.testing.assert_array_equal(together, np.arange(1, len(brown.words_)))
    assert all(codes[i] == one.code for one in classes for i in one.words)
    assert tree.n_tokens == brown.word_counts_[1:].sum() == sum(one.n_tokens for one in classes)
    groups = get_word_groups(tree, len(brown.words_))
    assert groups[0] == -1
    assert set(groups[1:].tolist()) == set(range(12))
    assert all(isinstance(one, Branch) and len(one.branches) in (0, 2) for one in tree.branches)


def test_documents_with_the_same_words_are_counted_once(tmp_path):
    lines = [
        "one two three",
        "four five six",
        "3 two one three",
        "four five",
        "four five",
        "seven one two three",
    ]
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    corpus = build_corpus(tmp_path / "text.txt", tmp_path / "corpus", block_bytes=20, tokens="words")
    words = FrequentWords.from_corpus(corpus, min_count=1, n_words=10, clean=["numbers"])
    masks = describe_documents(words).is_repeated
    assert np.concatenate(list(masks.values())).tolist() == [False, False, True, False, False, False]
    rows = sparse.vstack([words.get_document_counts(masks).read(block) for block in corpus.blocks])
    assert np.diff(rows.tocsr().indptr).tolist() == [3, 3, 0, 2, 2, 4]


def test_coherence_is_the_npmi_of_first_words_given_the_lengths_of_documents():
    rng = np.random.default_rng(0)
    lengths = np.repeat([0.1, 0.9], 1000)[:, None]  # words are independent given the length
    counts, words = (rng.random((2000, 8)) < lengths).astype(float), list("abcdefgh")
    counts[:, 7] = counts[:, 6]
    tops = [list("abcde"), list("hg")]
    independent, equal = steps.measure_coherence(sparse.csr_array(counts), tops, words)
    assert abs(independent) < 0.06
    joint, expected = counts[:, 6].mean(), 0.0
    for members in np.array_split(np.argsort(counts.sum(axis=1), kind="stable"), 5):
        expected += counts[members, 6].mean() ** 2 / 5
    assert equal == pytest.approx(np.log(joint / expected) / -np.log(joint))


def test_topics_of_random_words_have_no_subject():
    rng = np.random.default_rng(0)
    random = sparse.csr_array((rng.random((400, 120)) < 0.08).astype(float))
    planted = random.toarray()
    for row, subject in zip(planted, rng.integers(6, size=400), strict=True):
        row[subject * 20 + rng.choice(20, 6, replace=False)] = 1
    words = [f"w{i}" for i in range(120)]
    for rows, expected in ((random, 0), (sparse.csr_array(planted), 6)):
        topics = Topics(6, min_df=1, max_df=1.0).fit(rows, terms=words)
        assert steps.find_subjects(topics, rows)[1].sum() == expected


@pytest.mark.parametrize(("found", "n_topics"), [({10: 2, 4: 1}, 10), ({10: 0, 4: 2}, 4), ({10: 1, 4: 0}, 10)])
def test_fewer_topics_are_fitted_where_hardly_any_has_a_subject(found, n_topics, tmp_path, monkeypatch):
    rows = sparse.csr_array((np.random.default_rng(0).random((90, 60)) < 0.1).astype(float))
    store = write_counts(rows, str(tmp_path / "rows.zarr"))
    tried = []

    def find_subjects(topics, _sample):
        tried.append(topics.n_topics)
        return np.zeros(topics.n_topics), np.arange(topics.n_topics) < found[topics.n_topics]

    monkeypatch.setattr(steps, "find_subjects", find_subjects)
    words = [f"w{i}" for i in range(60)]
    n_passes, (topics, _coherence, has_subject) = steps.fit_topics(
        Topics(10, min_df=1, max_df=1.0, random_state=0), store, words, rows, None
    )
    assert topics.n_topics == len(has_subject) == n_topics
    assert tried == [10, 4][: 1 if found[10] > 1 else 2]
    assert n_passes >= len(tried) * topics.n_passes_ - 1
