"""The frequent words of a corpus: punctuation left out, sentences cut where it stood."""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.engine import Blocks, run_tasks
from dspectral.engine.graph import Sealed
from dspectral.inputs.sequences import RARE, TokenCorpus
from dspectral.store.corpus import Corpus, SentenceBlock, read_sentences
from dspectral.store.location import Location
from dspectral.text.cutting import CODE
from dspectral.types import CSRRows, Sentences

ENDS = frozenset(
    ".!?;:\u2026\u3002\uff01\uff1f\uff1a\uff1b\uff61\u0589\u061b\u061f\u06d4\u0964\u0965\u0f0d\u0f0e"
    "\u104a\u104b\u1362\u1364\u1365\u1366\u1367\u17d4\u17d5\u17d6"
)
"""Tokens after which a sentence ends."""
TITLES = frozenset(("mr", "mrs", "ms", "dr", "st", "prof", "rev", "hon", "capt", "col", "vs", "e", "g", "i"))
"""Words after which a full stop is none."""


class Places(NamedTuple):
    """The kind of each type of a corpus: a frequent word, a rare one (0), none (-1), or the end of a sentence.

    Shapes: `numbers, ends, stops, titles` (n_types,): titles have a full stop behind them that ends nothing.
    """

    numbers: NDArray[np.int32]
    ends: NDArray[np.bool_]
    stops: NDArray[np.bool_]
    titles: NDArray[np.bool_]


class FrequentWords(NamedTuple):
    """The frequent words of a corpus, as its documents and sentences hold them; punctuation is no word."""

    corpus: Corpus
    words: list[str]
    types: NDArray[np.int64]
    places: Places
    n_tokens: int
    n_types: int

    @classmethod
    def of(cls, corpus: Corpus, *, min_count: int, n_words: int) -> "FrequentWords":
        """Choose the most frequent words."""
        tokens, counts = corpus.words, corpus.counts
        is_word = np.fromiter((any(map(str.isalnum, token)) for token in tokens), np.bool_, len(tokens))
        is_word[0] = True
        chosen = np.flatnonzero(is_word & (counts >= min_count))
        chosen = chosen[chosen > 0][:n_words]  # types are in order of falling count
        numbers = np.where(is_word, 0, -1).astype(np.int32)
        numbers[chosen] = np.arange(1, len(chosen) + 1)
        sets = (ENDS, frozenset("."), TITLES)
        among = (np.fromiter((token in few for token in tokens), np.bool_, len(tokens)) for few in sets)
        places = Places(numbers, *among)
        types = np.concatenate([[0], chosen])
        words = [RARE, *(tokens[i] for i in chosen.tolist())]
        n_types = int((is_word & (counts > 0))[1:].sum())
        return cls(corpus, words, types, places, int(counts[is_word].sum()), n_types)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of tokens of each frequent word, and first of all others, shape (n_words,)."""
        counts = self.corpus.counts[self.types]
        counts[0] = self.n_tokens - int(counts[1:].sum())
        return np.asarray(counts)

    @property
    def n_codes(self) -> int:
        """Number of strings that are no language."""
        tokens = self.corpus.words
        return int(self.corpus.counts[tokens.index(CODE)]) if CODE in tokens else 0

    def sentences(self) -> TokenCorpus:
        """Return the sentences of frequent words, cut from the documents; nothing is read yet."""
        read = Sealed(partial(read_cut, places=self.places), self.corpus.where)
        return TokenCorpus(self.words, self.counts, Blocks(read, self.corpus.blocks), self.corpus.where)

    def documents(self) -> Blocks:
        """Return the documents as blocks of CSR counts (n_documents, n_words); nothing is read yet."""
        count = partial(count_block, numbers=self.places.numbers, n_words=len(self.words))
        return Blocks(Sealed(count, self.corpus.where), self.corpus.blocks)


def read_cut(where: Location, block: SentenceBlock, *, places: Places) -> Sentences:
    """Read a block of documents as sentences of frequent words."""
    return cut(read_sentences(where, block), places)


def cut(documents: Sentences, places: Places) -> Sentences:
    """Cut documents into sentences of frequent words."""
    ids, offsets = documents
    ends = places.ends[ids]
    # A full stop behind a title ends nothing, but a question mark there does.
    ends[1:] &= ~(places.titles[ids[:-1]] & places.stops[ids[1:]])
    numbers = places.numbers[ids]
    kept = numbers >= 0
    before = np.concatenate([[0], np.cumsum(kept)])  # words before each token
    # Both ends of documents and ends of sentences, counted in kept words: equal ones fall together, and so no sentence
    # is empty, nor does one reach over two documents.
    bounds = np.union1d(before[offsets], before[np.flatnonzero(ends) + 1])
    return Sentences(numbers[kept], bounds if len(bounds) > 1 else np.zeros(2, dtype=np.int64))


def count_block(
    where: Location, block: SentenceBlock, *, numbers: NDArray[np.int32], n_words: int
) -> CSRRows:
    """Read a block of documents as counts of frequent words, shape (n_documents, n_words)."""
    ids, offsets = read_sentences(where, block)
    # Column 0, rare words, stays empty: they are many, and would be one word that all documents share.
    columns = numbers[ids]
    kept = columns > 0
    starts = np.concatenate([[0], np.cumsum(kept)])[offsets]
    shape = (block.n_sentences, n_words)
    rows = sparse.csr_array((np.ones(starts[-1], dtype=np.float32), columns[kept], starts), shape=shape)
    rows.sum_duplicates()
    return rows


def count_filled(words: FrequentWords) -> tuple[int, int, bool]:
    """Count the documents and the sentences that hold a word, and report whether a sentence has two, in one pass."""
    count = partial(_count_filled, where=words.corpus.where, places=words.places)
    counted = run_tasks(count, words.corpus.blocks, name="count-sentences")
    n_documents, n_sentences, pairs = (sum(part) for part in zip(*counted, strict=True))
    return n_documents, n_sentences, pairs > 0


def _count_filled(block: SentenceBlock, *, where: Location, places: Places) -> tuple[int, int, bool]:
    documents = read_sentences(where, block)
    words = np.concatenate([[0], np.cumsum(places.numbers[documents.ids] >= 0)])[documents.offsets]
    lengths = np.diff(cut(documents, places).offsets)
    return int((np.diff(words) > 0).sum()), int((lengths > 0).sum()), bool((lengths > 1).any())
