"""Count the n-grams of one block exactly, by sorting integers instead of strings.

Word ids follow the order of the words by their bytes. A space is smaller than every byte of a word, so n-grams sort by
their bytes like tuples of word ids. The key of an n-gram combines the id of its prefix (all but the last word) and the
id of its last word. Words are hashed and compared by their bytes, so there are no collisions.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled
from dspectral.linalg.radix_sort import sort_pairs
from dspectral.text.term_bytes import hash_slice, is_equal
from dspectral.text.tokens import Tokens
from dspectral.types import Int, Int64s


class DistinctNgrams(NamedTuple):
    """Distinct n-grams of one length, sorted by their bytes."""

    first: Int64s
    document_frequency: Int64s
    counts: Int64s


def count_distinct_ngrams(tokens: Tokens, max_length: int) -> list[DistinctNgrams]:
    """Count the n-grams of 1, 2, ..., ``max_length`` words; return one `DistinctNgrams` per length.

    Memory: 56 bytes per word of the block, besides the result.

    >>> text = np.frombuffer(b"no no yes ", dtype=np.uint8)
    >>> levels = count_distinct_ngrams(Tokens(text, np.array([0, 3, 6, 10]), np.array([0, 3])), 2)
    >>> [level.counts for level in levels]
    [array([2, 1]), array([1, 1])]
    """
    word_ids, n_words = _assign_word_ids(tokens)
    documents = np.repeat(np.arange(len(tokens.bounds) - 1), np.diff(tokens.bounds))
    # ngram_ids[word] is the id of the n-gram of the previous length that starts at this word; `_count_runs` updates it.
    # Words too close to the end of their document keep an old id, but no longer n-gram starts there.
    ngram_ids, n_ngrams = np.zeros(len(word_ids), dtype=np.int64), 1
    levels = []
    for length in range(1, max_length + 1):
        keys, positions = _make_keys(tokens.bounds, ngram_ids, word_ids, n_words, length)
        keys, positions = sort_pairs(keys, positions, (n_ngrams * n_words).bit_length())
        levels.append(DistinctNgrams(*_count_runs(keys, positions, documents, ngram_ids)))
        n_ngrams = len(levels[-1].counts)
    return levels


@compiled
def _make_keys(
    bounds: Int64s, ngram_ids: Int64s, word_ids: Int64s, n_words: Int, length: Int
) -> tuple[NDArray[np.uint64], Int64s]:
    """Return the sort key of each n-gram of this length, and the position of its first word."""
    keys = np.empty(word_ids.size, dtype=np.uint64)
    positions = np.empty(word_ids.size, dtype=np.int64)
    n = 0
    # key(w_1 .. w_l) = id(w_1 .. w_{l-1}) n_words + id(w_l). Keys are unique and sort like the bytes of the n-grams.
    # They fit 64 bits, since there are at most as many distinct n-grams as words.
    for i in range(bounds.size - 1):
        for word in range(bounds[i], bounds[i + 1] - length + 1):
            keys[n] = ngram_ids[word] * n_words + word_ids[word + length - 1]
            positions[n] = word
            n += 1
    return keys[:n], positions[:n]


@compiled
def _count_runs(
    keys: NDArray[np.uint64],
    positions: Int64s,
    documents: Int64s,
    ngram_ids: Int64s,
) -> tuple[Int64s, Int64s, Int64s]:
    """Count runs of equal keys and their documents, and write the id of each n-gram to its positions."""
    n = 0
    for i in range(keys.size):
        n += i == 0 or keys[i] != keys[i - 1]
    first = np.empty(n, dtype=np.int64)
    document_frequency, counts = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    # Invariant: `run` is the id of the current n-gram, `document` the last document counted for it. The sort is stable,
    # so positions ascend within a run and each document is contiguous. Cost: two reads of the keys and one random write
    # per n-gram.
    run, document = -1, -1
    for i in range(keys.size):
        if i == 0 or keys[i] != keys[i - 1]:
            run, document = run + 1, -1
            first[run] = positions[i]
        document_frequency[run] += documents[positions[i]] != document
        document = documents[positions[i]]
        counts[run] += 1
        ngram_ids[positions[i]] = run
    return first, document_frequency, counts


def _assign_word_ids(tokens: Tokens) -> tuple[Int64s, int]:
    """Return the id of each word in byte order, and the number of distinct words."""
    # Not compiled as one loop: LLVM would optimize each loop within it a second time.
    word_ids, first = assign_ids_by_first_use(tokens)
    order = argsort_words(tokens.text, tokens.starts, first)
    # Only distinct words are sorted; the inverse permutation maps ids by first appearance to ids in byte order.
    new_ids = np.empty_like(order)
    new_ids[order] = np.arange(order.size)
    return new_ids[word_ids], order.size


@compiled
def assign_ids_by_first_use(tokens: Tokens) -> tuple[Int64s, Int64s]:
    """Return the id of each word by first appearance, and the first position of each id."""
    text, starts = tokens.text, tokens.starts
    word_ids = np.empty(starts.size - 1, dtype=np.int64)
    first, codes = np.empty_like(word_ids), np.empty(word_ids.size, dtype=np.uint32)
    # Open-addressing hash table with linear probing, at most half full: `slots` holds ids or -1, `codes` the hash of
    # each id, which is compared before the bytes. Invariant: previous words have ids below n. Cost: about two probes
    # per word.
    slots = np.full(1024, -1, dtype=np.int64)
    n = 0
    for word in range(word_ids.size):
        begin, end = starts[word], starts[word + 1] - 1
        code = hash_slice(text, begin, end)
        slot = code & (slots.size - 1)
        while slots[slot] >= 0:
            candidate = first[slots[slot]]
            same = codes[slots[slot]] == code
            if same and is_equal(text, begin, end, text, starts[candidate], starts[candidate + 1] - 1):
                break
            slot = (slot + 1) & (slots.size - 1)
        if slots[slot] < 0:
            slots[slot], first[n], codes[n] = n, word, code
            n += 1
        word_ids[word] = slots[slot]
        if 2 * n > slots.size:
            slots = _enlarge_table(slots, codes, n)
    return word_ids, first[:n].copy()


@compiled
def _enlarge_table(slots: Int64s, codes: NDArray[np.uint32], n: Int) -> Int64s:
    # All entries are distinct, so no bytes are compared. Growth by a factor of four keeps the total cost linear.
    slots = np.full(4 * slots.size, -1, dtype=np.int64)
    for word_id in range(n):
        slot = codes[word_id] & (slots.size - 1)
        while slots[slot] >= 0:
            slot = (slot + 1) & (slots.size - 1)
        slots[slot] = word_id
    return slots


def argsort_words(text: NDArray[np.uint8], starts: Int64s, first: Int64s) -> Int64s:
    """Return the permutation that sorts distinct words by their bytes."""
    # The first eight bytes distinguish most words. Read as big-endian integers, padded with zeros, they are radix
    # sorted in linear time; only ties are compared by all of their bytes.
    keys, order = sort_pairs(_pack_prefixes(text, starts, first), np.arange(first.size), 64)
    tied = np.flatnonzero(keys[1:] == keys[:-1])
    runs = np.split(tied, np.flatnonzero(np.diff(tied) > 1) + 1) if tied.size else []
    begins, ends, data = starts[first].tolist(), (starts[first + 1] - 1).tolist(), text.tobytes() if runs else b""
    for run in runs:
        members = slice(run[0], run[-1] + 2)
        order[members] = sorted(order[members].tolist(), key=lambda i: data[begins[i] : ends[i]])
    return order


@compiled
def _pack_prefixes(text: NDArray[np.uint8], starts: Int64s, first: Int64s) -> NDArray[np.uint64]:
    """Return the first eight bytes of words, given their indices in ``starts``."""
    keys = np.zeros(first.size, dtype=np.uint64)
    for i in range(first.size):
        begin, end = starts[first[i]], starts[first[i] + 1] - 1
        for k in range(8):
            byte = np.uint64(text[begin + k]) if begin + k < end else np.uint64(0)
            keys[i] = (keys[i] << np.uint64(8)) | byte
    return keys
