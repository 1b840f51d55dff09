"""Check stop words, and tokenize them like the text."""

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import TypeAlias

import numpy as np

from dspectral.text.tokens import Tokens
from dspectral.types import Documents

StopWords: TypeAlias = Collection[str] | None
"""A language, a collection of words, or None."""
MAX_SHOWN = 5
ADVICE = "; pip install stop-words adds the lists of 32 languages"


def list_languages() -> tuple[str, ...]:
    """Return the languages of the lists: ``"english"``, and others if the package stop-words is installed."""
    try:
        from stop_words import AVAILABLE_LANGUAGES  # noqa: PLC0415
    except ImportError:
        return ("english",)
    return tuple(AVAILABLE_LANGUAGES)


@cache
def get_stop_words(language: str) -> tuple[str, ...]:
    """Return the single words of a list: scikit-learn's for English, otherwise that of the package stop-words.

    >>> len(get_stop_words("english"))
    318
    """
    if language == "english":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # noqa: PLC0415  slow to import

        return tuple(sorted(ENGLISH_STOP_WORDS))
    import stop_words  # noqa: PLC0415

    return tuple(sorted({word for word in stop_words.get_stop_words(language) if len(word.split()) == 1}))


def check_stop_words(stop_words: StopWords, parameter: str = "stop_words") -> tuple[str, ...]:
    """Return stop words as a tuple; a str is the language of a list."""
    if stop_words is None:
        return ()
    expected = "must be a language such as 'english', None or a collection of words"
    if isinstance(stop_words, str):
        if stop_words not in (languages := list_languages()):
            raise ValueError(
                f"{parameter}={stop_words!r:.60} {expected}: one of {', '.join(languages)}, or for one word "
                f"[{stop_words!r:.60}]{'' if len(languages) > 1 else ADVICE}"
            )
        return get_stop_words(stop_words)
    is_list = isinstance(stop_words, Iterable) and not isinstance(stop_words, bytes | Mapping | Iterator)
    if not is_list or len(getattr(stop_words, "shape", (0,))) != 1:
        raise TypeError(f"{parameter}={stop_words!r:.60} {expected}: pass a list, such as list(iterator)")
    words = stop_words.to_pylist() if hasattr(stop_words, "to_pylist") else list(stop_words)
    for number, word in enumerate(words):
        if not isinstance(word, str):
            raise TypeError(f"{parameter} {expected}, but entry {number} is {word!r:.60}: remove it")
    return tuple(map(str, words))


def tokenize_stop_words(
    stop_words: Collection[str], cut: Callable[[Documents], Tokens], ngram_range: tuple[int, int]
) -> Documents:
    """Tokenize stop words like the text, and return their terms; warn about entries that match no term."""
    entries = list(stop_words)
    tokens, (low, high) = cut(Documents.from_strings(entries)), ngram_range
    lengths = np.diff(tokens.bounds)
    # An entry without tokens has no characters that occur in terms, so there is nothing to remove.
    wrong = [entries[i] for i in np.flatnonzero((lengths > 0) & ((lengths < low) | (lengths > high)))]
    if wrong:
        word_counts = f"{low}" if low == high else f"{low} to {high}"
        warnings.warn(
            f"{len(wrong)} of {len(entries)} stop words are not terms of {word_counts} word(s) and have no effect: "
            f"{', '.join(map(repr, wrong[:MAX_SHOWN]))}{', ...' if len(wrong) > MAX_SHOWN else ''}",
            stacklevel=5,
        )
    fits = np.flatnonzero((low <= lengths) & (lengths <= high))
    begins, ends = tokens.starts[tokens.bounds[fits]], tokens.starts[tokens.bounds[fits + 1]] - 1
    text = tokens.text.tobytes()
    terms = {text[begin:end]: None for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)}
    return Documents.from_strings(list(terms))
