"""Words of sentences: every token, counted and numbered."""

from typing import get_args

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.text.cutting import Cut, cut_by_rule
from dspectral.text.ngrams import name_words, sorted_words
from dspectral.text.term_bytes import gather, hash_terms, read_only_terms
from dspectral.text.term_index import TermIndex, look_up
from dspectral.text.terms import TermTable
from dspectral.text.tokenizers import Tokenizer
from dspectral.text.tokens import Tokens
from dspectral.types import Documents, Sentences


def cut_words(
    documents: Documents, cut: Cut | Tokenizer = "blanks", *, lowercase: bool = False, normalize: bool = False
) -> Tokens:
    r"""Cut sentences into tokens, punctuation too: by a rule of :func:`cut_by_rule`, or as a tokenizer does.

    >>> from dspectral.text.tokens import PADDING
    >>> cut_words(Documents.of(["don't  go, 'Al'"]), "words").text[:-PADDING].tobytes()
    b"don't go , ' Al ' "
    >>> cut_words(Documents.of(["東京タワーへ行く。"]), "characters").text[:-PADDING].tobytes().decode()
    '東京 タワー へ 行 く 。 '
    """
    if isinstance(cut, Tokenizer):
        return cut.cut(documents, lowercase=lowercase, normalize=normalize)
    if cut not in get_args(Cut):
        raise ValueError(f"tokens is {cut!r}, but it must be one of {', '.join(map(repr, get_args(Cut)))}")
    return cut_by_rule(documents, cut, lowercase=lowercase, normalize=normalize)


def count_words(tokens: Tokens) -> TermTable:
    """Count the distinct tokens, in the order of their bytes."""
    first, counts, frequency = _count_words(tokens)
    return TermTable(
        gather(tokens.text, tokens.starts[first], tokens.starts[first + 1] - 1), frequency, counts
    )


def number_words(tokens: Tokens, index: TermIndex) -> Sentences:
    """Replace each token by its number in a vocabulary, 0 where it is not in it."""
    words = gather(tokens.text, tokens.starts[:-1], tokens.starts[1:] - 1)
    index = TermIndex(read_only_terms(index.terms), read_only(index.slots))
    return Sentences(_number(read_only_terms(words), hash_terms(words), index), tokens.bounds)


@compiled
def _count_words(tokens: Tokens) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return where each distinct token stands first, how often it occurs, and in how many sentences."""
    names, first = name_words(tokens)
    counts, frequency = np.zeros(first.size, dtype=np.int64), np.zeros(first.size, dtype=np.int64)
    # last[name] is the last sentence counted for a word: twice in one sentence adds one to the word's frequency.
    last = np.full(first.size, -1, dtype=np.int64)
    for i in range(tokens.bounds.size - 1):
        for token in range(tokens.bounds[i], tokens.bounds[i + 1]):
            name = names[token]
            counts[name] += 1
            frequency[name] += last[name] != i
            last[name] = i
    order = sorted_words(tokens.text, tokens.starts, first)
    return first[order], counts[order], frequency[order]


@compiled
def _number(words: Documents, codes: NDArray[np.uint32], index: TermIndex) -> NDArray[np.int32]:
    text, offsets = words
    (data, terms), slots = index
    ids = np.empty(codes.size, dtype=np.int32)
    # A word that is not found is -1 there; 0 is the number of "<?>".
    for i in range(codes.size):
        ids[i] = max(0, look_up(data, terms, slots, codes[i], text, offsets[i], offsets[i + 1]))
    return ids
