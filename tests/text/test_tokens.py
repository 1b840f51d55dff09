"""Words: cut as Python's own `re` and `str.lower` cut them, and bytes that are no text are named."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dspectral.text.tokens import PADDING, tokenize
from dspectral.types import Documents
from tests.text import texts

WORD = re.compile(r"(?u)\b\w\w+\b")


def words_of(tokens):
    text, ends = tokens.text.tobytes(), tokens.starts[1:] - 1
    words = [text[begin:end].decode() for begin, end in zip(tokens.starts[:-1], ends, strict=True)]
    return [words[a:b] for a, b in zip(tokens.bounds[:-1], tokens.bounds[1:], strict=True)]


@settings(deadline=None, derandomize=True, max_examples=80)
@given(texts.documents(), st.booleans())
def test_words_are_those_of_a_regular_expression(documents, lowercase):
    expected = [WORD.findall(text.lower() if lowercase else text) for text in documents]
    assert words_of(tokenize(Documents.from_strings(documents), lowercase)) == expected


@pytest.mark.parametrize("lowercase", [True, False])
def test_every_code_point_is_a_word_character_or_not_as_in_re(lowercase):
    codes = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF and chr(c) not in "\u0130\u03a3"]
    text = " ".join(2 * chr(c) for c in codes)
    tokens = tokenize(Documents.from_strings([text]), lowercase)
    expected = WORD.findall(text.lower() if lowercase else text)
    assert len(expected) > 100_000
    assert tokens.text[:-PADDING].tobytes().decode() == " ".join(expected) + " "
    np.testing.assert_array_equal(np.diff(tokens.starts), [len(word.encode()) + 1 for word in expected])


@settings(deadline=None, derandomize=True, max_examples=120)
@given(st.lists(texts.texts(20).map(str.encode), min_size=1, max_size=3), st.data())
def test_what_is_not_utf8_is_named_where_python_finds_it(documents, data):
    i = data.draw(st.integers(0, len(documents) - 1))
    place = data.draw(st.integers(0, len(documents[i])))
    odd = data.draw(st.one_of(st.binary(min_size=1, max_size=4), st.sampled_from([b"\xed\xa0\x80", b"\xc0\x80"])))
    documents[i] = documents[i][:place] + odd + documents[i][place + data.draw(st.integers(0, 3)) :]
    try:
        documents[i].decode()
    except UnicodeDecodeError as error:
        with pytest.raises(ValueError, match=rf"document {i} .*UTF-8.*byte {error.start} "):
            tokenize(Documents.from_strings(documents))
    else:
        expected = [WORD.findall(text.decode().lower()) for text in documents]
        assert words_of(tokenize(Documents.from_strings(documents))) == expected
