"""Tokens of sentences against Python's own cutting."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dspectral.text.term_index import TermIndex
from dspectral.text.words import PADDING, count_words, cut_words, number_words
from dspectral.types import Documents

TEXTS = st.lists(st.text("abA é_'\u2019,.\tÉΣİ\u4e2d\x85\u2003\u0301-", max_size=14), max_size=6)


def words_of(text, cut, *, lowercase):
    text = text.lower() if lowercase else text
    return text.split() if cut == "blanks" else re.findall(r"\w+(?:['\u2019]\w+)*|[^\w\s]", text)


def as_lists(tokens):
    whole, starts = tokens.text[:-PADDING].tobytes(), tokens.starts
    words = [whole[a : b - 1].decode() for a, b in pairwise(starts)]
    return [words[a:b] for a, b in pairwise(tokens.bounds)]


@settings(max_examples=80, deadline=None, derandomize=True)
@given(texts=TEXTS, cut=st.sampled_from(["blanks", "words"]), lowercase=st.booleans())
def test_sentences_are_cut_as_python_does(texts, cut, lowercase):
    expected = [words_of(text, cut, lowercase=lowercase) for text in texts]
    assert as_lists(cut_words(Documents.of(texts), cut, lowercase=lowercase)) == expected


@settings(max_examples=30, deadline=None, derandomize=True)
@given(texts=TEXTS)
def test_words_are_counted_and_numbered(texts):
    tokens = cut_words(Documents.of(texts))
    table = count_words(tokens)
    terms = [table.term(i) for i in range(len(table.counts))]
    split = [text.split() for text in texts]
    flat = [word for words in split for word in words]
    assert terms == sorted(set(flat), key=str.encode)
    assert table.counts.tolist() == [flat.count(term) for term in terms]
    assert table.document_frequency.tolist() == [sum(term in words for words in split) for term in terms]
    known = ["<?>", *terms[1:]]
    sentences = number_words(tokens, TermIndex.of(Documents.of(known)))
    assert sentences.ids.tolist() == [known.index(word) if word in known else 0 for word in flat]
    assert sentences.n_sentences == len(texts)


def test_what_is_wrong_is_named():
    with pytest.raises(ValueError, match="tokens is 'letters'"):
        cut_words(Documents.of(["a"]), "letters")
    with pytest.raises(ValueError, match="Document 1 of the block is not UTF-8 at byte 2"):
        cut_words(Documents.of([b"a", b"b \xff"]))


LINE = "M86QU92!O9B!A(&QO;F<@;&EN92!O9B!T97AT('1H870@:7,@96YC;V1E9"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["a {} b"], ["a \u241a b"]),
        (["{}", "it"], ["\u241a", "it"]),
        (["A1b2" * 9, "C3d4" * 9], ["A1b2" * 9, "C3d4" * 9]),
        (["https://" + "word/" * 20, "=" * 60, "x" * 99, "\u00e9" * 60], None),
    ],
    ids=["line", "whole", "side by side", "language"],
)
def test_strings_that_are_no_language_are_one_token_within_a_document(texts, expected):
    given = [text.format(LINE) for text in texts]
    tokens = cut_words(Documents.of(given), "language")
    plain = cut_words(Documents.of(given if expected is None else expected), "words")
    assert [tokens.text.tobytes(), tokens.bounds.tolist()] == [plain.text.tobytes(), plain.bounds.tolist()]
