"""A corpus holds the sentences of its text, however the text is cut."""

import gzip
import re
from collections import Counter
from functools import partial

import pytest

from dspectral.cooccurrence.contexts import ContextCounts
from dspectral.engine import summarize
from dspectral.inputs.sequences import as_corpus
from dspectral.store.corpus import open_corpus
from dspectral.store.counts import open_store
from dspectral.store.from_text.build import build_store
from dspectral.store.from_text.corpus_build import build_corpus
from dspectral.store.location import StoreError
from dspectral.store.vocabulary import VocabularySettings
from dspectral.store.writer import discard_unfinished
from tests.cooccurrence.test_contexts import as_dictionary

TEXT = "the cat sat on the mat\n\nthe dog saw the cat\n<?> the end of it\n" * 7


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(TEXT, encoding="utf-8")
    return str(file)


def sentences_of(corpus):
    blocks = [corpus.sentences.read(item) for item in corpus.sentences.items]
    return [[corpus.words[i] for i in block.sentence(k)] for block in blocks for k in range(block.n_sentences)]


def test_sentences_come_back_with_rare_words_as_one_type(path, tmp_path):
    corpus = build_corpus(path, str(tmp_path / "corpus"), min_count=8, tokens="blanks", block_bytes=50)
    assert corpus.n_blocks > 5
    counts = Counter(TEXT.split())
    kept = {word for word, count in counts.items() if count >= 8}
    expected = [[w if w in kept else "<?>" for w in line.split()] for line in TEXT.split("\n")[:-1]]
    assert sentences_of(corpus) == expected
    assert corpus.words == ["<?>", "the", "cat"]
    assert corpus.counts.tolist() == [len(TEXT.split()) - counts["the"] - counts["cat"], 35, 14]
    assert (corpus.n_tokens, corpus.n_sentences) == (len(TEXT.split()), 28)


def test_a_corpus_opens_as_it_was_built_and_is_in_nobodys_way(path, tmp_path):
    store = str(tmp_path / "corpus")
    built = build_corpus([path, path], store, lowercase=True, tokens="words", block_bytes=40)
    opened = open_corpus(store)
    assert sentences_of(opened) == sentences_of(built)
    assert opened.provenance["corpus"] == {
        "min_count": 1,
        "lowercase": True,
        "tokens": "words",
        "normalize": "NFC",
    }
    assert "Corpus(" in repr(opened)
    with pytest.raises(StoreError, match=rf"corpus.*{re.escape(store)}"):
        build_corpus(path, store)
    with pytest.raises(StoreError, match=rf"corpus.*{re.escape(store)}"):
        build_store(path, store)
    with pytest.raises(StoreError, match="open_corpus"):
        open_store(store)
    discard_unfinished(store)
    assert open_corpus(store).n_tokens == built.n_tokens


@pytest.mark.parametrize(
    ("block_bytes", "min_count", "gz"),
    [(15, 1, False), (37, 8, False), (50, 8, True), (400, 15, True), (400, 40, False)],
)
def test_counts_do_not_depend_on_where_the_text_is_cut(block_bytes, min_count, gz, path, tmp_path):
    if gz:
        (tmp_path / "text.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
        path = str(tmp_path / "text.txt.gz")
    cut = {"tokens": "blanks", "block_bytes": block_bytes}
    corpus = build_corpus(path, str(tmp_path / "corpus"), min_count=min_count, **cut)
    in_memory = as_corpus([line.split() for line in TEXT.split("\n")], min_count=min_count)
    assert in_memory.words == corpus.words
    assert in_memory.counts.tolist() == corpus.counts.tolist()
    of = partial(ContextCounts.from_block, n_types=len(corpus.words), window=3)
    cut, whole = (
        summarize(corpus.sentences, summarize_block=of),
        summarize(in_memory.sentences, summarize_block=of),
    )
    assert as_dictionary(cut.counts) == as_dictionary(whole.counts)


def test_a_word_is_the_same_one_in_a_corpus_and_in_a_store(tmp_path):
    (tmp_path / "a.txt").write_text("War, WAR: a war!\nÜber-alles_2 (naïve)\n", encoding="utf-8")
    words = build_corpus(str(tmp_path / "a.txt"), str(tmp_path / "corpus")).words[1:]
    store = build_store(str(tmp_path / "a.txt"), str(tmp_path / "store"), vocabulary=VocabularySettings())
    assert sorted(set(words) - {",", ":", "a", "!", "-", "(", ")"}) == sorted(store.vocabulary.terms)
