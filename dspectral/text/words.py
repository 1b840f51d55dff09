"""Tokenize sentences, and count or encode their words."""

from collections.abc import Collection
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.text.cleaning import mask_parts
from dspectral.text.ngrams import argsort_words, assign_ids_by_first_use
from dspectral.text.term_bytes import gather_slices, hash_terms, read_only_terms
from dspectral.text.term_index import TermIndex, look_up
from dspectral.text.terms import TermTable
from dspectral.text.token_rules import TokenRule, tokenize_by_rule
from dspectral.text.tokenizers import Tokenizer
from dspectral.text.tokens import Tokens
from dspectral.types import Documents, Int, Int32s, Int64s, Sentences


def tokenize_sentences(
    documents: Documents,
    cut: TokenRule | Tokenizer = "blanks",
    *,
    lowercase: bool = False,
    normalize: bool = False,
    clean: Collection[str] = (),
) -> Tokens:
    r"""Tokenize sentences, including punctuation, by a rule of :func:`tokenize_by_rule` or by a tokenizer.

    >>> from dspectral.text.tokens import PADDING
    >>> tokenize_sentences(Documents.from_strings(["don't  go, 'Al'"]), "words").text[:-PADDING].tobytes()
    b"don't go , ' Al ' "
    >>> sentences = Documents.from_strings(["東京タワーへ行く。"])
    >>> tokenize_sentences(sentences, "characters").text[:-PADDING].tobytes().decode()
    '東京 タワー へ 行 く 。 '
    """
    documents = mask_parts(documents, clean)
    if isinstance(cut, Tokenizer):
        return cut.tokenize(documents, lowercase=lowercase, normalize=normalize)
    if cut not in get_args(TokenRule):
        raise ValueError(f"tokens={cut!r} must be one of {', '.join(map(repr, get_args(TokenRule)))}")
    return tokenize_by_rule(documents, cut, lowercase=lowercase, normalize=normalize)


def count_words(tokens: Tokens) -> TermTable:
    """Count the distinct tokens, in byte order."""
    first, counts, frequency = _count_words(tokens)
    return TermTable(gather_slices(tokens.text, tokens.starts[first], tokens.starts[first + 1] - 1), frequency, counts)


def look_up_words(tokens: Tokens, index: TermIndex) -> Sentences:
    """Return the id of each token in a vocabulary, 0 for out-of-vocabulary tokens."""
    words = gather_slices(tokens.text, tokens.starts[:-1], tokens.starts[1:] - 1)
    index = TermIndex(read_only_terms(index.terms), read_only(index.slots))
    return Sentences(_look_up_ids(read_only_terms(words), hash_terms(words), index), tokens.bounds)


def _count_words(tokens: Tokens) -> tuple[Int64s, Int64s, Int64s]:
    """Return the first position, count and sentence frequency of each distinct token."""
    word_ids, first = assign_ids_by_first_use(tokens)
    counts, frequency = _count_tokens(tokens.bounds, word_ids, first.size)
    order = argsort_words(tokens.text, tokens.starts, first)
    return first[order], counts[order], frequency[order]


@compiled
def _count_tokens(bounds: Int64s, word_ids: Int64s, n_words: Int) -> tuple[Int64s, Int64s]:
    counts, frequency = np.zeros(n_words, dtype=np.int64), np.zeros(n_words, dtype=np.int64)
    # last[word_id] is the last sentence counted for a word.
    last = np.full(n_words, -1, dtype=np.int64)
    for i in range(bounds.size - 1):
        for token in range(bounds[i], bounds[i + 1]):
            word_id = word_ids[token]
            counts[word_id] += 1
            frequency[word_id] += last[word_id] != i
            last[word_id] = i
    return counts, frequency


@compiled
def _look_up_ids(words: Documents, codes: NDArray[np.uint32], index: TermIndex) -> Int32s:
    text, offsets = words
    (data, terms), slots = index
    ids = np.empty(codes.size, dtype=np.int32)
    # look_up returns -1 for out-of-vocabulary words; 0 is the id of "<?>".
    for i in range(codes.size):
        ids[i] = max(0, look_up(data, terms, slots, codes[i], text, offsets[i], offsets[i + 1]))
    return ids
