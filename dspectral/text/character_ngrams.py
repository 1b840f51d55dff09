"""Character n-grams within words, equal to those of scikit-learn's ``analyzer="char_wb"``."""

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled
from dspectral.text.token_rules import tokenize_by_rule
from dspectral.text.tokens import PADDING, SPACE, Tokens
from dspectral.types import Documents, Int


def cut_character_ngrams(documents: Documents, ngram_range: tuple[int, int], *, lowercase: bool) -> Tokens:
    r"""Return the character n-grams of each word with a space before and after it, as tokens.

    Words are separated by whitespace. A word that is shorter than an n-gram is one token. The result holds about
    ``(n + 9)`` bytes per character for each n of the range.

    >>> cut_character_ngrams(Documents.from_strings(["a cat"]), (2, 3), lowercase=True).text[:-PADDING].tobytes()
    b' a a   a   c ca at t   ca cat at  '
    """
    words = tokenize_by_rule(documents, "blanks", lowercase=lowercase)
    longest = int(np.diff(words.starts).max(initial=0)) + 2
    word, edges = np.empty(longest, dtype=np.uint8), np.empty(longest + 1, dtype=np.int64)
    bounds = np.zeros(len(words.bounds), dtype=np.int64)
    nothing = np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.int64)
    n_tokens, n_bytes = _write_ngrams(words, *ngram_range, word, edges, *nothing, bounds)
    text, starts = np.zeros(n_bytes + PADDING, dtype=np.uint8), np.zeros(n_tokens + 1, dtype=np.int64)
    _write_ngrams(words, *ngram_range, word, edges, text, starts, bounds)
    return Tokens.from_arrays(text, starts, bounds)


@compiled
def _write_ngrams(
    words: Tokens,
    low: Int,
    high: Int,
    word: NDArray[np.uint8],
    edges: NDArray[np.int64],
    text: NDArray[np.uint8],
    starts: NDArray[np.int64],
    bounds: NDArray[np.int64],
) -> tuple[int, int]:
    """Write the n-grams, each followed by a space, or only count them if `text` is empty; return tokens and bytes."""
    # Invariant: the first n tokens take the first `out` bytes. `word` is the current word between two spaces, and
    # `edges` holds the first byte of each of its characters. Cost: the bytes of the n-grams.
    n, out = 0, 0
    for document in range(words.bounds.size - 1):
        for number in range(words.bounds[document], words.bounds[document + 1]):
            word[0], edges[0] = SPACE, 0
            n_characters, size = 1, 1
            for i in range(words.starts[number], words.starts[number + 1]):
                if words.text[i] & 0xC0 != 0x80:
                    edges[n_characters] = size
                    n_characters += 1
                word[size] = words.text[i]
                size += 1
            edges[n_characters] = size
            for length in range(low, high + 1):
                for first in range(max(n_characters - length, 0) + 1):
                    begin, end = edges[first], edges[min(first + length, n_characters)]
                    if text.size:
                        for i in range(begin, end):
                            text[out + i - begin] = word[i]
                        text[out + end - begin] = SPACE
                        starts[n + 1] = out + end - begin + 1
                    out += end - begin + 1
                    n += 1
                if n_characters <= length:
                    break
        bounds[document + 1] = n
    return n, out
