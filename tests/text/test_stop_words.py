"""Stop words: every collection is read alike, and what is no list of words is refused."""

from functools import partial
from itertools import chain

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from dspectral import Topics
from dspectral.text.stop_words import check_stop_words, tokenize_stop_words
from dspectral.text.tokenizers import tokenize_documents


@pytest.mark.parametrize(
    "kind", [list, tuple, set, frozenset, np.array, partial(np.array, dtype=object), pd.Series, pd.Index]
)
def test_every_collection_of_words_is_read(kind):
    assert sorted(check_stop_words(kind(["und", "der"]))) == ["der", "und"]


def test_english_is_the_list_of_scikit_learn_and_none_is_no_list():
    assert set(check_stop_words("english")) == ENGLISH_STOP_WORDS
    assert check_stop_words(None) == check_stop_words([]) == ()


@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        ("German", ValueError, "'German'.*'english'"),
        ({"der": 1}, TypeError, "'english'"),
        (iter(["der"]), TypeError, "list"),
        (["der", None], TypeError, "1.*None"),
        ([b"der"], TypeError, "0.*b'der'"),
    ],
)
def test_what_is_no_list_of_words_is_refused(wrong, error, match):
    with pytest.raises(error, match=f"stop_words.*{match}"):
        check_stop_words(wrong)


def terms_of(entries, ngram_range=(1, 1), **rule):
    found = tokenize_stop_words(
        entries, partial(tokenize_documents, **{"lowercase": True, "tokenizer": None, **rule}), ngram_range
    )
    return [found.text(i).decode() for i in range(found.n_documents)]


def test_entries_are_cut_as_the_text_is():
    assert terms_of(["The", "THE", "Isn't", "x", "--", ""]) == ["the", "isn"]
    assert terms_of(["The"], lowercase=False) == ["The"]
    assert terms_of(["New  York", "York"], (1, 2)) == ["new york", "york"]
    assert terms_of(["dont.", "x"], tokenizer=str.split) == ["dont.", "x"]


def test_entries_that_are_no_term_are_named():
    with pytest.warns(UserWarning, match="1 of 2.*'New York'"):
        assert terms_of(["New York", "of"]) == ["of"]
    with pytest.warns(UserWarning, match="'of'"):
        assert terms_of(["New York", "of"], (2, 2)) == ["new york"]


def test_a_language_is_a_list_of_single_words():
    words = check_stop_words("german")
    assert {"der", "und", "nicht"} <= set(words)
    assert all(word == "".join(word.split()) for word in words)
    model = Topics(2, min_df=1, max_df=1.0, stop_words="german").fit(
        ["der Hund", "die Katze", "der Hund und die Katze"] * 9
    )
    assert set(chain(*model.top_words())) == {"hund", "katze"}
