"""Terms as slices of bytes: comparing, gathering, hashing and merging sorted lists of them."""

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.text.murmur import hash_slice
from dspectral.types import Documents, Int


def read_only_terms(terms: Documents) -> Documents:
    """Return read-only views of terms, so that a loop is compiled once for all callers.

    >>> read_only_terms(Documents.of(["yes"])).offsets.flags.writeable
    False
    """
    return Documents(read_only(terms.data), read_only(terms.offsets))


def gather(data: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]) -> Documents:
    """Copy the slices ``data[begins[i]:ends[i]]`` one after the other.

    Parameters
    ----------
    data : ndarray of uint8
        Bytes to copy from.
    begins, ends : ndarray of int64, shape (n,)
        Bounds of each slice.

    Returns
    -------
    Documents
        The n slices.

    Examples
    --------
    >>> gather(np.frombuffer(b"abcd", dtype=np.uint8), np.array([2, 0]), np.array([4, 1])).data.tobytes()
    b'cda'
    """
    offsets = np.zeros(len(begins) + 1, dtype=np.int64)
    np.cumsum(ends - begins, out=offsets[1:])
    return Documents(_gather(read_only(data), read_only(begins), offsets), offsets)


def take(terms: Documents, which: NDArray[np.int64]) -> Documents:
    """Return the terms with the numbers ``which``, in that order.

    >>> take(Documents.of(["a", "b", "c"]), np.array([2, 0])).data.tobytes()
    b'ca'
    """
    return gather(terms.data, terms.offsets.take(which), terms.offsets.take(which + 1))


def hash_terms(terms: Documents) -> NDArray[np.uint32]:
    """Return the 32-bit MurmurHash3 of each term, shape (n_terms,).

    >>> hash_terms(Documents.of(["", "word"]))
    array([         0, 3326792864], dtype=uint32)
    """
    codes: NDArray[np.uint32] = _hash_terms(read_only_terms(terms))
    return codes


@compiled
def equal(a: NDArray[np.uint8], i: Int, i_end: Int, b: NDArray[np.uint8], j: Int, j_end: Int) -> bool:
    """Report whether ``a[i:i_end]`` and ``b[j:j_end]`` are the same bytes.

    >>> a = np.frombuffer(b"abab", dtype=np.uint8)
    >>> equal(a, 0, 2, a, 2, 4)
    True
    """
    return i_end - i == j_end - j and _n_common(a, i, b, j, i_end - i) == i_end - i


@compiled
def compare(a: NDArray[np.uint8], i: Int, i_end: Int, b: NDArray[np.uint8], j: Int, j_end: Int) -> Int:
    """Return a negative number, 0 or a positive number as ``a[i:i_end]`` is before, equal to or after ``b[j:j_end]``.

    The order is that of bytes; a slice that the other begins with comes first.

    >>> a = np.frombuffer(b"abc", dtype=np.uint8)
    >>> compare(a, 0, 2, a, 0, 3)
    -1
    """
    # The first byte that differs decides; where there is none, the longer slice is the one with bytes left.
    shorter = min(i_end - i, j_end - j)
    k = _n_common(a, i, b, j, shorter)
    if k < shorter:
        return np.int64(a[i + k]) - np.int64(b[j + k])
    return (i_end - i) - (j_end - j)


@compiled
def _n_common(a: NDArray[np.uint8], i: Int, b: NDArray[np.uint8], j: Int, most: Int) -> Int:
    k = 0
    while k < most and a[i + k] == b[j + k]:
        k += 1
    return k


@compiled
def copy_bytes(source: NDArray[np.uint8], begin: Int, end: Int, data: NDArray[np.uint8], out: Int) -> Int:
    """Copy ``source[begin:end]`` to ``data`` from ``out`` on, and return where the copy ends."""
    for i in range(begin, end):
        data[out + i - begin] = source[i]
    return out + end - begin


@compiled
def _gather(
    data: NDArray[np.uint8], begins: NDArray[np.int64], offsets: NDArray[np.int64]
) -> NDArray[np.uint8]:
    taken = np.empty(offsets[-1], dtype=np.uint8)
    for i in range(begins.size):
        copy_bytes(data, begins[i], begins[i] + offsets[i + 1] - offsets[i], taken, offsets[i])
    return taken


@compiled
def _hash_terms(terms: Documents) -> NDArray[np.uint32]:
    codes = np.empty(terms.offsets.size - 1, dtype=np.uint32)
    for i in range(codes.size):
        codes[i] = hash_slice(terms.data, terms.offsets[i], terms.offsets[i + 1])
    return codes
