"""MurmurHash3 (x86, 32 bits, seed 0), cut in two so that strings with a common start share the work on it.

Source: Austin Appleby, MurmurHash3, https://github.com/aappleby/smhasher (in the public domain).
"""

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled
from dspectral.types import Int

# The constants of the source: two multipliers of words, one summand of the state, two last multipliers.
C1, C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
SUMMAND = np.uint32(0xE6546B64)
M1, M2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)


@compiled
def load(text: NDArray[np.uint8], i: Int) -> np.uint32:
    """Return bytes ``text[i : i + 4]`` as one little-endian word.

    Examples
    --------
    >>> hex(load(np.arange(6, dtype=np.uint8), 1))
    '0x4030201'
    """
    j = np.uint64(i)  # unsigned, for then the compiler makes one load of the four
    a, b = np.uint32(text[j]), np.uint32(text[j + np.uint64(1)])
    c, d = np.uint32(text[j + np.uint64(2)]), np.uint32(text[j + np.uint64(3)])
    # Narrowed, for Numba's shifts widen: those who take a word are compiled for one type.
    return np.uint32(a | (b << np.uint32(8)) | (c << np.uint32(16)) | (d << np.uint32(24)))


@compiled
def absorb(state: np.uint32, word: np.uint32) -> np.uint32:
    """Return the state of the hash after four more bytes; the first state is 0.

    >>> hex(absorb(np.uint32(0), np.uint32(0)))
    '0xe6546b64'
    """
    h = _rotated(np.uint32(state ^ _scrambled(word)), np.uint32(13))
    return np.uint32(np.uint32(h * np.uint32(5)) + SUMMAND)


@compiled
def finish(state: np.uint32, word: np.uint32, n_bytes: Int) -> np.uint32:
    """Return the hash of a string of ``n_bytes`` from the state after all its whole words.

    ``word`` begins with the ``n_bytes % 4`` bytes that are left; its other bytes are not used.

    >>> finish(np.uint32(0), np.uint32(0), 0)
    0
    """
    # The length is mixed in, so that strings that differ in trailing zeros do not collide; each bit of the state then
    # changes about half of the bits of the hash.
    mask = np.uint32((1 << 8 * (n_bytes & 3)) - 1)
    h = np.uint32(state ^ _scrambled(np.uint32(word & mask))) ^ np.uint32(n_bytes)
    h = np.uint32((h ^ (h >> np.uint32(16))) * M1)
    h = np.uint32((h ^ (h >> np.uint32(13))) * M2)
    return np.uint32(h ^ (h >> np.uint32(16)))


@compiled
def hash_slice(text: NDArray[np.uint8], begin: Int, end: Int) -> np.uint32:
    """Return the hash of ``text[begin:end]`` and read no other byte.

    >>> hash_slice(np.frombuffer(b"word", dtype=np.uint8), 0, 4)
    3326792864
    """
    # Invariant: `state` is that after text[begin:position], a whole number of words of four bytes. The last bytes are
    # read one by one: a word from there could go beyond the text.
    state = np.uint32(0)
    position = begin
    while position + 4 <= end:
        state = absorb(state, load(text, position))
        position += 4
    word = np.uint32(0)
    for j in range(end - position):
        word = np.uint32(word | (np.uint32(text[position + j]) << np.uint32(8 * j)))
    return finish(state, word, end - begin)


@compiled
def _rotated(x: np.uint32, n_bits: np.uint32) -> np.uint32:
    return np.uint32(x << n_bits) | np.uint32(x >> (np.uint32(32) - n_bits))


@compiled
def _scrambled(word: np.uint32) -> np.uint32:
    return np.uint32(_rotated(np.uint32(word * C1), np.uint32(15)) * C2)
