"""Exact counting of the n-grams of one block, by sorting whole numbers instead of strings.

The words of the block are numbered in the order of their bytes. A space is smaller than every byte of a word,
so the order of n-grams (words joined by spaces) by their bytes is the order of tuples of word numbers. And an
n-gram is the number of itself without its last word, then the number of that word. Words alone are hashed,
and their bytes are compared: nothing collides.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled
from dspectral.linalg.radix_sort import sort_pairs
from dspectral.text.term_bytes import compare, equal, hash_slice
from dspectral.text.tokens import Tokens
from dspectral.types import Int


class Distinct(NamedTuple):
    """The distinct n-grams of one length, in the order of their bytes."""

    first: NDArray[np.int64]
    document_frequency: NDArray[np.int64]
    counts: NDArray[np.int64]


def distinct_ngrams(tokens: Tokens, longest: int) -> list[Distinct]:
    """Count the n-grams of 1, 2, ..., ``longest`` words, and return one `Distinct` for each length.

    Holds 56 bytes for each word of the block, beside the result.

    >>> text = np.frombuffer(b"no no yes ", dtype=np.uint8)
    >>> levels = distinct_ngrams(Tokens(text, np.array([0, 3, 6, 10]), np.array([0, 3])), 2)
    >>> [level.counts for level in levels]
    [array([2, 1]), array([1, 1])]
    """
    words, n_words = _number_words(tokens)
    document_of = np.repeat(np.arange(len(tokens.bounds) - 1), np.diff(tokens.bounds))
    # numbers[word] is the number of the n-gram of the level before that begins at this word; `_count_runs` writes
    # those of the next level over it. A word too near the end of its document keeps an old number, but no n-gram of
    # more words begins there.
    numbers, n_numbers = np.zeros(len(words), dtype=np.int64), 1
    levels = []
    for length in range(1, longest + 1):
        keys, places = _keys(tokens.bounds, numbers, words, n_words, length)
        keys, places = sort_pairs(keys, places, (n_numbers * n_words).bit_length())
        levels.append(Distinct(*_count_runs(keys, places, document_of, numbers)))
        n_numbers = len(levels[-1].counts)
    return levels


@compiled
def _keys(
    bounds: NDArray[np.int64], numbers: NDArray[np.int64], words: NDArray[np.int64], n_words: Int, length: Int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return a number for each n-gram of this length, and the word that it starts at."""
    keys = np.empty(words.size, dtype=np.uint64)
    places = np.empty(words.size, dtype=np.int64)
    n = 0
    # key(w_1 .. w_l) = number(w_1 .. w_{l-1}) n_words + number(w_l): no two n-grams share a key, and the order of keys
    # is that of bytes, as both numbers are. It fits 64 bits, since there are at most as many distinct n-grams as words.
    for i in range(bounds.size - 1):
        for word in range(bounds[i], bounds[i + 1] - length + 1):
            keys[n] = numbers[word] * n_words + words[word + length - 1]
            places[n] = word
            n += 1
    return keys[:n], places[:n]


