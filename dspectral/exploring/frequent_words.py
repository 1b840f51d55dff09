"""Frequent words of a corpus, and its sentences without punctuation."""

from collections import Counter
from collections.abc import Collection
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dspectral.engine import Blocks, run_tasks
from dspectral.engine.graph import ContentAddressedReader
from dspectral.exploring.passages import Passages, find_passages
from dspectral.inputs.sequences import TokenCorpus
from dspectral.store.corpus import Corpus, SentenceBlock, read_sentences
from dspectral.store.location import Location
from dspectral.text.cleaning import MASKS, match_token_rule
from dspectral.text.token_rules import CODE
from dspectral.types import RARE, Bools, CSRRows, Int32s, Int64s, Sentences

SENTENCE_ENDS = frozenset(
    ".!?;:\u2026\u3002\uff01\uff1f\uff1a\uff1b\uff61\u0589\u061b\u061f\u06d4\u0964\u0965\u0f0d\u0f0e"
    "\u104a\u104b\u1362\u1364\u1365\u1366\u1367\u17d4\u17d5\u17d6"
)
"""Tokens that end a sentence."""
ABBREVIATIONS = frozenset(("mr", "mrs", "ms", "dr", "st", "prof", "rev", "hon", "capt", "col", "vs", "e", "g", "i"))
"""Words whose full stop does not end a sentence."""


MIN_WORDS = 3
"""Minimum number of frequent words of a document that can repeat another one."""


class TokenKinds(NamedTuple):
    """Word id of each type (0 for rare words, -1 for punctuation), and its role at the end of a sentence.

    Shapes: `word_ids, is_end, is_full_stop, is_abbreviation` (n_types,).
    """

    word_ids: Int32s
    is_end: Bools
    is_full_stop: Bools
    is_abbreviation: Bools


class FrequentWords(NamedTuple):
    """Frequent words of a corpus, the kinds of all types, and the number of masked parts by rule of cleaning.

    `passages`: those that many documents repeat, whose words are not counted in documents.
    """

    corpus: Corpus
    words: list[str]
    types: Int64s
    kinds: TokenKinds
    n_tokens: int
    n_types: int
    masked: dict[str, int]
    passages: Passages | None = None

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
        word_types = np.flatnonzero(is_word & (counts >= min_count))
        word_types = word_types[word_types > 0][:n_words]  # types are in order of falling count
        word_ids = np.where(is_word, 0, -1).astype(np.int32)
        word_ids[word_types] = np.arange(1, len(word_types) + 1)
        sets = (SENTENCE_ENDS, frozenset("."), ABBREVIATIONS)
        masks = (np.fromiter((token in members for token in tokens), np.bool_, len(tokens)) for members in sets)
        kinds = TokenKinds(word_ids, *masks)
        types = np.concatenate([[0], word_types])
        words = [RARE, *(tokens[i] for i in word_types.tolist())]
        n_types = int((is_word & (counts > 0))[1:].sum())
        passages = find_passages(corpus, is_word) if "signatures" in clean else None
        return cls(corpus, words, types, kinds, int(counts[is_word].sum()), n_types, dict(masked), passages)

    @property
    def counts(self) -> Int64s:
        """Number of tokens of each word; entry 0 counts all rare words. Shape (n_words,)."""
        counts = self.corpus.counts[self.types]
        counts[0] = self.n_tokens - int(counts[1:].sum())
        return counts

    @property
    def n_codes(self) -> int:
        """Number of long strings that are not words, such as base64."""
        tokens = self.corpus.words
        return int(self.corpus.counts[tokens.index(CODE)]) if CODE in tokens else 0

    def get_sentences(self) -> TokenCorpus:
        """Return lazy sentences of frequent words."""
        read = ContentAddressedReader(partial(read_split_sentences, kinds=self.kinds), self.corpus.location)
        return TokenCorpus(self.words, self.counts, Blocks(read, self.corpus.blocks), self.corpus.location)

    def get_document_counts(self, is_repeated: dict[str, Bools], stem_length: int | None = None) -> Blocks:
        """Return lazy CSR blocks of the counts of words in documents, shape (n_documents, n_words).

        Repeated documents, given by the name of their block, have no words. Words with the same first letters are
        counted as the most frequent of them.
        """
        ids, n_words = self.kinds.word_ids, len(self.words)
        if stem_length is not None:
            first: dict[str, int] = {}
            types = np.flatnonzero(ids >= 0)
            stems = [self.corpus.words[i][:stem_length] for i in types.tolist()]
            ids = ids.copy()  # types are in order of falling count
            ids[types] = [first.setdefault(*pair) for pair in zip(stems, ids[types].tolist(), strict=True)]
        count = partial(count_block, word_ids=ids, n_words=n_words, is_repeated=is_repeated, passages=self.passages)
        return Blocks(ContentAddressedReader(count, self.corpus.location), self.corpus.blocks)


