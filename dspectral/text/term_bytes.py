"""Hash (MurmurHash3), compare and copy terms stored as slices of bytes.

The hash is MurmurHash3 (x86, 32 bits) by Austin Appleby, https://github.com/aappleby/smhasher (public domain).
"""

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.types import Documents, Int, Int64s

# Constants of MurmurHash3: two multipliers of words, one summand of the state, two final multipliers.
C1, C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
SUMMAND = np.uint32(0xE6546B64)
M1, M2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)


@compiled
def load_uint32(text: NDArray[np.uint8], i: Int) -> np.uint32:
    """Return bytes ``text[i : i + 4]`` as a little-endian word."""
    j = np.uint64(i)  # with unsigned indices the compiler merges the four loads
    a, b = np.uint32(text[j]), np.uint32(text[j + np.uint64(1)])
    c, d = np.uint32(text[j + np.uint64(2)]), np.uint32(text[j + np.uint64(3)])
    # The cast undoes Numba's widening of shifts, so that callers are compiled for one type.
    return np.uint32(a | (b << np.uint32(8)) | (c << np.uint32(16)) | (d << np.uint32(24)))


@compiled
def update_hash(state: np.uint32, word: np.uint32) -> np.uint32:
    """Return the hash state after four more bytes; the initial state is 0."""
    h = _rotate_left(np.uint32(state ^ _scramble(word)), np.uint32(13))
    return np.uint32(np.uint32(h * np.uint32(5)) + SUMMAND)


@compiled
def finish_hash(state: np.uint32, tail: np.uint32) -> np.uint32:
    """Return the hash of a string from its last bytes and ``state``, which is already combined with its length."""
    # The length distinguishes strings that differ in trailing zeros. The steps below spread each bit of the state over
    # the hash.
    h = np.uint32(state ^ _scramble(tail))
    h = np.uint32((h ^ (h >> np.uint32(16))) * M1)
    h = np.uint32((h ^ (h >> np.uint32(13))) * M2)
    return np.uint32(h ^ (h >> np.uint32(16)))


@compiled
def hash_slice(text: NDArray[np.uint8], begin: Int, end: Int) -> np.uint32:
    """Return the hash of ``text[begin:end]`` without reading other bytes."""
    # Invariant: `state` is the hash state after text[begin:position], a multiple of four bytes. The last bytes are read
    # one by one, since a 4-byte load could exceed the text.
    state = np.uint32(0)
    position = begin
    while position + 4 <= end:
        state = update_hash(state, load_uint32(text, position))
        position += 4
    word = np.uint32(0)
    for j in range(end - position):
        word = np.uint32(word | (np.uint32(text[position + j]) << np.uint32(8 * j)))
    return finish_hash(state ^ np.uint32(end - begin), word)


@compiled
def _rotate_left(x: np.uint32, n_bits: np.uint32) -> np.uint32:
    return np.uint32(x << n_bits) | np.uint32(x >> (np.uint32(32) - n_bits))


@compiled
def _scramble(word: np.uint32) -> np.uint32:
    return np.uint32(_rotate_left(np.uint32(word * C1), np.uint32(15)) * C2)


def read_only_terms(terms: Documents) -> Documents:
    """Return read-only views of terms, so that kernels are compiled for one type only."""
    return Documents(read_only(terms.data), read_only(terms.offsets))


def gather_slices(data: NDArray[np.uint8], begins: Int64s, ends: Int64s) -> Documents:
    """Concatenate the slices ``data[begins[i]:ends[i]]``."""
    offsets = np.zeros(len(begins) + 1, dtype=np.int64)
    np.cumsum(ends - begins, out=offsets[1:])
    return Documents(_gather(read_only(data), read_only(begins), offsets), offsets)


def take_terms(terms: Documents, indices: Int64s) -> Documents:
    """Return the terms at indices ``indices``, in that order."""
    return gather_slices(terms.data, terms.offsets.take(indices), terms.offsets.take(indices + 1))


def hash_terms(terms: Documents) -> NDArray[np.uint32]:
    """Return the 32-bit MurmurHash3 of each term, shape (n_terms,)."""
    codes: NDArray[np.uint32] = _hash_terms(read_only_terms(terms))
    return codes


@compiled
def is_equal(a: NDArray[np.uint8], i: Int, i_end: Int, b: NDArray[np.uint8], j: Int, j_end: Int) -> bool:
    """Return whether ``a[i:i_end]`` and ``b[j:j_end]`` are the same bytes."""
    return i_end - i == j_end - j and _count_common(a, i, b, j, i_end - i) == i_end - i


@compiled
def compare_slices(a: NDArray[np.uint8], i: Int, i_end: Int, b: NDArray[np.uint8], j: Int, j_end: Int) -> Int:
    """Compare ``a[i:i_end]`` and ``b[j:j_end]`` by bytes: negative, 0 or positive; a prefix comes first."""
    # The first byte that differs decides, else the length.
    shorter = min(i_end - i, j_end - j)
    k = _count_common(a, i, b, j, shorter)
    if k < shorter:
        return np.int64(a[i + k]) - np.int64(b[j + k])
    return (i_end - i) - (j_end - j)


@compiled
def _count_common(a: NDArray[np.uint8], i: Int, b: NDArray[np.uint8], j: Int, max_length: Int) -> Int:
    k = 0
    while k < max_length and a[i + k] == b[j + k]:
        k += 1
    return k


@compiled
def copy_bytes(source: NDArray[np.uint8], begin: Int, end: Int, data: NDArray[np.uint8], out: Int) -> Int:
    """Copy ``source[begin:end]`` to ``data`` at ``out``; return the end of the copy."""
    for i in range(begin, end):
        data[out + i - begin] = source[i]
    return out + end - begin


@compiled
def _gather(data: NDArray[np.uint8], begins: Int64s, offsets: Int64s) -> NDArray[np.uint8]:
    copied = np.empty(offsets[-1], dtype=np.uint8)
    for i in range(begins.size):
        copy_bytes(data, begins[i], begins[i] + offsets[i + 1] - offsets[i], copied, offsets[i])
    return copied


@compiled
def _hash_terms(terms: Documents) -> NDArray[np.uint32]:
    codes = np.empty(terms.offsets.size - 1, dtype=np.uint32)
    for i in range(codes.size):
        codes[i] = hash_slice(terms.data, terms.offsets[i], terms.offsets[i + 1])
    return codes