@compiled
def _count_runs(
    keys: NDArray[np.uint64],
    places: NDArray[np.int64],
    document_of: NDArray[np.int64],
    numbers: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Count the runs of equal keys and the documents in each, and number the n-gram at each of its places."""
    n = 0
    for i in range(keys.size):
        n += i == 0 or keys[i] != keys[i - 1]
    first = np.empty(n, dtype=np.int64)
    document_frequency, counts = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    # Invariant: `run` is the number of the n-gram before place i, `document` the last document counted for it. The
    # sort was stable, so places rise within a run and each document is met in one piece. With the loop above, keys are
    # read twice; `numbers` is written at far places, once each.
    run, document = -1, -1
    for i in range(keys.size):
        if i == 0 or keys[i] != keys[i - 1]:
            run, document = run + 1, -1
            first[run] = places[i]
        document_frequency[run] += document_of[places[i]] != document
        document = document_of[places[i]]
        counts[run] += 1
        numbers[places[i]] = run
    return first, document_frequency, counts


@compiled
def _number_words(tokens: Tokens) -> tuple[NDArray[np.int64], int]:
    """Return the number of each word in the order of bytes, and how many distinct words there are."""
    names, first = name_words(tokens)
    order = sorted_words(tokens.text, tokens.starts, first)
    # The inverse of the order turns numbers by first appearance into numbers by bytes: only distinct words are sorted.
    numbers = np.empty(order.size, dtype=np.int64)
    for i in range(order.size):
        numbers[order[i]] = i
    for word in range(names.size):
        names[word] = numbers[names[word]]
    return names, order.size


@compiled
def name_words(tokens: Tokens) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of each word by first appearance, and where each number appears first."""
    text, starts = tokens.text, tokens.starts
    names = np.empty(starts.size - 1, dtype=np.int64)
    first, codes = np.empty_like(names), np.empty(names.size, dtype=np.uint32)
    # An open hash table with linear probing, at most half full, in the cache as long as words are few: `slots` holds
    # numbers or -1, `codes` the hash of each number, which is compared before bytes are. Invariant: the words before
    # this one have their numbers, below n. Cost: about two probes a word.
    slots = np.full(1024, -1, dtype=np.int64)
    n = 0
    for word in range(names.size):
        begin, end = starts[word], starts[word + 1] - 1
        code = hash_slice(text, begin, end)
        slot = code & (slots.size - 1)
        while slots[slot] >= 0:
            other = first[slots[slot]]
            same = codes[slots[slot]] == code
            if same and equal(text, begin, end, text, starts[other], starts[other + 1] - 1):
                break
            slot = (slot + 1) & (slots.size - 1)
        if slots[slot] < 0:
            slots[slot], first[n], codes[n] = n, word, code
            n += 1
        names[word] = slots[slot]
        if 2 * n > slots.size:
            slots = _enlarged(slots, codes, n)
    return names, first[:n].copy()


@compiled
def _enlarged(slots: NDArray[np.int64], codes: NDArray[np.uint32], n: Int) -> NDArray[np.int64]:
    # All names are distinct, so that their hashes are enough to place them: no bytes are compared. Four times the room
    # keeps the cost of all enlargements together linear in the names.
    slots = np.full(4 * slots.size, -1, dtype=np.int64)
    for name in range(n):
        slot = codes[name] & (slots.size - 1)
        while slots[slot] >= 0:
            slot = (slot + 1) & (slots.size - 1)
        slots[slot] = name
    return slots


@compiled
def sorted_words(
    text: NDArray[np.uint8], starts: NDArray[np.int64], words: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the order of distinct words by their bytes: sorted by the first eight, then compared where those agree."""
    # Comparing words reads far memory twice for each comparison, and the first eight bytes tell most words apart: read
    # once, big end first, they are sorted as whole numbers in linear time. A shorter word is filled up with zeros,
    # which sort as its end does.
    keys = np.zeros(words.size, dtype=np.uint64)
    for i in range(words.size):
        begin, end = starts[words[i]], starts[words[i] + 1] - 1
        for k in range(8):
            byte = np.uint64(text[begin + k]) if begin + k < end else np.uint64(0)
            keys[i] = (keys[i] << np.uint64(8)) | byte
    keys, order = sort_pairs(keys, np.arange(words.size), 64)
    # Invariant: order[:low] is final. A run low .. high - 1 has the first eight bytes in common.
    low = 0
    while low < words.size:
        high = low + 1
        while high < words.size and keys[high] == keys[low]:
            high += 1
        if high > low + 1:
            run = _sorted_by_comparison(text, starts, words, order[low:high].copy())
            for i in range(run.size):  # not as a slice, which takes seconds to compile
                order[low + i] = run[i]
        low = high
    return order


@compiled
def _sorted_by_comparison(
    text: NDArray[np.uint8], starts: NDArray[np.int64], words: NDArray[np.int64], order: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return some places of ``words`` in the order of their bytes: a merge sort, which compares least."""
    # Invariant: before the pass of this width, every run order[low : low + width] is sorted. Each pass merges pairs
    # of runs from `order` into `spare`; there are log2(n) passes of at most n comparisons.
    spare = np.empty_like(order)
    width = 1
    while width < order.size:
        for low in range(0, order.size, 2 * width):
            i, middle = low, min(low + width, order.size)
            j, end = middle, min(low + 2 * width, order.size)
            for out in range(low, end):
                left = bool(j == end)
                if i < middle and j < end:
                    a, b = words[order[i]], words[order[j]]
                    left = bool(
                        compare(text, starts[a], starts[a + 1] - 1, text, starts[b], starts[b + 1] - 1) < 0
                    )
                spare[out] = order[i if left else j]
                i, j = i + left, j + (not left)
        order, spare = spare, order
        width *= 2
    return order
