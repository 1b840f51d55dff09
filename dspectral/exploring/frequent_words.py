"""Frequent words of a corpus, and its sentences without punctuation."""

from collections import Counter
from collections.abc import Collection
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.engine import Blocks, run_tasks
from dspectral.engine.graph import ContentAddressedReader
from dspectral.inputs.sequences import RARE, TokenCorpus
from dspectral.store.corpus import Corpus, SentenceBlock, read_sentences
from dspectral.store.location import Location
from dspectral.text.cleaning import MASKS, match_token_rule
from dspectral.text.token_rules import CODE
from dspectral.types import CSRRows, Sentences

SENTENCE_ENDS = frozenset(
    ".!?;:\u2026\u3002\uff01\uff1f\uff1a\uff1b\uff61\u0589\u061b\u061f\u06d4\u0964\u0965\u0f0d\u0f0e"
    "\u104a\u104b\u1362\u1364\u1365\u1366\u1367\u17d4\u17d5\u17d6"
)
"""Tokens that end a sentence."""
ABBREVIATIONS = frozenset(
    ("mr", "mrs", "ms", "dr", "st", "prof", "rev", "hon", "capt", "col", "vs", "e", "g", "i")
)
"""Words whose full stop does not end a sentence."""


class TokenKinds(NamedTuple):
    """Word id of each type (0 for rare words, -1 for punctuation), and its role at the end of a sentence.

    Shapes: `word_ids, is_end, is_full_stop, is_abbreviation` (n_types,).
    """

    word_ids: NDArray[np.int32]
    is_end: NDArray[np.bool_]
    is_full_stop: NDArray[np.bool_]
    is_abbreviation: NDArray[np.bool_]


class FrequentWords(NamedTuple):
    """Frequent words of a corpus, the kinds of all types, and the number of masked parts by rule of cleaning."""

    corpus: Corpus
    words: list[str]
    types: NDArray[np.int64]
    kinds: TokenKinds
    n_tokens: int
    n_types: int
    masked: dict[str, int]

    @classmethod
    def from_corpus(
        cls, corpus: Corpus, *, min_count: int, n_words: int, clean: Collection[str] = ()
    ) -> "FrequentWords":
        """Select the most frequent words; punctuation and masked tokens are not words."""
        tokens, counts = corpus.words, corpus.counts
        is_word = np.fromiter((any(map(str.isalnum, token)) for token in tokens), np.bool_, len(tokens))
        rules = {mask: rule for rule, mask in MASKS.items()}
        masked: Counter[str] = Counter()
        for i, token in enumerate(tokens):
            rule = rules.get(token) or match_token_rule(token)
            if rule in clean:
                masked[rule] += int(counts[i])
                is_word[i] = False
        is_word[0] = True
        chosen = np.flatnonzero(is_word & (counts >= min_count))
        chosen = chosen[chosen > 0][:n_words]  # types are in order of falling count
        word_ids = np.where(is_word, 0, -1).astype(np.int32)
        word_ids[chosen] = np.arange(1, len(chosen) + 1)
        sets = (SENTENCE_ENDS, frozenset("."), ABBREVIATIONS)
        masks = (
            np.fromiter((token in members for token in tokens), np.bool_, len(tokens)) for members in sets
        )
        kinds = TokenKinds(word_ids, *masks)
        types = np.concatenate([[0], chosen])
        words = [RARE, *(tokens[i] for i in chosen.tolist())]
        n_types = int((is_word & (counts > 0))[1:].sum())
        return cls(corpus, words, types, kinds, int(counts[is_word].sum()), n_types, dict(masked))

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of tokens of each word; entry 0 counts all rare words. Shape (n_words,)."""
        counts = self.corpus.counts[self.types]
        counts[0] = self.n_tokens - int(counts[1:].sum())
        return np.asarray(counts)

    @property
    def n_codes(self) -> int:
        """Number of long strings that are not words, such as base64."""
        tokens = self.corpus.words
        return int(self.corpus.counts[tokens.index(CODE)]) if CODE in tokens else 0

    def get_sentences(self) -> TokenCorpus:
        """Return lazy sentences of frequent words."""
        read = ContentAddressedReader(partial(read_split_sentences, kinds=self.kinds), self.corpus.location)
        return TokenCorpus(self.words, self.counts, Blocks(read, self.corpus.blocks), self.corpus.location)

    def get_document_counts(self) -> Blocks:
        """Return lazy CSR blocks of the counts of words in documents, shape (n_documents, n_words)."""
        count = partial(count_block, word_ids=self.kinds.word_ids, n_words=len(self.words))
        return Blocks(ContentAddressedReader(count, self.corpus.location), self.corpus.blocks)


def read_split_sentences(where: Location, block: SentenceBlock, *, kinds: TokenKinds) -> Sentences:
    """Return the sentences of a block of documents."""
    return split_sentences(read_sentences(where, block), kinds)


def split_sentences(documents: Sentences, kinds: TokenKinds) -> Sentences:
    """Split documents into sentences of frequent words."""
    ids, offsets = documents
    is_end = kinds.is_end[ids]
    is_end[1:] &= ~(kinds.is_abbreviation[ids[:-1]] & kinds.is_full_stop[ids[1:]])
    word_ids = kinds.word_ids[ids]
    is_word = word_ids >= 0
    n_words_before = np.concatenate([[0], np.cumsum(is_word)])
    # Ends of documents and of sentences, counted in words. union1d drops equal ends, so no sentence is empty.
    bounds = np.union1d(n_words_before[offsets], n_words_before[np.flatnonzero(is_end) + 1])
    return Sentences(word_ids[is_word], bounds if len(bounds) > 1 else np.zeros(2, dtype=np.int64))


def count_block(
    where: Location, block: SentenceBlock, *, word_ids: NDArray[np.int32], n_words: int
) -> CSRRows:
    """Return the counts of frequent words in a block of documents, shape (n_documents, n_words)."""
    ids, offsets = read_sentences(where, block)
    # Column 0 stays empty: all documents share rare words.
    columns = word_ids[ids]
    kept = columns > 0
    starts = np.concatenate([[0], np.cumsum(kept)])[offsets]
    shape = (block.n_sentences, n_words)
    rows = sparse.csr_array((np.ones(starts[-1], dtype=np.float32), columns[kept], starts), shape=shape)
    rows.sum_duplicates()
    return rows


def count_nonempty(words: FrequentWords) -> tuple[int, int, bool]:
    """Return the number of non-empty documents and sentences, and whether a sentence has two words, in one pass."""
    count = partial(_count_nonempty_in_block, where=words.corpus.location, kinds=words.kinds)
    counts = run_tasks(count, words.corpus.blocks, name="count-sentences")
    n_documents, n_sentences, n_blocks_with_pairs = (sum(column) for column in zip(*counts, strict=True))
    return n_documents, n_sentences, n_blocks_with_pairs > 0


def _count_nonempty_in_block(
    block: SentenceBlock, *, where: Location, kinds: TokenKinds
) -> tuple[int, int, bool]:
    documents = read_sentences(where, block)
    n_words_before = np.concatenate([[0], np.cumsum(kinds.word_ids[documents.ids] >= 0)])[documents.offsets]
    lengths = np.diff(split_sentences(documents, kinds).offsets)
    return int((np.diff(n_words_before) > 0).sum()), int((lengths > 0).sum()), bool((lengths > 1).any())