def read_split_sentences(location: Location, block: SentenceBlock, *, kinds: TokenKinds) -> Sentences:
    """Return the sentences of a block of documents."""
    return split_sentences(read_sentences(location, block), kinds)


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
    location: Location,
    block: SentenceBlock,
    *,
    word_ids: Int32s,
    n_words: int,
    is_repeated: dict[str, Bools],
    passages: Passages | None = None,
) -> CSRRows:
    """Return the counts of frequent words in a block of documents, shape (n_documents, n_words)."""
    ids, offsets = read_sentences(location, block)
    # Column 0 stays empty: all documents share rare words.
    columns = word_ids[ids]
    has_word = columns > 0
    if passages is not None:
        has_word &= ~passages.cover(Sentences(ids, offsets))
    if block.name in is_repeated:
        has_word &= ~np.repeat(is_repeated[block.name], np.diff(offsets))
    starts = np.concatenate([[0], np.cumsum(has_word)])[offsets]
    shape = (block.n_sentences, n_words)
    rows = sparse.csr_array((np.ones(starts[-1], dtype=np.float32), columns[has_word], starts), shape=shape)
    rows.sum_duplicates()
    return rows


class DocumentFacts(NamedTuple):
    """Numbers of non-empty documents and sentences, whether a sentence has two words, and repeated documents by block.

    A document is repeated if an earlier one has the same three or more frequent words. `n_covered`: number of words of
    repeated passages.
    """

    n_documents: int
    n_sentences: int
    has_pairs: bool
    is_repeated: dict[str, Bools]
    n_covered: int


def describe_documents(words: FrequentWords) -> DocumentFacts:
    """Return statistics of the documents, in one pass."""
    codes = np.random.default_rng(0).integers(1 << 63, size=len(words.words), dtype=np.uint64)
    location, blocks, kinds = words.corpus.location, words.corpus.blocks, words.kinds

    def describe(block: SentenceBlock) -> tuple[Any, ...]:
        """Return numbers of documents, sentences, longer ones and words of passages, and hashes of larger word sets."""
        documents = read_sentences(location, block)
        n_words_before = np.concatenate([[0], np.cumsum(kinds.word_ids[documents.ids] >= 0)])[documents.offsets]
        lengths = np.diff(split_sentences(documents, kinds).offsets)
        rows = count_block(
            location, block, word_ids=kinds.word_ids, n_words=len(codes), is_repeated={}, passages=words.passages
        )
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(codes[rows.indices], dtype=np.uint64)])
        hashes = sums[rows.indptr[1:]] - sums[rows.indptr[:-1]]  # modulo 2^64
        hashes[np.diff(rows.indptr) < MIN_WORDS] = 0
        is_covered = words.passages.cover(documents) & (kinds.word_ids[documents.ids] >= 0) if words.passages else False
        counts = (np.diff(n_words_before) > 0, lengths > 0, lengths > 1, is_covered)
        return *(int(np.sum(mask)) for mask in counts), hashes

    *counts, hashes = zip(*run_tasks(describe, blocks, name="count-sentences"), strict=True)
    joined = np.concatenate(hashes)
    is_repeated = joined > 0
    is_repeated[np.unique(joined, return_index=True)[1]] = False
    ends = np.cumsum([block.n_sentences for block in blocks])
    masks = zip((block.name for block in blocks), np.split(is_repeated, ends[:-1]), strict=True)
    n_documents, n_sentences, n_pairs, n_covered = map(sum, counts)
    return DocumentFacts(n_documents, n_sentences, n_pairs > 0, dict(masks), n_covered)
