"""Passages that many documents repeat, such as footers, trailers of commits and signatures."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.engine import run_tasks
from dspectral.store.corpus import Corpus, SentenceBlock, read_sentences
from dspectral.types import Bools, Int64s, Sentences

N_TOKENS, MIN_WORDS, MAX_NUMBERS = 6, 3, 1
"""Number of tokens of a passage, minimum number of words among them, and maximum number of numbers, which are equal."""
N_BITS, FACTOR = 22, np.uint64(0x9E3779B97F4A7C15)
"""Number of bits of the hash of a passage, and factor of the hash of the tokens before."""
MIN_DOCUMENTS, MIN_SHARE, MAX_SHARE = 20, 0.01, 0.5
"""Minimum number and share of documents that repeat a passage; share of passages of the text from which on they are not
footers but the text itself."""


class Passages(NamedTuple):
    """Repeated passages. Shapes: `codes` (n_types,): 0 for numbers, odd for words; `is_repeated` (2^N_BITS,)."""

    codes: NDArray[np.uint64]
    is_repeated: Bools

    def cover(self, documents: Sentences) -> Bools:
        """Return which tokens are in a repeated passage, shape (n_tokens,)."""
        hashes, starts = hash_passages(documents, self.codes)
        is_covered = np.zeros(len(documents.ids), dtype=bool)
        starts = starts[self.is_repeated[hashes]]
        for i in range(N_TOKENS):
            is_covered[starts + i] = True
        return is_covered


def hash_passages(documents: Sentences, codes: NDArray[np.uint64]) -> tuple[Int64s, Int64s]:
    """Return the hashes of passages with enough words, and the positions of their first tokens."""
    ids, offsets = documents
    n = max(0, len(ids) - N_TOKENS + 1)
    hashes, n_words, n_numbers = np.zeros(n, np.uint64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    for i in range(N_TOKENS):
        code = codes[ids[i : i + n]]
        hashes = hashes * FACTOR + code
        n_words += code % 2 == 1
        n_numbers += code == 0
    row_ends = np.repeat(offsets[1:], np.diff(offsets))[:n]
    is_inside = np.arange(n) + N_TOKENS <= row_ends
    starts = np.flatnonzero(is_inside & (n_words >= MIN_WORDS) & (n_numbers <= MAX_NUMBERS))
    return (hashes[starts] >> np.uint64(64 - N_BITS)).astype(np.int64), starts


def find_passages(corpus: Corpus, is_word: Bools) -> Passages | None:
    """Return the passages that many documents repeat, in one pass, or None. Shapes: `is_word` (n_types,)."""
    codes = np.random.default_rng(0).integers(1, 1 << 62, size=len(is_word), dtype=np.uint64) * np.uint64(2)
    codes[is_word] += np.uint64(1)
    codes[[any(map(str.isdigit, token)) for token in corpus.words]] = 0

    def count(block: SentenceBlock) -> Int64s:
        """Return the number of documents with a passage of each hash, shape (2^N_BITS,)."""
        documents = read_sentences(corpus.location, block)
        hashes, starts = hash_passages(documents, codes)
        rows = np.searchsorted(documents.offsets, starts, side="right")
        return np.bincount(np.unique((rows << N_BITS) + hashes) % (1 << N_BITS), minlength=1 << N_BITS)

    counts = sum(run_tasks(count, corpus.blocks, name="count-passages"), np.zeros(1 << N_BITS, np.int64))
    min_documents = max(MIN_DOCUMENTS, MIN_SHARE * corpus.n_sentences)
    is_repeated = counts >= min_documents
    # In long documents many passages share a hash.
    is_known = counts.mean() < min_documents / 10 and counts[is_repeated].sum() < MAX_SHARE * counts.sum()
    return Passages(codes, is_repeated) if is_repeated.any() and is_known else None
